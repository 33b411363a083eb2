"""Move a pin behind the operation that loses it.

Before:

    pixels.pin_memory().half().to(device, non_blocking=True)

After:

    pixels.half().pin_memory().to(device, non_blocking=True)

Whatever is computed on the host lies in fresh, pageable memory (docs/design.md, FACTS, 7), so a pin helps only as the
last step before the transfer. `.contiguous()` goes in front of it where the result leaves gaps.

Safe: the same values, and memory was pinned on this line before as well. Offered where pin, operation and transfer
stand in one expression, and nothing is written in between: the pin is a copy of its own, and without it the original
would be changed. Elsewhere a pinned snapshot is made.
"""

from __future__ import annotations

import ast

from h2dlint.fixers._snapshot import needs_dense
from h2dlint.fixers._text import after_receiver, appended, drop_call, rewritten
from h2dlint.fixers._transfer import transfer_of

from h2dlint.facts.copies import Direction
from h2dlint.finding import Applicability, Fix
from h2dlint.fixing import Site

TITLE = "Pin last"
ORDER = 36


def fix(site: Site) -> Fix | None:
    """Pin what is sent instead of what it is made from."""
    transfer = transfer_of(site)
    if site.copy.lost_pin is None or site.copy.direction is not Direction.H2D or transfer is None:
        return None
    pin = _pin_in(transfer.source)
    if pin is None or pin is transfer.source or _is_written(transfer.source, pin):
        return None
    last = (".contiguous()" if needs_dense(site, transfer) else "") + ".pin_memory()"
    put = [after_receiver(site, site.call, last)] if transfer.into is None else appended(site, transfer.source, last)
    return site.fix(TITLE, Applicability.SAFE, [rewritten(site, [drop_call(site, pin), *put])])


def _pin_in(source: ast.expr) -> ast.Call | None:
    """The `.pin_memory()` that a chain of calls starts from."""
    here: ast.expr = source
    while isinstance(here, (ast.Call, ast.Attribute, ast.Subscript)):
        if isinstance(here, ast.Call):
            if not isinstance(here.func, ast.Attribute):
                return None
            if here.func.attr == "pin_memory" and not here.args and not here.keywords:
                return here
            here = here.func.value
        else:
            here = here.value
    return None


def _is_written(source: ast.expr, pin: ast.Call) -> bool:
    """Whether something between the pin and the transfer changes its tensor in place: `mul_`, `out=`."""
    inside = set(map(id, ast.walk(pin)))
    return any(
        isinstance(node, ast.Call)
        and id(node) not in inside
        and (
            any(keyword.arg in ("out", "inplace", None) for keyword in node.keywords)
            or (isinstance(node.func, ast.Attribute) and _changes_in_place(node.func.attr))
        )
        for node in ast.walk(source)
    )


def _changes_in_place(method: str) -> bool:
    return method.endswith("_") and not method.startswith("__")
