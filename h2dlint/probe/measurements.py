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
    Measurement(single_copy.NAME, 4.0, single_copy.measure),
    Measurement(in_flight.NAME, 9.0, in_flight.measure),
    Measurement(queue_depth.NAME, 2.0, queue_depth.measure),
    Measurement(pin_cost.NAME, 4.0, pin_cost.measure),
    Measurement(row_counts.NAME, 18.0, row_counts.measure),
    Measurement(serving_loop.TENSORS_NAME, 19.0, serving_loop.measure_tensors),
    Measurement(serving_loop.SLICES_NAME, 14.0, serving_loop.measure_slices),
    Measurement(serving_loop.IDS_NAME, 5.0, serving_loop.measure_ids),
    Measurement(waiting_forms.NAME, 3.0, waiting_forms.measure),
    Measurement(downloads.NAME, 1.5, downloads.measure),
)
