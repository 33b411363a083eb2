"""A copy from host to device asks for `non_blocking=True`, and its source lives in the memory of a numpy array.

## What it does

Reports `non_blocking=True` copies whose source is `torch.from_numpy(array)`, `torch.as_tensor(array)` or a
view of such a tensor, where the array is provably an ordinary one.

## Why is this bad

`from_numpy` copies nothing: the tensor is the array's memory, and numpy allocates pageable memory. The driver
has to stage the bytes on the calling thread, and once its staging space is taken the host waits for the GPU's
queue (see HTD101 for what that costs).

## Example

{BAD}

## Use instead

{GOOD}

To save the extra host copy, let numpy write into memory that is pinned from the start: `buffer =
torch.empty(n, pin_memory=PIN_MEMORY)` once, then fill `buffer.numpy()[:n]` and copy `buffer[:n]`; wait on an
event before filling it again. For a list of arrays, `torch.cat(parts, out=pinned)`.

## Known limits

An array that is itself a view of a pinned tensor (`pinned.numpy()`) gives a pinned tensor back, and is not
reported. An array of unknown origin, such as a parameter, may be one: it stays unproven (HTD190).

## Fix safety

`.pin_memory()` keeps the values, and it cuts the tie to the array: later writes to the array no longer reach
the tensor. It is safe behind a flag that is true just where an accelerator is present.

## References

- [PyTorch: torch.from_numpy](https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html)
- [PyTorch: use pinned memory buffers](https://docs.pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers)
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

META = Meta("HTD102", "numpy-source", Severity.ERROR, since="0.1", needles=(b"non_blocking",))

BAD = """
import numpy as np
import torch


def upload_offsets(lengths: list[int], device: torch.device) -> torch.Tensor:
    offsets = torch.from_numpy(np.cumsum(lengths))
    return offsets.to(device, non_blocking=True)
"""

GOOD = """
import numpy as np
import torch

PIN_MEMORY = torch.cuda.is_available()


def upload_offsets(lengths: list[int], device: torch.device) -> torch.Tensor:
    offsets = torch.from_numpy(np.cumsum(lengths))
    if PIN_MEMORY:
        offsets = offsets.pin_memory()
    return offsets.to(device, non_blocking=True)
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report a source on an ndarray's memory."""
    if code_of(copy) != META.code:
        return
    yield META.finding(
        copy,
        f"{wording.source(copy)} lies in a numpy array's memory, which is pageable, so this copy can stall the host"
        f"{wording.because(copy)}{wording.size_remark(copy)}",
        help=wording.pin_help(copy, node),
        severity=Severity.NOTE if wording.is_small(copy) else None,
    )
