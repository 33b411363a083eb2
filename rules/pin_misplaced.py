"""Memory is pinned where that raises or does no good: on a device, in a loader's worker, in a captured graph.

## What it does

Reports

- `.pin_memory()` on a tensor that lies on the device, and a `DataLoader(pin_memory=True)` over a dataset that
  hands out such tensors;
- `pin_memory=True` at a factory whose device is an accelerator: by argument, by its prototype, or because a
  default device is set around it;
- pinning in code that runs in a loader's worker processes: `collate_fn`, a dataset's `__getitem__`;
- pinning inside `with torch.cuda.graph(...)`, and, as a note, in functions under `torch.compile`.

## Why is this bad

The first two raise. A batch that a worker pins is sent to the main process through shared memory, which is
pageable: the pin is lost, and each worker has started a device context for it. While a graph is captured
nothing on the host is recorded: the snapshot is made once, and every replay sends that same memory again.

## Example

{BAD}

## Use instead

{GOOD}

In a worker, leave the batch pageable and write `DataLoader(..., pin_memory=True)`, which pins in a thread of
the main process. For a graph, copy into a static pinned buffer before each replay.

## Known limits

Devices and flags must be shown. With `num_workers=0` a dataset runs in the main process, where pinning is
fine: without a loader in sight a dataset that pins is a note, and where a variable gives the number of
workers it is a warning. Calls whose error is caught are left alone.

## Fix safety

No rewrite is proposed: where the pin belongs is another place.

## References

- [PyTorch: memory pinning in data loading](https://docs.pytorch.org/docs/stable/data.html#memory-pinning)
- [PyTorch: torch.cuda.graph](https://docs.pytorch.org/docs/stable/generated/torch.cuda.graph.html)
- [PyTorch: torch.set_default_device](https://docs.pytorch.org/docs/stable/generated/torch.set_default_device.html)
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
    "HTD306",
    "pin-misplaced",
    Severity.ERROR,
    since="0.1",
    needles=(b"pin_memory",),
    nodes=(),
    pitfalls=(
        Pitfall.PIN_ON_DEVICE,
        Pitfall.PIN_FOR_DEVICE,
        Pitfall.PIN_UNDER_DEVICE,
        Pitfall.PIN_OF_DEVICE_BATCH,
        Pitfall.PIN_IN_WORKER,
        Pitfall.PIN_IN_CAPTURE,
        Pitfall.PIN_COMPILED,
    ),
)

BAD = """
import torch


def staging(n: int) -> torch.Tensor:
    return torch.empty(n, device="cuda", pin_memory=True)
"""

GOOD = """
import torch


def staging(n: int) -> torch.Tensor:
    return torch.empty(n, device="cpu", pin_memory=True)
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report a pin that raises, or that cannot help where it stands."""
    if copy.pitfall not in META.pitfalls or copy.pitfall is None:
        return
    message, help = _SAYS[copy.pitfall]
    yield META.finding(
        copy,
        message.format(source=wording.source(copy), call=copy.call, where=_where(copy)),
        help=help,
        severity=_severity(copy),
        trace=(*copy.trace, *copy.related),
    )


def _severity(copy: Copy) -> Severity | None:
    if copy.certain:
        return None
    unseen = copy.pitfall is Pitfall.PIN_COMPILED or not copy.related
    return Severity.NOTE if unseen else Severity.WARNING


def _where(copy: Copy) -> str:
    """` (called from line 12)`, ` (line 12)`, or nothing where no other place takes part."""
    if not copy.related:
        return ""
    place = copy.related[0]
    called = "called from " if place.label == "caller" else ""
    return f" ({called}{wording.where(copy, place)})"


_SAYS: dict[Pitfall, tuple[str, str]] = {
    Pitfall.PIN_ON_DEVICE: (
        "{source} lies on the device{where}: `.pin_memory()` pins host memory only, and raises",
        "pin before the transfer: `host.pin_memory().to(device, non_blocking=True)`; drop it here",
    ),
    Pitfall.PIN_FOR_DEVICE: (
        "`{call}` with `pin_memory=True` makes a tensor on the device{where}: that raises",
        'write `device="cpu"` for a host buffer, or drop `pin_memory=True` for a device tensor',
    ),
    Pitfall.PIN_UNDER_DEVICE: (
        "`{call}` with `pin_memory=True` runs under a default device{where}, so it makes a tensor there: that raises",
        'write `device="cpu"` beside `pin_memory=True`',
    ),
    Pitfall.PIN_OF_DEVICE_BATCH: (
        "this loader pins what its dataset hands out, and that lies on the device{where}: the first batch raises",
        "keep the dataset's tensors on the host, or drop `pin_memory=True`",
    ),
    Pitfall.PIN_IN_WORKER: (
        "this pins in a loader's worker process{where}: the batch goes to the main process through shared memory, "
        "where the pin is lost",
        "leave it pageable here and write `DataLoader(..., pin_memory=True)`",
    ),
    Pitfall.PIN_IN_CAPTURE: (
        "this pins while a graph is captured{where}: the host's part is not recorded, so every replay sends the same "
        "memory again",
        "fill a static pinned buffer before each replay, and capture the copy from it alone",
    ),
    Pitfall.PIN_COMPILED: (
        "this pins in a function that is compiled{where}: pinning is the host's business and breaks the graph there",
        "pin before the call, outside of the compiled function",
    ),
}
