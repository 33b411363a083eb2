"""A real GPU, through torch. Imported only once it is known that there is one."""

from __future__ import annotations

import os
import time

import numpy as np
import torch

from h2dlint.probe.forms_table import Form
from h2dlint.probe.gpu import Issue

_WARM_UP_MS = 200.0
_TRIAL_CYCLES = 20_000_000
_SHARE = 8
"""A measurement takes at most an eighth of the memory that is free."""


class TorchGpu:
    """The current CUDA device and its current stream."""

    def __init__(self) -> None:
        # With one thread the figures do not depend on how many cores happen to be free: a team of threads that has to
        # be woken on a busy machine takes milliseconds to copy what one thread copies in microseconds.
        torch.set_num_threads(1)
        self._cycles_per_ms = 0.0
        # Programs have some page-locked memory. The driver needs a millisecond more for the very first of it.
        self._some_pinned = torch.empty(1, pin_memory=True)
        self.forget_pinned()

    def now(self) -> float:
        return time.perf_counter() * 1000

    def work(self, milliseconds: float) -> None:
        spin(int(self._cycles_per_ms * milliseconds))

    def finish(self) -> None:
        torch.cuda.synchronize()

    def calibrate(self) -> None:
        """Lets the clocks rise first: an idle GPU runs slower, and a spin is counted in cycles."""
        if not self._cycles_per_ms:
            self._cycles_per_ms = cycles_of(1.0)
        self.work(_WARM_UP_MS)
        self._cycles_per_ms = cycles_of(1.0)

    def prepare(self, form: Form) -> Issue:
        """Compiles the form's text to a function."""
        names: dict[str, object] = {"torch": torch, "np": np}
        body = "".join(f"    {line}\n" for line in form.code.splitlines())
        exec(compile(form.setup, f"<setup of {form.name}>", "exec"), names)
        exec(compile(f"def issue():\n{body}", f"<{form.name}>", "exec"), names)
        issue = names["issue"]
        assert callable(issue)
        issue()
        torch.cuda.synchronize()
        return issue

    def forget_pinned(self) -> None:
        torch.cuda.synchronize()
        empty_host_cache()

    def room(self) -> int:
        free, _ = torch.cuda.mem_get_info()
        return min(free, free_host_bytes()) // _SHARE


def spin(cycles: int) -> None:
    """Queues a kernel that does nothing for so many cycles of the GPU's clock."""
    torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]


def cycles_of(milliseconds: float, trials: int = 3) -> float:
    """How many cycles the GPU takes to spin so long: the median of a few trials, after one that warms up."""
    found: list[float] = []
    for _ in range(trials + 1):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        spin(_TRIAL_CYCLES)
        end.record()
        torch.cuda.synchronize()
        found.append(_TRIAL_CYCLES * milliseconds / start.elapsed_time(end))
    return sorted(found[1:])[trials // 2]


_EMPTY_HOST_CACHE = ("_host_emptyCache", "_accelerator_emptyHostCache")
"""What torch has called it: until 2.11, and since 2.12."""


def empty_host_cache() -> bool:
    """Gives page-locked blocks back that nothing uses; False where this torch has no way to."""
    for name in _EMPTY_HOST_CACHE:
        empty = getattr(torch._C, name, None)
        if empty is not None:
            empty()
            return True
    return False


def free_host_bytes() -> int:
    """Memory of the host that is free, as far as the operating system tells; 8 GiB where it does not."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 8 << 30
