"""HTD401: a pinned buffer is written again while the copy from it is queued.

    python docs/evidence/htd401_rewritten_in_flight.py

Ones are sent, then the host writes twos into the buffer. Twos arrive. The same with pageable memory, with a pinned copy
of the buffer, and with a wait, for comparison: ones arrive.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from _gpu import keep_busy, need_gpu, show

N = 1 << 20


def sent(buffer: torch.Tensor, send: Callable[[torch.Tensor], torch.Tensor], wait: bool = False) -> int:
    """Sends ones, writes twos, and counts what is not one on the device."""
    buffer.fill_(1)
    torch.cuda.synchronize()
    keep_busy()
    arrived = send(buffer)
    if wait:
        torch.cuda.current_stream().synchronize()
    buffer.fill_(2)
    torch.cuda.synchronize()
    return int((arrived != 1).sum())


def straight(buffer: torch.Tensor) -> torch.Tensor:
    return buffer.to("cuda", non_blocking=True)


def pinned_again(buffer: torch.Tensor) -> torch.Tensor:
    return buffer.pin_memory().to("cuda", non_blocking=True)


def copied(buffer: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(buffer, pin_memory=True).copy_(buffer).to("cuda", non_blocking=True)


def main() -> None:
    need_gpu()
    pinned, plain = torch.empty(N, pin_memory=True), torch.empty(N)
    show("pinned buffer, written again", sent(pinned, straight), N, "the race")
    show("the same behind .pin_memory()", sent(pinned, pinned_again), N, "no snapshot: it is the buffer itself")
    show("a pinned copy of it", sent(pinned, copied), N, "right")
    show("pinned buffer, after a wait", sent(pinned, straight, wait=True), N, "right")
    show("pageable buffer, written again", sent(plain, straight), N, "right, and slow: staged before the call returns")


if __name__ == "__main__":
    main()
