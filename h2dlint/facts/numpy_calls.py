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
    DType,
    Memory,
    Named,
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
from h2dlint.facts.operations import as_int, fresh, numbers_of, shape_sizes, view_layout
from h2dlint.facts.torch_api import DTYPES, NUMPY_FRESH, NUMPY_VIEWS, SAME_DTYPE

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
        dense = args[0].layout.form is Form.DENSE
        layout = lay.dense([None]) if dense else Layout(None, args[0].layout.form)
        return args[0].but(kind="ndarray", dtype=None, layout=layout)
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
        made = fresh_ndarray(last, _layout(last, args, keywords), node, frame, _dtype(last, args, keywords))
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


def fresh_ndarray(label: str, layout: Layout, node: ast.AST, frame: Frame, dtype: str | None = None) -> Array:
    """An ordinary ndarray: pageable memory."""
    trail = frame.trail(node, label, f"`{label}` makes an ndarray in pageable memory")
    storage = frame.interpreter.fresh_storage()
    return Array("ndarray", CPU, Memory.PAGEABLE, layout, trail, dtype, storage, from_numpy=True)


_DTYPE_AT = {
    "zeros": 1,
    "ones": 1,
    "empty": 1,
    "full": 2,
    "array": 1,
    "asarray": 1,
    "arange": 3,
    "fromiter": 1,
    "eye": 3,
}
"""Where a function of numpy takes the dtype."""
_FLOATS = frozenset(["zeros", "ones", "empty", "eye"])
"""What these make without a dtype is `float64`."""
_NAMES = {
    "bool_": "bool", "intp": "int64", "single": "float32", "int_": "int64", "int": "int64", "long": "int64",
    "float": "float64", "double": "float64", "half": "float16", "short": "int16", "byte": "int8", "ubyte": "uint8",
}  # fmt: skip


def dtype_named(value: Value | None) -> str | None:
    """The dtype that numpy is asked for: `np.float32`, `"float32"`, `float`."""
    if isinstance(value, DType):
        return SAME_DTYPE.get(value.name, value.name)
    name = value.name if isinstance(value, Named) else value.value if isinstance(value, Const) else None
    if not isinstance(name, str):
        return None
    last = name.rpartition(".")[2]
    last = _NAMES.get(last, last)
    return last if last in DTYPES else None


def _dtype(name: str, args: list[Value], keywords: dict[str, Value]) -> str | None:
    """The dtype of what a function of numpy makes, where it shows."""
    position = _DTYPE_AT.get(name, len(args))
    asked = keywords.get("dtype", args[position] if position < len(args) else None)
    return dtype_named(asked) if asked is not None else "float64" if name in _FLOATS else None


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
        wanted = dtype_named(keywords.get("dtype"))
        if "dtype" in keywords and value.memory is not Memory.PAGEABLE and (wanted is None or wanted != value.dtype):
            return value.but(kind="ndarray", memory=Memory.UNKNOWN, dtype=wanted)
        return value.but(kind="ndarray")
    if isinstance(value, Sequence):
        return fresh_ndarray(name, DENSE_UNRANKED, node, frame)
    return Array("ndarray", CPU, Memory.UNKNOWN, DENSE_UNRANKED, from_numpy=True)


_VIEWS = {
    "transpose": "permuted",
    "swapaxes": "transposed",
    "moveaxis": "moved",
    "squeeze": "squeezed",
    "expand_dims": "unsqueezed",
    "broadcast_to": "expanded",
    "diagonal": "diagonal",
    "atleast_1d": "at-least-1",
    "atleast_2d": "at-least-2",
    "atleast_3d": "at-least-3",
}
"""Views of an ndarray, by the shape of the row that is the same view of a tensor."""
_TORCH_WORDS = {"axis": "dim"}


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
        layout = view_layout("view", tensor, args if name == "reshape" else [Const(-1)], {})
        if layout is not None and (array.layout.form is not Form.GAPPED or layout.form is not Form.UNKNOWN):
            return array.but(layout=layout)
        return fresh_ndarray(name, layout or DENSE_UNRANKED, node, frame)
    if name in _VIEWS:
        shape = "reversed" if name == "transpose" and not args and not keywords else _VIEWS[name]
        axes = {_TORCH_WORDS.get(key, key): value for key, value in keywords.items()}
        layout = view_layout(shape, tensor, args, axes)
        return array.but(layout=layout or Layout(None, array.layout.form))
    if name == "astype":
        wanted = dtype_named(args[0] if args else keywords.get("dtype"))
        kept = "copy" in keywords and truth(keywords["copy"]) is not Truth.TRUE
        if kept and wanted is not None and wanted == array.dtype:
            return array
        if kept and array.memory is not Memory.PAGEABLE and (wanted is None or array.dtype is None):
            return array.but(memory=Memory.UNKNOWN, dtype=wanted)
        return mapped(_copied(array, name, node, frame), lambda made: _of_dtype(made, wanted))
    if name in ("fill", "sort", "put", "resize", "partition", "itemset"):
        events.write(frame, array, node)
        return Const(None)
    events.read(frame, [array], node)
    if name in ("item", "tolist"):
        return Unknown(why="number") if name == "item" else numbers_of(array)
    if (
        name in ("sum", "max", "min", "mean", "prod", "argmax", "argmin", "std", "any", "all")
        and not args
        and not keywords
    ):
        return Unknown(why="number")
    if name in NUMPY_FRESH:
        return _copied(array, name, node, frame)
    return NOTHING


def _of_dtype(value: Value, dtype: str | None) -> Value:
    return value.but(dtype=dtype) if isinstance(value, Array) else value


def _copied(array: Array, name: str, node: ast.AST, frame: Frame) -> Value:
    made = fresh([array.but(kind="tensor")], node, name, frame)
    return made.but(kind="ndarray", from_numpy=True) if isinstance(made, Array) else NOTHING
