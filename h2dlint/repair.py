"""One file, from findings to a text without them: propose, merge, prove, again, until nothing changes.

A fix counts only if the analysis agrees: the text with it parses, its copy is no longer reported, and nothing else is.
"""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from h2dlint.apply import apply_edits, merge
from h2dlint.facts.copies import Copy, Span, Verdict
from h2dlint.finding import Applicability, Finding, Fix
from h2dlint.fixing.document import Document
from h2dlint.fixing.options import FixOptions
from h2dlint.fixing.proposal import propose, site_of
from h2dlint.fixing.site import Refusal
from h2dlint.report import Fixed, Key
from h2dlint.source import parse

if TYPE_CHECKING:
    from h2dlint.others import Others

MOST_ROUNDS = 10
"""Fixes that wait for others come in the next round; more rounds than this mean that something goes in a circle."""

MOST_READ = 10_000_000
"""Characters read in search of rewrites, for one file: each search reads the function around its copy. Some twenty
seconds; thousands of copies in one function would take hours.
"""

_READINGS = 50
"""How often a search reads the statement of its copy."""

TOO_MUCH = "the file holds too many findings in too long functions for one run: fix the others first"
NO_LONGER_PARSES = "the rewritten file would not compile"
NOT_CURED = "the rewritten copy could not be shown to be asynchronous"
LOST_ITS_FORM = "the rewrite does not keep to the cells of the notebook"

CopiesOf = Callable[[str, ast.Module], Sequence[Copy]]
"""The copies of a text that ask to be asynchronous."""
FindingsIn = Callable[[str, ast.Module, Sequence[Copy]], Sequence[Finding]]
"""What is to be fixed in a text with these copies."""
KeepsForm = Callable[[str], bool]
"""Whether the file can be made from a text of it again."""


class Repaired(Struct, frozen=True):
    """What came of one file."""

    text: str
    """The new text."""
    fixed: tuple[Fixed, ...]
    refusals: Mapping[Key, str]
    """Why a finding of the new text has no fix."""


class Proposals(Struct, frozen=True):
    """What could be done about the findings of a text."""

    fixes: Mapping[Key, Fix]
    refusals: Mapping[Key, str]


