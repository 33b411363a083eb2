"""A copy that asked to be asynchronous ran and was not, and the code alone does not show it.

## What it does

With `h2dlint check --trace FILE`, reports the copies that the trace saw go through pageable memory although they
asked for `non_blocking=True`, where no other rule can prove it from the source. The message has how often the copy
ran, what it cost, and what could not be followed.

Without a trace it reports nothing.

## Why is this bad

As with every fake-async copy the host may wait for everything queued on the device. Here that was measured, not
concluded.

## Example

{BAD}

The trace of a program that calls `upload(torch.rand(100_000), device)` shows a pageable source.

## Use instead

{GOOD}

## Known limits

A trace knows what happened in one run. Where the copy runs with other tensors too, it may be asynchronous there.
What happened in a file that has changed since is left out, and h2dlint says so.

It is a note where no call moved more than 8 KiB to the device: copies of that size never waited when measured.

## Fix safety

No rewrite is proposed: the code does not show what the copy gets.

## References

- [h2dlint: trace](https://h2dlint.readthedocs.io/trace)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from h2dlint.facts.copies import Copy
from h2dlint.finding import Finding, Meta, Severity

if TYPE_CHECKING:
    import libcst as cst

META = Meta("HTD191", "observed-fake-async", Severity.ERROR, since="0.1", nodes=())

BAD = """
import torch


def upload(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    return tensor.to(device, non_blocking=True)
"""

GOOD = """
import torch


def upload(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    return tensor.pin_memory().to(device, non_blocking=True)
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Nothing: the source alone does not tell. The engine makes the finding where there is a trace."""
    return iter(())
