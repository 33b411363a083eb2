"""What every pinning rewrite asks first: may memory be pinned here at all, under which condition, how much of it."""

from __future__ import annotations

import ast
import re

import msgspec
from h2dlint.fixers._factory import base_of
from h2dlint.fixers._scope import block_of, position
from h2dlint.fixers._size import most_bytes

from h2dlint import wording
from h2dlint.facts.copies import Cause, Copy, Place, Verdict
from h2dlint.finding import Applicability
from h2dlint.fixing import Guard, Refusal, Site
from h2dlint.fixing.module_flags import local_flag
from h2dlint.fixing.workers import in_worker_code

LOADER = "DataLoader"
_DEFAULT_DEVICE = re.compile(r"set_default_device|set_default_tensor_type|with\s+(?:\w+\.)?device\(|DeviceContext")
_MOVERS = frozenset({"to", "cuda", "pin_memory"})
_MIB = 1 << 20


def obstacle(site: Site) -> Refusal | None:
    """Why nothing may be pinned at this copy; None where it may."""
    if site.in_worker_code():
        return Refusal("this runs in a loader's worker, or is compiled or captured: no pinning there")
    if loader_place(site.copy) is not None or collated_by(site) is not None:
        return Refusal("the batch comes from a DataLoader: pin there, in the loader's own thread, not per batch here")
    if is_batch_mover(site):
        return Refusal(
            "a batch that moves itself: pin where it is made, or in its pin_memory() method, not while it moves"
        )
    if (place := offload_place(site)) is not None:
        return Refusal(
            f"it came back to the host by a blocking move on line {place.span.line}: bring it into pinned memory "
            "there, once, not at each upload"
        )
    if _hangs_on_the_way(site.copy) and _pinned_way(site.copy):
        return Refusal("it is pinned on some ways already: make the others fill the pinned buffer too")
    return too_large(site)


def too_large(site: Site) -> Refusal | None:
    """Why a block of this size is not pinned per call."""
    size = site.copy.max_bytes if site.copy.max_bytes is not None else most_bytes(site)
    if size is None or size <= site.options.max_pin_bytes:
        return None
    limit = site.options.max_pin_bytes / _MIB
    return Refusal(
        f"up to {size / _MIB:,.1f} MiB a call, more than max-pin-bytes ({limit:g} MiB): keep one pinned buffer, send "
        "only the part in use, and wait on an event before filling it again"
    )


def loader_place(copy: Copy) -> Place | None:
    """The loader that left the memory pageable; None where something made a new tensor of its batch."""
    place = wording.allocation(copy)
    return place if place is not None and place.label == LOADER else None


def collated_by(site: Site) -> str | None:
    """The function of this file that makes the batch in a loader's worker."""
    for place in site.copy.trace:
        node = site.node_at(place.span) if place.path == site.copy.path else None
        if node is not None and in_worker_code(site.document, site.statement_of(node)):
            function = site.function_of(node)
            return function.name if function is not None else ""
    return None


def offload_place(site: Site) -> Place | None:
    """Where a value that an object keeps was moved from the device to the host."""
    source = site.call.func.value if isinstance(site.call.func, ast.Attribute) else None
    if site.call.args and site.copy.call == "copy_":
        source = site.call.args[0]
    while source is not None and isinstance(base_of(source), ast.Subscript):
        source = base_of(source).value  # type: ignore[attr-defined]
    kept = source is not None and isinstance(base_of(source), ast.Attribute)
    moves = [place for place in site.copy.trace if place.label in ("cpu", "to")]
    return moves[0] if kept and moves and Cause.PAGEABLE in site.copy.causes else None


def is_batch_mover(site: Site) -> bool:
    """Whether the copy stands in an object's own `to`, which is meant to return at once."""
    return site.function is not None and site.function.name in _MOVERS and site.function.args.args[:1] != []


def pin_applicability(site: Site) -> Applicability:
    """Safe where the source is shown to be on the host on every way: what is on a device cannot be pinned."""
    return Applicability.UNSAFE if _hangs_on_the_way(site.copy) else Applicability.SAFE


def _hangs_on_the_way(copy: Copy) -> bool:
    """Whether the way through the program decides what the source is; a configuration or a slice's length does not."""
    return copy.verdict is Verdict.CONDITIONAL and Cause.CONFIG not in copy.causes and Cause.PAGEABLE in copy.causes


def _pinned_way(copy: Copy) -> bool:
    return any(branch.fake is False for branch in copy.branches)


def guard_at(site: Site, statement: ast.stmt) -> Guard:
    """The condition for pinning in `statement`, which may stand elsewhere than the copy."""
    if statement is site.statement:
        return _local(site) or site.guard()
    copy = site.copy if reaches(site, statement) else msgspec.structs.replace(site.copy, to_accelerator=False)
    there = msgspec.structs.replace(site, copy=copy, statement=statement, function=site.document.function_of(statement))
    return _local(there) or there.guard()


def reaches(site: Site, statement: ast.stmt) -> bool:
    """Whether running `statement` means running the copy: both in one block, with no way out in between."""
    if _hangs_on_its_statement(site):
        return False
    block = block_of(site, site.statement)
    if statement not in block or position(statement) > position(site.statement):
        return False
    between = block[block.index(statement) : block.index(site.statement)]
    return not any(
        isinstance(node, (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Yield, ast.Await))
        for item in between
        for node in ast.walk(item)
    )


def _hangs_on_its_statement(site: Site) -> bool:
    """Whether the copy's own statement may run without it: `flag and x.cuda()`, `x.cuda() if flag else x`."""
    within = site.document.around(site.call)
    within = within[: within.index(site.statement)]
    sometimes = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    return any(isinstance(node, sometimes) for node in within)


def _local(site: Site) -> Guard | None:
    """A flag that this function has worked out for itself: `pin = pinning_supported(device)`."""
    if site.copy.to_accelerator:
        return None
    name = local_flag(site.document, site.statement)
    return None if name is None else Guard(name, True)


def may_have_default_device(site: Site) -> bool:
    """Whether this module sets a default device: a factory that pins must then say that it means the host."""
    return bool(_DEFAULT_DEVICE.search(site.text))


def is_worker_statement(site: Site, statement: ast.stmt) -> bool:
    """Whether another statement of the file runs where nothing may be pinned."""
    return in_worker_code(site.document, statement)
