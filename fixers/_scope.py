"""Names inside one function: what binds them, what reads them, and what a statement may do besides."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from h2dlint.fixers._torch_names import torch_if_imported

from h2dlint.fixing import Site

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_PURE_NODES = (
    ast.Name, ast.Attribute, ast.Constant, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.BinOp, ast.UnaryOp,
    ast.Compare, ast.BoolOp, ast.IfExp, ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.expr_context,
)  # fmt: skip


def words(text: str) -> frozenset[str]:
    """The words of a text: a set of names, written as a line."""
    return frozenset(text.split())


_QUIET_BUILTINS = words("abs bool dict float int isinstance len list max min range round set sorted str sum tuple")
_QUIET_METHODS = words(
    "size numel dim max min sum mean item tolist get items keys values stride nelement element_size startswith"
)
_QUIET_TORCH = words("device is_tensor max min numel sum")


def scope_of(site: Site) -> Scope:
    """The function around the copy, or the module."""
    return site.function or site.tree


def position(node: ast.expr | ast.stmt) -> tuple[int, int]:
    """Where a node starts, for comparing."""
    return node.lineno, node.col_offset


def end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    """Where a node ends."""
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def names_in(nodes: Iterable[ast.AST]) -> Iterator[ast.Name]:
    """Every name at or below `nodes`."""
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name):
                yield inner


def reads(node: ast.AST) -> set[str]:
    """The names that a node reads, an augmented assignment's target among them, a comprehension's own not."""
    found = {name.id for name in names_in([node]) if isinstance(name.ctx, ast.Load)} - _comprehended(node)
    for inner in ast.walk(node):
        if isinstance(inner, ast.AugAssign):
            found.update(name.id for name in names_in([inner.target]))
    return found


def _comprehended(node: ast.AST) -> set[str]:
    """The names that live inside comprehensions only."""
    return {
        name.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.comprehension)
        for name in names_in([inner.target])
        if isinstance(name.ctx, ast.Store)
    }


def binds(node: ast.AST) -> set[str]:
    """The names that a node binds or deletes."""
    found: set[str] = set()
    own = {name for inner in ast.walk(node) if isinstance(inner, ast.comprehension) for name in ast.walk(inner.target)}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load) and inner not in own:
            found.add(inner.id)
        elif isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or (
            isinstance(inner, ast.ExceptHandler) and inner.name
        ):
            found.add(inner.name or "")
        elif isinstance(inner, (ast.Import, ast.ImportFrom)):
            found.update((alias.asname or alias.name).partition(".")[0] for alias in inner.names)
    return found


def parameters(scope: Scope) -> set[str]:
    """The parameters of a function."""
    if isinstance(scope, ast.Module):
        return set()
    spec = scope.args
    every = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *filter(None, (spec.vararg, spec.kwarg))]
    return {argument.arg for argument in every}


def is_shared(scope: Scope, name: str) -> bool:
    """Whether code outside the function's own body can see or bind the name: global, nonlocal, nested functions."""
    if isinstance(scope, ast.Module):
        return True
    for node in ast.walk(scope):
        if isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names:
            return True
        if node is not scope and isinstance(node, _NESTED) and any(inner.id == name for inner in names_in([node])):
            return True
    return False


def statements(scope: Scope) -> Iterator[ast.stmt]:
    """Every statement of a scope's own body, in source order, nested blocks included, nested functions not."""
    yield from _statements(scope.body)


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for _, block in blocks(statement):
            yield from _statements(block)


def blocks(statement: ast.AST) -> Iterator[tuple[str, list[ast.stmt]]]:
    """The blocks right below a compound statement."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(statement, field, None)
        if isinstance(block, list):
            yield field, block
    for handler in getattr(statement, "handlers", ()):
        yield "handler", handler.body
    for case in getattr(statement, "cases", ()):
        yield "case", case.body


def own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement without those of the statements in its blocks."""
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(
            child for child in ast.iter_child_nodes(node) if not isinstance(child, (ast.stmt, ast.excepthandler))
        )


def block_of(site: Site, statement: ast.stmt) -> list[ast.stmt]:
    """The list of statements that `statement` stands in."""
    parent = site.document.parents[statement]
    return next((block for _, block in blocks(parent) if statement in block), [])


def loops_around(site: Site, node: ast.AST) -> list[ast.AST]:
    """The loops of the same function that run `node` again and again, from the inside out."""
    found: list[ast.AST] = []
    for outer in site.document.around(node):
        if isinstance(outer, (ast.For, ast.AsyncFor, ast.While)):
            found.append(outer)
        if isinstance(outer, _NESTED):
            break
    return found


def is_pure(node: ast.AST) -> bool:
    """Whether evaluating an expression does nothing but read: no calls, no awaiting, no binding."""
    return all(isinstance(inner, _PURE_NODES) for inner in ast.walk(node))


def unseen_calls(site: Site, node: ast.AST) -> list[ast.Call]:
    """The calls in `node` that may do something besides giving a value."""
    return [inner for inner in ast.walk(node) if isinstance(inner, ast.Call) and not is_quiet_call(site, inner)]


def is_quiet_call(site: Site, call: ast.Call, depth: int = 2) -> bool:
    """Whether a call is seen to do nothing but give a value: a few builtins, queries, and methods of the same class
    whose body shows it.
    """
    func = call.func
    if isinstance(func, ast.Name):
        return func.id in _QUIET_BUILTINS and func.id not in binds(site.tree)
    if not isinstance(func, ast.Attribute):
        return False
    if isinstance(func.value, ast.Name) and func.value.id == torch_if_imported(site):
        return func.attr in _QUIET_TORCH
    if func.attr in _QUIET_METHODS:
        return True
    if isinstance(func.value, ast.Name) and func.value.id == "self" and depth:
        method = method_of(site, call, func.attr)
        return method is not None and _is_quiet_body(site, method, depth)
    return False


def class_of(site: Site, node: ast.AST) -> ast.ClassDef | None:
    """The class whose method holds `node`."""
    return next((outer for outer in site.document.around(node) if isinstance(outer, ast.ClassDef)), None)


def method_of(site: Site, node: ast.AST, name: str) -> ast.FunctionDef | None:
    """The method of that name in the class around `node`."""
    owner = class_of(site, node)
    body = owner.body if owner is not None else []
    return next((item for item in body if isinstance(item, ast.FunctionDef) and item.name == name), None)


def _is_quiet_body(site: Site, method: ast.FunctionDef, depth: int) -> bool:
    if method.decorator_list:
        return False
    for node in ast.walk(method):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            return False
        if isinstance(node, (ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Await, ast.Raise, ast.With)):
            return False
        if isinstance(node, ast.Call) and not is_quiet_call(site, node, depth - 1):
            return False
    return True


def unused_name(scope: Scope, *wanted: str) -> str:
    """The first of `wanted` that the scope does not know yet, be it by an import or a `def`, else the last one with a
    number.
    """
    known = {name.id for name in names_in([scope])} | parameters(scope) | binds(scope) | _declared(scope)
    free = (name for name in (*wanted, *(f"{wanted[-1]}_{number}" for number in range(2, 100))) if name not in known)
    return next(free)


def _declared(scope: Scope) -> set[str]:
    """The names that patterns bind, and those that are said to be somebody else's."""
    found: set[str] = set()
    for node in ast.walk(scope):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            found.update(node.names)
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            found.add(node.rest)
    return found
