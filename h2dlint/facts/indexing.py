"""`x[...]` and `x[...] = y`: views, fancy indexing, and the waits that either can hide on a device tensor."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TypeAlias

from h2dlint.facts import events, parts, pitfalls
from h2dlint.facts import layout as lay
from h2dlint.facts.attributes import instance_attribute
from h2dlint.facts.copies import Direction, Pinning, Pitfall, Verdict
from h2dlint.facts.domain import (
    NOTHING,
    PICKED,
    Array,
    Choice,
    Const,
    Function,
    Instance,
    Loader,
    Mapping,
    Memory,
    Named,
    Number,
    Sequence,
    Slice,
    Trail,
    Unknown,
    Value,
    is_named_tuple,
    join,
    mapped,
    under_key,
)
from h2dlint.facts.frame import Frame
from h2dlint.facts.layout import DENSE_UNRANKED, Form, Index, Layout, Size
from h2dlint.facts.operations import as_size
from h2dlint.facts.transfers import Site, record, waits
from h2dlint.facts.verdict import Ruling

Evaluate: TypeAlias = Callable[[ast.expr, Frame], Value]


class Indices:
    """An evaluated index: its basic items, or the fancy ones that make a copy."""

    __slots__ = ("basic", "fancy", "field", "unknown")

    def __init__(self) -> None:
        self.basic: list[Index] = []
        self.fancy: list[Value] = []
        self.unknown = False
        self.field = False
        """A field of a structured ndarray: its elements lie apart."""


def read_index(node: ast.expr, evaluate: Evaluate, frame: Frame) -> Indices:
    """Sort the items of an index expression into ints, slices, None, ellipsis, fancy and unknown ones."""
    found = Indices()
    if isinstance(node, (ast.Tuple, ast.Slice, ast.Starred)):
        for item in node.elts if isinstance(node, ast.Tuple) else [node]:
            _read_item(item, found, evaluate, frame)
        return found
    value = evaluate(node, frame)
    if isinstance(value, Sequence) and value.may_be_tuple:
        _read_tuple(value, found)
    else:
        _read_value(value, found)
    return found


def _read_item(item: ast.expr, found: Indices, evaluate: Evaluate, frame: Frame) -> None:
    if isinstance(item, ast.Slice):
        found.basic.append(_slice(item, evaluate, frame))
    elif isinstance(item, ast.Starred):
        found.unknown = True
    else:
        _read_value(evaluate(item, frame), found)


def _read_tuple(value: Sequence, found: Indices) -> None:
    """A tuple that has a name, or what may be one: its items are those of the index, as far as they are known."""
    if value.items is not None:
        for item in value.items:
            _read_value(item, found)
        return
    found.unknown = True
    if isinstance(value.item, Array) and not value.item.scalar:
        found.fancy.append(value.item)


def _read_value(value: Value, found: Indices) -> None:
    if isinstance(value, Const):
        if value.value is None:
            found.basic.append(lay.NewAxis())
        elif value.value is Ellipsis:
            found.basic.append(lay.Ellipsis_())
        elif isinstance(value.value, bool):
            found.fancy.append(value)
        elif isinstance(value.value, str):
            found.field = True
        else:
            found.basic.append(lay.IntIndex())
    elif _is_position(value):
        found.basic.append(lay.IntIndex())
    elif isinstance(value, Named) and value.name == "numpy.newaxis":
        found.basic.append(lay.NewAxis())
    elif isinstance(value, Slice):
        found.basic.append(value.item)
    elif (isinstance(value, Array) and not value.scalar) or isinstance(value, Sequence):
        found.fancy.append(value)
        found.basic.append(lay.IntIndex())
    elif isinstance(value, Unknown) and value.why == "number":
        found.basic.append(lay.IntIndex())
    else:
        found.unknown = True
        found.basic.append(lay.IntIndex())


def _is_position(value: Value) -> bool:
    """An integer: also as an element of an ndarray, or as a host tensor of one element."""
    if isinstance(value, Array):
        return value.scalar or (value.device.is_cpu and value.layout.rank == 0 and value.dtype != "bool")
    return isinstance(value, Number)


def _slice(item: ast.Slice, evaluate: Evaluate, frame: Frame) -> lay.SliceIndex:
    def bound(node: ast.expr | None) -> tuple[Size, bool]:
        if node is None:
            return None, False
        value = evaluate(node, frame)
        if isinstance(value, Const) and value.value is None:
            return None, False
        return as_size(value), True

    start, has_start = bound(item.lower)
    stop, has_stop = bound(item.upper)
    step, has_step = bound(item.step)
    return lay.SliceIndex(start, stop, step, has_start, has_stop, has_step)


def element(value: Value, node: ast.Subscript, evaluate: Evaluate, frame: Frame) -> Value:
    """The value of `value[index]`."""
    return mapped(value, lambda inner: _element_of(inner, node, evaluate, frame))


def _element_of(value: Value, node: ast.Subscript, evaluate: Evaluate, frame: Frame) -> Value:
    if isinstance(value, Array):
        if value.kind == "batch":
            return _batch_element(value, node, evaluate, frame)
        if value.kind == "module":
            return value
        return array_element(value, read_index(node.slice, evaluate, frame), node, frame)
    if isinstance(value, Sequence):
        return _sequence_element(value, node, evaluate, frame)
    if isinstance(value, Mapping):
        key = evaluate(node.slice, frame)
        if isinstance(key, Const):
            found = value.get(key.value)
            return NOTHING if found is None else found
        return under_key(value.any_item(), node.slice) if value.items or value.item is not None else NOTHING
    if isinstance(value, Loader):
        return value.batch
    if isinstance(value, Instance):
        return _item_of_object(value, node, evaluate, frame)
    if value is PICKED:
        return PICKED
    if not isinstance(node.slice, ast.Slice) and _picked(read_index(node.slice, evaluate, frame), node):
        return PICKED
    if isinstance(value, Unknown) and value.why == "shape" and isinstance(node.slice, ast.Slice):
        return Unknown(why="shape")  # its positions are not those of the whole
    if isinstance(value, Unknown) and value.why == "shape" and not value.key:
        return Unknown(why="number")
    if isinstance(value, Unknown) and value.key:
        index = evaluate(node.slice, frame) if isinstance(node.slice, (ast.Constant, ast.UnaryOp)) else None
        if isinstance(index, Const):
            why = "number" if value.why in ("number", "shape") else ""
            return Unknown(f"{value.key}[{index.value!r}]", why)
    return NOTHING


def _item_of_object(value: Instance, node: ast.Subscript, evaluate: Evaluate, frame: Frame) -> Value:
    index = evaluate(node.slice, frame)
    method = NOTHING if value.info is None else instance_attribute(value, "__getitem__", node, frame)
    if isinstance(method, Function):
        return frame.interpreter.call_function(method, [index], {}, frame, node, "")
    return _field(value, index)


def _field(value: Instance, index: Value) -> Value:
    """A field of a named tuple by its position."""
    if not is_named_tuple(value) or value.fields is None:
        return NOTHING
    position = index.value if isinstance(index, Const) and isinstance(index.value, int) else len(value.fields)
    return value.fields[position][1] if -len(value.fields) <= position < len(value.fields) else NOTHING


def _batch_element(value: Array, node: ast.Subscript, evaluate: Evaluate, frame: Frame) -> Value:
    """One leaf of a loader's batch by key or position; sliced, it must be a tensor."""
    if isinstance(node.slice, (ast.Slice, ast.Tuple)):
        return array_element(value.but(kind="tensor"), read_index(node.slice, evaluate, frame), node, frame)
    key = evaluate(node.slice, frame)
    if isinstance(key, Array) and key.kind == "batch":  # `for key in batch: batch[key]`
        return value
    if isinstance(key, (Array, Sequence)):
        return array_element(value.but(kind="tensor"), read_index(node.slice, evaluate, frame), node, frame)
    return value


