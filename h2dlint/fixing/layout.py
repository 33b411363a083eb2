"""Edits in the style of the file: lines before and behind a statement, arguments, and wrapping as formatters do it."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from h2dlint.finding import Edit
from h2dlint.fixing.document import Document
from h2dlint.fixing.site import RefusedError
from h2dlint.fixing.wrapping import rewrapped, wrapped

MUST_STAND_ALONE = "the statement shares its line with another"

_USUAL_LENGTHS = (79, 88, 100, 120)
_LENGTH_SETTING = re.compile(r"^\s*line[-_]length\s*=\s*(\d+)", re.MULTILINE)
_SETTINGS = ("ruff.toml", ".ruff.toml", "pyproject.toml")
_CLOSERS = ")]}"


# --- whole lines --------------------------------------------------------------------------------------------------


def stands_alone(document: Document, statement: ast.stmt) -> bool:
    """Whether nothing but a comment shares the lines of `statement`."""
    first, last = _first_line(statement), statement.end_lineno or statement.lineno
    head = document.lines.line(first)
    before = head[: document.lines.offset(first, _first_column(statement)) - document.lines.starts[first - 1]]
    end = document.lines.offsets(statement)[1]
    behind = document.text[end : document.lines.starts[last - 1] + len(document.lines.line(last))].strip()
    return not before.strip() and (not behind or behind.startswith("#"))


def insert_before(document: Document, statement: ast.stmt, lines: Sequence[str]) -> Edit:
    """Puts lines, indented like `statement`, in front of it.

    Raises RefusedError where no line can stand there: an `elif`, or a loop whose test is read again and again.
    """
    _refuse_crowded(document, statement)
    if document.source(statement).startswith("elif"):
        raise RefusedError("nothing can be put in front of an `elif`")
    if isinstance(statement, ast.While):
        raise RefusedError("what stands in front of a `while` runs only once")
    offset = document.lines.starts[_first_line(statement) - 1]
    return Edit(offset, offset, _as_lines(document, statement, lines))


def insert_after(document: Document, statement: ast.stmt, lines: Sequence[str]) -> Edit:
    """Puts lines, indented like `statement`, behind it. Raises RefusedError as `insert_before`."""
    _refuse_crowded(document, statement)
    number = statement.end_lineno or statement.lineno
    offset = document.lines.starts[number - 1] + len(document.lines.line(number))
    lead = "" if document.text[:offset].endswith(("\n", "\r")) else document.newline
    return Edit(offset, offset, lead + _as_lines(document, statement, lines))


def delete(document: Document, statement: ast.stmt) -> Edit:
    """Takes a statement out with its lines; `pass` stays where its block holds nothing else."""
    _refuse_crowded(document, statement)
    start = document.lines.starts[_first_line(statement) - 1]
    number = statement.end_lineno or statement.lineno
    end = document.lines.starts[number - 1] + len(document.lines.line(number))
    if _is_only_one(document, statement):
        return Edit(start, end, _as_lines(document, statement, ["pass"]))
    return Edit(start, end, "")


def _refuse_crowded(document: Document, statement: ast.stmt) -> None:
    if not stands_alone(document, statement):
        raise RefusedError(MUST_STAND_ALONE)


def _is_only_one(document: Document, statement: ast.stmt) -> bool:
    parent = document.parents[statement]
    return any(
        block == [statement]
        for field in ("body", "orelse", "finalbody")
        if not isinstance(parent, ast.Module)
        for block in [getattr(parent, field, None)]
    )


def _as_lines(document: Document, statement: ast.stmt, lines: Sequence[str]) -> str:
    indent, newline = document.indent_of(statement), document.newline
    pieces = (piece for line in lines for piece in line.split("\n"))
    return "".join(f"{indent}{piece}{newline}" if piece else newline for piece in pieces)


def _first_line(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", None)
    return decorators[0].lineno if decorators else statement.lineno


def _first_column(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", None)
    return max(decorators[0].col_offset - 1, 0) if decorators else statement.col_offset


# --- inside a statement -------------------------------------------------------------------------------------------


def add_keyword(document: Document, call: ast.Call, name: str, value: str) -> Edit:
    """Gives `call` the keyword argument, in the style of its argument list.

    It goes behind the others, but before `**options`.
    """
    start, end = document.lines.offsets(call)
    text = f"{name}={value}"
    options = [keyword for keyword in call.keywords if keyword.arg is None]
    if options:
        at = document.lines.offset(options[0].lineno, options[0].col_offset)
        return Edit(at, at, f"{text}, ")
    closing = end - 1
    last = _last_argument_end(document, call)
    if last is None:
        return Edit(closing, closing, text)
    behind = document.text[last:closing]
    if "\n" not in behind and "\r" not in behind:
        comma = behind.find(",")
        return Edit(last + max(comma, 0), closing, f", {text}" + (behind[comma:] if comma >= 0 else ""))
    # The bracket closes on a line of its own.
    line_start = document.text.rfind("\n", start, last) + 1
    indent = re.match(r"[ \t]*", document.text[line_start:]).group()  # type: ignore[union-attr]
    if not _is_exploded(document, call):
        if behind.lstrip().startswith(","):
            at = last + behind.index(",") + 1
            return Edit(at, at, f" {text},")
        return Edit(last, last, f", {text}")
    if behind.lstrip().startswith(","):
        at = last + behind.index(",") + 1
        comment_end = _line_tail(document, at)
        return Edit(comment_end, comment_end, f"{document.newline}{indent}{text},")
    return Edit(last, last, f",{document.newline}{indent}{text}")


def _line_tail(document: Document, offset: int) -> int:
    """The end of the line of `offset`, without its newline."""
    match = re.compile(r"[^\r\n]*").match(document.text, offset)
    return match.end() if match else offset


def _is_exploded(document: Document, call: ast.Call) -> bool:
    """Whether every argument starts on a line of its own."""
    lines = [node.lineno for node in (*call.args, *(keyword.value for keyword in call.keywords))]
    first = call.func.end_lineno or call.func.lineno
    return len(set(lines)) == len(lines) and first not in lines


def _last_argument_end(document: Document, call: ast.Call) -> int | None:
    """Where the last argument ends, parentheses around it included; None without arguments."""
    ends = [document.lines.offsets(node)[1] for node in (*call.args, *(keyword.value for keyword in call.keywords))]
    if not ends:
        return None
    end = max(ends)
    closing = document.lines.offsets(call)[1] - 1
    # What is between it and the call's own bracket: closing parentheses, a comma, comments.
    while True:
        match = re.compile(r"(?:\s|\\\n|#[^\n]*)*\)").match(document.text, end)
        if match is None or match.end() > closing:
            return end
        end = match.end()


def refitted(document: Document, statement: ast.stmt, edits: Iterable[Edit]) -> Edit:
    """One edit that makes all of `edits`, which lie inside `statement`, and wraps the result where it is too long.

    The header of a compound statement is not wrapped.
    """
    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    start, end = document.lines.offsets(statement)
    if hasattr(statement, "body") or isinstance(statement, ast.Match):
        start, end = ordered[0].start, ordered[-1].end
        return Edit(start, end, _applied(document.text, start, end, ordered))
    text = _applied(document.text, start, end, ordered)
    style = (document.indent_of(statement), document.indent_unit, line_length(document), document.newline)
    return Edit(start, end, rewrapped(document.text[start:end], text, *style))


def _applied(text: str, start: int, end: int, edits: Sequence[Edit]) -> str:
    pieces: list[str] = []
    at = start
    for edit in edits:
        if edit.start < at:
            raise RefusedError("the edits overlap")
        pieces += [text[at : edit.start], edit.replacement]
        at = edit.end
    return "".join([*pieces, text[at:end]])


# --- length -------------------------------------------------------------------------------------------------------


def fitted(document: Document, text: str, indent: str) -> str:
    """The text of a statement that starts behind `indent`, wrapped where it no longer fits."""
    return wrapped(text, indent, document.indent_unit, line_length(document), document.newline)


def line_length(document: Document) -> int:
    """How long lines may be: what the project's formatter is told, else the usual length that the file keeps to."""
    configured = _configured_length(os.path.dirname(os.path.abspath(document.file)))
    if configured is not None:
        return configured
    longest = max((len(line) for line in document.text.split("\n")), default=0)
    # Without a hint both formatters agree on 88.
    return max(88, next((usual for usual in _USUAL_LENGTHS if longest <= usual), _USUAL_LENGTHS[-1]))


@lru_cache(maxsize=256)
def _configured_length(folder: str) -> int | None:
    """The line length in the nearest settings file of a formatter, in `folder` or above, that names one."""
    for name in _SETTINGS:
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                match = _LENGTH_SETTING.search(file.read())
        except OSError:
            continue
        if match:
            return int(match.group(1))
        return 88  # the settings that hold say nothing else
    parent = os.path.dirname(folder)
    return None if parent == folder else _configured_length(parent)


def settings_files_above(file: str) -> Iterator[str]:
    """Every file that may say how long lines may be, whether it is there or not."""
    folder = os.path.dirname(os.path.abspath(file))
    while True:
        yield from (os.path.join(folder, name) for name in _SETTINGS)
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent
