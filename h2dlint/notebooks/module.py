"""The code cells of a notebook as one module, line for line, and the way back from a changed module to the cells.

    #%h2dlint cell 2
    import torch
    pass  #%h2dlint line 0

Comments with a mark that occurs nowhere in the notebook say where a cell starts and which lines are stand-ins. They
survive whatever is rewritten around them, and where they do not, the way back is refused.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from h2dlint.notebooks.document import Cell, NotANotebookError, Notebook
from h2dlint.notebooks.magics import (
    OWN_SCOPE,
    PYTHON_CELLS,
    UNKNOWN,
    Hidden,
    bound_names,
    cell_magic,
    hidden_lines,
    names_in,
    without,
)
from h2dlint.source import parse

BOM = b"\xef\xbb\xbf"
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$")


class Broken(Struct, frozen=True):
    """A cell that does not parse."""

    cell: int
    line: int
    """Within the cell, from 1."""
    message: str


class Section(Struct, frozen=True):
    """The lines of one cell in the module."""

    cell: int
    first: int
    """The line of the module, from 1, that is the cell's first."""
    lines: int


class CellModule(Struct, frozen=True):
    """A notebook as a module."""

    notebook: Notebook
    text: str
    """What is analysed."""
    mark: str
    sections: tuple[Section, ...]
    hidden: tuple[str, ...]
    """What the stand-ins stand for, by number."""
    whole: Mapping[int, str]
    """Cells that are left out as a whole, by number, with the lines that stand for them."""
    broken: tuple[Broken, ...]

    @classmethod
    def of(cls, notebook: Notebook) -> CellModule:
        """Puts the Python cells of a notebook together."""
        return _Builder(notebook).build()

    def section_at(self, line: int) -> Section | None:
        """The section that holds a line of the module."""
        at = bisect_right(self.sections, line, key=lambda section: section.first) - 1
        if at < 0 or line >= self.sections[at].first + self.sections[at].lines:
            return None
        return self.sections[at]

    def sources(self, text: str) -> dict[int, str] | None:
        """The sources of the cells, by number, in a changed text of this module; None where it lost its cells."""
        found = dict(self._split(text))
        if list(found) != [section.cell for section in self.sections]:
            return None
        if any(found[number] != text for number, text in self.whole.items()):
            return None
        sources: dict[int, str] = {}
        seen: list[int] = []
        for number, part in found.items():
            if number in self.whole:
                continue
            lines: list[str] = []
            for line in _LINE.findall(part):
                stand_in = self._stand_in.search(line)
                if stand_in is None:
                    lines.append(line)
                elif stand_in[1] is not None:
                    seen.append(int(stand_in[1]))
                    lines.append(self.hidden[seen[-1]] + line[len(line.rstrip("\r\n")) :])
            sources[number] = _without_last_newline("".join(lines))
        return sources if seen == list(range(len(self.hidden))) else None

    def _split(self, text: str) -> Iterator[tuple[int, str]]:
        """Cell numbers with their part of the text. What stands before the first cell belongs to it."""
        heads = list(re.finditer(rf"^[^\r\n]*{re.escape(self.mark)} cell (\d+)(?:\r\n|\r|\n)", text, re.MULTILINE))
        for index, head in enumerate(heads):
            end = heads[index + 1].start() if index + 1 < len(heads) else len(text)
            before = text[: head.start()] if index == 0 else ""
            yield int(head[1]), before + text[head.end() : end]

    @property
    def _stand_in(self) -> re.Pattern[str]:
        return re.compile(rf"{re.escape(self.mark)} (?:line (\d+)|forget)\s*$")


def opened(data: bytes) -> CellModule:
    """The module in a notebook's bytes.

    Raises:
        NotANotebookError: they are not UTF-8, no JSON, or have no cells.
    """
    text = data.removeprefix(BOM)
    try:
        return CellModule.of(Notebook.read(text.decode("utf-8")))
    except UnicodeDecodeError as error:
        line = len(re.findall(rb"\r\n|\r|\n", text[: error.start])) + 1
        raise NotANotebookError(line, f"not a notebook: not UTF-8 (byte 0x{text[error.start]:02x})") from None


