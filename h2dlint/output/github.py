"""Workflow commands of GitHub Actions: each finding becomes an annotation at its line.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

from h2dlint.finding import Finding, Severity
from h2dlint.output import listed
from h2dlint.output.observed import clause
from h2dlint.output.summary import closing_line
from h2dlint.output.terminal import harmless
from h2dlint.report import Report

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(report: Report, show_unproven: bool) -> str:
    """A command a line, and the closing line, which is one for people."""
    findings = listed(report, show_unproven)
    return "\n".join([*map(_command, findings), closing_line(report, findings, show_unproven)]) + "\n"


def _command(finding: Finding) -> str:
    span = finding.span
    properties = {"file": finding.path, "line": span.line, "endLine": span.end_line}
    if span.line == span.end_line:  # GitHub takes columns on one line alone
        properties |= {"col": span.column, "endColumn": span.end_column}
    properties |= {"title": f"{finding.code} {finding.name}"}
    seen = [clause(finding.observed)] if finding.observed else []
    body = [finding.message, *seen, *(f"{place.path}:{place.span.line}: {place.message}" for place in finding.trace)]
    text = "\n".join(map(harmless, [*body, *([finding.help] if finding.help else [])]))
    listing = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    return f"::{_COMMANDS[finding.severity]} {listing}::{_data(text)}"


def _data(text: str) -> str:
    """Text that stays one command, whatever it holds."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(harmless(text)).replace(":", "%3A").replace(",", "%2C")
