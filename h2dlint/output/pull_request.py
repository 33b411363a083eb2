"""The text of a pull request that `--fix` leads to, as Markdown: what was changed and why, and what needs a person."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from h2dlint.facts.copies import Span
from h2dlint.finding import DOCS_URL, Applicability, Finding, Severity
from h2dlint.notebooks.view import CellView
from h2dlint.output import listed
from h2dlint.output.summary import plural
from h2dlint.output.terminal import harmless
from h2dlint.report import Fixed, Report, changed_files

MOST_LEFT = 50
"""So many findings that need a person are listed; GitHub takes 65,536 characters in all."""
MOST_FIXED = 100

_SPECIAL = re.compile(r"([\\*_{}\[\]<>#|~])")


def render(report: Report) -> str:
    """The whole text, ending in a newline. The same input gives the same text."""
    left = [finding for finding in listed(report, False) if finding.severity is not Severity.NOTE]
    lines = [*_introduction(report, left)]
    if report.fixed:
        lines += ["", "## What was changed", "", *_changed(report)]
    if left:
        lines += ["", "## What needs a person", "", *_left(report, left)]
    if report.fixed:
        lines += ["", *_ASSURANCE]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


_ASSURANCE = (
    "Each change was proven by another analysis of its file: the finding is gone, and there is no new one. Safe fixes "
    "keep values, dtypes and shapes, and raise nothing that was not raised before, without an accelerator too.",
)


def _introduction(report: Report, left: list[Finding]) -> Iterator[str]:
    if not report.fixed and not left:
        yield "h2dlint found no copy that asks to be asynchronous and is not."
        return
    yield (
        "These copies ask for `non_blocking=True` and make the host wait all the same, because of how their source "
        "lies in memory."
    )
    files = len(changed_files(report.fixed))
    fixed = f"{plural(len(report.fixed), 'copy', 'copies')} in {plural(files, 'file')} rewritten"
    parts = [fixed] if report.fixed else []
    parts += [f"{plural(len(left), 'finding')} left for a person"] if left else []
    yield ""
    yield f"**{', '.join(parts)}.**"


def _changed(report: Report) -> Iterator[str]:
    for path, group in groupby(report.fixed[:MOST_FIXED], key=lambda fixed: fixed.path):
        yield f"### {_code(path)}"
        yield ""
        cells = CellView({path: report.changes[path][0]} if path in report.changes else {})
        yield from (_one_change(fixed, cells) for fixed in group)
        yield ""
    if len(report.fixed) > MOST_FIXED:
        yield f"... and {len(report.fixed) - MOST_FIXED:,} more."


def _one_change(fixed: Fixed, cells: CellView) -> str:
    unsafe = ", **unsafe: look at it closely**" if fixed.applicability is Applicability.UNSAFE else ""
    why = f": {_text(fixed.message)}" if fixed.message else ""
    into = f" in {', '.join(map(_code, fixed.into))}" if fixed.into else ""
    place = _where(fixed.path, fixed.span, cells)
    return f"- {place} {_rule(fixed.code)}{why}. **{_text(fixed.title)}**{into}{unsafe}."


def _left(report: Report, left: list[Finding]) -> Iterator[str]:
    cells = CellView(report.sources)
    for path, group in groupby(left[:MOST_LEFT], key=lambda finding: finding.path):
        yield f"### {_code(path)}"
        yield ""
        for finding in group:
            yield from _one_left(finding, report.refusal(finding), cells)
        yield ""
    if len(left) > MOST_LEFT:
        yield f"... and {len(left) - MOST_LEFT:,} more."


def _one_left(finding: Finding, refusal: str, cells: CellView) -> Iterable[str]:
    where = _where(finding.path, finding.span, cells)
    yield f"- {where} {_rule(finding.code)}: {_text(finding.message)}."
    if finding.fix is not None:
        yield f"  - `--unsafe-fixes` would do this: {_text(finding.fix.title)}."
    elif refusal:
        yield f"  - Not rewritten: {_text(refusal)}."
    if finding.help:
        yield f"  - {_text(finding.help[:1].upper() + finding.help[1:])}."


def _where(path: str, span: Span, cells: CellView) -> str:
    inside = cells.in_cell(path, span)
    return f"cell {inside.cell}, line {inside.span.line}" if inside else f"line {span.line}"


def _rule(code: str) -> str:
    return f"[{code}]({DOCS_URL}/{code})"


def _text(text: str) -> str:
    """Words with their `code` as code, and nothing else in them that Markdown would obey."""
    parts = harmless(text).split("`")
    parts[::2] = [_SPECIAL.sub(r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def _code(text: str) -> str:
    return f"`{harmless(text).replace('`', '')}`"
