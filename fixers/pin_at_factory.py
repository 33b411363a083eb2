"""Allocate the memory pinned where it is made, which saves the extra host copy of `.pin_memory()`.

Before:

    ids = torch.tensor(rows, dtype=torch.int64)
    ids = ids.to(device, non_blocking=True)

After:

    ids = torch.tensor(rows, dtype=torch.int64, pin_memory=PIN_MEMORY)
    ids = ids.to(device, non_blocking=True)

Safe where the value lives in this function alone and is not written again behind the copy: page-locked memory changes
no value, but a queued copy reads it late. A tensor that other code holds gets a snapshot per copy instead. Never for
`torch.tensor(array)`, which cannot pin and raises.

From device to host the rewrite is unsafe unless the function waits before it reads, behind the copy in the same block
and whatever happens: the stalling copy was finished when the call returned, the pinned one is not.

Does not pay for large one-off tensors: page-locking costs about 0.7 ms per MiB the first time.
"""

from __future__ import annotations

import ast

from h2dlint.fixers._factory import PINNABLE, Origin, is_factory, origin_of
from h2dlint.fixers._pin import guard_at, is_worker_statement, may_have_default_device, obstacle, too_large
from h2dlint.fixers._scope import end, own_nodes, position, scope_of, statements
from h2dlint.fixers._text import with_keyword
from h2dlint.fixers._transfer import transfer_of
from h2dlint.fixers._uses import Uses
from h2dlint.fixers._waits import wait_behind

from h2dlint.facts.copies import Cause, Direction, Place, Verdict
from h2dlint.finding import Applicability, Edit, Fix
from h2dlint.fixing import Refusal, Site
from h2dlint.fixing.names import last_name

TITLE = "Allocate it pinned"
ORDER = 30

_SIGNALS = frozenset({"synchronize", "record", "record_event", "wait_event", "wait_stream"})
"""Signs that the copy is waited for somewhere, or that a stream waits while the host goes on."""


def fix(site: Site) -> Fix | Refusal | None:
    """Give the factory `pin_memory=`."""
    transfer = transfer_of(site)
    if transfer is None or site.copy.verdict is not Verdict.FAKE_ASYNC:
        return None
    if site.copy.direction is Direction.D2H and transfer.into is not None:
        return _download(site, transfer.into)
    if site.copy.direction is not Direction.H2D or site.copy.causes != (Cause.PAGEABLE,):
        return None
    origin = origin_of(site, transfer.source)
    if origin is None:
        return None
    uses = Uses(site, origin, transfer.source)
    if uses.escapes is not None or uses.rewrites is not None:
        return None
    return obstacle(site) or _pinned(site, origin.factory, origin.statement, Applicability.SAFE)


def _pinned(site: Site, factory: ast.Call, statement: ast.stmt, applicability: Applicability) -> Fix | Refusal:
    if is_worker_statement(site, statement):
        return Refusal("it is allocated in a loader's worker, or in compiled or captured code: no pinning there")
    guard = guard_at(site, statement)
    edits: list[Edit] = []
    named = any(keyword.arg == "device" for keyword in factory.keywords)
    if not named and not last_name(factory.func).endswith("_like") and may_have_default_device(site):
        edits.append(with_keyword(site, factory, "device", '"cpu"'))
    edits.append(with_keyword(site, factory, "pin_memory", guard.expression if guard.needed else "True"))
    return site.fix(TITLE, applicability, [site.refitted(_joined(edits), statement), *guard.edits])


def _joined(edits: list[Edit]) -> list[Edit]:
    """Two arguments that go to the same place become one edit."""
    if len(edits) == 2 and edits[0].start == edits[1].start and edits[0].end == edits[1].end:
        first, second = edits
        tail = first.replacement[len(first.replacement.rstrip(",")) :] if first.replacement.endswith(",") else ""
        return [Edit(first.start, first.end, first.replacement.removesuffix(tail) + second.replacement)]
    return edits


def _download(site: Site, host: ast.expr) -> Fix | Refusal | None:
    """A destination on the host: whoever reads it must wait from now on."""
    if site.copy.causes != (Cause.PAGEABLE,):
        return None
    if (large := too_large(site)) is not None:
        return large
    origin = origin_of(site, host)
    if origin is None:
        return _held_elsewhere(site)
    applicability = _after_download(site, origin, host)
    if isinstance(applicability, Refusal):
        return applicability
    return _pinned(site, origin.factory, origin.statement, applicability)


def _after_download(site: Site, origin: Origin, host: ast.expr) -> Applicability | Refusal:
    """Safe where the host waits in any case before it looks; refused where it looks without any sign of a wait."""
    uses = Uses(site, origin, host)
    if not uses.late:
        return Applicability.UNSAFE
    first = uses.late[0]
    wait = wait_behind(site)
    if wait is not None and position(wait) < position(first) and not uses.lent:
        return Applicability.SAFE
    if _called_between(site, _SIGNALS, first):
        return Applicability.UNSAFE
    return Refusal(
        f"`{first.id}` is used on line {first.lineno} with no synchronization in between: the copy that waits is what "
        "makes that right"
    )


def _called_between(site: Site, names: frozenset[str], until: ast.Name) -> bool:
    start = end(site.statement)
    return any(
        isinstance(node, ast.Call) and last_name(node.func) in names and start <= position(node) < position(until)
        for statement in statements(scope_of(site))
        for node in own_nodes(statement)
    )


def _held_elsewhere(site: Site) -> Fix | Refusal | None:
    """The factory of a buffer that an object keeps, where the chain shows one in this file."""
    for place in reversed(site.copy.trace):
        if place.label not in PINNABLE:
            continue
        if place.path != site.copy.path:
            return _in_other_file(site, place)
        node = site.node_at(place.span)
        if isinstance(node, ast.Call) and is_factory(site, node):
            return _pinned(site, node, site.statement_of(node), Applicability.UNSAFE)
        return None
    return None


def _in_other_file(site: Site, place: Place) -> Fix | Refusal:
    there = site.in_other_file(place)
    if there is None:
        return Refusal(f"the memory comes from `{place.label}` in {place.path}: pin it there")
    if not is_factory(there, there.call):
        return Refusal(f"the memory comes from `{place.label}` in {place.path}, which says itself whether it pins")
    answer = _pinned(there, there.call, there.statement, Applicability.UNSAFE)
    return site.fix_elsewhere(answer, there.path) if isinstance(answer, Fix) else answer
