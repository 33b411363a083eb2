"""Make a view dense before it is pinned.

Before:

    part = table[:, 1:n].pin_memory()
    part.to(device, non_blocking=True)

After:

    part = table[:, 1:n].contiguous().pin_memory()
    part.to(device, non_blocking=True)

`.pin_memory()` keeps the strides of a view, and of a view of pinned memory it is the view itself. The copy then gathers
it into a pageable temporary all the same (docs/design.md, FACTS, 2).

Safe where the pin is a fresh copy: the same values arrive. Unsafe where a view of pinned memory was given a name, which
others may use to write into the buffer. A pin inside the copy's own call is left to the pinned snapshot.
"""

from __future__ import annotations

import ast

from h2dlint.fixers._text import after_receiver

from h2dlint.facts.around import covers
from h2dlint.facts.copies import Pitfall, Place
from h2dlint.finding import Applicability, Fix
from h2dlint.fixing import Site

TITLE = "Make it dense before pinning it"
ORDER = 37
PITFALLS = (Pitfall.PIN_KEEPS_GAPS,)


def fix(site: Site) -> Fix | None:
    """Put `.contiguous()` in front of the pin that keeps the gaps."""
    pin = site.call if site.copy.pitfall is Pitfall.PIN_KEEPS_GAPS else _pin_at(site, site.copy.kept_gaps)
    if pin is None or not isinstance(pin.func, ast.Attribute):
        return None
    if site.copy.pitfall is None and covers(site.call, pin):
        return None
    fresh = site.copy.kept_gaps is not None and "copies" in site.copy.kept_gaps.message
    safe = Applicability.SAFE if fresh else Applicability.UNSAFE
    return site.fix(TITLE, safe, [after_receiver(site, pin, ".contiguous()")])


def _pin_at(site: Site, place: Place | None) -> ast.Call | None:
    if place is None or place.path != site.path:
        return None
    node = site.node_at(place.span)
    return node if isinstance(node, ast.Call) else None
