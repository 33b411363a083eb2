"""A tensor comes to the host by a move that waits, is kept there, and is sent to the device again.

## What it does

Reports `.cpu()` and `.to("cpu")` whose result is kept, as a parameter's data, an attribute or an item of a
container, where the same module sends it to the device again: with `non_blocking=True`, or, for a parameter's
data, in the same function that brings it back.

## Why is this bad

A move to the host that does not ask to be asynchronous returns ordinary, pageable memory. Where the tensor was
pinned before it went up, it is not any more. Every later upload of it is staged by the driver and can stall the
host (see HTD101 for what that costs), although the code that uploads it looks right.

## Example

{BAD}

## Use instead

{GOOD}

One copy from the device into an allocation that is pinned. `parameter.data.cpu().pin_memory()` ends up pinned as
well, but copies twice on the host (HTD303).

## Known limits

`.to("cpu", non_blocking=True)` returns pinned memory and is not reported; the host must wait before it reads. Where
the source is not shown to lie on a device, only a move of the very place that goes up again is reported. Whole modules
(`model.cpu()`) are not, and nothing is where an `if` about pinning decides. Uploads in other modules are not looked
for.

## Fix safety

Unsafe: the same values arrive, but page-locked memory is scarce, and torch rounds each block up to a power of two, so
a whole model can take nearly twice its size.

## References

- [PyTorch: use pinned memory buffers](https://docs.pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers)
- [CUDA: API synchronization behavior](https://docs.nvidia.com/cuda/cuda-driver-api/api-sync-behavior.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from h2dlint.rules._choice import code_of

from h2dlint import wording
from h2dlint.facts.copies import Copy, Next
from h2dlint.finding import Finding, Meta, Severity

if TYPE_CHECKING:
    import libcst as cst

META = Meta(
    "HTD108",
    "unpinned-offload",
    Severity.WARNING,
    since="0.1",
    needles=(b"non_blocking", (b"parameters(", b".data.to("), (b"parameters(", b".data.cpu(")),
)

BAD = """
from contextlib import contextmanager


@contextmanager
def on_device(module, device):
    for parameter in module.parameters():
        parameter.data = parameter.data.to(device)
    try:
        yield module
    finally:
        for parameter in module.parameters():
            parameter.data = parameter.data.to("cpu")
"""

GOOD = """
from contextlib import contextmanager

import torch

PIN_MEMORY = torch.cuda.is_available()


@contextmanager
def on_device(module, device):
    for parameter in module.parameters():
        parameter.data = parameter.data.to(device)
    try:
        yield module
    finally:
        for parameter in module.parameters():
            parameter.data = torch.empty_like(
                parameter.data, device="cpu", pin_memory=PIN_MEMORY
            ).copy_(parameter.data)
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report a tensor that is kept in pageable memory between its stays on the device."""
    if code_of(copy) != META.code or copy.follows is None:
        return
    line = wording.where(copy, copy.follows.place)
    stalls = "can stall the host" if copy.follows.what is Next.SENT_ASKING else "is staged through pageable memory"
    yield META.finding(
        copy,
        f"{wording.source(copy)} is kept in pageable memory, and sent to the device again on {line}: each such upload "
        f"{stalls}",
        help=f"bring it into pinned memory: `{wording.pinned_download(copy)}`, {wording.PIN_FLAG}; it costs "
        "page-locked memory, each block rounded up to a power of two",
        trace=(*copy.trace, copy.follows.place),
    )
