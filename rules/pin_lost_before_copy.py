"""A tensor is pinned, then something makes a fresh pageable one of it, and that is what is copied.

## What it does

Reports a copy with `non_blocking=True` whose source comes from pinned memory through an operation that makes
a new tensor on the host: a cast, `clone`, arithmetic, `.contiguous()` of a view with gaps, indexing with a
list or a tensor.

## Why is this bad

Every result that is computed on the host lies in pageable memory, whatever its inputs were. The pin was paid
for and does nothing: the copy stalls the host as from any pageable tensor (see HTD101 for what that costs).
The code looks cured, which is what makes it last.

## Example

{BAD}

## Use instead

{GOOD}

Or let the device do it: a change of dtype inside the transfer, `host.to(device, torch.float16,
non_blocking=True)`, happens on the device, and so does anything after the transfer. To compute on the host,
compute in place, or into a pinned `out=`, and pin last.

## Known limits

Picking from a buffer that an object keeps, `self.table[rows]`, is HTD101: that buffer is still pinned, and
what is picked never was. So is joining several tensors, `torch.cat(pinned_parts)`. Where the pin is lost on
some paths only, HTD106 speaks.

## Fix safety

`.pin_memory()` moves behind the last operation of its expression. The values are the same, and it was called
before as well. Where the pin stands elsewhere, a pinned snapshot is made as for HTD101.

## References

- [PyTorch: use pinned memory buffers](https://docs.pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers)
- [PyTorch tutorial: pin_memory and non_blocking](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
from h2dlint.rules._choice import code_of

from h2dlint import wording
from h2dlint.facts.copies import Copy
from h2dlint.finding import Finding, Meta, Severity

if TYPE_CHECKING:
    import libcst as cst

META = Meta("HTD305", "pin-lost-before-copy", Severity.ERROR, since="0.1", needles=(b"non_blocking",))

BAD = """
import torch


def upload(frames: int, device: torch.device) -> torch.Tensor:
    pixels = torch.rand(frames, 256, 256)
    return pixels.pin_memory().half().to(device, non_blocking=True)
"""

GOOD = """
import torch


def upload(frames: int, device: torch.device) -> torch.Tensor:
    pixels = torch.rand(frames, 256, 256)
    return pixels.pin_memory().to(device, torch.float16, non_blocking=True)
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report a source that was pinned once."""
    if copy.lost_pin is None or code_of(copy) != META.code:
        return
    place = copy.lost_pin
    step = "indexing" if place.label == "fancy index" else f"`{place.label}`"
    yield META.finding(
        copy,
        f"{wording.source(copy)} was pinned and is not any more: {step} on {wording.where(copy, place)} made "
        f"a fresh pageable tensor of it, so this copy can stall the host{wording.size_remark(copy)}",
        help=f"pin last: {_remedy(copy, node)}, {wording.PIN_FLAG}; or do it on the device, after the transfer",
        severity=Severity.NOTE if wording.is_small(copy) else None,
    )


def _remedy(copy: Copy, node: cst.Call | None) -> str:
    """The source pinned at its end, without the pin that did not last."""
    text = copy.source_text.replace(".pin_memory()", "")
    return wording.pinned_call(msgspec.structs.replace(copy, source_text=text), node)
