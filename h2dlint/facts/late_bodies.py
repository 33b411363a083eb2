"""Functions whose bodies are parsed when somebody looks into them: of most functions of other modules nothing is asked
but their name. What is parsed later has the same places as in the whole.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from h2dlint.source import parse


class Body(NamedTuple):
    """Where a function's body lies in a text."""

    line: int
    """The line of its `def`, from 1."""
    first_line: int
    """The first line of the body."""
    start: int
    """The offset of that line."""
    end: int
    """The offset behind the line that ends the function's node."""
    last_line: int
    """The line on which the function ends."""
    last_column: int
    """Where it ends there, in bytes."""


class Unread:
    """What is not parsed of a function."""

    __slots__ = ("body", "text")

    def __init__(self, text: str, body: Body) -> None:
        self.text = text
        self.body = body

    def read(self) -> list[ast.stmt]:
        """The statements of the body, at their places."""
        block = self.text[self.body.start : self.body.end]
        # A header of its own makes a block of it; `return` and `await` are no matter of the parser.
        text = "\n" * (self.body.first_line - 2) + "if 1:\n" + block
        tree = _parsed(text)
        holder = tree.body[0] if tree is not None and len(tree.body) == 1 else None
        return holder.body if isinstance(holder, ast.If) else [self._unknown()]

    def _unknown(self) -> ast.stmt:
        """What stands for a body that Python cannot read: something is returned."""
        at = self.body.first_line
        name = ast.Name("unreadable", ast.Load(), lineno=at, col_offset=0, end_lineno=at, end_col_offset=0)
        return ast.Return(name, lineno=at, col_offset=0, end_lineno=at, end_col_offset=0)


def _parsed(text: str) -> ast.Module | None:
    """The tree of a text; None where Python cannot read it. Raises RecursionError where only its caller is too deep:
    the parser may go less deep then.
    """
    try:
        return parse(text)
    except (SyntaxError, ValueError):
        return None
    except (RecursionError, MemoryError):
        from h2dlint.facts.finder import parse_module
        from h2dlint.room import with_room

        return with_room(lambda: parse_module(text))


class _LateFunction(ast.FunctionDef):
    """A function without its body so far; it becomes a plain one when that is asked for."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        return _read(self, name)


class _LateAsyncFunction(ast.AsyncFunctionDef):
    """The same for an `async def`."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        return _read(self, name)


def _read(node: Any, name: str) -> Any:
    if name != "body":
        raise AttributeError(name)
    unread = node.__dict__["unread"]
    _end_wait(node).body = unread.read()
    return node.body


def _end_wait(node: Any) -> Any:
    """The node, which is a plain one from now on."""
    del node.__dict__["unread"]
    node.__class__ = ast.FunctionDef if isinstance(node, ast.FunctionDef) else ast.AsyncFunctionDef
    return node


def is_late(node: ast.AST) -> bool:
    """Whether this is a function whose body nobody has looked into. It holds no other function, and no class."""
    return type(node) in _LATE


_LATE = frozenset({_LateFunction, _LateAsyncFunction})


def read_from(late: Iterable[ast.FunctionDef | ast.AsyncFunctionDef], tree: ast.Module) -> None:
    """Take the bodies that are not parsed so far from another tree of the same text."""
    bodies = {node.lineno: node.body for node in outermost_functions(tree.body)}
    for node in filter(is_late, late):
        _end_wait(node).body = bodies[node.lineno]


def make_late(node: ast.FunctionDef | ast.AsyncFunctionDef, text: str, body: Body) -> None:
    """Have the node, whose body is a placeholder, wait for that of the text."""
    del node.body
    node.__dict__["unread"] = Unread(text, body)
    node.__class__ = _LateFunction if isinstance(node, ast.FunctionDef) else _LateAsyncFunction


def outermost_functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The outermost functions below some statements."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node
        elif isinstance(node, _HOLDERS):
            for field in ("body", "orelse", "finalbody", "handlers", "cases"):
                waiting.extend(getattr(node, field, ()))


_HOLDERS = (
    *(ast.ClassDef, ast.If, ast.Try, ast.With, ast.For, ast.While, ast.AsyncWith, ast.AsyncFor),
    *(ast.Match, ast.ExceptHandler, ast.match_case, getattr(ast, "TryStar", ast.Try)),
)
