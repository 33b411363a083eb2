"""A `copy_` from host to device asks for `non_blocking=True`, and its source is smaller than its destination.

## What it does

Reports `destination.copy_(source, non_blocking=True)` where the source has to be broadcast to fill the
destination.

## Why is this bad

A transfer moves as many bytes as it reads. To fill a larger destination, torch first expands the source on
the host, into a fresh pageable temporary of the destination's size. So a pinned source is no help, more bytes
go over the bus than needed, and the copy can stall the host (see HTD101 for what that costs).

## Example

{BAD}

## Use instead

{GOOD}

The small tensor goes over the bus, and the device repeats it.

## Known limits

Broadcasting over dimensions of size 1 only (`[1, 64]` from `[64]`) needs no temporary and is not reported.
Where the code does not show both shapes, nothing is.

## Fix safety

The values are the same. The rewrite allocates a small tensor on the device, so it changes what a captured
graph records.

## References

- [PyTorch: Tensor.copy_](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.copy_.html)
- [PyTorch: broadcasting semantics](https://docs.pytorch.org/docs/stable/notes/broadcasting.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from h2dlint.rules._choice import code_of

from h2dlint import wording
from h2dlint.facts.copies import Cause, Copy
from h2dlint.finding import Finding, Meta, Severity

if TYPE_CHECKING:
    import libcst as cst

META = Meta("HTD104", "broadcast-source", Severity.ERROR, since="0.1", needles=(b"non_blocking",))

BAD = """
import torch

table = torch.empty(64, 4096, device="cuda")
row = torch.zeros(4096, pin_memory=True)
table.copy_(row, non_blocking=True)
"""

GOOD = """
import torch

table = torch.empty(64, 4096, device="cuda")
row = torch.zeros(4096, pin_memory=True)
table.copy_(row.to("cuda", non_blocking=True))
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report a source that is repeated on the host to fill its destination."""
    if code_of(copy) != META.code:
        return
    yield META.finding(
        copy,
        f"{wording.source(copy)} is broadcast to fill {wording.destination(node)}: torch expands it into a pageable "
        f"temporary first, and the copy can stall the host{wording.because(copy)}",
        help=_remedy(copy, node),
    )


def _remedy(copy: Copy, node: cst.Call | None) -> str:
    """Send the small tensor, repeat it on the device."""
    text = copy.source_text if wording.quoted(copy.source_text, "") else "source"
    pin = ".pin_memory()" if Cause.PAGEABLE in copy.causes else ""
    target = wording.receiver(node) if len(wording.receiver(node)) <= wording.SHORT // 2 else ""
    target = target or "destination"
    sent = f"{wording.primary(text)}{pin}.to({target}.device, non_blocking=True)"
    guard = f", the pin {wording.PIN_FLAG}" if pin else ""
    return f"send it as it is and let the device repeat it: `{target}.copy_({sent})`{guard}"
