"""Where along a line of sizes something begins to be so: few trials, each of which costs time on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def first_that(holds: Callable[[int], bool], sizes: Sequence[int]) -> int | None:
    """The position of the first size for which it holds; None if it holds for none. Sizes ascend."""
    return next((place for place, size in enumerate(sizes) if holds(size)), None)


def boundary(holds: Callable[[int], bool], below: int, above: int, step: int) -> tuple[int, int]:
    """Narrows an interval at whose lower end it does not hold and at whose upper end it does.

    Args:
        holds: is asked for sizes between the two ends, a multiple of `step` above the lower one.
        below: a size for which it does not hold.
        above: a larger size for which it does.
        step: how narrow the interval has to be.

    Returns:
        Both ends of an interval that is at most `step` wide.
    """
    while above - below > step:
        middle = below + max(1, (above - below) // (2 * step)) * step
        if holds(middle):
            above = middle
        else:
            below = middle
    return below, above
