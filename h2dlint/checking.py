"""From path arguments to a report or an inventory: discovery, settings, the look at the bytes, the run."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from h2dlint.areas import area_of, names_file
from h2dlint.config import Config, Configs, Selection, without
from h2dlint.discovery import (
    DEFAULT_EXCLUDES,
    TORCH,
    Patterns,
    TooLarge,
    absolute,
    display_path,
    has_needle,
    left_out,
    most_bytes,
    python_files,
    read_bytes,
)
from h2dlint.engine import NOT_ANALYSED, UNUSED, Fixing, Job, Outcome, failed, too_large
from h2dlint.facts.copies import Copy
from h2dlint.finding import Applicability, Finding, Needle, Severity
from h2dlint.groups import Groups
from h2dlint.notebooks import is_notebook
from h2dlint.report import Report
from h2dlint.run import run, work
from h2dlint.source import Problem

if TYPE_CHECKING:
    from h2dlint.accepted import Accepted
    from h2dlint.baseline import Baseline
    from h2dlint.cache.session import Cache
    from h2dlint.changes import Changes
    from h2dlint.facts.options import FactOptions
    from h2dlint.observing import Observations
    from h2dlint.trace.trace_file import Trace

Done = Callable[[int, int], None]
"""Hears how many files are done, and how many there are."""


class Fixes(Struct, frozen=True):
    """What the command line says about rewrites."""

    make: bool = False
    unsafe: bool = False
    """Also those that may change a value or raise where the original did not."""
    write: bool = False
    """Write the files; otherwise the changes are only reported."""


class Options(Struct, frozen=True):
    """What the command line says about a run."""

    exclude: tuple[str, ...] = ()
    """Globs, relative to the working directory, on top of those in the settings."""
    selection: Selection = Selection()
    strict: bool = False
    show_unproven: bool = False
    processes: int = 1
    verbose: bool = False
    fixes: Fixes | None = None
    """What to do about rewrites; None: look for none."""
    baseline: str | None = None
    """The file of known findings, instead of the one that the settings name."""
    all_known: bool = False
    """Report known findings too: somebody is about to write them down."""
    since: str | None = None
    """A git revision: report only what rests on a line that changed since."""
    affected: bool = False
    """Look at the files too whose facts came from the given ones."""
    force_exclude: bool = False
    """Leave out what the excludes say even if it is named."""
    trace: Trace | None = None
    """What a run of the program has shown, to hold the findings against."""
    cache: bool = False
    """Use the results of earlier runs, and keep those of this one."""
    stdin: bytes | None = None
    """What to look at instead of the one file that is named, which need not exist."""


def check_paths(paths: Sequence[str], configs: Configs, options: Options, done: Done) -> Report:
    """Checks every Python file under `paths`, and fixes it if `options` say so.

    Files are written when all of them have been looked at: an interrupted run has changed none, or some as a whole.

    Raises:
        Missing: a path does not exist.
        ConfigError: a settings file cannot be used.
    """
    start = time.perf_counter()
    plan = _Plan(configs, options, inventory=False)
    outcomes = _carry_out(plan, paths, options, done)
    if options.affected:
        given = plan.seen - plan.dependents
        outcomes = [one for one in outcomes if plan.file_of(one) in given or not one.uses.isdisjoint(given)]
    left_alone: dict[str, str] = {}
    if options.fixes is not None:
        outcomes, together = _across_files(plan, outcomes, options.fixes)
        if options.fixes.write:
            outcomes = _written(plan, outcomes, together, left_alone)
    findings = tuple(finding for outcome in outcomes for finding in outcome.findings)
    changes = {outcome.path: outcome.change for outcome in outcomes if outcome.change is not None}
    return Report(
        findings=findings,
        unproven=tuple(finding for outcome in outcomes for finding in outcome.unproven),
        sources={outcome.path: outcome.text for outcome in outcomes if outcome.text},
        files_checked=len(outcomes),
        files_seen=plan.files_seen,
        suppressed=sum(len(outcome.suppressed) for outcome in outcomes),
        seconds=time.perf_counter() - start,
        strict=plan.strict,
        fixed=tuple(sorted((one for change in changes.values() for one in change.fixed), key=lambda one: one.path)),
        refusals={
            (outcome.path, span, code): reason
            for outcome in outcomes
            for (span, code), reason in outcome.refusals.items()
        },
        changes={path: (change.old_text, change.new_text) for path, change in changes.items()},
        rewritten={path: change.after for path, change in changes.items()},
        left_alone=left_alone,
        stale=tuple(plan.stale),
        untraced=options.trace is not None and not plan.traced,
        accepted=sum(one.count for outcome in outcomes for one in outcome.accepted),
        gone=plan.gone(outcomes),
        seen=frozenset(plan.seen),
        dependents=sum(plan.file_of(outcome) in plan.dependents for outcome in outcomes),
        read_beyond=plan.read_beyond(outcomes),
    )


def _across_files(plan: _Plan, outcomes: list[Outcome], fixes: Fixes) -> tuple[list[Outcome], Groups]:
    """The outcomes with the fixes made that change another file than their finding's, where that file was given too."""
    if not any(finding.fix and finding.fix.elsewhere for outcome in outcomes for finding in outcome.findings):
        return outcomes, Groups()
    from h2dlint.across import Across

    jobs = {os.path.abspath(job.file): job for job in plan.jobs_by_path.values()}
    across = Across(outcomes, jobs, plan.seen - plan.dependents)
    if fixes.make:
        across.make(Applicability.UNSAFE if fixes.unsafe else Applicability.SAFE)
    return across.outcomes(), across.groups


