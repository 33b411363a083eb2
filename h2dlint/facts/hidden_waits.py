"""Which functions may hold a wait that nobody asked for (HTD202 to HTD204), read off their text and syntax.

The rules about them look at every file that mentions torch. Most functions neither make a tensor from host data nor
index with anything but numbers, and to interpret them would cost more than all the rest.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from h2dlint.facts.callers import names_behind, parameters_of
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
    places = module.lines_with(_PLACES) if data or indexed else []
    for unit in module.units:
        if holds(unit.node, data) or (holds(unit.node, indexed) and _may_send_by_index(unit, module, places)):
            yield unit


def _lines_that_make(module: ModuleInfo) -> list[int]:
    """Lines of calls that make a tensor from host data, on a device that they name or that is set around them."""
    anywhere = module.sets_default_device or "with torch.device(" in module.text
    found: set[int] = set()
    for match in _MAKES.finditer(module.text):
        if anywhere or match[1] or _DEVICE.search(module.text, match.end(), match.end() + _NEAR):
            found.add(module.line_at(match.start()))
    return sorted(found)


def hangs_on_its_callers(unit: Unit) -> bool:
    """Whether what a function is given may decide over its hidden waits: what it indexes, and what it makes tensors of
    and where. What a function inside another sees of that is as good as given.
    """
    if unit.parent is not None:
        return True
    arguments = unit.node.args
    more = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    parameters = {one.arg for one in (*parameters_of(unit), *more) if not _is_number(one)}
    if not parameters:
        return False
    places = [node for node in _nodes_of(unit.node) if type(node) is ast.Subscript or _makes(node)]
    return not parameters.isdisjoint(names_behind(unit.node, places))


def _is_number(parameter: ast.arg) -> bool:
    return isinstance(parameter.annotation, ast.Name) and parameter.annotation.id in _PLAIN_TYPES


_PLAIN_TYPES = frozenset(["int", "float", "str", "bool"])
_MAKERS = frozenset(["new_tensor", "tensor", "as_tensor", "asarray"])


def _makes(node: ast.AST) -> bool:
    if type(node) is not ast.Call:
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in _MAKERS or name.endswith("Tensor")


def _may_send_by_index(unit: Unit, module: ModuleInfo, places: list[int]) -> bool:
    """Whether the function indexes with something that may be host data, or assigns into a place, in what may be on a
    device: it speaks of devices itself, or somebody who calls it does, or what it indexes is no variable of
    its own. `places`: the lines that speak of devices, in order.
    """
    function = unit.node
    numbers: set[str] | None = None
    own: set[str] | None = None
    told: bool | None = None
    for node in _nodes_of(function):
        if type(node) is not ast.Subscript:
            continue
        if isinstance(node.ctx, ast.Load) and _is_plain(node.slice, ()):
            continue
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            continue
        if told is None:
            told = holds(function, places) or any(
                holds(caller.node, places) for caller in module.units_calling(function.name) if caller is not unit
            )
        if not told:
            own = _bound_in(function) if own is None else own
            if not _is_from_outside(node, own):
                continue
        if numbers is None:
            numbers = _numbers_in(function)
        if isinstance(node.ctx, ast.Store) or not _is_plain(node.slice, numbers):
            return True
    return False


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


_LEAVES = frozenset(
    {ast.Name, ast.Constant, ast.Load, ast.Store, ast.Pass, ast.Import, ast.ImportFrom, str, type(None)}
)


def _nodes_of(function: FunctionNode) -> Iterator[ast.AST]:
    """What the function's body holds, without annotations, names and constants."""
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if type(node) in _LEAVES:
            continue
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            stack.extend(node.body)
        elif isinstance(node, ast.AnnAssign):
            stack.extend(child for child in (node.target, node.value) if child is not None)
        else:
            for held in map(node.__dict__.get, node._fields):
                if type(held) is list:
                    stack.extend(held)
                elif isinstance(held, ast.AST):
                    stack.append(held)


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
