"""What pinning costs the host: the first time for a size, and from torch's cache."""

from __future__ import annotations

from h2dlint.probe.bench import RUNS, Bench, held_once
from h2dlint.probe.forms_table import PINNING
from h2dlint.probe.results import Answer, Measured, Point
from h2dlint.probe.spread import Spread, spread_of
from h2dlint.probe.units import size_text

NAME = "pin-cost"
TITLE = "What pinning costs"
SIZES = tuple(1 << power for power in (10, 16, 20, 24, 28))
CACHED_RUNS = 9


def measure(bench: Bench) -> Measured:
    """`.pin_memory()` with and without a block in torch's cache, beside `.clone()`, with nothing queued."""
    points = []
    for size in bench.each(bench.fitting(SIZES)):
        points.append(_point("pin-first", "`.pin_memory()`, the first of its size", "first", size, _first(bench, size)))
        points.append(
            _point("pin-cached", "`.pin_memory()`, a block is cached", "snapshot", size, _again(bench, "pin", size))
        )
        points.append(_point("clone", "`.clone()`", "host", size, _again(bench, "clone", size)))
    return Measured(
        NAME,
        TITLE,
        "How long the host takes, with nothing queued. torch keeps page-locked blocks, rounded up to a power of "
        "two; the first of a size has to be allocated and locked.",
        "bytes",
        "ms",
        tuple(points),
        tuple(_answers(points)),
    )


def _first(bench: Bench, size: int) -> Spread:
    issue = bench.gpu.prepare(PINNING["pin"].of("pin", size))
    took = []
    for _ in range(RUNS):
        bench.gpu.forget_pinned()
        took.append(held_once(bench.gpu, issue, 0))
    return spread_of(took)


def _again(bench: Bench, name: str, size: int) -> Spread:
    return bench.held(PINNING[name].of(name, size), 0, CACHED_RUNS)


def _point(name: str, label: str, kind: str, size: int, value: Spread) -> Point:
    return Point(name, label, kind, size, value)


_QUOTED = (("pin-cached", 10, 0.009), ("pin-cached", 16, 0.017), ("pin-first", 10, 0.05), ("pin-first", 28, 174.0))
"""Form, power of two of the size, and milliseconds that the rules' documentation quotes."""


def _answers(points: list[Point]) -> list[Answer]:
    value = {(point.form, point.x): point for point in points}
    return [
        Answer(f"{form}_{size}", f"{point.label}, {size_text(size)}", "ms", point.value.median, rules=quoted)
        for form, power, quoted in _QUOTED
        if (point := value.get((form, size := 1 << power)))
    ]
