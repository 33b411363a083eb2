"""A copy from host to device asks for `non_blocking=True`, and its source is ordinary, pageable memory.

## What it does

Reports `.to(...)`, `.cuda(...)` and `copy_(...)` with `non_blocking=True` whose source is a CPU tensor that
is provably not page-locked on any path where an accelerator is present.

## Why is this bad

The GPU can read page-locked ("pinned") memory by itself. It cannot read pageable memory: the driver first
copies the bytes into its own pinned staging buffers, on the calling thread, and when the staging space is
taken the call waits until the GPU has worked off its queue. The host loses its lead over the GPU, and nothing
reports it: `torch.cuda.set_sync_debug_mode("warn")` is silent about these copies.

Measured on one NVIDIA H200, torch 2.11: behind a queue of 40 ms of GPU work, a pageable copy of 2 MiB or more
waits for the whole queue, and so does the third copy in flight from 64 KiB on. A loop of 60 steps with six
copies of 32 KiB each held the host for 194 ms; with pinned snapshots it was free after 20 ms. A benchmark of
one small copy on an idle GPU shows none of this. Copies of 8 KiB and less blocked only with hundreds
in flight; where the code shows such a size, the finding is only a note.

While a CUDA graph is captured, size does not matter: torch 2.11 refuses every copy from memory that is not pinned and
dense, and the capture fails.

## Example

{BAD}

## Use instead

{GOOD}

`.pin_memory()` and `pin_memory=True` raise on a machine without an accelerator, hence the flag.

Where another statement owns the buffer and rewrites it at every step, do not pin the buffer itself: the next
step would overwrite bytes that are still being copied. Pin a snapshot right before the copy,
`host[:n].pin_memory()`.

## Known limits

Every result of a computation on the CPU is pageable, even when its inputs were pinned: `cat`, `where`,
indexing with a list, arithmetic, `clone`. What comes from an unknown parameter or attribute is not reported
here but counted as unproven (HTD190). Pinning pays behind queued GPU work. For one copy on an idle GPU it
costs an extra copy on the host.

## Fix safety

A rewrite with `.pin_memory()` keeps the values. It is safe only behind a flag that is true just where an
accelerator is present.

## References

- [PyTorch: use pinned memory buffers](https://docs.pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers)
- [PyTorch tutorial: pin_memory and non_blocking](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html)
- [CUDA: API synchronization behavior](https://docs.nvidia.com/cuda/cuda-driver-api/api-sync-behavior.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from h2dlint.rules._choice import code_of

from h2dlint import wording
from h2dlint.facts.copies import Copy
from h2dlint.finding import Finding, Meta, Severity

if TYPE_CHECKING:
    import libcst as cst

META = Meta("HTD101", "pageable-source", Severity.ERROR, since="0.1", needles=(b"non_blocking",))

BAD = """
import torch


def upload_lengths(lengths: list[int], device: torch.device) -> torch.Tensor:
    host = torch.tensor(lengths, dtype=torch.int64)
    return host.to(device, non_blocking=True)
"""

GOOD = """
import torch

PIN_MEMORY = torch.cuda.is_available()


def upload_lengths(lengths: list[int], device: torch.device) -> torch.Tensor:
    host = torch.tensor(lengths, dtype=torch.int64, pin_memory=PIN_MEMORY)
    return host.to(device, non_blocking=True)
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report a pageable source that no more special rule speaks for."""
    if code_of(copy) != META.code:
        return
    yield META.finding(
        copy,
        f"{wording.source(copy)} is pageable, so this copy can stall the host{wording.because(copy)}"
        f"{wording.size_remark(copy)}",
        help=wording.pin_help(copy, node),
        severity=Severity.NOTE if wording.is_small(copy) else None,
    )
