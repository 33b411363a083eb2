"""`value.attr`: fields, methods, properties and what torch and numpy objects tell of themselves."""

from __future__ import annotations

import ast

from h2dlint.facts import flags
from h2dlint.facts.domain import (
    NOTHING,
    Array,
    Available,
    Class,
    Const,
    Device,
    DeviceValue,
    DType,
    Function,
    Instance,
    Loader,
    Mapping,
    Method,
    ModuleValue,
    Named,
    Number,
    Sequence,
    Unknown,
    Value,
    as_assumed,
    join,
    one_of_several,
)
from h2dlint.facts.frame import Frame, key_of
from h2dlint.facts.operations import torch_call
from h2dlint.facts.torch_api import DTYPES, METHODS, Effect


def attribute_of(value: Value, node: ast.Attribute, frame: Frame) -> Value:
    """`value.attr`."""
    name = node.attr
    if isinstance(value, Unknown):
        return _unknown_attribute(value, name, node)
    if isinstance(value, Instance):
        return instance_attribute(value, name, node, frame)
    if isinstance(value, Named):
        return named_attribute(f"{value.name}.{name}")
    if isinstance(value, Array):
        return _array_attribute(value, name, node, frame)
    if isinstance(value, ModuleValue):
        return frame.interpreter.member(value, name)
    if isinstance(value, DeviceValue):
        return _device_attribute(value, name, node, frame)
    if isinstance(value, Class):
        return _class_attribute(value, name, frame)
    if isinstance(value, Sequence) and name in ("values", "indices") and isinstance(value.any_item(), Array):
        return value.any_item()  # `x.max(dim=0).values`
    if isinstance(value, (Sequence, Mapping, Loader)):
        return Method(value, name)
    return NOTHING


def named_attribute(dotted: str) -> Value:
    """A name outside the project: a dtype, an availability flag, or just the longer name."""
    root, _, rest = dotted.partition(".")
    if root == "torch" and rest in DTYPES:
        return DType(rest)
    if root not in ("torch", "numpy") and flags.is_availability_name(dotted) and dotted.rpartition(".")[2].isupper():
        return Available()
    return Named(dotted)


def instance_attribute(value: Instance, name: str, node: ast.AST, frame: Frame) -> Value:
    """An attribute of a project object: a field of this very object, a method, or what the class stores."""
    for field, held in value.fields or ():
        if field == name:
            return held
    if value.info is None:
        return NOTHING
    found = class_member(value.info, name, frame)
    if isinstance(found, Function):
        return _bound(found, value, node, frame)
    stored = frame.interpreter.attribute(value.info, name)
    if isinstance(stored, Unknown) and found is not None:
        if _is_none(found):  # no answer, where some method replaces it, while it is not known with what
            return join((found, stored)) if value.info.methods_storing(name) else stored
        return _as_default(found)
    return stored if _is_own(node, frame) else one_of_several(stored)


def _as_default(value: Value) -> Value:
    """A switch or a device of the class: an object, or a class derived from it, may have it the other way."""
    if isinstance(value, Const) and isinstance(value.value, bool):
        return Const(value.value, True, value.origin)
    return as_assumed(value)


def _is_none(value: Value) -> bool:
    """Whether a class leaves an attribute empty: somebody fills it, who is not followed."""
    return isinstance(value, Const) and value.value is None


def _is_own(node: ast.AST, frame: Frame) -> bool:
    """Whether an attribute is asked of the method's own object, which is one, not of any of its class."""
    base = node.value if isinstance(node, ast.Attribute) else None
    return isinstance(base, ast.Name) and base.id == frame.self_name


def _bound(function: Function, receiver: Value, node: ast.AST, frame: Frame) -> Value:
    decorators = decorator_names(function.node)
    if "staticmethod" in decorators:
        return function
    if "classmethod" in decorators:
        return Function(function.node, function.module, function.owner, Class(function.owner))
    bound = Function(function.node, function.module, function.owner, receiver, function.scope)
    if decorators & {"property", "cached_property", "functools.cached_property"}:
        return frame.interpreter.call_function(bound, [], {}, frame, node, "")
    return bound


