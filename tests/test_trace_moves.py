"""What one copy came to, from the facts of both sides: the pure core of `h2dlint trace`."""

from __future__ import annotations

import pytest

from h2dlint.facts.copies import Cause, Direction, Verdict
from h2dlint.trace.moves import Lie, Move, Ruling, goes_as_it_lies, gravest, is_broadcast, ruling, staged

UP, DOWN = Direction.H2D, Direction.D2H

RULINGS: dict[str, tuple[Move, Ruling]] = {
    "an upload from pageable memory": (Move(UP, 99, asked=True), Ruling(Verdict.FAKE_ASYNC, (Cause.PAGEABLE,))),
    "an upload from pinned memory": (Move(UP, 99, asked=True, pinned=True), Ruling(Verdict.ASYNC)),
    "an upload from pinned memory with gaps": (
        Move(UP, 99, asked=True, pinned=True, dense=False),
        Ruling(Verdict.FAKE_ASYNC, (Cause.GAPPED,)),
    ),
    "an upload that is spread over its destination": (
        Move(UP, 99, asked=True, pinned=True, dense=False, broadcast=True),
        Ruling(Verdict.FAKE_ASYNC, (Cause.BROADCAST,)),
    ),
    "pageable memory with gaps is pageable first": (
        Move(UP, 99, asked=True, dense=False),
        Ruling(Verdict.FAKE_ASYNC, (Cause.PAGEABLE,)),
    ),
    "an upload that never asked": (Move(UP, 99, pinned=True), Ruling(Verdict.BLOCKING)),
    "a download into pageable memory": (Move(DOWN, 4, asked=True), Ruling(Verdict.FAKE_ASYNC, (Cause.PAGEABLE,))),
    "a download into pinned memory": (Move(DOWN, 4, asked=True, pinned=True), Ruling(Verdict.ASYNC)),
    "a download into pinned memory with gaps": (
        Move(DOWN, 4, asked=True, pinned=True, dense=False),
        Ruling(Verdict.FAKE_ASYNC, (Cause.GAPPED,)),
    ),
    "one element for the host": (Move(DOWN, 4, pinned=True), Ruling(Verdict.BLOCKING)),
    "no bytes": (Move(UP, 0, asked=True), Ruling(Verdict.NO_TRANSFER)),
    "device to device": (Move(Direction.D2D, asked=True), Ruling(Verdict.NO_TRANSFER)),
    "on the host": (Move(Direction.H2H, asked=True), Ruling(Verdict.NO_TRANSFER)),
    "an accelerator that nobody measured": (Move(UP, 99, asked=True, known=False), Ruling(Verdict.UNPROVEN)),
    "one that nobody measured, and that never asked": (Move(UP, 99, known=False), Ruling(Verdict.BLOCKING)),
}


@pytest.mark.parametrize(("move", "expected"), RULINGS.values(), ids=RULINGS.keys())
def test_a_move_is_ruled(move: Move, expected: Ruling) -> None:
    assert ruling(move) == expected


def test_what_is_staged_went_through_pageable_memory() -> None:
    assert [staged(Move(UP, 9, pinned=pinned, dense=dense)) for pinned in (True, False) for dense in (True, False)] == [
        *(False, True),
        *(True, True),
    ]


def test_the_gravest_move_speaks_for_a_call_of_several() -> None:
    waits = Move(UP, 9, asked=True)
    assert gravest([Move(UP, 9, asked=True, pinned=True), Move(DOWN, 9), waits]) is waits
    assert gravest([Move(UP, 0), Move(DOWN, 9)]).direction is DOWN


def lie(*sizes: int, strides: tuple[int, ...] | None = None, dtype: str = "f32") -> Lie:
    """Dense in the order of its axes unless strides are given."""
    step = 1
    dense: list[int] = []
    for size in reversed(sizes):
        dense.insert(0, step)
        step *= size
    return Lie(sizes, strides or tuple(dense), dtype)


ROWS = lie(4, 6)
GAPPED = lie(4, 3, strides=(6, 1))
TURNED = lie(6, 4, strides=(1, 6))
HALF = lie(4, 6, dtype="f16")
ASKED, NOT_ASKED = True, False

LAYOUTS: dict[str, tuple[Lie, Lie, Direction, bool, bool]] = {
    "both dense": (ROWS, ROWS, UP, ASKED, True),
    "both dense, downwards": (ROWS, ROWS, DOWN, ASKED, True),
    "a source with gaps": (GAPPED, lie(4, 3), UP, ASKED, False),
    "a source with gaps on the device": (GAPPED, lie(4, 3), DOWN, ASKED, True),
    "a destination with gaps on the device": (lie(4, 3), GAPPED, UP, ASKED, True),
    "a destination with gaps on the host": (lie(4, 3), GAPPED, DOWN, ASKED, False),
    "gaps in both": (GAPPED, GAPPED, UP, ASKED, False),
    "both turned": (TURNED, TURNED, UP, ASKED, True),
    "a turned source": (TURNED, lie(6, 4), UP, ASKED, False),
    "a turned source on the device": (TURNED, lie(6, 4), DOWN, ASKED, True),
    "a turned destination on the host": (lie(6, 4), TURNED, DOWN, ASKED, False),
    "one row with gaps around it": (lie(1, 3, strides=(6, 1)), lie(1, 3), UP, ASKED, True),
    "one column of a matrix that is one column wide": (lie(4, 1, strides=(1, 1)), lie(4, 1), UP, ASKED, True),
    "a row for every row": (lie(6), ROWS, UP, ASKED, False),
    "a row for one row": (lie(6), lie(1, 1, 6), UP, ASKED, True),
    "a row for every row, downwards": (lie(6), ROWS, DOWN, ASKED, True),
    "a number for every place": (lie(), lie(4), UP, ASKED, False),
    "a number for a number": (lie(), lie(), UP, ASKED, True),
    "another dtype": (ROWS, HALF, UP, ASKED, True),
    "another dtype, turned": (TURNED, lie(6, 4, strides=(1, 6), dtype="f16"), UP, ASKED, False),
    "another dtype, downwards": (ROWS, HALF, DOWN, ASKED, True),
    "another dtype that never asked is made on the host": (ROWS, HALF, UP, NOT_ASKED, False),
    "the same, downwards": (ROWS, HALF, DOWN, NOT_ASKED, False),
}


@pytest.mark.parametrize(
    ("source", "destination", "direction", "asked", "as_it_lies"), LAYOUTS.values(), ids=LAYOUTS.keys()
)
def test_a_temporary_on_the_host_is_foreseen(
    source: Lie, destination: Lie, direction: Direction, asked: bool, as_it_lies: bool
) -> None:
    assert goes_as_it_lies(source, destination, direction, asked) is as_it_lies


def test_a_broadcast_has_fewer_elements() -> None:
    assert is_broadcast(lie(6), ROWS)
    assert not is_broadcast(lie(6), lie(1, 6))
