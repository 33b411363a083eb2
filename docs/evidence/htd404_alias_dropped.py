"""HTD404: a pinned tensor is dropped while a copy from a hidden alias of its memory is queued.

    python docs/evidence/htd404_alias_dropped.py

Ones are sent from an alias of a pinned tensor, both are dropped, and the next pinned tensor of that size is filled with
twos. Where torch cannot see whose memory the alias is, the block is given out again, and twos arrive.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from _gpu import keep_busy, need_gpu, show

N = 1 << 20
SKIP = 8


def sent(alias_of: Callable[[torch.Tensor], torch.Tensor]) -> tuple[int, bool]:
    """What arrived wrong, and whether the block was given out again."""
    torch.cuda.synchronize()
    staged = torch.ones(N, pin_memory=True)
    block = staged.data_ptr()
    keep_busy()
    alias = alias_of(staged)
    arrived = alias.to("cuda", non_blocking=True)
    del staged, alias
    following = torch.full((N,), 2.0, pin_memory=True)
    again = following.data_ptr() == block
    torch.cuda.synchronize()
    return int((arrived != 1).sum()), again


def main() -> None:
    need_gpu()
    forms: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "torch.from_numpy(staged.numpy()[8:])": lambda staged: torch.from_numpy(staged.numpy()[SKIP:]),
        "torch.asarray(staged.numpy()[8:])": lambda staged: torch.asarray(staged.numpy()[SKIP:]),
        "torch.from_dlpack(staged[8:])": lambda staged: torch.from_dlpack(staged[SKIP:]),
        "staged[8:]": lambda staged: staged[SKIP:],
        "torch.from_numpy(staged.numpy())": lambda staged: torch.from_numpy(staged.numpy()),
        "staged": lambda staged: staged,
    }
    for text, alias_of in forms.items():
        wrong, again = sent(alias_of)
        show(text, wrong, N, "the block was given out again" if again else "the block was kept until the copy was done")


if __name__ == "__main__":
    main()
