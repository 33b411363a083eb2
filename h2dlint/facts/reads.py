"""What a loop reads of what it finds: the rest may change from turn to turn, and no turn sees it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from h2dlint.facts.frame import key_of
from h2dlint.facts.store_text import GROWS


class Reads:
    """Names, plain and dotted, that are read by their own names, and objects whose methods may read any of theirs."""

    def __init__(self, statement: ast.stmt) -> None:
        self._names: set[str] = set()
        self._objects: set[str] = set()
        waiting: list[ast.AST] = [statement]
        while waiting:
            waiting.extend(self._look_at(waiting.pop()))

    def isdisjoint(self, names: list[str]) -> bool:
        """Whether none of the names is read."""
        return not any(
            name in self._names or ("." in name and any(name.startswith(held) for held in self._objects))
            for name in names
        )

    def _look_at(self, node: ast.AST) -> Iterator[ast.AST]:
        """Enter what is read here, and give the parts that are still to be looked at."""
        if isinstance(node, (ast.Name, ast.Attribute)):
            key = key_of(node)
            if key and isinstance(node.ctx, ast.Load):
                self._names.add(key)
            elif isinstance(node, ast.Attribute) and not key:
                yield node.value
            if "." in key:
                self._names.add(key.rpartition(".")[0])  # x.y: whatever x holds may have it
            return
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            key = key_of(node.func.value)
            if key:
                self._objects.add(key + ".")
        grown = _grown(node)
        if grown is None:
            yield from ast.iter_child_nodes(node)
            return
        container, others = grown
        if not key_of(container):
            yield container
        yield from others


def _grown(node: ast.AST) -> tuple[ast.expr, list[ast.AST]] | None:
    """The container in which a statement, or the target of one, stores something, and what else is evaluated for it."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        call = node.value
        if isinstance(call.func, ast.Attribute) and call.func.attr in GROWS:
            return _container(call.func.value, [*call.args, *call.keywords])
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        return _container(node.value, [node.slice])
    return None


def _container(node: ast.expr, others: list[ast.AST]) -> tuple[ast.expr, list[ast.AST]]:
    """`x` for `x`, `x[i]` and `x.setdefault(key, [])`."""
    while True:
        if isinstance(node, ast.Subscript):
            others.append(node.slice)
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setdefault":
            others.extend([*node.args, *node.keywords])
            node = node.func.value
        else:
            return node, others


@lru_cache(maxsize=256)
def read_in(statement: ast.stmt) -> Reads:
    """What a loop reads, but for containers in which it only stores something."""
    return Reads(statement)
