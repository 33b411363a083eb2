"""One file, from bytes to what is said about it: facts, regions, rules, suppressions."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from h2dlint.accepted import Accepted, identities, sift
from h2dlint.areas import Area
from h2dlint.discovery import read_bytes
from h2dlint.facts.copies import Copy, Span, Verdict
from h2dlint.facts.options import FactOptions
from h2dlint.finding import Applicability, Finding, Severity
from h2dlint.notebooks import is_notebook
from h2dlint.source import Problem, SourceFile, load, parse, parsed
from h2dlint.suppress import Sorted, Suppression, may_hold_suppressions, sort_out

if TYPE_CHECKING:
    from h2dlint.changes import Changes
    from h2dlint.facts.project import Project
    from h2dlint.facts.questions import Answer, Question
    from h2dlint.fixing.options import FixOptions
    from h2dlint.notebooks.module import Broken, CellModule
    from h2dlint.notebooks.places import Carrier
    from h2dlint.repair import KeepsForm
    from h2dlint.report import Fixed, Key
    from h2dlint.rules import Rule
    from h2dlint.trace.trace_file import Seen

CANNOT_WRITE_BACK = "the file's bytes cannot be made from its text again"
UNPROVEN = "HTD190"
OBSERVED = "HTD191"
UNUSED = "HTD901"
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
    strict_area: Area = Area()
    """Where unproven copies are errors in any case."""
    strict_codes: tuple[str, ...] = ()
    """The opt-in rules that run there, and only there."""
    hot_area: Area = Area()
    """Functions that run at every step."""
    facts: FactOptions = FactOptions()
    copies: bool = True
    """Whether the file may hold copies to look at; otherwise only its comments are."""
    accepted: tuple[Accepted, ...] = ()
    """Known findings, which are not reported."""
    changes: Changes | None = None
    """Report only what rests on a changed line; None: everything."""
    want_grounds: bool = False
    """Tell what the outcome rests on."""
    want_uses: bool = False
    """Tell which other files the facts came from."""
    show_unproven: bool = False
    inventory: bool = False
    """List the file's copies instead of checking them."""
    verbose: bool = False
    """Print where h2dlint itself failed."""
    seen: tuple[Seen, ...] = ()
    """What a trace saw in the file as it is."""
    fixing: Fixing | None = None
    """What to do about rewrites; None: look for none."""
    data: bytes | None = None
    """The bytes to look at; None: those of the file."""


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
    accepted: tuple[Accepted, ...] = ()
    """What was found and is known."""
    uses: frozenset[str] = frozenset()
    """The other files that the facts came from, by absolute path, if that was asked for."""
    read: tuple[str, ...] = ()
    """The files that were read for it and for no file before it, by absolute path, in a verbose run."""
    grounds: tuple[tuple[Question, Answer], ...] = ()
    """What all this rests on, the file itself included, if that was asked for."""
    passing: bool = False
    """A failure that need not come again: not worth keeping in mind."""
    text: str = ""
    """The file's text, where there is something to show in it; with fixes made, the new one."""
    refusals: Mapping[Key, str] = {}
    """Why findings have no fix."""
    change: Change | None = None
    """The fixes that were made; positions in the findings are those of the new text."""
    too_deep: bool = False
    """Nothing is known of it, since it is nested too deeply."""
    notes: tuple[str, ...] = ()
    """What a user may want to know of how it went."""


def new_project(facts: FactOptions, want_grounds: bool, assumed: Mapping[str, str] | None = None) -> Project:
    """A project for jobs with such settings. `assumed`: texts that stand for those of files, by absolute path."""
    if want_grounds:
        from h2dlint.facts.grounds import GroundedProject

        return GroundedProject(facts, assumed)
    from h2dlint.facts.project import Project

    return Project(facts, assumed)


def look_at(project: Project, job: Job) -> Outcome:
    """Does `job`. Whatever is wrong with the file becomes a finding: nothing is raised for it."""
    try:
        data = read_bytes(job.file) if job.data is None else job.data
    except OSError as error:
        return failed(job, Problem(1, f"cannot be read: {error.strerror or error}"))
    outcome = None if project.needs_room else _look_at_bytes(project, job, data)
    if outcome is not None and not outcome.too_deep:
        return outcome
    return _look_deeper(project, job, data) or outcome or _look_at_bytes(project, job, data)


