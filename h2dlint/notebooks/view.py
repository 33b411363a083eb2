"""What is said about a notebook's file, said in cells: `step.ipynb:cell 3` takes the place of the path.

For the formats that people read. Lines and columns are then those of the cell.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from h2dlint.apply import apply_edits
from h2dlint.facts.copies import Copy, Place, Span
from h2dlint.finding import Finding, Fix
from h2dlint.notebooks import is_notebook
from h2dlint.notebooks.document import Cell, NotANotebookError, Notebook
from h2dlint.regions import Lines


class InCell(Struct, frozen=True):
    """A range inside one cell."""

    cell: int
    span: Span


class Changed(Struct, frozen=True):
    """What a fix makes of one cell."""

    cell: int
    before: str
    after: str


class CellView:
    """Says in cells what a report says of the notebooks in it; everything else stays as it is."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        """`sources` are the texts of the files, by path."""
        self._sources = sources
        self._notebooks: dict[str, tuple[Notebook, Lines] | None] = {}

    def finding(self, finding: Finding) -> Finding:
        """The finding with its places in cells."""
        path, span = self._shown(finding.path, finding.span)
        return msgspec.structs.replace(finding, path=path, span=span, trace=tuple(map(self._place, finding.trace)))

    def copy(self, copy: Copy) -> Copy:
        """The copy with its place in a cell."""
        path, span = self._shown(copy.path, copy.span)
        return msgspec.structs.replace(copy, path=path, span=span)

    def source(self, path: str) -> str | None:
        """The text of a file, or of the cell that a path names."""
        file, _, number = path.rpartition(":cell ")
        opened = self._opened(file) if number.isdigit() else None
        return opened[0].cell(int(number)).source if opened else self._sources.get(path)

    def in_cell(self, path: str, span: Span) -> InCell | None:
        """Where a range of a file lies in a cell; None where it does not."""
        opened = self._opened(path)
        if opened is None or span.end_line > len(opened[1].starts):
            return None
        notebook, lines = opened
        start, end = lines.span_offsets(span)
        first = notebook.position_of(start)
        last = notebook.position_of(end)
        if first is None or last is None or first[0] is not last[0]:
            return None
        (line, column), (end_line, end_column) = _line_of(first[0], first[1]), _line_of(last[0], last[1])
        return InCell(first[0].number, Span(line, column, end_line, end_column))

    def changed(self, path: str, fix: Fix) -> list[Changed]:
        """The cells of a notebook that a fix changes."""
        opened = self._opened(path)
        if opened is None:
            return []
        before = opened[0]
        after = Notebook.read(apply_edits(before.text, fix.edits))
        pairs = zip(before.cells, after.cells, strict=True)
        return [Changed(old.number, old.source, new.source) for old, new in pairs if old.source != new.source]

    def _shown(self, path: str, span: Span) -> tuple[str, Span]:
        inside = self.in_cell(path, span)
        return (f"{path}:cell {inside.cell}", inside.span) if inside else (path, span)

    def _place(self, place: Place) -> Place:
        path, span = self._shown(place.path, place.span)
        return msgspec.structs.replace(place, path=path, span=span)

    def _opened(self, path: str) -> tuple[Notebook, Lines] | None:
        if not is_notebook(path) or path not in self._sources:
            return None
        if path not in self._notebooks:
            text = self._sources[path]
            try:
                self._notebooks[path] = (Notebook.read(text), Lines.of(text))
            except NotANotebookError:
                self._notebooks[path] = None
        return self._notebooks[path]


def _line_of(cell: Cell, at: int) -> tuple[int, int]:
    starts = Lines.of(cell.source).starts
    line = bisect_right(starts, at)
    return line, at - starts[line - 1] + 1
