"""One file, from bytes to what is said about it: facts, regions, rules, suppressions."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from h2dlint.discovery import read_bytes
from h2dlint.facts.copies import Copy, Span, Verdict
from h2dlint.finding import Applicability, Finding, Severity
from h2dlint.source import Problem, SourceFile, load, parse
from h2dlint.suppress import Suppression, sort_out

if TYPE_CHECKING:
    from h2dlint.facts.project import Project
    from h2dlint.fixing.options import FixOptions
    from h2dlint.report import Fixed, Key
    from h2dlint.rules import Rule

CANNOT_WRITE_BACK = "the file's bytes cannot be made from its text again"
UNPROVEN = "HTD190"
NOT_ANALYSED = "HTD902"

_REPORTED = (Verdict.FAKE_ASYNC, Verdict.CONDITIONAL)


class Fixing(Struct, frozen=True):
    """How rewrites are chosen, and whether they are made."""

    options: FixOptions
    most: Applicability
    """What may be made; anything may be shown."""
    make: bool
    """Make them, in memory; otherwise they are only attached to the findings."""


class Change(Struct, frozen=True):
    """A file with its fixes made, not yet written."""

    before: bytes
    after: bytes
    old_text: str
    new_text: str
    fixed: tuple[Fixed, ...]


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
    fixing: Fixing | None = None
    """What to do about rewrites; None: look for none."""


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
    """The file's text, where there is something to show in it; with fixes made, the new one."""
    refusals: Mapping[Key, str] = {}
    """Why findings have no fix."""
    change: Change | None = None
    """The fixes that were made; positions in the findings are those of the new text."""


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
    outcome = _outcome(job, source.text, tree, copies, data)
    if job.fixing is None or not any(finding.code != UNPROVEN for finding in outcome.findings):
        return outcome
    return _with_fixes(project, job, job.fixing, source, tree, data, outcome)


def _outcome(job: Job, text: str, tree: ast.Module, copies: Sequence[Copy], data: bytes) -> Outcome:
    rules = [rule for rule in _all_rules() if rule.meta.code in job.codes]
    everything = _findings(text, tree, copies, rules, job)
    if job.strict:
        everything = [_as_error(finding) for finding in everything]
    sorted_out = sort_out(everything, data, text)
    findings = tuple(finding for finding in sorted_out.kept if job.strict or finding.code != UNPROVEN)
    unproven = () if job.strict else tuple(finding for finding in sorted_out.kept if finding.code == UNPROVEN)
    return Outcome(
        path=job.path,
        findings=findings,
        unproven=unproven,
        suppressed=sorted_out.suppressed,
        suppressions=sorted_out.suppressions,
        used=sorted_out.used,
        text=text if findings or (unproven and job.show_unproven) else "",
    )


# --- fixes --------------------------------------------------------------------------------------------------------


def _with_fixes(
    project: Project, job: Job, fixing: Fixing, source: SourceFile, tree: ast.Module, data: bytes, outcome: Outcome
) -> Outcome:
    """The outcome with its findings fixed, or with the fixes that they could have."""
    from h2dlint.repair import Repairer, with_fixes

    if source.text.encode(source.encoding, "surrogatepass") != data:
        refusals = {(finding.span, finding.code): CANNOT_WRITE_BACK for finding in outcome.findings}
        return msgspec.structs.replace(outcome, refusals=refusals)

    def copies_of_text(text: str, tree: ast.Module) -> Sequence[Copy]:
        return _copies(project, msgspec.structs.replace(source, text=text), tree, every=False)

    def findings_in(text: str, tree: ast.Module, copies: Sequence[Copy]) -> Sequence[Finding]:
        encoded = text.encode(source.encoding)
        return [one for one in _outcome(job, text, tree, copies, encoded).findings if one.code != UNPROVEN]

    repairer = Repairer(job.path, job.file, fixing.options, fixing.most, copies_of_text, findings_in)
    change: Change | None = None
    text = source.text
    if fixing.make:
        repaired = repairer.repair(text, tree)
        if repaired.fixed:
            text, tree = repaired.text, parse(repaired.text)
            change = Change(data, text.encode(source.encoding), source.text, text, repaired.fixed)
            copies = copies_of_text(text, tree)
            outcome = _outcome(job, text, tree, copies, change.after)
    proposals = repairer.proposals(text, tree)
    return msgspec.structs.replace(
        outcome,
        findings=with_fixes(outcome.findings, proposals.fixes),
        refusals=proposals.refusals,
        change=change,
    )


# --- findings -----------------------------------------------------------------------------------------------------


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
