"""HTD301 on a GPU: `.pin_memory()` on a view with gaps keeps the gaps, and the copy waits as before.

    python docs/evidence/pin_keeps_gaps.py

For each form of the source: whether it is pinned and dense, what the profiler calls the copy, and how long the host
was held by 60 steps that each queue 5 ms of work and one copy. Needs torch with CUDA; takes about half a minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from _gpu import cycles_of, need_gpu

ROWS, COLUMNS, STEPS, WORK_MS = 3, 65_536, 60, 5.0


def main() -> None:
    """Prints one line for each form."""
    need_gpu()
    pinned = torch.zeros(ROWS, COLUMNS + 1, dtype=torch.int64, pin_memory=True)
    pageable = torch.zeros(ROWS, COLUMNS + 1, dtype=torch.int64)
    forms: dict[str, Callable[[], torch.Tensor]] = {
        "pinned[:, :n]": lambda: pinned[:, :COLUMNS],
        "pinned[:, :n].pin_memory()": lambda: pinned[:, :COLUMNS].pin_memory(),
        "pageable[:, :n].pin_memory()": lambda: pageable[:, :COLUMNS].pin_memory(),
        "pageable[:, :n].contiguous().pin_memory()": lambda: pageable[:, :COLUMNS].contiguous().pin_memory(),
    }
    target = torch.empty(ROWS, COLUMNS, dtype=torch.int64, device="cuda")
    cycles = cycles_of(WORK_MS)
    print(f"{STEPS} steps of {WORK_MS:g} ms")
    print(f"{'source':44} {'pinned':7} {'dense':6} {'copy':9} {'same memory':12} host done after")
    for name, make in forms.items():
        source = make()
        shared = source.data_ptr() in (pinned.data_ptr(), pageable.data_ptr())
        print(
            f"{name:44} {source.is_pinned()!s:7} {source.is_contiguous()!s:6} {tag_of(target, make):9} "
            f"{shared!s:12} {held(target, make, cycles):6.0f} ms",
            flush=True,
        )


def held(target: torch.Tensor, make: Callable[[], torch.Tensor], cycles: int) -> float:
    """Milliseconds until the host has issued all steps."""
    for _ in range(3):
        target.copy_(make(), non_blocking=True)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(STEPS):
        torch.cuda._sleep(cycles)
        target.copy_(make(), non_blocking=True)
    issued = (time.perf_counter() - start) * 1000
    torch.cuda.synchronize()
    return issued


def tag_of(target: torch.Tensor, make: Callable[[], torch.Tensor]) -> str:
    """What the profiler calls the host side of the copy."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        target.copy_(make(), non_blocking=True)
        torch.cuda.synchronize()
    names = [event.name for event in profile.events() if event.name.startswith("Memcpy HtoD")]
    return next((word for word in ("Pageable", "Pinned") if any(word in name for name in names)), "?").lower()


if __name__ == "__main__":
    main()
