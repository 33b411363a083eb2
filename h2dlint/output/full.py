"""The format for people: each finding with its source, the places that explain it, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from h2dlint.facts.copies import Place, Verdict
from h2dlint.finding import DOCS_URL, Applicability, Finding, Fix, Severity
from h2dlint.fixing.document import hash_of
from h2dlint.notebooks.view import CellView, Changed
from h2dlint.output import listed
from h2dlint.output.diff import rows_in_cells, rows_of
from h2dlint.output.frame import Mark, Row, frame, wrapped
from h2dlint.output.observed import clause
from h2dlint.output.paint import painted
from h2dlint.output.summary import closing_line, counts
from h2dlint.output.terminal import harmless
from h2dlint.regions import Lines
from h2dlint.report import Report

_STYLES = {
    "gutter": "blue",
    "source": "",
    "place": "cyan",
    "path": "",
    "help": "green",
    "seen": "magenta",
    "dim": "dim",
    "message": "bold",
}
_DIFF_STYLES = {"-": "red", "+": "green", "": "dim"}
_SEVERITY_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "bold magenta"}
_AT_THE_COPY = {
    Verdict.FAKE_ASYNC: "not asynchronous",
    Verdict.CONDITIONAL: "not asynchronous on every path",
    Verdict.UNPROVEN: "not shown to be asynchronous",
}


def render(report: Report, show_unproven: bool, color: bool, width: int) -> str:
    """Every listed finding, a blank line between two, and the closing line; lines are at most `width` cells."""
    findings = listed(report, show_unproven)
    lines: list[Text] = []
    sources: dict[str, Lines] = {}
    cells = CellView(report.sources)
    for finding in findings:
        shown = cells.finding(finding)
        path = shown.path
        text = None if path in sources else cells.source(path)
        if text is not None:
            sources[path] = Lines.of(text)
        changed = cells.changed(finding.path, finding.fix) if finding.fix else []
        lines += _finding(shown, sources.get(path), changed, width, report.refusal(finding))
        lines.append(Text())
    gravest = next((severity for severity, number in counts(findings).items() if number), None)
    style = _SEVERITY_STYLES[gravest] if gravest else "bold green"
    closing = closing_line(report, findings, show_unproven)
    verdict, *rest = closing.split(" · ")
    line = Text.assemble((verdict, style))
    for part in rest:
        line.append(f" · {part}", "dim")
    return painted([*lines, line], color)


def _finding(
    finding: Finding, source: Lines | None, changed: Sequence[Changed], width: int, refusal: str
) -> Iterator[Text]:
    style = _SEVERITY_STYLES[finding.severity]
    yield from _header(finding, style, width)
    rows = frame(source, _marks(finding), width) if source is not None else []
    gutter = next((len(row[0][0]) - 2 for row in rows), 1)
    position = f"{finding.path}:{finding.span.line}:{finding.span.column}"
    yield Text.assemble((" " * gutter + "--> ", _STYLES["gutter"]), (harmless(position), _STYLES["path"]))
    for row in rows:
        yield _styled(row, style)
    for place in finding.trace:
        if place.path != finding.path:
            text = f"{place.path}:{place.span.line}: {place.message}"
            yield from _noted(gutter, ":::", text, "place", width)
    if finding.observed is not None:
        yield from _noted(gutter, " =", f"seen: {clause(finding.observed)}", "seen", width)
    if finding.help:
        yield from _noted(gutter, " =", f"help: {finding.help}", "help", width)
    if finding.fix is not None and source is not None:
        yield from _change(finding.fix, source, changed, gutter, width)
    elif refusal:
        yield from _noted(gutter, " =", f"no fix: {refusal}", "dim", width)
    if finding.verdict is not None:
        yield from _noted(gutter, " =", _chain(finding), "dim", width)


def _header(finding: Finding, style: str, width: int) -> Iterator[Text]:
    """`error[HTD101] pageable-source: message`, wrapped with an indent."""
    label = f"{finding.severity.value}[{finding.code}]"
    first, *rest = wrapped(f"{label} {finding.name}: {harmless(finding.message)}", width)
    head = Text(first)
    head.stylize(_STYLES["message"])
    head.stylize(f"{style} link {DOCS_URL}/{finding.code}", 0, len(label))
    yield head
    for line in wrapped(" ".join(rest), width - 4) if rest else ():
        yield Text(f"    {line}", _STYLES["message"])


def _marks(finding: Finding) -> Iterator[Mark]:
    for place in finding.trace:
        if place.path == finding.path:
            yield Mark(place.span, place.message, primary=False)
    label = _AT_THE_COPY.get(finding.verdict, "") if finding.verdict else ""
    yield Mark(finding.span, label, primary=True)


def _styled(row: Row, primary: str) -> Text:
    line = Text.assemble(*((text, primary if role == "primary" else _STYLES[role]) for text, role in row))
    line.rstrip()
    return line


def _noted(gutter: int, sign: str, text: str, role: str, width: int) -> Iterator[Text]:
    """A line under the frame, wrapped behind its sign."""
    indent = gutter + len(sign) + 1
    first, *rest = wrapped(harmless(text), width - indent)
    yield Text.assemble((" " * gutter + sign + " ", _STYLES["gutter"]), (first, _STYLES[role]))
    for line in rest:
        yield Text(" " * indent + line, _STYLES[role])


def _change(fix: Fix, source: Lines, changed: Sequence[Changed], gutter: int, width: int) -> Iterator[Text]:
    """`= fix: ...` and the lines that go and come."""
    option = "--fix" if fix.applicability is Applicability.SAFE else "--fix --unsafe-fixes"
    where = "".join(f", in {part.path}" for part in fix.elsewhere)
    yield from _noted(gutter, " =", f"fix ({option}): {fix.title}{where}", "help", width)
    rows = rows_in_cells(changed) if changed else []
    if fix.edits and fix.content_hash == hash_of(source.text):
        rows = rows_of(fix, source)
    digits = max((len(str(row.number)) for row in rows), default=1)
    for row in rows:
        number = str(row.number) if row.number else ""
        body = harmless(f"{row.sign} {row.text.expandtabs(4)}" if row.sign else row.text)
        line = Text.assemble((f"{number:>{max(digits, gutter)}} ", _STYLES["gutter"]), (body, _DIFF_STYLES[row.sign]))
        line.truncate(max(width, 8), overflow="ellipsis")
        line.rstrip()
        yield line


def _chain(finding: Finding) -> str:
    """The verdict and the way to it: `fake-async: zeros@4 -> slice@9 -> here`."""
    verdict = finding.verdict.value if finding.verdict else ""
    steps = [_step(finding, place) for place in finding.trace]
    return f"{verdict}: {' -> '.join([*steps, 'here'])}" if steps else verdict


def _step(finding: Finding, place: Place) -> str:
    file, _, cell = place.path.rpartition(":cell ")
    if place.path == finding.path:
        other = ""
    elif file and finding.path.startswith(f"{file}:cell "):
        other = f"cell {cell}:"
    else:
        other = f"{place.path}:"
    return f"{place.label}@{other}{place.span.line}"
