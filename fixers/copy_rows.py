"""Copy row by row: a column slice of a pinned buffer has gaps, each of its rows has none.

Before:

    self.gpu[:, :n].copy_(self.cpu[:, :n], non_blocking=True)

After:

    for row in range(self.cpu.shape[0]):
        self.gpu[row, :n].copy_(self.cpu[row, :n], non_blocking=True)

Only where the code shows at most `max-rows` rows (8 by default): every row is a copy of its own, and a thousand of
them cost more than gathering the slice first. Safe where both buffers are seen to have one shape, else unsafe, since a
copy that broadcasts would be cut up wrongly.

`.pin_memory()` on the slice would not help: it keeps the gaps, and of a pinned buffer it is the buffer itself.
"""

from __future__ import annotations

import ast

from h2dlint.fixers._rows import Columns, columns_of, is_whole, same_shape
from h2dlint.fixers._scope import scope_of, unused_name
from h2dlint.fixers._transfer import transfer_of

from h2dlint.facts.copies import Cause, Direction
from h2dlint.finding import Applicability, Edit, Fix
from h2dlint.fixing import Refusal, Site
from h2dlint.fixing.layout import stands_alone

TITLE = "Copy row by row"
ORDER = 20


def fix(site: Site) -> Fix | Refusal | None:
    """Turn the copy into a loop over the rows."""
    statement = site.statement
    if site.copy.causes != (Cause.GAPPED,) or site.copy.direction is Direction.D2H:
        return None
    transfer = transfer_of(site)
    if (
        transfer is None
        or transfer.into is None
        or not isinstance(statement, ast.Expr)
        or statement.value is not site.call
    ):
        return None
    source, into = columns_of(transfer.source), columns_of(transfer.into)
    if source is None or into is None or not (is_whole(source.rows) and is_whole(into.rows)):
        return None
    if not stands_alone(site.document, statement):
        return Refusal("the statement shares its line with another")
    rows = site.copy.rows
    if rows is None or rows > site.options.max_rows or len(source.rest) != len(into.rest):
        return None
    safe = same_shape(site, source.base, into.base)
    return site.fix(TITLE, Applicability.SAFE if safe else Applicability.UNSAFE, [_loop(site, source, into)])


def _loop(site: Site, source: Columns, into: Columns) -> Edit:
    row = unused_name(scope_of(site), "row", "row_index")
    indent = site.document.indent_of(site.statement) + site.document.indent_unit
    inner = [site.replace(part.rows, row) for part in (source, into)]
    start, stop = site.document.lines.offsets(site.statement)
    body = site.text[start:stop]
    for edit in sorted(inner, key=lambda one: one.start, reverse=True):
        body = body[: edit.start - start] + edit.replacement + body[edit.end - start :]
    body = body.replace("\n", f"\n{site.document.indent_unit}")
    header = f"for {row} in range({site.source(source.base)}.shape[0]):"
    return site.replace(site.statement, f"{header}{site.document.newline}{indent}{body}")
