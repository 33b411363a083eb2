"""Guards: what a condition says about the values that it tests, on the branch where it holds or fails."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TypeAlias, TypeGuard

from h2dlint.facts import flags
from h2dlint.facts.annotations import classes_named
from h2dlint.facts.domain import (
    ACCELERATOR,
    ACCELERATOR_NAMES,
    CPU,
    Alternative,
    Array,
    Available,
    Choice,
    Class,
    ConfigFlag,
    Const,
    Device,
    DeviceValue,
    Instance,
    Mapping,
    Memory,
    Named,
    PinnedTest,
    Sequence,
    Unknown,
    Value,
    alternatives,
    join,
    unknown_tensor,
)
from h2dlint.facts.flags import Truth, truth
from h2dlint.facts.frame import Environment, Frame, join_environments, key_of

Evaluate: TypeAlias = Callable[[ast.expr, Frame], Value]
Narrow: TypeAlias = Callable[[Value], Value | None]


def refined(
    test: ast.expr, frame: Frame, holds: bool, evaluate: Evaluate, seen: dict[ast.expr, Value] | None = None
) -> Environment | None:
    """The variables where `test` comes out as `holds`; None when it cannot.

    `seen`: values of tested expressions with the variables as they are, for who asks of both ways.
    """
    behind = frame.remembered(test.id) if frame.tests and type(test) is ast.Name else None
    if behind is not None:
        return _with_what_it_stands_for(test, behind, frame, holds, evaluate)
    if type(test) in _GUARDS:
        found = _guard(test, frame, holds)
        return frame.env if found is None else _narrowed(*found, frame, evaluate, seen)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return refined(test.operand, frame, not holds, evaluate, seen)
    if isinstance(test, ast.NamedExpr):
        return refined(test.target, frame, holds, evaluate, seen)
    if isinstance(test, ast.BoolOp):
        together = isinstance(test.op, ast.And) == holds
        return _all(test.values, frame, holds, evaluate) if together else _some(test.values, frame, holds, evaluate)
    return frame.env


def _with_what_it_stands_for(
    name: ast.expr, test: ast.expr, frame: Frame, holds: bool, evaluate: Evaluate
) -> Environment | None:
    """A name for a condition: what both say."""
    outer = frame.env
    narrowed = refined(test, frame, holds, evaluate)
    if narrowed is None:
        return None
    frame.env = narrowed
    try:
        return _narrowed(name, _truthy if holds else _falsy, frame, evaluate, None)
    finally:
        frame.env = outer


_GUARDS = frozenset({ast.Compare, ast.Attribute, ast.Call, ast.Name})
"""Tests that may say something of one value."""


def _all(tests: list[ast.expr], frame: Frame, holds: bool, evaluate: Evaluate) -> Environment | None:
    outer = frame.env
    try:
        for test in tests:
            narrowed = refined(test, frame, holds, evaluate)
            if narrowed is None:
                return None
            frame.env = narrowed
        return frame.env
    finally:
        frame.env = outer


def _some(tests: list[ast.expr], frame: Frame, holds: bool, evaluate: Evaluate) -> Environment | None:
    """At least one of the tests comes out as `holds`: the join of their ways, without those that cannot."""
    outer = frame.env
    joined: Environment | None = None
    try:
        for test in tests:
            found = truth(evaluate(test, frame)) if isinstance(test, _CHEAP) else Truth.UNKNOWN
            impossible = (holds and found is Truth.FALSE) or (not holds and found in flags.DEFINITELY_TRUE)
            narrowed = None if impossible else refined(test, frame, holds, evaluate)
            if narrowed is not None:
                joined = narrowed if joined is None else join_environments(joined, narrowed, (), ())
            rest = refined(test, frame, not holds, evaluate)
            if rest is None:
                break
            frame.env = rest
        return joined
    finally:
        frame.env = outer


_CHEAP = (ast.Name, ast.Attribute, ast.UnaryOp)
"""Tests that can be looked at again at no cost and without effect."""


def _narrowed(
    node: ast.expr, narrow: Narrow, frame: Frame, evaluate: Evaluate, seen: dict[ast.expr, Value] | None
) -> Environment | None:
    key = key_of(node)
    value = seen.get(node) if seen is not None else None
    if value is None:
        value = evaluate(node, frame)
        if seen is not None:
            seen[node] = value
    kept: list[Alternative] = []
    same = True
    for way in alternatives(value):
        inner = narrow(way.value)
        same = same and inner is way.value
        if inner is not None:
            kept.append(way if inner is way.value else Alternative(inner, way.tags))
    if not kept:
        return None
    if not key or same:
        return frame.env
    narrowed = kept[0].value if len(kept) == 1 and not kept[0].tags else Choice(tuple(kept))
    env = dict(frame.env)
    if isinstance(value, Unknown) and value.key and isinstance(narrowed, Array):
        _also_devices(env, f"{value.key}.device", narrowed.device)
    env[key] = narrowed
    if "." in key:
        frame.note_dotted(key)
    return env


def _also_devices(env: Environment, key: str, device: Device) -> None:
    """Device objects taken from the tensor before it was tested are the tested device too."""
    for name, held in env.items():
        if isinstance(held, DeviceValue) and held.device.key == key:
            env[name] = DeviceValue(device)


# The guards


def guards_in(test: ast.expr, frame: Frame, holds: bool = True) -> list[tuple[ast.expr, Narrow]]:
    """What is said of values where `test` comes out as `holds`: the expressions, and what it makes of each."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return guards_in(test.operand, frame, not holds)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) == holds:
        return [found for one in test.values for found in guards_in(one, frame, holds)]
    found = _guard(test, frame, holds) if type(test) in _GUARDS else None
    return [found] if found is not None else []


