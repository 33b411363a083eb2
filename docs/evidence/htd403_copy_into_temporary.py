"""HTD403: a `copy_` fills a tensor that indexing has just made.

    python docs/evidence/htd403_copy_into_temporary.py

Rows of sevens are written into rows 3 and 7 of a pinned buffer of zeros, in several ways.
"""

from __future__ import annotations

import torch
from _gpu import need_gpu, show

WIDTH = 1 << 16
ROWS = [3, 7]


def main() -> None:
    need_gpu()
    rows = torch.full((2, WIDTH), 7.0, device="cuda")
    host = torch.zeros(16, WIDTH, pin_memory=True)

    def outcome(what: str, note: str) -> None:
        torch.cuda.synchronize()
        show(what, int((host[ROWS] != 7).sum()), 2 * WIDTH, note)
        host.zero_()

    host[ROWS].copy_(rows)
    outcome("host[[3, 7]].copy_(rows)", "the buffer has not changed")
    host[ROWS].copy_(rows, non_blocking=True)
    outcome("host[[3, 7]].copy_(rows, non_blocking=True)", "the same, and it waited: the temporary is pageable")
    host[torch.arange(16) % 4 == 3][:2].copy_(rows)
    outcome("host[mask][:2].copy_(rows)", "the buffer has not changed")
    host[ROWS] = rows.cpu()
    outcome("host[[3, 7]] = rows.cpu()", "right")
    for row, value in zip(ROWS, rows, strict=True):
        host[row].copy_(value, non_blocking=True)
    outcome("host[row].copy_(...) for each row", "right: a number gives a view")


if __name__ == "__main__":
    main()
