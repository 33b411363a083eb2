"""Operators and comparisons: fresh memory for tensors, sizes for integers, masks, identity and device tests."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from h2dlint.facts import events
from h2dlint.facts.domain import (
    NOTHING,
    POINTER,
    POINTER_INTO,
    Array,
    Available,
    Choice,
    Class,
    Const,
    DeviceValue,
    DType,
    Function,
    Instance,
    Loader,
    Mapping,
    Memory,
    Number,
    Partial,
    Sequence,
    Unknown,
    Value,
    arrays_of,
    join,
)
from h2dlint.facts.frame import Frame, key_of
from h2dlint.facts.iteration import MAX_UNROLLED
from h2dlint.facts.layout import DENSE_UNRANKED, Symbol
from h2dlint.facts.machines import names_own_device
from h2dlint.facts.operations import combinations, elementwise_layout, flat_arrays, fresh
from h2dlint.facts.torch_api import ACCELERATOR_MODULES, METHODS, Effect, Op

_BINARY = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
    ast.LShift: "bitwise_left_shift",
    ast.RShift: "bitwise_right_shift",
}
SYMBOLS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.USub: "-",
    ast.Invert: "~",
}
_COMPARE = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}

_NO_ROW = Op(Effect.QUERY)
_WITH_PARTS = frozenset({Array, Sequence, Choice})
"""Values that are tensors, or may hold some."""


def _merged(left: Mapping, right: Mapping) -> Mapping:
    """`one | other`: of a key that both have, the other's value."""
    others = [one for one in (left.item, right.item) if one is not None]
    known = dict(right.items) if right.item is not None else {**dict(left.items), **dict(right.items)}
    if right.item is not None:  # it may have any of the keys of the first
        others += [value for key, value in left.items if key not in known]
    return Mapping(tuple(known.items()), join(others) if others else None)


def binary(left: Value, right: Value, op: ast.operator, node: ast.AST, frame: Frame) -> Value:
    """`left op right`: arithmetic on tensors makes fresh memory, on integers a size."""
    if type(left) not in _WITH_PARTS and type(right) not in _WITH_PARTS:
        if type(left) is Mapping and type(right) is Mapping:
            return _merged(left, right) if isinstance(op, ast.BitOr) else NOTHING
        return _number(left, right, op)
    if (type(left) is Choice or type(right) is Choice) and flat_arrays((left, right))[0]:
        ways = [
            (binary(one[0] or NOTHING, one[1] or NOTHING, op, node, frame), tags)
            for one, tags in combinations(left, right)
        ]
        return join([value for value, _ in ways], [tags for _, tags in ways])
    arrays, hidden = flat_arrays((left, right))
    plain = not isinstance(left, Sequence) and not isinstance(right, Sequence)
    if arrays and (plain or any(isinstance(value, Array) for value in (left, right))):
        return arithmetic(arrays, hidden, _BINARY.get(type(op), "op"), SYMBOLS.get(type(op), "op"), node, frame)
    if isinstance(left, Sequence) and isinstance(right, Sequence) and isinstance(op, ast.Add):
        if left.items is not None and right.items is not None:
            return Sequence(left.items + right.items, may_be_tuple=left.may_be_tuple)
        return Sequence(None, join((left.any_item(), right.any_item())), may_be_tuple=left.may_be_tuple)
    if isinstance(left, Sequence) and isinstance(op, ast.Mult):
        if (
            left.items is not None
            and isinstance(right, Const)
            and isinstance(right.value, int)
            and len(left.items) * right.value <= MAX_UNROLLED * 4
        ):
            return Sequence(left.items * right.value, may_be_tuple=left.may_be_tuple)
        return Sequence(None, left.any_item(), may_be_tuple=left.may_be_tuple)
    return _number(left, right, op)


