"""A batch of a DataLoader is copied with `non_blocking=True`, and the loader hands it out in pageable memory.

## What it does

Reports `.to(...)`, `.cuda(...)` and `copy_(...)` with `non_blocking=True` whose source is what a
`torch.utils.data.DataLoader` hands out, where the loader does not pin it:

- it has no `pin_memory`, or is told not to pin;
- it pins, but the batch is an object of a class without a `pin_memory()` method, or that method leaves this
  tensor out;
- its `collate_fn` pins in worker processes, and the pin is lost on the way to the main process.

Loaders are followed through iteration, `next(iter(loader))`, `enumerate`, `zip`, `tqdm`, attributes, factories and
prefetchers, and the fields of a batch through `collate_fn`.

## Why is this bad

A batch that a loader does not pin lies in ordinary memory, so the copy is staged by the driver and the host waits
once the staging space is taken (see HTD101 for what that costs). In a training loop that is at each step, and the
overlap of copy and compute that `non_blocking=True` was written for does not happen.

## Example

{BAD}

## Use instead

{GOOD}

The loader pins in a thread of its own while the training loop is busy. `.pin_memory()` in the loop takes that time
from the loop, and in a `collate_fn` or a dataset it does no good: what a worker pins is not pinned any more in the
main process, and workers should not touch the device (HTD306).

With `pin_memory=True` a loader pins tensors, and tensors in tuples, lists and dicts. A batch class of your own needs
a method:

    def pin_memory(self):
        self.ids = self.ids.pin_memory()
        return self

## Known limits

A `collate_fn` that cannot be followed says nothing: then the copy is unproven. Of a dataset that is not seen it is
taken that its items lie on the host, since they are sent to a device. A view with gaps is HTD103: the loader keeps
the gaps. A cast or an index before the transfer makes a new tensor: HTD101 or, of a pinned batch, HTD305. ndarrays
are not pinned by any loader: HTD102. Where a flag of unknown or off default decides, HTD106 speaks.

## Fix safety

`pin_memory=`, with your project's own flag for it or else `torch.cuda.is_available()`, goes to the loader. It is
safe with torch's own collate function, which keeps every value and type. It is unsafe with a `collate_fn`: a loader
makes the containers of a batch anew when it pins, so that a subclass of `dict` may come back as a plain one. There
is no fix where the batch is an object without `pin_memory()`, where a device tensor is collated, where options come
from elsewhere, and where the loader names a `pin_memory_device`.

## References

- [PyTorch: memory pinning of loaders](https://docs.pytorch.org/docs/stable/data.html#memory-pinning)
- [PyTorch: use pinned memory buffers](https://docs.pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers)
- [PyTorch tutorial: pin_memory and non_blocking](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from h2dlint.rules._choice import code_of

from h2dlint import wording
from h2dlint.facts.copies import Copy, Pinning, Place
from h2dlint.finding import Finding, Meta, Severity

if TYPE_CHECKING:
    import libcst as cst

META = Meta("HTD105", "unpinned-loader-batch", Severity.ERROR, since="0.1", needles=(b"non_blocking",))

BAD = """
import torch
from torch.utils.data import DataLoader, Dataset


def train(model: torch.nn.Module, dataset: Dataset, device: torch.device) -> None:
    loader = DataLoader(dataset, batch_size=64, num_workers=4)
    for images in loader:
        model(images.to(device, non_blocking=True)).backward()
"""

GOOD = """
import torch
from torch.utils.data import DataLoader, Dataset

PIN_MEMORY = torch.cuda.is_available()


def train(model: torch.nn.Module, dataset: Dataset, device: torch.device) -> None:
    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=PIN_MEMORY)
    for images in loader:
        model(images.to(device, non_blocking=True)).backward()
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Report a batch that its loader left in pageable memory."""
    place = wording.allocation(copy)
    if place is None or code_of(copy) != META.code:
        return
    yield META.finding(
        copy,
        f"{wording.source(copy)} comes from a DataLoader and is pageable, so this copy can stall the host"
        f" ({wording.where(copy, place)}: {place.message}){wording.size_remark(copy)}",
        help=_help(copy, place),
        severity=Severity.NOTE if wording.is_small(copy) else None,
    )


def _help(copy: Copy, place: Place) -> str:
    where = wording.where(copy, place)
    if place.pinning is Pinning.LEFT_OUT:
        return (
            "give the class of the batch a `pin_memory()` that pins all its tensors and returns it: the loader calls it"
        )
    if "worker" in place.message:
        return f"leave it pageable in the worker, and give the loader on {where} `pin_memory=`, {wording.PIN_FLAG}"
    return f"give the loader on {where} `pin_memory=`, {wording.PIN_FLAG}: it pins in a thread of its own"
