"""What the demonstrations share: a GPU that is busy for a while, and a clear end where there is none."""

from __future__ import annotations

import sys

import torch

from h2dlint.probe import torch_gpu

BUSY_CYCLES = 200_000_000
"""About 0.1 s of an H200: long enough for the host to be far ahead of the device."""


def need_gpu() -> None:
    """Ends the script where nothing can be shown."""
    if not torch.cuda.is_available():
        sys.exit("This needs a GPU: without one nothing is queued, and every copy is done when the call returns.")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")


def keep_busy() -> None:
    """Queues work, so that what is issued next waits for its turn."""
    torch_gpu.spin(BUSY_CYCLES)


def cycles_of(milliseconds: float) -> int:
    """How many cycles the GPU takes to sleep so long."""
    return int(torch_gpu.cycles_of(milliseconds))


def show(what: str, wrong: int, total: int, note: str) -> None:
    """One line of the outcome."""
    print(f"{what:58} {wrong:>9,} of {total:,} elements wrong   {note}")