def _number(left: Value, right: Value, op: ast.operator) -> Value:
    for side in (left, right):
        if isinstance(side, Unknown) and side.key.startswith(POINTER):  # somewhere into the same memory
            return Unknown(POINTER_INTO + side.key.partition(":")[2], "number")
    if isinstance(left, Const) and isinstance(right, Const):
        return _constant_result(left, right, op)
    symbol = (
        left.size if isinstance(left, Number) else Symbol(left.key) if isinstance(left, Unknown) and left.key else None
    )
    if (
        isinstance(symbol, Symbol)
        and isinstance(right, Const)
        and isinstance(right.value, int)
        and isinstance(op, (ast.Add, ast.Sub))
    ):
        offset = right.value if isinstance(op, ast.Add) else -right.value
        return Number(Symbol(symbol.name, symbol.offset + offset))
    if (
        isinstance(left, Const)
        and isinstance(left.value, int)
        and isinstance(op, ast.Add)
        and not isinstance(right, Const)
    ):
        return _number(right, left, op)
    known = [value for value in (left, right) if isinstance(value, (Const, Number))]
    numeric = any(
        isinstance(value, Number) or (isinstance(value, Const) and isinstance(value.value, (int, float)))
        for value in known
    )
    maybe_tensor = any(isinstance(value, Unknown) and value.why != "number" for value in (left, right))
    if (isinstance(left, Number) and isinstance(right, Number)) or (numeric and not maybe_tensor):
        return Number(Symbol(_text_of(left) + type(op).__name__ + _text_of(right)))
    if (isinstance(left, Unknown) and left.why == "number") or (isinstance(right, Unknown) and right.why == "number"):
        return Unknown(why="number") if not maybe_tensor else NOTHING
    keys = [value.key for value in (left, right) if isinstance(value, Unknown)]
    return Unknown(f"({_text_of(left)}{type(op).__name__}{_text_of(right)})") if all(keys) else NOTHING


def _text_of(value: Value) -> str:
    if isinstance(value, Const):
        return repr(value.value)
    if isinstance(value, Number):
        return repr(value.size)
    return getattr(value, "key", "?")


