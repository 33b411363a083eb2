"""What an annotation says of a parameter or field that nothing else is known of."""

from __future__ import annotations

import ast

from h2dlint.facts.domain import (
    CPU,
    Array,
    Class,
    Const,
    Device,
    DeviceValue,
    Instance,
    Mapping,
    Memory,
    Number,
    Sequence,
    Unknown,
    Value,
    join,
)
from h2dlint.facts.frame import Frame, key_of
from h2dlint.facts.layout import DENSE_UNRANKED, Symbol

_SEQUENCES = frozenset(
    {
        "list",
        "List",
        "Sequence",
        "Iterable",
        "Collection",
        "Iterator",
        "set",
        "Set",
        "deque",
        "Generator",
        "MutableSequence",
    }
)
_MAPPINGS = frozenset({"dict", "Dict", "Mapping", "MutableMapping", "OrderedDict", "defaultdict", "DefaultDict"})


def annotated_value(annotation: ast.expr | None, key: str, frame: Frame) -> Value:
    """A value of the annotated type; `key` names it, so that two uses of it are known to be the same."""
    if annotation is None:
        return Unknown(key)
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            return annotated_value(ast.parse(annotation.value, mode="eval").body, key, frame)
        except (SyntaxError, ValueError, RecursionError):
            return Unknown(key)
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return _either([annotation.left, annotation.right], key, frame)
    if isinstance(annotation, ast.Subscript):
        return _generic(annotation, key, frame)
    if isinstance(annotation, ast.Constant) and annotation.value is None:
        return Const(None)
    return _plain(annotation, key, frame)


def _either(kinds: list[ast.expr], key: str, frame: Frame) -> Value:
    values = [annotated_value(kind, key, frame) for kind in kinds]
    known = [value for value in values if not isinstance(value, Unknown)]
    return (
        join(values)
        if len(known) == len(values)
        else join([*[value for value in known if isinstance(value, Const)], Unknown(key)])
    )


def _generic(annotation: ast.Subscript, key: str, frame: Frame) -> Value:
    name = key_of(annotation.value).rpartition(".")[2]
    inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    if name == "Optional":
        return _either([*inner, ast.Constant(None)], key, frame)
    if name == "Union":
        return _either(list(inner), key, frame)
    if name in _SEQUENCES:
        return Sequence(None, annotated_value(inner[0], f"{key}[*]", frame), Symbol(f"len({key})"))
    if name in ("tuple", "Tuple"):
        if len(inner) == 2 and isinstance(inner[1], ast.Constant) and inner[1].value is Ellipsis:
            return Sequence(None, annotated_value(inner[0], f"{key}[*]", frame))
        return Sequence(
            tuple(annotated_value(part, f"{key}[{position}]", frame) for position, part in enumerate(inner))
        )
    if name in _MAPPINGS and len(inner) == 2:
        return Mapping((), annotated_value(inner[1], f"{key}[*]", frame))
    if name in ("Annotated", "Final", "ClassVar"):
        return annotated_value(inner[0], key, frame)
    if name == "NDArray":
        return _ndarray()
    return Unknown(key)


def _plain(annotation: ast.expr, key: str, frame: Frame) -> Value:
    dotted = key_of(annotation)
    last = dotted.rpartition(".")[2]
    if last == "int":
        return Number(Symbol(key))
    if last == "float":
        return Unknown(key, "number")
    if last in ("ndarray", "NDArray"):
        return _ndarray()
    if dotted in ("torch.device",):
        return DeviceValue(Device("", key))
    if dotted == "torch.dtype":
        return Unknown(key, "dtype")
    if last in ("list", "tuple"):
        return Sequence(None, Unknown(f"{key}[*]"), Symbol(f"len({key})"))
    if isinstance(annotation, ast.Name):
        found = frame.interpreter.resolve(frame.module, annotation.id)
        if isinstance(found, Class):
            return Instance(found.info)
    return Unknown(key)


def _ndarray() -> Value:
    """An ndarray from elsewhere: it may be an alias of pinned memory."""
    return Array("ndarray", CPU, Memory.UNKNOWN, DENSE_UNRANKED, from_numpy=True)
