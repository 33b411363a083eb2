"""A tensor is fetched from the device into pageable memory, and copied from there into pinned memory.

## What it does

Reports `.cpu()` and `.to("cpu")` whose result is pinned next: `x.cpu().pin_memory()`, also in two statements.

## Why is this bad

The bytes are written to host memory twice. The first copy goes through pageable memory, which the driver has to
stage; the second one is a copy on the host, by the thread that issues work. Both blocks are there at once, so the
host memory that is needed for a moment is twice the size or more.

## Example

{BAD}

## Use instead

{GOOD}

One copy, from the device into an allocation that is pinned.

## Known limits

Where it is not shown that the source lies on a device, the finding is only a note: `.cpu()` of a tensor that is on the
host already copies nothing. `.to("cpu", non_blocking=True)` returns pinned memory, so pinning it does nothing.

## Fix safety

Safe where the source is shown to lie on a device. Elsewhere the result is a copy of its own in any case, where the
original could be the very tensor.

## References

- [PyTorch: Tensor.pin_memory](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.pin_memory.html)
- [PyTorch tutorial: pin_memory and non_blocking](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from h2dlint.rules._choice import code_of

from h2dlint import wording
from h2dlint.facts.copies import Copy, Verdict
from h2dlint.finding import Finding, Meta, Severity

if TYPE_CHECKING:
    import libcst as cst

META = Meta(
    "HTD303",
    "double-host-copy",
    Severity.WARNING,
    since="0.1",
    needles=(b"pin_memory",),
)

BAD = """
import torch

scores = torch.rand(4096, 1024, device="cuda")
host = scores.cpu().pin_memory()
"""

GOOD = """
import torch

scores = torch.rand(4096, 1024, device="cuda")
host = torch.empty_like(scores, device="cpu", pin_memory=True).copy_(scores)
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report a download that is copied once more to be pinned."""
    if code_of(copy) != META.code or copy.follows is None:
        return
    place = copy.follows.place
    line = "" if place.span.end_line == copy.span.end_line else f" on {wording.where(copy, place)}"
    yield META.finding(
        copy,
        f"{wording.source(copy)} is fetched into pageable memory and then copied once more, into pinned memory{line}",
        help=f"copy once, into pinned memory: `{wording.pinned_download(copy)}`",
        severity=None if copy.verdict is Verdict.BLOCKING else Severity.NOTE,
        trace=(*copy.trace, place),
    )
