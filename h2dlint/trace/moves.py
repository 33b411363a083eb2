"""What one copy between host and device did, from the facts of both sides. Pure: no torch, no clock, no frames.

The rules are those of docs/design.md, FACTS 1 to 10, and the verdicts are those of `h2dlint copies`. Here both sides
are known, so nothing is conditional.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from msgspec import Struct

from h2dlint.facts.copies import Cause, Direction, Verdict

NEVER_WAITED = 8192
"""Bytes. Up to this size no pageable copy from host to device blocked when measured (docs/design.md, The cliff)."""


class Move(Struct, frozen=True):
    """One tensor that went from one side to the other, or was asked to."""

    direction: Direction
    size: int = 0
    """Bytes that crossed."""
    asked: bool = False
    """Whether the call asked for `non_blocking`."""
    pinned: bool = False
    """Whether the host side lies in page-locked memory."""
    dense: bool = True
    """Whether the host side can be read or written as it lies: no gaps, no other order, no conversion on the host."""
    broadcast: bool = False
    """Whether it is not dense because it has to be spread over a larger destination."""
    known: bool = True
    """Whether it is known what this kind of accelerator does with such a copy."""


class Ruling(Struct, frozen=True):
    """What that amounts to."""

    verdict: Verdict
    causes: tuple[Cause, ...] = ()


def staged(move: Move) -> bool:
    """Whether the bytes went through pageable memory."""
    return not (move.pinned and move.dense)


def ruling(move: Move) -> Ruling:
    """The verdict on one copy, with its causes where it asked and waits all the same."""
    if not move.size or move.direction not in (Direction.H2D, Direction.D2H):
        return Ruling(Verdict.NO_TRANSFER)
    if not move.asked:
        return Ruling(Verdict.BLOCKING)
    if not move.known:
        return Ruling(Verdict.UNPROVEN)
    if not staged(move):
        return Ruling(Verdict.ASYNC)
    if not move.pinned:
        return Ruling(Verdict.FAKE_ASYNC, (Cause.PAGEABLE,))
    return Ruling(Verdict.FAKE_ASYNC, (Cause.BROADCAST if move.broadcast else Cause.GAPPED,))


_GRAVITY = (Verdict.FAKE_ASYNC, Verdict.BLOCKING, Verdict.UNPROVEN, Verdict.ASYNC, Verdict.NO_TRANSFER)


def gravest(moves: Sequence[Move]) -> Move:
    """The move that speaks for a call of several: whoever moves a module wants to hear of the tensor that waits."""
    return min(moves, key=lambda move: _GRAVITY.index(ruling(move).verdict))


# --- layout -------------------------------------------------------------------------------------------------------


class Lie(Struct, frozen=True):
    """How one side lies in its memory: sizes and strides in elements, and its dtype."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Hashable = ""


def goes_as_it_lies(source: Lie, destination: Lie, direction: Direction, asked: bool) -> bool:
    """Whether a copy needs no temporary on the host.

    Torch copies in one piece where both sides have one dtype and run through dense memory in one order. Else it makes
    both sides contiguous first: the one on the device there, the one on the host in pageable memory. A change of dtype
    happens on the device if the copy is asked to be asynchronous, and on the host if it is not
    (`copy_requires_temporaries` and `copy_kernel_cuda` in torch's ATen/native/cuda/Copy.cu; measured in
    tests/data/trace_h200.json).
    """
    spread = expanded(source, destination.sizes)
    same_dtype = source.dtype == destination.dtype
    if same_dtype and _in_one_piece(spread, destination):
        return True
    if not asked and not same_dtype:
        return False
    return is_contiguous(spread if direction is Direction.H2D else destination)


def is_broadcast(source: Lie, destination: Lie) -> bool:
    """Whether the source has fewer elements than the destination that it fills."""
    return _number(source.sizes) < _number(destination.sizes)


def expanded(lie: Lie, sizes: tuple[int, ...]) -> Lie:
    """The same memory seen in a larger shape: an axis that repeats has the stride 0."""
    missing = len(sizes) - len(lie.sizes)
    strides = [0] * missing
    for size, wanted, stride in zip(lie.sizes, sizes[missing:], lie.strides, strict=True):
        strides.append(0 if size == 1 and wanted != 1 else stride)
    return Lie(sizes, tuple(strides), lie.dtype)


def is_contiguous(lie: Lie) -> bool:
    """Whether the elements lie one after the other in the order of the axes."""
    step = 1
    for size, stride in zip(reversed(lie.sizes), reversed(lie.strides), strict=True):
        if size == 1:
            continue
        if stride != step:
            return False
        step *= size
    return True


def _in_one_piece(source: Lie, destination: Lie) -> bool:
    """Whether both sides are dense and run through their memory in the same order of axes."""
    axes = [
        (to, size)
        for size, from_, to in zip(destination.sizes, source.strides, destination.strides, strict=True)
        if size != 1 and from_ == to
    ]
    if len(axes) != sum(size != 1 for size in destination.sizes):
        return False
    step = 1
    for stride, size in sorted(axes):
        if stride != step:
            return False
        step *= size
    return True


def _number(sizes: Sequence[int]) -> int:
    number = 1
    for size in sizes:
        number *= size
    return number
