"""What an annotation says of a parameter or field that nothing else is known of."""

from __future__ import annotations

import ast

from h2dlint.facts.domain import (
    CPU,
    Array,
    Choice,
    Class,
    Const,
    Device,
    DeviceValue,
    Instance,
    Mapping,
    Memory,
    ModuleValue,
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


def declared_object(annotation: ast.expr | None, frame: Frame) -> Value | None:
    """What an annotation says of a result that nothing else is known of, where that is an object of the project or a
    container of such. None where it says less: two calls may well give tensors or numbers that differ.
    """
    return _objects(annotated_value(annotation, "", frame))


def holds_no_tensors(annotation: ast.expr) -> bool:
    """Whether an annotation says of a value that it is made of numbers, texts and the like alone."""
    if isinstance(annotation, ast.Constant):
        return annotation.value is None
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return holds_no_tensors(annotation.left) and holds_no_tensors(annotation.right)
    if isinstance(annotation, ast.Subscript):
        name = key_of(annotation.value).rpartition(".")[2]
        inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        return name in _OF_OTHERS and all(map(holds_no_tensors, inner))
    return isinstance(annotation, ast.Name) and annotation.id in _NO_TENSORS


def is_number(annotation: ast.expr) -> bool:
    """Whether an annotation says that a value is a number, or may be None instead."""
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return is_number(annotation.left) and is_number(annotation.right)
    if isinstance(annotation, ast.Subscript) and key_of(annotation.value).rpartition(".")[2] == "Optional":
        return is_number(annotation.slice)
    return isinstance(annotation, ast.Name) and annotation.id in ("int", "float")


_OF_OTHERS = _SEQUENCES | _MAPPINGS | {"tuple", "Tuple", "Optional", "Union"}
_NO_TENSORS = frozenset({"int", "float", "str", "bytes"})


def _objects(value: Value) -> Value | None:
    if isinstance(value, Instance):
        return value
    if isinstance(value, Choice):
        ways = [_objects(way.value) if not _is_none(way.value) else way.value for way in value.alternatives]
        return value if all(way is not None for way in ways) and not all(map(_is_none, ways)) else None
    if isinstance(value, Sequence) and value.items is not None:
        items = [_objects(item) or Unknown() for item in value.items]
        return Sequence(tuple(items)) if any(isinstance(item, Instance) for item in items) else None
    if isinstance(value, Sequence):
        item = _objects(value.item)
        return Sequence(None, item) if item is not None else None
    if isinstance(value, Mapping):
        item = _objects(value.item) if value.item is not None else None
        return Mapping((), item) if item is not None else None
    return None


def _is_none(value: Value | None) -> bool:
    return isinstance(value, Const) and value.value is None


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
        item = annotated_value(inner[0], f"{key}[*]", frame)
        return Sequence(None, item, Symbol(f"len({key})"), may_be_tuple=name not in ("list", "List"))
    if name in ("tuple", "Tuple"):
        if len(inner) == 2 and isinstance(inner[1], ast.Constant) and inner[1].value is Ellipsis:
            return Sequence(None, annotated_value(inner[0], f"{key}[*]", frame), may_be_tuple=True)
        items = tuple(annotated_value(part, f"{key}[{position}]", frame) for position, part in enumerate(inner))
        return Sequence(items, may_be_tuple=True)
    if name in _MAPPINGS and len(inner) == 2:
        return Mapping((), annotated_value(inner[1], f"{key}[*]", frame))
    if name in ("Annotated", "Final", "ClassVar"):
        return annotated_value(inner[0], key, frame)
    if name == "NDArray":
        return _ndarray()
    if name in ("type", "Type"):
        return _class_named(inner[0], frame) or Unknown(key)
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
        return Sequence(None, Unknown(f"{key}[*]"), Symbol(f"len({key})"), may_be_tuple=last == "tuple")
    found = _class_named(annotation, frame)
    return Instance(found.info) if found is not None else Unknown(key)


def _class_named(node: ast.expr, frame: Frame) -> Class | None:
    """The class of the project that a plain or dotted name stands for."""
    if isinstance(node, ast.Name):
        found = frame.lookup(node.id) or frame.interpreter.resolve(frame.module, node.id)
        return found if isinstance(found, Class) else None
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        holder = frame.interpreter.resolve(frame.module, node.value.id)
        member = frame.interpreter.member(holder, node.attr) if isinstance(holder, ModuleValue) else None
        return member if isinstance(member, Class) else None
    return None


def classes_named(node: ast.expr, frame: Frame) -> list[Class] | None:
    """The classes that the second argument of `isinstance` names; None when one of them is not the project's."""
    nodes = node.elts if isinstance(node, ast.Tuple) else [node]
    found = [_class_named(one, frame) for one in nodes]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None


def _ndarray() -> Value:
    """An ndarray from elsewhere: it may be an alias of pinned memory."""
    return Array("ndarray", CPU, Memory.UNKNOWN, DENSE_UNRANKED, from_numpy=True)
