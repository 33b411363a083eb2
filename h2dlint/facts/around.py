"""What stands around a piece of syntax: found by position, since nodes do not know their parents."""

from __future__ import annotations

import ast
from typing import TypeAlias

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
LOOPS = (ast.For, ast.AsyncFor, ast.While)


def around(tree: ast.AST, node: ast.AST) -> list[ast.AST]:
    """The nodes of `tree` that hold `node`, the outermost first, without the two themselves."""
    found: list[ast.AST] = []
    here: ast.AST | None = tree
    while here is not None:
        here = next((child for child in ast.iter_child_nodes(here) if covers(child, node)), None)
        if here is None or _same(here, node):
            return found
        found.append(here)
    return found


def covers(outer: ast.AST, inner: ast.AST) -> bool:
    """Whether `outer` holds the text of `inner`, decorators included; a node without a position asks its children."""
    start, end = _span(outer)
    if start is None or end is None:
        return any(covers(child, inner) for child in ast.iter_child_nodes(outer))
    if getattr(outer, "decorator_list", None):
        start = _span(outer.decorator_list[0])[0] or start  # type: ignore[attr-defined]
    first, last = _span(inner)
    return first is not None and last is not None and start <= first and last <= end


def _same(one: ast.AST, other: ast.AST) -> bool:
    return type(one) is type(other) and _span(one) == _span(other)


def _span(node: ast.AST) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    line = getattr(node, "lineno", None)
    if line is None:
        return None, None
    end = (getattr(node, "end_lineno", line) or line, getattr(node, "end_col_offset", 0) or 0)
    return (line, getattr(node, "col_offset", 0)), end


def function_around(path: list[ast.AST]) -> FunctionNode | None:
    """The innermost function on the way to a node."""
    return next((one for one in reversed(path) if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))), None)


def may_be_caught(path: list[ast.AST], node: ast.AST) -> bool:
    """Whether an error raised at `node` is expected: in a `try` with handlers, or under `raises` and its like."""
    for one in path:
        if isinstance(one, ast.Try) and one.handlers and any(covers(part, node) for part in one.body):
            return True
        if isinstance(one, (ast.With, ast.AsyncWith)):
            names = [ast.unparse(item.context_expr).lower() for item in one.items]
            if any(word in name for name in names for word in ("raises", "suppress", "warns")):
                return True
    return False


def text_of(lines: list[str], node: ast.AST) -> str:
    """The source lines of a node."""
    first: int = getattr(node, "lineno", 1)
    last: int = getattr(node, "end_lineno", None) or first
    return "\n".join(lines[first - 1 : last])
