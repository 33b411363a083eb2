"""Why a copy got its verdict: every way that was looked at, with its chain, and what could not be followed."""

from __future__ import annotations

import ast
import os

from msgspec import Struct

from h2dlint.facts.analyse import copies_of
from h2dlint.facts.callers import seen_from_here
from h2dlint.facts.copies import Copy, Place, Verdict
from h2dlint.facts.describe import branch_text, places, reveal, span_of
from h2dlint.facts.merge import deciding
from h2dlint.facts.modules import ModuleInfo
from h2dlint.facts.outcomes import CallSite, Outcome
from h2dlint.facts.project import Project


class Way(Struct, frozen=True):
    """One way to a copy, and what it does there."""

    calls: tuple[str, ...]
    """The calls that lead there, outermost first, as `path:line`; none where the function is looked at on its own."""
    when: str
    """The conditions on which it is taken; empty without any."""
    verdict: Verdict
    reveal: str
    chain: tuple[Place, ...]
    unfollowed: str
    """What could not be followed, for an unproven way."""
    assumed: str
    """What was taken for granted; empty if nothing."""
    counts: bool
    """Whether it decides. A way that a caller's arguments make plainer does not, nor one that no program takes."""


class Explanation(Struct, frozen=True):
    """A copy with all ways to it."""

    copy: Copy
    ways: tuple[Way, ...]
    read: tuple[str, ...]
    """The other files that were read for it."""


def explain(project: Project, path: str, text: str, tree: ast.Module, line: int) -> list[Explanation]:
    """The copies on a line of a file, explained. Raises RecursionError on absurdly deep code."""
    found = copies_of(project, path, text, tree, every=True)
    module = project.module(path, text.replace("\r\n", "\n").replace("\r", "\n"), tree)
    read = sorted(os.path.relpath(file).replace(os.sep, "/") for file in project.files_used_by(path))
    return [
        Explanation(copy, _ways(project, module, copy), tuple(read))
        for copy in found
        if copy.span.line <= line <= copy.span.end_line
    ]


def _ways(project: Project, module: ModuleInfo, copy: Copy) -> tuple[Way, ...]:
    outcomes = [
        outcome
        for outcome in seen_from_here(project, module)
        if outcome.is_copy and span_of(outcome.node, module.lines) == copy.span
    ]
    counting = set(map(id, deciding(outcomes)))
    return tuple(dict.fromkeys(_way(outcome, module, id(outcome) in counting) for outcome in outcomes))


def _way(outcome: Outcome, module: ModuleInfo, counts: bool) -> Way:
    array = outcome.decisive
    conditions = [branch_text([tag], _alone(outcome), module.path, module.lines)[0] for tag in outcome.tags]
    return Way(
        calls=tuple(map(_site, outcome.context)),
        when=", ".join(dict.fromkeys(text for text in conditions if text not in ("here", "otherwise"))),
        verdict=outcome.verdict,
        reveal=reveal(outcome),
        chain=places(array.trail if array is not None else None, module.path, module.lines),
        unfollowed=outcome.why if outcome.verdict is Verdict.UNPROVEN else "",
        assumed=_assumed(outcome),
        counts=counts,
    )


def _alone(outcome: Outcome) -> Outcome:
    from msgspec.structs import replace

    return replace(outcome, context=())


def _site(site: CallSite) -> str:
    return f"{site.path}:{getattr(site.node, 'lineno', 0)}"


def _assumed(outcome: Outcome) -> str:
    """The destination, where it is only taken for an accelerator."""
    if outcome.verdict is Verdict.FAKE_ASYNC and not outcome.to_accelerator and outcome.direction.value == "h2d":
        return "the destination is an accelerator, since the copy asks for non_blocking"
    return ""
