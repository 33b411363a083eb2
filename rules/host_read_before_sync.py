"""The host reads what an asynchronous copy from the device has not brought yet.

## What it does

Reports `.to("cpu", non_blocking=True)` and `host.copy_(gpu, non_blocking=True)` into pinned memory whose result the
host reads, with `item`, `tolist`, a comparison, arithmetic, numpy or the like, and no wait in between. The finding
stands at the copy, the read is named beside it. Handing on an ndarray of the result counts as reading it, unless an
event was recorded for whoever waits.

## Why is this bad

The call returns before the bytes are there. What is read is what the memory held before: zeros, or the result of the
step before, in whole or in part. Measured on one NVIDIA H200, torch 2.11: read behind queued work, the old bytes
were there. On an idle device, and under a debugger, it goes right.

## Example

{BAD}

## Use instead

{GOOD}

Where there is other work to do first, record an event after the copy and wait for it just before the read. Where there
is none, leave `non_blocking` out: a waiting copy is right, and no slower.

## Known limits

A wait counts if it is for the stream of the copy, or for one that was told to wait for that; of a stream that cannot be
told from others any wait counts. A source of unknown device is taken to be on one, as whoever writes
`non_blocking=True` means. A result that is passed on as a tensor is not followed out of the functions that are seen.

## Fix safety

There is no fix: where to wait is a decision.

## References

- [PyTorch: pinned memory and non_blocking](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html)
- [PyTorch: asynchronous execution](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)
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

META = Meta("HTD402", "host-read-before-sync", Severity.ERROR, since="0.1", needles=(b"non_blocking",))

BAD = """
import torch

scores = torch.rand(4096, device="cuda")
host = scores.to("cpu", non_blocking=True)
best = host.argmax().item()
"""

GOOD = """
import torch

scores = torch.rand(4096, device="cuda")
host = scores.to("cpu", non_blocking=True)
torch.cuda.current_stream().synchronize()
best = host.argmax().item()
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report a download whose result the host reads without a wait."""
    hazard = hazard_of(copy, HazardKind.READ_EARLY)
    if hazard is None or code_of(copy) != META.code:
        return
    at = wording.where(copy, hazard.place)
    handed_on = hazard.place.label == "numpy"
    how = "its ndarray is handed on" if handed_on else "the host reads the result"
    yield META.finding(
        copy,
        f"{how} ({at}) before anything waits for this copy: what is there may be the old bytes"
        f"{wording.missed_wait(copy, hazard)}",
        help="wait before the read: an event recorded after the copy, or the stream's `synchronize()`; or leave "
        "`non_blocking` out",
        severity=wording.hazard_severity(hazard),
        trace=wording.hazard_trace(copy, hazard),
    )
