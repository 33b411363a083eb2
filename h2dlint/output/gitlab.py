"""GitLab's code quality report: https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format"""

from __future__ import annotations

import json
from typing import Any

from h2dlint.finding import DOCS_URL, Finding, Severity
from h2dlint.output import listed
from h2dlint.output.fingerprints import fingerprints
from h2dlint.output.markdown import code_of, text_of
from h2dlint.output.observed import clause
from h2dlint.output.terminal import harmless
from h2dlint.report import Report

_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.NOTE: "info"}


def render(report: Report, show_unproven: bool) -> str:
    """A JSON list with an entry for each finding."""
    findings = listed(report, show_unproven)
    prints = fingerprints(report, findings)
    return json.dumps([_entry(*pair) for pair in zip(findings, prints, strict=True)], indent=2) + "\n"


def _entry(finding: Finding, fingerprint: str) -> dict[str, Any]:
    chain = [f"- {code_of(f'{place.path}:{place.span.line}')}: {text_of(place.message)}" for place in finding.trace]
    if finding.observed is not None:
        chain.append(f"- {clause(finding.observed)}")
    body = "\n".join([*chain, "", text_of(finding.help), "", f"{DOCS_URL}/{finding.code}"]).strip()
    return {
        "type": "issue",
        "check_name": finding.code,
        "description": f"{finding.code} {harmless(finding.message)}",
        "content": {"body": body},
        "categories": ["Performance"],
        "severity": _SEVERITIES[finding.severity],
        "fingerprint": fingerprint,
        "location": {"path": finding.path, "lines": {"begin": finding.span.line, "end": finding.span.end_line}},
    }
