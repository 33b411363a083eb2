"""`pinned-factories`: functions whose tensors lie in pinned memory because the project says so."""

from __future__ import annotations

import ast

from h2dlint.facts.domain import CPU, Array, Function, Mapping, Memory, Sequence, Unknown, Value, mapped
from h2dlint.facts.frame import Frame
from h2dlint.facts.layout import DENSE_UNRANKED


def is_declared(name: str, declared: tuple[str, ...]) -> bool:
    """Whether the settings name the function; a module may be known by the end of its dotted name only."""
    return any(entry == name or entry.endswith(f".{name}") for entry in declared)


def name_of(function: Function) -> str:
    """The dotted name of a project function; empty for one that has none."""
    unit = function.module.unit_of_node.get(function.node)
    return "" if unit is None or not function.module.name else f"{function.module.name}.{unit.qualname}"


def as_declared(value: Value, name: str, node: ast.AST, frame: Frame) -> Value:
    """What a declared factory returns: its host tensors are pinned, and what it is not known to return is one."""

    def pinned(held: Value) -> Value:
        label = name.rpartition(".")[2]
        trail = frame.trail(node, label, f"`{label}` is one of the `pinned-factories`")
        if isinstance(held, Array) and held.kind == "tensor" and not held.device.is_accelerator:
            return held.but(device=CPU, memory=Memory.PINNED, trail=trail, from_numpy=False, index_built=False)
        if isinstance(held, Sequence) and held.items is not None:
            return Sequence(tuple(mapped(item, pinned) for item in held.items), held.item, held.length)
        if isinstance(held, Mapping):
            return Mapping(tuple((key, mapped(item, pinned)) for key, item in held.items), held.item)
        if isinstance(held, Unknown):
            storage = frame.interpreter.fresh_storage()
            return Array("tensor", CPU, Memory.PINNED, DENSE_UNRANKED, trail, storage=storage)
        return held

    return mapped(value, pinned)
