"""The closing line of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from h2dlint.finding import Finding, Severity
from h2dlint.report import Report


def counts(findings: Sequence[Finding]) -> dict[Severity, int]:
    """How many findings there are of each severity, gravest first."""
    seen = Counter(finding.severity for finding in findings)
    return {severity: seen[severity] for severity in Severity}


def closing_line(report: Report, findings: Sequence[Finding], show_unproven: bool) -> str:
    """What was found in how many files, and what was left out of the list."""
    found = [plural(number, severity.value) for severity, number in counts(findings).items() if number]
    files = f"{plural(report.files_seen, 'file')} ({report.files_checked:,} analysed)"
    parts = [f"Found {', '.join(found)} in {files}" if found else f"All clear: nothing to report in {files}"]
    fixable = sum(finding.fix is not None for finding in findings)
    if fixable:
        parts.append(f"{fixable:,} fixable")
    if report.suppressed:
        parts.append(f"{report.suppressed:,} suppressed")
    if report.unproven and not show_unproven:
        copies = plural(len(report.unproven), "copy", "copies")
        parts.append(
            f"{copies} stayed unproven (--show-unproven lists {'it' if len(report.unproven) == 1 else 'them'})"
        )
    return " · ".join(parts)


def plural(number: int, one: str, many: str = "") -> str:
    """`1 file`, `2 files`, `1,204 copies`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
