"""The most bytes that an allocation may take, where constants of the class or the module show it."""

from __future__ import annotations

import ast

from h2dlint.facts.torch_api import DTYPES
from h2dlint.fixing import Site
from h2dlint.fixing.names import last_name

_DEFAULT_BYTES = {"arange": 8, "full": 8}
_SIZED = frozenset(["zeros", "ones", "empty", "full", "rand", "randn"])


def most_bytes(site: Site) -> int | None:
    """The size of the allocation that the copy's chain starts from; None where it is no constant."""
    if not site.copy.trace or site.copy.trace[0].path != site.copy.path:
        return None
    call = site.node_at(site.copy.trace[0].span)
    if not isinstance(call, ast.Call) or last_name(call.func) not in _SIZED:
        return None
    count = 1
    for size in _sizes(call):
        number = _constant(site, size)
        if number is None:
            return None
        count *= number
    return count * _item_bytes(call)


def _sizes(call: ast.Call) -> list[ast.expr]:
    given = next((word.value for word in call.keywords if word.arg in ("size", "shape")), None)
    first = given or (call.args[0] if call.args else None)
    if isinstance(first, (ast.Tuple, ast.List)):
        return first.elts
    if last_name(call.func) == "full":
        return [first] if first is not None else []
    return [given] if given is not None else list(call.args)


def _item_bytes(call: ast.Call) -> int:
    dtype = next((word.value for word in call.keywords if word.arg == "dtype"), None)
    known = DTYPES.get(last_name(dtype)) if dtype is not None else None
    return known or _DEFAULT_BYTES.get(last_name(call.func), 4)


def _constant(site: Site, node: ast.expr) -> int | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        left, right = _constant(site, node.left), _constant(site, node.right)
        if left is None or right is None:
            return None
        return left + right if isinstance(node.op, ast.Add) else left * right
    if isinstance(node, ast.Name):
        return _assigned(site.tree.body, node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
        owner = next((item for item in site.document.around(site.call) if isinstance(item, ast.ClassDef)), None)
        return None if owner is None else _assigned(owner.body, node.attr)
    return None


def _assigned(body: list[ast.stmt], name: str) -> int | None:
    """The integer that a body gives to a name, once."""
    found: list[int | None] = []
    for statement in body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                found += [value for named, value in _pairs(target, statement.value) if named == name]
    return found[0] if len(found) == 1 else None


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[str, int | None]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return [pair for one, other in zip(target.elts, value.elts, strict=True) for pair in _pairs(one, other)]
    if not isinstance(target, ast.Name):
        return []
    number = value.value if isinstance(value, ast.Constant) and isinstance(value.value, int) else None
    return [(target.id, number)]