def _look_deeper(project: Project, job: Job, data: bytes) -> Outcome | None:
    """The same where Python has to go deeper than it does by default: for a file that is nested deeply, or one whose
    facts hang on each other in a long row. Others that ask for these will have to as well, and find what is known then.
    """
    from h2dlint.room import with_room

    project.needs_room = True
    try:
        return with_room(lambda: _look_at_bytes(project, job, data))
    except (RecursionError, MemoryError):
        return None


def _look_at_bytes(project: Project, job: Job, data: bytes) -> Outcome:
    if is_notebook(job.file):
        outcome = _look_at_notebook(project, job, data)
    else:
        outcome = _look_at_module(project, job, load(job.path, data), data)
    return _with_grounds(project, job, data, outcome) if job.want_grounds else outcome


def _with_grounds(project: Project, job: Job, data: bytes, outcome: Outcome) -> Outcome:
    from h2dlint.facts.grounds import GroundedProject
    from h2dlint.facts.questions import Kinds, content_of

    if not isinstance(project, GroundedProject):
        raise TypeError("only a GroundedProject tells what its facts rest on")
    grounds = project.grounds_of(job.file)
    grounds[Kinds.FILE, os.path.abspath(job.file)] = (content_of(data),)
    return msgspec.structs.replace(outcome, grounds=tuple(grounds.items()))


def _look_at_module(
    project: Project, job: Job, source: SourceFile, data: bytes, keeps_form: KeepsForm | None = None
) -> Outcome:
    if source.tree is None or source.problem is not None:
        problem = source.problem or Problem(1, "no tree")
        return not_analysed(job, problem, source.text, f"{_MEND}; {_NEWER}" if problem.grammar else _MEND)
    try:
        if job.inventory:
            copies = _copies(project, source, source.tree, every=True)
            return Outcome(job.path, copies=copies, notes=_notes(project, job), passing=project.spent.time_is_up)
        outcome = _check(project, job, source, source.tree, data, keeps_form)
        outcome = msgspec.structs.replace(outcome, notes=_notes(project, job), passing=project.spent.time_is_up)
        return msgspec.structs.replace(outcome, uses=project.files_used_by(job.file)) if job.want_uses else outcome
    except (RecursionError, MemoryError):
        project.start_over()
        return failed(job, Problem(1, "nested too deeply to be analysed", deep=True), source.text)
    except Exception as error:
        project.start_over()
        return _failed(job, error, source.text)


def _notes(project: Project, job: Job) -> tuple[str, ...]:
    """What was cut short."""
    return tuple(
        f"{job.path}: {name} takes too many steps to be followed to its end: its copies are unproven"
        for name in dict.fromkeys(project.spent.cut_short)
    )


def _failed(job: Job, error: Exception, text: str) -> Outcome:
    if job.verbose:
        _print_traceback()
    more = "" if job.verbose else ", with what `-v` prints"
    message = f"h2dlint itself failed on it, please report this{more}: {type(error).__name__}: {error}"
    return failed(job, Problem(1, message), text)


def _print_traceback() -> None:
    import traceback

    traceback.print_exc()


def _copies(
    project: Project, source: SourceFile, tree: ast.Module, every: bool = False, codes: Sequence[str] = ()
) -> tuple[Copy, ...]:
    from h2dlint.facts.analyse import copies_of

    pitfalls = {pitfall for rule in _all_rules() if rule.meta.code in codes for pitfall in rule.meta.pitfalls}
    return tuple(copies_of(project, source.path, source.text, tree, every, pitfalls))


def _check(
    project: Project, job: Job, source: SourceFile, tree: ast.Module, data: bytes, keeps_form: KeepsForm | None
) -> Outcome:
    copies = _copies(project, source, tree, codes=(*job.codes, *job.strict_codes)) if job.copies else ()
    if not copies and not job.seen and not (UNUSED in job.codes and may_hold_suppressions(data)):
        return Outcome(job.path)
    if job.changes is not None:
        job = _only_changed(job, job.changes, source.text, tree, copies, data)
    outcome = _outcome(job, source.text, tree, copies, data)
    if job.fixing is None or not any(finding.code != UNPROVEN for finding in outcome.findings):
        return outcome
    return _with_fixes(project, job, job.fixing, source, tree, data, outcome, keeps_form, copies)