class Repairer:
    """Repairs one file. Keeps in mind which rewrites did not hold, so that the next best gets its turn."""

    def __init__(
        self,
        path: str,
        file: str,
        options: FixOptions,
        most: Applicability,
        copies_of: CopiesOf,
        findings_in: FindingsIn,
        keeps_form: KeepsForm | None = None,
        others: Others | None = None,
        analysed: Mapping[str, Sequence[Copy]] | None = None,
    ) -> None:
        """`path` is what the file is called, `file` what to open; fixes of more than `most` are never made.

        `others` says of other files what a fix there would do. Such fixes are proposed, not made. `analysed`: the
        copies of a text that was analysed already.
        """
        self._path = path
        self._file = file
        self._options = options
        self._most = most
        self._copies_of = copies_of
        self._findings_in = findings_in
        self._keeps_form = keeps_form
        self._others = others
        self._read = 0
        """Characters read in search of rewrites."""
        self._analysed: dict[str, Sequence[Copy]] = dict(analysed or {})
        self._failed: dict[tuple[str, str], dict[str, str]] = {}
        """Copy (function and text) -> title -> why that rewrite does not hold."""

    def repair(self, text: str, tree: ast.Module) -> Repaired:
        """Makes every fix that is allowed and holds."""
        fixed: list[Fixed] = []
        for _ in range(MOST_ROUNDS):
            round_ = self._round(text, tree)
            if round_ is None:
                break
            text, tree, made = round_
            fixed += made
        return Repaired(text, tuple(fixed), self.proposals(text, tree).refusals)

    def proposals(self, text: str, tree: ast.Module) -> Proposals:
        """The fix of each finding that has one which holds, and for each other one the reason."""
        state = self._state(text, tree)
        fixes: dict[Key, Fix] = {}
        while True:
            offers, refusals = self._offers(state)
            pending = [offer for offer in offers if offer.key not in fixes]
            held, failed = self._tested(state, [one for one in pending if not one.fix.elsewhere], together=False)
            for offer in pending:
                if offer.fix.elsewhere:
                    self._settle(state, [], offer, held, failed)
            fixes.update({offer.key: offer.fix for offer in held})
            if not failed:
                return Proposals(fixes, refusals)

    def _state(self, text: str, tree: ast.Module) -> _State:
        copies = self._copies(text, tree)
        others = self._others.document if self._others is not None else None
        document = Document(self._path, text, tree, self._file, others)
        return _State.of(document, copies, self._findings_in(text, tree, copies))

    def _copies(self, text: str, tree: ast.Module) -> Sequence[Copy]:
        # A text that was tested is the text of the next round.
        if text not in self._analysed:
            self._analysed = {text: self._copies_of(text, tree)}
        return self._analysed[text]

    def _round(self, text: str, tree: ast.Module) -> tuple[str, ast.Module, list[Fixed]] | None:
        """One pass over the file; None where nothing is left to do."""
        state = self._state(text, tree)
        while True:
            offers, _ = self._offers(state)
            wanted = [one for one in offers if _allowed(one.fix, self._most) and not one.fix.elsewhere]
            if not wanted:
                return None
            held, failed = self._tested(state, _independent(state.document, wanted), together=True)
            if held:
                new_text = apply_edits(text, merge([offer.fix for offer in held]).edits)
                made = [offer.made(self._path) for offer in held]
                return new_text, parse(new_text), made
            if not failed:
                return None

    # --- offers ---------------------------------------------------------------------------------------------------

    def _offers(self, state: _State) -> tuple[list[_Offer], dict[Key, str]]:
        offers: list[_Offer] = []
        refusals: dict[Key, str] = {}
        for finding in state.findings:
            key = (finding.span, finding.code)
            copy = state.copy_of(finding)
            if copy is None:
                continue
            if self._read > MOST_READ:
                refusals[key] = TOO_MUCH
                continue
            site = site_of(state.document, copy, self._options)
            if site is None:
                continue
            document = state.document
            self._read += document.length_of(site.function) + _READINGS * document.length_of(site.statement)
            failed = self._failed.get(_name(state.document, copy), {})
            answer = propose(site, self._most, failed)
            if isinstance(answer, Refusal):
                refusals[key] = next(iter(failed.values()), answer.reason)
            else:
                offers.append(_Offer(key, copy, answer, finding.message))
        return offers, refusals

    def _tested(self, state: _State, offers: Sequence[_Offer], together: bool) -> tuple[list[_Offer], list[_Offer]]:
        """Which offers hold and which do not. Those that clash with others are tested alone, or, `together`, wait."""
        merged = merge([offer.fix for offer in offers])
        first = [offers[index] for index in merged.taken]
        rest = [] if together else [offers[index] for index in merged.waiting]
        held: list[_Offer] = []
        failed: list[_Offer] = []
        if self._holds(state, first) is None:
            held = first
        else:
            for offer in first:
                self._settle(state, held if together else [], offer, held, failed)
        for offer in rest:
            self._settle(state, [], offer, held, failed)
        return held, failed

    def _settle(
        self, state: _State, beside: list[_Offer], offer: _Offer, held: list[_Offer], failed: list[_Offer]
    ) -> None:
        reason = self._holds_elsewhere(state, offer) if offer.fix.elsewhere else self._holds(state, [*beside, offer])
        if reason is None:
            held.append(offer)
            return
        failed.append(offer)
        self._failed.setdefault(_name(state.document, offer.copy), {})[offer.fix.title] = reason

    def _holds(self, state: _State, offers: Sequence[_Offer]) -> str | None:
        """None where the text with these fixes is fine, else what is wrong with it."""
        if not offers:
            return None
        text = apply_edits(state.document.text, merge([offer.fix for offer in offers]).edits)
        tree = _compiled(text)
        if tree is None:
            return NO_LONGER_PARSES
        if self._keeps_form is not None and not self._keeps_form(text):
            return LOST_ITS_FORM
        return _cured(state, offers, self._copies(text, tree))

    def _holds_elsewhere(self, state: _State, offer: _Offer) -> str | None:
        """The same for a fix that changes other files: it cures the copy here, and nothing new comes up there."""
        if self._others is None:
            return NOT_CURED
        texts: dict[str, str] = {}
        for part in offer.fix.elsewhere:
            other = self._others.document(part.path)
            if other is None or other.content_hash != part.content_hash:
                return NOT_CURED
            texts[part.path] = apply_edits(other.text, part.edits)
        text = apply_edits(state.document.text, offer.fix.edits)
        trees = {path: _compiled(new) for path, new in {**texts, self._path: text}.items()}
        for path, new in texts.items():
            tree = trees[path]
            if tree is None:
                return NO_LONGER_PARSES
            before = _reported(self._others.copies_now(path))
            if not _no_more(self._others.copies_with(texts, path, new, tree), before):
                return NOT_CURED
        own = trees[self._path]
        if own is None:
            return NO_LONGER_PARSES
        return _cured(state, [offer], self._others.copies_with(texts, self._path, text, own))


