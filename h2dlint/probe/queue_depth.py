"""What a call that waits costs: as much as is queued."""

from __future__ import annotations

from statistics import median

from h2dlint.probe.bench import RUNS, Bench
from h2dlint.probe.forms_table import UPLOADS, Form
from h2dlint.probe.results import Answer, Measured, Point
from h2dlint.probe.spread import spread_of

NAME = "queue-depth"
TITLE = "What a copy that waits costs"
QUEUES = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
SIZE = 256 * 1024
COPIES = 4


def measure(bench: Bench) -> Measured:
    """The slowest of a few copies behind ever deeper queues."""
    points = []
    for name, queued in bench.each([(name, queued) for name in UPLOADS for queued in QUEUES]):
        form = UPLOADS[name].of(name, SIZE)
        value = spread_of([_slowest(bench, form, queued) for _ in range(RUNS)])
        points.append(Point(name, form.label, form.kind, queued, value))
    ratio = median(point.value.median / (point.x or 1.0) for point in points if point.form == "pageable")
    return Measured(
        NAME,
        TITLE,
        f"The slowest of {COPIES} copies of 256 KiB that are issued one after the other behind so much work.",
        "ms",
        "ms",
        tuple(points),
        (
            Answer(
                "blocked_per_queued", "what a copy that waits costs, as a share of the queue", "ratio", ratio, rules=1.1
            ),
        ),
    )


def _slowest(bench: Bench, form: Form, queued: float) -> float:
    gpu = bench.gpu
    issue = gpu.prepare(form)
    gpu.finish()
    gpu.work(queued)
    took = []
    for _ in range(COPIES):
        start = gpu.now()
        issue()
        took.append(gpu.now() - start)
    gpu.finish()
    return max(took)