def _outcome(job: Job, text: str, tree: ast.Module, copies: Sequence[Copy], data: bytes) -> Outcome:
    rules = [rule for rule in _all_rules() if rule.meta.code in job.codes or rule.meta.code in job.strict_codes]
    found = _findings(text, tree, copies, rules, job)
    if job.seen:
        from h2dlint.observing import held_against

        meta = next(rule.meta for rule in _all_rules() if rule.meta.code == OBSERVED)
        found = held_against(found, job.path, copies, job.seen, meta)
    everything = _placed(found, job)
    sorted_out = sort_out(everything, data, text)
    kept = (*sorted_out.kept, *_idle_comments(job, text, sorted_out))
    sifted = sift([one for one in kept if not _is_hidden(one)], job.accepted, text)
    findings = tuple(sorted(sifted.kept, key=_position))
    unproven = tuple(finding for finding in kept if _is_hidden(finding))
    return Outcome(
        path=job.path,
        findings=findings,
        unproven=unproven,
        accepted=sifted.taken,
        suppressed=sorted_out.suppressed,
        suppressions=sorted_out.suppressions,
        used=sorted_out.used,
        text=text if findings or (unproven and job.show_unproven) else "",
    )


def _one_a_line(findings: Iterable[Finding]) -> list[Finding]:
    """At most one finding for each line: two edits of one comment are made one after the other."""
    return list({finding.span.line: finding for finding in findings}.values())


def _is_hidden(finding: Finding) -> bool:
    """Whether it is a note about an unproven copy: counted, and listed on request."""
    return finding.code == UNPROVEN and finding.severity is Severity.NOTE


def _position(finding: Finding) -> tuple[int, int, str]:
    return finding.span.line, finding.span.column, finding.code


def _only_changed(job: Job, changes: Changes, text: str, tree: ast.Module, copies: Sequence[Copy], data: bytes) -> Job:
    """The job with every finding accepted that rests on no changed line. So they stay known while fixes move lines."""
    found = _outcome(job, text, tree, copies, data).findings
    old = [finding for finding in found if not changes.concern(finding, tree)]
    accepted = tuple(Accepted(*identity) for identity in identities(old, text))
    return msgspec.structs.replace(job, accepted=(*job.accepted, *accepted), changes=None)


def _idle_comments(job: Job, text: str, sorted_out: Sorted) -> Iterable[Finding]:
    """The comments that silence nothing, unless somebody wants to keep them."""
    if UNUSED not in job.codes or not sorted_out.suppressions:
        return ()
    from h2dlint.unused import unused

    rules = _all_rules()
    meta = next(rule.meta for rule in rules if rule.meta.code == UNUSED)
    # An opt-in rule runs in some functions only: elsewhere it may have had something to say.
    ran = job.codes if job.seen else tuple(code for code in job.codes if code != OBSERVED)
    return unused(meta, job.path, text, sorted_out, ran, {rule.meta.code for rule in rules})


# --- fixes --------------------------------------------------------------------------------------------------------