def _cured(state: _State, offers: Sequence[_Offer], copies: Sequence[Copy]) -> str | None:
    allowed = state.reported.copy()
    for offer in offers:
        allowed[offer.copy.function, False] -= 1
    return None if _no_more(copies, allowed) else NOT_CURED


def _no_more(copies: Sequence[Copy], allowed: Counter[tuple[str, bool]]) -> bool:
    return all(number <= allowed[where] for where, number in _reported(copies).items())


class _Offer(Struct, frozen=True):
    key: Key
    copy: Copy
    fix: Fix
    message: str
    """What the finding says."""

    def made(self, path: str) -> Fixed:
        """The record of this fix, made."""
        return Fixed(path, self.key[1], self.fix.title, self.fix.applicability, self.key[0], self.message)


class _State(Struct, frozen=True):
    """A text with what is known of it."""

    document: Document
    findings: Sequence[Finding]
    by_span: Mapping[Span, Sequence[Copy]]
    reported: Counter[tuple[str, bool]]

    @classmethod
    def of(cls, document: Document, copies: Sequence[Copy], findings: Sequence[Finding]) -> _State:
        by_span: dict[Span, list[Copy]] = {}
        for copy in copies:
            by_span.setdefault(copy.span, []).append(copy)
        return cls(document, findings, by_span, _reported(copies))

    def copy_of(self, finding: Finding) -> Copy | None:
        """What a finding speaks of: a copy, or a mistake beside one at the same place."""
        from h2dlint.rules import codes_for

        here = self.by_span.get(finding.span, ())
        return next((copy for copy in here if len(here) == 1 or finding.code in codes_for(copy)), None)


def _independent(document: Document, offers: Sequence[_Offer]) -> list[_Offer]:
    """The offers without those that another may make needless: it changes what both copies come from."""
    taken: list[_Offer] = []
    for offer in offers:
        others = (other for other in offers if other is not offer and other.fix.edits != offer.fix.edits)
        if not any(
            _cures(document, other, offer) and (other in taken or not _cures(document, offer, other))
            for other in others
        ):
            taken.append(offer)
    return taken or list(offers[:1])


def _cures(document: Document, offer: _Offer, other: _Offer) -> bool:
    """Whether a fix changes, away from its own copy, a place that made the other copy's source what it is."""
    shared = set(offer.copy.trace) & set(other.copy.trace)
    own = document.lines.span_offsets(offer.copy.span)
    for place in shared:
        if place.path != document.path:
            continue
        start, end = document.lines.span_offsets(place.span)
        inside_own = own[0] <= start and end <= own[1] and offer.copy.follows is None
        if not inside_own and any(edit.start <= end and start <= edit.end for edit in offer.fix.edits):
            return True
    return False


def _allowed(fix: Fix, most: Applicability) -> bool:
    return most is Applicability.UNSAFE or fix.applicability is Applicability.SAFE


def _name(document: Document, copy: Copy) -> tuple[str, str]:
    """What a copy is called while the lines around it move."""
    start, end = document.lines.span_offsets(copy.span)
    return copy.function, document.text[start:end]


def _reported(copies: Sequence[Copy]) -> Counter[tuple[str, bool]]:
    """How many copies of each function some rule has something to say about, and how many of them are unproven.

    A fix makes the others one fewer, and the unproven ones no more.
    """
    from h2dlint.rules import codes_for

    return Counter((copy.function, copy.verdict is Verdict.UNPROVEN) for copy in copies if codes_for(copy))


def _compiled(text: str) -> ast.Module | None:
    try:
        tree = parse(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # What a notebook may do and a module may not: no fix adds an `await`.
            compile(tree, "<fixed>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree


def with_fixes(findings: Sequence[Finding], fixes: Mapping[Key, Fix]) -> tuple[Finding, ...]:
    """The findings, each with its fix where there is one; a finding that came with one keeps it."""
    return tuple(
        finding if finding.fix else msgspec.structs.replace(finding, fix=fixes.get((finding.span, finding.code)))
        for finding in findings
    )


def without_comments(text: str, findings: Sequence[Finding]) -> str:
    """The text without the comments, or codes in them, that the findings offer to take out."""
    return apply_edits(text, merge([finding.fix for finding in findings if finding.fix]).edits)


def made(path: str, finding: Finding) -> Fixed:
    """The record of a fix that was made just as the finding offers it."""
    title = finding.fix.title if finding.fix else ""
    return Fixed(path, finding.code, title, Applicability.SAFE, finding.span, finding.message)
