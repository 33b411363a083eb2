"""JUnit XML, for servers that show test results: each finding is a case; errors and warnings fail it."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

from h2dlint.finding import Finding, Severity
from h2dlint.output import listed
from h2dlint.output.observed import clause
from h2dlint.output.terminal import harmless, no_commands
from h2dlint.report import Report

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report, show_unproven: bool) -> str:
    """One suite; a run without findings holds one case that passed."""
    findings = listed(report, show_unproven)
    failed = sum(finding.severity is not Severity.NOTE for finding in findings)
    cases = list(map(_case, findings)) or ['    <testcase classname="h2dlint" name="nothing to report"/>\n']
    counts = f'tests="{len(cases)}" failures="{failed}" errors="0"'
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<testsuites name="h2dlint" {counts}>\n'
        f'  <testsuite name="h2dlint" {counts}>\n'
        f"{''.join(cases)}"
        "  </testsuite>\n"
        "</testsuites>\n"
    )


def _case(finding: Finding) -> str:
    position = f"{finding.path}:{finding.span.line}:{finding.span.column}"
    head = f"    <testcase classname={_attribute(finding.path)} name={_attribute(f'{finding.code} {position}')}"
    head += f" file={_attribute(finding.path)} line={_attribute(str(finding.span.line))}>"
    body = [f"{position}: {finding.message}"]
    body += [f"{place.path}:{place.span.line}: {place.message}" for place in finding.trace]
    body += [clause(finding.observed)] if finding.observed else []
    body += [finding.help] if finding.help else []
    text = escape(no_commands("\n".join(map(_clean, body))))
    if finding.severity is Severity.NOTE:
        return f"{head}\n      <system-out>{text}</system-out>\n    </testcase>\n"
    label = f"type={_attribute(finding.severity.value)} message={_attribute(finding.message)}"
    return f"{head}\n      <failure {label}>{text}</failure>\n    </testcase>\n"


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", harmless(text))


def _attribute(text: str) -> str:
    return quoteattr(_clean(text))
