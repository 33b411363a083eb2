"""Pinned buffers that are made where there is none yet, and kept: `if self.stage is None: self.stage = ...`.

Such a buffer is new in one call and there already in the next. So where the way that has made it meets a way that has
not, what an attribute, a global variable or a dict among them holds is one memory of its own: the one that was there,
or its replacement. It gets the number of what was there before, where that is known, else a new one, and is no longer
among what each call makes anew.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache

from msgspec.structs import replace

from h2dlint.facts.domain import (
    Alternative,
    Array,
    Choice,
    Instance,
    Mapping,
    Memory,
    Sequence,
    Unknown,
    Value,
    alternatives,
    arrays_of,
)
from h2dlint.facts.frame import Environment, Frame
from h2dlint.facts.parts import is_one_of_several

Renames = dict[int, int]
"""Storages that a branch has made, and what they are called where it meets another."""

_DEPTH = 4


def is_lasting(key: str, frame: Frame) -> bool:
    """Whether what is stored under a name is there when the function is called again: an attribute of its object or
    class, a variable of its module, or an attribute of what that holds.
    """
    base = key.partition(".")[0]
    if base != key and (base == frame.self_name or base in frame.module.classes):
        return True
    return base in frame.globals or (base in frame.module.assigned and not _is_local(base, frame.function))


def _is_local(name: str, function: ast.AST | None) -> bool:
    """Whether a function has a variable of its own by this name: it may change what a module's holds without."""
    return function is None or name in _locals_of(function)


@lru_cache(maxsize=256)
def _locals_of(function: ast.AST) -> frozenset[str]:
    nodes = [node for node in ast.walk(function) if isinstance(node, (ast.Name, ast.arg))]
    return frozenset(
        node.arg if isinstance(node, ast.arg) else node.id
        for node in nodes
        if isinstance(node, ast.arg) or isinstance(node.ctx, ast.Store)
    )


def lasting(env: Environment, frame: Frame) -> Environment:
    """The part of the variables that outlives the call."""
    return {key: value for key, value in env.items() if is_lasting(key, frame)}


def kept_on_some(ends: list[Environment], made: Collection[int], frame: Frame) -> Renames:
    """Of the storages in `made`, those that some of the ways have put where others have left what was there."""
    found: Renames = {}
    for end in ends:
        for key, value in end.items():
            for storage in set(storages(value)) & set(made) - set(found) if is_lasting(key, frame) else ():
                before = [other.get(key) for other in ends if other is not end]
                if _is_left_elsewhere(value, before, storage):
                    found[storage] = next(_same_place(before), 0) or frame.interpreter.fresh_storage()
                    frame.kept[found[storage]] = key
    return found


def kept_by_default(value: Value, key: str, frame: Frame) -> Value:
    """What `key.setdefault(...)` is given: only the first is kept, and that is not new in the next call."""
    new = frame.allocated.intersection(storages(value)) if is_lasting(key, frame) else ()
    renames = {storage: frame.interpreter.fresh_storage() for storage in new}
    frame.allocated.difference_update(renames)
    frame.kept.update(dict.fromkeys(renames.values(), key))
    return renamed(value, renames)


def _is_left_elsewhere(value: Value, before: list[Value | None], storage: int) -> bool:
    """Whether another way holds what an earlier call has put there: not the new memory, nor something else that is new
    as well.
    """
    if any(held is not None and storage in set(storages(held)) for held in before):
        return False
    if isinstance(value, Sequence) and any(isinstance(held, Sequence) for held in before):
        return False  # a list that has grown: nobody knows which of its items is taken
    return any(held is None or any(_is_from_before(way.value) for way in alternatives(held)) for held in before)


def _is_from_before(value: Value) -> bool:
    if isinstance(value, Array):
        return value.memory is Memory.PINNED
    return isinstance(value, Mapping) or (isinstance(value, Unknown) and value.key != "")


def _same_place(before: list[Value | None]) -> Iterator[int]:
    """What was there before, where that is one pinned tensor."""
    for held in before:
        found = list(arrays_of(held)) if held is not None else []
        if len(found) == 1 and found[0].memory is Memory.PINNED and not is_one_of_several(found[0].part):
            yield found[0].storage


def storages(value: Value, depth: int = 0) -> Iterator[int]:
    """The numbers of the pinned memory that a value is or holds."""
    for way in alternatives(value):
        held = way.value
        if isinstance(held, Array):
            if held.memory is Memory.PINNED and held.storage:
                yield held.storage
        elif depth < _DEPTH:
            for inner in _inside(held):
                yield from storages(inner, depth + 1)


def _inside(value: Value) -> Iterator[Value]:
    if isinstance(value, Sequence):
        yield from (value.item,) if value.items is None else value.items
    elif isinstance(value, Mapping):
        yield from (held for _, held in value.items)
        if value.item is not None:
            yield value.item
    elif isinstance(value, Instance) and value.fields:
        yield from (held for _, held in value.fields)


def renamed_all(env: Environment, renames: Renames) -> Environment:
    """The variables after a renaming."""
    return {key: renamed(value, renames) for key, value in env.items()}


def renamed(value: Value, renames: Renames, depth: int = 0) -> Value:
    """A value in which storages are called by their new numbers; itself where it holds none of them."""
    if depth > _DEPTH or renames.keys().isdisjoint(storages(value)):
        return value

    def inner(held: Value) -> Value:
        return renamed(held, renames, depth + 1)

    if isinstance(value, Choice):
        return Choice(tuple(Alternative(renamed(way.value, renames, depth), way.tags) for way in value.alternatives))
    if isinstance(value, Array):
        return value.but(storage=renames[value.storage])
    return _rebuilt(value, inner)


def _rebuilt(value: Value, change: Callable[[Value], Value]) -> Value:
    if isinstance(value, Sequence):
        return (
            replace(value, item=change(value.item))
            if value.items is None
            else replace(value, items=tuple(map(change, value.items)))
        )
    if isinstance(value, Mapping):
        items = tuple((key, change(held)) for key, held in value.items)
        return Mapping(items, None if value.item is None else change(value.item))
    if isinstance(value, Instance) and value.fields:
        return Instance(value.info, tuple((name, change(held)) for name, held in value.fields))
    return value
