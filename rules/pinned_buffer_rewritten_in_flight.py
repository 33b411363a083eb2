"""A pinned buffer is written again while a copy from it may still be under way.

## What it does

Reports `.to(..., non_blocking=True)` and `copy_` from a pinned buffer that the host writes again, by item assignment,
in place, by `copy_`, `out=` or through its ndarray, without a wait in between: further down, in the next turn of a
loop, or in a call that is seen. Where the next write comes with a later call of the same method, and whoever calls it
is not seen, it is a note: for a buffer that is made on first use (`if self.stage is None: ...`, a dict of buffers by
key, a cached property, one that grows) as for one that the constructor makes.

## Why is this bad

An asynchronous copy from pinned memory reads it later, when the stream gets there. What is written meanwhile is what
arrives. Measured on one NVIDIA H200, torch 2.11: behind queued work a buffer of ones was sent and then filled with
twos, and twos arrived. Nothing tells, and on an idle device it goes right.

From pageable memory the driver copies the bytes before the call returns, so pinning a buffer that lives on can turn
slow and right code into fast and wrong code.

## Example

{BAD}

## Use instead

{GOOD}

A pinned tensor for each step is safe to drop: torch keeps its memory until the copy is done. `.pin_memory()` on the
buffer makes no snapshot: on pinned memory it returns the buffer itself. Or keep the buffer, record an event after the
copy, and wait for it before writing again; with two buffers in turn, one event each, the wait is short.

## Known limits

What waits: `synchronize` of a device, stream or event, `.item()`, `.tolist()`, `.cpu()` and other transfers that wait,
and calls whose names say so. An event counts for what was issued before it was recorded, in its stream. A wait for
another stream than the copy's is none, unless that was told to wait for the copy's before; where the streams are
attributes it is a warning, since a caller may have made one of them current. Two parts of a buffer named by
indices are taken to overlap only where that is certain, and buffers taken out of a list by an index are not followed.

## Fix safety

Safe: the snapshot holds the values at the time of the call, which is what a copy that waits would have sent.

## References

- [CUDA: asynchronous transfers and host memory](https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/#asynchronous-and-overlapping-transfers-with-computation)
- [PyTorch: pinned memory and non_blocking](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from h2dlint.rules._choice import code_of, hazard_of

from h2dlint import wording
from h2dlint.facts.copies import Copy, HazardKind
from h2dlint.finding import Finding, Meta, Severity

if TYPE_CHECKING:
    import libcst as cst

META = Meta("HTD401", "pinned-buffer-rewritten-in-flight", Severity.ERROR, since="0.1", needles=(b"non_blocking",))

BAD = """
import torch


def feed(model, steps: int) -> list:
    staged = torch.zeros(1 << 20, pin_memory=True)
    results = []
    for step in range(steps):
        staged.fill_(step)
        results.append(model(staged.to("cuda", non_blocking=True)))
    return results
"""

GOOD = """
import torch


def feed(model, steps: int) -> list:
    results = []
    for step in range(steps):
        staged = torch.full((1 << 20,), step, dtype=torch.float32, pin_memory=True)
        results.append(model(staged.to("cuda", non_blocking=True)))
    return results
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report an upload whose source the host writes before it has been read."""
    hazard = hazard_of(copy, HazardKind.REWRITTEN)
    if hazard is None or code_of(copy) != META.code:
        return
    at = wording.where(copy, hazard.place)
    if hazard.across_calls:
        message = (
            f"the next call writes {wording.source(copy)} again ({at}), and nothing here waits for this copy: if no "
            "caller does either, the new bytes arrive instead"
        )
    else:
        message = (
            f"{wording.source(copy)} is written again ({at}) while this copy may still be reading it: what arrives may "
            f"be the new bytes{wording.missed_wait(copy, hazard)}"
        )
    yield META.finding(
        copy,
        message,
        help=(
            "send a copy of it: `torch.empty_like(x, pin_memory=True).copy_(x)` (`.pin_memory()` would be the buffer "
            "itself), or record an event after the copy and wait for it before writing"
        ),
        severity=wording.hazard_severity(hazard),
        trace=wording.hazard_trace(copy, hazard),
    )
