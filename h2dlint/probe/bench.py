"""What the measurements share: one trial behind queued work, repetitions, loops, and how far a measurement has come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import TypeVar

from msgspec import Struct

from h2dlint.probe.forms_table import Form
from h2dlint.probe.gpu import Gpu, Issue
from h2dlint.probe.spread import Spread, spread_of

RUNS = 3
WARM_UP_STEPS = 3

Tick = Callable[[float], None]
"""Takes the share of a measurement that is done, from 0 to 1."""

_Item = TypeVar("_Item")


class Loop(Struct, frozen=True):
    """How a loop of steps went, each with some work for the GPU and one issue of a form."""

    total: float
    """Milliseconds until the host had issued everything."""
    step: float
    """Milliseconds that the host spent in one step's copies: the median over the steps."""


class Bench:
    """A GPU, and whoever wants to know how far the present measurement is."""

    def __init__(self, gpu: Gpu, tick: Tick = lambda share: None) -> None:
        self.gpu = gpu
        self.tick = tick

    def each(self, items: Sequence[_Item], upto: float = 1.0) -> Iterator[_Item]:
        """The items one by one, telling after each how far it is; `upto` is the share that they are of the whole."""
        for number, item in enumerate(items, 1):
            yield item
            self.tick(upto * number / len(items))

    def fitting(self, sizes: Sequence[int], tensors: int = 4) -> list[int]:
        """The sizes in bytes for which there is room, so many times over."""
        room = self.gpu.room()
        return [size for size in sizes if size * tensors <= room]

    def held(self, form: Form, queued: float, runs: int = RUNS) -> Spread:
        """Milliseconds that one issue holds the host behind `queued` milliseconds of work."""
        issue = self.gpu.prepare(form)
        return spread_of([held_once(self.gpu, issue, queued) for _ in range(runs)])

    def loops(self, form: Form, steps: int, work: float, runs: int = RUNS, forgetting: bool = False) -> list[Loop]:
        """Repetitions of a loop; with `forgetting` each begins with no page-locked memory kept by torch."""
        issue = self.gpu.prepare(form)
        if not forgetting:
            run_loop(self.gpu, issue, steps, work)  # fills torch's cache of page-locked blocks
        found = []
        for _ in range(runs):
            if forgetting:
                self.gpu.finish()
                self.gpu.forget_pinned()
            found.append(run_loop(self.gpu, issue, steps, work))
        return found


def held_once(gpu: Gpu, issue: Issue, queued: float) -> float:
    """One trial: queue work, issue, and see how long the call took."""
    gpu.finish()
    if queued:
        gpu.work(queued)
    start = gpu.now()
    issue()
    took = gpu.now() - start
    gpu.finish()
    return took


def run_loop(gpu: Gpu, issue: Issue, steps: int, work: float) -> Loop:
    """One loop of steps."""
    gpu.finish()
    costs = []
    start = gpu.now()
    for _ in range(steps):
        gpu.work(work)
        before = gpu.now()
        issue()
        costs.append(gpu.now() - before)
    total = gpu.now() - start
    gpu.finish()
    return Loop(total, median(costs))


def totals(loops: Sequence[Loop]) -> Spread:
    """How long the loops held the host."""
    return spread_of([one.total for one in loops])


def step_cost(loops: Sequence[Loop]) -> float:
    """What a step's copies cost in these loops."""
    return median(one.step for one in loops)
