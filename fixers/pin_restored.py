"""Bring a tensor back to the host by one copy, into memory that is pinned.

Before:

    p.data = p.data.to("cpu")

    host = scores.cpu()
    if PIN_MEMORY:
        host = host.pin_memory()

After:

    p.data = torch.empty_like(p.data, device="cpu", pin_memory=PIN_MEMORY).copy_(p.data)

    host = torch.empty_like(scores, device="cpu", pin_memory=PIN_MEMORY).copy_(scores)

The copy waits as the move did, so whoever reads the result finds it there.

Safe in the second form where the source is shown to lie on a device: the same memory is pinned as before, one copy
earlier. Unsafe where it may be on the host already, since the original could then be the very tensor, and in the first
form, which pins what was not pinned: page-locked memory is scarce, and each block is rounded up to a power of two.
"""

from __future__ import annotations

import ast

from h2dlint.fixers._pin import guard_at
from h2dlint.fixers._scope import binds, block_of, blocks, is_pure, names_in, own_nodes, scope_of, unused_name
from h2dlint.fixers._snapshot import can_precede
from h2dlint.fixers._text import assigned, one_line, rewritten
from h2dlint.fixers._transfer import transfer_of
from msgspec import Struct

from h2dlint.facts.copies import Next, Verdict
from h2dlint.finding import Applicability, Edit, Fix
from h2dlint.fixing import Guard, Refusal, RefusedError, Site
from h2dlint.fixing.availability import is_availability

TITLE = "Copy once, into pinned memory"
ORDER = 70

_KEEP_VALUES = frozenset({"contiguous", "detach"})
_MOST = 40
"""Characters of an expression that is written twice."""


def fix(site: Site) -> Fix | Refusal | None:
    """One copy into a pinned allocation in the place of the move."""
    follows = site.copy.follows
    if follows is None:
        return None
    if site.in_worker_code():
        return Refusal("this runs in a loader's worker, or is compiled or captured: no pinning there")
    move = _move_of(site)
    if move is None:
        return Refusal("the move does more than bring the tensor to the host")
    if move.casts:
        return Refusal(
            "it changes the type on the way, which goes through pageable memory in any case: cast on the device first"
        )
    if follows.what is not Next.PINNED:
        guard = _own_flag(site) or guard_at(site, site.statement)
        edits = _copied(site, move, site.call, guard.expression if guard.needed else "True")
        return site.fix(TITLE, Applicability.UNSAFE, [*edits, *guard.edits])
    pin = site.node_at(follows.place.span)
    if not isinstance(pin, ast.Call):
        return None
    applicability = Applicability.SAFE if site.copy.verdict is Verdict.BLOCKING else Applicability.UNSAFE
    return site.fix(TITLE, applicability, _joined(site, move, pin))


def _own_flag(site: Site) -> Guard | None:
    """A flag that this function has worked out above: an availability test, alone or with more that must hold.

    Not where an upload in sight counts on the pin: with the flag off by other means, that one would stall.
    """
    if site.copy.follows is not None and site.copy.follows.what is Next.SENT_ASKING:
        return None
    inner: ast.AST = site.statement
    for outer in site.document.around(site.statement):
        for _, block in blocks(outer):
            above = block[: block.index(inner)] if isinstance(inner, ast.stmt) and inner in block else []
            for statement in reversed(above):
                target = statement.targets[0] if isinstance(statement, ast.Assign) else None
                if isinstance(target, ast.Name) and "pin" in target.id.lower() and _implies(site, statement):
                    return Guard(target.id, True)
        if outer is site.function:
            return None
        inner = outer
    return None


def _implies(site: Site, statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Assign) else None
    operands = value.values if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.And) else [value]
    return any(one is not None and is_availability(site.document, one, statement) for one in operands)


class _Move(Struct, frozen=True):
    """`source.to(device)` or `source.cpu()`."""

    source: ast.expr
    device: str
    casts: bool = False
    """Whether it changes the type as well. Into pinned memory of another type torch copies by a pageable detour."""


def _move_of(site: Site) -> _Move | None:
    call = site.call
    if not isinstance(call.func, ast.Attribute):
        return None
    if call.func.attr == "cpu":
        plain = not call.args and all(word.arg == "non_blocking" for word in call.keywords)
        return _Move(call.func.value, '"cpu"') if plain else None
    transfer = transfer_of(site)
    if transfer is None or not transfer.plain or transfer.device is None or transfer.into is not None:
        return None
    if not is_pure(transfer.device) and not isinstance(transfer.device, ast.Call):
        return None
    return _Move(transfer.source, site.source(transfer.device), transfer.dtype is not None)


