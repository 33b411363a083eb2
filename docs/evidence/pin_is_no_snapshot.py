"""HTD304 on a GPU: `.pin_memory()` on a pinned buffer is that buffer; what arrives is what was written later.

    python docs/evidence/pin_is_no_snapshot.py

For each way to keep a buffer's values: whether the result is the buffer itself, and what arrives on the device when
the buffer held 1 at the copy and is filled with 2 while the copy waits behind 50 ms of work. Right is 1. Needs torch
with CUDA; takes a few seconds.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from _gpu import cycles_of, need_gpu

SIZE, WORK_MS, ROUNDS = 1 << 20, 50.0, 5


def main() -> None:
    """Prints one line for each way."""
    need_gpu()
    ways: dict[str, tuple[bool, Callable[[torch.Tensor], torch.Tensor]]] = {
        "pinned": (True, lambda host: host),
        "pinned.pin_memory()": (True, lambda host: host.pin_memory()),
        "empty_like(pinned, pin_memory=True).copy_": (
            True,
            lambda host: torch.empty_like(host, pin_memory=True).copy_(host),
        ),
        "pageable.pin_memory()": (False, lambda host: host.pin_memory()),
        "pageable": (False, lambda host: host),
    }
    cycles = cycles_of(WORK_MS)
    print(f"{ROUNDS} rounds behind {WORK_MS:g} ms of work")
    print(f"{'source of the copy':44} {'same memory':12} arrived in each round (right: 1)")
    for name, (pin, keep) in ways.items():
        host = torch.zeros(SIZE, pin_memory=pin)
        same = keep(host).data_ptr() == host.data_ptr()
        arrived = [race(host, keep, cycles) for _ in range(ROUNDS)]
        print(f"{name:44} {same!s:12} {' '.join(arrived)}", flush=True)


def race(host: torch.Tensor, keep: Callable[[torch.Tensor], torch.Tensor], cycles: int) -> str:
    """What arrives when the buffer is filled anew right after its copy was issued."""
    host.fill_(1)
    torch.cuda.synchronize()
    torch.cuda._sleep(cycles)
    there = keep(host).to("cuda", non_blocking=True)
    host.fill_(2)
    torch.cuda.synchronize()
    values = there.unique().tolist()
    return "+".join(f"{value:g}" for value in values)


if __name__ == "__main__":
    main()
