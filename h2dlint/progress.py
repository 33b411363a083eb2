"""A progress line on the terminal, for runs that take longer than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE = 1.0
"""Seconds until the line appears."""

_BETWEEN_UPDATES = 0.1


@contextmanager
def progress(verb: str, enabled: bool) -> Iterator[Callable[[int, int], None]]:
    """Gives a function to call with the number of files done and of all files; the line goes away at the end."""
    if not (enabled and sys.stderr.isatty()):
        yield _say_nothing
        return
    line = _Line(verb)
    try:
        yield line.update
    finally:
        line.close()


def _say_nothing(done: int, total: int) -> None:
    pass


class _Line:
    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._due = time.monotonic() + PATIENCE
        self._display: Progress | None = None

    def update(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _BETWEEN_UPDATES
        if self._display is None:
            self._display = _open_display()
            self._display.add_task(self._verb, total=total)
        self._display.update(self._display.task_ids[0], completed=done, total=total)
        self._display.refresh()

    def close(self) -> None:
        if self._display is not None:
            self._display.stop()


def _open_display() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    display = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("files"),
        console=Console(stderr=True),
        auto_refresh=False,  # a thread of its own would make it unsafe to fork workers
        transient=True,
    )
    display.start()
    return display