def _with_fixes(
    project: Project,
    job: Job,
    fixing: Fixing,
    source: SourceFile,
    tree: ast.Module,
    data: bytes,
    outcome: Outcome,
    keeps_form: KeepsForm | None,
    seen: Sequence[Copy],
) -> Outcome:
    """The outcome with its findings fixed, or with the fixes that they could have. `seen`: the copies of the text."""
    from h2dlint.facts.questions import Kinds
    from h2dlint.others import Others
    from h2dlint.repair import Repairer, made, with_fixes, without_comments

    project.note((Kinds.FIXERS, os.path.abspath(job.file)))
    job = msgspec.structs.replace(job, seen=())  # a changed text has other places
    if _written_back(source) != data:
        refusals = {(finding.span, finding.code): CANNOT_WRITE_BACK for finding in outcome.findings}
        return msgspec.structs.replace(outcome, refusals=refusals)

    def copies_of_text(text: str, tree: ast.Module) -> Sequence[Copy]:
        return _copies(project, msgspec.structs.replace(source, text=text), tree, codes=job.codes)

    def findings_in(text: str, tree: ast.Module, copies: Sequence[Copy]) -> Sequence[Finding]:
        encoded = text.encode(source.encoding)
        return [
            one for one in _outcome(job, text, tree, copies, encoded).findings if one.verdict and one.code != UNPROVEN
        ]

    def copies_in(project: Project, path: str, text: str, tree: ast.Module) -> Sequence[Copy]:
        return _copies(project, SourceFile(path, text, "utf-8", tree, None), tree, codes=job.codes)

    others = Others(project, copies_in)
    analysed = {} if job.strict_codes else {source.text: seen}  # with those the text was looked at for other mistakes
    repairer = Repairer(
        job.path, job.file, fixing.options, fixing.most, copies_of_text, findings_in, keeps_form, others, analysed
    )
    change: Change | None = None
    text = source.text
    if fixing.make:
        repaired = repairer.repair(text, tree)
        fixed, after = repaired.fixed, outcome
        if fixed:
            text, tree = repaired.text, parse(repaired.text)
            copies = copies_of_text(text, tree)
            after = _outcome(job, text, tree, copies, text.encode(source.encoding))
        while idle := _one_a_line(one for one in after.findings if one.code == UNUSED and one.fix is not None):
            text = without_comments(text, idle)
            tree = parse(text)
            after = _outcome(job, text, tree, copies_of_text(text, tree), text.encode(source.encoding))
            fixed = (*fixed, *(made(job.path, finding) for finding in idle))
        if fixed:
            change = Change(data, text.encode(source.encoding), source.text, text, fixed)
            outcome = after
    proposals = repairer.proposals(text, tree)
    return msgspec.structs.replace(
        outcome,
        findings=with_fixes(outcome.findings, proposals.fixes),
        refusals=proposals.refusals,
        change=change,
    )


def _written_back(source: SourceFile) -> bytes | None:
    """The bytes of the text, if its encoding can make any: some only read."""
    try:
        return source.text.encode(source.encoding, "surrogatepass")
    except UnicodeError:
        return None


# --- notebooks ----------------------------------------------------------------------------------------------------


def _look_at_notebook(project: Project, job: Job, data: bytes) -> Outcome:
    """The same for a notebook: its cells are looked at as one module, and what is found is carried over to the file."""
    from h2dlint.notebooks.document import NotANotebookError
    from h2dlint.notebooks.module import opened

    try:
        module = opened(data)
    except NotANotebookError as error:
        return not_analysed(job, Problem(error.line, str(error)))
    if job.changes is not None:
        from h2dlint.notebooks.places import Carrier

        job = msgspec.structs.replace(job, changes=Carrier(job.path, module).changes(job.changes))
    text = module.text.encode("utf-8", "surrogatepass")
    source = SourceFile(job.path, module.text, "utf-8", *parsed(module.text))
    outcome = _look_at_module(project, job, source, text, lambda changed: module.sources(changed) is not None)
    try:
        return _carried_over(job, module, data, outcome)
    except Exception as error:
        return _failed(job, error, module.notebook.text)


def _carried_over(job: Job, module: CellModule, data: bytes, outcome: Outcome) -> Outcome:
    from h2dlint.notebooks.places import Carrier

    before = Carrier(job.path, module)
    change = outcome.change
    after = Carrier(job.path, module, change.new_text) if change else before
    if change is not None:
        change = Change(
            before=data,
            after=after.file_bytes(data),
            old_text=before.file_text,
            new_text=after.file_text,
            fixed=tuple(map(before.fixed, change.fixed)),
        )
    wanted = job.inventory or NOT_ANALYSED in job.codes
    broken = tuple(_cell_not_analysed(job, after, cell) for cell in after.broken_cells() if wanted)
    findings = (*map(after.finding, outcome.findings), *broken)
    return msgspec.structs.replace(
        outcome,
        findings=tuple(sorted(findings, key=lambda finding: (finding.span.line, finding.span.column, finding.code))),
        unproven=tuple(map(after.finding, outcome.unproven)),
        suppressed=tuple(map(after.finding, outcome.suppressed)),
        copies=tuple(map(after.copy, outcome.copies)),
        text=after.file_text if outcome.text or broken or outcome.copies else "",
        refusals=after.refusals(outcome.refusals),
        change=change,
    )


def _cell_not_analysed(job: Job, carrier: Carrier, cell: Broken) -> Finding:
    message = f"this cell was not analysed: {cell.message}"
    span = carrier.in_cell(cell.cell, cell.line)
    return _not_analysed(job, span, message, "mend the cell; the other cells were analysed")


# --- findings -----------------------------------------------------------------------------------------------------


def _all_rules() -> Sequence[Rule]:
    from h2dlint.rules import all_rules

    return all_rules()


