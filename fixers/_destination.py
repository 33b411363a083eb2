"""Whether a factory can be given what a transfer names, so that the same tensor ends up at the same place."""

from __future__ import annotations

import ast
import re

from h2dlint.fixers._scope import class_of, parameters, scope_of, statements
from h2dlint.fixers._torch_names import imported_function, torch_if_imported
from h2dlint.fixers._transfer import Transfer

from h2dlint.fixing import Site
from h2dlint.fixing.names import last_name

_DEVICE_NAME = re.compile(
    r"(?i)_*dev\d*|(?!(?:\w*_)?on_)(?:\w*_)?device\d*|device_(?:type|name|str|string|id|index|idx|\d+)"
)
"""`device`, `dev`, `main_device`, `device_type`; `gpu`, `pos_gpu` and `ids_dev` may as well be what lies there."""
_DEVICE_TYPE = re.compile(r"['\"]?(?:\w+\.)?device['\"]?|str")
_TENSOR_TYPE = re.compile(r"\bTensor\b")
_NO_TENSORS = frozenset(["device", "get_default_device", "dtype", "Generator"])


def is_for_factory(site: Site, transfer: Transfer) -> bool:
    """Whether `device=` of a factory means what the transfer means by its device.

    `.cuda(None)` is the current device, and `device=None` is the host: there only what cannot be None will do.
    """
    device, method = transfer.device, last_name(site.call.func)
    if device is None:
        return False
    if method == "to":
        return _is_device(site, device)
    if isinstance(device, ast.Constant) and isinstance(device.value, str):
        return device.value.partition(":")[0] == method
    return method == "cuda" and _is_never_none(site, device)


def _is_never_none(site: Site, device: ast.expr) -> bool:
    return _is_literal(device) or is_device_call(site, device)


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.JoinedStr):
        return True
    return isinstance(node, ast.Constant) and isinstance(node.value, (str, int)) and not isinstance(node.value, bool)


def is_device_call(site: Site, node: ast.expr) -> bool:
    """`torch.device(...)` or `torch.cuda.current_device()`."""
    if not isinstance(node, ast.Call):
        return False
    if imported_function(site, node.func):
        return imported_function(site, node.func) == "device"
    root, name = node.func, last_name(node.func)
    while isinstance(root, ast.Attribute):
        root = root.value
    of_torch = isinstance(root, ast.Name) and root.id == torch_if_imported(site)
    return of_torch and isinstance(node.func, ast.Attribute) and name in ("device", "current_device")


def _is_device(site: Site, node: ast.expr) -> bool:
    """Whether an expression reads as a device, and is not seen to be a tensor."""
    if _is_literal(node) or is_device_call(site, node):
        return True
    if isinstance(node, ast.Attribute):
        return bool(_DEVICE_NAME.fullmatch(node.attr)) and not _is_tensor_attribute(site, node)
    if not isinstance(node, ast.Name) or _is_tensor_name(site, node.id):
        return False
    return bool(_DEVICE_NAME.fullmatch(node.id)) or _is_declared_device(site, node.id)


def _is_declared_device(site: Site, name: str) -> bool:
    scope = scope_of(site)
    if name in parameters(scope):
        noted = _annotation(site, name)
        return noted is not None and bool(_DEVICE_TYPE.fullmatch(ast.unparse(noted)))
    values = _values(list(statements(scope)), name)
    return bool(values) and all(not isinstance(value, ast.Name) and _is_device(site, value) for value in values)


def _annotation(site: Site, name: str) -> ast.expr | None:
    scope = scope_of(site)
    if isinstance(scope, ast.Module):
        return None
    every = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
    return next((argument.annotation for argument in every if argument.arg == name), None)


def _is_tensor_name(site: Site, name: str) -> bool:
    noted = _annotation(site, name)
    if noted is not None and _TENSOR_TYPE.search(ast.unparse(noted)):
        return True
    return any(_makes_tensor(site, value) for value in _values(list(statements(scope_of(site))), name))


def _is_tensor_attribute(site: Site, node: ast.Attribute) -> bool:
    """Whether the class around gives the attribute a tensor: `self.device = torch.zeros(3)`."""
    owner = class_of(site, node)
    if owner is None or not isinstance(node.value, ast.Name) or node.value.id not in ("self", "cls"):
        return False
    inner = [one for one in ast.walk(owner) if isinstance(one, (ast.Assign, ast.AnnAssign))]
    written = ast.unparse(node)
    noted = [one.annotation for one in inner if isinstance(one, ast.AnnAssign) and _is_it(one.target, written)]
    values = [_makes_tensor(site, value) for value in _values(inner, written)]
    return any(values) or any(_TENSOR_TYPE.search(ast.unparse(one)) for one in noted)


def _values(inside: list[ast.stmt] | list[ast.Assign | ast.AnnAssign], written: str) -> list[ast.expr]:
    """What is assigned to a target that reads `written`."""
    found: list[ast.expr] = []
    for statement in inside:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            found += [statement.value for target in targets if _is_it(target, written)]
    return found


def _is_it(target: ast.expr, written: str) -> bool:
    return isinstance(target, (ast.Name, ast.Attribute)) and ast.unparse(target) == written


def _makes_tensor(site: Site, node: ast.expr) -> bool:
    """`torch.zeros(3)` and methods of such."""
    while isinstance(node, ast.Call):
        func = node.func
        if imported := imported_function(site, func):
            return imported not in _NO_TENSORS
        if not isinstance(func, ast.Attribute):
            return False
        if isinstance(func.value, ast.Name):
            return func.value.id == torch_if_imported(site) and func.attr not in _NO_TENSORS
        node = func.value
    return False