class _Builder:
    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._cells = [cell for cell in notebook.cells if cell.python]
        sources = [cell.source for cell in self._cells]
        self._newline = "\r\n" if any("\r\n" in source for source in sources) else "\n"
        self._mark = "#%h2dlint"
        while any(self._mark in source for source in sources):
            self._mark += "%"
        self._known: Collection[str] = ()
        self._hidden: list[str] = []
        self._whole: dict[int, str] = {}
        self._broken: list[Broken] = []

    def build(self) -> CellModule:
        self._known = bound_names(_trees(self._cells))
        text = ""
        lines = 0
        sections: list[Section] = []
        for cell in self._cells:
            head, body = self._part(cell)
            sections.append(Section(cell.number, lines + 2, len(_LINE.findall(cell.source)) or 1))
            part = f"{head}{self._mark} cell {cell.number}{self._newline}{body}"
            text += part
            lines += len(_LINE.findall(part))
        return CellModule(
            self._notebook,
            text,
            self._mark,
            tuple(sections),
            tuple(self._hidden),
            self._whole,
            tuple(self._broken),
        )

    def _part(self, cell: Cell) -> tuple[str, str]:
        """What opens a cell, in front of its mark, and its lines."""
        magic = cell_magic(cell.source)
        if magic is not None and magic not in PYTHON_CELLS:
            return "", self._left_out(cell)
        already_hidden = len(self._hidden)
        body = self._visible(cell)
        # A cell whose first line is indented runs all the same: IPython takes the indent away.
        head = "if True:  " if body[:1] in (" ", "\t") and _problem(body) else ""
        problem = _problem(f"{head}#{self._newline}{body}")
        if problem is None:
            return head, body
        del self._hidden[already_hidden:]
        last = max(len(_LINE.findall(cell.source)), 1)
        self._broken.append(Broken(cell.number, min(max(problem.line - 1, 1), last), problem.message))
        return "", self._left_out(cell)

    def _visible(self, cell: Cell) -> str:
        """The lines of a cell with stand-ins for those that are IPython's."""
        lines = _LINE.findall(cell.source)
        for hidden in hidden_lines(cell.source):
            lines[hidden.line] = self._stand_in(lines[hidden.line], hidden)
        body = "".join(lines) + self._newline
        if cell_magic(cell.source) in OWN_SCOPE:
            own = (tree for tree in [_tree(body)] if tree is not None)
            body += self._forget(bound_names(own))
        return body

    def _stand_in(self, line: str, hidden: Hidden) -> str:
        self._hidden.append(line.rstrip("\r\n"))
        return without(line, hidden, f"{self._mark} line {len(self._hidden) - 1}", self._known)

    def _left_out(self, cell: Cell) -> str:
        """The lines for a cell that is not Python: as many, and whatever it may bind is unknown afterwards."""
        count = max(len(_LINE.findall(cell.source)), 1)
        text = self._newline * count + self._forget(names_in(cell.source) & set(self._known))
        self._whole[cell.number] = text
        return text

    def _forget(self, names: Collection[str]) -> str:
        if not names:
            return ""
        return f"{' = '.join(sorted(names))} = {UNKNOWN}  {self._mark} forget{self._newline}"


class _Problem(Struct, frozen=True):
    line: int
    message: str


def _problem(text: str) -> _Problem | None:
    try:
        parse(text)
    except SyntaxError as error:
        return _Problem(error.lineno or 1, f"syntax error: {error.msg}")
    except (ValueError, RecursionError, MemoryError) as error:
        return _Problem(1, f"cannot be parsed: {error}")
    return None


def _tree(text: str) -> ast.Module | None:
    try:
        return parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _trees(cells: Collection[Cell]) -> Iterator[ast.Module]:
    """The cells that parse, with what is IPython's left out."""
    for cell in cells:
        lines = _LINE.findall(cell.source)
        for hidden in hidden_lines(cell.source):
            lines[hidden.line] = without(lines[hidden.line], hidden, "#", ())
        tree = _tree("".join(lines))
        if tree is not None:
            yield tree


def _without_last_newline(text: str) -> str:
    for end in ("\r\n", "\n", "\r"):
        if text.endswith(end):
            return text[: -len(end)]
    return text
