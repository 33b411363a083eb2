"""One copy with everything a rewrite of it needs: its nodes, their text, and edits in the style of the file."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from h2dlint.facts.copies import Copy, Place, Span
from h2dlint.finding import Applicability, Edit, FileEdits, Fix
from h2dlint.fixing.document import Document
from h2dlint.fixing.options import FixOptions

if TYPE_CHECKING:
    from h2dlint.fixing.project_flags import Guard, Helper


class Refusal(Struct, frozen=True):
    """A fixer's form, but rewriting it would be wrong here."""

    reason: str
    """A clause for the reader: `the buffer is rewritten while the copy is queued`."""


class RefusedError(Exception):
    """Raised by a question that has no answer here; its text is the reason. The fix is given up with it."""


class Site(Struct, frozen=True, eq=False):
    """A copy in its file, as a fixer sees it."""

    document: Document
    copy: Copy
    call: ast.Call
    """The copy itself."""
    statement: ast.stmt
    """The innermost statement that holds the copy."""
    function: ast.FunctionDef | ast.AsyncFunctionDef | None
    """The innermost function whose body holds the copy."""
    options: FixOptions = FixOptions()

    @property
    def path(self) -> str:
        """The file as shown to users."""
        return self.document.path

    @property
    def text(self) -> str:
        """The file's text."""
        return self.document.text

    @property
    def tree(self) -> ast.Module:
        """The file's tree."""
        return self.document.tree

    # --- questions ------------------------------------------------------------------------------------------------

    def source(self, node: ast.expr | ast.stmt) -> str:
        """The text of a node, without parentheses around it."""
        return self.document.source(node)

    def node_at(self, span: Span) -> ast.expr | None:
        """The expression of a trace place; None where the place is not one expression of this file."""
        return self.document.node_at(span)

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds `node`. Raises LookupError for a node of another tree."""
        return self.document.statement_of(node)

    def function_of(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The innermost function whose body holds `node`."""
        return self.document.function_of(node)

    def torch_name(self) -> str:
        """What this module calls torch: `torch`, `th`. Raises RefusedError where it does not import it whole."""
        from h2dlint.fixing.imports import bound_name

        name = bound_name(self.document, "torch", self.statement)
        if name is None:
            raise RefusedError("this module does not import torch")
        return name

    def guard(self) -> Guard:
        """The condition under which memory may be pinned here, in the project's own words where it has some."""
        from h2dlint.fixing.guards import guard_for

        return guard_for(self)

    def helper(self) -> Helper | None:
        """The project's own function that pins and transfers: the configured one, or one found in the project."""
        from h2dlint.fixing.guards import helper_for

        return helper_for(self)

    def in_worker_code(self) -> bool:
        """Whether the copy runs in a loader's worker process, in compiled code or under graph capture: no pin there."""
        from h2dlint.fixing.workers import in_worker_code

        return in_worker_code(self.document, self.statement)

    # --- edits ----------------------------------------------------------------------------------------------------

    def replace(self, node: ast.expr | ast.stmt, text: str) -> Edit:
        """Puts `text` where `node` stands. Parentheses around the node stay."""
        start, end = self.document.lines.offsets(node)
        return Edit(start, end, text)

    def insert_before(self, statement: ast.stmt, lines: Sequence[str]) -> Edit:
        """Puts lines, indented relative to `statement`, in front of it.

        Raises RefusedError where no line can stand there, and where another indentation would change a string.
        """
        from h2dlint.fixing.layout import insert_before

        return insert_before(self.document, statement, _movable(lines))

    def insert_after(self, statement: ast.stmt, lines: Sequence[str]) -> Edit:
        """Puts lines, indented relative to `statement`, behind it. Raises RefusedError as `insert_before`."""
        from h2dlint.fixing.layout import insert_after

        return insert_after(self.document, statement, _movable(lines))

    def delete(self, statement: ast.stmt) -> Edit:
        """Takes a statement out with its line; `pass` stays where nothing else is in its block."""
        from h2dlint.fixing.layout import delete

        return delete(self.document, statement)

    def need_import(self, dotted: str) -> tuple[str, tuple[Edit, ...]]:
        """How to write `dotted`, such as `pkg.mod.NAME`, in this statement, and the edits that import it.

        Raises RefusedError where the name is taken, or the import would go in a circle.
        """
        from h2dlint.fixing.imports import need_import

        return need_import(self.document, dotted, self.statement)

    def fitted(self, text: str, statement: ast.stmt | None = None) -> str:
        """The text of a statement, wrapped as a formatter would if it no longer fits.

        `text` starts where the statement starts; it is indented like `statement`, by default the copy's own.
        """
        from h2dlint.fixing.layout import fitted

        return fitted(self.document, text, self.document.indent_of(statement or self.statement))

    def refitted(self, edits: Iterable[Edit], statement: ast.stmt | None = None) -> Edit:
        """One edit of a whole statement, by default the copy's, that makes all of `edits` inside it.

        The result is wrapped where it no longer fits.
        """
        from h2dlint.fixing.layout import refitted

        return refitted(self.document, statement or self.statement, edits)

    def add_keyword(self, call: ast.Call, name: str, value: str) -> Edit:
        """Gives `call` one more keyword argument, behind the others, in the style of its argument list."""
        from h2dlint.fixing.layout import add_keyword

        return add_keyword(self.document, call, name, value)

    def in_other_file(self, place: Place) -> Site | None:
        """The call at a place of the chain in another file, as the site of a rewrite; None where there is none.

        It knows nothing of what must have happened before the copy: whoever pins there needs the guard.
        """
        document = self.document.other(place.path)
        call = document.node_at(place.span) if document is not None else None
        if document is None or not isinstance(call, ast.Call):
            return None
        copy = msgspec.structs.replace(self.copy, path=document.path, to_accelerator=False)
        return Site(document, copy, call, document.statement_of(call), document.function_of(call), self.options)

    def fix_elsewhere(self, fix: Fix, path: str) -> Fix:
        """A rewrite of another file as the fix of this copy."""
        part = FileEdits(path, fix.edits, fix.content_hash)
        return Fix(fix.title, fix.applicability, (), self.document.content_hash, (part,))

    def fix(self, title: str, applicability: Applicability, edits: Iterable[Edit]) -> Fix:
        """The finished rewrite, bound to this text; edits in order, each once."""
        ordered = sorted(set(edits), key=lambda edit: (edit.start, edit.end, edit.replacement))
        return Fix(title, applicability, tuple(ordered), self.document.content_hash)


def _movable(lines: Sequence[str]) -> list[str]:
    """Lines without line ends of their own kind, which may be indented anew.

    Raises RefusedError where they hold a string over several lines: it would change with its indentation.
    """
    found = [line.replace("\r\n", "\n").replace("\r", "\n") for line in lines]
    if any("\n" in line for line in found) and holds_long_string("\n".join(found)):
        raise RefusedError("a string over several lines would change with its indentation")
    return found


def holds_long_string(text: str) -> bool:
    """Whether a text of Python has a string that goes over several lines; True too where that cannot be told."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return True
    return any(token.string.strip() and token.start[0] != token.end[0] for token in tokens)
