"""SARIF 2.1.0, for code scanning: rules with their pages, the chain as a code flow, fixes, stable fingerprints.

The same input gives the same bytes: no times, no absolute paths.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from typing import Any
from urllib.parse import quote

from h2dlint import __version__
from h2dlint.facts.copies import Span
from h2dlint.finding import DOCS_URL, Edit, Finding, Fix
from h2dlint.fixing.document import hash_of
from h2dlint.output import listed
from h2dlint.output.fingerprints import fingerprints
from h2dlint.output.observed import as_data
from h2dlint.output.terminal import harmless
from h2dlint.regions import Lines
from h2dlint.report import Report
from h2dlint.rules import Rule, all_rules

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
HOME = "https://h2dlint.readthedocs.io"
FINGERPRINT = "h2dlint/v1"


def render(report: Report, show_unproven: bool) -> str:
    """A run of `check` as one SARIF log."""
    rules = all_rules()
    index = {rule.meta.code: number for number, rule in enumerate(rules)}
    findings = listed(report, show_unproven)
    prints = fingerprints(report, findings)
    results = [
        _result(finding, index[finding.code], fingerprint, report.sources.get(finding.path))
        for finding, fingerprint in zip(findings, prints, strict=True)
    ]
    driver = {
        "name": "h2dlint",
        "version": __version__,
        "semanticVersion": __version__,
        "informationUri": HOME,
        "rules": list(map(_rule, rules)),
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "The folder in which h2dlint was started."}}},
        "invocations": [{"executionSuccessful": True}],
        "results": results,
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    meta = rule.meta
    gist = " ".join(rule.page.split("\n\n", 1)[0].split())
    return {
        "id": meta.code,
        "name": "".join(word.capitalize() for word in meta.name.split("-")),
        "shortDescription": {"text": gist},
        "fullDescription": {"text": gist},
        "help": {"text": rule.page, "markdown": rule.page},
        "helpUri": f"{DOCS_URL}/{meta.code}",
        "defaultConfiguration": {"enabled": meta.default, "level": meta.severity.value},
        "properties": {"tags": ["performance"], "precision": "very-high"},
    }


def _result(finding: Finding, rule: int, fingerprint: str, text: str | None) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.severity.value,
        "message": {"text": _text(f"{finding.message}\n{finding.help}".strip())},
        "locations": [_location(finding.path, finding.span)],
        "partialFingerprints": {FINGERPRINT: fingerprint},
    }
    if finding.function and finding.function != "<module>":
        result["locations"][0]["logicalLocations"] = [{"fullyQualifiedName": finding.function, "kind": "function"}]
    if finding.trace:
        related = [_location(place.path, place.span, place.message) for place in finding.trace]
        result["relatedLocations"] = [{"id": number, **one} for number, one in enumerate(related, 1)]
        flow = [*related, _location(finding.path, finding.span, "the copy")]
        result["codeFlows"] = [{"threadFlows": [{"locations": [{"location": one} for one in flow]}]}]
    fix = finding.fix if text is not None and finding.fix is not None and not finding.fix.elsewhere else None
    if fix is not None and text is not None and fix.content_hash == hash_of(text):
        result["fixes"] = [_fix(finding, fix, Lines.of(text))]
    result["properties"] = {"verdict": finding.verdict.value if finding.verdict else None, "hot": finding.hot}
    if finding.observed is not None:
        result["properties"]["observed"] = as_data(finding.observed)
    return result


def _location(path: str, span: Span, message: str = "") -> dict[str, Any]:
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": _artifact(path), "region": _region(span)}}
    return {**location, "message": {"text": _text(message)}} if message else location


def _text(text: str) -> str:
    """Text in which nothing of the code is a link: SARIF has them as `[text](target)` (3.11.6)."""
    return "\n".join(map(harmless, text.split("\n"))).replace("](", "\\](")


def _artifact(path: str) -> dict[str, Any]:
    return {"uri": quote(path, safe="/"), "uriBaseId": "SRCROOT"}


def _region(span: Span) -> dict[str, int]:
    return {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }


def _fix(finding: Finding, fix: Fix, lines: Lines) -> dict[str, Any]:
    replacements = [
        {"deletedRegion": _replaced(edit, lines), "insertedContent": {"text": edit.replacement}} for edit in fix.edits
    ]
    change = {"artifactLocation": _artifact(finding.path), "replacements": replacements}
    return {"description": {"text": f"{fix.title} ({fix.applicability.value})"}, "artifactChanges": [change]}


def _replaced(edit: Edit, lines: Lines) -> dict[str, int]:
    (line, column), (end_line, end_column) = _at(edit.start, lines), _at(edit.end, lines)
    return _region(Span(line, column, end_line, end_column))


def _at(offset: int, lines: Lines) -> tuple[int, int]:
    line = bisect_right(lines.starts, offset)
    return line, offset - lines.starts[line - 1] + 1