def _written(plan: _Plan, outcomes: list[Outcome], together: Groups, left_alone: dict[str, str]) -> list[Outcome]:
    """Writes the changed files, those of one fix all or none; the outcomes, without fixes where a file must be left
    alone.
    """
    from h2dlint.apply import NotWrittenError, write_files

    by_path = {outcome.path: outcome for outcome in outcomes}
    again: set[str] = set()
    for group in together.of(outcome.path for outcome in outcomes if outcome.change is not None):
        changes = {path: by_path[path].change for path in group if path in by_path}
        pairs = [
            (plan.jobs_by_path[path].file, change.before, change.after)
            for path, change in changes.items()
            if change is not None
        ]
        try:
            write_files(pairs)
        except NotWrittenError as reason:
            left_alone.update({path: str(reason) for path, change in changes.items() if change is not None})
            again |= set(group)
    return [
        work(msgspec.structs.replace(plan.jobs_by_path[outcome.path], fixing=None))
        if outcome.path in again
        else outcome
        for outcome in outcomes
    ]


def add_ignores(report: Report, paths: Sequence[str], configs: Configs, options: Options, reason: str) -> Report:
    """Writes a suppressing comment for each error and warning of the report; the report of what is left then."""
    from h2dlint.apply import NotWrittenError, write_file
    from h2dlint.ignoring import encoded_with_ignores
    from h2dlint.notebooks.ignoring import notebook_with_ignores

    by_path: dict[str, list[Finding]] = {}
    for finding in report.findings:
        if finding.severity is not Severity.NOTE and finding.code not in (UNUSED, NOT_ANALYSED):
            by_path.setdefault(finding.path, []).append(finding)
    left_alone: dict[str, str] = {}
    for path, findings in by_path.items():
        try:
            before = read_bytes(path)
            if is_notebook(path):
                after_bytes = notebook_with_ignores(before, path, findings, reason)
            else:
                after_bytes = encoded_with_ignores(before, findings, reason)
            write_file(path, before, after_bytes)
        except (NotWrittenError, OSError, ValueError) as error:
            left_alone[path] = str(error)
    after = check_paths(paths, configs, msgspec.structs.replace(options, fixes=None), lambda done, total: None)
    return msgspec.structs.replace(after, left_alone=left_alone)


class Inventory(Struct, frozen=True):
    """Every copy of a run."""

    copies: tuple[Copy, ...]
    problems: tuple[Finding, ...]
    """A finding for each file, or cell of a notebook, that could not be analysed."""
    sources: Mapping[str, str]
    """The texts of the notebooks, by path."""
    read_beyond: int = 0
    """Modules that were read only for what they define, in a verbose run."""


def inventory_of(paths: Sequence[str], configs: Configs, options: Options, done: Done) -> Inventory:
    """Every copy in the Python files under `paths`.

    Raises as `check_paths` does.
    """
    plan = _Plan(configs, options, inventory=True)
    outcomes = _carry_out(plan, paths, options, done)
    return Inventory(
        tuple(copy for outcome in outcomes for copy in outcome.copies),
        tuple(finding for outcome in outcomes for finding in outcome.findings),
        {outcome.path: outcome.text for outcome in outcomes if outcome.text and is_notebook(outcome.path)},
        plan.read_beyond(outcomes),
    )