def decorator_names(node: ast.AST) -> frozenset[str]:
    """The dotted names of a function's decorators, calls taken for what they call."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return frozenset(map(_decorator_name, decorators)) if decorators else _NONE


_NONE: frozenset[str] = frozenset()


def _decorator_name(decorator: ast.expr) -> str:
    return key_of(decorator.func if isinstance(decorator, ast.Call) else decorator)


_TRANSPARENT = frozenset(
    [
        "staticmethod", "classmethod", "property", "cached_property", "setter", "getter", "deleter", "abstractmethod",
        "override", "final", "overload", "no_grad", "enable_grad", "inference_mode", "set_grad_enabled", "lru_cache",
        "cache", "wraps", "compile", "disable", "allow_in_graph", "ignore", "unused", "export", "script_method",
        "record_function", "range", "annotate", "fixture", "parametrize", "mark", "profile", "deprecated",
        "contextmanager", "asynccontextmanager", "jit", "autotune", "heuristics", "custom_op", "register_fake",
        "singledispatch", "singledispatchmethod", "total_ordering", "dataclass", "autocast", "custom_fwd", "custom_bwd",
    ]
)  # fmt: skip
"""Decorators that leave what a function returns as it is, or that calls.py treats by itself."""


def is_transparent(decorator: ast.expr) -> bool:
    """Whether a decorator is known not to change what a call gives."""
    return _decorator_name(decorator).rpartition(".")[2] in _TRANSPARENT


def class_member(info: object, name: str, frame: Frame, depth: int = 0) -> Value | None:
    """A method or class-level assignment, looked up along the project's base classes."""
    methods = info.methods  # type: ignore[attr-defined]
    if name in methods:
        return Function(methods[name], info.module, info)  # type: ignore[attr-defined]
    assigned = info.assigned.get(name)  # type: ignore[attr-defined]
    if assigned is not None and assigned.value is not None and not info.is_dataclass:  # type: ignore[attr-defined]
        return frame.interpreter.resolve(info.module, f"{info.qualname}.{name}")  # type: ignore[attr-defined]
    if depth < 6:
        for base in frame.interpreter.class_bases(info):  # type: ignore[arg-type]
            if isinstance(base, Class):
                found = class_member(base.info, name, frame, depth + 1)
                if found is not None:
                    return found
    return None


def _class_attribute(value: Class, name: str, frame: Frame) -> Value:
    found = class_member(value.info, name, frame)
    if isinstance(found, Function) and "classmethod" in decorator_names(found.node):
        return Function(found.node, found.module, found.owner, value)
    return NOTHING if found is None else found


def _device_attribute(value: DeviceValue, name: str, node: ast.Attribute, frame: Frame) -> Value:
    if name == "type":
        return NOTHING if value.device.is_unknown else Const(value.device.kind)
    return NOTHING


def _array_attribute(array: Array, name: str, node: ast.Attribute, frame: Frame) -> Value:
    if array.kind == "ndarray":
        return _ndarray_attribute(array, name, node, frame)
    if array.kind == "module" or (array.kind == "batch" and name not in METHODS):
        if array.kind == "module" and name in ("weight", "bias", "data"):
            return array.but(kind="tensor")
        return array if array.kind == "batch" else Method(array, name)
    if name == "device":
        return DeviceValue(array.device)
    if name == "dtype":
        return DType(array.dtype) if array.dtype else Unknown(why="dtype")
    if name == "shape":
        return shape_value(array)
    if name == "ndim":
        return Const(array.layout.rank) if array.layout.rank is not None else Unknown(why="number")
    if name in ("is_cuda", "is_cpu"):
        if array.device.is_unknown:
            return Unknown()
        return Const(array.device.is_cpu == (name == "is_cpu"))
    row = METHODS.get(name)
    if row is not None and row.effect is Effect.VIEW and name in _VIEW_PROPERTIES:
        return call_row(name, array, node, frame)
    if name == "grad" or (array.by_name and row is None and not name.endswith("_")):  # it need not be a tensor at all
        return NOTHING
    return Method(array, name)


_VIEW_PROPERTIES = frozenset({"data", "T", "mT", "H", "mH", "real", "imag"})


def call_row(name: str, array: Array, node: ast.AST, frame: Frame) -> Value:
    """A property that is a view."""
    return torch_call(METHODS[name], name, array, [], {}, node, frame)


def _ndarray_attribute(array: Array, name: str, node: ast.Attribute, frame: Frame) -> Value:
    if name == "T":
        return _as_ndarray(call_row("T", array.but(kind="tensor"), node, frame))
    if name == "shape":
        return shape_value(array)
    if name == "dtype":
        return DType(array.dtype) if array.dtype is not None else Unknown(why="dtype")
    if name in ("size", "ndim", "nbytes"):
        return Unknown(why="number")
    return Method(array, name)


def _as_ndarray(value: Value) -> Value:
    return value.but(kind="ndarray") if isinstance(value, Array) else value


def shape_value(array: Array) -> Value:
    """`x.shape`: the sizes that are known."""
    sizes = array.layout.sizes
    if sizes is None:
        return Unknown("?.shape")
    return Sequence(
        tuple(
            Const(size) if isinstance(size, int) else Unknown(why="number") if size is None else Number(size)
            for size in sizes
        ),
        may_be_tuple=True,
    )


def _unknown_attribute(value: Unknown, name: str, node: ast.Attribute) -> Value:
    key = f"{value.key}.{name}" if value.key else ""
    if name == "device":
        return DeviceValue(Device("", key))
    if name == "dtype":
        return Unknown(key, "dtype")
    if name == "shape":
        return Unknown(key, "shape")
    if name in ("data", "T", "mT"):
        return Unknown(key)
    return Unknown(key, value.why if value.why == "batch" else "")
