"""HTD401 and HTD402 with two streams: which waits are waits for a copy on a side stream.

    python docs/evidence/waits_for_another_stream.py

Ones are sent on a busy side stream, something is waited for, and the host writes twos into the buffer. After a true
wait ones arrive, after a false one twos. The last two forms fetch, and count what was read too early.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from _gpu import keep_busy, need_gpu, show

N = 1 << 20


def sent(wait: Callable[[torch.cuda.Stream], object], *, before: bool = False, inside: bool = False) -> int:
    """Sends ones on a side stream, waits, writes twos, and counts what is not one on the device.

    `before`: the wait stands before the copy; `inside`: it stands in the side stream's own context.
    """
    staged, arrived = torch.ones(N, pin_memory=True), torch.zeros(N, device="cuda")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    if before:
        wait(side)
    with torch.cuda.stream(side):
        keep_busy()
        arrived.copy_(staged, non_blocking=True)
        if inside:
            wait(side)
    if not before and not inside:
        wait(side)
    if before or inside:
        torch.cuda.current_stream().synchronize()
    staged.fill_(2)
    torch.cuda.synchronize()
    return int((arrived != 1).sum())


def fetched(wait: Callable[[torch.cuda.Stream], object]) -> int:
    """Fetches ones on a side stream, waits, reads, and counts what is not one."""
    ones, host = torch.ones(N, device="cuda"), torch.zeros(N, pin_memory=True)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        keep_busy()
        host.copy_(ones, non_blocking=True)
    wait(side)
    read = host.clone()
    torch.cuda.synchronize()
    return int((read != 1).sum())


def main_stream(side: torch.cuda.Stream) -> None:
    torch.cuda.current_stream().synchronize()


def result_of_main(side: torch.cuda.Stream) -> None:
    torch.ones(1, device="cuda").item()


def event_of_main(side: torch.cuda.Stream) -> None:
    torch.cuda.current_stream().record_event().synchronize()


def event_of_side(side: torch.cuda.Stream) -> None:
    side.record_event().synchronize()


def order(side: torch.cuda.Stream) -> None:
    torch.cuda.current_stream().wait_stream(side)


def order_and_wait(side: torch.cuda.Stream) -> None:
    order(side)
    torch.cuda.current_stream().synchronize()


def main() -> None:
    need_gpu()
    show("nothing", sent(lambda side: None), N, "the race")
    show("current_stream().synchronize()", sent(main_stream), N, "another stream")
    show(".item() of a result of the main stream", sent(result_of_main), N, "another stream")
    show("an event of the main stream", sent(event_of_main), N, "another stream")
    show("main.wait_stream(side) alone", sent(order), N, "the main stream waits, and the host does not")
    show("main.wait_stream(side) before the copy, then a wait", sent(order, before=True), N, "too early")
    show("current_stream().wait_stream(side) inside, then a wait", sent(order, inside=True), N, "side waits for itself")
    show("side.synchronize()", sent(lambda side: side.synchronize()), N, "right")
    show("an event of the side stream", sent(event_of_side), N, "right")
    show("main.wait_stream(side), then a wait for main", sent(order_and_wait), N, "right")
    show("torch.cuda.synchronize()", sent(lambda side: torch.cuda.synchronize()), N, "right")
    show("fetched, and read after a wait for the main stream", fetched(main_stream), N, "another stream")
    show("fetched, and read after a wait for the side stream", fetched(lambda side: side.synchronize()), N, "right")


if __name__ == "__main__":
    main()