def _carry_out(plan: _Plan, paths: Sequence[str], options: Options, done: Done) -> list[Outcome]:
    """What came of each file that holds something to look at, by path."""
    outcomes: list[Outcome] = []
    jobs: list[Job] = []
    for job in plan.jobs(paths):
        found = plan.cache.recall(job) if plan.cache is not None and isinstance(job, Job) else None
        (outcomes if found or isinstance(job, Outcome) else jobs).append(found or job)  # type: ignore[arg-type]
    if options.verbose:
        _tell(f"{len(jobs)} of {plan.files_seen} files to look at")
        for job in jobs:
            _tell(job.path)
    cache = plan.cache
    if cache is not None:
        cache.release()
    new = run(jobs, options.processes, lambda count: done(count, len(jobs)))
    if cache is not None:
        cache.keep(zip(jobs, new, strict=True))
        cache.close()
    if options.verbose:
        for note in (note for outcome in sorted(new, key=lambda outcome: outcome.path) for note in outcome.notes):
            _tell(note)
    outcomes += new
    return sorted(outcomes, key=lambda outcome: outcome.path)


def _tell(text: str) -> None:
    from h2dlint.output.terminal import harmless

    print(f"h2dlint: {harmless(text)}", file=sys.stderr)


class _Settings(Struct, frozen=True):
    """What one settings file says, made ready for its files."""

    codes: tuple[str, ...]
    strict_codes: tuple[str, ...]
    ignores: tuple[tuple[Patterns, tuple[str, ...]], ...]
    """Codes that are not reported in the files that a glob names."""
    facts: FactOptions
    plain: bool
    """Whether they are the same for all files, so that one with nothing to look at need not be thought of further."""


def cache_folder(configs: Configs, paths: Sequence[str]) -> tuple[str, str]:
    """Where the results of a run over these paths are kept, and the root of the project that they are about."""
    from h2dlint.cache.folder import FOLDER, project_root

    first = paths[0] if paths else os.curdir
    root = project_root(first)
    config = configs.for_folder(first if os.path.isdir(first) else os.path.dirname(first) or os.curdir)
    named = config.cache_dir
    return (os.path.join(root, FOLDER) if named is None else os.path.join(config.folder, named)), root


def opened_cache(configs: Configs, paths: Sequence[str], verbose: bool) -> Cache | None:
    """The stored results for a run over these paths."""

    def say(text: str) -> None:
        if verbose:
            _tell(text)

    try:
        from h2dlint.cache.session import Cache
    except ImportError as error:  # a Python without SQLite
        say(f"the cache is not used: {error}")
        return None
    return Cache(*cache_folder(configs, paths), say)


def changes_of(options: Options) -> Changes | None:
    """What changed since the revision that the options name. Raises ConfigError where that cannot be told."""
    if options.since is None:
        return None
    from h2dlint.changes import changes_since

    return changes_since(options.since)


def observations_in(options: Options) -> Observations | None:
    """What the options' trace saw, by file."""
    if options.trace is None:
        return None
    from h2dlint.observing import observations_of

    return observations_of(options.trace)


