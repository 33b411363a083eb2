"""One copy behind a deep queue: from which size on does it hold the host?"""

from __future__ import annotations

from h2dlint.probe.bench import Bench
from h2dlint.probe.forms_table import UPLOADS
from h2dlint.probe.results import Answer, Measured, Point
from h2dlint.probe.search import boundary, first_that

NAME = "single-copy"
TITLE = "One copy behind 40 ms of work"
QUEUED = 40.0
SIZES = tuple(1 << power for power in (10, 13, 16, 17, 18, 19, 20, 21, 22, 23, 25))
STEP = 1024
"""Bytes to which the threshold is narrowed down."""


def measure(bench: Bench) -> Measured:
    """Pageable and pinned uploads of 1 KiB to 32 MiB, and the size up to which a pageable one does not wait."""
    sizes = bench.fitting(SIZES)
    grid = [(name, size) for name in UPLOADS for size in sizes]
    points = []
    for name, size in bench.each(grid, upto=0.8):
        form = UPLOADS[name].of(name, size)
        points.append(Point(name, form.label, form.kind, size, bench.held(form, QUEUED)))
    pageable = {point.x: point.value.median for point in points if point.form == "pageable"}
    first = first_that(lambda size: _waited(pageable[size]), sizes)
    threshold = None
    if first:

        def waits(size: int) -> bool:
            return _waited(bench.held(UPLOADS["pageable"].of("pageable", size), QUEUED).median)

        threshold = boundary(waits, sizes[first - 1], sizes[first], STEP)[0]
    text = "the largest pageable copy that does not wait, with nothing else in flight"
    return Measured(
        NAME,
        TITLE,
        "How long the call held the host. A copy that is asynchronous costs microseconds; one that waits costs what is "
        "queued.",
        "bytes",
        "ms",
        tuple(points),
        (
            Answer(
                "single_copy_up_to", text, "bytes", sizes[-1] if first is None else threshold, first is None, 2 << 20
            ),
        ),
    )


def _waited(milliseconds: float) -> bool:
    return milliseconds > QUEUED / 2
