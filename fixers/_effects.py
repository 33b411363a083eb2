"""Whether code may run earlier than it does: what it calls, reads and uses up besides giving a value."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from h2dlint.fixers._scope import Scope, binds, is_quiet_call, method_of, names_in, parameters, statements
from h2dlint.fixers._torch_names import imported_function, torch_if_imported

from h2dlint.fixing import Site
from h2dlint.fixing.names import last_name

_PLAIN = frozenset(["device", "dtype", "shape", "ndim", "layout", "is_cuda"])
"""Attributes that are read without any effect."""
_PLAIN_TYPE = re.compile(
    r"['\"]?(?:\w+\.)*(?:Tensor|ndarray|[Dd]ict|[Ll]ist|[Tt]uple|[Ss]et|Mapping|Sequence|str|int|float|bool)\b"
)
_DISPLAYS = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_USES_UP = frozenset(["max", "min", "sum", "sorted", "set", "list", "tuple", "dict"])
_SETS_DEVICE = frozenset(["set_device", "set_default_device"])


def acting_calls(site: Site, scope: Scope, node: ast.AST, depth: int = 2) -> list[ast.Call]:
    """The calls in `node` that are not shown to do nothing but give a value.

    `get` and `size` of an object of which nothing is known may count their callers.
    """
    calls = [inner for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    return [call for call in calls if not _is_idle(site, scope, call, depth)]


def _is_idle(site: Site, scope: Scope, call: ast.Call, depth: int) -> bool:
    if not is_quiet_call(site, call):
        return False
    func = call.func
    if not isinstance(func, ast.Attribute) or _starts_at_torch(site, func):
        return True
    method = method_of(site, call, func.attr) if _is_own(func.value) else None
    if method is not None:
        return depth > 0 and not _changes_argument(method) and not acting_calls(site, method, method, depth - 1)
    return _is_plain_value(site, scope, func.value)


def _is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _changes_argument(method: ast.FunctionDef) -> bool:
    """`rows += more` changes a list that was passed in."""
    given = parameters(method)
    return any(
        isinstance(inner, ast.AugAssign) and isinstance(inner.target, ast.Name) and inner.target.id in given
        for inner in ast.walk(method)
    )


def _is_plain_value(site: Site, scope: Scope, node: ast.expr) -> bool:
    """Whether a method's receiver is a tensor or a builtin collection."""
    if isinstance(node, _DISPLAYS) or _starts_at_torch(site, node):
        return True
    if not isinstance(node, ast.Name) or isinstance(scope, ast.Module):
        return False
    values = [
        statement.value if isinstance(statement, ast.Assign) else None
        for statement in statements(scope)
        if node.id in binds(statement)
    ]
    shown = all(value and (isinstance(value, _DISPLAYS) or _starts_at_torch(site, value)) for value in values)
    if node.id not in parameters(scope):
        return bool(values) and shown
    every = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
    noted = next((argument.annotation for argument in every if argument.arg == node.id), None)
    return shown and noted is not None and bool(_PLAIN_TYPE.match(ast.unparse(noted)))


def _starts_at_torch(site: Site, node: ast.expr) -> bool:
    while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and (node.id == torch_if_imported(site) or bool(imported_function(site, node)))


def shares_object(early: Iterable[ast.AST], stays: Iterable[ast.AST]) -> bool:
    """Whether what runs earlier reads an attribute, which may be a property, of an object that what stays reads too."""
    owners = {ast.unparse(one.value) for one in _attributes(early)}
    return any(ast.unparse(one.value) in owners for one in _attributes(stays))


def _attributes(nodes: Iterable[ast.AST]) -> list[ast.Attribute]:
    inner = [one for node in nodes for one in ast.walk(node)]
    methods = {one.func for one in inner if isinstance(one, ast.Call)} if inner else set()
    return [one for one in inner if isinstance(one, ast.Attribute) and one.attr not in _PLAIN and one not in methods]


def used_up(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that are iterated: an iterator among them is empty afterwards."""
    sources: list[ast.expr] = []
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, (ast.comprehension, ast.For)):
                sources.append(inner.iter)
            elif isinstance(inner, ast.Call) and last_name(inner.func) in _USES_UP and len(inner.args) == 1:
                sources.append(inner.args[0])
            elif isinstance(inner, ast.Starred):
                sources.append(inner.value)
    return {name.id for name in names_in(sources)}


def changes_current_device(nodes: Iterable[ast.AST]) -> bool:
    """Whether `torch.cuda.set_device(...)` and the like stand there."""
    inner = (one for node in nodes for one in ast.walk(node))
    return any(isinstance(one, ast.Call) and last_name(one.func) in _SETS_DEVICE for one in inner)


def writes_attribute(node: ast.AST, wanted: ast.expr) -> bool:
    """Whether a statement gives another value to an attribute that an expression reads."""
    read = {one.attr for one in ast.walk(wanted) if isinstance(one, ast.Attribute)}
    return any(
        isinstance(one, ast.Attribute) and not isinstance(one.ctx, ast.Load) and one.attr in read
        for one in ast.walk(node)
    )
