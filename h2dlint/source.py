"""A file's bytes as text and tree, or the reason why it has neither."""

from __future__ import annotations

import ast
import re
import warnings

from msgspec import Struct

_LINE_END = re.compile(r"\r\n|\r|\n")
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=]", re.MULTILINE)
_BOM = b"\xef\xbb\xbf"


class Problem(Struct, frozen=True):
    """Why a file cannot be analysed; line 1 where no line is to blame."""

    line: int
    message: str
    deep: bool = False
    """Whether it is only nested too deeply."""
    grammar: bool = False
    """Whether it is text that this Python's grammar refuses."""


class SourceFile(Struct, frozen=True):
    """One file as the analysis sees it: a tree, or a problem."""

    path: str
    """As shown to users."""
    text: str
    """Decoded, without a byte order mark, newlines as they are; empty if it could not be decoded."""
    encoding: str
    """What turns the text back into the file's bytes."""
    tree: ast.Module | None
    problem: Problem | None


def split_lines(text: str) -> list[str]:
    """The lines of `text` as Python counts them, without their ends; `str.splitlines` would find more."""
    return _LINE_END.split(text)


def load(path: str, data: bytes) -> SourceFile:
    """Decodes and parses `data`; never raises for what a file may contain."""
    encoding = "utf-8"
    text = ""
    try:
        _refuse_null_bytes(data)
        encoding = encoding_of(data)
        text = data.decode(encoding)
        tree = parse(text)
    except _CANNOT_PARSE as error:
        return SourceFile(path, text, encoding, None, _problem_of(error, data))
    return SourceFile(path, text, encoding, tree, None)


def parsed(text: str) -> tuple[ast.Module | None, Problem | None]:
    """The tree of a text, or why it has none."""
    try:
        return parse(text), None
    except _CANNOT_PARSE as error:
        return None, _problem_of(error, b"")


def parse(text: str) -> ast.Module:
    """`ast.parse` without the warnings that it prints about the code it reads.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as `ast.parse`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, PARSED)


PARSED = "<text>"
"""What the parser calls what it is given, in the errors that it raises."""
_CANNOT_PARSE = (SyntaxError, ValueError, LookupError, RecursionError, MemoryError)


def encoding_of(data: bytes) -> str:
    """The encoding that a byte order mark or a coding comment declares; UTF-8 otherwise.

    Raises:
        SyntaxError: an unknown encoding, or one that contradicts the byte order mark.
    """
    head = b"\n".join(data.split(b"\n", 2)[:2])
    if not data.startswith(_BOM) and not _COOKIE.search(head.replace(b"\r", b"\n")):
        return "utf-8"
    import io
    import tokenize

    return tokenize.detect_encoding(io.BytesIO(data).readline)[0]


def _refuse_null_bytes(data: bytes) -> None:
    at = data.find(b"\0")
    if at >= 0:
        raise SyntaxError("null byte in the source", ("", _line_at(data, at), None, None))


def _line_at(data: bytes, offset: int) -> int:
    return len(re.findall(rb"\r\n|\r|\n", data[:offset])) + 1


def _problem_of(error: BaseException, data: bytes) -> Problem:
    if isinstance(error, SyntaxError):
        refused = error.filename == PARSED
        return Problem(max(error.lineno or 1, 1), f"syntax error: {error.msg}", grammar=refused)
    if isinstance(error, UnicodeDecodeError):
        return Problem(_line_at(data, error.start), f"not {error.encoding}: byte 0x{data[error.start]:02x}")
    if isinstance(error, (RecursionError, MemoryError)):
        return Problem(1, "nested too deeply to be parsed", deep=True)
    return Problem(1, str(error) or type(error).__name__)
