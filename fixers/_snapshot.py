"""How a source is made dense and pinned for one copy, and where the code for it can stand."""

from __future__ import annotations

import ast

from h2dlint.fixers._scope import (
    binds,
    blocks,
    end,
    is_pure,
    is_quiet_call,
    is_shared,
    loops_around,
    names_in,
    own_nodes,
    parameters,
    position,
    scope_of,
)
from h2dlint.fixers._transfer import Transfer

from h2dlint.facts.copies import Cause
from h2dlint.facts.torch_api import METHODS
from h2dlint.fixing import Site

_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
_ONCE_OR_NEVER = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def needs_dense(site: Site, transfer: Transfer) -> bool:
    """Whether pinning alone would not do: it keeps gaps, and for `copy_` a permuted order too."""
    if isinstance(transfer.source, ast.Call) and _method(transfer.source) == "contiguous":
        return False
    layout = site.copy.layout
    if Cause.GAPPED in site.copy.causes or layout in ("gapped", "maybe-gapped"):
        return True
    casts = transfer.into is not None or transfer.dtype is not None
    return layout == "unknown" or (layout == "permuted" and casts)


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def can_precede(site: Site, source: ast.expr) -> bool:
    """Whether `source` may be evaluated in a statement of its own, right before the copy's."""
    if not isinstance(site.statement, _SIMPLE):
        return False
    inside = set(ast.walk(source))
    for node in own_nodes(site.statement):
        if isinstance(node, _ONCE_OR_NEVER) and source in ast.walk(node) and node not in inside:
            return False
        earlier = isinstance(node, ast.Call) and node not in inside and end(node) <= position(source)
        if earlier and not _leaves_alone(site, node):  # type: ignore[arg-type]
            return False
        if isinstance(node, (ast.NamedExpr, ast.Await)):
            return False
    return True


def _leaves_alone(site: Site, call: ast.Call) -> bool:
    """Whether a call that runs before the copy changes no tensor: a query, a view, a fresh result, a transfer."""
    name = _method(call)
    return is_quiet_call(site, call) or (name in METHODS and not name.endswith("_"))


def can_rebind(site: Site, source: ast.expr) -> bool:
    """Whether a name may hold the pinned copy from here on: it is local, and nothing reads it again but the copy."""
    scope = scope_of(site)
    if not isinstance(source, ast.Name) or isinstance(scope, ast.Module) or is_shared(scope, source.id):
        return False
    loops = loops_around(site, site.statement)
    if loops and source.id not in _bound_before(loops[0], site):
        return False
    if source.id in binds(site.statement):
        return not loops or source.id in _bound_before(loops[0], site)
    after = end(site.statement)
    reads = [name for name in names_in([scope]) if name.id == source.id and isinstance(name.ctx, ast.Load)]
    known = source.id in parameters(scope) or source.id in binds(scope)
    inside = set(ast.walk(site.statement))
    return (
        known
        and not any((position(name) > after or _is_later_round(site, name)) for name in reads if name not in inside)
        and sum(name in inside for name in reads) == 1
    )


def _is_later_round(site: Site, name: ast.Name) -> bool:
    """Whether a read above the copy comes round again in a loop that binds the name further up."""
    return False if not loops_around(site, site.statement) else name.lineno == site.statement.lineno


def _bound_before(loop: ast.AST, site: Site) -> set[str]:
    """The names that every round of a loop binds before the copy: its targets, and what is assigned above in the blocks
    around the copy.
    """
    found = binds(loop.target) if isinstance(loop, (ast.For, ast.AsyncFor)) else set()
    inner: ast.AST = site.statement
    while inner is not loop:
        outer = site.document.parents[inner]
        for _, block in blocks(outer):
            if inner in block:
                above = block[: block.index(inner)]
                found |= set().union(*(binds(item) for item in above if isinstance(item, (ast.Assign, ast.AnnAssign))))
        inner = outer
    return found


def is_short(site: Site, source: ast.expr) -> bool:
    """Whether an expression may be written twice: it only reads, and fits on part of a line."""
    return is_pure(source) and len(site.source(source)) <= 30 and "\n" not in site.source(source)
