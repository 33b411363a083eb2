"""Find the factory that allocated what a copy moves."""

from __future__ import annotations

import ast
from collections.abc import Callable

from h2dlint.fixers._scope import binds, is_shared, parameters, scope_of, statements, words
from h2dlint.fixers._torch_names import imported_function, torch_if_imported
from msgspec import Struct

from h2dlint.fixing import Site
from h2dlint.fixing.names import last_name

PINNABLE = words(
    "arange zeros ones full empty rand randn randint randperm eye linspace zeros_like ones_like empty_like "
    "full_like rand_like randn_like tensor new_zeros new_ones new_empty new_full"
)
"""Factories that take `pin_memory=`."""
_VIEWS = words("view unsqueeze squeeze detach reshape flatten ravel view_as numpy")


class Origin(Struct, frozen=True):
    """Where the memory of a tensor comes from."""

    factory: ast.Call
    statement: ast.stmt
    name: str | None
    """The local name that holds it; None where the factory stands inside the copy itself."""


def base_of(node: ast.expr) -> ast.expr:
    """What an expression is a view of."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
            node = node.func.value
        elif isinstance(node, ast.Subscript) and _is_basic(node.slice):
            node = node.value
        else:
            return node


def _is_basic(index: ast.expr) -> bool:
    items = index.elts if isinstance(index, ast.Tuple) else [index]
    return all(isinstance(item, (ast.Slice, ast.Constant)) for item in items)


def origin_of(site: Site, node: ast.expr, is_maker: Callable[[Site, ast.expr], bool] | None = None) -> Origin | None:
    """The call in this function that made what `node` is, or is a view of: a factory, or what `is_maker` says."""
    is_maker = is_maker or is_factory
    base = base_of(node)
    if is_maker(site, base):
        return Origin(base, site.statement, None)  # type: ignore[arg-type]
    scope = scope_of(site)
    if not isinstance(base, ast.Name) or base.id in parameters(scope) or is_shared(scope, base.id):
        return None
    bound = [item for item in statements(scope) if item is not site.statement and _binds_here(item, base.id)]
    if len(bound) != 1 or not isinstance(bound[0], ast.Assign) or len(bound[0].targets) != 1:
        return None
    statement = bound[0]
    made = base_of(statement.value)
    if not isinstance(statement.targets[0], ast.Name) or not is_maker(site, made):
        return None
    return Origin(made, statement, base.id)  # type: ignore[arg-type]


def _binds_here(statement: ast.stmt, name: str) -> bool:
    """Whether a statement binds a name by itself, not by a statement in its blocks."""
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        return name in binds(statement.target)
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return any(item.optional_vars is not None and name in binds(item.optional_vars) for item in statement.items)
    if isinstance(statement, (ast.If, ast.While)):
        return name in binds(statement.test)
    if isinstance(statement, ast.Try):
        return any(handler.name == name for handler in statement.handlers)
    return name in binds(statement)


def is_factory(site: Site, node: ast.expr) -> bool:
    """Whether a call allocates with torch and takes `pin_memory=`."""
    if not isinstance(node, ast.Call):
        return False
    name = imported_function(site, node.func) or _of_torch(site, node.func)
    if name not in PINNABLE:
        return False
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    pin = given.get("pin_memory")
    if None in given or "out" in given or not (pin is None or (isinstance(pin, ast.Constant) and not pin.value)):
        return False
    return name != "tensor" or _is_python_data(site, node)


def _of_torch(site: Site, func: ast.expr) -> str:
    """`arange` of `torch.arange`, `new_zeros` of any tensor's; empty for anything else."""
    if not isinstance(func, ast.Attribute):
        return ""
    on_torch = isinstance(func.value, ast.Name) and func.value.id == torch_if_imported(site)
    return func.attr if on_torch or func.attr.startswith("new_") else ""


def _is_python_data(site: Site, call: ast.Call) -> bool:
    """Whether `torch.tensor` is given numbers or lists: it cannot pin what it makes from an array or a tensor."""
    data = call.args[0] if call.args else None
    return data is not None and _is_list(site, data)


def _is_list(site: Site, node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, (ast.List, ast.ListComp)):
        inner = node.elt if isinstance(node, ast.ListComp) else None
        return not isinstance(inner, (ast.List, ast.ListComp)) or _is_list(site, inner)
    if isinstance(node, ast.Call):
        builtin = isinstance(node.func, ast.Name) and node.func.id in ("list", "sorted", "len", "int")
        return builtin or last_name(node.func) == "tolist"
    if not isinstance(node, ast.Name):
        return False
    scope = scope_of(site)
    if isinstance(scope, ast.Module):
        return False
    bound = [item for item in statements(scope) if _binds_here(item, node.id)]
    if node.id in parameters(scope):
        every = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
        noted = next((argument.annotation for argument in every if argument.arg == node.id), None)
        return not bound and noted is not None and _says_numbers(noted)
    values = [item.value for item in bound if isinstance(item, (ast.Assign, ast.AnnAssign)) and item.value is not None]
    return len(values) == len(bound) > 0 and all(
        not isinstance(value, ast.Name) and _is_list(site, value) for value in values
    )


def _says_numbers(annotation: ast.expr) -> bool:
    """Whether an annotation says that something is a number or lists of such, and nothing else."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            return _says_numbers(ast.parse(annotation.value, mode="eval").body)
        except (SyntaxError, ValueError, RecursionError):
            return False
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return _says_numbers(annotation.left) and _says_numbers(annotation.right)
    if isinstance(annotation, ast.Subscript):
        return last_name(annotation.value) in ("list", "List") and _says_numbers(annotation.slice)
    return isinstance(annotation, ast.Name) and annotation.id in ("int", "float", "bool")