def _sequence_element(value: Sequence, node: ast.Subscript, evaluate: Evaluate, frame: Frame) -> Value:
    if isinstance(node.slice, ast.Slice):
        bounds = [
            None if bound is None else evaluate(bound, frame)
            for bound in (node.slice.lower, node.slice.upper, node.slice.step)
        ]
        if value.items is not None and all(bound is None or isinstance(bound, Const) for bound in bounds):
            numbers = [bound.value if isinstance(bound, Const) else None for bound in bounds]
            if all(number is None or isinstance(number, int) for number in numbers) and numbers[2] != 0:
                return Sequence(value.items[slice(*numbers)], may_be_tuple=value.may_be_tuple)
        return Sequence(None, value.any_item(), may_be_tuple=value.may_be_tuple)
    index = evaluate(node.slice, frame)
    if value.items is not None and isinstance(index, Const) and isinstance(index.value, int):
        return value.items[index.value] if -len(value.items) <= index.value < len(value.items) else NOTHING
    return value.any_item()


def array_element(array: Array, index: Indices, node: ast.expr, frame: Frame) -> Value:
    """`tensor[index]` or `ndarray[index]`."""
    _sent_index(array, index, "__getitem__", node, frame)
    if array.device.is_accelerator:
        return _device_element(array, index, node, frame)
    if index.fancy:
        if not (isinstance(frame.unused, ast.Call) and getattr(frame.unused.func, "value", None) is node):
            events.read(frame, [array], node)
        label = "fancy index"
        message = "indexing with a list, an array or a tensor makes a fresh pageable copy"
        if not array.device.is_cpu:
            return array.but(layout=DENSE_UNRANKED, memory=Memory.UNKNOWN, storage=0, picked=_picked(index, node))
        built = array.index_built and all(
            isinstance(one, Array) and one.index_built and one.dtype not in (None, "bool") for one in index.fancy
        )
        lost = array.memory is Memory.PINNED and not _is_resident(node)
        turned = array.layout.form is Form.PERMUTED  # what is picked lies in the order of what it is picked from
        return array.but(
            memory=Memory.PAGEABLE,
            layout=lay.UNKNOWN_LAYOUT if turned else _picked_layout(array, index),
            trail=frame.trail(node, label, message, array.trail, Pinning.LOST if lost else None),
            storage=frame.interpreter.fresh_storage(),
            index_built=built,
            picked=_picked(index, node),
        )
    if index.field and array.kind != "ndarray":
        return NOTHING
    if index.field:
        count = lay.element_count(array.layout)
        gapped = lay.UNKNOWN_LAYOUT if count is None else lay.GAPPED_UNRANKED
        return array.but(layout=array.layout if count == 1 else gapped, dtype=None)
    layout = lay.indexed(array.layout, index.basic)
    if index.unknown:
        layout = DENSE_UNRANKED if array.layout.form is Form.DENSE else lay.UNKNOWN_LAYOUT
        if array.memory is Memory.PAGEABLE:
            return array.but(layout=layout)
        return array.but(memory=Memory.UNKNOWN, layout=layout, storage=0)
    only_positions = all(isinstance(item, lay.IntIndex) for item in index.basic)
    return array.but(
        layout=layout,
        trail=_slice_trail(array, layout, node, frame),
        scalar=only_positions and _may_be_number(array, layout),
        part=_part(array, node),
    )


