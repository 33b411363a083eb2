"""A file could not be read or parsed, so nothing is known about its copies.

## What it does

Reports a file that h2dlint had to leave out: unreadable, not in the encoding it declares, not valid Python,
or nested too deeply. The other files are checked as usual.

## Why is this bad

No finding in a file that was not analysed says nothing, and a run that passes over it in silence would look
like a clean one.

## Example

{BAD}

## Use instead

{GOOD}

Leave files that are not meant to be Python of this version, such as templates, out with `exclude`.

## Known limits

Files are parsed by the Python that h2dlint runs on: syntax newer than that is an error. A file that mentions
nothing of interest is not parsed at all, so its errors stay unseen.

## Fix safety

No rewrite is proposed.

## References

- [Python: encoding declarations](https://docs.python.org/3/reference/lexical_analysis.html#encoding-declarations)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from h2dlint.facts.copies import Copy
from h2dlint.finding import Finding, Meta, Severity

if TYPE_CHECKING:
    import libcst as cst

META = Meta("HTD902", "file-not-analysed", Severity.ERROR, since="0.1", nodes=())

BAD = """
def upload(tensor, device:
    return tensor.to(device, non_blocking=True)
"""

GOOD = """
def upload(tensor, device):
    return tensor.pin_memory().to(device, non_blocking=True)
"""


def check(copy: Copy, node: cst.Call | None) -> Iterator[Finding]:
    """Nothing: such a file has no copies. The engine makes the finding."""
    return iter(())
