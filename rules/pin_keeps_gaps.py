"""`.pin_memory()` on a view that leaves gaps: the pinned tensor has them too, so its copy is not asynchronous.

## What it does

Reports a copy with `non_blocking=True` whose source was pinned by `.pin_memory()` although it is a view with
gaps, or one in another order than the destination wants. Where no copy is in sight, the call of
`.pin_memory()` itself is reported, as a warning.

## Why is this bad

`.pin_memory()` keeps the strides: of a pageable view it makes a pinned tensor with the same gaps, and of a
view of pinned memory it makes nothing at all. One transfer moves one dense block, so torch still gathers the
elements into a pageable temporary first (see HTD103), and the host waits as before. The call looks like the
cure and costs a host copy on top.

Measured on one NVIDIA H200, torch 2.11: 60 steps of 5 ms that each copied `[:, :n]` of a pinned three-row
buffer held the host for 293 ms; from `.contiguous().pin_memory()` they let it go after 19 ms.

## Example

{BAD}

## Use instead

{GOOD}

Or copy row by row, up to about eight rows; or fill a dense pinned tensor:
`torch.empty(shape, pin_memory=True).copy_(view)`.

## Known limits

A permuted view that goes through `.to` or `.cuda` keeps its order and is asynchronous: it is not reported. A
view whose gaps depend on a slice's length is a warning. Rows of the pinned view that are copied one by one
are dense, so then nothing is reported.

## Fix safety

The same values arrive. `.contiguous()` goes in front of `.pin_memory()`, which was called before as well, so
nothing raises that did not. Safe.

## References

- [PyTorch: tensor views](https://docs.pytorch.org/docs/stable/tensor_view.html)
- [PyTorch: Tensor.pin_memory](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.pin_memory.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from h2dlint.rules._choice import code_of

from h2dlint import wording
from h2dlint.facts.copies import Copy, Pitfall, Verdict
from h2dlint.finding import Finding, Meta, Severity

if TYPE_CHECKING:
    import libcst as cst

META = Meta(
    "HTD301",
    "pin-keeps-gaps",
    Severity.ERROR,
    since="0.1",
    needles=(b"pin_memory",),
    pitfalls=(Pitfall.PIN_KEEPS_GAPS,),
)

BAD = """
import torch

table = torch.zeros(64, 4096)


def upload(n: int, device: torch.device) -> torch.Tensor:
    return table[:, 1:n].pin_memory().to(device, non_blocking=True)
"""

GOOD = """
import torch

table = torch.zeros(64, 4096)


def upload(n: int, device: torch.device) -> torch.Tensor:
    return table[:, 1:n].contiguous().pin_memory().to(device, non_blocking=True)
"""

HELP = "make it dense first: `.contiguous().pin_memory()`; or copy a few rows one by one, each is dense"


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report a pin that was meant to make a copy asynchronous and cannot."""
    if copy.pitfall is Pitfall.PIN_KEEPS_GAPS:
        yield META.finding(
            copy,
            f"{wording.source(copy)} leaves gaps, and `.pin_memory()` keeps them: a copy of the whole of it still goes "
            "through a pageable temporary",
            help=HELP,
            severity=Severity.WARNING,
        )
    elif copy.kept_gaps is not None and code_of(copy) == META.code:
        maybe = copy.verdict is Verdict.CONDITIONAL
        unless = " unless the slice spans the whole row" if maybe else ""
        yield META.finding(
            copy,
            f"{wording.source(copy)} was pinned, but `.pin_memory()` keeps the gaps or the order of a view: torch "
            f"gathers it into a pageable temporary first{unless}, and the copy can stall the host"
            f" ({wording.where(copy, copy.kept_gaps)}: pinned as it lies)",
            help=HELP,
            severity=Severity.WARNING if maybe else None,
        )
