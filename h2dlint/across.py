"""Fixes that change another file than the one their finding stands in: a factory of buffers, a loader.

The files of a run are looked at one by one, so these fixes come when that is done, one after the other. Each was proven
by an analysis of both files, and is looked at again here in all files whose findings lead to the changed one.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from h2dlint.apply import apply_edits
from h2dlint.discovery import read_bytes
from h2dlint.engine import Change, Job, Outcome, look_at, new_project
from h2dlint.finding import Applicability, FileEdits, Finding, Fix, Severity
from h2dlint.fixing.document import hash_of
from h2dlint.groups import Groups
from h2dlint.notebooks import is_notebook
from h2dlint.report import Fixed, Key
from h2dlint.source import load

if TYPE_CHECKING:
    from h2dlint.facts.project import Project

MOST = 500
"""More such fixes in one run mean that something goes in a circle."""

MAKES_NEW = "the rewrite would give another file something new to report"


class _Text(Struct, frozen=True):
    """A file as it would be written now."""

    before: bytes
    old: str
    new: str
    encoding: str


class Across:
    """The outcomes of a run, while fixes across files are made."""

    def __init__(self, outcomes: Sequence[Outcome], jobs: Mapping[str, Job], given: Container[str]) -> None:
        """`jobs`: every file of the run by its absolute path. Only files in `given` are changed: the user named them,
        or a folder around them.
        """
        self.groups = Groups()
        """Which files are changed together."""
        self._jobs = jobs
        self._by_path = {outcome.path: self._kept(outcome, given) for outcome in outcomes}
        self._texts: dict[str, _Text] = {}
        self._fixed: dict[str, list[Fixed]] = {}
        self._failed: set[tuple[str, Key]] = set()
        self._fresh: dict[str, int] = {}
        """Path -> how many texts there were when its fixes were last looked for."""

    def outcomes(self) -> list[Outcome]:
        """The outcomes, by path."""
        return [self._by_path[path] for path in sorted(self._by_path)]

    def _kept(self, outcome: Outcome, given: Container[str]) -> Outcome:
        """The outcome without fixes that would change a file which was not given; the reason takes their place."""
        refusals = dict(outcome.refusals)
        findings: list[Finding] = []
        for finding in outcome.findings:
            out = [one.path for one in _parts(finding) if os.path.abspath(one.path) not in given]
            if out:
                refusals[finding.span, finding.code] = f"the change belongs into {out[0]}: check that file too"
                finding = msgspec.structs.replace(finding, fix=None)
            findings.append(finding)
        return msgspec.structs.replace(outcome, findings=tuple(findings), refusals=refusals)

    # --- making -----------------------------------------------------------------------------------------------------

    def make(self, most: Applicability) -> None:
        """Makes every such fix that is allowed, as far as it still holds when its turn comes."""
        for path, outcome in self._by_path.items():
            if outcome.change is not None and not is_notebook(path):
                change = outcome.change
                encoding = load(path, change.after).encoding
                self._texts[path] = _Text(change.before, change.old_text, change.new_text, encoding)
        for _ in range(MOST):
            offer = next(self._offers(most), None)
            if offer is None:
                break
            path, finding, fix = offer
            if not self._is_current(fix):
                if self._fresh.get(path) == self._age:
                    self._give_up(path, finding, MAKES_NEW)
                else:
                    self._look_again([path])
                continue
            self._try(path, finding, fix)

    @property
    def _age(self) -> int:
        return sum(len(made) for made in self._fixed.values()) + len(self._texts) * MOST

    def _offers(self, most: Applicability) -> Iterator[tuple[str, Finding, Fix]]:
        for path in sorted(self._by_path):
            for finding in self._by_path[path].findings:
                fix = finding.fix
                if fix is None or not fix.elsewhere or (path, (finding.span, finding.code)) in self._failed:
                    continue
                if most is Applicability.UNSAFE or fix.applicability is Applicability.SAFE:
                    yield path, finding, fix

    def _is_current(self, fix: Fix) -> bool:
        texts = {part.path: self._text(part.path) for part in fix.elsewhere}
        return all(
            (text := texts[part.path]) is not None and hash_of(text.new) == part.content_hash for part in fix.elsewhere
        )

    def _text(self, path: str) -> _Text | None:
        """The file as it would be written now; None where it cannot be."""
        if path in self._texts:
            return self._texts[path]
        try:
            data = read_bytes(path)
        except OSError:
            return None
        source = load(path, data)
        if source.tree is None or source.text.encode(source.encoding) != data:
            return None
        return _Text(data, source.text, source.text, source.encoding)

    def _try(self, path: str, finding: Finding, fix: Fix) -> None:
        """Makes the fix; undoes it where it gives any file more to report than before."""
        before_texts, before = dict(self._texts), dict(self._by_path)
        parts = [*fix.elsewhere, *([FileEdits(path, fix.edits, fix.content_hash)] if fix.edits else [])]
        for part in parts:
            text = self._text(part.path)
            if text is None:
                self._give_up(path, finding, MAKES_NEW)
                return
            self._texts[part.path] = msgspec.structs.replace(text, new=apply_edits(text.new, part.edits))
        changed = [part.path for part in parts]
        concerned = {path, *changed, *(one for one in self._by_path if self._leads_to(one, changed))}
        self._look_again(sorted(concerned))
        if any(_weight(self._by_path[one]) > _weight(before.get(one)) for one in concerned):
            self._texts, self._by_path = before_texts, before
            self._give_up(path, finding, MAKES_NEW)
            return
        for one in sorted(concerned):
            self._note_cured(before.get(one), fix, changed)
        for other in changed:
            self.groups.join(path, other)
        for other in changed:
            self._put_change(other)

    def _leads_to(self, path: str, changed: Sequence[str]) -> bool:
        return any(place.path in changed for finding in self._by_path[path].findings for place in finding.trace)

    def _note_cured(self, before: Outcome | None, fix: Fix, changed: Sequence[str]) -> None:
        """The record of each finding that the same change has cured."""
        if before is None:
            return
        left = [(one.code, one.function, one.message) for one in self._by_path[before.path].findings]
        for finding in before.findings:
            same = finding.fix is not None and finding.fix.elsewhere == fix.elsewhere
            if same and (finding.code, finding.function, finding.message) not in left:
                into = tuple(other for other in changed if other != before.path)
                record = Fixed(
                    before.path, finding.code, fix.title, fix.applicability, finding.span, finding.message, into
                )
                self._fixed.setdefault(changed[0], []).append(record)
                self.groups.join(before.path, changed[0])

    def _put_change(self, path: str) -> None:
        """The change of a file, with what was fixed by it."""
        text, outcome = self._texts[path], self._by_path[path]
        own = [one for one in outcome.change.fixed if not one.into] if outcome.change is not None else []
        after = text.new.encode(text.encoding)
        fixed = (*own, *self._fixed.get(path, ()))
        change = Change(text.before, after, text.old, text.new, fixed)
        self._by_path[path] = msgspec.structs.replace(outcome, change=change)

    def _give_up(self, path: str, finding: Finding, reason: str) -> None:
        key = (finding.span, finding.code)
        self._failed.add((path, key))
        outcome = self._by_path[path]
        findings = tuple(msgspec.structs.replace(one, fix=None) if one is finding else one for one in outcome.findings)
        refusals = {**outcome.refusals, key: reason}
        self._by_path[path] = msgspec.structs.replace(outcome, findings=findings, refusals=refusals)

    # --- looking again ----------------------------------------------------------------------------------------------

    def _look_again(self, paths: Sequence[str]) -> None:
        """Look at files with the texts that there would be now. What was changed in them stays so."""
        assumed = {os.path.abspath(path): text.new for path, text in self._texts.items()}
        projects: dict[object, Project] = {}
        for path in paths:
            job = self._jobs[os.path.abspath(path)]
            project = projects.get(job.facts)
            if project is None:
                project = projects[job.facts] = new_project(job.facts, job.want_grounds, assumed)
            change = self._by_path[path].change if path in self._by_path else None
            text = self._texts.get(path)
            data = text.new.encode(text.encoding) if text is not None else change.after if change is not None else None
            fixing = msgspec.structs.replace(job.fixing, make=False) if job.fixing is not None else None
            outcome = look_at(project, msgspec.structs.replace(job, data=data or job.data, fixing=fixing))
            self._by_path[path] = msgspec.structs.replace(outcome, change=change)
            self._fresh[path] = self._age


def _parts(finding: Finding) -> tuple[FileEdits, ...]:
    return finding.fix.elsewhere if finding.fix is not None else ()


def _weight(outcome: Outcome | None) -> int:
    """How much there is to mend in a file."""
    found = outcome.findings if outcome is not None else ()
    return sum(finding.severity is not Severity.NOTE for finding in found)
