"""Hand a single number to the device as an argument, not as a copy.

Before:

    torch.tensor(n, dtype=torch.int32).to(device, non_blocking=True)
    torch.tensor([0.5], dtype=torch.float32).to(device, non_blocking=True)

After:

    torch.full((), n, dtype=torch.int32, device=device)
    torch.full((1,), 0.5, dtype=torch.float32, device=device)

Safe where the number is a literal that the dtype holds, or is declared as an `int`, `float` or `bool` and the dtype
takes all of those: the same number is rounded the same way. Unsafe where a declared number may be too large for
the dtype: the copy would have sent infinity, or rounded it twice, and filling it in can raise. Left alone where the
transfer casts to another dtype than the tensor's own, and where a variable goes into a dtype below 32 bits.

A pin would copy a handful of bytes through a page-locked block of its own; a number rides along with the launch.
"""

from __future__ import annotations

import ast

from h2dlint.fixers._destination import is_for_factory
from h2dlint.fixers._number import is_alike, number_at
from h2dlint.fixers._scope import scope_of
from h2dlint.fixers._torch_names import torch_if_imported
from h2dlint.fixers._transfer import device_text, transfer_of

from h2dlint.facts.copies import Direction
from h2dlint.facts.torch_api import DTYPES
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
    if set(given) - {"dtype", "device"} or transfer.device is None or not is_for_factory(site, transfer):
        return None
    if ast.unparse(data.func) != f"{site.torch_name()}.tensor":
        return None
    element, shape = _element(data.args[0])
    dtype = given.get("dtype")
    alike = _is_alike(site, element, dtype) if element is not None else None
    if element is None or alike is None or not _is_same_dtype(transfer.dtype, dtype):
        return None
    parts = [shape, site.source(element), *([f"dtype={site.source(dtype)}"] if dtype is not None else [])]
    text = f"{site.torch_name()}.full({', '.join(parts)}, device={device_text(site, transfer.device)})"
    start, stop = site.document.lines.offsets(site.call)
    applicability = Applicability.SAFE if alike else Applicability.UNSAFE
    return site.fix(TITLE, applicability, [site.refitted([Edit(start, stop, text)])])


def _is_same_dtype(cast: ast.expr | None, dtype: ast.expr | None) -> bool:
    """Whether the transfer casts to nothing but what the tensor is already: else the number is rounded twice."""
    return cast is None or (dtype is not None and ast.unparse(cast) == ast.unparse(dtype))


def _is_alike(site: Site, element: ast.expr, dtype: ast.expr | None) -> bool | None:
    number = number_at(element, scope_of(site), site.tree)
    if number is None or (number.type == "float" and number.value is None and dtype is None):
        return None
    return is_alike(number, _dtype_name(site, dtype) if dtype is not None else None)


def _dtype_name(site: Site, node: ast.expr) -> str:
    """The name of a dtype of torch; empty for a variable."""
    name = last_name(node)
    return name if name in DTYPES and ast.unparse(node) == f"{torch_if_imported(site)}.{name}" else ""


def _element(data: ast.expr) -> tuple[ast.expr | None, str]:
    if isinstance(data, (ast.List, ast.Tuple)):
        return (data.elts[0], "(1,)") if len(data.elts) == 1 and _is_one(data.elts[0]) else (None, "")
    return (data, "()") if _is_one(data) else (None, "")


def _is_one(node: ast.expr) -> bool:
    inner = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return isinstance(inner, (ast.Constant, ast.Name)) or (
        isinstance(inner, ast.Call) and last_name(inner.func) == "len"
    )
