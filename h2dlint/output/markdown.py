"""Markdown, for job summaries and comments on pull requests: what was found, why, what was changed, what is left."""

from __future__ import annotations

import re
from collections.abc import Iterator

from h2dlint.finding import DOCS_URL, Applicability, Finding
from h2dlint.output import listed
from h2dlint.output.observed import clause
from h2dlint.output.summary import closing_line, plural
from h2dlint.output.terminal import harmless
from h2dlint.report import Report

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~@&#])")


def render(report: Report, show_unproven: bool) -> str:
    """A heading, a table of the findings, their chains, and what was fixed."""
    findings = listed(report, show_unproven)
    lines = ["# h2dlint", "", text_of(closing_line(report, findings, show_unproven)), ""]
    if findings:
        lines += ["| Where | Rule | What happens |", "|---|---|---|", *map(_row, findings), ""]
        lines += [line for finding in findings for line in _details(finding, report.refusal(finding))]
    if report.fixed:
        lines += [f"## {plural(len(report.fixed), 'finding')} fixed", "", "| File | Rule | Change |", "|---|---|---|"]
        lines += [f"| {code_of(one.path)} | {_rule(one.code)} | {text_of(one.title)} |" for one in report.fixed]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _row(finding: Finding) -> str:
    where = code_of(f"{finding.path}:{finding.span.line}")
    seen = f" ({clause(finding.observed)})" if finding.observed else ""
    return f"| {where} | {_rule(finding.code)} {finding.severity.value} | {text_of(finding.message)}{seen} |"


def _rule(code: str) -> str:
    return f"[{code}]({DOCS_URL}/{code})"


def _details(finding: Finding, refusal: str) -> Iterator[str]:
    yield f"<details><summary>{_html(f'{finding.path}:{finding.span.line} {finding.code} {finding.name}')}</summary>"
    yield ""
    for place in finding.trace:
        yield f"- {code_of(f'{place.path}:{place.span.line}')}: {text_of(place.message)}"
    yield f"- {code_of(f'{finding.path}:{finding.span.line}')}: the copy"
    yield ""
    if finding.help:
        yield text_of(finding.help)
        yield ""
    if finding.fix is not None:
        into = "".join(f", in {code_of(part.path)}" for part in finding.fix.elsewhere)
        option = "--fix" if finding.fix.applicability is Applicability.SAFE else "--fix --unsafe-fixes"
        yield f"`h2dlint check {option}` can do it: {text_of(finding.fix.title)}{into}."
        yield ""
    elif refusal:
        yield f"Needs a person: {text_of(refusal)}."
        yield ""
    yield "</details>"
    yield ""


def text_of(text: str) -> str:
    """Text with its `code` kept as code, and nothing else in it that Markdown or HTML would obey."""
    pieces = harmless(text).split("`")
    if len(pieces) % 2 == 0:  # a backtick without its other half
        return _plain("`".join(pieces))
    return "".join(code_of(piece) if number % 2 else _plain(piece) for number, piece in enumerate(pieces))


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def code_of(text: str) -> str:
    """Text as code, fit for a table: a fence longer than any run of backticks in it, and no bare pipe."""
    text = harmless(text).replace("|", "\\|")
    if not text.strip():
        return ""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _html(text: str) -> str:
    from html import escape

    return escape(harmless(text))
