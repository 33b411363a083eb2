"""What the parameters of a function hold: what was passed, else the default, else what the annotation says."""

from __future__ import annotations

import ast

from h2dlint.facts.annotations import annotated_value
from h2dlint.facts.attributes import decorator_names
from h2dlint.facts.domain import (
    NOTHING,
    REST,
    Available,
    Class,
    Const,
    DeviceValue,
    Instance,
    Number,
    Sequence,
    Unknown,
    Value,
    join,
)
from h2dlint.facts.evaluate import evaluate
from h2dlint.facts.frame import Frame


def bind_parameters(
    frame: Frame,
    node: ast.AST,
    receiver: Value | None,
    args: list[Value],
    keywords: dict[str, Value],
    *,
    own: bool,
) -> None:
    """Parameters: what was passed, else the default, else what the annotation says."""
    arguments: ast.arguments = node.args  # type: ignore[attr-defined]
    positional = [*arguments.posonlyargs, *arguments.args]
    given = list(args)
    static = "staticmethod" in decorator_names(node)
    if receiver is not None and not static and positional:
        frame.self_name = positional[0].arg
        if own and "classmethod" in decorator_names(node) and isinstance(receiver, Instance):
            receiver = Class(receiver.info)
        given.insert(0, receiver)
    defaults: dict[str, ast.expr] = {}
    for parameter, default in zip(reversed(positional), reversed(arguments.defaults), strict=False):
        defaults[parameter.arg] = default
    for parameter, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if keyword_default is not None:
            defaults[parameter.arg] = keyword_default
    for position, parameter in enumerate(positional):
        if position < len(given):
            frame.env[parameter.arg] = given[position]
    for parameter in [*positional, *arguments.kwonlyargs]:
        if parameter.arg in frame.env:
            continue
        if parameter.arg in keywords:
            frame.env[parameter.arg] = keywords[parameter.arg]
        else:
            frame.env[parameter.arg] = _parameter(
                frame, parameter, defaults.get(parameter.arg), own or REST in keywords
            )
    if arguments.vararg is not None:
        extra = given[len(positional) :]
        frame.env[arguments.vararg.arg] = Sequence(tuple(extra)) if not own else Sequence(None, NOTHING)
    if arguments.kwarg is not None:
        names = {parameter.arg for parameter in [*positional, *arguments.kwonlyargs]}
        from h2dlint.facts.domain import Mapping

        rest = tuple((name, value) for name, value in keywords.items() if name not in names and name != REST)
        frame.env[arguments.kwarg.arg] = Mapping(rest, NOTHING if own or REST in keywords else None)


def _parameter(frame: Frame, parameter: ast.arg, default: ast.expr | None, own: bool) -> Value:
    if default is None:
        return _declared(frame, parameter)
    value = _default(frame, default)
    if isinstance(value, Const):
        if value.value is None:
            return join((_declared(frame, parameter), value)) if own else value
        if isinstance(value.value, bool):
            return Const(value.value, own or value.soft, default)
        return _declared(frame, parameter) if own or not isinstance(value.value, int) else value
    if isinstance(value, Available) or not own:
        return value
    declared = _declared(frame, parameter)
    if isinstance(value, DeviceValue) and value.device.is_cpu:  # a default says nothing of what callers mean
        return declared
    return value if isinstance(declared, Unknown) else declared


def _declared(frame: Frame, parameter: ast.arg) -> Value:
    return annotated_value(parameter.annotation, f"{frame.qualname}.{parameter.arg}", frame)


def _default(frame: Frame, default: ast.expr) -> Value:
    """The value of a default, which is looked at outside of the function."""
    if isinstance(default, ast.Constant):
        return Const(default.value)
    return evaluate(default, Frame(frame.interpreter, frame.module, frame.function, frame.qualname))


def parameter_names(method: ast.AST) -> set[str]:
    arguments: ast.arguments = method.args  # type: ignore[attr-defined]
    return {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


def leaves_switches(node: ast.AST, count: int, keywords: set[str]) -> bool:
    """Whether the call leaves out a parameter whose default is more than a guess there."""
    arguments: ast.arguments = node.args  # type: ignore[attr-defined]
    positional = [*arguments.posonlyargs, *arguments.args]
    with_default = positional[len(positional) - len(arguments.defaults) :]
    given = {parameter.arg for parameter in positional[:count]} | keywords
    optional = with_default + [
        one for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is not None
    ]
    takes_more = arguments.vararg is not None or arguments.kwarg is not None
    return takes_more or any(parameter.arg not in given for parameter in optional)


def tells_nothing(value: Value) -> bool:
    """Whether an argument says no more than an unknown parameter does."""
    if isinstance(value, Instance):
        return value.fields is None
    return isinstance(value, (Unknown, Number))
