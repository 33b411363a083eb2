"""Copy the small tensor first, spread it on the device.

Before:

    grid.copy_(row, non_blocking=True)

After:

    grid.copy_(row.to(grid.device, non_blocking=True))

A copy that broadcasts is spread on the host first, into a pageable temporary as large as the destination. This way only
the small tensor goes over the bus, from its own pinned memory. Safe: the same values land in the same places.
"""

from __future__ import annotations

import ast

from h2dlint.fixers._scope import is_pure
from h2dlint.fixers._text import appended
from h2dlint.fixers._transfer import transfer_of

from h2dlint.facts.copies import Cause, Direction
from h2dlint.finding import Applicability, Edit, Fix
from h2dlint.fixing import Refusal, Site

TITLE = "Copy first, broadcast on the device"
ORDER = 18


def fix(site: Site) -> Fix | Refusal | None:
    """Move the source before it is spread."""
    if Cause.BROADCAST not in site.copy.causes or Cause.GAPPED in site.copy.causes:
        return None
    transfer = transfer_of(site)
    if (
        site.copy.direction is not Direction.H2D
        or transfer is None
        or transfer.into is None
        or not is_pure(transfer.into)
    ):
        return None
    whole = transfer.into
    while isinstance(whole, ast.Subscript):
        whole = whole.value
    moved = appended(site, transfer.source, f".to({site.source(whole)}.device, non_blocking=True)")
    _, stop = site.document.lines.offsets(site.call)
    rest = Edit(moved[-1].end, stop, ")")
    joined = Edit(moved[-1].start, stop, moved[-1].replacement + rest.replacement)
    return site.fix(TITLE, Applicability.SAFE, [site.refitted([*moved[:-1], joined])])
