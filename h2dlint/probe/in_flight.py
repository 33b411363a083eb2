"""How many copies fit in flight before one holds the host?"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from h2dlint.probe.bench import RUNS, Bench
from h2dlint.probe.forms_table import UPLOADS
from h2dlint.probe.gpu import Gpu, Issue
from h2dlint.probe.results import Answer, Measured, Point
from h2dlint.probe.search import boundary, first_that
from h2dlint.probe.spread import spread_of
from h2dlint.probe.units import size_text

NAME = "in-flight"
TITLE = "Copies in flight before one waits"
QUEUED = 200.0
"""Long enough to issue the limit of copies behind it."""
LIMIT = 3000
KIB = 1024
SIZES = tuple(n * KIB for n in (1, 4, 8, 12, 16, 32, 64, 128, 512, 1024))
PINNED_SIZES = (4 * KIB, 64 * KIB, 1024 * KIB)
STEP = 512
"""Bytes to which the boundary is narrowed down."""


class Fits(Struct, frozen=True):
    """How many copies returned early."""

    copies: int
    at_least: bool
    """Whether none waited as far as was looked."""


def measure(bench: Bench) -> Measured:
    """Pageable and pinned uploads by size, and the size from which only a few fit."""
    grid = [("pageable", size) for size in SIZES] + [("pinned", size) for size in PINNED_SIZES]
    points = [_point(bench, name, size) for name, size in bench.each(grid, upto=0.8)]
    pageable = [point for point in points if point.form == "pageable"]
    pinned = [point for point in points if point.form == "pinned"]
    return Measured(
        NAME,
        TITLE,
        f"The host issues copies of one size behind {QUEUED:g} ms of work, up to {LIMIT:,}, until a call takes more "
        "than half of what is still queued.",
        "bytes",
        "copies",
        tuple(points),
        (*_counts(pageable, pinned), _edge(bench, pageable)),
    )


def fits(gpu: Gpu, issue: Issue, queued: float = QUEUED, limit: int = LIMIT) -> Fits:
    """Issues until one call waits; stops when the queue is about to run dry, since nothing waits for an empty one."""
    gpu.finish()
    gpu.work(queued)
    start = gpu.now()
    for number in range(limit):
        before = gpu.now()
        issue()
        after = gpu.now()
        if after - before > (start + queued - before) / 2:
            return Fits(number, at_least=False)
        if after - start > 0.7 * queued:
            return Fits(number + 1, at_least=True)
    return Fits(limit, at_least=True)


def _point(bench: Bench, name: str, size: int) -> Point:
    form = UPLOADS[name].of(name, size)
    issue = bench.gpu.prepare(form)
    found = [fits(bench.gpu, issue) for _ in range(RUNS)]
    value = spread_of([float(one.copies) for one in found])
    return Point(name, form.label, form.kind, size, value, at_least=sum(one.at_least for one in found) * 2 > RUNS)


def _edge(bench: Bench, points: list[Point]) -> Answer:
    """The largest size, to STEP bytes, of which more copies fit than of the largest ones, if those wait at all."""
    fewest = points[-1].value.median
    sizes = [int(point.x or 0) for point in points]
    place = first_that(lambda size: points[sizes.index(size)].value.median <= fewest, sizes)
    found = None
    if place and not points[-1].at_least:

        def few(size: int) -> bool:
            return fits(bench.gpu, bench.gpu.prepare(UPLOADS["pageable"].of("pageable", size))).copies <= fewest

        found = boundary(few, sizes[place - 1], sizes[place], STEP)[0]
    text = f"the largest pageable copy of which more fit in flight than of those of {size_text(SIZES[-1])}"
    return Answer("few_fit_above", text, "bytes", found, rules=64 * KIB)


_QUOTED = ((8 * KIB, 490), (64 * KIB, 61), (SIZES[-1], 2))
"""Bytes, and how many copies of them fit according to the rules' figures."""


def _counts(pageable: list[Point], pinned: list[Point]) -> Iterator[Answer]:
    """How many fit, for the sizes that the rules quote."""
    for size, rules in _QUOTED:
        point = next(point for point in pageable if point.x == size)
        text = f"pageable copies of {size_text(size)} that fit in flight"
        yield Answer(f"in_flight_{size}", text, "copies", point.value.median, point.at_least, rules)
    fewest = min(pinned, key=lambda point: point.value.median)
    text = "pinned copies that fit in flight, the fewest of any size"
    yield Answer("in_flight_pinned", text, "copies", fewest.value.median, fewest.at_least, 1021)
