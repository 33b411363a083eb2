"""Copy whole rows: of two buffers of one width the rows as they are make one dense copy, the best of all where
the rest of each row may be overwritten.

Before:

    self.gpu[:r, :n].copy_(self.cpu[:r, :n], non_blocking=True)

After:

    self.gpu[:r].copy_(self.cpu[:r], non_blocking=True)

Always unsafe: it overwrites the tail of each destination row, which the original left alone.

Does not pay where the slice is a small part of a wide row: all of the row goes over the bus.
"""

from __future__ import annotations

import ast

from h2dlint.fixers._rows import columns_of, is_whole, same_shape
from h2dlint.fixers._transfer import transfer_of

from h2dlint.facts.copies import Cause, Direction
from h2dlint.finding import Applicability, Edit, Fix
from h2dlint.fixing import Refusal, Site

TITLE = "Copy whole rows, the rest of each row too"
ORDER = 90


def fix(site: Site) -> Fix | Refusal | None:
    """Drop the column part of both slices."""
    if site.copy.causes != (Cause.GAPPED,) or site.copy.direction is Direction.D2H:
        return None
    transfer = transfer_of(site)
    if transfer is None or transfer.into is None:
        return None
    source, into = columns_of(transfer.source), columns_of(transfer.into)
    if source is None or into is None or not same_shape(site, source.base, into.base):
        return None
    if ast.dump(source.rows) != ast.dump(into.rows) or any(not isinstance(item, ast.Slice) for item in source.rest):
        return None
    edits = []
    for side, part in ((transfer.source, source), (transfer.into, into)):
        _, behind = site.document.lines.offsets(part.base)
        _, stop = site.document.lines.offsets(side)
        rows = "" if is_whole(part.rows) else f"[{_text(site, part.rows)}]"
        edits.append(Edit(behind, stop, rows))
    return site.fix(TITLE, Applicability.UNSAFE, [site.refitted(edits)])


def _text(site: Site, rows: ast.Slice) -> str:
    start, stop = site.document.lines.offsets(rows)
    return site.text[start:stop]
