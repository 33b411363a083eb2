"""The JSON contract, version 1: what editors, scorers and pipelines read. Keys are added, never changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from h2dlint.facts.copies import Copy, Place, Span
from h2dlint.finding import DOCS_URL, Edit, FileEdits, Finding, Fix
from h2dlint.notebooks.view import CellView
from h2dlint.output import listed
from h2dlint.output.observed import as_data
from h2dlint.output.summary import counts
from h2dlint.report import Fixed, Report
from h2dlint.rules import Rule, codes_for

VERSION = 1


def render(report: Report, show_unproven: bool) -> str:
    """A run of `check`. The same input gives the same bytes: no times, no absolute paths."""
    findings = listed(report, show_unproven)
    cells = CellView(report.sources)
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
            "findings": [_finding(one, report.refusal(one), cells) for one in findings],
            "fixed": list(map(_fixed, report.fixed)),
            "summary": summary,
        }
    )


def render_copies(copies: Sequence[Copy], sources: Mapping[str, str]) -> str:
    """An inventory, with the codes that all rules together give each copy.

    `sources` are the texts of notebooks, by path.
    """
    cells = CellView(sources)
    return _dump({"version": VERSION, "copies": [_copy(copy, cells) for copy in copies]})


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


def _finding(finding: Finding, refusal: str, cells: CellView) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.value,
        "path": finding.path,
        **_span(finding.span),
        **_in_cell(finding.path, finding.span, cells),
        "message": finding.message,
        "help": finding.help,
        "verdict": finding.verdict.value if finding.verdict else None,
        "trace": [_place(place, cells) for place in finding.trace],
        "fix": _fix(finding.fix) if finding.fix else None,
        "no_fix": refusal or None,
        "function": finding.function or None,
        "hot": finding.hot,
        **({"observed": as_data(finding.observed)} if finding.observed else {}),
    }


def _copy(copy: Copy, cells: CellView) -> dict[str, Any]:
    return {
        "path": copy.path,
        **_span(copy.span),
        **_in_cell(copy.path, copy.span, cells),
        "call": copy.call,
        "direction": copy.direction.value,
        "verdict": copy.verdict.value,
        "causes": [cause.value for cause in copy.causes],
        "reveal": copy.reveal,
        "trace": [_place(place, cells) for place in copy.trace],
        "codes": codes_for(copy),
    }


def _fixed(fixed: Fixed) -> dict[str, Any]:
    return {
        "path": fixed.path,
        "code": fixed.code,
        "title": fixed.title,
        "applicability": fixed.applicability.value,
        **({"into": list(fixed.into)} if fixed.into else {}),
    }


def _span(span: Span) -> dict[str, int]:
    return {"line": span.line, "column": span.column, "end_line": span.end_line, "end_column": span.end_column}


def _in_cell(path: str, span: Span, cells: CellView) -> dict[str, Any]:
    """In a notebook: which cell, and the same range counted within it."""
    inside = cells.in_cell(path, span)
    return {"cell": {"number": inside.cell, **_span(inside.span)}} if inside else {}


def _place(place: Place, cells: CellView) -> dict[str, Any]:
    inside = cells.in_cell(place.path, place.span)
    cell = {"cell": {"number": inside.cell, "line": inside.span.line}} if inside else {}
    return {"path": place.path, "line": place.span.line, **cell, "message": place.message}


def _edits(edits: Iterable[Edit]) -> list[dict[str, Any]]:
    return [{"start": edit.start, "end": edit.end, "replacement": edit.replacement} for edit in edits]


def _elsewhere(part: FileEdits) -> dict[str, Any]:
    return {"path": part.path, "edits": _edits(part.edits), "content_hash": part.content_hash}


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "applicability": fix.applicability.value,
        "title": fix.title,
        "edits": _edits(fix.edits),
        **({"elsewhere": list(map(_elsewhere, fix.elsewhere))} if fix.elsewhere else {}),
        "content_hash": fix.content_hash,
    }
