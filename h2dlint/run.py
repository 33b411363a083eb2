"""Many files: in this process or in several, results in the order of the files, and a crash costs one file only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import structs

from h2dlint.engine import Job, Outcome, look_at, not_analysed
from h2dlint.source import Problem

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

    from h2dlint.facts.options import FactOptions
    from h2dlint.facts.project import Project

WORTH_A_POOL = 8
"""From this many files on, starting processes pays: each must load the analyser first."""

_QUEUED_A_WORKER = 2
_GRACE = 5
"""Seconds in which a worker that is told to stop may finish what it is handing over."""

Done = Callable[[int], None]


def run(jobs: Sequence[Job], processes: int, done: Done | None = None) -> list[Outcome]:
    """The outcome of each job, in their order. `done` hears how many are finished, from time to time.

    With more than one process, a worker that dies takes down only the file it was busy with.
    """
    done = done or _say_nothing
    processes = min(processes, len(jobs))
    if processes <= 1 or len(jobs) < WORTH_A_POOL:
        return list(_run_here(jobs, done))
    return _run_apart(jobs, processes, done)


def _say_nothing(count: int) -> None:
    pass


def _run_here(jobs: Sequence[Job], done: Done) -> Iterator[Outcome]:
    import gc

    # Syntax trees are many objects without cycles: looking for garbage costs a fifth of the time, and finds none.
    collecting = gc.isenabled()
    gc.disable()
    try:
        for count, job in enumerate(jobs):
            done(count)
            yield work(job)
    finally:
        if collecting:
            gc.freeze()  # what is there now stays to the end: no later search for garbage need look at it
            gc.enable()


@lru_cache(maxsize=8)
def _project(options: FactOptions) -> Project:
    from h2dlint.facts.project import Project

    return Project(options)


def work(job: Job) -> Outcome:
    """Does one job with this process's project for its settings, which remembers the modules of earlier jobs."""
    project = _project(job.facts)
    reads = project.reads
    outcome = look_at(project, job)
    return structs.replace(outcome, read=tuple(project.files_read(reads))) if job.verbose else outcome


# --- several processes --------------------------------------------------------------------------------------------


def _run_apart(jobs: Sequence[Job], processes: int, done: Done) -> list[Outcome]:
    _project(jobs[0].facts)  # loaded once, for every process forked from this one
    outcomes: dict[int, Outcome] = {}
    waiting = list(range(len(jobs)))
    while waiting:
        before = len(outcomes)
        suspects = _run_pool(jobs, waiting, processes, outcomes, done)
        # A worker died, and took the pool with it: whatever was under way is done again, each file on its own.
        for index in suspects:
            outcomes[index] = _run_alone(jobs[index])
        if len(outcomes) == before:  # no process can be started: do it here
            outcomes.update(zip(waiting, _run_here([jobs[index] for index in waiting], done), strict=True))
        waiting = [index for index in waiting if index not in outcomes]
    return [outcomes[index] for index in range(len(jobs))]


def _run_pool(
    jobs: Sequence[Job], waiting: Sequence[int], processes: int, outcomes: dict[int, Outcome], done: Done
) -> list[int]:
    """Runs the jobs `waiting` in a pool until all are done or a worker dies; answers which were under way then."""
    from concurrent.futures import FIRST_COMPLETED, wait
    from concurrent.futures.process import BrokenProcessPool

    running: dict[Future[Outcome], int] = {}
    rest = iter(waiting)
    with _pool(processes) as pool:
        try:
            while True:
                for index in rest:
                    running[pool.submit(_work_unless_stopped, jobs[index])] = index
                    if len(running) >= processes * _QUEUED_A_WORKER:
                        break
                if not running:
                    return []
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    outcomes[running[future]] = future.result()
                    del running[future]
                done(len(outcomes))
        except BrokenProcessPool:
            # The job handed over while the pool broke is in no list: the caller finds it among those without outcome.
            return list(running.values())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop_workers()
            raise


def _run_alone(job: Job) -> Outcome:
    from concurrent.futures.process import BrokenProcessPool

    with _pool(1) as pool:
        try:
            return pool.submit(work, job).result()
        except BrokenProcessPool:
            return not_analysed(job, Problem(1, "the analyser crashed on it"))


def _pool(processes: int) -> ProcessPoolExecutor:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # A forked worker has everything loaded that this process has; elsewhere than on Linux forking is not safe.
    context = get_context("fork" if sys.platform == "linux" else "spawn")
    return ProcessPoolExecutor(processes, mp_context=context, initializer=_prepare_worker)


def _prepare_worker() -> None:
    import gc
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent answers, and stops its workers
    signal.signal(signal.SIGTERM, _stop)
    gc.disable()


class _Stopped(BaseException):
    """The answer to a job that is no longer wanted."""


class _Worker:
    """What this process is doing, as a worker."""

    busy = False
    stopped = False


def _work_unless_stopped(job: Job) -> Outcome:
    if _Worker.stopped:
        raise _Stopped
    _Worker.busy = True
    try:
        return work(job)
    finally:
        _Worker.busy = False


def _stop(number: int, frame: object) -> None:
    # A worker that dies while it hands over a result leaves half of it in the pipe, and the pool waits for the rest
    # for ever. So only the job is broken off; the worker itself ends when the pool tells it, or, with no pool left to
    # tell it, after a while.
    if sys.platform != "win32":
        import signal

        signal.alarm(_GRACE)
    _Worker.stopped = True
    if _Worker.busy:
        raise _Stopped


def stop_workers() -> None:
    """Has the processes of the pool drop what they are busy with: it is no longer wanted."""
    from multiprocessing import active_children

    if sys.platform != "win32":  # there it could only be the process, not the job
        for child in active_children():
            child.terminate()
