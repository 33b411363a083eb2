"""Calls of numpy: fresh ndarrays, and views of the memory of others."""

from __future__ import annotations

import ast

from h2dlint.facts import layout as lay
from h2dlint.facts.domain import CPU, NOTHING, Array, Const, Memory, Sequence, Unknown, Value, mapped
from h2dlint.facts.frame import Frame
from h2dlint.facts.layout import DENSE_UNRANKED, Form, Layout
from h2dlint.facts.operations import fresh, shape_sizes, view_layout
from h2dlint.facts.torch_api import NUMPY_FRESH, NUMPY_VIEWS

_SHAPED = frozenset(["zeros", "ones", "empty", "full"])
_PAIRS = frozenset(["array_split", "split", "nonzero", "meshgrid", "where_", "unique"])


def call_numpy(name: str, args: list[Value], keywords: dict[str, Value], node: ast.AST, frame: Frame) -> Value:
    """`numpy.something(...)`, by dotted name."""
    last = name.rpartition(".")[2]
    if last in ("asarray", "asanyarray", "ascontiguousarray"):
        return mapped(args[0] if args else NOTHING, lambda value: _as_ndarray(value, last, keywords, node, frame))
    if "out" in keywords:
        return keywords["out"]
    if last in NUMPY_VIEWS and args and isinstance(args[0], Array):
        return call_ndarray(args[0].but(kind="ndarray"), last, args[1:], keywords, node, frame)
    if last in NUMPY_FRESH or name.startswith("numpy.random."):
        made = fresh_ndarray(last, _layout(last, args, keywords), node, frame)
        if (
            last in ("array_split", "split", "meshgrid")
            or (last == "unique" and any(key.startswith("return_") for key in keywords))
            or last in ("nonzero",)
        ):
            return Sequence(None, made)
        return made
    return NOTHING


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
        return Const(None)
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
