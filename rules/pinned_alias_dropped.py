"""A pinned tensor is dropped while a copy from a hidden alias of its memory is under way.

## What it does

Reports an asynchronous copy from a tensor that was made of the bare memory of a pinned one, by `from_numpy`, `asarray`
or `from_dlpack` of a slice that starts further in, where the pinned tensor is local and neither returned, stored nor
passed on, and the function ends without a wait. Likewise a call that is given the `data_ptr()` of such a tensor and
only queues its work: its name has `async` in it, or it is given a stream.

## Why is this bad

A pinned tensor may be dropped right after a copy from it was issued: torch's allocator knows the block by its first
byte and keeps it until the copy is done. Of an alias that starts further in and does not share the tensor's storage it
knows nothing. The block is free at once, and the next pinned allocation writes into it. Measured on one NVIDIA H200,
torch 2.11: 2 arrived instead of 1.

A slice of the tensor itself (`staged[8:]`) is safe, and so is an alias of the whole.

## Example

{BAD}

## Use instead

{GOOD}

## Known limits

Only aliases that are seen to be made are followed, and only memory that is allocated in the function itself. Where the
start of the slice is not a constant, it is a warning.

## Fix safety

There is no fix.

## References

- [PyTorch: torch.from_numpy](https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html)
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

META = Meta("HTD404", "pinned-alias-dropped", Severity.ERROR, since="0.1", needles=(b"non_blocking",))

BAD = """
import torch


def upload(n: int, device: torch.device) -> torch.Tensor:
    staged = torch.rand(n, pin_memory=True)
    tail = torch.from_numpy(staged.numpy()[8:])
    return tail.to(device, non_blocking=True)
"""

GOOD = """
import torch


def upload(n: int, device: torch.device) -> torch.Tensor:
    staged = torch.rand(n, pin_memory=True)
    return staged[8:].to(device, non_blocking=True)
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report an upload whose memory goes while it is under way."""
    hazard = hazard_of(copy, HazardKind.ALIAS_DROPPED)
    if hazard is None or code_of(copy) != META.code:
        return
    if not copy.source_text:
        what = "torch does not see that this address is in use, and the pinned tensor behind it goes when this function"
    else:
        what = f"{wording.source(copy)} hides whose memory it is, and the pinned tensor goes when this function"
    yield META.finding(
        copy,
        f"{what} ends: the memory may be given out again before the copy is done",
        help="keep the tensor until the work is waited for"
        if not copy.source_text
        else "slice the tensor itself (`x[8:]`), which keeps its memory, or keep the tensor until the copy is waited "
        "for",
        severity=wording.hazard_severity(hazard),
        trace=copy.trace,
    )
