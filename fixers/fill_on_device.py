"""Hand a single number to the device as an argument, not as a copy.

Before:

    torch.tensor(n, dtype=torch.int32).to(device, non_blocking=True)
    torch.tensor([0.5], dtype=torch.float32).to(device, non_blocking=True)

After:

    torch.full((), n, dtype=torch.int32, device=device)
    torch.full((1,), 0.5, dtype=torch.float32, device=device)

Safe where the number is a literal, or is declared as an `int`, `float` or `bool`, and the dtype is written out or
follows from the literal: the same number is rounded the same way.

A pin would copy a handful of bytes through a page-locked block of its own; a number rides along with the launch.
"""

from __future__ import annotations

import ast

from h2dlint.fixers._scope import parameters, scope_of
from h2dlint.fixers._transfer import device_text, is_device, transfer_of

from h2dlint.facts.copies import Direction
from h2dlint.finding import Applicability, Edit, Fix
from h2dlint.fixing import Refusal, Site
from h2dlint.fixing.names import last_name

TITLE = "Fill it on the device"
ORDER = 15


def fix(site: Site) -> Fix | Refusal | None:
    """`torch.tensor(number).to(device)` becomes `torch.full`."""
    transfer = transfer_of(site)
    if site.copy.direction is not Direction.H2D or transfer is None or transfer.into is not None or not transfer.plain:
        return None
    data = transfer.source
    if not isinstance(data, ast.Call) or last_name(data.func) != "tensor" or len(data.args) != 1:
        return None
    given = {keyword.arg: keyword.value for keyword in data.keywords}
    if set(given) - {"dtype", "device"} or transfer.device is None or not is_device(site, transfer.device):
        return None
    if ast.unparse(data.func) != f"{site.torch_name()}.tensor":
        return None
    number, shape = _number(data.args[0])
    if number is None or not _is_known(site, number, "dtype" in given):
        return None
    dtype = transfer.dtype or given.get("dtype")
    if transfer.dtype is not None and "dtype" in given:
        return None  # two roundings
    parts = [shape, site.source(number), *([f"dtype={site.source(dtype)}"] if dtype is not None else [])]
    text = f"{site.torch_name()}.full({', '.join(parts)}, device={device_text(site, transfer.device)})"
    start, stop = site.document.lines.offsets(site.call)
    return site.fix(TITLE, Applicability.SAFE, [site.refitted([Edit(start, stop, text)])])


def _number(data: ast.expr) -> tuple[ast.expr | None, str]:
    if isinstance(data, (ast.List, ast.Tuple)):
        return (data.elts[0], "(1,)") if len(data.elts) == 1 and _is_one(data.elts[0]) else (None, "")
    return (data, "()") if _is_one(data) else (None, "")


def _is_one(node: ast.expr) -> bool:
    inner = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return isinstance(inner, (ast.Constant, ast.Name)) or (
        isinstance(inner, ast.Call) and last_name(inner.func) == "len"
    )


def _is_known(site: Site, node: ast.expr, typed: bool) -> bool:
    """Whether `node` is a plain number, of a type that settles the dtype where none is written."""
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    if isinstance(inner, ast.Constant):
        return isinstance(inner.value, (bool, int, float))
    if isinstance(inner, ast.Call):
        return isinstance(inner.func, ast.Name)
    scope = scope_of(site)
    if isinstance(scope, ast.Module) or not isinstance(inner, ast.Name) or inner.id not in parameters(scope):
        return False
    every = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
    noted = next((argument.annotation for argument in every if argument.arg == inner.id), None)
    rebound = any(
        isinstance(n, ast.Name) and n.id == inner.id and isinstance(n.ctx, ast.Store) for n in ast.walk(scope)
    )
    return (
        noted is not None
        and not rebound
        and ast.unparse(noted) in (("int", "float", "bool") if typed else ("int", "bool"))
    )
