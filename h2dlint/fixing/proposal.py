"""From a copy to the best rewrite on offer: the fixers in their order, the first that fits."""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Sequence

from h2dlint.facts.copies import Copy, Verdict
from h2dlint.finding import Applicability, Fix
from h2dlint.fixing.document import Document
from h2dlint.fixing.options import FixOptions
from h2dlint.fixing.site import Refusal, RefusedError, Site

_FixFunction = Callable[[Site], "Fix | Refusal | None"]

NO_FORM = "no rewrite is known for this form"


def propose(site: Site, most: Applicability = Applicability.UNSAFE, without: Container[str] = ()) -> Fix | Refusal:
    """The rewrite of the first fixer that has one, else the reason of the first that refuses.

    With `most` safe, a safe rewrite is preferred to an unsafe one that would be better. Rewrites with a title in
    `without` are passed over.
    """
    from h2dlint.fixers import all_fixers

    refused: Refusal | None = None
    second: Fix | None = None
    pitfall = site.copy.pitfall
    hazard = site.copy.verdict not in (Verdict.FAKE_ASYNC, Verdict.CONDITIONAL) and bool(site.copy.hazards)
    for fixer in all_fixers():
        if (pitfall is not None and pitfall not in fixer.pitfalls) or fixer.hazards is not hazard:
            continue
        answer = _answer(fixer.fix, site)
        if not isinstance(answer, Fix):
            refused = refused or answer
        elif answer.title not in without:
            if most is Applicability.UNSAFE or answer.applicability is Applicability.SAFE:
                return answer
            second = second or answer
    return second or refused or Refusal(NO_FORM)


def _answer(fix: _FixFunction, site: Site) -> Fix | Refusal | None:
    try:
        return fix(site)
    except RefusedError as refused:
        return Refusal(str(refused))


def site_of(document: Document, copy: Copy, options: FixOptions) -> Site | None:
    """The site of a copy; None for one that is not a call."""
    call = document.node_at(copy.span)
    if not isinstance(call, ast.Call):
        return None
    return Site(document, copy, call, document.statement_of(call), document.function_of(call), options)


def sites_of(path: str, text: str, options: FixOptions = FixOptions()) -> list[Site]:  # noqa: B008  (frozen)
    """The sites in a text that `check` would report, by position.

    Raises SyntaxError for a text that does not parse.
    """
    from h2dlint.facts.analyse import copies_of
    from h2dlint.facts.project import Project
    from h2dlint.rules import all_rules
    from h2dlint.source import parse

    document = Document(path, text, parse(text))
    pitfalls = {pitfall for rule in all_rules() if rule.meta.default for pitfall in rule.meta.pitfalls}
    copies: Sequence[Copy] = copies_of(Project(), path, text, document.tree, pitfalls=pitfalls)
    doubtful = (Verdict.FAKE_ASYNC, Verdict.CONDITIONAL)
    wanted = (
        copy for copy in copies if copy.pitfall or copy.verdict in doubtful or copy.follows is not None or copy.hazards
    )
    found = (site_of(document, copy, options) for copy in wanted)
    return [site for site in found if site is not None]
