"""A device tensor is indexed with a list, an ndarray or a host tensor: the index is sent first, with a wait.

## What it does

Reports `gpu[index]` and `gpu[index] = value` where `index` is a Python list, an ndarray, or a host tensor of
one axis or more, and `gpu` lies on a device. A warning where the device is a name (`device=dev`) that is not
shown to be an accelerator.

This rule is off unless selected: `--select HTD2`, or `extend-select = ["HTD202"]`. Use it on code that runs at
every step: a decoding loop, a training step, whatever must not wait for the GPU's queue. Elsewhere such waits
are harmless.

## Why is this bad

There is no transfer to be seen, and no `non_blocking` to ask with: torch copies the index to the device by
itself and waits until it is there. A pinned index does not help, the wait stays. What it costs is what is
queued on the device.

## Example

{BAD}

## Use instead

{GOOD}

An index that does not change is sent once, in the constructor.

## Known limits

These do not wait and are not reported: numbers and slices, a device index of one axis or more, a host tensor
of one element, and reading through a boolean host mask, which torch copies pinned. Curing one wait moves it
to the next: the message names the other waits of the function.

## Fix safety

No rewrite is proposed: where the index is best sent depends on where it comes from.

## References

- [PyTorch: asynchronous execution](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)
- [PyTorch: torch.cuda.set_sync_debug_mode](https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from h2dlint.rules._waits import on_device, others, severity

from h2dlint import wording
from h2dlint.facts.copies import Copy, Pitfall
from h2dlint.finding import Finding, Meta, Severity

if TYPE_CHECKING:
    import libcst as cst

META = Meta(
    "HTD202",
    "host-index-on-device-tensor",
    Severity.ERROR,
    since="0.1",
    needles=(b"torch",),
    default=False,
    nodes=(),
    pitfalls=(Pitfall.HOST_INDEX,),
)

BAD = """
import torch


def pick(table: torch.Tensor, rows: list[int]) -> torch.Tensor:
    table = table.cuda()
    return table[rows]
"""

GOOD = """
import torch


def pick(table: torch.Tensor, rows: list[int]) -> torch.Tensor:
    table = table.cuda()
    index = torch.tensor(rows, pin_memory=True)
    return table[index.to("cuda", non_blocking=True)]
"""


def check(copy: Copy, node: cst.Subscript | None) -> Iterator[Finding]:
    """Report an index that torch has to send."""
    if copy.pitfall is not Pitfall.HOST_INDEX:
        return
    index = wording.quoted(copy.source_text, "this index")
    yield META.finding(
        copy,
        f"{index} is on the host and the tensor that it indexes {on_device(copy)}: torch sends the index first, and "
        f"the host waits for that{others(copy)}",
        help="send it yourself: `index.pin_memory().to(device, non_blocking=True)`, and index with that",
        severity=severity(copy),
        trace=(*copy.trace, *copy.related),
    )