def _picked_layout(array: Array, index: Indices) -> Layout:
    """The layout of `x[[1, 2]]`: as many rows as are picked, each as long as those of `x`."""
    sizes = array.layout.sizes
    only = index.fancy[0] if len(index.fancy) == len(index.basic) == 1 and not index.unknown else None
    if not sizes or only is None:
        return DENSE_UNRANKED
    if isinstance(only, Sequence) and only.items is not None and not any(isinstance(i, Sequence) for i in only.items):
        return lay.dense([len(only.items), *sizes[1:]])
    if isinstance(only, Array) and only.layout.rank == 1 and only.dtype not in (None, "bool"):
        return lay.dense([*(only.layout.sizes or ()), *sizes[1:]])
    return DENSE_UNRANKED


def _is_resident(node: ast.expr) -> bool:
    """Whether what is indexed is a buffer that an object keeps: its pin stays, what is picked never had one."""
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute)


def _sent_index(array: Array, index: Indices, call: str, node: ast.expr, frame: Frame) -> bool:
    """Note an index that has to be sent to the device first; whether there is one."""
    if array.device.is_cpu or array.kind != "tensor" or not isinstance(node, ast.Subscript):
        return False
    one = next((one for one in index.fancy if _must_be_sent(one, masks=call == "__setitem__")), None)
    if one is not None:
        held = one if isinstance(one, Array) else None
        pitfalls.waits(frame, node, call, Pitfall.HOST_INDEX, array.device, operand=node.slice, array=held)
    return one is not None


