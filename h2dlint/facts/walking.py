"""The expressions on some lines of a module: found without a walk over the rest of it."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterator

from h2dlint.facts.modules import child_statements


def expressions_on(body: list[ast.stmt], lines: list[int]) -> Iterator[ast.AST]:
    """All nodes that belong to a statement on one of the lines (in order), but for the statements themselves."""
    statements: list[ast.stmt] = []
    _collect(body, lines, statements)
    for statement in statements:
        inner = list(child_statements(statement))
        inside = set(map(id, inner))
        stack = [child for child in ast.iter_child_nodes(statement) if id(child) not in inside]
        while stack:
            node = stack.pop()
            if not isinstance(node, ast.stmt):
                yield node
                stack.extend(ast.iter_child_nodes(node))


def _collect(body: list[ast.stmt], lines: list[int], found: list[ast.stmt]) -> None:
    """Adds the statements on the lines, those inside others first."""
    for statement in body:
        if touches(statement, lines):
            _collect(list(child_statements(statement)), lines, found)
            found.append(statement)


def touches(statement: ast.stmt, lines: list[int]) -> bool:
    """Whether a statement, decorators included, stands on one of the lines (in order)."""
    position = bisect_left(lines, _first_line(statement))
    return position < len(lines) and lines[position] <= (statement.end_lineno or statement.lineno)


def _first_line(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", None)
    return min(decorators[0].lineno, statement.lineno) if decorators else statement.lineno