class _Plan:
    """What to do with each file found."""

    def __init__(self, configs: Configs, options: Options, inventory: bool) -> None:
        self.files_seen = 0
        self.strict = options.strict
        self.jobs_by_path: dict[str, Job] = {}
        self._configs = configs
        self._options = options
        self._inventory = inventory
        self._settings: dict[str, _Settings] = {}
        self._configs_by_folder: dict[str, Config] = {}
        self._needles: dict[tuple[str, ...], tuple[Needle, ...]] = {}
        self.seen: set[str] = set()
        """The absolute paths of all files found."""
        self.dependents: set[str] = set()
        """Those of them that were not given, but may depend on one that was."""
        self._baselines: dict[str, Baseline] = {}
        self._changes = changes_of(options)
        self._observations = observations_in(options)
        self.stale: list[str] = []
        """Files that have changed since the trace, as shown."""
        self.traced = False
        """Whether any file is one of the trace's."""
        self.cache: Cache | None = None

    def jobs(self, paths: Sequence[str]) -> Iterator[Job | Outcome]:
        """A job for each file that holds something to look at; an outcome at once for one that cannot be read."""
        excluded = excluder(self._configs, self._options.exclude)
        if self._options.cache and self._options.trace is None:
            self.cache = opened_cache(self._configs, paths, self._options.verbose)
        for file in self._files(paths, excluded):
            self.files_seen += 1
            self.seen.add(absolute(file))
            yield from self._job_for(file)
        if self._options.affected and self.seen:
            from h2dlint.dependents import dependents_of

            self.dependents = set(dependents_of(self.seen, excluded, self._root_of))
            self.seen |= self.dependents
            for file in sorted(self.dependents):
                yield from self._job_for(file)

    def _job_for(self, file: str) -> Iterator[Job | Outcome]:
        config = self._config_of(file)
        settings = self._settings_of(config)
        self.strict = self.strict or config.strict
        if settings.plain and not self._may_hold_something(file, settings.codes):
            return
        job = self._job(file, config)
        self.jobs_by_path[job.path] = job
        codes = (*job.codes, *job.strict_codes)
        try:
            job = self._with_seen(job)
            if job.seen:
                yield job
            elif self._holds_any(file, codes):
                without_comments = tuple(code for code in codes if code != UNUSED)
                copies = self._inventory or self._holds_any(file, without_comments)
                yield job if copies else msgspec.structs.replace(job, copies=False)
        except OSError as error:
            yield failed(job, Problem(1, f"cannot be read: {error.strerror or error}"))
        except TooLarge as error:
            yield too_large(job, error.size, error.most)

    def _may_hold_something(self, file: str, codes: tuple[str, ...]) -> bool:
        """Whether a closer look is worth it, which takes more than the look at the bytes."""
        try:
            return self._holds_any(file, codes)
        except (OSError, TooLarge):
            return True

    def _holds_any(self, file: str, codes: tuple[str, ...]) -> bool:
        """Whether the file holds anything for the rules with these codes. Raises as `read_bytes` does."""
        needles = self._needles_of(codes)
        data = self._data_of(file)
        if data is not None:
            return has_needle(data, needles, file)
        most = most_bytes(file, self._config_of(file).max_file_bytes)
        if self.cache is not None:
            return self.cache.holds_any(file, needles, most)
        return has_needle(read_bytes(file, most), needles, file)

    def _data_of(self, file: str) -> bytes | None:
        """What to look at instead of the file."""
        return None if file in self.dependents else self._options.stdin

    def _config_of(self, file: str) -> Config:
        end = file.rfind("/") if os.sep == "/" else -1
        folder = file[:end] if end > 0 else os.path.dirname(file) or os.curdir
        config = self._configs_by_folder.get(folder)
        if config is None:
            config = self._configs_by_folder[folder] = self._configs.for_folder(folder)
        return config

    def _with_seen(self, job: Job) -> Job:
        """The job with what the trace saw in its file, unless other bytes ran than are there now."""
        if self._observations is None or is_notebook(job.file):
            return job
        data = read_bytes(job.file) if job.data is None else job.data
        file = os.path.abspath(job.file)
        self.traced = self.traced or file in self._observations.digests
        if self._observations.is_stale(file, data):
            self.stale.append(job.path)
            return job
        return msgspec.structs.replace(job, seen=self._observations.in_file(file))

    def _files(self, paths: Sequence[str], excluded: Callable[[str, str], bool]) -> Iterator[str]:
        if self._options.stdin is None:
            yield from python_files(paths, excluded, self._options.force_exclude)
        elif not (self._options.force_exclude and left_out(paths[0], excluded)):
            yield paths[0]

    def _job(self, file: str, config: Config) -> Job:
        settings = self._settings_of(config)
        strict = self._options.strict or config.strict
        ignored = [
            code for patterns, codes in settings.ignores if names_file(patterns, file, config.folder) for code in codes
        ]
        area = area_of(config.strict_paths, file, config.folder)
        return Job(
            file=file,
            path=display_path(file),
            codes=() if self._inventory else without(settings.codes, ignored),
            strict=strict,
            strict_area=area,
            strict_codes=without(settings.strict_codes, ignored) if area and not self._inventory else (),
            hot_area=area_of(config.hot_functions, file, config.folder),
            facts=settings.facts,
            accepted=self._accepted(file, config),
            changes=self._changes,
            want_grounds=self.cache is not None,
            want_uses=self._options.affected,
            show_unproven=self._options.show_unproven,
            inventory=self._inventory,
            verbose=self._options.verbose,
            fixing=self._fixing(config, file),
            data=self._data_of(file),
        )

    def _fixing(self, config: Config, file: str) -> Fixing | None:
        fixes = self._options.fixes
        if fixes is None or self._inventory:
            return None
        most = Applicability.UNSAFE if fixes.unsafe else Applicability.SAFE
        return Fixing(config.fix_options(), most, fixes.make and absolute(file) not in self.dependents)

    def _settings_of(self, config: Config) -> _Settings:
        found = self._settings.get(config.file)
        if found is None:
            ignores = config.per_file_ignores.items()
            by_file = config.per_file_ignores or config.strict_paths or config.baseline or self._options.baseline
            # What ran somewhere is a finding of a file that may hold nothing; so may be what a fix changes.
            every = self._observations is not None or (self._options.fixes is not None and self._options.fixes.make)
            found = self._settings[config.file] = _Settings(
                codes=self._options.selection.codes(config),
                strict_codes=self._options.selection.strict_codes(config) if config.strict_paths else (),
                ignores=tuple((Patterns([glob], config.folder), codes) for glob, codes in ignores),
                facts=config.fact_options(),
                plain=not (by_file or every),
            )
        return found

    def _root_of(self, file: str) -> str:
        return self._settings_of(self._config_of(file)).facts.root

    # Known findings

    def _accepted(self, file: str, config: Config) -> tuple[Accepted, ...]:
        baseline = self._baseline_of(config)
        return baseline.of(file) if baseline is not None else ()

    def _baseline_of(self, config: Config) -> Baseline | None:
        if self._inventory or self._options.all_known:
            return None
        file = self._options.baseline
        if file is None and config.baseline is not None:
            file = os.path.join(config.folder, config.baseline)
        if file is None:
            return None
        if file not in self._baselines:
            from h2dlint.baseline import read

            self._baselines[file] = read(file, regular=self._options.baseline is None)
        return self._baselines[file]

    def file_of(self, outcome: Outcome) -> str:
        """The absolute path of the file that an outcome is about."""
        job = self.jobs_by_path.get(outcome.path)
        return os.path.abspath(job.file if job is not None else outcome.path)

    def read_beyond(self, outcomes: Sequence[Outcome]) -> int:
        """How many modules were read that are none of the files which the outcomes are about."""
        looked_at = {self.file_of(outcome) for outcome in outcomes}
        return len({file for outcome in outcomes for file in outcome.read} - looked_at)

    def gone(self, outcomes: Sequence[Outcome]) -> int:
        """How many known findings are no more."""
        if not self._baselines or self._changes is not None:
            return 0
        from h2dlint.baseline import gone

        taken = {self.file_of(outcome): outcome.accepted for outcome in outcomes}
        codes = {code for settings in self._settings.values() for code in settings.codes}
        return sum(gone(baseline, self.seen, taken, codes) for baseline in self._baselines.values())

    def _needles_of(self, codes: tuple[str, ...]) -> tuple[Needle, ...]:
        if self._inventory:
            return TORCH
        if codes not in self._needles:
            self._needles[codes] = needles_of(codes)
        return self._needles[codes]


def needles_of(codes: Iterable[str]) -> tuple[Needle, ...]:
    """What a file must hold to be worth parsing for the rules with these codes."""
    from h2dlint.rules import all_rules

    wanted = set(codes)
    needles = (needle for rule in all_rules() if rule.meta.code in wanted for needle in rule.meta.needles)
    return tuple(dict.fromkeys(needles))


def excluder(configs: Configs, extra: Sequence[str]) -> Callable[[str, str], bool]:
    """Whether an entry of a folder is to be left out, by the folder's settings and by globs from the command line."""
    from_options = Patterns(extra, os.getcwd())
    from_settings: dict[str, Patterns] = {}

    by_folder: dict[str, Patterns] = {}

    def excluded(folder: str, name: str) -> bool:
        patterns = by_folder.get(folder)
        if patterns is None:
            config = configs.for_folder(folder)
            patterns = from_settings.get(config.file)
            if patterns is None:
                globs = (*(DEFAULT_EXCLUDES if config.exclude is None else config.exclude), *config.extend_exclude)
                patterns = from_settings[config.file] = Patterns(globs, config.folder)
            by_folder[folder] = patterns
        return patterns.match(folder, name) or from_options.match(folder, name)

    return excluded
