"""A call stack in one piece: a loop of calls costs the same at any depth."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from h2dlint.call_stack import in_one_piece

DEPTHS = range(40, 260)
CALLS = 50


def leaf() -> None:
    pass


def call_in_a_loop(depth: int) -> None:
    if depth:
        call_in_a_loop(depth - 1)
    else:
        for _ in range(CALLS):
            leaf()


def faults_of(work: Callable[[int], None]) -> int:
    """The pages that were asked of the system, at the depth where these are the most."""
    import resource

    most = 0
    for depth in DEPTHS:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        work(depth)
        most = max(most, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return most


@pytest.mark.skipif(sys.platform != "linux", reason="counts the page faults of Linux")
def test_calls_in_a_loop_take_no_memory_from_the_system_at_any_depth() -> None:
    work = in_one_piece(call_in_a_loop)
    work(DEPTHS[-1])
    assert faults_of(work) < CALLS // 2


@pytest.mark.skipif(sys.version_info < (3, 11) or sys.platform != "linux", reason="frames lie in chunks since 3.11")
def test_without_it_there_is_a_depth_at_which_each_call_takes_some() -> None:
    assert faults_of(call_in_a_loop) >= CALLS


def test_the_function_stays_what_it_is() -> None:
    @in_one_piece
    def described(number: int, *, by: int = 2) -> int:
        """What it does."""
        return number * by

    assert described.__name__ == "described"
    assert described.__doc__ == "What it does."
    assert described(4) == 8
    assert described(4, by=3) == 12
    with pytest.raises(ZeroDivisionError):
        in_one_piece(lambda: 1 // 0)()
