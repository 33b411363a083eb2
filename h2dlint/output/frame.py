"""A piece of source with marks under it: every place of a finding in one frame, in line order.

Lines come out as rows of (text, style) pieces; full.py paints them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from msgspec import Struct
from rich.cells import cell_len

from h2dlint.facts.copies import Span
from h2dlint.output.terminal import harmless
from h2dlint.regions import Lines

Row: TypeAlias = list[tuple[str, str]]

TAB = 4
NEAR = 2
"""So many unmarked lines between two marked ones are shown; more become `...`."""
TALL = 6
"""A marked piece of more lines than this is shown by its head and its tail."""
LONG = 4_000
"""Of a longer line only the piece around its marks is looked at."""
LEAST_LABEL = 24
"""A label on rows of its own has at least this many cells."""


class Mark(Struct, frozen=True):
    """Something to point at."""

    span: Span
    label: str
    primary: bool
    """The copy itself, as opposed to a place that explains it."""


class _Shown(Struct, frozen=True):
    """A source line as a terminal shows it."""

    text: str
    cells: tuple[int, ...]
    """The first cell of each character of the raw line, and the cell behind the last."""


def frame(lines: Lines, marks: Iterable[Mark], width: int) -> list[Row]:
    """The rows of a frame at most `width` cells wide; none where no mark lies inside the source."""
    inside = [mark for mark in _merged(marks) if 1 <= mark.span.line <= len(lines.starts)]
    if not inside:
        return []
    numbers = _line_numbers(inside, lines)
    gutter = len(str(numbers[-1]))
    tall = next((mark for mark in inside if mark.primary and mark.span.end_line > mark.span.line), None)
    body = width - gutter - 3 - (2 if tall else 0)
    rows: list[Row] = [_edge(gutter)]
    previous = numbers[0]
    for number in numbers:
        if number > previous + 1:
            rows.append([("...".ljust(gutter + 3), "gutter"), *_bar(number - 1, tall)])
        previous = number
        here = [mark for mark in inside if mark.span.line == number]
        raw, cut = _near_the_marks(lines.line(number), here)
        here = [_moved(mark, cut) for mark in here] if cut else here
        shown, left = _fitted(_shown(raw), here, body)
        rows.append([(f"{number:>{gutter}} | ", "gutter"), *_bar(number, tall), (shown.text, "source")])
        for mark in sorted(here, key=lambda mark: (mark.primary, mark.span.column)):
            if mark is not tall and not (cut and tall and mark == _moved(tall, cut)):
                rows += _underlined(mark, shown, left, body, gutter, _bar(number, tall, below=True))
        if tall and number == tall.span.end_line:
            rows += _closed(tall, shown, left, body, gutter)
    rows.append(_edge(gutter))
    return rows


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` cells, broken at spaces; a longer word keeps its length."""
    lines: list[str] = []
    current = ""
    for word in text.split(" "):
        if current and cell_len(current) + 1 + cell_len(word) > width:
            lines.append(current)
            current = word
        else:
            current = f"{current} {word}" if current else word
    return [*lines, current]


def _merged(marks: Iterable[Mark]) -> list[Mark]:
    """One mark a span: the labels of places on the same piece are joined, in order."""
    by_span: dict[tuple[Span, bool], Mark] = {}
    for mark in marks:
        key = (mark.span, mark.primary)
        seen = by_span.get(key)
        if seen is None:
            by_span[key] = mark
        elif mark.label not in seen.label.split("; "):
            by_span[key] = Mark(mark.span, f"{seen.label}; {mark.label}", mark.primary)
    return list(by_span.values())


def _line_numbers(marks: Sequence[Mark], lines: Lines) -> list[int]:
    numbers = {mark.span.line for mark in marks}
    for mark in marks:
        if mark.primary:
            last = min(mark.span.end_line, len(lines.starts))
            inner = range(mark.span.line, last + 1)
            numbers.update(inner if len(inner) <= TALL else (*inner[:3], *inner[-2:]))
    ordered = sorted(numbers)
    for before, after in pairwise(ordered):
        if after - before <= NEAR:
            numbers.update(range(before, after))
    return sorted(numbers)


def _edge(gutter: int) -> Row:
    return [(" " * gutter + " |", "gutter")]


