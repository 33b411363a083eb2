"""The result of `.pin_memory()`, `.to(...)` or `.cuda()` is thrown away: neither changes a tensor in place.

## What it does

Reports a call of `.pin_memory()`, `.to(...)`, `.cuda()` and their kin that is a statement of its own, on a
tensor that goes on afterwards.

## Why is this bad

A module moves in place, a tensor does not: the call returns another tensor, and nobody keeps it. The tensor
stays where it was, pageable, and the copy that relied on the pin waits (HTD101). The call itself costs a host
copy or a transfer each time.

## Example

{BAD}

## Use instead

{GOOD}

## Known limits

Only what is shown to be a tensor is reported: modules, batches and objects of other classes may move in
place, and so may what a container holds. Calls on a fresh tensor (`torch.zeros(1).cuda()`), which start the
device up, calls whose error is caught, and functions that measure time are left alone, and so is `.cpu()`,
which is used to wait. Files that mention neither `pin_memory` nor `non_blocking` are not looked at.

## Fix safety

`x.pin_memory()` becomes `x = x.pin_memory()`. That is safe for a local tensor that nothing else refers to
yet; it is unsafe for others, whose aliases keep the old memory. A moved tensor is not rewritten: what follows
would run on another device.

## References

- [PyTorch: Tensor.pin_memory](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.pin_memory.html)
- [PyTorch: Tensor.to](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html)
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
    "HTD302",
    "discarded-pin",
    Severity.ERROR,
    since="0.1",
    needles=(b"pin_memory", b"non_blocking"),
    nodes=(),
    pitfalls=(Pitfall.PIN_DISCARDED, Pitfall.MOVE_DISCARDED),
)

BAD = """
import torch


def staging(n: int) -> torch.Tensor:
    host = torch.rand(n, 4096)
    host.pin_memory()
    return host
"""

GOOD = """
import torch


def staging(n: int) -> torch.Tensor:
    host = torch.rand(n, 4096)
    return host.pin_memory()
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report a pinned or moved tensor that nobody keeps."""
    name = copy.source_text if wording.quoted(copy.source_text, "") else "x"
    if copy.pitfall is Pitfall.PIN_DISCARDED:
        yield META.finding(
            copy,
            f"the pinned copy of {wording.source(copy)} is thrown away: `.pin_memory()` does not pin in place",
            help=f"keep it: `{name} = {name}.pin_memory()`, {wording.PIN_FLAG}; or allocate it with `pin_memory=`",
        )
    elif copy.pitfall is Pitfall.MOVE_DISCARDED:
        yield META.finding(
            copy,
            f"what `.{copy.call}` makes of {wording.source(copy)} is thrown away: it changes modules in place, "
            "not tensors",
            help=f"keep it: `{name} = {name}.{copy.call}(...)`, or drop the call",
        )
