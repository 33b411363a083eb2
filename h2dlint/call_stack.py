"""A call stack in one piece, for work that calls deeply.

CPython keeps the frames of Python functions in chunks of 16 KiB, takes a chunk from the system when a call needs the
next one, and gives it back when that call returns. A loop whose calls cross such a border pays for it each time:
measured, 9 microseconds a call instead of 0.07, on CPython 3.11 to 3.13; a tenth of a whole run went there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
Answer = TypeVar("Answer")

SLOTS = 70_000
"""A frame of so many slots of 8 bytes gets a chunk of 1 MiB to itself, and leaves nearly half of it to those that it
calls: some 1,500 frames. The slots are never touched, and take no memory.
"""


def in_one_piece(work: Callable[P, Answer]) -> Callable[P, Answer]:
    """The same function; the frames of what it calls lie in one chunk."""

    def call(*args: P.args, **kwargs: P.kwargs) -> Answer:
        return work(*args, **kwargs)

    call.__code__ = call.__code__.replace(co_stacksize=SLOTS)
    return update_wrapper(call, work)
