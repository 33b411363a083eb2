"""`.pin_memory()` on a tensor that is pinned already returns the tensor itself, and the code relies on a copy.

## What it does

Reports `.pin_memory()` on memory that is pinned already, where the result is sent with `non_blocking=True` and
the buffer is written again without a wait in between: further down, in the next round of the loop, or, as a
warning, in another method of the class.

## Why is this bad

Pinning a pageable tensor makes a copy that later writes do not touch. Pinning a pinned one makes nothing: the
next write goes into the bytes that the queued transfer still has to read. Measured on one NVIDIA H200, torch
2.11, behind queued work: the buffer held 1 when the copy was issued, was then filled with 2, and 2 arrived.
The values are wrong only when the GPU is behind, so tests pass.

## Example

{BAD}

## Use instead

{GOOD}

## Known limits

Where the function or class waits for anything at all (an event, a stream, `.item()`), nothing is reported:
the wait may be the one that makes it right. Writes by callees and through aliases made elsewhere are not
seen. A needless `.pin_memory()` that nothing relies on is not reported.

## Fix safety

`torch.empty_like(x, pin_memory=True).copy_(x)` is the copy that was meant. Safe where the pin stands in the
call that sends it; unsafe where it has a name of its own, which may be used as an alias on purpose.

## References

- [PyTorch: Tensor.pin_memory](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.pin_memory.html)
- [CUDA: API synchronization behavior](https://docs.nvidia.com/cuda/cuda-driver-api/api-sync-behavior.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from h2dlint import wording
from h2dlint.facts.copies import Copy, Pitfall
from h2dlint.finding import Finding, Meta, Severity

if TYPE_CHECKING:
    import libcst as cst

META = Meta(
    "HTD304",
    "pin-is-no-snapshot",
    Severity.ERROR,
    since="0.1",
    needles=(b"pin_memory",),
    nodes=(),
    pitfalls=(Pitfall.PIN_NO_SNAPSHOT,),
)

BAD = """
import torch


def feed(steps: int) -> list[torch.Tensor]:
    host = torch.zeros(1 << 20, pin_memory=True)
    sent = []
    for step in range(steps):
        host.fill_(step)
        sent.append(host.pin_memory().to("cuda", non_blocking=True))
    return sent
"""

GOOD = """
import torch


def feed(steps: int) -> list[torch.Tensor]:
    host = torch.zeros(1 << 20, pin_memory=True)
    sent = []
    for step in range(steps):
        host.fill_(step)
        sent.append(torch.empty_like(host, pin_memory=True).copy_(host).to("cuda", non_blocking=True))
    return sent
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report a pin that is taken for a snapshot."""
    if copy.pitfall is not Pitfall.PIN_NO_SNAPSHOT or not copy.related:
        return
    short = wording.quoted(copy.source_text, "")
    name = copy.source_text if short else "x"
    place = copy.related[0]
    reach = "" if copy.certain else "; no wait for the copy is in sight"
    yield META.finding(
        copy,
        f"{wording.source(copy)} is pinned already, so `.pin_memory()` returns the buffer itself, no snapshot: the "
        f"write on {wording.where(copy, place)} can change what a queued copy still has to read{reach}",
        help=f"copy it: `torch.empty_like({name}, pin_memory=True).copy_({name})`; or wait for the copy before "
        "the buffer is written again",
        severity=None if copy.certain else Severity.WARNING,
        trace=(*copy.trace, place),
    )
