"""Calls of numpy: fresh ndarrays, and views of the memory of others."""

from __future__ import annotations

import ast

from h2dlint.facts import events
from h2dlint.facts import layout as lay
from h2dlint.facts.domain import (
    CPU,
    NOTHING,
    Array,
    Const,
    Memory,
    Number,
    Sequence,
    Unknown,
    Value,
    arrays_of,
    mapped,
)
from h2dlint.facts.flags import Truth, truth
from h2dlint.facts.frame import Frame
from h2dlint.facts.layout import DENSE_UNRANKED, Form, Layout
from h2dlint.facts.operations import as_int, fresh, shape_sizes, view_layout
from h2dlint.facts.torch_api import NUMPY_FRESH, NUMPY_VIEWS

_SHAPED = frozenset(["zeros", "ones", "empty", "full"])
_PIECES: dict[str, int | None] = {"split": None, "array_split": None, "hsplit": 1, "vsplit": 0, "dsplit": 2}
"""Functions that cut an ndarray into views, with the axis where the name fixes it."""
_REDUCTIONS = frozenset(["prod", "sum", "max", "min", "mean", "amax", "amin", "argmax", "argmin", "median"])


def call_numpy(name: str, args: list[Value], keywords: dict[str, Value], node: ast.AST, frame: Frame) -> Value:
    """`numpy.something(...)`, by dotted name."""
    last = name.rpartition(".")[2]
    if last in ("asarray", "asanyarray", "ascontiguousarray"):
        for array in arrays_of(args[0]) if args else ():
            events.expose(frame, array, node)
        return mapped(args[0] if args else NOTHING, lambda value: _as_ndarray(value, last, keywords, node, frame))
    if last == "copyto" and args:
        events.write(frame, args[0], node)
    for value in args[1:] if last == "copyto" else args:
        if last not in NUMPY_VIEWS and last not in _PIECES and last != "frombuffer":
            events.read_value(frame, value, node)
    if "out" in keywords:
        events.write(frame, keywords["out"], node)
        return keywords["out"]
    if last in _PIECES and args and isinstance(args[0], Array):
        return _pieces(last, args[0], args[1:], keywords, node, frame)
    if last == "frombuffer" and args and isinstance(args[0], Array):
        return args[0].but(kind="ndarray", dtype=None, layout=Layout(None, args[0].layout.form))
    if last == "array" and "copy" in keywords and truth(keywords["copy"]) is not Truth.TRUE:
        return mapped(args[0] if args else NOTHING, lambda value: _as_ndarray(value, "asarray", keywords, node, frame))
    if last == "array" and args and isinstance(args[0], (Const, Number)):
        return fresh_ndarray(last, lay.dense([]), node, frame)
    if last == "asfortranarray":
        return mapped(args[0] if args else NOTHING, lambda value: _fortran(value, node, frame))
    if last in _REDUCTIONS and not {"axis", "keepdims", "out"} & set(keywords) and len(args) == 1:
        return Unknown(why="number")
    if last in NUMPY_VIEWS and args and isinstance(args[0], Array):
        return call_ndarray(args[0].but(kind="ndarray"), last, args[1:], keywords, node, frame)
    if last in NUMPY_FRESH or name.startswith("numpy.random."):
        made = fresh_ndarray(last, _layout(last, args, keywords), node, frame)
        if (
            last == "meshgrid"
            or (last == "unique" and any(key.startswith("return_") for key in keywords))
            or last == "nonzero"
            or (last == "where" and len(args) == 1)
        ):
            return Sequence(None, made, may_be_tuple=True)
        return made.but(scalar=True) if _may_be_number(last, args, keywords) else made
    return NOTHING


_ELEMENTWISE = frozenset(
    [
        "add", "subtract", "multiply", "divide", "floor_divide", "mod", "minimum", "maximum", "clip", "abs", "absolute",
        "round", "floor", "ceil", "sqrt", "exp", "log", "power", "equal", "not_equal", "logical_and", "logical_or",
        "logical_not", "searchsorted", "isin",
    ]
)  # fmt: skip
"""Functions that give a number for numbers; of `searchsorted` the second argument decides."""
_SIZE_AT = {
    "randint": 2, "choice": 1, "random": 0, "random_sample": 0, "uniform": 2, "normal": 2, "standard_normal": 0,
    "integers": 2, "poisson": 1, "exponential": 1, "beta": 2, "gamma": 2, "binomial": 2, "geometric": 1, "rand": 0,
    "randn": 0, "triangular": 3, "laplace": 2, "lognormal": 2,
}  # fmt: skip
"""Where `numpy.random.*` is told how many; without it gives one number for numbers."""


def _may_be_number(name: str, args: list[Value], keywords: dict[str, Value]) -> bool:
    """Whether a function of numpy may give a number here, not an array."""
    if name in _ELEMENTWISE:
        operands = args[1:] if name == "searchsorted" else args
    elif name in _SIZE_AT and "size" not in keywords and len(args) <= _SIZE_AT[name]:
        operands = [] if name == "choice" else args
    else:
        return False
    return not any(isinstance(one, Sequence) or (isinstance(one, Array) and not one.scalar) for one in operands)


