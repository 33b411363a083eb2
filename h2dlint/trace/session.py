"""A recording in the process at hand: from the hooks to a trace."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from h2dlint.facts.copies import Direction, Verdict
from h2dlint.trace.hooks import leave, listen
from h2dlint.trace.recorder import Recorder, trace_of
from h2dlint.trace.trace_file import Seen, Trace, write


class Recording:
    """What a block of code copied, so far or in the end."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._start = time.perf_counter()
        self._end: float | None = None

    @property
    def trace(self) -> Trace:
        """Everything that was recorded."""
        seconds = (self._end or time.perf_counter()) - self._start
        return trace_of([self._recorder.part()], seconds, os.getcwd())

    @property
    def fake_async(self) -> tuple[Seen, ...]:
        """The copies that asked to be asynchronous and were not, the costliest first; not those that are allowed."""
        return tuple(one for one in self.trace.copies if one.verdict is Verdict.FAKE_ASYNC and not one.allowed)

    @property
    def waits(self) -> tuple[Seen, ...]:
        """Those, and the transfers that never asked, such as `.item()`: everything that may have stopped the host."""
        return tuple(one for one in self.trace.copies if one.waits and not one.allowed)

    @property
    def accelerator_used(self) -> bool:
        """Whether anything could be seen at all: a copy crossed, or torch has initialised an accelerator."""
        crossed = (Direction.H2D, Direction.D2H, Direction.D2D)
        return bool(self.trace.accelerators) or any(one.direction in crossed for one in self.trace.copies)

    def write(self, file: str) -> None:
        """Writes the trace, for `h2dlint check --trace`. Raises TraceError where that fails."""
        write(self.trace, file)

    def stop(self) -> None:
        """Notes that the block has ended."""
        self._end = time.perf_counter()


@contextmanager
def recording() -> Iterator[Recording]:
    """Listens while the block runs, in every thread. Raises ImportError without torch."""
    recorder = Recorder()
    listen(recorder)
    made = Recording(recorder)
    try:
        yield made
    finally:
        leave(recorder)
        made.stop()