def _findings(text: str, tree: ast.Module, copies: Sequence[Copy], rules: Sequence[Rule], job: Job) -> list[Finding]:
    unproven = [copy for copy in copies if copy.verdict is Verdict.UNPROVEN and not copy.pitfall]
    shown = [copy for copy in unproven if job.show_unproven or _is_strict(job, copy.function)]
    told = [copy for copy in copies if _is_told(copy)]
    worth = [*told, *(copy for copy in shown if not _is_told(copy))]
    counted = [copy for copy in unproven if not (job.show_unproven or _is_strict(job, copy.function))]
    found: list[Finding] = []
    if worth and rules:
        from h2dlint.regions import visit

        found += visit(text, tree, worth, rules)
    found += _hidden_notes([copy for copy in counted if not _is_told(copy)], rules)
    return sorted(found, key=_position)


def _is_told(copy: Copy) -> bool:
    """Whether something is wrong with it, whatever is shown."""
    return bool(copy.pitfall or copy.follows is not None or copy.hazards or copy.verdict in _REPORTED)


def _hidden_notes(copies: Sequence[Copy], rules: Sequence[Rule]) -> list[Finding]:
    # Only counted, so their wording needs no syntax tree.
    return [
        finding for rule in rules if rule.meta.code == UNPROVEN for copy in copies for finding in rule.check(copy, None)
    ]


def _is_strict(job: Job, function: str) -> bool:
    return job.strict or job.strict_area.holds(function)


def _placed(findings: Iterable[Finding], job: Job) -> list[Finding]:
    """The findings as the place they are in wants them: opt-in rules where they run, errors where all is strict."""
    placed: list[Finding] = []
    for finding in findings:
        strict = _is_strict(job, finding.function)
        opted_in = finding.code in job.strict_codes and job.strict_area.holds(finding.function)
        if finding.code not in job.codes and not opted_in:
            continue
        severity = Severity.ERROR if opted_in or (strict and finding.code == UNPROVEN) else finding.severity
        hot = job.hot_area.holds(finding.function)
        if severity is not finding.severity or hot:
            finding = msgspec.structs.replace(finding, severity=severity, hot=hot)
        placed.append(finding)
    return placed


_MEND = "mend the file, or leave it out with `exclude`"
_NEWER = "if it is newer syntax than Python {}.{} has, run h2dlint on a newer one".format(*sys.version_info)


def not_analysed(job: Job, problem: Problem, text: str = "", help: str = _MEND) -> Outcome:
    """The outcome of a file that could not be analysed: a finding that says why, unless its rule is ignored."""
    if not job.inventory and NOT_ANALYSED not in job.codes:
        return Outcome(job.path, too_deep=problem.deep)
    span = Span(problem.line, 1, problem.line, 1)
    message = f"this file was not analysed: {problem.message}"
    finding = _not_analysed(job, span, message, help)
    if job.changes is not None and not job.changes.touch(job.path):
        return Outcome(job.path, too_deep=problem.deep)
    sifted = sift([finding], job.accepted, text)
    return Outcome(job.path, findings=sifted.kept, accepted=sifted.taken, text=text, too_deep=problem.deep)


def failed(job: Job, problem: Problem, text: str = "", help: str = _MEND) -> Outcome:
    """The same, where another try may go better."""
    return msgspec.structs.replace(not_analysed(job, problem, text, help), passing=True)


def too_large(job: Job, size: int, most: int) -> Outcome:
    """The outcome of a file that is skipped because of its size: a note."""
    problem = Problem(1, f"it has {size / 1e6:,.1f} MB, and `max-file-bytes` lets {most / 1e6:,.1f} MB be read")
    outcome = not_analysed(job, problem, help="raise `max-file-bytes`, or leave the file out with `exclude`")
    notes = (msgspec.structs.replace(finding, severity=Severity.NOTE) for finding in outcome.findings)
    return msgspec.structs.replace(outcome, findings=tuple(notes))


def _not_analysed(job: Job, span: Span, message: str, help: str) -> Finding:
    meta = next(rule.meta for rule in _all_rules() if rule.meta.code == NOT_ANALYSED)
    return Finding(
        code=meta.code,
        name=meta.name,
        severity=meta.severity,
        path=job.path,
        span=span,
        message=message,
        help=help,
        verdict=None,
    )
