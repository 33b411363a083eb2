"""Branches for another kind of accelerator than the one that is asked about: `if device.type == "mps":`.

On the configured backend no such branch is taken. It is looked at all the same, as what it is: for a device that is
named there, that device's own column decides (backends.py). What comes out of it does not count where both ways meet.
"""

from __future__ import annotations

import ast
import re

from h2dlint.facts.frame import Frame, key_of
from h2dlint.facts.torch_api import ACCELERATOR_MODULES

_EVERYWHERE = frozenset({"cuda", "hip", "cpu"})
"""What programs ask after that means no other machine: CUDA's name stands for ROCm, and often for any accelerator."""

_OTHERS = ACCELERATOR_MODULES - _EVERYWHERE
_ASKS = re.compile(rf"^_?(?:is|has)_(?:torch_)?({'|'.join(sorted(_OTHERS))})(?:_available)?$")


def names_own_device(node: ast.expr) -> bool:
    """Whether an expression is the device that the program runs on, its kind or its text: `self.device`,
    `str(device)`.
    """
    while True:
        if isinstance(node, ast.Attribute) and node.attr == "type":
            node = node.value
        elif isinstance(node, ast.Call) and key_of(node.func) in _OF_A_DEVICE and len(node.args) == 1:
            node = node.args[0]
        else:
            break
    base, _, last = key_of(node).rpartition(".")
    if "device" not in last and last != "dev":
        return False
    return not base or base in ("self", "cls") or any(word in base for word in ("config", "args", "platform"))


_OF_A_DEVICE = frozenset({"torch.device", "device", "str"})


def machine_of(test: ast.expr, holds: bool, backend: str) -> str:
    """The other accelerator that a branch is for, `-` in front of one that it is not for; empty for other branches.

    `holds`: whether the branch is the one where the test is true. `backend`: the accelerator that is asked about.
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return machine_of(test.operand, not holds, backend)
    if isinstance(test, ast.BoolOp):
        found = [machine_of(one, holds, backend) for one in test.values]
        if isinstance(test.op, ast.And) == holds:  # each of them came out so
            return next((one for one in found if one and one[0] != "-"), next(filter(None, found), ""))
        return found[0] if found[0] and all(one == found[0] for one in found) else ""
    kind = _asked_for(test, backend)
    if not kind:
        return ""
    denies = isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.NotEq, ast.NotIn))
    return kind if holds != denies else f"-{kind}"


def is_elsewhere(test: ast.expr, backend: str) -> bool:
    """Whether a test is for another accelerator, or the opposite of that: both branches are looked at."""
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    if isinstance(test, ast.Call):
        return bool(_of_torch(key_of(test.func), backend))
    return isinstance(test, ast.Compare) and machine_of(test, True, backend) != ""


def spelled_out(test: ast.expr, frame: Frame) -> ast.expr:
    """The test that a name stands for, where that is known."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = spelled_out(test.operand, frame)
        return test if inner is test.operand else ast.UnaryOp(test.op, inner)
    known = frame.remembered(test.id) if isinstance(test, ast.Name) else None
    return test if known is None else known


def _other_kind(kinds: set[str], backend: str) -> str:
    """One of the kinds, where all of them mean another machine; else nothing."""
    return min(kinds) if kinds and kinds <= _OTHERS - {backend} else ""


def device_on(test: ast.expr, holds: bool, backend: str) -> tuple[str, str] | None:
    """The dotted name of the program's own device, and which other accelerator it is in a branch."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return device_on(test.operand, not holds, backend)
    if isinstance(test, ast.BoolOp):
        together = isinstance(test.op, ast.And) == holds
        found = [device_on(one, holds, backend) for one in test.values] if together else []
        return next(filter(None, found), None)
    kind = machine_of(test, holds, backend) if isinstance(test, ast.Compare) else ""
    if not kind or kind[0] == "-" or not isinstance(test, ast.Compare):
        return None
    name = key_of(test.left).removesuffix(".type")
    return (name, kind) if name else None


def _asked_for(test: ast.expr, backend: str) -> str:
    if isinstance(test, ast.Call):
        name = key_of(test.func)
        asked = _ASKS.match(name.rpartition(".")[2])
        return _other_kind({asked[1]}, backend) if asked else _of_torch(name, backend)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not names_own_device(test.left):
        return ""
    right = test.comparators[0]
    if isinstance(test.ops[0], (ast.In, ast.NotIn)):
        items = right.elts if isinstance(right, (ast.Tuple, ast.List, ast.Set)) else []
        return _other_kind(set(map(_kind_in, items)), backend)
    return _other_kind({_kind_in(right)}, backend)


def _of_torch(name: str, backend: str) -> str:
    """The other accelerator of `torch.xpu.is_available` or `torch.backends.mps.is_available`."""
    parts = name.split(".")
    asked = len(parts) > 2 and parts[0] == "torch" and parts[-1] in ("is_available", "is_built")
    return _other_kind({parts[-2]}, backend) if asked else ""


def _kind_in(node: ast.expr) -> str:
    if isinstance(node, ast.Call) and key_of(node.func).endswith("device") and node.args:
        node = node.args[0]
    text = node.value if isinstance(node, ast.Constant) else None
    return text.partition(":")[0] if isinstance(text, str) else ""
