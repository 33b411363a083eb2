"""The inventory of a code base's copies as a table a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from rich.text import Text

from h2dlint.facts.copies import Copy, Verdict
from h2dlint.notebooks.view import CellView
from h2dlint.output.frame import wrapped
from h2dlint.output.paint import painted
from h2dlint.output.summary import plural
from h2dlint.output.terminal import harmless

_STYLES = {
    Verdict.FAKE_ASYNC: "bold red",
    Verdict.CONDITIONAL: "yellow",
    Verdict.BLOCKING: "magenta",
    Verdict.ASYNC: "green",
    Verdict.NO_TRANSFER: "dim",
    Verdict.UNPROVEN: "cyan",
}
_LINE, _VERDICT, _DIRECTION = 6, 11, 7


def render(copies: Sequence[Copy], sources: Mapping[str, str], color: bool, width: int) -> str:
    """A block for each file: line, verdict, direction, call and reveal; the totals last.

    A notebook has a block for each cell; `sources` are the texts of notebooks, by path.
    """
    cells = CellView(sources)
    lines: list[Text] = []
    call_width = max((len(copy.call) for copy in copies), default=0)
    for path, group in groupby(map(cells.copy, copies), key=lambda copy: copy.path):
        lines.append(Text(harmless(path), "bold"))
        for copy in group:
            lines += _row(copy, call_width, width)
        lines.append(Text())
    return painted([*lines, _totals(copies)], color)


def _row(copy: Copy, call_width: int, width: int) -> Iterator[Text]:
    indent = _LINE + _VERDICT + _DIRECTION + call_width + 8
    first, *rest = wrapped(harmless(copy.reveal), max(width - indent, 24))
    yield Text.assemble(
        (f"{copy.span.line:>{_LINE}}  ", "blue"),
        (f"{copy.verdict.value:{_VERDICT}}  ", _STYLES[copy.verdict]),
        f"{copy.direction.value:{_DIRECTION}}  ",
        f"{copy.call:{call_width}}  ",
        (first, "dim"),
    )
    for line in rest:
        yield Text(" " * indent + line, "dim")


def _totals(copies: Sequence[Copy]) -> Text:
    files = len({copy.path for copy in copies})
    seen = Counter(copy.verdict for copy in copies)
    line = Text.assemble((f"{plural(len(copies), 'copy', 'copies')} in {plural(files, 'file')}", "bold"))
    for verdict in Verdict:
        if seen[verdict]:
            line.append(" · ", "dim")
            line.append(f"{seen[verdict]:,} {verdict.value}", _STYLES[verdict])
    return line
