"""How a run is shown: one file for each format. Nothing here decides what is reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from h2dlint.facts.copies import Copy
    from h2dlint.finding import Finding
    from h2dlint.report import Report
    from h2dlint.rules import Rule

FORMATS = ("full", "concise", "json", "sarif", "github", "gitlab", "junit", "markdown")
COPY_FORMATS = ("full", "concise", "json")
RULE_FORMATS = ("text", "json")


def write_findings(report: Report, format: str, stream: TextIO, color: bool, show_unproven: bool) -> None:
    """Writes a run of `check` to `stream` in one of FORMATS; `color` concerns the human formats.

    `show_unproven` lists the notes about unproven copies as well. Raises ValueError for another format.
    """
    from h2dlint.output.terminal import emit, no_commands, width_of

    if format == "full":
        from h2dlint.output import full

        text = no_commands(full.render(report, show_unproven, color, width_of(stream)))
    elif format == "concise":
        from h2dlint.output import concise

        text = no_commands(concise.render(report, show_unproven, color))
    elif format in FORMATS:
        from importlib import import_module

        text = import_module(f"h2dlint.output.{format}").render(report, show_unproven)
    else:
        raise _unknown_format(format, FORMATS)
    emit(stream, text)


def write_statistics(report: Report, format: str, stream: TextIO, show_unproven: bool) -> None:
    """Writes how many findings each rule has: as JSON for `json`, else as text."""
    from h2dlint.output import statistics
    from h2dlint.output.terminal import emit

    emit(stream, statistics.render(report, show_unproven, format == "json"))


def write_diff(changes: Mapping[str, tuple[str, str]], stream: TextIO, color: bool) -> None:
    """Writes the old and the new text of each file as one unified diff."""
    from h2dlint.output import diff
    from h2dlint.output.terminal import emit

    emit(stream, diff.render(changes, color, shown=color or stream.isatty()))


def write_copies(copies: Sequence[Copy], sources: Mapping[str, str], format: str, stream: TextIO, color: bool) -> None:
    """Writes an inventory to `stream` in one of COPY_FORMATS; `sources` are the texts of notebooks, by path.

    Raises ValueError for another format.
    """
    from h2dlint.output.terminal import emit, no_commands, width_of

    if format == "full":
        from h2dlint.output import inventory

        text = no_commands(inventory.render(copies, sources, color, width_of(stream)))
    elif format == "concise":
        from h2dlint.output import concise

        text = no_commands(concise.render_copies(copies, sources))
    elif format == "json":
        from h2dlint.output import json

        text = json.render_copies(copies, sources)
    else:
        raise _unknown_format(format, COPY_FORMATS)
    emit(stream, text)


def render_rule(rule: Rule, format: str) -> str:
    """A rule's page in one of RULE_FORMATS: Markdown text, or one JSON object. Raises ValueError for another format."""
    from h2dlint.output import json, pages

    if format not in RULE_FORMATS:
        raise _unknown_format(format, RULE_FORMATS)
    return pages.render(rule) if format == "text" else json.render_rule(rule)


def listed(report: Report, show_unproven: bool) -> list[Finding]:
    """The findings that a format lists, by path and position; what a trace saw to wait comes first, by its cost."""
    shown = [*report.findings, *(report.unproven if show_unproven else ())]
    by_place = sorted(shown, key=lambda finding: (finding.path, finding.span.line, finding.span.column, finding.code))
    if not any(finding.observed for finding in by_place):
        return by_place
    from h2dlint.output.observed import rank

    return sorted(by_place, key=rank)


def _unknown_format(format: str, known: Sequence[str]) -> ValueError:
    return ValueError(f"unknown output format {format!r}: expected one of {', '.join(known)}")
