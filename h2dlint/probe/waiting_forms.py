"""Forms in which nobody asks for `non_blocking`: which of them hold the host?"""

from __future__ import annotations

from h2dlint.probe.bench import Bench
from h2dlint.probe.forms_table import waiting_forms
from h2dlint.probe.results import Answer, Measured, Point

NAME = "waits"
TITLE = "What waits without being asked"
QUEUED = 20.0


def measure(bench: Bench) -> Measured:
    """Each form behind work, and whether it behaves as the rules say."""
    said = waiting_forms()
    points = []
    for form, waits in bench.each(said):
        value = bench.held(form, QUEUED)
        points.append(Point(form.name, form.label, form.kind, None, value, waits=value.median > QUEUED / 2, said=waits))
    alike = sum(point.waits == point.said for point in points)
    return Measured(
        NAME,
        TITLE,
        f"How long each form held the host behind {QUEUED:g} ms of work. It waits if that is more than half.",
        None,
        "ms",
        tuple(points),
        (Answer("waits_as_said", "forms that wait, or do not, as the rules say", "forms", alike, rules=len(said)),),
    )
