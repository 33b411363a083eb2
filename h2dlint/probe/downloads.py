"""Copies from the device: which hold the host, and from which size on?"""

from __future__ import annotations

from h2dlint.probe.bench import Bench
from h2dlint.probe.forms_table import DOWNLOADS
from h2dlint.probe.results import Answer, Measured, Point

NAME = "downloads"
TITLE = "From the device to the host, behind 20 ms of work"
QUEUED = 20.0
SIZES = (256, 64 << 10, 1 << 20, 16 << 20)


def measure(bench: Bench) -> Measured:
    """Each form of a download, by size."""
    grid = [(name, size) for name in DOWNLOADS for size in bench.fitting(SIZES)]
    points = []
    for name, size in bench.each(grid):
        form = DOWNLOADS[name].of(name, size)
        value = bench.held(form, QUEUED)
        points.append(Point(name, form.label, form.kind, size, value, waits=value.median > QUEUED / 2))
    smallest = min((point.x or 0 for point in points if point.form == "into-pageable" and point.waits), default=None)
    text = "the smallest download into pageable memory that was tried and waits"
    return Measured(
        NAME,
        TITLE,
        "How long the call held the host. All but `.cpu()` ask for `non_blocking=True`.",
        "bytes",
        "ms",
        tuple(points),
        (Answer("download_waits_from", text, "bytes", smallest, rules=256),),
    )
