"""A file under repair: its text and tree, and which node stands where. Shared by all sites of the file."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable
from functools import cached_property

from h2dlint.facts.copies import Span
from h2dlint.regions import Lines


class Document:
    """A parsed file. Positions are character offsets into `text`."""

    def __init__(
        self,
        path: str,
        text: str,
        tree: ast.Module,
        file: str = "",
        others: Callable[[str], Document | None] | None = None,
    ) -> None:
        """`others` gives another file of the project by its path as shown; None for one that cannot be rewritten."""
        self._others = others
        self.path = path
        """As shown to users."""
        self.file = file or path
        """What to open."""
        self.text = text
        self.tree = tree

    @cached_property
    def lines(self) -> Lines:
        """Where the lines start."""
        return Lines.of(self.text)

    @cached_property
    def content_hash(self) -> str:
        """What binds an edit to this very text."""
        return hash_of(self.text)

    @cached_property
    def newline(self) -> str:
        """The line end of the file's first line."""
        first = self.lines.line(1)
        return first[len(first.rstrip("\r\n")) :] or "\n"

    @cached_property
    def indent_unit(self) -> str:
        """One level of indentation: that of the first indented statement."""
        for node in ast.walk(self.tree):
            body = getattr(node, "body", None)
            if isinstance(node, ast.stmt) and isinstance(body, list) and body[0].lineno > node.lineno:
                inner, outer = self.indent_of(body[0]), self.indent_of(node)
                if inner.startswith(outer) and inner != outer:
                    return inner[len(outer) :]
        return "    "

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The node around each node."""
        found: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                found[child] = node
        return found

    @cached_property
    def _expressions(self) -> dict[tuple[int, int], ast.expr]:
        found: dict[tuple[int, int], ast.expr] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.expr):
                found.setdefault(self.lines.offsets(node), node)  # the walk meets the outer one first
        return found

    def other(self, path: str) -> Document | None:
        """Another file, as it is now, where a fix may have to go; None where no other file may be rewritten."""
        return self._others(path) if self._others is not None else None

    def node_at(self, span: Span) -> ast.expr | None:
        """The outermost expression that takes up exactly `span`."""
        if not 1 <= span.line <= span.end_line <= len(self.lines.starts):
            return None
        return self._expressions.get(self.lines.span_offsets(span))

    def source(self, node: ast.expr | ast.stmt) -> str:
        """The text of a node, without parentheses around it."""
        start, end = self.lines.offsets(node)
        return self.text[start:end]

    def indent_of(self, statement: ast.stmt) -> str:
        """The white space in front of a statement's first line; what stands before a form feed does not count."""
        line = self.lines.line(statement.lineno)
        return line[: len(line) - len(line.lstrip(" \t\f"))].rpartition("\f")[2]

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds `node`, or `node` itself.

        Raises LookupError for a node of another tree.
        """
        while not isinstance(node, ast.stmt):
            parent = self.parents.get(node)
            if parent is None:
                raise LookupError("not a node of this file")
            node = parent
        return node

    def around(self, node: ast.AST) -> list[ast.AST]:
        """What holds `node`, from the inside out, without the module."""
        found: list[ast.AST] = []
        while (parent := self.parents.get(node)) is not None and not isinstance(parent, ast.Module):
            found.append(parent)
            node = parent
        return found

    def function_of(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The innermost function whose body holds `node`; None at the top level and in a class body."""
        inner = node
        for outer in self.around(node):
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)) and inner in outer.body:
                return outer
            inner = outer
        return None

    def length_of(self, node: ast.stmt | None) -> int:
        """The characters of a statement, or of the whole text."""
        if node is None:
            return len(self.text)
        start, end = self.lines.offsets(node)
        return end - start


def hash_of(text: str) -> str:
    """A digest of a text, the same on every machine."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
