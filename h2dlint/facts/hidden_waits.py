"""Which functions may hold a wait that nobody asked for (HTD202 to HTD204), read off their text and syntax.

The rules about them look at every file that mentions torch. Most functions neither make a tensor from host data nor
index with anything but numbers, and to interpret them would cost more than all the rest.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from h2dlint.facts.copies import Pitfall
from h2dlint.facts.modules import FunctionNode, ModuleInfo, Unit, holds

_PLACES = re.compile(r"device|\.(?:cuda|npu|xpu|hpu|musa|mlu)\b")
"""Without one of these nothing of a file is on a device, as far as it shows."""
_MAKES = re.compile(r"\b(?:(new_tensor|cuda\.\w+Tensor)|tensor|as_tensor|asarray)\s*\(")
_DEVICE = re.compile(r"\bdevice\b")
_NEAR = 600
"""Characters behind the opening of a call in which it names a device, if it does."""
_SUBSCRIPT = re.compile(r"[\w)\]]\[(?![\"'\]]|-?\d+\](?!\s*=(?!=)))")
_GENERIC = re.compile(r"\b(?:[A-Z]\w*|list|dict|tuple|set|frozenset|type|environ|kwargs)$")
_NUMBERS = frozenset(["len", "int", "min", "max", "range", "round", "abs", "item", "str", "index", "format", "ord"])


def units_that_may_wait(module: ModuleInfo, wanted: Collection[Pitfall]) -> Iterator[Unit]:
    """The functions of a module that hold something which one of these pitfalls may be about."""
    if not _PLACES.search(module.text):
        return
    data = _lines_that_make(module) if Pitfall.HOST_DATA in wanted else []
    indexed: list[int] = []
    if Pitfall.HOST_INDEX in wanted or Pitfall.HOST_VALUE in wanted:
        text = module.text
        ends = (match.end() - 1 for match in _SUBSCRIPT.finditer(text))
        indexed = sorted({module.line_at(end) for end in ends if not _GENERIC.search(text, max(end - 40, 0), end)})
    for unit in module.units:
        if holds(unit.node, data) or (holds(unit.node, indexed) and _may_send_by_index(unit, module)):
            yield unit


def _lines_that_make(module: ModuleInfo) -> list[int]:
    """Lines of calls that make a tensor from host data, on a device that they name or that is set around them."""
    anywhere = module.sets_default_device or "with torch.device(" in module.text
    found: set[int] = set()
    for match in _MAKES.finditer(module.text):
        if anywhere or match[1] or _DEVICE.search(module.text, match.end(), match.end() + _NEAR):
            found.add(module.line_at(match.start()))
    return sorted(found)


def _may_send_by_index(unit: Unit, module: ModuleInfo) -> bool:
    """Whether the function indexes with something that may be host data, or assigns into a place, in what may be on a
    device: it speaks of devices itself, or somebody who calls it does, or what it indexes is no variable of
    its own.
    """
    function = unit.node
    numbers: set[str] | None = None
    own: set[str] | None = None
    places = _speaks_of_devices(unit, module) or any(
        _speaks_of_devices(caller, module) for caller in module.units_calling(function.name) if caller is not unit
    )
    for node in _nodes_of(function):
        if not isinstance(node, ast.Subscript):
            continue
        if isinstance(node.ctx, ast.Load) and _is_plain(node.slice, ()):
            continue
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            continue
        if not places:
            own = _bound_in(function) if own is None else own
            if not _is_from_outside(node, own):
                continue
        if numbers is None:
            numbers = _numbers_in(function)
        if isinstance(node.ctx, ast.Store) or not _is_plain(node.slice, numbers):
            return True
    return False


def _speaks_of_devices(unit: Unit, module: ModuleInfo) -> bool:
    return any(_PLACES.search(line) for line in module.lines[unit.node.lineno - 1 : unit.node.end_lineno])


def _bound_in(function: FunctionNode) -> set[str]:
    """The variables of a function."""
    return {
        one.arg if isinstance(one, ast.arg) else one.id
        for one in ast.walk(function)
        if isinstance(one, ast.arg) or (isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
    }


def _is_from_outside(node: ast.Subscript, own: Collection[str]) -> bool:
    """Whether what is indexed is an attribute, a variable of the module, or a view of one."""
    base: ast.expr = node.value
    while isinstance(base, (ast.Subscript, ast.Call)):
        base = base.value if isinstance(base, ast.Subscript) else base.func
    return base.id not in own if isinstance(base, ast.Name) else isinstance(base, ast.Attribute)


def _nodes_of(function: FunctionNode) -> Iterator[ast.AST]:
    """What the function's body holds, without annotations."""
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            stack.extend(node.body)
        elif isinstance(node, ast.AnnAssign):
            stack.extend(child for child in (node.target, node.value) if child is not None)
        else:
            stack.extend(ast.iter_child_nodes(node))


def _numbers_in(function: FunctionNode) -> set[str]:
    """Names that are numbers or texts in the function: counted by a loop, or declared as such."""
    found: set[str] = set()
    arguments = function.args
    for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if isinstance(one.annotation, ast.Name) and one.annotation.id in ("int", "str", "bool"):
            found.add(one.arg)
    for node in ast.walk(function):
        if isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.iter, ast.Call):
            counted = node.iter.func.id if isinstance(node.iter.func, ast.Name) else ""
            target = node.target
            if counted == "range" and isinstance(target, ast.Name):
                found.add(target.id)
            elif counted == "enumerate" and isinstance(target, ast.Tuple) and isinstance(target.elts[0], ast.Name):
                found.add(target.elts[0].id)
    return found


def _is_plain(index: ast.expr, numbers: Collection[str]) -> bool:
    """Whether an index is made of numbers, slices, and names that are numbers."""
    if isinstance(index, (ast.Constant, ast.Slice)):
        return True
    if isinstance(index, ast.Tuple):
        return all(_is_plain(part, numbers) for part in index.elts)
    if isinstance(index, ast.UnaryOp):
        return _is_plain(index.operand, numbers)
    if isinstance(index, ast.BinOp):
        return _is_plain(index.left, numbers) and _is_plain(index.right, numbers)
    if isinstance(index, ast.Name):
        return index.id in numbers
    if isinstance(index, ast.Call):
        called = index.func.attr if isinstance(index.func, ast.Attribute) else getattr(index.func, "id", "")
        return called in _NUMBERS
    return isinstance(index, ast.JoinedStr)
