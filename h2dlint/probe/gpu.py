"""What a measurement needs of a GPU. `TorchGpu` is a real one; the tests have one that only counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from h2dlint.probe.forms_table import Form

Issue = Callable[[], object]
"""Does once what a form says, and returns when the host may go on."""


class Gpu(Protocol):
    """A GPU with one queue, and the host's clock."""

    def now(self) -> float:
        """The host's clock, in milliseconds from any moment on."""
        ...

    def work(self, milliseconds: float) -> None:
        """Queues work that keeps the GPU busy so long, and does not wait for it."""
        ...

    def finish(self) -> None:
        """Waits until nothing is queued."""
        ...

    def calibrate(self) -> None:
        """Finds out how to keep the GPU busy for a given time; called before each measurement."""
        ...

    def prepare(self, form: Form) -> Issue:
        """Allocates what a form needs, and runs it once so that nothing is done for the first time later."""
        ...

    def forget_pinned(self) -> None:
        """Gives the page-locked memory back that torch keeps for later use."""
        ...

    def room(self) -> int:
        """Bytes that a measurement may allocate, on the host and on the device."""
        ...
