"""A copy asks for `non_blocking=True`, and the code does not show whether it is asynchronous.

## What it does

Notes every copy with `non_blocking` whose source or destination cannot be followed to where its memory was
allocated. The notes are counted in the summary and listed with `--show-unproven`; with `--strict` they are
errors.

## Why is this bad

It need not be. But a copy that nobody can prove asynchronous is one that a later change can make stall
without anybody noticing.

## Example

{BAD}

## Use instead

{GOOD}

An assertion is evidence too: `assert tensor.is_pinned()`. So is a guard such as `if not tensor.is_cuda:
return`.

## Known limits

Values from outside the analysed files, from containers filled elsewhere, or from calls by name (`getattr`)
are not followed.

## Fix safety

No rewrite is proposed: without a proof there is nothing to repair.

## References

- [PyTorch: Tensor.is_pinned](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.is_pinned.html)
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

# No node types: these notes are many, mostly only counted, and their wording needs no syntax.
META = Meta("HTD190", "unproven-copy", Severity.NOTE, since="0.1", needles=(b"non_blocking",), nodes=())

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
    """Note a copy that could be shown to be neither asynchronous nor not."""
    if code_of(copy) != META.code:
        return
    reason = copy.unproven or f"the origin of {wording.source(copy)} is not in sight"
    yield META.finding(
        copy,
        f"cannot tell whether this copy is asynchronous: {reason}",
        help=f"state it in the code: {_evidence(copy)} if it is on the device already",
    )


def _evidence(copy: Copy) -> str:
    if not wording.quoted(copy.source_text, ""):
        return "assert that the source `.is_pinned()`, or `.is_cuda`"
    name = wording.primary(copy.source_text)
    return f"`assert {name}.is_pinned()`, or `assert {name}.is_cuda`"
