"""Many files: in this process or in several, results in the order of the files, and a crash costs one file only.

Processes are started and talked to here rather than by a pool of the standard library: that one is broken as a whole
when a worker dies, and a worker that is stopped while it hands over a result leaves its queue locked.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from msgspec import structs

from h2dlint.call_stack import in_one_piece
from h2dlint.engine import Job, Outcome, failed, look_at, new_project
from h2dlint.room import NoRoomError, with_room
from h2dlint.source import Problem

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess

    from h2dlint.facts.options import FactOptions
    from h2dlint.facts.project import Project

WORTH_A_PROCESS = 8
"""So many files for each process at least: each must load the analyser first, and reads what others have read."""

START_METHOD = "H2DLINT_START_METHOD"
"""An environment variable that says how processes are started: `fork`, `spawn` or `forkserver`."""

CRASHED = "the process that analysed it died"
CRASH_HELP = "run `h2dlint check -j 1` on this file alone to see how; leave it out with `exclude`, and please report it"

_MOST_AT_ONCE = 6
"""Files that lie next to each other go to one process: they read the same modules."""

Done = Callable[[int], None]
Answer = TypeVar("Answer")


def run(jobs: Sequence[Job], processes: int, done: Done | None = None) -> list[Outcome]:
    """The outcome of each job, in their order. `done` hears how many are finished, from time to time.

    With more than one process, a worker that dies takes down only the file it was busy with.
    """
    done = done or _say_nothing
    processes = min(processes, len(jobs) // WORTH_A_PROCESS)
    if processes > 1:
        try:
            return _Crew(jobs, processes, done).outcomes()
        except _CannotStart:
            pass
    return _deeply(lambda: _run_here(jobs, done))


def _deeply(work: Callable[[], Answer]) -> Answer:
    """What `work` answers, with room for facts that hang on each other in a long row, where the system grants it: with
    less a file is given up half way, and looked at once more with room for it alone.
    """
    try:
        return with_room(work)
    except NoRoomError:
        return work()


def _say_nothing(count: int) -> None:
    pass


def _run_here(jobs: Sequence[Job], done: Done) -> list[Outcome]:
    import gc

    # Syntax trees are many objects without cycles: looking for garbage costs a fifth of the time, and finds none.
    collecting = gc.isenabled()
    gc.disable()
    outcomes: dict[int, Outcome] = {}
    try:
        for count, number in enumerate(_largest_first(jobs)):
            done(count)
            outcomes[number] = work(jobs[number])
        return [outcomes[number] for number in range(len(jobs))]
    finally:
        if collecting:
            gc.freeze()  # what is there now stays to the end: no later search for garbage need look at it
            gc.enable()


def _largest_first(jobs: Sequence[Job]) -> list[int]:
    """The numbers of the jobs. Large files are asked about most by others: once they were looked at themselves, less of
    them is looked at twice.
    """
    sizes = [_size(job) for job in jobs]
    return sorted(range(len(jobs)), key=lambda number: -sizes[number])


MOST_BLOCKS = 8_000_000
"""How many pieces of memory, of some 100 bytes each, a process fills before it forgets what it has read."""


JOBS_BY_THE_COUNT = 8
"""So many files pass between two counts."""


class _Memory:
    """This process's project for some settings: it remembers the modules of earlier jobs while there is room."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._most = _blocks() + MOST_BLOCKS
        self._jobs = 0

    def make_room(self) -> None:
        """Forgets what was read if that is a lot, as if another process went on from here. To count takes a while."""
        self._jobs += 1
        if self._jobs % JOBS_BY_THE_COUNT == 0 and _blocks() > self._most:
            import gc

            self.project = self.project.afresh()
            gc.collect()
            self._most = _blocks() + MOST_BLOCKS


def _blocks() -> int:
    count = getattr(sys, "getallocatedblocks", None)
    return count() if count is not None else 0


def _memory(job: Job) -> _Memory:
    return _memory_for(job.facts, job.want_grounds)


@lru_cache(maxsize=8)
def _memory_for(facts: FactOptions, want_grounds: bool) -> _Memory:
    return _Memory(new_project(facts, want_grounds))