def _constant_result(left: Const, right: Const, op: ast.operator) -> Value:
    both = (left.value, right.value)
    if all(isinstance(value, int) and abs(value) < 2**40 for value in both) and isinstance(
        op, (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
    ):
        a, b = both
        if isinstance(op, (ast.FloorDiv, ast.Mod)) and b == 0:
            return NOTHING
        results = {ast.Add: a + b, ast.Sub: a - b, ast.Mult: a * b}
        found = results.get(type(op))
        if found is None:
            found = a // b if isinstance(op, ast.FloorDiv) else a % b
        return Const(found, left.soft or right.soft)
    if isinstance(op, ast.LShift) and all(isinstance(value, int) and 0 <= value < 64 for value in both):
        return Const(both[0] << both[1])
    return Unknown(why="number") if all(isinstance(value, (int, float)) for value in both) else NOTHING


def arithmetic(arrays: list[Array], hidden: bool, name: str, symbol: str, node: ast.AST, frame: Frame) -> Value:
    """An operator on tensors or ndarrays: fresh memory, an ndarray when only ndarrays take part."""
    index_built = not hidden and all(array.index_built for array in arrays) and METHODS.get(name, _NO_ROW).index
    dtype = (
        "bool"
        if name in _COMPARE.values()
        else arrays[0].dtype
        if len({array.dtype for array in arrays}) == 1 and not hidden and name != "div"
        else None
    )
    if all(array.kind == "ndarray" for array in arrays):
        events.read(frame, arrays, node)
        return arrays[0].but(
            memory=Memory.PAGEABLE,
            layout=DENSE_UNRANKED if hidden else elementwise_layout(arrays),
            from_numpy=True,
            dtype=dtype,
            storage=frame.interpreter.fresh_storage(),
            part="",
            scalar=all(array.scalar for array in arrays),
            trail=frame.trail(node, symbol, f"`{symbol}` makes a fresh ndarray", arrays[0].trail),
        )
    layout = DENSE_UNRANKED if hidden else elementwise_layout(arrays)
    return fresh(
        arrays, node, symbol, frame, layout=layout, dtype=dtype, index_built=index_built, unknown_inputs=hidden
    )


def compare(left: Value, right: Value, op: ast.cmpop, node: ast.Compare, frame: Frame) -> Value:
    """One comparison; of tensors it makes a mask, of constants a constant."""
    if isinstance(op, (ast.Is, ast.IsNot)):
        return _identity(left, right, isinstance(op, ast.Is))
    test = device_test(node, left, right, frame.interpreter.options.backend)
    if test is not None:
        return test
    if isinstance(op, (ast.In, ast.NotIn)):
        events.read(frame, arrays_of(right), node)
        return NOTHING
    if (type(left) is Choice or type(right) is Choice) and flat_arrays((left, right))[0]:
        ways = [
            (compare(one[0] or NOTHING, one[1] or NOTHING, op, node, frame), tags)
            for one, tags in combinations(left, right)
        ]
        return join([value for value, _ in ways], [tags for _, tags in ways])
    arrays, hidden = flat_arrays((left, right))
    if arrays and not isinstance(left, Sequence) and not isinstance(right, Sequence):
        return arithmetic(arrays, hidden, _COMPARE[type(op)], SYMBOLS[type(op)], node, frame)
    if isinstance(left, DeviceValue) and isinstance(right, DeviceValue):
        if left.device.is_unknown or right.device.is_unknown:
            return NOTHING
        return Const((left.device.kind == right.device.kind) == isinstance(op, ast.Eq))
    if isinstance(left, Const) and isinstance(right, Const):
        return _constants(left, right, op)
    if isinstance(left, Available) or isinstance(right, Available):
        return Available()
    if _is_device_count(node.left) and isinstance(right, Const):
        return Available()
    return NOTHING


def _is_device_count(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and key_of(node.func).endswith("device_count")


def device_test(node: ast.Compare, left: Value, right: Value, backend: str) -> Value | None:
    """`device.type == "cuda"` of a device object: an availability test. A tensor's device is left to the guards."""
    op = node.ops[0]
    if isinstance(op, (ast.In, ast.NotIn)):
        if isinstance(left, Const):  # `"cuda" in str(device)`, not `"cpu" in device_map`
            if not _is_text_of_one(node.comparators[0]):
                return None
            return kind_test(node.comparators[0], [left], isinstance(op, ast.In), backend)
        kinds = right.items if isinstance(right, Sequence) and right.items else []
        return kind_test(node.left, kinds, isinstance(op, ast.In), backend)
    if isinstance(left, Const) or not isinstance(op, (ast.Eq, ast.NotEq)):
        return None
    return kind_test(node.left, [right], isinstance(op, ast.Eq), backend)


def _is_text_of_one(node: ast.expr) -> bool:
    """Whether an expression is the text of a single device, rather than a container of several."""
    if isinstance(node, ast.Call):
        return key_of(node.func) == "str"
    return key_of(node).endswith(("device", ".type", "device_type", "device_name", "dev"))


def kind_test(holder: ast.expr, kinds: Iterable[Value], holds: bool, backend: str) -> Value | None:
    """Whether an expression that stands for the program's own device is one of these kinds, or is none of them. A test
    for other accelerators alone says nothing of the one that is asked about.
    """
    names = set(map(_kind_of, kinds))
    own = not names.isdisjoint({"cuda", backend})
    if not names or None in names or ("cpu" in names and own) or not names_own_device(holder):
        return None
    if not own and "cpu" not in names and holds:
        return NOTHING
    return Available() if own == holds else Const(False)


def _kind_of(value: Value) -> str | None:
    if isinstance(value, DeviceValue):
        return value.device.kind if value.device.kind in _KINDS else None
    kind = value.value.partition(":")[0] if isinstance(value, Const) and isinstance(value.value, str) else ""
    return kind if kind in _KINDS else None


_KINDS = ACCELERATOR_MODULES | {"cpu"}


_NEVER_NONE = frozenset(
    {Array, Sequence, Mapping, Instance, Function, Class, Number, DeviceValue, DType, Loader, Partial}
)


def _identity(left: Value, right: Value, same: bool) -> Value:
    if isinstance(right, Const) and right.value is None:
        if isinstance(left, Const):
            return Const((left.value is None) == same, left.soft)
        if isinstance(left, Array) and left.by_name:
            return NOTHING  # a name says where a tensor would be, not that there is one
        if type(left) in _NEVER_NONE:
            return Const(not same)
        return NOTHING
    if isinstance(left, Const) and isinstance(right, Const) and isinstance(right.value, bool):
        return Const((left.value is right.value) == same, left.soft)
    return NOTHING


def _constants(left: Const, right: Const, op: ast.cmpop) -> Value:
    soft = left.soft or right.soft
    if isinstance(op, ast.Eq):
        return Const(left.value == right.value, soft, left.origin)
    if isinstance(op, ast.NotEq):
        return Const(left.value != right.value, soft, left.origin)
    if all(isinstance(value.value, (int, float)) for value in (left, right)):
        a, b = left.value, right.value
        results = {ast.Lt: a < b, ast.LtE: a <= b, ast.Gt: a > b, ast.GtE: a >= b}
        return Const(results[type(op)], soft, left.origin)
    return NOTHING
