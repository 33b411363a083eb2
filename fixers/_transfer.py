"""The parts of a copying call: what is moved, where to, and with which dtype."""

from __future__ import annotations

import ast
import re

from h2dlint.fixers._scope import parameters, scope_of, statements
from msgspec import Struct

from h2dlint.facts.torch_api import DTYPES, TRANSFER_METHODS
from h2dlint.fixing import Site

_DEVICE_NAME = re.compile(r"(?i)(?:^|_)(?:dev|device|cuda|gpu)\d*$")


class Transfer(Struct, frozen=True):
    """`source.to(device, dtype)`, `source.cuda()` or `into.copy_(source)`."""

    source: ast.expr
    device: ast.expr | None = None
    dtype: ast.expr | None = None
    into: ast.expr | None = None
    plain: bool = True
    """Whether the call has no further arguments than these and non_blocking."""


def transfer_of(site: Site) -> Transfer | None:
    """The copy's call, taken apart; None for a call of another form."""
    call = site.call
    if not isinstance(call.func, ast.Attribute) or any(isinstance(arg, ast.Starred) for arg in call.args):
        return None
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if None in keywords:
        return None
    if call.func.attr == "copy_":
        source = call.args[0] if call.args else keywords.get("src")
        return None if source is None else Transfer(source, into=call.func.value)
    if call.func.attr == "to":
        return _moved(site, call.func.value, call.args, keywords)
    if call.func.attr in TRANSFER_METHODS and call.func.attr != "cpu":
        device = call.args[0] if call.args else keywords.get("device")
        return Transfer(call.func.value, device or ast.Constant(call.func.attr), plain=_plain(keywords))
    return None


def _moved(site: Site, source: ast.expr, args: list[ast.expr], keywords: dict[str | None, ast.expr]) -> Transfer | None:
    device, dtype = keywords.get("device"), keywords.get("dtype")
    places = [arg for arg in args if not (isinstance(arg, ast.Constant) and isinstance(arg.value, bool))]
    for place in places:
        if is_dtype(site, place):
            dtype = place
        elif device is None:
            device = place
        elif dtype is None:
            dtype = place
    plain = _plain(keywords) and len(args) - len(places) <= 1
    return Transfer(source, device, dtype, plain=plain)


def _plain(keywords: dict[str | None, ast.expr]) -> bool:
    return not set(keywords) - {"device", "dtype", "non_blocking"}


def is_dtype(site: Site, node: ast.expr) -> bool:
    """Whether an expression reads as a dtype: `torch.int32`, `x.dtype`, `dtype`."""
    if isinstance(node, ast.Attribute):
        return node.attr == "dtype" or (node.attr in DTYPES and isinstance(node.value, ast.Name))
    return isinstance(node, ast.Name) and (node.id == "dtype" or node.id.endswith("_dtype"))


def is_device(site: Site, node: ast.expr) -> bool:
    """Whether an expression reads as a device, and not as a tensor to follow: `x.device`, `"cuda"`, `device: str`."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (str, int)) and not isinstance(node.value, bool)
    if isinstance(node, ast.Attribute):
        return bool(_DEVICE_NAME.search(node.attr))
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in ("device", "current_device")
    if isinstance(node, ast.JoinedStr):
        return True
    if not isinstance(node, ast.Name):
        return False
    return bool(_DEVICE_NAME.search(node.id)) or _is_declared_device(site, node.id)


def _is_declared_device(site: Site, name: str) -> bool:
    scope = scope_of(site)
    if name in parameters(scope) and not isinstance(scope, ast.Module):
        every = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
        noted = next((argument.annotation for argument in every if argument.arg == name), None)
        return noted is not None and bool(re.fullmatch(r"['\"]?(?:\w+\.)?device['\"]?|str", ast.unparse(noted)))
    values = [
        statement.value
        for statement in statements(scope)
        if isinstance(statement, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)
    ]
    return bool(values) and all(not isinstance(value, ast.Name) and is_device(site, value) for value in values)


def device_text(site: Site, device: ast.expr) -> str:
    """A device as written, or the literal that a method's name stands for."""
    return site.source(device) if hasattr(device, "lineno") else f'"{ast.literal_eval(device)}"'
