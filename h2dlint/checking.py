"""From path arguments to a report or an inventory: discovery, settings, the look at the bytes, the run."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from h2dlint.config import Config, Configs, Selection
from h2dlint.discovery import (
    DEFAULT_EXCLUDES,
    TORCH,
    Patterns,
    display_path,
    has_needle,
    python_files,
    read_bytes,
)
from h2dlint.engine import Fixing, Job, Outcome, not_analysed
from h2dlint.facts.copies import Copy
from h2dlint.finding import Applicability, Finding
from h2dlint.report import Report
from h2dlint.run import run, work
from h2dlint.source import Problem

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
    left_alone: dict[str, str] = {}
    if options.fixes is not None and options.fixes.write:
        outcomes = [_written(plan, outcome, left_alone) for outcome in outcomes]
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
        fixed=tuple(fixed for change in changes.values() for fixed in change.fixed),
        refusals={
            (outcome.path, span, code): reason
            for outcome in outcomes
            for (span, code), reason in outcome.refusals.items()
        },
        changes={path: (change.old_text, change.new_text) for path, change in changes.items()},
        left_alone=left_alone,
    )


def _written(plan: _Plan, outcome: Outcome, left_alone: dict[str, str]) -> Outcome:
    """Writes the changed file; the outcome without fixes, if it must be left alone."""
    if outcome.change is None:
        return outcome
    from h2dlint.apply import NotWrittenError, write_file

    job = plan.jobs_by_path[outcome.path]
    try:
        write_file(job.file, outcome.change.before, outcome.change.after)
    except NotWrittenError as reason:
        left_alone[outcome.path] = str(reason)
        return work(msgspec.structs.replace(job, fixing=None))
    return outcome


def inventory_of(
    paths: Sequence[str], configs: Configs, options: Options, done: Done
) -> tuple[list[Copy], list[Finding]]:
    """Every copy in the Python files under `paths`, and a finding for each file that could not be analysed.

    Raises as `check_paths` does.
    """
    plan = _Plan(configs, options, inventory=True)
    outcomes = _carry_out(plan, paths, options, done)
    return (
        [copy for outcome in outcomes for copy in outcome.copies],
        [finding for outcome in outcomes for finding in outcome.findings],
    )


def _carry_out(plan: _Plan, paths: Sequence[str], options: Options, done: Done) -> list[Outcome]:
    """What came of each file that holds something to look at, by path."""
    outcomes: list[Outcome] = []
    jobs: list[Job] = []
    for job in plan.jobs(paths):
        (outcomes if isinstance(job, Outcome) else jobs).append(job)  # type: ignore[arg-type]
    if options.verbose:
        print(f"h2dlint: {len(jobs)} of {plan.files_seen} files to look at", file=sys.stderr)
        for job in jobs:
            print(f"h2dlint: {job.path}", file=sys.stderr)
    outcomes += run(jobs, options.processes, lambda count: done(count, len(jobs)))
    return sorted(outcomes, key=lambda outcome: outcome.path)


class _Plan:
    """What to do with each file found."""

    def __init__(self, configs: Configs, options: Options, inventory: bool) -> None:
        self.files_seen = 0
        self.strict = options.strict
        self.jobs_by_path: dict[str, Job] = {}
        self._configs = configs
        self._options = options
        self._inventory = inventory
        self._codes: dict[Config, tuple[str, ...]] = {}
        self._needles: dict[tuple[str, ...], tuple[bytes, ...]] = {}

    def jobs(self, paths: Sequence[str]) -> Iterator[Job | Outcome]:
        """A job for each file that holds something to look at; an outcome at once for one that cannot be read."""
        for file in python_files(paths, excluder(self._configs, self._options.exclude)):
            self.files_seen += 1
            job = self._job(file)
            try:
                data = read_bytes(file)
            except OSError as error:
                yield not_analysed(job, Problem(1, f"cannot be read: {error.strerror or error}"))
                continue
            if has_needle(data, self._needles_of(job.codes)):
                self.jobs_by_path[job.path] = job
                yield job

    def _job(self, file: str) -> Job:
        config = self._configs.for_folder(os.path.dirname(file) or os.curdir)
        strict = self._options.strict or config.strict
        self.strict = self.strict or strict
        return Job(
            file=file,
            path=display_path(file),
            codes=() if self._inventory else self._codes_of(config),
            strict=strict,
            show_unproven=self._options.show_unproven,
            inventory=self._inventory,
            verbose=self._options.verbose,
            fixing=self._fixing(config),
        )

    def _fixing(self, config: Config) -> Fixing | None:
        fixes = self._options.fixes
        if fixes is None or self._inventory:
            return None
        return Fixing(config.fix_options(), Applicability.UNSAFE if fixes.unsafe else Applicability.SAFE, fixes.make)

    def _codes_of(self, config: Config) -> tuple[str, ...]:
        if config not in self._codes:
            self._codes[config] = self._options.selection.codes(config)
        return self._codes[config]

    def _needles_of(self, codes: tuple[str, ...]) -> tuple[bytes, ...]:
        if self._inventory:
            return TORCH
        if codes not in self._needles:
            self._needles[codes] = needles_of(codes)
        return self._needles[codes]


def needles_of(codes: Iterable[str]) -> tuple[bytes, ...]:
    """What a file must hold to be worth parsing for the rules with these codes."""
    from h2dlint.rules import all_rules

    wanted = set(codes)
    needles = (needle for rule in all_rules() if rule.meta.code in wanted for needle in rule.meta.needles)
    return tuple(dict.fromkeys(needles))


def excluder(configs: Configs, extra: Sequence[str]) -> Callable[[str, str], bool]:
    """Whether an entry of a folder is to be left out, by the folder's settings and by globs from the command line."""
    from_options = Patterns(extra, os.getcwd())
    from_settings: dict[Config, Patterns] = {}

    def excluded(folder: str, name: str) -> bool:
        config = configs.for_folder(folder)
        patterns = from_settings.get(config)
        if patterns is None:
            globs = (*(DEFAULT_EXCLUDES if config.exclude is None else config.exclude), *config.extend_exclude)
            patterns = from_settings[config] = Patterns(globs, config.folder)
        return patterns.match(folder, name) or from_options.match(folder, name)

    return excluded
