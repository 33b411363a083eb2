"""Expand on the device what is copied, not on the host what is to be copied.

Before:

    wide = row.expand(n, -1).to(device, non_blocking=True)

After:

    wide = row.to(device, non_blocking=True).expand(n, -1)

An expanded view leaves gaps, so the copy gathers it first, into a pageable temporary of `n` times the bytes. Making it
dense and pinned would send those bytes over the bus as well. Unsafe: the elements are the same, but the result is a
view that repeats one row, and writing into it in place fails.
"""

from __future__ import annotations

import ast

from h2dlint.fixers._scope import is_pure
from h2dlint.fixers._text import receiver_end
from h2dlint.fixers._transfer import transfer_of

from h2dlint.facts.copies import Cause, Direction
from h2dlint.finding import Applicability, Edit, Fix
from h2dlint.fixing import Refusal, Site

TITLE = "Expand on the device"
ORDER = 17

_SPREADS = frozenset({"expand", "broadcast_to"})


def fix(site: Site) -> Fix | Refusal | None:
    """Swap `.expand(...)` and the transfer."""
    transfer = transfer_of(site)
    if site.copy.direction is not Direction.H2D or transfer is None or transfer.into is not None or not transfer.plain:
        return None
    spread = transfer.source
    if Cause.GAPPED not in site.copy.causes or not isinstance(spread, ast.Call):
        return None
    if not isinstance(spread.func, ast.Attribute) or spread.func.attr not in _SPREADS or not _is_pure_call(spread):
        return None
    if isinstance(spread.func.value, ast.Name) and spread.func.value.id == site.torch_name():
        return None
    inner, stop = receiver_end(site, spread), site.document.lines.offsets(spread)[1]
    behind = site.document.lines.offsets(site.call)[1]
    text = site.text[inner:stop].strip()
    return site.fix(TITLE, Applicability.UNSAFE, [site.refitted([Edit(inner, stop, ""), Edit(behind, behind, text)])])


def _is_pure_call(call: ast.Call) -> bool:
    return all(map(is_pure, (*call.args, *(keyword.value for keyword in call.keywords))))