def _guard(test: ast.expr, frame: Frame, holds: bool) -> tuple[ast.expr, Narrow] | None:
    """The expression that a test speaks of, and what it makes of its value."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _comparison(test, holds)
    if isinstance(test, ast.Attribute) and test.attr in ("is_cuda", "is_cpu", "is_xpu", "is_npu"):
        return test.value, _on_cpu if (test.attr == "is_cpu") == holds else _on_device
    if isinstance(test, ast.Call):
        return _call(test, frame, holds)
    if isinstance(test, (ast.Name, ast.Attribute)):
        return test, _truthy if holds else _falsy
    return None


def _call(test: ast.Call, frame: Frame, holds: bool) -> tuple[ast.expr, Narrow] | None:
    if isinstance(test.func, ast.Attribute) and test.func.attr == "is_pinned" and not test.args:
        return test.func.value, _pinned if holds else _not_pinned
    name = key_of(test.func)
    if name == "isinstance" and len(test.args) == 2:
        classes = classes_named(test.args[1], frame) if holds else None
        return test.args[0], _object_of(classes) if classes else _instance_of(test.args[1], holds)
    if name.endswith("is_tensor") and test.args:
        return test.args[0], _instance_of(ast.Name("Tensor"), holds)
    return None


def _comparison(test: ast.Compare, holds: bool) -> tuple[ast.expr, Narrow] | None:
    op, right = test.ops[0], test.comparators[0]
    if isinstance(op, (ast.Is, ast.IsNot)) and isinstance(right, ast.Constant) and right.value is None:
        is_none = isinstance(op, ast.Is) == holds
        return test.left, _none if is_none else _not_none
    if isinstance(op, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)) and _is_truth(right):
        same = isinstance(op, (ast.Is, ast.Eq)) == holds
        return test.left, _truthy if right.value == same else _falsy
    if isinstance(op, (ast.Eq, ast.NotEq)):
        kinds = {_device_literal(right)}
        if not _is_device_of_tensor(test.left) and isinstance(right, ast.Constant) and isinstance(right.value, str):
            return test.left, _texts(right.value, equal=isinstance(op, ast.Eq) == holds)
    elif isinstance(op, (ast.In, ast.NotIn)) and isinstance(right, (ast.Tuple, ast.List, ast.Set)):
        kinds = set(map(_device_literal, right.elts))
    else:
        return None
    if not kinds or None in kinds or ("cpu" in kinds and len(kinds) > 1):
        return None
    equal = isinstance(op, (ast.Eq, ast.In)) == holds
    holder = test.left
    if not _is_device_of_tensor(holder):
        return None
    if isinstance(holder, ast.Attribute) and holder.attr == "type":
        holder = holder.value
    if not isinstance(holder, ast.Attribute):
        return None
    if "cpu" in kinds:
        return holder.value, _on_cpu if equal else _on_device
    return holder.value, _on_device if equal else _keep


def _is_device_of_tensor(node: ast.expr) -> bool:
    """`x.device`, or `x.device.type`."""
    if isinstance(node, ast.Attribute) and node.attr == "type":
        node = node.value
    return isinstance(node, ast.Attribute) and node.attr == "device"


def _texts(text: str, *, equal: bool) -> Narrow:
    """What is a literal text, or is not: of a constant that somebody may set otherwise nothing is said."""

    def narrow(value: Value) -> Value | None:
        certain = isinstance(value, Const) and not value.soft
        return None if certain and (value.value == text) is not equal else value  # type: ignore[attr-defined]

    return narrow


def _is_truth(node: ast.expr) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def _device_literal(node: ast.expr) -> str | None:
    if isinstance(node, ast.Call) and key_of(node.func).endswith("device") and node.args:
        node = node.args[0]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        kind = node.value.partition(":")[0]
        return kind if kind in _KINDS else None
    return None


_KINDS = ACCELERATOR_NAMES | {"cpu", "xla", "hip", "ipu", "mtia", "privateuseone"}
"""The kinds of devices that programs ask after (torch: `torch.device`)."""


def _keep(value: Value) -> Value | None:
    return value


def _on_cpu(value: Value) -> Value | None:
    if isinstance(value, Array):
        if value.device.is_accelerator:
            return None
        return value.but(device=CPU) if value.device.is_unknown else value
    return unknown_tensor(CPU) if isinstance(value, Unknown) else value


def _on_device(value: Value) -> Value | None:
    if isinstance(value, Array):
        if value.device.is_cpu:
            return None
        return value.but(device=ACCELERATOR) if value.device.is_unknown else value
    return unknown_tensor(ACCELERATOR) if isinstance(value, Unknown) else value


def _pinned(value: Value) -> Value | None:
    if isinstance(value, Array):
        if value.device.is_accelerator or value.memory is Memory.PAGEABLE:
            return None
        return value.but(device=CPU, memory=Memory.PINNED)
    return unknown_tensor(CPU, memory=Memory.PINNED) if isinstance(value, Unknown) else value


def _not_pinned(value: Value) -> Value | None:
    """Not pinned: pageable, if it is on the host at all."""
    if isinstance(value, Array) and value.device.is_cpu:
        return None if value.memory is Memory.PINNED else value.but(memory=Memory.PAGEABLE)
    return value


def _none(value: Value) -> Value | None:
    if isinstance(value, Const):
        return value if value.value is None else None
    if isinstance(value, Unknown) or (isinstance(value, Array) and value.by_name):
        return Const(None)
    return value if isinstance(value, (Named, ConfigFlag, Available, PinnedTest)) else None


def _not_none(value: Value) -> Value | None:
    return None if isinstance(value, Const) and value.value is None else value


def _truthy(value: Value) -> Value | None:
    if isinstance(value, Const) and not value.soft:
        return value if value.value else None
    return Const(True, origin=value.origin) if _is_switch(value) else value


def _falsy(value: Value) -> Value | None:
    if truth(value) in flags.DEFINITELY_TRUE:
        return None
    return Const(False, origin=value.origin) if _is_switch(value) else value


def _is_switch(value: Value) -> TypeGuard[Const | ConfigFlag]:
    """Whether a value is a truth value that somebody may set either way."""
    return isinstance(value, ConfigFlag) or (isinstance(value, Const) and isinstance(value.value, bool))


def _object_of(classes: list[Class]) -> Narrow:
    """An object of one of these classes of the project."""

    def narrow(value: Value) -> Value | None:
        if isinstance(value, Unknown) or (isinstance(value, Instance) and value.fields is None):
            return value if value in map(_made, classes) else join(map(_made, classes))
        return None if isinstance(value, (Array, Sequence, Mapping, Const)) else value

    return narrow


def _made(kind: Class) -> Value:
    return Instance(kind.info)


def _instance_of(kind: ast.expr, holds: bool) -> Narrow:
    kinds = {key_of(item).rpartition(".")[2] for item in (kind.elts if isinstance(kind, ast.Tuple) else [kind])}

    def narrow(value: Value) -> Value | None:
        if isinstance(value, Array) and value.kind in ("tensor", "ndarray"):
            name = "Tensor" if value.kind == "tensor" else "ndarray"
            if kinds <= {"Tensor", "ndarray", "list", "tuple", "dict", "str", "int", "float"}:
                return value if (name in kinds) == holds else None
        if isinstance(value, Unknown) and holds and kinds == {"ndarray"}:
            return Array("ndarray", CPU, Memory.UNKNOWN, unknown_tensor().layout, from_numpy=True)
        if isinstance(value, Instance) and value.info is not None and not holds and value.info.name in kinds:
            return None
        return value

    return narrow
