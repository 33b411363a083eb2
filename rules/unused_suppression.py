"""A comment silences a finding that is not there.

## What it does

Reports `# h2dlint: ignore[...]`, `# h2dlint: file-ignore[...]` and `# noqa: HTD...` comments, or single codes in
them, where the named rule has nothing to report any more, or where no rule has that code, and comments that begin
with `# h2dlint:` and name no code in one of these forms. A code whose rule did not run this time is left alone.

## Why is this bad

The copy was repaired and the comment stayed: it tells readers of a stall that is gone, and hides the next one on
that line.

## Example

{BAD}

## Use instead

{GOOD}

## Known limits

A comment that names HTD901 itself is never reported, and neither is one that HTD901 is silenced for.

## Fix safety

Safe: only the comment changes. Codes of other linters and words that are none of h2dlint's stay.

## References

- [h2dlint: configuration, suppressing comments](https://h2dlint.readthedocs.io/configuration)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from h2dlint.facts.copies import Copy
from h2dlint.finding import Finding, Meta, Severity

if TYPE_CHECKING:
    import libcst as cst

META = Meta("HTD901", "unused-suppression", Severity.WARNING, since="0.1", needles=(b"h2dlint:", b"HTD"), nodes=())

BAD = """
import torch


def upload(n: int) -> torch.Tensor:
    ids = torch.arange(n, device="cuda")  # h2dlint: ignore[HTD201]
    return ids
"""

GOOD = """
import torch


def upload(n: int) -> torch.Tensor:
    ids = torch.arange(n, device="cuda")
    return ids
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Nothing: a comment is no copy. The engine makes the finding."""
    return iter(())