def _must_be_sent(index: Value, masks: bool) -> bool:
    """A list, an ndarray, a host tensor of one axis or more; a mask is read through without a wait (FACTS)."""
    if isinstance(index, Sequence):
        return index.items != ()
    if not isinstance(index, Array) or index.by_name or (index.dtype == "bool" and not masks):
        return False
    return index.kind == "ndarray" or (index.device.is_cpu and index.layout.rank != 0)


def _part(array: Array, node: ast.expr) -> str:
    if array.memory is not Memory.PINNED or not isinstance(node, ast.Subscript):
        return array.part
    return parts.indexed(array.part, node.slice)


def _picked(index: Indices, node: ast.expr) -> ast.AST | None:
    """The subscript, where it copies for certain: a tensor of no dimension would be a position."""
    sure = any(
        isinstance(one, Sequence)
        or (isinstance(one, Array) and (_is_many(one) or (one.layout.rank or 0) > 0 or _is_long(one)))
        for one in index.fancy
    )
    return node if sure else None


def _is_many(index: Array) -> bool:
    """A mask, or an ndarray: its single elements are no arrays."""
    return index.dtype == "bool" or (index.kind == "ndarray" and not index.scalar)


def _is_long(index: Array) -> bool:
    """Whether a tensor or an ndarray of unknown shape comes of a call that never makes a single number."""
    return index.trail is not None and index.trail.label in _LONG


_LONG = frozenset(
    ["argwhere", "nonzero", "cat", "stack", "argsort", "repeat_interleave", "masked_select", "arange", "randperm"]
)


def _slice_trail(array: Array, layout: Layout, node: ast.AST, frame: Frame) -> Trail | None:
    before, after = array.layout.form, layout.form
    if after is before or after in (Form.DENSE, Form.EMPTY, Form.UNKNOWN):
        return array.trail
    if after is Form.MAYBE_GAPPED:
        message = "this slice leaves gaps between its rows unless it spans the whole row"
    elif after is Form.PERMUTED:
        message = "this view permutes the axes"
    else:
        message = "this view leaves gaps between its elements"
    return frame.trail(node, "slice", message, array.trail)


def _device_element(array: Array, index: Indices, node: ast.expr, frame: Frame) -> Value:
    """Indexing a device tensor: a CPU index is sent over with a wait, a device scalar is read back (FACTS)."""
    for one in index.fancy:
        if isinstance(one, Sequence) or (isinstance(one, Array) and one.kind == "ndarray"):
            waits(frame, node, "__getitem__", Direction.H2D, one if isinstance(one, Array) else None)
        elif isinstance(one, Array) and one.device.is_cpu and one.layout.rank != 0 and one.dtype != "bool":
            waits(frame, node, "__getitem__", Direction.H2D, one)
        elif isinstance(one, Array) and one.device.is_cpu and one.dtype == "bool":
            record(Site(frame, node, "__getitem__", None, False), Ruling(Verdict.ASYNC, Direction.H2D, (), one))
        elif isinstance(one, Array) and one.device.is_accelerator and (one.layout.rank == 0 or one.dtype == "bool"):
            waits(frame, node, "__getitem__", Direction.D2H, one)
    layout = lay.indexed(array.layout, index.basic) if not index.fancy and not index.unknown else DENSE_UNRANKED
    return array.but(layout=layout, picked=_picked(index, node) if index.fancy else None)


