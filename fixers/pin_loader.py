"""Let the loader pin its batches, in a thread of its own.

Before:

    loader = DataLoader(dataset, batch_size=16)

After:

    loader = DataLoader(dataset, batch_size=16, pin_memory=torch.cuda.is_available())

Safe with torch's own collate function, which makes tensors in tuples, lists and dicts: the loader pins those and keeps
their values. Unsafe with another one: a batch class of its own may come back as another type.

Does not pay where the batches are consumed on the host.
"""

from __future__ import annotations

import ast

from h2dlint.fixers._pin import LOADER, collated_by, guard_at, loader_place
from h2dlint.fixers._text import with_keyword

from h2dlint.finding import Applicability, Fix
from h2dlint.fixing import Refusal, Site
from h2dlint.fixing.names import last_name

TITLE = "Pin the batches in the loader"
ORDER = 25


def fix(site: Site) -> Fix | Refusal | None:
    """Give the loader `pin_memory=`."""
    place = loader_place(site.copy)
    call = _loader_with(site, collated_by(site)) if place is None else site.node_at(place.span)
    if place is not None and (place.path != site.copy.path or not isinstance(call, ast.Call)):
        return Refusal(f"the loader is made in {place.path}: give it `pin_memory=` there")
    if not isinstance(call, ast.Call):
        return None
    given = {keyword.arg for keyword in call.keywords}
    if "pin_memory" in given or None in given:
        return Refusal(f"the loader on line {call.lineno} gets its `pin_memory` from elsewhere")
    statement = site.statement_of(call)
    guard = guard_at(site, statement)
    edit = with_keyword(site, call, "pin_memory", guard.expression if guard.needed else "True")
    applicability = Applicability.UNSAFE if "collate_fn" in given else Applicability.SAFE
    return site.fix(TITLE, applicability, [site.refitted([edit], statement), *guard.edits])


def _loader_with(site: Site, collate: str | None) -> ast.Call | None:
    """The only loader of this file that is given a collate function."""
    if not collate:
        return None
    found = [
        node
        for node in ast.walk(site.tree)
        if isinstance(node, ast.Call)
        and last_name(node.func) == LOADER
        and any(word.arg == "collate_fn" and last_name(word.value) == collate for word in node.keywords)
    ]
    return found[0] if len(found) == 1 else None
