"""Let `cat` and `stack` write into pinned memory where the size of their result is at hand.

Before:

    ids = torch.stack([rows, columns])
    ids = ids.to(device, non_blocking=True)

After:

    ids = torch.stack([rows, columns], out=torch.empty((2, *rows.shape), dtype=torch.int64, pin_memory=PIN_MEMORY))
    ids = ids.to(device, non_blocking=True)

One host copy less than pinning what they give. Only for a few tensors that are written out, of one integer type that
the analysis knows: `out=` neither promotes types nor takes part in a gradient.

Safe where the value lives in this function alone and is not written again behind the copy.
"""

from __future__ import annotations

import ast

from h2dlint.fixers._factory import Origin, origin_of
from h2dlint.fixers._pin import guard_at, may_have_default_device, obstacle
from h2dlint.fixers._scope import is_pure
from h2dlint.fixers._text import with_keyword
from h2dlint.fixers._transfer import transfer_of
from h2dlint.fixers._uses import Uses

from h2dlint.facts.copies import Cause, Direction, Verdict
from h2dlint.finding import Applicability, Fix
from h2dlint.fixing import Refusal, Site

TITLE = "Join it into pinned memory"
ORDER = 35

_JOINS = frozenset({"cat", "concat", "concatenate", "stack"})
_WHOLE_NUMBERS = frozenset({"int64", "long", "int32", "int", "int16", "short", "int8", "uint8", "bool"})
_MOST_PARTS = 4


def fix(site: Site) -> Fix | Refusal | None:
    """Give the joining call an `out=` that is pinned."""
    copy, transfer = site.copy, transfer_of(site)
    if copy.verdict is not Verdict.FAKE_ASYNC or copy.direction is not Direction.H2D or transfer is None:
        return None
    if copy.causes != (Cause.PAGEABLE,) or copy.dtype not in _WHOLE_NUMBERS:
        return None
    origin = origin_of(site, transfer.source, _is_join)
    if origin is None:
        return None
    shape = _shape_of(origin.factory)
    uses = Uses(site, origin, transfer.source)
    if shape is None or uses.escapes is not None or uses.rewrites is not None:
        return None
    return obstacle(site) or _written_out(site, origin, shape)


def _is_join(site: Site, node: ast.expr) -> bool:
    """`torch.cat([a, b])` and its kin along the first axis."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _JOINS:
        return False
    axis = [*node.args[1:], *(word.value for word in node.keywords if word.arg in ("dim", "axis"))]
    return (
        isinstance(node.func.value, ast.Name)
        and node.func.value.id == site.torch_name()
        and all(isinstance(one, ast.Constant) and one.value == 0 for one in axis)
        and {word.arg for word in node.keywords} <= {"dim", "axis"}
    )


def _shape_of(join: ast.Call) -> str | None:
    """The shape of the result, in terms of the joined tensors; None where they are not a few names."""
    parts = join.args[0].elts if join.args and isinstance(join.args[0], (ast.List, ast.Tuple)) else []
    if not 0 < len(parts) <= _MOST_PARTS:
        return None
    if not all(isinstance(part, (ast.Name, ast.Attribute)) and is_pure(part) for part in parts):
        return None
    names = [ast.unparse(part) for part in parts]
    if isinstance(join.func, ast.Attribute) and join.func.attr == "stack":
        return f"({len(names)}, *{names[0]}.shape)"
    return f"({' + '.join(f'{name}.shape[0]' for name in names)}, *{names[0]}.shape[1:])"


def _written_out(site: Site, origin: Origin, shape: str) -> Fix:
    torch = site.torch_name()
    guard = guard_at(site, origin.statement)
    host = 'device="cpu", ' if may_have_default_device(site) else ""
    pin = guard.expression if guard.needed else "True"
    out = f"{torch}.empty({shape}, dtype={torch}.{site.copy.dtype}, {host}pin_memory={pin})"
    edit = site.refitted([with_keyword(site, origin.factory, "out", out)], origin.statement)
    return site.fix(TITLE, Applicability.SAFE, [edit, *guard.edits])
