"""A pair of a host and a device buffer is made, and the whole project uses the device side alone.

## What it does

Reports an attribute that holds such a pair, an object of a class of the project whose constructor makes one
tensor on the host and one on a device, where every mention of the attribute in the project is one of the
device side.

This rule is off unless selected: `--select HTD2`, or `extend-select = ["HTD205"]`. It reads every file of the
project.

## Why is this bad

The host side costs memory, page-locked memory as a rule, which is rounded up to a power of two and taken from
the whole machine. And it looks as if the data came from the host, where in truth a kernel writes it.

## Example

{BAD}

## Use instead

{GOOD}

## Known limits

Only pairs that one method sets once are looked at. A mention of any other kind, the object passed on, one of
its methods called, its name in a comment or a string, counts as a use of the host side; so does reading
attributes by name (`getattr`) anywhere in the file.

## Fix safety

No rewrite is proposed: the uses of the device side lose their suffix, in other files too.

## References

- [PyTorch: use pinned memory buffers](https://docs.pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers)
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
    "HTD205",
    "host-mirror-unused",
    Severity.WARNING,
    since="0.1",
    needles=(b"torch",),
    default=False,
    nodes=(),
    pitfalls=(Pitfall.MIRROR_UNUSED,),
)

BAD = """
import torch


class Pair:
    def __init__(self, n: int) -> None:
        self.cpu = torch.zeros(n, pin_memory=torch.cuda.is_available())
        self.gpu = torch.zeros(n, device="cuda")


class Steps:
    def __init__(self, most: int) -> None:
        self.kernel_slots = Pair(most)

    def advance(self) -> torch.Tensor:
        return self.kernel_slots.gpu.add_(1)
"""

GOOD = """
import torch


class Steps:
    def __init__(self, most: int) -> None:
        self.kernel_slots = torch.zeros(most, device="cuda")

    def advance(self) -> torch.Tensor:
        return self.kernel_slots.add_(1)
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report a host buffer that nothing reads or writes."""
    if copy.pitfall is not Pitfall.MIRROR_UNUSED:
        return
    used = wording.quoted(copy.source_text, "its device side")
    yield META.finding(
        copy,
        f"of this pair the project uses {used} alone: its host side, `.{copy.call}`, is allocated for nothing",
        help="allocate the device tensor alone, and use it without the suffix",
    )
