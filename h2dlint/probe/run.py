"""All measurements, one after the other; one that fails costs itself."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from h2dlint.probe.bench import Bench
from h2dlint.probe.gpu import Gpu
from h2dlint.probe.measurements import Measurement
from h2dlint.probe.results import LeftOut, Machine, Measured, Results

Progress = Callable[[str, float], None]
"""Takes the name of the measurement under way and the expected seconds that are behind us."""


def run_all(gpu: Gpu, machine: Machine, measurements: Sequence[Measurement], progress: Progress) -> Results:
    """Makes the measurements."""
    began = time.monotonic()
    done: list[Measured] = []
    left_out: list[LeftOut] = []
    behind = 0.0
    with _no_garbage_collection():
        for one in measurements:
            progress(one.name, behind)
            try:
                gpu.calibrate()
                start = time.monotonic()
                measured = one.measure(Bench(gpu, _ticker(progress, one, behind)))
                done.append(replace(measured, seconds=round(time.monotonic() - start, 1)))
            except (RuntimeError, MemoryError) as error:  # out of memory among them
                left_out.append(LeftOut(one.name, first_line(error)))
            behind += one.seconds
            gc.collect()
    progress("", behind)
    return Results(machine, round(time.monotonic() - began, 1), tuple(done), tuple(left_out))


def first_line(error: BaseException) -> str:
    """What went wrong, without the advice that CUDA appends."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _ticker(progress: Progress, one: Measurement, behind: float) -> Callable[[float], None]:
    return lambda share: progress(one.name, behind + share * one.seconds)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A collection in the middle of a trial would look like a copy that waits."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
