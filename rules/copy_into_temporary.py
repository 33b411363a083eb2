"""A `copy_` fills a tensor that indexing has just made, and that nobody keeps.

## What it does

Reports `x[index].copy_(y)` as a statement of its own, where `index` is provably a list, an ndarray, a mask, or a tensor
of at least one dimension. With or without `non_blocking`, whatever memory `x` has.

## Why is this bad

Indexing with numbers and slices gives a view, and `copy_` writes through it. Indexing with a list, an array or a mask
makes a copy: `copy_` fills that, and it is dropped. `x` is not changed, and nothing tells. On the CPU the copy is
pageable too, so a device-to-host `copy_` into it waits, for nothing.

## Example

{BAD}

## Use instead

{GOOD}

Assignment writes through any index, but host memory takes host values only there: `x[index] = y.cpu()`. Without a wait:
copy into a pinned buffer, wait for an event, then assign.

## Known limits

An index of unknown shape is not reported: a tensor of no dimension is a position, and gives a view.

## Fix safety

There is no fix: the program changes what it does.

## References

- [PyTorch: tensor views](https://docs.pytorch.org/docs/stable/tensor_view.html)
- [NumPy: advanced indexing](https://numpy.org/doc/stable/user/basics.indexing.html#advanced-indexing)
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

META = Meta("HTD403", "copy-into-temporary", Severity.ERROR, since="0.1", needles=(b"non_blocking",))

BAD = """
import torch

rows = torch.rand(2, 64, device="cuda")
host = torch.zeros(512, 64, pin_memory=True)
host[[3, 7]].copy_(rows)
"""

GOOD = """
import torch

rows = torch.rand(2, 64, device="cuda")
host = torch.zeros(512, 64, pin_memory=True)
host[[3, 7]] = rows.cpu()
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report a copy into what a fancy index has made."""
    if code_of(copy) != META.code:
        return
    target = wording.destination(node)
    yield META.finding(
        copy,
        f"{target} is a copy that indexing has just made: it is filled and dropped, and what it was taken from does "
        "not change",
        help="assign instead of `copy_`: `x[index] = y`, with `y` on the same device",
        trace=copy.trace,
    )
