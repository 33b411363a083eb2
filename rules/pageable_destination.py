"""A copy from device to host asks for `non_blocking=True`, and its destination cannot be written asynchronously.

## What it does

Reports `host.copy_(gpu, non_blocking=True)` where `host` is provably pageable, or a view that leaves gaps, and
`gpu.to("cpu", non_blocking=True)` where torch fills the pinned result through a pageable temporary: the axes of `gpu`
stand in another order, and it has gaps as well or changes its dtype on the way.

## Why is this bad

The GPU cannot write pageable memory, so the driver waits until everything queued on the stream is done, then
copies through its own buffers. In this direction nothing is too small: measured on one NVIDIA H200, torch
2.11, 256 bytes wait for the whole queue as well.

## Example

{BAD}

## Use instead

{GOOD}

Or let torch allocate: `device_tensor.to("cpu", non_blocking=True)` returns pinned memory. Either way the
bytes are there only after a synchronization: wait on an event before the host reads them. Code that read them
right after the stalling copy was right by accident.

## Known limits

Siblings made by `new_empty` from the destination are judged by their own allocation. Reading too early is not
this rule's business.

## Fix safety

Unsafe. The pageable copy was finished when the call returned; the pinned one is not, and a host read that
relied on it must wait first.

## References

- [CUDA: API synchronization behavior](https://docs.nvidia.com/cuda/cuda-driver-api/api-sync-behavior.html)
- [PyTorch: asynchronous execution](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from h2dlint.rules._choice import code_of

from h2dlint import wording
from h2dlint.facts.copies import Cause, Copy, Verdict
from h2dlint.finding import Finding, Meta, Severity

if TYPE_CHECKING:
    import libcst as cst

META = Meta("HTD107", "pageable-destination", Severity.ERROR, since="0.1", needles=(b"non_blocking",))

BAD = """
import torch

scores = torch.rand(256, device="cuda")
host = torch.empty(256)
host.copy_(scores, non_blocking=True)
"""

GOOD = """
import torch

scores = torch.rand(256, device="cuda")
host = torch.empty(256, pin_memory=torch.cuda.is_available())
host.copy_(scores, non_blocking=True)
torch.cuda.current_stream().synchronize()
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report a device-to-host copy into memory that the device cannot write by itself."""
    if code_of(copy) != META.code:
        return
    host = wording.destination(node)
    maybe = copy.verdict is Verdict.CONDITIONAL
    yield META.finding(
        copy,
        f"{host} {_state(copy, maybe)}, so this copy makes the host wait for everything queued on the device, "
        f"whatever its size{wording.because(copy)}",
        help=_remedy(copy, host),
        severity=Severity.WARNING if maybe else None,
    )


def _state(copy: Copy, maybe: bool) -> str:
    if Cause.GAPPED not in copy.causes:
        return "is pageable"
    if _is_fetched(copy):
        return (
            "has its axes in another order, and gaps or another dtype as well: torch fetches it through pageable memory"
        )
    if copy.layout == "permuted":
        return "has its axes in another order than what it is filled from"
    return "leaves gaps unless it spans whole rows" if maybe else "is not dense"


def _is_fetched(copy: Copy) -> bool:
    """Whether torch makes the destination, as `.to` does."""
    return copy.call not in ("copy_", "_foreach_copy_")


def _remedy(copy: Copy, host: str) -> str:
    if _is_fetched(copy):
        return f"make it dense on the device first: `.contiguous()` behind {host}, and a change of dtype there as well"
    if Cause.GAPPED in copy.causes:
        return f"copy into a dense pinned buffer, synchronize, then write it to {host}; few rows: one copy per row"
    place = wording.allocation(copy)
    at = f" on {wording.where(copy, place)}" if place else ""
    return f"allocate {host}{at} with `pin_memory=` your project's pin flag, and synchronize before the host reads it"
