"""A copy from host to device asks for `non_blocking=True`, and its source is pinned on some paths only.

## What it does

Reports `non_blocking=True` copies that stall the host on one path, for one caller or under one configuration,
and not on another. The message names one of each.

## Why is this bad

Such a copy looks right in review and in the benchmark that took the good path. In production the other path
runs, and every step waits for the GPU's queue (see HTD101 for what that costs).

## Example

{BAD}

## Use instead

{GOOD}

The operation in place keeps the pinned memory; `clamp` makes a new, pageable tensor.

Where the pin flag is an availability test *and* a configuration, as in `PIN_MEMORY and not config.legacy`,
pin a snapshot behind the availability test alone, right before the copy.

## Known limits

A flag that is nothing but an availability test counts as true: without an accelerator there is no copy to
stall. An opt-out switch that is off by default is not reported.

## Fix safety

A snapshot keeps the values. On the path that was pinned already, `.pin_memory()` returns the same tensor and
costs nothing.

## References

- [PyTorch: use pinned memory buffers](https://docs.pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers)
- [PyTorch: Tensor.pin_memory](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.pin_memory.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from h2dlint.rules._choice import code_of

from h2dlint import wording
from h2dlint.facts.copies import Branch, Copy, Direction
from h2dlint.finding import Finding, Meta, Severity

if TYPE_CHECKING:
    import libcst as cst

META = Meta("HTD106", "pin-on-some-paths", Severity.WARNING, since="0.1", needles=(b"non_blocking",))

BAD = """
import torch

PIN_MEMORY = torch.cuda.is_available()


def upload_lengths(lengths: list[int], padded: bool, device: torch.device) -> torch.Tensor:
    host = torch.tensor(lengths, dtype=torch.int64, pin_memory=PIN_MEMORY)
    if padded:
        host = host.clamp(min=8)
    return host.to(device, non_blocking=True)
"""

GOOD = """
import torch

PIN_MEMORY = torch.cuda.is_available()


def upload_lengths(lengths: list[int], padded: bool, device: torch.device) -> torch.Tensor:
    host = torch.tensor(lengths, dtype=torch.int64, pin_memory=PIN_MEMORY)
    if padded:
        host.clamp_(min=8)
    return host.to(device, non_blocking=True)
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report a copy that stalls on some of its ways, unless only a switch nobody has turned leads there."""
    if code_of(copy) != META.code:
        return
    fake = next((b for b in copy.branches if b.fake and b.by_default), None)
    if fake is None:  # only a switch that nobody has turned leads there
        return
    fine = [b for b in copy.branches if b.fake is False]
    told = next((b for b in fine if b.text != fake.text), None)  # what sets the ways apart may have no name
    other = f"; not {_when(told)}" if told and told.text != "otherwise" else ""
    yield META.finding(
        copy,
        f"{_subject(copy, node, somewhere=bool(fine))}: the copy can stall the host {_stalls(copy, fake)}{other}"
        f"{wording.size_remark(copy)}",
        help=_remedy(copy, node),
        severity=Severity.NOTE if wording.is_small(copy) else None,
    )


def _stalls(copy: Copy, branch: Branch) -> str:
    """When it does; by the place that made it so where the way has no name of its own."""
    return f"where it is not{wording.because(copy)}" if branch.text == "here" else _when(branch)


def _when(branch: Branch) -> str:
    """The branch as a clause that can follow `the copy can stall the host`."""
    return branch.text.replace("called from", "when called from")


def _subject(copy: Copy, node: cst.Call | None, *, somewhere: bool) -> str:
    """Whether the memory is right on some paths, or no path shows that it is."""
    memory = wording.destination(node) if copy.direction is Direction.D2H else wording.source(copy)
    return (
        f"{memory} is pinned and dense only on some paths" if somewhere else f"{memory} is not always pinned and dense"
    )


def _remedy(copy: Copy, node: cst.Call | None) -> str:
    if copy.direction is Direction.D2H:
        return "allocate the destination with `pin_memory=` your project's pin flag on every path"
    pinned = wording.pinned_call(copy, node)
    return f"write {pinned}, {wording.PIN_FLAG}: it does nothing where the source is pinned already"
