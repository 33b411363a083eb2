"""An index is counted out on the CPU only to be copied to the device, which can count by itself.

## What it does

Reports `non_blocking=True` copies whose source is made of `arange`, `zeros`, `full` and their kin alone,
reshaped, stacked or added up on the CPU.

## Why is this bad

The source is fresh, pageable memory, so the copy can stall the host (see HTD101), and all of it is needless:
the same integers come out when the device makes them, with no transfer and no work for the host.

Measured on one NVIDIA H200, torch 2.11: position ids for a 64 x 64 grid over 4 frames, built on the host and
then copied, held a loop of 60 steps for 265 ms. With `.pin_memory()` it was 19 ms, built on the device 12 ms.

## Example

{BAD}

## Use instead

{GOOD}

In a chain of calls, every factory gets the `device=`; what is computed from them follows.

## Known limits

Random and floating-point construction gives other values on the device and is left to HTD101. So is a chain
that holds values from the host, such as `torch.tensor(lengths)`.

## Fix safety

Safe for integers and booleans where the device is known before the index is built, and nothing on the host
reads the index.

## References

- [PyTorch: torch.arange](https://docs.pytorch.org/docs/stable/generated/torch.arange.html)
- [PyTorch: performance tuning, create tensors directly on the target device](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
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

META = Meta("HTD201", "host-built-index", Severity.ERROR, since="0.1", needles=(b"non_blocking",))

BAD = """
import torch


def positions(n: int, device: torch.device) -> torch.Tensor:
    ids = torch.arange(n).unsqueeze(0)
    return ids.to(device, non_blocking=True)
"""

GOOD = """
import torch


def positions(n: int, device: torch.device) -> torch.Tensor:
    return torch.arange(n, device=device).unsqueeze(0)
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report an index that the device could have made itself."""
    if code_of(copy) != META.code:
        return
    start = f" (it starts from {_start(copy)})" if copy.trace else ""
    yield META.finding(
        copy,
        f"{wording.source(copy)} is made on the host only to be copied: the device can make it itself, and this copy "
        f"can stall the host{start}{wording.size_remark(copy)}",
        help=_remedy(copy),
        severity=Severity.NOTE if wording.is_small(copy) else None,
    )


def _start(copy: Copy) -> str:
    """The factory that the chain starts from."""
    return f"`{copy.trace[0].label}` on {wording.where(copy, copy.trace[0])}" if copy.trace else ""


def _remedy(copy: Copy) -> str:
    return f"pass `device=` to {_start(copy) or 'the calls that build it'} and drop the copy"
