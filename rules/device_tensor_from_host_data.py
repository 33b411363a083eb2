"""A tensor is made on the device from numbers, a list or an array: the host waits until they are there.

## What it does

Reports `torch.tensor(data, device=...)`, `torch.as_tensor(data, device=...)`, `gpu.new_tensor(data)` and
`torch.cuda.FloatTensor(data)` for host data and a device. A warning where the device is a name (`device=dev`)
that is not shown to be an accelerator. It also reports data that lies on a device and is read back for it,
`torch.tensor([scores[0]], device=...)`.

This rule is off unless selected: `--select HTD2`, or `extend-select = ["HTD203"]`. Use it on code that runs at
every step; at start-up such waits are harmless.

## Why is this bad

The call copies from pageable memory and waits for it; there is no way to ask it not to, and
`pin_memory=True` beside an accelerator changes nothing. What it costs is what is queued on the device.

## Example

{BAD}

## Use instead

{GOOD}

`arange`, `zeros`, `full`, `linspace` and `scalar_tensor` with `device=` do not wait: a number travels with
the launch.

## Known limits

An argument of unknown kind may be a device tensor, so `as_tensor(x, device=...)` is reported only where `x`
is shown to be host data. Curing one wait moves it to the next: the message names the other waits of the
function.

## Fix safety

No rewrite is proposed: `full` takes a single number only, and a list needs a pinned tensor.

## References

- [PyTorch: torch.tensor](https://docs.pytorch.org/docs/stable/generated/torch.tensor.html)
- [PyTorch: torch.full](https://docs.pytorch.org/docs/stable/generated/torch.full.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from h2dlint.rules._waits import on_device, others, severity

from h2dlint import wording
from h2dlint.facts.copies import Copy, Direction, Pitfall
from h2dlint.finding import Finding, Meta, Severity

if TYPE_CHECKING:
    import libcst as cst

META = Meta(
    "HTD203",
    "device-tensor-from-host-data",
    Severity.ERROR,
    since="0.1",
    needles=(b"torch",),
    default=False,
    nodes=(),
    pitfalls=(Pitfall.HOST_DATA,),
)

BAD = """
import torch


def count(tokens: int) -> torch.Tensor:
    return torch.tensor(tokens, dtype=torch.int32, device="cuda")
"""

GOOD = """
import torch


def count(tokens: int) -> torch.Tensor:
    return torch.full((), tokens, dtype=torch.int32, device="cuda")
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report host data that a factory sends to the device."""
    if copy.pitfall is not Pitfall.HOST_DATA:
        return
    data = wording.quoted(copy.source_text, "its data")
    if copy.direction is Direction.D2H:
        message = f"{data} holds values of the device: `{copy.call}` reads them back and sends them again, and the host"
        help = "stay on the device: slice the tensor, or `torch.stack` its elements"
    else:
        message = f"`{copy.call}` copies {data} from the host, the result {on_device(copy)}, and the host"
        help = (
            "one number: `torch.full((), number, device=...)`; more: "
            "`torch.tensor(data, pin_memory=...).to(device, non_blocking=True)`"
        )
    yield META.finding(
        copy,
        f"{message} waits for that{others(copy)}",
        help=help,
        severity=severity(copy),
        trace=(*copy.trace, *copy.related),
    )
