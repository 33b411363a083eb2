"""What a loop variable or an unpacking target is."""

from __future__ import annotations

import ast

from h2dlint.facts.attributes import class_member
from h2dlint.facts.domain import (
    NOTHING,
    Array,
    Const,
    Function,
    Instance,
    Loader,
    Mapping,
    Sequence,
    Unknown,
    Value,
    alternatives,
    join,
    mapped,
)
from h2dlint.facts.frame import Frame
from h2dlint.facts.indexing import rows

MAX_UNROLLED = 4
"""A loop or comprehension over at most this many known items is followed item by item."""


def loop_items(iterated: Value, node: ast.AST, frame: Frame) -> list[Value]:
    """What the loop variable is: one value per known item of a short sequence, else one for all."""
    if isinstance(iterated, Mapping) and iterated.item is None and 0 < len(iterated.items) <= MAX_UNROLLED:
        return [Const(key) for key, _ in iterated.items]
    if isinstance(iterated, Sequence) and iterated.items is not None and 0 < len(iterated.items) <= MAX_UNROLLED:
        return list(iterated.items)
    return [item_of(iterated, node, frame)]


def item_of(iterated: Value, node: ast.AST, frame: Frame) -> Value:
    """Any item of an iterable."""
    return mapped(iterated, lambda value: _item_of(value, node, frame))


def _item_of(value: Value, node: ast.AST, frame: Frame) -> Value:
    if isinstance(value, Sequence):
        return value.any_item()
    if isinstance(value, Array):
        return rows(value, node, frame)
    if isinstance(value, Loader):
        return value.batch
    if isinstance(value, Mapping):
        return join([Const(key) for key, _ in value.items]) if value.items and value.item is None else NOTHING
    if isinstance(value, Instance) and value.info is not None:
        method = class_member(value.info, "__iter__", frame)
        if isinstance(method, Function):
            bound = Function(method.node, method.module, method.owner, value)
            produced = frame.interpreter.call_function(bound, [], {}, frame, node, "")
            return produced.any_item() if isinstance(produced, Sequence) else NOTHING
    return Unknown(f"{value.key}[*]") if isinstance(value, Unknown) and value.key else NOTHING


def unpacked(value: Value, count: int, node: ast.AST, frame: Frame) -> list[Value]:
    """The parts of a value that is unpacked into `count` targets."""
    starred = next(
        (position for position, item in enumerate(getattr(node, "elts", ())) if isinstance(item, ast.Starred)), None
    )
    if (
        starred is not None
        and isinstance(value, Sequence)
        and value.items is not None
        and len(value.items) >= count - 1
    ):
        after = count - starred - 1
        middle = value.items[starred : len(value.items) - after]
        return (
            [*value.items[:starred], join(middle), *value.items[len(value.items) - after :]]
            if middle
            else [*value.items[:starred], NOTHING, *value.items[starred:]]
        )
    ways = alternatives(value)
    if len(ways) > 1:
        columns = [unpacked(way.value, count, node, frame) for way in ways]
        return [join(column, [way.tags for way in ways]) for column in zip(*columns, strict=True)]
    inner = ways[0].value
    if isinstance(inner, Sequence) and inner.items is not None and len(inner.items) == count:
        return list(inner.items)
    if isinstance(inner, Instance) and inner.fields is not None and len(inner.fields) == count:
        return [held for _, held in inner.fields]
    if isinstance(inner, Unknown) and inner.why == "shape":
        return [Unknown(f"{inner.key}[{at}]" if inner.key else "", "number") for at in range(count)]
    if isinstance(inner, Unknown) and inner.key:
        return [Unknown(f"{inner.key}[{position}]") for position in range(count)]
    return [item_of(inner, node, frame)] * count
