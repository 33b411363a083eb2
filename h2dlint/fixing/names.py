"""Names in a syntax tree: how an expression is called, and what a scope binds."""

from __future__ import annotations

import ast
from collections.abc import Iterator

Scope = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def last_name(node: ast.AST) -> str:
    """`c` of `a.b.c`, of `a.b.c(...)` and of `a.b.c[...]`; empty for anything else."""
    while isinstance(node, (ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def dotted_name(node: ast.AST) -> str:
    """`a.b.c` of such a chain; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def bound_in(scope: ast.AST) -> set[str]:
    """The names that a function, class or module binds itself, imports and parameters included."""
    found: set[str] = set()
    if isinstance(scope, Scope):
        arguments = scope.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        found.update(argument.arg for argument in every if argument is not None)
    for node in own_nodes(scope):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            found.add(node.name)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            found.difference_update(node.names)
    return found


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes inside `scope`, without the insides of functions and classes in it."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*Scope, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(node))
