"""HTD402: the host reads what an asynchronous copy from the device has not brought yet.

    python docs/evidence/htd402_read_before_sync.py

The device holds sevens. They are fetched without waiting, read at once, and read again after a wait.
"""

from __future__ import annotations

import torch
from _gpu import keep_busy, need_gpu, show

N = 1 << 20


def main() -> None:
    need_gpu()
    scores = torch.full((N,), 7.0, device="cuda")
    host = torch.zeros(N, pin_memory=True)

    torch.cuda.synchronize()
    keep_busy()
    host.copy_(scores, non_blocking=True)
    early = host.clone()
    torch.cuda.synchronize()
    show("host.copy_(gpu, non_blocking=True), read at once", int((early != 7).sum()), N, f"read {early[0].item()}")
    show("the same, read after a wait", int((host != 7).sum()), N, f"read {host[0].item()}")

    keep_busy()
    made = scores.to("cpu", non_blocking=True)
    early = made.clone()
    torch.cuda.synchronize()
    show('gpu.to("cpu", non_blocking=True), read at once', int((early != 7).sum()), N, f"read {early[0].item()}")
    show("the same, read after a wait", int((made != 7).sum()), N, f"read {made[0].item()}")

    keep_busy()
    late = scores.to("cpu").clone()
    show('gpu.to("cpu"), read at once', int((late != 7).sum()), N, "it waits")


if __name__ == "__main__":
    main()