def _bar(number: int, tall: Mark | None, below: bool = False) -> Row:
    """The left margin that holds a copy of several lines together; none where every copy fits on one line."""
    if tall is None:
        return []
    first, last = tall.span.line, tall.span.end_line
    if number == first and not below:
        return [("/ ", "primary")]
    if first <= number <= last:
        return [("| ", "primary")]
    return [("  ", "gutter")]


def _near_the_marks(raw: str, marks: Sequence[Mark]) -> tuple[str, int]:
    """A line, or of a very long one the piece around what is marked first, and how many characters were cut off before.

    Every character of a line is measured, for every mark.
    """
    if len(raw) <= LONG:
        return raw, 0
    start = max(0, min((mark.span.column for mark in marks), default=1) - 1 - LONG // 2)
    return raw[start : start + LONG], start


def _moved(mark: Mark, cut: int) -> Mark:
    span = mark.span
    end = span.end_column - (cut if span.end_line == span.line else 0)
    moved = Span(span.line, max(1, span.column - cut), span.end_line, max(1, end))
    return Mark(moved, mark.label, mark.primary)


def _shown(raw: str) -> _Shown:
    """The line without its newline, tabs expanded, nothing left in it that a terminal would obey."""
    plain = raw.rstrip("\r\n")
    if plain.isascii() and plain.isprintable():
        return _Shown(plain, tuple(range(len(plain) + 1)))
    text = ""
    cells: list[int] = []
    at = 0
    for character in plain:
        cells.append(at)
        piece = " " * (TAB - at % TAB) if character == "\t" else harmless(character)
        text += piece
        at += cell_len(piece)
    return _Shown(text, (*cells, at))


def _fitted(line: _Shown, marks: Sequence[Mark], width: int) -> tuple[_Shown, int]:
    """The line cut down to `width` cells around what is marked in it, and how many cells were cut off on the left."""
    total = line.cells[-1]
    if total <= width:
        return line, 0
    start = min((_cells(line, mark.span)[0] for mark in marks), default=0)
    left = max(0, min(start - 4, total - width))
    text = ""
    at = 0
    for character in line.text:
        size = cell_len(character)
        if at >= left and at + size <= left + width:
            text += character
        elif at < left < at + size:
            text += " "
        at += size
    head = "…" if left else ""
    tail = "…" if left + width < total else ""
    cut = text[len(head) :] if head else text
    cut = cut[: len(cut) - 1] if tail else cut
    return _Shown(head + cut + tail, line.cells), left


def _cells(line: _Shown, span: Span) -> tuple[int, int]:
    """The cells [start, end) of a span on its first line; at least one."""
    last = len(line.cells) - 1
    start = line.cells[min(span.column - 1, last)]
    end = line.cells[min(span.end_column - 1, last)] if span.end_line == span.line else line.cells[last]
    return start, max(end, start + 1)


def _underlined(mark: Mark, line: _Shown, left: int, width: int, gutter: int, bar: Row) -> Iterator[Row]:
    start, end = _cells(line, mark.span)
    start, end = max(start - left, 0), min(max(end - left, 1), width)
    style = "primary" if mark.primary else "place"
    line_marks = ("^" if mark.primary else "-") * max(end - start, 1)
    head: Row = [(" " * gutter + " | ", "gutter"), *bar]
    beside = width - end - 1
    label = harmless(mark.label)
    if cell_len(label) <= beside:
        yield [*head, (" " * start + f"{line_marks} {label}".rstrip(), style)]
        return
    yield [*head, (" " * start + line_marks, style)]
    indent = max(0, min(start, width - cell_len(label), width - LEAST_LABEL))
    for text in wrapped(label, width - indent):
        yield [*head, (" " * indent + text, style)]


def _closed(mark: Mark, line: _Shown, left: int, width: int, gutter: int) -> Iterator[Row]:
    """The foot of the margin that holds a copy of several lines: `|___^ label`."""
    end = line.cells[min(max(mark.span.end_column - 2, 0), len(line.cells) - 1)]
    at = min(max(end - left, 0), width - LEAST_LABEL)
    first, *rest = wrapped(harmless(mark.label), width - at - 2)
    yield [(" " * gutter + " | ", "gutter"), ("|_" + "_" * at + f"^ {first}", "primary")]
    for text in rest:
        yield [(" " * gutter + " | ", "gutter"), (" " * (at + 4) + text, "primary")]
