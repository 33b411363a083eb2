"""What the tests of fixers share: answers, and texts after all fixes."""

from __future__ import annotations

from pathlib import Path

from h2dlint.fixers import Fixer, all_fixers

from h2dlint.finding import Edit, Fix
from h2dlint.fixing import Refusal, RefusedError, Site, propose, sites_of


def apply(text: str, edits: tuple[Edit, ...]) -> str:
    """The text with edits made."""
    for edit in sorted(edits, key=lambda one: (one.start, one.end), reverse=True):
        text = text[: edit.start] + edit.replacement + text[edit.end :]
    return text


def sites_in(folder: Path, text: str) -> list[Site]:
    """The sites of a file of its own."""
    path = folder / "case.py"
    path.write_text(text, encoding="utf-8")
    return sites_of(str(path), text)


def all_fixed(folder: Path, text: str) -> str:
    """The text after every fix, one at a time."""
    for _ in range(20):
        fixes = [answer for answer in map(propose, sites_in(folder, text)) if isinstance(answer, Fix)]
        if not fixes:
            return text
        text = apply(text, fixes[0].edits)
    raise AssertionError("the fixes do not come to an end")


def fixer_named(name: str) -> Fixer:
    """The fixer of that name."""
    return next(fixer for fixer in all_fixers() if fixer.name == name)


def answer_of(name: str, site: Site) -> Fix | Refusal | None:
    """What one fixer says, as `propose` would hear it."""
    try:
        return fixer_named(name).fix(site)
    except RefusedError as refused:
        return Refusal(str(refused))


def described_answer(site: Site) -> str:
    """`FIXER safe`, `FIXER unsafe` or `refused: REASON`."""
    answer = propose(site)
    if isinstance(answer, Refusal):
        return f"refused: {answer.reason}"
    fixer = next(one for one in all_fixers() if one.title == answer.title)
    return f"{fixer.name} {answer.applicability.value}"
