"""The measurements in the order in which they are made."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from h2dlint.probe import (
    downloads,
    in_flight,
    pin_cost,
    queue_depth,
    row_counts,
    serving_loop,
    single_copy,
    waiting_forms,
)
from h2dlint.probe.bench import Bench
from h2dlint.probe.results import Measured


class Measurement(Struct, frozen=True):
    """One measurement."""

    name: str
    seconds: float
    """How long it takes on an H200, for the progress bar."""
    measure: Callable[[Bench], Measured]


MEASUREMENTS = (
    Measurement("single-copy", single_copy.SECONDS, single_copy.measure),
    Measurement("in-flight", in_flight.SECONDS, in_flight.measure),
    Measurement("queue-depth", queue_depth.SECONDS, queue_depth.measure),
    Measurement("pin-cost", pin_cost.SECONDS, pin_cost.measure),
    Measurement("row-counts", row_counts.SECONDS, row_counts.measure),
    Measurement("loop-tensors", serving_loop.SECONDS, serving_loop.measure_tensors),
    Measurement("loop-slices", serving_loop.SECONDS, serving_loop.measure_slices),
    Measurement("loop-ids", serving_loop.SECONDS / 2, serving_loop.measure_ids),
    Measurement("waits", waiting_forms.SECONDS, waiting_forms.measure),
    Measurement("downloads", downloads.SECONDS, downloads.measure),
)
