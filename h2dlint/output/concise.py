"""One line a finding, for pipes, editors and grep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from h2dlint.facts.copies import Copy
from h2dlint.finding import Finding
from h2dlint.notebooks.view import CellView
from h2dlint.output import listed
from h2dlint.output.observed import clause
from h2dlint.output.summary import closing_line
from h2dlint.output.terminal import harmless
from h2dlint.report import Report

_COLORS = {"error": "31", "warning": "33", "note": "35"}


def render(report: Report, show_unproven: bool, color: bool) -> str:
    """`path:line:column: CODE severity message`, a line each, and the closing line."""
    findings = listed(report, show_unproven)
    cells = CellView(report.sources)
    lines = [_line(cells.finding(finding), color) for finding in findings]
    return "\n".join([*lines, closing_line(report, findings, show_unproven)]) + "\n"


def render_copies(copies: Sequence[Copy], sources: Mapping[str, str]) -> str:
    """`path:line:column: call direction verdict reveal`, a line each. `sources` are the texts of notebooks, by path."""
    cells = CellView(sources)
    rows = (
        f"{copy.path}:{copy.span.line}:{copy.span.column}: "
        f"{copy.call} {copy.direction.value} {copy.verdict.value} {copy.reveal}"
        for copy in map(cells.copy, copies)
    )
    return "".join(f"{harmless(row)}\n" for row in rows)


def _line(finding: Finding, color: bool) -> str:
    severity = finding.severity.value
    shown = f"\x1b[{_COLORS[severity]}m{severity}\x1b[0m" if color else severity
    position = f"{finding.path}:{finding.span.line}:{finding.span.column}"
    seen = f" [{clause(finding.observed)}]" if finding.observed else ""
    return f"{harmless(position)}: {finding.code} {shown} {harmless(finding.message)}{seen}"
