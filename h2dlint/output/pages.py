"""A rule's page: for `h2dlint rule`, and one Markdown file each in the documentation."""

from __future__ import annotations

from collections.abc import Iterable

from h2dlint.rules import Rule


def render(rule: Rule) -> str:
    """The page as Markdown, which reads as well as plain text."""
    meta = rule.meta
    selected = "" if meta.default else ", off unless selected"
    title = f"# {meta.name} ({meta.code})"
    return f"{title}\n\n{meta.severity.value}, since {meta.since}{selected}\n\n{rule.page}\n"


def index(rules: Iterable[Rule]) -> str:
    """The table of all rules, with a link to each page."""
    rows = [
        f"| [{r.meta.code}]({r.meta.code}.md) | {r.meta.name} | {r.meta.severity.value} | {_gist(r)} |" for r in rules
    ]
    head = ["# Rules", "", "| Code | Name | Severity | What it reports |", "|---|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


def _gist(rule: Rule) -> str:
    return " ".join(rule.page.split("\n\n", 1)[0].split())
