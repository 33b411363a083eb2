"""The JSON contract, version 1: what editors, scorers and pipelines read. Keys are added, never changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from h2dlint.facts.copies import Copy, Place, Span
from h2dlint.finding import DOCS_URL, Finding, Fix
from h2dlint.output import listed
from h2dlint.output.summary import counts
from h2dlint.report import Fixed, Report
from h2dlint.rules import Rule, codes_for

VERSION = 1


def render(report: Report, show_unproven: bool) -> str:
    """A run of `check`. The same input gives the same bytes: no times, no absolute paths."""
    findings = listed(report, show_unproven)
    summary = {
        **{f"{severity.value}s": number for severity, number in counts(findings).items()},
        "unproven": len(report.unproven),
        "suppressed": report.suppressed,
        "known": report.accepted,
        "fixable": sum(finding.fix is not None for finding in findings),
        "fixed": len(report.fixed),
        "files_seen": report.files_seen,
        "files_checked": report.files_checked,
    }
    return _dump(
        {
            "version": VERSION,
            "findings": [_finding(one, report.refusal(one)) for one in findings],
            "fixed": list(map(_fixed, report.fixed)),
            "summary": summary,
        }
    )


def render_copies(copies: Sequence[Copy]) -> str:
    """An inventory, with the codes that all rules together give each copy."""
    return _dump({"version": VERSION, "copies": list(map(_copy, copies))})


def render_rule(rule: Rule) -> str:
    """One rule: its metadata, page and examples."""
    return _dump(
        {
            "code": rule.meta.code,
            "name": rule.meta.name,
            "severity": rule.meta.severity.value,
            "since": rule.meta.since,
            "default": rule.meta.default,
            "url": f"{DOCS_URL}/{rule.meta.code}",
            "page": rule.page,
            "bad": rule.bad.strip() + "\n",
            "good": rule.good.strip() + "\n",
        }
    )


def _dump(value: dict[str, Any]) -> str:
    # ASCII only, so that a file name that is not UTF-8 survives in every encoding of the stream.
    return json.dumps(value, indent=2) + "\n"


def _finding(finding: Finding, refusal: str) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.value,
        "path": finding.path,
        **_span(finding.span),
        "message": finding.message,
        "help": finding.help,
        "verdict": finding.verdict.value if finding.verdict else None,
        "trace": list(map(_place, finding.trace)),
        "fix": _fix(finding.fix) if finding.fix else None,
        "no_fix": refusal or None,
        "function": finding.function or None,
        "hot": finding.hot,
    }


def _copy(copy: Copy) -> dict[str, Any]:
    return {
        "path": copy.path,
        **_span(copy.span),
        "call": copy.call,
        "direction": copy.direction.value,
        "verdict": copy.verdict.value,
        "causes": [cause.value for cause in copy.causes],
        "reveal": copy.reveal,
        "trace": list(map(_place, copy.trace)),
        "codes": codes_for(copy),
    }


def _fixed(fixed: Fixed) -> dict[str, Any]:
    return {
        "path": fixed.path,
        "code": fixed.code,
        "title": fixed.title,
        "applicability": fixed.applicability.value,
    }


def _span(span: Span) -> dict[str, int]:
    return {"line": span.line, "column": span.column, "end_line": span.end_line, "end_column": span.end_column}


def _place(place: Place) -> dict[str, Any]:
    return {"path": place.path, "line": place.span.line, "message": place.message}


def _fix(fix: Fix) -> dict[str, Any]:
    edits = [{"start": edit.start, "end": edit.end, "replacement": edit.replacement} for edit in fix.edits]
    return {
        "applicability": fix.applicability.value,
        "title": fix.title,
        "edits": edits,
        "content_hash": fix.content_hash,
    }