@in_one_piece
def work(job: Job) -> Outcome:
    """Does one job with this process's project for its settings, which remembers the modules of earlier jobs."""
    memory = _memory(job)
    project = memory.project
    reads = project.reads
    outcome = look_at(project, job)
    if job.verbose:
        outcome = structs.replace(outcome, read=tuple(project.files_read(reads)))
    memory.make_room()
    return outcome


# --- several processes --------------------------------------------------------------------------------------------


class _CannotStart(Exception):
    """No process could be started."""


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Ctrl-C comes afterwards: a process that is just starting would answer it with a traceback."""
    _mask_interrupts(True)
    try:
        yield
    finally:
        _mask_interrupts(False)


def _mask_interrupts(masked: bool) -> None:
    import signal

    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_BLOCK if masked else signal.SIG_UNBLOCK, {signal.SIGINT})


class _Worker:
    """A process, and the pipe to it. It does one job after the other, and knows no others."""

    def __init__(self, context: BaseContext, others: Sequence[_Worker]) -> None:
        from multiprocessing import resource_tracker

        self.connection, theirs = context.Pipe()
        # What a forked process inherits it must close: the end of a pipe is seen only when nobody holds it open.
        inherited = [self.connection, *(other.connection for other in others)] if _forks(context) else []
        try:
            self.process: BaseProcess = context.Process(  # type: ignore[attr-defined]
                target=_serve, args=(theirs, inherited), daemon=True
            )
            if not _forks(context) and sys.platform != "win32":
                # Started in between, the standard library's tracker would let interrupts through again.
                resource_tracker.ensure_running()
            with _interrupts_held_back():
                self.process.start()
        except (OSError, RuntimeError) as error:
            raise _CannotStart from error
        finally:
            theirs.close()
        self.segment = 0
        """Which part of the jobs it works on."""
        self.waiting: deque[int] = deque()
        """What it was given and has not answered, the one it is busy with first."""

    def give(self, numbers: Sequence[int], jobs: Sequence[Job]) -> bool:
        """Hands over jobs; False where the process is no more.

        Only to one that has nothing to do: it listens, while one that is handing over a result would not.
        """
        self.waiting.extend(numbers)
        try:
            self.connection.send(tuple(jobs[number] for number in numbers))
        except OSError:
            return False
        return True

    def end(self) -> None:
        """Stops the process, whatever it does."""
        self.connection.close()
        if self.process.is_alive():
            self.process.kill()
        self.process.join()


class _Crew:
    """The workers of one run."""

    def __init__(self, jobs: Sequence[Job], processes: int, done: Done) -> None:
        self._jobs = jobs
        self._done = done
        self._context = _context()
        self._outcomes: dict[int, Outcome] = {}
        self._rest = _segments(jobs, processes)
        """What is left for each worker: portions, in order."""
        self._suspects: deque[int] = deque()
        """Jobs that were under way when their process died: each gets a process of its own."""
        self._workers: list[_Worker] = []
        self._processes = processes

    def outcomes(self) -> list[Outcome]:
        """Runs everything. Raises _CannotStart if nothing could be."""
        if _forks(self._context):
            _load(self._jobs[0])  # once, for every process forked from this one
        try:
            for segment in range(self._processes):
                self._hire(segment)
            while self._workers:
                self._hear()
                self._done(len(self._outcomes))
            for number in self._suspects:
                self._outcomes[number] = self._alone(number)
        finally:
            for worker in self._workers:
                worker.end()
        return [self._outcomes[number] for number in range(len(self._jobs))]

    def _hire(self, segment: int) -> None:
        worker = _Worker(self._context, self._workers)
        worker.segment = segment
        self._workers.append(worker)
        self._feed(worker)

    def _feed(self, worker: _Worker) -> None:
        """Gives a worker its next portion, the last of whoever has most left when its own are done, or its leave."""
        own = self._rest[worker.segment]
        fullest = max(self._rest, key=len)
        if not fullest:
            self._dismiss(worker)
            return
        if not worker.give(own.popleft() if own else fullest.pop(), self._jobs):
            self._bury(worker)

    def _hear(self) -> None:
        """Takes in what the workers answer."""
        from multiprocessing.connection import wait

        by_connection: dict[object, _Worker] = {worker.connection: worker for worker in self._workers}
        for connection in wait(list(by_connection)):  # type: ignore[arg-type]
            worker = by_connection[connection]
            try:
                outcome = worker.connection.recv()
            except (EOFError, OSError):
                self._bury(worker)
                continue
            self._outcomes[worker.waiting.popleft()] = outcome
            if not worker.waiting:
                self._feed(worker)

    def _dismiss(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.connection.close()
        worker.process.join()

    def _bury(self, worker: _Worker) -> None:
        """A worker died: what it was busy with is suspect, what it had not begun goes to others."""
        self._workers.remove(worker)
        worker.end()
        if worker.waiting:
            self._suspects.append(worker.waiting.popleft())
        if worker.waiting:
            self._rest[worker.segment].appendleft(tuple(worker.waiting))
        if any(self._rest):
            self._hire(worker.segment)

    def _alone(self, number: int) -> Outcome:
        """A job in a process of its own; what is said of the file if that dies too."""
        worker = _Worker(self._context, ())
        try:
            worker.give((number,), self._jobs)
            outcome: Outcome = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join()
            return failed(
                self._jobs[number], Problem(1, f"{CRASHED}{_cause(worker.process.exitcode)}"), help=CRASH_HELP
            )
        finally:
            worker.end()
        return outcome


def _segments(jobs: Sequence[Job], processes: int) -> list[deque[tuple[int, ...]]]:
    """The numbers of the jobs in portions, and these in as many parts as there are processes.

    What lies together reads the same modules. A part has about the same number of bytes as any other and, like each of
    its portions, begins with the largest file.
    """
    segments: list[deque[tuple[int, ...]]] = [deque() for _ in range(processes)]
    sizes = [_size(job) for job in jobs]
    total, before = sum(sizes) or 1, 0
    for chunk in _chunks(jobs, processes):
        largest_first = tuple(sorted(chunk, key=lambda number: -sizes[number]))
        segments[min(before * processes // total, processes - 1)].append(largest_first)
        before += sum(sizes[number] for number in chunk)
    for number, segment in enumerate(segments):
        segments[number] = deque(sorted(segment, key=lambda chunk: -sizes[chunk[0]]))
    return segments


def _chunks(jobs: Sequence[Job], processes: int) -> Iterator[tuple[int, ...]]:
    """The numbers of the jobs in portions, those of one folder together where that is not too much for one process."""
    most = max(1, min(_MOST_AT_ONCE, len(jobs) // (processes * 4)))
    chunk: list[int] = []
    for number, job in enumerate(jobs):
        if chunk and (len(chunk) == most or os.path.dirname(jobs[chunk[-1]].file) != os.path.dirname(job.file)):
            yield tuple(chunk)
            chunk = []
        chunk.append(number)
    if chunk:
        yield tuple(chunk)


def _size(job: Job) -> int:
    try:
        return os.path.getsize(job.file)
    except OSError:
        return 0


def _cause(status: int | None) -> str:
    """Why a process ended, as far as its status tells."""
    if status is None or status >= 0:
        return f" with status {status}" if status else ""
    import signal

    try:
        return f" of {signal.Signals(-status).name}"
    except ValueError:
        return f" of signal {-status}"


def _context() -> BaseContext:
    from multiprocessing import get_all_start_methods, get_context

    # A forked worker has everything loaded that this process has; elsewhere than on Linux forking is not safe.
    wanted = os.environ.get(START_METHOD) or ("fork" if sys.platform == "linux" else "spawn")
    return get_context(wanted if wanted in get_all_start_methods() else None)


def _forks(context: BaseContext) -> bool:
    return context.get_start_method() == "fork"


def _load(job: Job) -> None:
    from h2dlint.rules import all_rules

    _memory(job)
    all_rules()


def _serve(connection: Connection, inherited: Sequence[Connection]) -> None:
    """What a worker does: answers jobs until nobody asks any more."""
    import gc
    import signal

    for other in inherited:
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent answers, and stops its workers
    _mask_interrupts(False)
    gc.disable()
    _deeply(lambda: _answer(connection))


def _answer(connection: Connection) -> None:
    try:
        while True:
            for job in connection.recv():
                connection.send(work(job))
    except (EOFError, OSError):  # the parent has what it wanted, or is gone
        pass
