"""A notebook's file: where in its text the source of each cell lies, and the text with other sources in it.

nbformat 4 has `cells` with a `source`; 2 and 3 have `worksheets`, whose code cells call it `input`. A source is one
string, or a list of strings that are put together (nbformat.readthedocs.io, "The notebook format").
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from h2dlint.apply import apply_edits
from h2dlint.finding import Edit

_SPACE = re.compile(r"[ \t\n\r]*")
_CHARACTER = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u.{4}|\\.|[^\\]", re.DOTALL)
_DECODER = json.JSONDecoder(parse_int=float)  # Python refuses a whole number of 5,000 digits, and none is looked at

Range = tuple[int, int]
"""Characters [start, end) of the file's text."""


class NotANotebookError(ValueError):
    """Why a text is no notebook, with the line to blame."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        """1 where no line is to blame."""


class Cell(Struct, frozen=True):
    """One cell and its place in the file."""

    number: int
    """Its position among all cells, text cells too; the first is 1."""
    python: bool
    """A code cell that the kernel runs as Python."""
    source: str
    value: Range
    """The JSON value that holds the source."""
    strings: tuple[Range, ...]
    """The string literals of that value, without their quotes."""
    pieces: tuple[str, ...]
    """What these strings say; together they are the source."""
    listed: bool
    """Whether the value is a list of strings."""


class Notebook(Struct, frozen=True):
    """A notebook as text and cells."""

    text: str
    cells: tuple[Cell, ...]

    @classmethod
    def read(cls, text: str) -> Notebook:
        """Finds the cells of a notebook.

        Raises:
            NotANotebookError: the text is no JSON, or has no cells.
        """
        try:
            start = _skip(text, 0)
            whole, end = _DECODER.raw_decode(text, start)
            end = _skip(text, end)
            if end != len(text):
                raise json.JSONDecodeError("Extra data", text, end)
            if not isinstance(whole, dict):
                raise NotANotebookError(1, "not a notebook: its JSON is no object")
            return cls(text, tuple(_cells(text, start, whole)))
        except json.JSONDecodeError as error:
            raise NotANotebookError(error.lineno, f"not a notebook: no JSON ({error.msg})") from None
        except RecursionError:
            raise NotANotebookError(1, "not a notebook: its JSON is nested too deeply") from None

    def cell(self, number: int) -> Cell:
        """The cell of that number."""
        return self.cells[number - 1]

    def offset_of(self, cell: Cell, at: int, end: bool = False) -> int:
        """Where character `at` of a cell's source lies in the text.

        With `end`, where the character before it ends, which is what a range up to `at` needs.
        """
        wanted = max(at - 1, 0) if end else at
        before = 0
        for index, piece in enumerate(cell.pieces):
            if wanted < before + len(piece) or index == len(cell.pieces) - 1:
                return self._walk(cell.strings[index], at - before)
            before += len(piece)
        return cell.value[0]

    def position_of(self, offset: int) -> tuple[Cell, int] | None:
        """The cell and the character of its source that lie at an offset of the text; None outside the sources."""
        for cell in self.cells:
            if cell.value[0] <= offset < cell.value[1]:
                before = 0
                for (start, end), piece in zip(cell.strings, cell.pieces, strict=True):
                    if start <= offset <= end:
                        return cell, before + len(_CHARACTER.findall(self.text, start, offset))
                    before += len(piece)
        return None

    def _walk(self, string: Range, characters: int) -> int:
        at, end = string
        for match in _CHARACTER.finditer(self.text, at, end):
            if characters <= 0:
                break
            characters -= 1
            at = match.end()
        return at

    def edits(self, sources: Mapping[int, str]) -> tuple[Edit, ...]:
        """What to change in the text to give cells, by number, other sources. Whatever stays is not touched."""
        found: list[Edit] = []
        for number, source in sorted(sources.items()):
            cell = self.cell(number)
            if source != cell.source:
                found += _line_edits(self.text, cell, source)
        return tuple(found)

    def with_sources(self, sources: Mapping[int, str]) -> str:
        """The text with other sources in these cells, and every other character as it was."""
        return apply_edits(self.text, self.edits(sources))


# --- reading ------------------------------------------------------------------------------------------------------


def _cells(text: str, start: int, whole: Mapping[str, object]) -> Iterator[Cell]:
    places = dict(_members(text, start))
    python = _is_python(whole.get("metadata"))
    found: list[Range] = []
    if isinstance(whole.get("cells"), list):
        found = list(_items(text, places["cells"][0]))
    elif isinstance(whole.get("worksheets"), list):
        for sheet, _ in _items(text, places["worksheets"][0]):
            inner = dict(_members(text, sheet)) if text[sheet] == "{" else {}
            if "cells" in inner and text[inner["cells"][0]] == "[":
                found += _items(text, inner["cells"][0])
    else:
        raise NotANotebookError(1, "not a notebook: it has no cells")
    for number, (at, _) in enumerate(found, 1):
        yield _cell(text, number, at, python)


def _cell(text: str, number: int, at: int, python: bool) -> Cell:
    members = dict(_members(text, at)) if text[at] == "{" else {}
    value = members.get("source", members.get("input", (at, at)))
    strings = list(_strings(text, value))
    pieces = [_DECODER.raw_decode(text, start - 1)[0] for start, _ in strings]
    return Cell(
        number=number,
        python=python and _says(text, members, "cell_type") == "code" and _speaks_python(text, members),
        source="".join(pieces),
        value=value,
        strings=tuple(strings),
        pieces=tuple(pieces),
        listed=text[value[0] : value[0] + 1] == "[",
    )


def _is_python(metadata: object) -> bool:
    """Whether the kernel speaks Python, as far as the metadata say."""
    if not isinstance(metadata, dict):
        return True
    for section, key in (("kernelspec", "language"), ("language_info", "name")):
        inner = metadata.get(section)
        language = inner.get(key) if isinstance(inner, dict) else None
        if isinstance(language, str) and language:
            return language.lower() in ("python", "ipython")
    return True


def _speaks_python(text: str, members: Mapping[str, Range]) -> bool:
    """Whether a code cell has no language of its own: nbformat 3 names it, and VS Code in its metadata."""
    language = _says(text, members, "language")
    if "metadata" in members:
        metadata = _DECODER.raw_decode(text, members["metadata"][0])[0]
        vscode = metadata.get("vscode") if isinstance(metadata, dict) else None
        language = (vscode.get("languageId") if isinstance(vscode, dict) else None) or language
    return language in (None, "python")


def _says(text: str, members: Mapping[str, Range], key: str) -> object:
    return _DECODER.raw_decode(text, members[key][0])[0] if key in members else None


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


# The text is known to be JSON from here on.


def _members(text: str, at: int) -> Iterator[tuple[str, Range]]:
    """The names and the places of the values of the object that starts at `at`."""
    at = _skip(text, at + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        end = _DECODER.raw_decode(text, start)[1]
        yield name, (start, end)
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _items(text: str, at: int) -> Iterator[Range]:
    """The places of the items of the list that starts at `at`."""
    at = _skip(text, at + 1)
    while text[at] != "]":
        end = _DECODER.raw_decode(text, at)[1]
        yield at, end
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _strings(text: str, value: Range) -> Iterator[Range]:
    """The string literals of a source, without their quotes."""
    start, end = value
    if text[start : start + 1] == '"' and end > start:
        yield start + 1, end - 1
    elif text[start : start + 1] == "[" and end > start:
        for first, last in _items(text, start):
            if text[first] == '"':
                yield first + 1, last - 1


# --- writing ------------------------------------------------------------------------------------------------------


def _line_edits(text: str, cell: Cell, source: str) -> Iterator[Edit]:
    """The edits of one cell: the lines that differ, if it lists its lines, else the whole value."""
    lines = _lines(source)
    escape = text[cell.value[0] : cell.value[1]].isascii()
    if not cell.listed:
        yield _trimmed(text, cell.value, _literal(source, escape))
    elif list(cell.pieces) != _lines(cell.source) or not cell.pieces or not lines:
        between, (head, tail) = _separator(text, cell), _brackets(text, cell)
        inner = between.join(_literal(line, escape) for line in lines)
        yield _trimmed(text, cell.value, f"{head}{inner}{tail}" if lines else "[]")
    else:
        yield from _listed_edits(text, cell, lines, escape)


def _listed_edits(text: str, cell: Cell, lines: Sequence[str], escape: bool) -> Iterator[Edit]:
    from difflib import SequenceMatcher

    between = _separator(text, cell)
    starts = [start - 1 for start, _ in cell.strings]
    ends = [end + 1 for _, end in cell.strings]
    matcher = SequenceMatcher(None, cell.pieces, lines, autojunk=False)
    for kind, old, old_end, new, new_end in matcher.get_opcodes():
        literals = [_literal(line, escape) for line in lines[new:new_end]]
        if kind == "replace":
            yield Edit(starts[old], ends[old_end - 1], between.join(literals))
        elif kind == "insert" and old < len(starts):
            yield Edit(starts[old], starts[old], "".join(literal + between for literal in literals))
        elif kind == "insert":
            yield Edit(ends[-1], ends[-1], "".join(between + literal for literal in literals))
        elif kind == "delete" and old_end < len(starts):
            yield Edit(starts[old], starts[old_end], "")
        elif kind == "delete":
            yield Edit(ends[old - 1], ends[-1], "")


def _lines(source: str) -> list[str]:
    """The source as notebooks list it: a string a line, each but the last with its newline."""
    lines = source.split("\n")
    return [*(f"{line}\n" for line in lines[:-1]), *([lines[-1]] if lines[-1] else [])]


def _literal(text: str, escape: bool) -> str:
    return json.dumps(text, ensure_ascii=escape)


def _separator(text: str, cell: Cell) -> str:
    """What stands between two strings of the list."""
    if len(cell.strings) > 1:
        return text[cell.strings[0][1] + 1 : cell.strings[1][0] - 1]
    lead = _brackets(text, cell)[0][1:]
    return f",{lead}" if lead else ", "


def _brackets(text: str, cell: Cell) -> tuple[str, str]:
    """The list's brackets with the space inside them."""
    start, end = cell.value
    if not cell.strings:
        return "[", "]"
    return text[start : cell.strings[0][0] - 1], text[cell.strings[-1][1] + 1 : end]


def _trimmed(text: str, place: Range, replacement: str) -> Edit:
    """The replacement of a range, without the ends that stay as they are."""
    start, end = place
    head = 0
    while head < min(end - start, len(replacement)) and text[start + head] == replacement[head]:
        head += 1
    tail = 0
    while tail < min(end - start, len(replacement)) - head and text[end - 1 - tail] == replacement[-1 - tail]:
        tail += 1
    return Edit(start + head, end - tail, replacement[head : len(replacement) - tail])
