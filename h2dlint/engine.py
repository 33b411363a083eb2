"""One file, from bytes to what is said about it: facts, regions, rules, suppressions."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from h2dlint.discovery import read_bytes
from h2dlint.facts.copies import Copy, Span, Verdict
from h2dlint.finding import Finding, Severity
from h2dlint.source import Problem, SourceFile, load
from h2dlint.suppress import Suppression, sort_out

if TYPE_CHECKING:
    from h2dlint.facts.project import Project
    from h2dlint.rules import Rule

UNPROVEN = "HTD190"
NOT_ANALYSED = "HTD902"

_REPORTED = (Verdict.FAKE_ASYNC, Verdict.CONDITIONAL)


class Job(Struct, frozen=True):
    """One file to look at, and how."""

    file: str
    """What to open."""
    path: str
    """What to call it."""
    codes: tuple[str, ...] = ()
    """The rules that run."""
    strict: bool = False
    """Unproven copies are errors."""
    show_unproven: bool = False
    inventory: bool = False
    """List the file's copies instead of checking them."""
    verbose: bool = False
    """Print where h2dlint itself failed."""


class Outcome(Struct, frozen=True):
    """What one file came to."""

    path: str
    findings: tuple[Finding, ...] = ()
    """By position, without suppressed ones and without the notes about unproven copies."""
    unproven: tuple[Finding, ...] = ()
    """The notes about unproven copies; none in a strict run, where they are findings."""
    suppressed: tuple[Finding, ...] = ()
    suppressions: tuple[Suppression, ...] = ()
    """All suppressing comments of the file."""
    used: tuple[tuple[Suppression, str], ...] = ()
    """Those that silenced something, with the code."""
    copies: tuple[Copy, ...] = ()
    """The inventory, if that was asked for."""
    text: str = ""
    """The file's text, where there is something to show in it."""


def look_at(project: Project, job: Job) -> Outcome:
    """Does `job`. Whatever is wrong with the file becomes a finding: nothing is raised for it."""
    try:
        data = read_bytes(job.file)
    except OSError as error:
        return not_analysed(job, Problem(1, f"cannot be read: {error.strerror or error}"))
    source = load(job.path, data)
    if source.tree is None or source.problem is not None:
        return not_analysed(job, source.problem or Problem(1, "no tree"), source.text)
    try:
        if job.inventory:
            return Outcome(job.path, copies=_copies(project, source, source.tree, every=True))
        return _check(project, job, source, source.tree, data)
    except (RecursionError, MemoryError):
        return not_analysed(job, Problem(1, "nested too deeply to be analysed"), source.text)
    except Exception as error:
        if job.verbose:
            _print_traceback()
        message = f"h2dlint itself failed on it, please report this: {type(error).__name__}: {error}"
        return not_analysed(job, Problem(1, message), source.text)


def _print_traceback() -> None:
    import traceback

    traceback.print_exc()


def _copies(project: Project, source: SourceFile, tree: ast.Module, every: bool) -> tuple[Copy, ...]:
    from h2dlint.facts.analyse import copies_of

    return tuple(copies_of(project, source.path, source.text, tree, every=every))


def _check(project: Project, job: Job, source: SourceFile, tree: ast.Module, data: bytes) -> Outcome:
    copies = _copies(project, source, tree, every=False)
    if not copies:
        return Outcome(job.path)
    rules = [rule for rule in _all_rules() if rule.meta.code in job.codes]
    everything = _findings(source.text, tree, copies, rules, job)
    if job.strict:
        everything = [_as_error(finding) for finding in everything]
    sorted_out = sort_out(everything, data, source.text)
    findings = tuple(finding for finding in sorted_out.kept if job.strict or finding.code != UNPROVEN)
    unproven = () if job.strict else tuple(finding for finding in sorted_out.kept if finding.code == UNPROVEN)
    return Outcome(
        path=job.path,
        findings=findings,
        unproven=unproven,
        suppressed=sorted_out.suppressed,
        suppressions=sorted_out.suppressions,
        used=sorted_out.used,
        text=source.text if findings or (unproven and job.show_unproven) else "",
    )


def _all_rules() -> Sequence[Rule]:
    from h2dlint.rules import all_rules

    return all_rules()


def _findings(text: str, tree: ast.Module, copies: Sequence[Copy], rules: Sequence[Rule], job: Job) -> list[Finding]:
    shown = job.strict or job.show_unproven
    worth = [copy for copy in copies if copy.verdict in _REPORTED or (shown and copy.verdict is Verdict.UNPROVEN)]
    found: list[Finding] = []
    if worth and rules:
        from h2dlint.regions import visit

        found += visit(text, tree, worth, rules)
    if not shown:
        found += _hidden_notes(copies, rules)
    return sorted(found, key=lambda finding: (finding.span.line, finding.span.column, finding.code))


def _hidden_notes(copies: Sequence[Copy], rules: Sequence[Rule]) -> list[Finding]:
    # Only counted, so their wording needs no syntax tree.
    return [
        finding
        for rule in rules
        if rule.meta.code == UNPROVEN
        for copy in copies
        if copy.verdict is Verdict.UNPROVEN
        for finding in rule.check(copy, None)
    ]


def _as_error(finding: Finding) -> Finding:
    return msgspec.structs.replace(finding, severity=Severity.ERROR) if finding.code == UNPROVEN else finding


def not_analysed(job: Job, problem: Problem, text: str = "") -> Outcome:
    """The outcome of a file that could not be analysed: a finding that says why, unless its rule is ignored."""
    if not job.inventory and NOT_ANALYSED not in job.codes:
        return Outcome(job.path)
    meta = next(rule.meta for rule in _all_rules() if rule.meta.code == NOT_ANALYSED)
    finding = Finding(
        code=meta.code,
        name=meta.name,
        severity=meta.severity,
        path=job.path,
        span=Span(problem.line, 1, problem.line, 1),
        message=f"this file was not analysed: {problem.message}",
        help="mend the file, or leave it out with `exclude`",
        verdict=None,
    )
    return Outcome(job.path, findings=(finding,), text=text)
