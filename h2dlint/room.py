"""Room for deep code: another thread, with a stack on which Python may go down much further than usual."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from h2dlint.call_stack import in_one_piece

Answer = TypeVar("Answer")

STACK = 512 << 20
"""Bytes of stack. They are only reserved: what is not used takes no memory."""
DEPTH = 80_000
"""Calls of Python functions into each other: 6 KiB of stack for each, where none needs more than two."""


class NoRoomError(RecursionError):
    """The system grants no thread with such a stack."""


def with_room(work: Callable[[], Answer]) -> Answer:
    """What `work` answers, with room for code as deep as generated code may be.

    Python's own parser has limits besides, which from 3.12 on no stack extends.

    Raises:
        NoRoomError: the system grants no such stack.
        RecursionError: it is deeper than that.
        Everything that `work` raises.
    """
    answers: list[Answer] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(work())
        except BaseException as error:
            errors.append(error)

    run = in_one_piece(run)
    depth = sys.getrecursionlimit()
    try:
        stack = threading.stack_size(STACK)
    except (ValueError, RuntimeError) as error:
        raise NoRoomError("no larger stack") from error
    try:
        # Nobody waits for it at the end of the program: whoever is interrupted wants to end.
        thread = threading.Thread(target=run, daemon=True)
        sys.setrecursionlimit(DEPTH)
        thread.start()
        threading.stack_size(stack)
        thread.join()
    except RuntimeError as error:
        raise NoRoomError("no thread with a larger stack") from error
    finally:
        threading.stack_size(stack)
        sys.setrecursionlimit(depth)
    if errors:
        raise errors[0]
    return answers[0]
