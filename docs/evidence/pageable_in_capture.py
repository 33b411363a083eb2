"""A copy from pageable memory while a CUDA graph is captured: torch refuses it, whatever its size.

    python docs/evidence/pageable_in_capture.py

Each form is captured and, where that worked, replayed after the host has written other values. What the graph then
brings is what the memory holds at the replay.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from _gpu import need_gpu


def captured(n: int, source: Callable[[int], torch.Tensor], *, asks: bool = True) -> str:
    """What becomes of a copy of `n` numbers from `source` in a graph."""
    static, host = torch.zeros(n, dtype=torch.int64, device="cuda"), source(n)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            static.copy_(host, non_blocking=asks)
    except RuntimeError as error:
        return "refused: " + str(error).splitlines()[0][:150]
    host.fill_(7)
    graph.replay()
    torch.cuda.synchronize()
    return f"captured; a replay after the host wrote sevens brought {static.unique().tolist()[:3]}"


def pageable(n: int) -> torch.Tensor:
    return torch.arange(n)


def gapped(n: int) -> torch.Tensor:
    return torch.zeros(n, 2, dtype=torch.int64, pin_memory=True)[:, 0]


def pinned(n: int) -> torch.Tensor:
    return torch.arange(n, pin_memory=True)


def main() -> None:
    need_gpu()
    for n in (64, 1 << 20):
        for source in (pageable, gapped, pinned):
            for asks in (True, False):
                form = f"{source.__name__:9} {n * 8:>9,} bytes, non_blocking={asks!s:5}"
                print(form, captured(n, source, asks=asks))


if __name__ == "__main__":
    main()
