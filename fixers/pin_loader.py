"""Let the loader pin its batches, in a thread of its own.

Before:

    loader = DataLoader(dataset, batch_size=16)

After:

    loader = DataLoader(dataset, batch_size=16, pin_memory=torch.cuda.is_available())

Safe with torch's own collate function, which makes tensors in tuples, lists and dicts: the loader pins those and keeps
their values. Unsafe with another one: a batch class of its own may come back as another type.

Not where the loader has a `pin_memory` that something decides, names a `pin_memory_device`, or collates tensors of a
device, which cannot be pinned. Nor where it pins already and the class of its batches has no `pin_memory()`.

Does not pay where the batches are consumed on the host.
"""

from __future__ import annotations

import ast

from h2dlint.fixers._pin import LOADER, collated_by, guard_at, loader_place
from h2dlint.fixers._text import with_keyword

from h2dlint.facts.copies import Pinning, Place
from h2dlint.finding import Applicability, Edit, Fix
from h2dlint.fixing import Guard, Refusal, Site
from h2dlint.fixing.names import last_name

TITLE = "Pin the batches in the loader"
ORDER = 25

_COLLATE, _PIN = 6, 7
"""Where the constructor takes `collate_fn` and `pin_memory` by position."""


def fix(site: Site) -> Fix | Refusal | None:
    """Give the loader `pin_memory=`."""
    place = loader_place(site.copy)
    if place is not None and place.path != site.copy.path:
        return _elsewhere(site, place)
    call = _loader_with(site, collated_by(site)) if place is None else site.node_at(place.span)
    return _pinned(site, call, place) if isinstance(call, ast.Call) else None


def _elsewhere(site: Site, place: Place) -> Fix | Refusal:
    """The same where another file makes the loader."""
    there = site.in_other_file(place)
    if there is None:
        return Refusal(f"the loader is made in {place.path}: give it `pin_memory=` there")
    answer = _pinned(there, there.call, place)
    return site.fix_elsewhere(answer, there.path) if isinstance(answer, Fix) else answer


def _pinned(site: Site, call: ast.Call, place: Place | None) -> Fix | Refusal:
    refusal = _obstacle(site, call, place)
    if refusal is not None:
        return refusal
    statement = site.statement_of(call)
    guard = guard_at(site, statement)
    edit = _edit(site, call, guard)
    applicability = Applicability.UNSAFE if _collate_of(call) is not None else Applicability.SAFE
    return site.fix(TITLE, applicability, [site.refitted([edit], statement), *guard.edits])


def _edit(site: Site, call: ast.Call, guard: Guard) -> Edit:
    value = guard.expression if guard.needed else "True"
    if len(call.args) > _PIN:
        return site.replace(call.args[_PIN], value)
    return with_keyword(site, call, "pin_memory", value)


def _obstacle(site: Site, call: ast.Call, place: Place | None) -> Refusal | None:
    """Why the loader must not, or need not, be told to pin."""
    if place is not None and place.pinning is Pinning.LEFT_OUT:
        return Refusal(
            "the loader pins already: give the class of its batches a `pin_memory()` that pins this tensor too"
        )
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    flag = call.args[_PIN] if len(call.args) > _PIN else given.get("pin_memory")
    is_off = flag is None or (isinstance(flag, ast.Constant) and not flag.value)
    if None in given or not is_off or any(isinstance(item, ast.Starred) for item in call.args):
        return Refusal(f"the loader on line {call.lineno} gets its `pin_memory` from elsewhere")
    if "pin_memory_device" in given:
        return Refusal(f"the loader on line {call.lineno} names a `pin_memory_device`: decide there whether it pins")
    if _makes_device_tensors(site, _collate_of(call)):
        return Refusal("its collate function makes tensors on a device: a loader that pins raises for these")
    return None


def _collate_of(call: ast.Call) -> ast.expr | None:
    """The collate function that the loader is given; None for torch's own."""
    given = next((word.value for word in call.keywords if word.arg == "collate_fn"), None)
    if given is None and len(call.args) > _COLLATE:
        given = call.args[_COLLATE]
    return None if isinstance(given, ast.Constant) and given.value is None else given


def _makes_device_tensors(site: Site, collate: ast.expr | None) -> bool:
    """Whether the function, or the class, by this name in the file moves something to a device or makes it there."""
    if collate is None:
        return False
    name = last_name(collate.func if isinstance(collate, ast.Call) else collate)
    found: list[ast.AST] = [
        node for node in ast.walk(site.tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name
    ]
    return any(
        isinstance(node, ast.Call)
        and (last_name(node.func) in ("cuda", "to") or any(word.arg == "device" for word in node.keywords))
        for place in (found or [collate])
        for node in ast.walk(place)
    )


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