def _copied(site: Site, move: _Move, instead_of: ast.expr, flag: str) -> list[Edit]:
    """The copy in the place of an expression of the move's statement, its source under a name if it is not short."""
    source, torch = move.source, site.torch_name()
    lines: list[Edit] = []
    name = one_line(site, source)
    if not is_pure(source) or len(name) > _MOST:
        if not can_precede(site, source):
            raise RefusedError("the source would have to be evaluated before the statement it stands in")
        name = unused_name(scope_of(site), "src", "fetched")
        lines = [site.insert_before(site.statement, [assigned(site, name, source)])]
    text = f"{torch}.empty_like({name}, device={move.device}, pin_memory={flag}).copy_({name})"
    return [*lines, rewritten(site, [site.replace(instead_of, text)])]


# --- the two copies of a tensor become one ------------------------------------------------------------------------


def _joined(site: Site, move: _Move, pin: ast.Call) -> list[Edit]:
    """The move and the pin as one copy. Raises RefusedError where something stands between them."""
    if pin in site.document.around(site.call):
        if not _is_direct(site, pin):
            raise RefusedError("more than the two copies happens here: fetch it into pinned memory first")
        return _copied(site, move, pin, "True")
    pinning = site.statement_of(pin)
    target = _target(site.statement, site.call)
    if target is None or not isinstance(pin.func, ast.Attribute) or not _same(pin.func.value, target):
        raise RefusedError(f"the second copy is made on line {pin.lineno}: fetch it into pinned memory here")
    whole, flag = _condition(site, pinning, pin, target)
    block = block_of(site, site.statement)
    if whole not in block or block.index(whole) < block.index(site.statement):
        raise RefusedError(f"whether the pin on line {pin.lineno} runs hangs on more than a flag")
    between = block[block.index(site.statement) + 1 : block.index(whole)]
    _refuse_what_is_read(between, target, flag)
    second = _without_pin(site, whole, pinning, pin, target)
    return [*_copied(site, move, site.call, "True" if flag is None else one_line(site, flag)), second]


def _is_direct(site: Site, pin: ast.Call) -> bool:
    """Whether nothing but the pin, and calls that keep every value, follows the move."""
    node: ast.AST = site.call
    while node is not pin:
        method = site.document.parents[node]
        call = site.document.parents[method]
        if not (isinstance(method, ast.Attribute) and isinstance(call, ast.Call) and call.func is method):
            return False
        if call is not pin and (method.attr not in _KEEP_VALUES or call.args or call.keywords):
            return False
        node = call
    return True


def _target(statement: ast.stmt, value: ast.expr) -> ast.expr | None:
    """The name or attribute that a statement gives just this value."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and statement.value is value:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign) and statement.value is value:
        target = statement.target
    else:
        return None
    return target if isinstance(target, (ast.Name, ast.Attribute)) else None


def _same(one: ast.expr, other: ast.expr) -> bool:
    return ast.unparse(one) == ast.unparse(other)


def _condition(site: Site, pinning: ast.stmt, pin: ast.Call, target: ast.expr) -> tuple[ast.stmt, ast.expr | None]:
    """The statement of the outer block that pins, and under which condition it does; None: always."""
    choice = site.document.parents[pin]
    if isinstance(choice, ast.IfExp) and choice.body is pin and _same(choice.orelse, target):
        return pinning, choice.test
    around = site.document.parents[pinning]
    rebinds = _target(pinning, pin)
    if isinstance(around, ast.If) and around.body == [pinning] and not around.orelse and rebinds is not None:
        return (around, around.test) if _same(rebinds, target) else (pinning, None)
    return pinning, None


def _refuse_what_is_read(between: list[ast.stmt], target: ast.expr, flag: ast.expr | None) -> None:
    """Raises RefusedError where a statement in between looks at the tensor, or decides the flag."""
    mine = {name.id for name in names_in([target])}
    deciding = {name.id for name in names_in([flag])} if flag is not None else set()
    for statement in between:
        if any(_same(node, target) for node in ast.walk(statement) if isinstance(node, type(target))):
            raise RefusedError(f"line {statement.lineno} uses the pageable tensor before it is pinned")
        if binds(statement) & (mine | deciding):
            raise RefusedError(f"line {statement.lineno} decides what is pinned")


def _without_pin(site: Site, whole: ast.stmt, pinning: ast.stmt, pin: ast.Call, target: ast.expr) -> Edit:
    """The second statement without its copy: gone where it does nothing else."""
    choice = site.document.parents[pin]
    pinned = choice if isinstance(choice, ast.IfExp) and choice.body is pin else pin
    rebinds = _target(pinning, pinned)
    if rebinds is not None and _same(rebinds, target):
        return site.delete(whole)
    reads = [
        node
        for node in ast.walk(scope_of(site))
        if isinstance(node, type(target)) and isinstance(getattr(node, "ctx", None), ast.Load) and _same(node, target)
    ]
    inside = set(own_nodes(pinning))
    if not isinstance(target, ast.Name) or any(node not in inside for node in reads):
        raise RefusedError("the pageable tensor is used besides: it would be the pinned one itself")
    return site.refitted([site.replace(pinned, site.source(target))], pinning)