def store_element(target: Value, index: Indices, value: Value, node: ast.expr, frame: Frame) -> None:
    """`target[index] = value` on a device tensor: which of them wait (FACTS)."""
    for way in target.alternatives if isinstance(target, Choice) else ():
        store_element(way.value, index, value, node, frame)
    if not isinstance(target, Array) or target.kind != "tensor":
        return
    if target.device.is_cpu and isinstance(value, Array) and value.device.is_accelerator:
        waits(frame, node, "__setitem__", Direction.D2H, value)
    _note_store(target, index, value, node, frame)
    if not target.device.is_accelerator:
        return
    number, scalar = _is_number(value), _is_scalar(value)
    for one in index.fancy:
        host_index = isinstance(one, Sequence) or (
            isinstance(one, Array) and not one.device.is_accelerator and (one.device.is_cpu or one.kind == "ndarray")
        )
        on_device = isinstance(one, Array) and one.device.is_accelerator
        mask = isinstance(one, Array) and one.dtype == "bool"
        if host_index or (on_device and mask is not (number or scalar)):
            waits(frame, node, "__setitem__", Direction.H2D, one if isinstance(one, Array) else None)
            return
    if index.fancy or index.unknown:
        return
    if (number or scalar) and _is_element(target, index):
        waits(frame, node, "__setitem__", Direction.H2D, None)
    elif isinstance(value, Array) and value.device.is_cpu and not scalar:
        waits(frame, node, "__setitem__", Direction.H2D, value)


def _is_number(value: Value) -> bool:
    return isinstance(value, (Const, Number)) or (isinstance(value, Unknown) and value.why == "number")


def _is_scalar(value: Value) -> bool:
    return isinstance(value, Array) and value.device.is_cpu and value.layout.rank == 0


def _is_element(target: Array, index: Indices) -> bool:
    """Whether the place is a single element."""
    only_positions = all(isinstance(item, lay.IntIndex) for item in index.basic)
    return only_positions and lay.indexed(target.layout, index.basic).rank == 0


def _note_store(target: Array, index: Indices, value: Value, node: ast.expr, frame: Frame) -> None:
    """What has to be sent for `target[index] = value`: the index, else the value."""
    if _sent_index(target, index, "__setitem__", node, frame) or target.device.is_cpu or index.unknown:
        return
    small = _is_number(value) or _is_scalar(value)
    if index.fancy:
        sent = small and all(isinstance(one, Array) and _names_places(one) for one in index.fancy)
    else:
        whole = isinstance(value, Array) and value.device.is_cpu and not value.by_name and not small
        sent = whole or (small and _is_element(target, index))
    if sent:
        held = value if isinstance(value, Array) else None
        pitfalls.waits(frame, node, "__setitem__", Pitfall.HOST_VALUE, target.device, operand=node, array=held)


def _names_places(index: Array) -> bool:
    """Whether an index on the device is one of positions; for a mask the value travels with the launch (FACTS)."""
    return index.device.is_accelerator and (index.dtype not in (None, "bool") or _is_long(index))


def stored(container: Value, key: Value, value: Value) -> Value:
    """The container after `container[key] = value`; where the key is not known, any entry may be the one."""
    if isinstance(container, Mapping):
        if isinstance(key, Const):
            items = tuple((known, item) for known, item in container.items if known != key.value)
            return Mapping((*items, (key.value, value)), container.item)
        entries = tuple((known, join((item, value))) for known, item in container.items)
        return Mapping(entries, value if container.item is None else join((container.item, value)))
    if isinstance(container, Sequence):
        if (
            container.items is not None
            and isinstance(key, Const)
            and isinstance(key.value, int)
            and -len(container.items) <= key.value < len(container.items)
        ):
            parts = list(container.items)
            parts[key.value] = value
            return Sequence(tuple(parts))
        return Sequence(None, join((container.any_item(), value)))
    return container


def rows(array: Array, node: ast.AST, frame: Frame) -> Array:
    """What iterating over a tensor yields: its rows."""
    if array.kind in ("batch", "module"):
        return array
    layout = lay.indexed(array.layout, [lay.IntIndex()])
    part = parts.piece(array.part) if array.memory is Memory.PINNED else array.part
    scalar = _may_be_number(array, layout)
    return array.but(layout=layout, trail=_slice_trail(array, layout, node, frame), part=part, scalar=scalar)


def _may_be_number(array: Array, layout: Layout) -> bool:
    """Whether one element of a host array, or one of its rows, may be a number: that is a position, and no index that
    picks.
    """
    return layout.rank in (None, 0) and (array.kind == "ndarray" or (array.kind == "tensor" and array.device.is_cpu))
