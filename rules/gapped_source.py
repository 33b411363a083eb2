"""A copy from host to device asks for `non_blocking=True`, and its source is a view that leaves gaps in memory.

## What it does

Reports `non_blocking=True` copies whose source is a view with holes: `x[:, :n]`, `x[::2]`, a column, an inner
slab, `expand`, `unfold`. It is a warning instead of an error where the view leaves no gap if the slice
happens to span the whole row.

## Why is this bad

One transfer moves one dense block. For a view with gaps, torch first gathers the elements into a fresh
temporary on the host, and that temporary is pageable, even when the buffer behind the view is pinned. The
copy then stalls the host just as from an unpinned buffer.

Measured on one NVIDIA H200, torch 2.11: 60 steps of 5 ms that each copied `[:, :n]` of a pinned three-row
buffer held the host for 293 ms. The same copy row by row let it go after 8 ms.

## Example

{BAD}

## Use instead

{GOOD}

Row by row is best up to about eight rows. With more rows write `host[:, :n].contiguous().pin_memory()`. Where
both buffers have the same full width and the tail may be overwritten, one copy of the whole width is best of
all.

`.pin_memory()` on the view itself does not help: it keeps the gaps, and on a pinned buffer it does nothing at
all.

## Known limits

A slice of rows (`x[:n]`), one row (`x[i, :n]`), `view`, `unsqueeze`, `t()` and `permute` leave no gap and are
not reported.

## Fix safety

A loop over rows writes the same values. It is proposed only where the number of rows is shown to be small.
`.contiguous().pin_memory()` is safe behind a flag that is true just where an accelerator is present.

## References

- [PyTorch: tensor views](https://docs.pytorch.org/docs/stable/tensor_view.html)
- [PyTorch: Tensor.contiguous](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.contiguous.html)
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

META = Meta("HTD103", "gapped-source", Severity.ERROR, since="0.1", needles=(b"non_blocking",))

BAD = """
import torch


class Positions:
    def __init__(self, capacity: int) -> None:
        self.host = torch.zeros(3, capacity + 1, dtype=torch.int64, pin_memory=True)
        self.device = torch.zeros(3, capacity + 1, dtype=torch.int64, device="cuda")

    def upload(self, n: int) -> None:
        self.device[:, :n].copy_(self.host[:, :n], non_blocking=True)
"""

GOOD = """
import torch


class Positions:
    def __init__(self, capacity: int) -> None:
        self.host = torch.zeros(3, capacity + 1, dtype=torch.int64, pin_memory=True)
        self.device = torch.zeros(3, capacity + 1, dtype=torch.int64, device="cuda")

    def upload(self, n: int) -> None:
        for row in range(3):
            self.device[row, :n].copy_(self.host[row, :n], non_blocking=True)
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report a view with gaps, or one that may have them."""
    if code_of(copy) != META.code:
        return
    maybe = copy.verdict is Verdict.CONDITIONAL
    severity = Severity.WARNING if maybe else None
    yield META.finding(
        copy,
        f"{wording.source(copy)} {_state(copy, maybe)}: torch gathers it into a pageable temporary first, and the copy "
        f"can stall the host{wording.because(copy)}{wording.size_remark(copy)}",
        help=_remedy(copy, node),
        severity=Severity.NOTE if wording.is_small(copy) else severity,
    )


def _state(copy: Copy, maybe: bool) -> str:
    if wording.layout(copy) == "permuted":
        return "has its axes in another order than this copy needs"
    return "leaves gaps unless it spans whole rows" if maybe else "leaves gaps"


def _remedy(copy: Copy, node: cst.Call | None) -> str:
    dense = f"write {wording.pinned_call(copy, node)}, {wording.PIN_FLAG}"
    if wording.layout(copy) == "permuted":
        return f"{dense}; `.pin_memory()` alone keeps the order"
    return f"up to about 8 rows: one copy per row; more: {dense}; `.pin_memory()` alone keeps the gaps"
