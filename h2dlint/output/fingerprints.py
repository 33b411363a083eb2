"""A stable name for each finding of a report, for services that compare one run with the next."""

from __future__ import annotations

from collections.abc import Sequence

from h2dlint.accepted import hashes
from h2dlint.finding import Finding
from h2dlint.report import Report


def fingerprints(report: Report, findings: Sequence[Finding]) -> list[str]:
    """The fingerprint of each of the report's findings: rule, path, function, normalised text, and a number among
    equals.
    """
    by_path: dict[str, list[int]] = {}
    for number, finding in enumerate(findings):
        by_path.setdefault(finding.path, []).append(number)
    found = [""] * len(findings)
    for path, numbers in by_path.items():
        mine = hashes([findings[number] for number in numbers], report.sources.get(path, ""))
        for number, fingerprint in zip(numbers, mine, strict=True):
            found[number] = fingerprint
    return found
