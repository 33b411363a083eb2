"""Numbers that make a tensor of one element: whether they come out alike, whoever rounds them."""

from __future__ import annotations

import ast

from h2dlint.fixers._scope import Scope, binds, parameters
from msgspec import Struct

from h2dlint.facts.torch_api import SAME_DTYPE

_INTEGERS = {
    "int8": (-(2**7), 2**7 - 1), "int16": (-(2**15), 2**15 - 1), "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1), "uint8": (0, 2**8 - 1), "bool": (0, 1),
}  # fmt: skip
_FLOATS = {
    "float16": 65504.0, "bfloat16": 3.38e38, "float32": 3.4e38, "float64": 1.7e308,
}  # fmt: skip
"""A finite number that is larger raises where it is filled in, and becomes infinite where it is copied."""
_EVERYWHERE = (0, 127)
"""Whole numbers that every dtype holds."""
_EXACT = 2**53
"""Up to here an integer is the same as a double: beyond, it may be rounded twice on the host."""


class Number(Struct, frozen=True):
    """What the code shows about a number."""

    type: str
    """`int`, `bool` or `float`."""
    value: float | None = None
    """A literal's own; None for a variable."""
    short: bool = False
    """A length, which a double holds."""


def number_at(node: ast.expr, scope: Scope, tree: ast.Module) -> Number | None:
    """The number that an expression gives: a literal, a length, or a parameter that is declared as one."""
    negated = isinstance(node, ast.UnaryOp)
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    if isinstance(inner, ast.Constant):
        return _literal(inner.value, negated)
    if isinstance(inner, ast.Call):
        plain = isinstance(inner.func, ast.Name) and inner.func.id == "len" and "len" not in binds(tree)
        return Number("int", short=True) if plain else None
    declared = _declared(inner, scope)
    return Number("int" if negated and declared == "bool" else declared) if declared else None


def _literal(value: object, negated: bool) -> Number | None:
    if not isinstance(value, (bool, int, float)):
        return None
    if isinstance(value, bool) and not negated:
        return Number("bool", value)
    return Number("float" if isinstance(value, float) else "int", -value if negated else value)


def _declared(node: ast.expr, scope: Scope) -> str:
    if isinstance(scope, ast.Module) or not isinstance(node, ast.Name) or node.id not in parameters(scope):
        return ""
    every = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
    noted = next((argument.annotation for argument in every if argument.arg == node.id), None)
    rebound = any(
        isinstance(one, ast.Name) and one.id == node.id and isinstance(one.ctx, ast.Store) for one in ast.walk(scope)
    )
    text = ast.unparse(noted) if noted is not None else ""
    return text if text in ("int", "float", "bool") and not rebound else ""


def is_alike(number: Number, dtype: str | None) -> bool | None:
    """Whether filling a number in gives what making a tensor of it and copying that gives.

    `dtype`: a dtype of torch by its name, None where none is written, and empty for one that is not known. False where
    only a number that is too large for the dtype would come out otherwise; None where it is not shown at all.
    """
    name = SAME_DTYPE.get(dtype, dtype) if dtype else dtype
    if number.value is not None:
        return True if _fits(number, number.value, name) else None
    if number.type == "float":
        return {"float64": True, "float32": False}.get(name or "")
    if name is None or name in ("int32", "int64", "float64") or (number.type == "bool" and name in _INTEGERS | _FLOATS):
        return True
    return number.short if name == "float32" else None


def _fits(number: Number, value: float, name: str | None) -> bool:
    if name is None:
        name = "float32" if number.type == "float" else "int64"
    if name in _INTEGERS:
        return number.type != "float" and _INTEGERS[name][0] <= value <= _INTEGERS[name][1]
    if name in _FLOATS:
        most = _FLOATS[name]
        return abs(value) <= (most if number.type == "float" else min(most, _EXACT)) or abs(value) == float("inf")
    return name == "" and number.type != "float" and _EVERYWHERE[0] <= value <= _EVERYWHERE[1]
