"""Repeated measurements of one quantity: the median, and how far the repetitions lie apart."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from msgspec import Struct


class Spread(Struct, frozen=True):
    """Repetitions of one measurement, in the unit of whoever holds it."""

    median: float
    low: float
    high: float
    runs: int

    @property
    def wide(self) -> bool:
        """Whether the repetitions differ by more than a fifth of the median: one figure would tell too little."""
        return self.high - self.low > 0.2 * abs(self.median)


def spread_of(values: Sequence[float]) -> Spread:
    """The spread of at least one value.

    Raises:
        ValueError: there is none.
    """
    if not values:
        raise ValueError("no values")
    return Spread(median(values), min(values), max(values), len(values))
