"""What was found in a notebook's module, carried over to the notebook's file.

Everything outside the analysis speaks of the file as it lies on the disk: lines and columns, edits and hashes.
`view` then says it in cells. Texts name lines of cells at once: `line 12` becomes `cell 3, line 2`.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from h2dlint.apply import apply_edits
from h2dlint.discovery import NEEDLES, has_needle
from h2dlint.facts.copies import Branch, Copy, Place, Span
from h2dlint.finding import Finding, Fix
from h2dlint.fixing.document import hash_of
from h2dlint.notebooks.document import Notebook
from h2dlint.notebooks.module import BOM, Broken, CellModule
from h2dlint.regions import Lines
from h2dlint.report import Fixed, Key

if TYPE_CHECKING:
    from h2dlint.changes import Changes

_LINE = re.compile(r"\b(on )?line (\d+)")
_LINK = re.compile(r"@(\d+)")


class Carrier:
    """Goes from places in the module to places in the file."""

    def __init__(self, path: str, module: CellModule, text: str | None = None) -> None:
        """`path` is what the file is called; `text` the module's text, if it was changed since.

        Raises ValueError for a text that lost its cells.
        """
        if text is not None and text != module.text:
            sources = module.sources(text)
            if sources is None:
                raise ValueError("the text lost its cells")
            module = CellModule.of(Notebook.read(module.notebook.with_sources(sources)))
        self._path = path
        self.module = module
        """The module as it is now."""

    @property
    def file_text(self) -> str:
        """The file's text."""
        return self.module.notebook.text

    def file_bytes(self, before: bytes) -> bytes:
        """The file's bytes, with a byte order mark if there was one before."""
        return (BOM if before.startswith(BOM) else b"") + self.file_text.encode("utf-8")

    def broken_cells(self) -> Iterator[Broken]:
        """The cells that do not parse and may hold a copy. The others could only lead to less being said."""
        for broken in self.module.broken:
            source = self.module.notebook.cell(broken.cell).source
            if has_needle(source.encode("utf-8", "surrogatepass"), NEEDLES):
                yield broken

    @cached_property
    def _file_lines(self) -> Lines:
        return Lines.of(self.file_text)

    @cached_property
    def _hash(self) -> str:
        return hash_of(self.file_text)

    def finding(self, finding: Finding) -> Finding:
        """The finding with places in the file. A fix that does not keep to the cells is dropped."""
        return msgspec.structs.replace(
            finding,
            span=self.span(finding.span),
            message=self.words(finding.message),
            help=self.words(finding.help),
            trace=tuple(map(self._place, finding.trace)),
            fix=self._fix(finding.fix) if finding.fix else None,
        )

    def copy(self, copy: Copy) -> Copy:
        """The copy with places in the file."""
        return msgspec.structs.replace(
            copy,
            span=self.span(copy.span),
            reveal=_LINK.sub(lambda link: f"@{self._named(int(link[1]), 'cell {0}:{1}') or link[1]}", copy.reveal),
            trace=tuple(map(self._place, copy.trace)),
            branches=tuple(map(self._branch, copy.branches)),
            unproven=self.words(copy.unproven),
        )

    def fixed(self, fixed: Fixed) -> Fixed:
        """The record of a fix that was made, with places in the file as it was."""
        return msgspec.structs.replace(fixed, span=self.span(fixed.span), message=self.words(fixed.message))

    def refusals(self, refusals: Mapping[Key, str]) -> dict[Key, str]:
        """Why findings have no fix, by their places in the file."""
        return {(self.span(span), code): self.words(reason) for (span, code), reason in refusals.items()}

    def changes(self, changes: Changes) -> Changes:
        """What changed, in lines of the module where it is about this file."""
        from h2dlint.changes import Changes, FileChanges

        file = os.path.abspath(self._path)
        mine = changes.files.get(file)
        if mine is None:
            return changes
        lines = {
            line: self.span(Span(line, 1, line, 1)).line
            for section in self.module.sections
            for line in range(section.first, section.first + section.lines)
        }
        added = tuple((line, line) for line, raw in lines.items() if mine.touch(raw, raw))
        return Changes({**changes.files, file: FileChanges(added)})

    def span(self, span: Span) -> Span:
        """A range of the module as one of the file; where no cell holds it, the file's first character."""
        empty = (span.line, span.column) == (span.end_line, span.end_column)
        start = self._offset(span.line, span.column, end=False)
        end = self._offset(span.end_line, span.end_column, end=not empty)
        if start is None or end is None:
            return Span(1, 1, 1, 1)
        (line, column), (end_line, end_column) = self._position(start), self._position(end)
        return Span(line, column, end_line, end_column)

    def in_cell(self, number: int, line: int) -> Span:
        """Where a line of a cell, from 1, starts in the file."""
        cell = self.module.notebook.cell(number)
        at = Lines.of(cell.source).starts
        start_line, column = self._position(self.module.notebook.offset_of(cell, at[min(line, len(at)) - 1]))
        return Span(start_line, column, start_line, column)

    def words(self, text: str) -> str:
        """A text for people: `line 12` names the line's cell, quoted code stays."""
        parts = text.split("`")
        parts[::2] = [_LINE.sub(self._cell_and_line, part) for part in parts[::2]]
        return "`".join(parts)

    def _cell_and_line(self, words: re.Match[str]) -> str:
        named = self._named(int(words[2]))
        return f"{'in ' if words[1] else ''}{named}" if named else words[0]

    def _named(self, line: int, form: str = "cell {0}, line {1}") -> str:
        section = self.module.section_at(line)
        return form.format(section.cell, line - section.first + 1) if section else ""

    def _offset(self, line: int, column: int, end: bool) -> int | None:
        """The offset in the file of a position in the module."""
        section = self.module.section_at(line)
        if section is None:
            return None
        # A stand-in is longer or shorter than its line, so lines are counted, not characters.
        cell = self.module.notebook.cell(section.cell)
        starts = Lines.of(cell.source).starts
        at = starts[min(line - section.first, len(starts) - 1)] + column - 1
        return self.module.notebook.offset_of(cell, at, end)

    def _position(self, offset: int) -> tuple[int, int]:
        starts = self._file_lines.starts
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def _place(self, place: Place) -> Place:
        if place.path != self._path:
            return place
        return msgspec.structs.replace(place, span=self.span(place.span), message=self.words(place.message))

    def _branch(self, branch: Branch) -> Branch:
        return msgspec.structs.replace(
            branch, text=self.words(branch.text), place=self._place(branch.place) if branch.place else None
        )

    def _fix(self, fix: Fix) -> Fix | None:
        sources = self.module.sources(apply_edits(self.module.text, fix.edits))
        if sources is None:
            return None
        edits = self.module.notebook.edits(sources) if fix.edits else ()
        return Fix(fix.title, fix.applicability, edits, self._hash, fix.elsewhere)