def _pieces(
    name: str, array: Array, args: list[Value], keywords: dict[str, Value], node: ast.AST, frame: Frame
) -> Value:
    """Views along an axis: columns leave gaps, rows do not."""
    fixed = _PIECES[name]
    given = keywords.get("axis", args[1] if len(args) > 1 else Const(0))
    axis = fixed if fixed is not None else as_int(given)
    count = as_int(args[0]) if args else None
    whole = (
        array.layout.sizes[axis] if axis is not None and array.layout.sizes and axis < len(array.layout.sizes) else None
    )
    size = -(-whole // count) if isinstance(whole, int) and count else None
    layout = lay.UNKNOWN_LAYOUT if axis is None else lay.divided(array.layout, axis, size)
    return Sequence(None, array.but(kind="ndarray", layout=layout))


def _fortran(value: Value, node: ast.AST, frame: Frame) -> Value:
    """Column-major memory: the array itself if it lies so, else a copy that does."""
    if not isinstance(value, Array) or value.layout.sizes is None or len(value.layout.sizes) < 2:
        return value if isinstance(value, Array) else NOTHING
    wanted = lay.reversed_axes(lay.dense(value.layout.sizes[::-1]))
    return value if lay.same_strides(value.layout, wanted) else fresh_ndarray("asfortranarray", wanted, node, frame)


def fresh_ndarray(label: str, layout: Layout, node: ast.AST, frame: Frame) -> Array:
    """An ordinary ndarray: pageable memory."""
    trail = frame.trail(node, label, f"`{label}` makes an ndarray in pageable memory")
    return Array(
        "ndarray", CPU, Memory.PAGEABLE, layout, trail, None, frame.interpreter.fresh_storage(), from_numpy=True
    )


def _layout(name: str, args: list[Value], keywords: dict[str, Value]) -> Layout:
    if name not in _SHAPED:
        return DENSE_UNRANKED
    sizes = shape_sizes([args[0] if args else keywords.get("shape", NOTHING)])
    return DENSE_UNRANKED if sizes is None else lay.dense(sizes)


def _as_ndarray(value: Value, name: str, keywords: dict[str, Value], node: ast.AST, frame: Frame) -> Value:
    """The same memory for a tensor or an ndarray, unless a dtype or an order makes a copy."""
    if isinstance(value, Array) and value.kind in ("tensor", "ndarray"):
        dense = value.layout.form in (Form.DENSE, Form.EMPTY)
        if name == "ascontiguousarray" and not dense:
            if value.layout.form is Form.GAPPED or value.memory is Memory.PAGEABLE:
                return fresh_ndarray(name, DENSE_UNRANKED, node, frame)
            return value.but(kind="ndarray", memory=Memory.UNKNOWN, layout=DENSE_UNRANKED)
        if "dtype" in keywords and value.memory is not Memory.PAGEABLE:
            return value.but(kind="ndarray", memory=Memory.UNKNOWN)
        return value.but(kind="ndarray")
    if isinstance(value, Sequence):
        return fresh_ndarray(name, DENSE_UNRANKED, node, frame)
    return Array("ndarray", CPU, Memory.UNKNOWN, DENSE_UNRANKED, from_numpy=True)


def call_ndarray(
    array: Array, name: str, args: list[Value], keywords: dict[str, Value], node: ast.AST, frame: Frame
) -> Value:
    """A method of an ndarray."""
    if "out" in keywords:
        events.read(frame, [array], node)
        events.write(frame, keywords["out"], node)
        return keywords["out"]
    tensor = array.but(kind="tensor")
    if name == "view":
        return array.but(dtype=None)
    if name in ("reshape", "ravel"):
        if array.layout.form in (Form.DENSE, Form.EMPTY):
            layout = view_layout("view", tensor, args if name == "reshape" else [Const(-1)], {})
            return array.but(layout=layout or DENSE_UNRANKED)
        return fresh_ndarray(name, DENSE_UNRANKED, node, frame)
    if name in ("transpose", "swapaxes"):
        layout = view_layout("permuted" if name == "transpose" else "transposed", tensor, args, {})
        return array.but(layout=layout or lay.PERMUTED_UNRANKED)
    if name == "squeeze":
        return array.but(layout=Layout(None, array.layout.form))
    if name == "astype":
        if "copy" in keywords and array.memory is not Memory.PAGEABLE:
            return array.but(memory=Memory.UNKNOWN)
        return _copied(array, name, node, frame)
    if name in ("fill", "sort", "put", "resize", "partition", "itemset"):
        events.write(frame, array, node)
        return Const(None)
    events.read(frame, [array], node)
    if name in ("item", "tolist"):
        return Unknown(why="number") if name == "item" else Sequence(None, Unknown(why="number"))
    if (
        name in ("sum", "max", "min", "mean", "prod", "argmax", "argmin", "std", "any", "all")
        and not args
        and not keywords
    ):
        return Unknown(why="number")
    if name in NUMPY_FRESH:
        return _copied(array, name, node, frame)
    return NOTHING


def _copied(array: Array, name: str, node: ast.AST, frame: Frame) -> Value:
    made = fresh([array.but(kind="tensor")], node, name, frame)
    return made.but(kind="ndarray", from_numpy=True) if isinstance(made, Array) else NOTHING
