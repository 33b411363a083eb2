"""A number or a host tensor is assigned into a device tensor, in a form that makes the host wait.

## What it does

Reports `gpu[i] = 5.0` where that is a single element, `gpu[device_index] = 5.0`, and `gpu[a:b] = host_tensor`.
A warning where the device is a name (`device=dev`) that is not shown to be an accelerator.

This rule is off unless selected: `--select HTD2`, or `extend-select = ["HTD204"]`. Use it on code that runs at
every step; elsewhere such waits are harmless.

## Why is this bad

For a single element, and for places that an index tensor names, torch makes a host tensor of the value and
copies it with a wait. What it costs is what is queued on the device.

## Example

{BAD}

## Use instead

{GOOD}

For an index of one axis, `gpu.index_fill_(0, index, 5.0)`; for a host tensor,
`gpu[a:b].copy_(host.pin_memory(), non_blocking=True)`.

## Known limits

These do not wait and are not reported: a slice or a whole row filled with a number (`gpu[a:b] = 5.0`,
`gpu2d[i] = 5.0`), `gpu[i:i+1] = 5.0`, a device mask, and device values. Where the number of axes is not
shown, or whether an index on the device is a mask, nothing is reported. Curing one wait moves it to the next:
the message names the other waits of the function.

## Fix safety

No rewrite is proposed.

## References

- [PyTorch: Tensor.index_fill_](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.index_fill_.html)
- [PyTorch: asynchronous execution](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)
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
    "HTD204",
    "host-value-into-device-slice",
    Severity.ERROR,
    since="0.1",
    needles=(b"torch",),
    default=False,
    nodes=(),
    pitfalls=(Pitfall.HOST_VALUE,),
)

BAD = """
import torch

flags = torch.zeros(1024, device="cuda")


def mark(slot: int) -> None:
    flags[slot] = 1.0
"""

GOOD = """
import torch

flags = torch.zeros(1024, device="cuda")


def mark(slot: int) -> None:
    flags[slot].fill_(1.0)
"""


def check(copy: Copy, node: cst.Subscript | None) -> Iterator[Finding]:
    """Report a value that torch has to send."""
    if copy.pitfall is not Pitfall.HOST_VALUE:
        return
    place = wording.quoted(copy.source_text, "this place")
    yield META.finding(
        copy,
        f"the value assigned to {place} comes from the host, and the tensor {on_device(copy)}: torch sends it, and the "
        f"host waits for that{others(copy)}",
        help=_remedy(copy, place),
        severity=severity(copy),
        trace=(*copy.trace, *copy.related),
    )


def _remedy(copy: Copy, place: str) -> str:
    if copy.reveal.startswith("cpu |"):
        name = place if place != "this place" else "`place`"
        return f"write {name[:-1]}.copy_(host.pin_memory(), non_blocking=True)`, {wording.PIN_FLAG}"
    name = place if place != "this place" else "`place`"
    return f"write {name[:-1]}.fill_(value)` for one element, or `index_fill_` for an index tensor"
