"""The progress bar of a probe, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(total: float, enabled: bool) -> Iterator[Callable[[str, float], None]]:
    """Gives a function that takes what is under way and how much of `total` is done; the bar goes away at the end."""
    if not (enabled and sys.stderr.isatty()):
        yield lambda what, done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:14}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    # No thread that draws: it would take the interpreter's lock in the middle of a trial.
    with Progress(*columns, console=Console(file=sys.stderr), auto_refresh=False, transient=True) as shown:
        task = shown.add_task("", total=total)

        def update(what: str, done: float) -> None:
            shown.update(task, description=what, completed=done)
            shown.refresh()

        yield update
