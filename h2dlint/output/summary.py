"""The closing line of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from h2dlint.finding import Applicability, Finding, Severity
from h2dlint.output.observed import parts as observed_parts
from h2dlint.report import Report, changed_files


def counts(findings: Sequence[Finding]) -> dict[Severity, int]:
    """How many findings there are of each severity, gravest first."""
    seen = Counter(finding.severity for finding in findings)
    return {severity: seen[severity] for severity in Severity}


def closing_line(report: Report, findings: Sequence[Finding], show_unproven: bool) -> str:
    """What was found in how many files, and what was left out of the list."""
    found = [plural(number, severity.value) for severity, number in counts(findings).items() if number]
    others = f", {report.dependents:,} of them for depending on these" if report.dependents else ""
    files = f"{plural(report.files_seen, 'file')} ({report.files_checked:,} analysed{others})"
    parts = [f"Found {', '.join(found)} in {files}" if found else f"All clear: nothing to report in {files}"]
    if report.fixed:
        parts.insert(0, fixed_part(report, "Fixed"))
    parts += _fixable_parts(findings)
    parts += observed_parts(findings)
    hot = sum(finding.hot for finding in findings)
    if hot:
        parts.append(f"{hot:,} in hot functions")
    if report.accepted:
        parts.append(f"{report.accepted:,} known")
    if report.suppressed:
        parts.append(f"{report.suppressed:,} suppressed")
    if report.unproven and not show_unproven:
        copies = plural(len(report.unproven), "copy", "copies")
        parts.append(
            f"{copies} stayed unproven (--show-unproven lists {'it' if len(report.unproven) == 1 else 'them'})"
        )
    return " · ".join(parts)


def fixed_part(report: Report, verb: str) -> str:
    """`Fixed 12 findings in 5 files`."""
    files = len(changed_files(report.fixed))
    return f"{verb} {plural(len(report.fixed), 'finding')} in {plural(files, 'file')}"


def _fixable_parts(findings: Sequence[Finding]) -> Iterator[str]:
    seen = Counter(finding.fix.applicability for finding in findings if finding.fix is not None)
    if seen[Applicability.SAFE]:
        yield f"{seen[Applicability.SAFE]:,} fixable with --fix"
    if seen[Applicability.UNSAFE]:
        more = " more" if seen[Applicability.SAFE] else ""
        yield f"{seen[Applicability.UNSAFE]:,}{more} with --fix --unsafe-fixes"


def plural(number: int, one: str, many: str = "") -> str:
    """`1 file`, `2 files`, `1,204 copies`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
