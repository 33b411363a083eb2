"""What a row of torch_api.py means for the values at hand: the one place where its effects are carried out."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from h2dlint.facts import events, parts, pitfalls
from h2dlint.facts import layout as lay
from h2dlint.facts.copies import Direction, Pinning, Verdict
from h2dlint.facts.domain import (
    CPU,
    CPU_KIND,
    NOTHING,
    SOMEWHERE,
    Alternative,
    Array,
    Choice,
    Const,
    Device,
    DeviceValue,
    DType,
    Memory,
    Named,
    Number,
    Sequence,
    Strides,
    Tag,
    Trail,
    Unknown,
    Value,
    alternatives,
    join,
    mapped,
    unknown_tensor,
)
from h2dlint.facts.flags import Truth, truth
from h2dlint.facts.frame import Frame
from h2dlint.facts.layout import DENSE_UNRANKED, Form, Layout, Size, Symbol
from h2dlint.facts.outcomes import Outcome
from h2dlint.facts.torch_api import DTYPES, MAY_ALIAS, SAME_DTYPE, TAKES_NUMBERS, Effect, Op

MAX_WAYS = 12
"""Combinations of alternatives of several arguments that one call looks at."""


# Reading arguments


def as_int(value: Value | None) -> int | None:
    """The integer that a value is, where it is one."""
    if isinstance(value, Const) and isinstance(value.value, int):
        return int(value.value)
    return None


def as_size(value: Value | None) -> Size:
    """A value as a size: an int, a symbol for an unknown one, or nothing."""
    if isinstance(value, Const):
        return value.value if isinstance(value.value, int) and not value.soft else None
    if isinstance(value, Number):
        return value.size
    if isinstance(value, Unknown) and value.key:
        return Symbol(value.key)
    return None


def device_of(value: Value | None) -> Device:
    """The device that an argument names: a device, a string, an index, or a tensor's own device."""
    if isinstance(value, DeviceValue):
        return value.device
    if isinstance(value, Const) and isinstance(value.value, str):
        return Device(value.value.partition(":")[0])
    if isinstance(value, Const) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return Device("cuda")
    if isinstance(value, Array):
        return value.device
    if isinstance(value, Named) and value.name.rpartition(".")[2].lower() == CPU_KIND:
        return CPU  # a member of somebody's list of devices: `OffloadDevice.cpu`, `DEVICE.CPU`
    return Device("", value.key) if isinstance(value, Unknown) else SOMEWHERE


def dtype_of(value: Value | None) -> str | None:
    """The dtype that an argument names."""
    if isinstance(value, DType):
        return SAME_DTYPE.get(value.name, value.name)
    return None


def shape_sizes(args: Iterable[Value]) -> list[Size] | None:
    """Sizes given one by one, or as one tuple; `None` when even their number cannot be told."""
    given = list(args)
    if len(given) == 1:
        only = given[0]
        if isinstance(only, Sequence):
            return None if only.items is None else [as_size(item) for item in only.items]
        if isinstance(only, Unknown):
            last = only.key.rpartition(".")[2].lower()
            return None if not last or "shape" in last or "size" in last or "dim" in last else [as_size(only)]
        if isinstance(only, (Const, Number)):
            return [as_size(only)]
        return None
    if any(isinstance(item, (Sequence, Choice)) for item in given):
        return None
    return [as_size(item) for item in given]


# Making tensors


def pin_ways(flag: Value | None, node: ast.AST, frame: Frame) -> list[tuple[Memory, Tag | None]]:
    """What `pin_memory=flag` gives on a machine with an accelerator, way by way."""
    if flag is None:
        return [(Memory.PAGEABLE, None)]
    found = truth(flag)
    if found in (Truth.TRUE, Truth.AVAILABLE):
        return [(Memory.PINNED, None)]
    if found is Truth.FALSE:
        return [(Memory.PAGEABLE, None)]
    if found is Truth.UNKNOWN:
        return [(Memory.UNKNOWN, None)]
    on_by_default = found is Truth.SOFT_TRUE
    origin = getattr(flag, "origin", None) or node
    on = Tag("switch", origin, True, on_by_default, frame.module.path)
    off = Tag("switch", origin, False, not on_by_default, frame.module.path)
    return [(Memory.PINNED, on), (Memory.PAGEABLE, off)]


def with_tags(ways: list[tuple[Value, tuple[Tag, ...]]]) -> Value:
    """One value of several tagged ones."""
    if len(ways) == 1 and not ways[0][1]:
        return ways[0][0]
    flat = [Alternative(inner.value, tags + inner.tags) for value, tags in ways for inner in alternatives(value)]
    return Choice(tuple(flat[:MAX_WAYS]))


def combinations(*values: Value | None) -> list[tuple[tuple[Value | None, ...], tuple[Tag, ...]]]:
    """Every combination of the alternatives of several arguments, a bounded number of them."""
    columns: list[list[tuple[Value | None, tuple[Tag, ...]]]] = [
        [(None, ())] if value is None else [(way.value, way.tags) for way in alternatives(value)] for value in values
    ]
    chosen = itertools.islice(itertools.product(*columns), MAX_WAYS)
    return [(tuple(value for value, _ in row), tuple(tag for _, tags in row for tag in tags)) for row in chosen]


def allocate(
    frame: Frame,
    node: ast.AST,
    label: str,
    layout: Layout,
    *,
    device: Value | None,
    fallback: Device,
    pin: Value | None,
    dtype: str | None,
    index_built: bool = False,
    from_numpy: bool = False,
    previous: Trail | None = None,
) -> Value:
    """A new tensor, one way for each device and each value of the pin flag.

    `pin_memory=True` raises for any device but the CPU (FACTS, 11): where it pins, the tensor is on the CPU.
    """
    ways: list[tuple[Value, tuple[Tag, ...]]] = []
    places: list[Device] = []
    for (device_value, flag), tags in combinations(device, pin):
        given = device_of(device_value) if device_value is not None and not is_none(device_value) else fallback
        places.append(given)
        for memory, tag in pin_ways(flag, node, frame):
            place = CPU if memory is Memory.PINNED and not given.is_accelerator else given
            made = Array(
                "tensor",
                place,
                memory if not place.is_accelerator else Memory.UNKNOWN,
                layout,
                frame.trail(node, label, _allocation_message(label, memory, place), previous),
                dtype,
                frame.interpreter.fresh_storage(),
                from_numpy,
                index_built and memory is not Memory.PINNED,
                pinned_by=flag.key if isinstance(flag, Unknown) and memory is Memory.UNKNOWN else "",
                placed=place.is_cpu and device_value is not None and not is_none(device_value),
            )
            if memory is Memory.PINNED:
                frame.allocated.add(made.storage)
            ways.append((made, tags if tag is None else (*tags, tag)))
    if pin is not None:
        pitfalls.of_factory(label, places, pin, device is not None, node, frame)
    return with_tags(ways)


def is_none(value: Value) -> bool:
    """Whether a value is the constant None."""
    return isinstance(value, Const) and value.value is None


def _allocation_message(label: str, memory: Memory, device: Device) -> str:
    if device.is_accelerator:
        return f"`{label}` makes it on the device"
    if memory is Memory.PINNED:
        return f"`{label}` allocates it pinned"
    return f"`{label}` allocates pageable memory"


def factory_layout(row: Op, name: str, args: list[Value], keywords: dict[str, Value]) -> Layout:
    """The layout that a factory's arguments show."""
    rest = args
    if row.shape == "sizes":
        if "size" in keywords:
            rest = [keywords["size"]]
        sizes = shape_sizes(rest) if rest else None
        return DENSE_UNRANKED if sizes is None else lay.dense(sizes)
    if row.shape == "first":
        sizes = shape_sizes([keywords.get("size", args[0] if args else NOTHING)])
        return DENSE_UNRANKED if sizes is None else lay.dense(sizes)
    if row.shape == "count":
        return lay.dense([_arange_count(args)])
    if row.shape == "vector":
        return lay.dense([as_size(args[-1]) if args and name == "randperm" else _step_count(args, keywords)])
    if row.shape == "square":
        size = as_size(args[0]) if args else None
        return lay.dense([size, as_size(args[1]) if len(args) > 1 else size])
    if row.shape == "indices":
        return lay.dense([2, None])
    if row.shape == "randint":
        shaped = next((arg for arg in args if isinstance(arg, Sequence)), keywords.get("size"))
        sizes = shape_sizes([shaped]) if shaped is not None else None
        return DENSE_UNRANKED if sizes is None else lay.dense(sizes)
    if row.shape == "scalar":
        return lay.dense([])
    if row.shape == "strided" and len(args) > 1:
        if isinstance(args[1], Strides):
            return args[1].layout
        sizes, strides = shape_sizes([args[0]]), shape_sizes([args[1]])
        return lay.strided(sizes, strides) if sizes is not None and strides is not None else lay.UNKNOWN_LAYOUT
    return DENSE_UNRANKED


def _arange_count(args: list[Value]) -> Size:
    if len(args) == 1:
        return as_size(args[0])
    numbers = [as_int(arg) for arg in args]
    if len(args) in (2, 3) and all(number is not None for number in numbers) and numbers[-1] != 0:
        return lay.length_of(range(*(number for number in numbers if number is not None)))
    return as_size(args[1]) if len(args) == 2 and numbers[0] == 0 else None


def _step_count(args: list[Value], keywords: dict[str, Value]) -> Size:
    return as_size(keywords.get("steps", args[2] if len(args) > 2 else None))


FLOAT_DEFAULT = frozenset(["zeros", "ones", "empty", "rand", "randn", "linspace", "eye"])


def factory_dtype(row: Op, name: str, args: list[Value], keywords: dict[str, Value]) -> str | None:
    """The dtype of a factory's result, where it shows."""
    if "dtype" in keywords:
        return dtype_of(keywords["dtype"])
    if row.dtype:
        return row.dtype
    if name in FLOAT_DEFAULT:
        return "float32"
    if name == "arange":
        whole = all(isinstance(arg, Number) or (isinstance(arg, Const) and isinstance(arg.value, int)) for arg in args)
        return "int64" if whole else None
    if name == "full" and len(args) > 1 and isinstance(args[1], Const):
        return {bool: "bool", int: "int64", float: "float32"}.get(type(args[1].value))
    return None


def data_layout(data: Value) -> Layout:
    """The layout of `torch.tensor(data)`."""
    sizes: list[Size] = []
    level: Value = data
    while isinstance(level, Sequence):
        if level.items is None:
            sizes.append(level.length)
            level = level.item
            continue
        sizes.append(len(level.items))
        if not level.items:
            break
        level = level.items[0]
    if isinstance(level, (Const, Number)) or (isinstance(level, Unknown) and level.why == "number"):
        return lay.dense(sizes)
    return DENSE_UNRANKED


def numbers_of(value: Value) -> Value:
    """`x.tolist()`: a list for each axis; of a tensor of unknown rank it is taken for one."""
    sizes = value.layout.sizes if isinstance(value, Array) else None
    made: Value = Unknown(why="number")
    for size in (None,) if sizes is None else reversed(sizes):
        made = Sequence(None, made, size)
    return made


def data_dtype(data: Value) -> str | None:
    """The dtype that torch infers from Python numbers."""
    while isinstance(data, Sequence) and (data.items is None or data.items):
        data = data.item if data.items is None else data.items[0]
    if isinstance(data, Const):
        return {bool: "bool", int: "int64", float: "float32"}.get(type(data.value))
    return "int64" if isinstance(data, Number) else None


# Views


def view_layout(shape: str, array: Array, args: list[Value], keywords: dict[str, Value]) -> Layout | None:
    """The layout of a view, by the row's shape; `None` when the call must copy instead."""
    return _VIEWS[shape](array.layout, args, keywords)


def _view(layout: Layout, args: list[Value], keywords: dict[str, Value]) -> Layout | None:
    return lay.reshaped(layout, shape_sizes(args) if args else None)


def _axis(args: list[Value], keywords: dict[str, Value], position: int, default: int, name: str = "dim") -> int | None:
    value = keywords.get(name, args[position] if len(args) > position else None)
    return default if value is None else as_int(value)


def _two_axes(
    change: Callable[[Layout, int, int], Layout],
) -> Callable[[Layout, list[Value], dict[str, Value]], Layout]:
    def apply(layout: Layout, args: list[Value], keywords: dict[str, Value]) -> Layout:
        values = [*args, *keywords.values()]
        first, second = (as_int(values[0]), as_int(values[1])) if len(values) > 1 else (None, None)
        return lay.permuted(layout, None) if first is None or second is None else change(layout, first, second)

    return apply


def _permute(layout: Layout, args: list[Value], keywords: dict[str, Value]) -> Layout:
    sizes = shape_sizes(args or keywords.values())
    whole = sizes is not None and all(isinstance(size, int) for size in sizes)
    return lay.permuted(layout, [size for size in sizes or () if isinstance(size, int)] if whole else None)


def _unsqueeze(layout: Layout, args: list[Value], keywords: dict[str, Value]) -> Layout:
    axis = _axis(args, keywords, 0, 0)
    return Layout(None, layout.form) if axis is None else lay.unsqueezed(layout, axis)


def _squeeze(layout: Layout, args: list[Value], keywords: dict[str, Value]) -> Layout:
    if not args and not keywords:
        return lay.squeezed(layout, None)
    axis = _axis(args, keywords, 0, 0)
    return Layout(None, layout.form) if axis is None else lay.squeezed(layout, axis)


def _select(layout: Layout, args: list[Value], keywords: dict[str, Value]) -> Layout:
    axis = _axis(args, keywords, 0, 0)
    return lay.UNKNOWN_LAYOUT if axis is None else lay.selected(layout, axis)


def _narrow(layout: Layout, args: list[Value], keywords: dict[str, Value]) -> Layout:
    axis = _axis(args, keywords, 0, 0)
    start = as_size(keywords.get("start", args[1] if len(args) > 1 else None))
    length = as_size(keywords.get("length", args[2] if len(args) > 2 else None))
    return lay.UNKNOWN_LAYOUT if axis is None else lay.narrowed(layout, axis, start, length)


def _unfold(layout: Layout, args: list[Value], keywords: dict[str, Value]) -> Layout:
    axis = _axis(args, keywords, 0, 0, "dimension")
    size = as_size(keywords.get("size", args[1] if len(args) > 1 else None))
    step = as_size(keywords.get("step", args[2] if len(args) > 2 else None))
    return lay.GAPPED_UNRANKED if axis is None else lay.unfolded(layout, axis, size, step)


def _as_strided(layout: Layout, args: list[Value], keywords: dict[str, Value]) -> Layout:
    size = keywords.get("size", args[0] if args else NOTHING)
    stride = keywords.get("stride", args[1] if len(args) > 1 else NOTHING)
    sizes, strides = shape_sizes([size]), shape_sizes([stride])
    return lay.UNKNOWN_LAYOUT if sizes is None or strides is None else lay.strided(sizes, strides)


def memory_order(keywords: dict[str, Value]) -> str:
    """What `memory_format=` asks for: `contiguous_format`, `channels_last`, or nothing that changes the order."""
    value = keywords.get("memory_format")
    name = value.name.rpartition(".")[2] if isinstance(value, Named) else ""
    return "" if name == "preserve_format" else name


def ordered(layout: Layout, order: str) -> Layout:
    """The layout of the same sizes in a memory order."""
    if order.startswith("channels_last"):
        return lay.channels_last(layout)
    return DENSE_UNRANKED if layout.sizes is None else lay.dense(layout.sizes)


def _unflatten(layout: Layout, args: list[Value], keywords: dict[str, Value]) -> Layout:
    axis = _axis(args, keywords, 0, 0)
    sizes = shape_sizes([keywords["sizes"]] if "sizes" in keywords else args[1:2])
    return Layout(None, layout.form) if axis is None else lay.unflattened(layout, axis, sizes)


def _flatten(layout: Layout, args: list[Value], keywords: dict[str, Value]) -> Layout | None:
    start, end = _axis(args, keywords, 0, 0, "start_dim"), _axis(args, keywords, 1, -1, "end_dim")
    return lay.flattened(layout, 0 if start is None else start, -1 if end is None else end)


_VIEWS: dict[str, Callable[[Layout, list[Value], dict[str, Value]], Layout | None]] = {
    "same": lambda layout, args, keywords: layout,
    "like-other": lambda layout, args, keywords: lay.reshaped(layout, _target_sizes(args or [*keywords.values()])),
    "unflattened": _unflatten,
    "at-least-1": lambda layout, args, keywords: lay.at_least(layout, 1),
    "at-least-2": lambda layout, args, keywords: lay.at_least(layout, 2),
    "at-least-3": lambda layout, args, keywords: lay.at_least(layout, 3),
    "last-two": lambda layout, args, keywords: lay.last_two_swapped(layout),
    "unranked": lambda layout, args, keywords: Layout(None, layout.form),
    "diagonal": lambda layout, args, keywords: lay.GAPPED_UNRANKED if args or keywords else lay.diagonal(layout),
    "unfolded": _unfold,
    "strided": _as_strided,
    "component": lambda layout, args, keywords: lay.GAPPED_UNRANKED,
    "view": _view,
    "unsqueezed": _unsqueeze,
    "squeezed": _squeeze,
    "expanded": lambda layout, args, keywords: lay.expanded(layout, shape_sizes(args) if args else None),
    "stretched": lambda layout, args, keywords: lay.expanded(layout, _target_sizes(args)),
    "permuted": _permute,
    "transposed": _two_axes(lay.transposed),
    "reversed": lambda layout, args, keywords: lay.reversed_axes(layout),
    "moved": _two_axes(lay.moved),
    "selected": _select,
    "narrowed": _narrow,
    "flattened": _flatten,
    "raveled": lambda layout, args, keywords: lay.flattened(layout),
}


def _target_sizes(args: list[Value]) -> list[Size] | None:
    if args and isinstance(args[0], Array):
        sizes = args[0].layout.sizes
        return None if sizes is None else list(sizes)
    return shape_sizes(args) if args else None


def pieces(
    array: Array, row: Op, args: list[Value], keywords: dict[str, Value], node: ast.AST, name: str, frame: Frame
) -> Value:
    """The views that `split`, `chunk`, `unbind` and the like cut a tensor into."""
    if row.shape == "unbind":
        axis = _axis(args, keywords, 0, 0)
        layout = lay.UNKNOWN_LAYOUT if axis is None else lay.selected(array.layout, axis)
    else:
        fixed = {"columns": 0 if array.layout.rank == 1 else 1, "rows": 0}.get(row.shape)
        axis = fixed if fixed is not None else _axis(args, keywords, 1, 0)
        size = _piece_size(array.layout, row.shape, axis, args, keywords)
        layout = lay.UNKNOWN_LAYOUT if axis is None else lay.divided(array.layout, axis, size)
    view = array.but(layout=layout, trail=_view_trail(array, layout, frame, node, name), part=parts.piece(array.part))
    return Sequence(None, view, may_be_tuple=True)


def _piece_size(layout: Layout, kind: str, axis: int | None, args: list[Value], keywords: dict[str, Value]) -> Size:
    given = as_size(args[0]) if args else as_size(next(iter(keywords.values()), None))
    if kind == "split":
        return given if isinstance(given, int) else None
    whole = (
        layout.sizes[axis]
        if layout.sizes is not None and axis is not None and -len(layout.sizes) <= axis < len(layout.sizes)
        else None
    )
    return -(-whole // given) if isinstance(whole, int) and isinstance(given, int) and given > 0 else None


def _view_trail(array: Array, layout: Layout, frame: Frame, node: ast.AST, label: str) -> Trail | None:
    """A view is worth a link when it changes how the memory lies."""
    before, after = array.layout.form, layout.form
    if before is after or after in (Form.DENSE, Form.EMPTY):
        return array.trail
    return frame.trail(node, label, _form_message(label, after), array.trail)


def _form_message(label: str, form: Form) -> str:
    if form is Form.PERMUTED:
        return f"`{label}` permutes the axes"
    if form is Form.MAYBE_GAPPED:
        return f"`{label}` leaves gaps unless it spans the whole axis"
    return f"`{label}` leaves gaps between the elements"


# Effects


def fresh(
    inputs: list[Array],
    node: ast.AST,
    label: str,
    frame: Frame,
    *,
    layout: Layout = DENSE_UNRANKED,
    dtype: str | None = None,
    index_built: bool = False,
    unknown_inputs: bool = False,
) -> Value:
    """The result of a computation: new memory beside its inputs, page-locked never (FACTS, 7)."""
    events.read(frame, inputs, node)
    device = result_device(inputs, unknown_inputs)
    decisive = next(
        (array for array in inputs if array.device.is_cpu and array.memory is Memory.PINNED),
        inputs[0] if inputs else None,
    )
    if device.is_cpu:
        lost = decisive is not None and decisive.memory is Memory.PINNED
        message = f"`{label}` makes a fresh pageable tensor" + (": the pin is lost" if lost else "")
        return Array(
            "tensor",
            device,
            Memory.PAGEABLE,
            layout,
            frame.trail(
                node,
                label,
                message,
                decisive.trail if decisive else None,
                Pinning.LOST if _all_pinned(inputs) and label not in _OF_SEVERAL else None,
            ),
            dtype,
            frame.interpreter.fresh_storage(),
            False,
            index_built,
            by_name=all(array.by_name for array in inputs) if inputs else False,
        )
    # Of an unknown device it is known at least that, on the host, it would be pageable.
    memory = Memory.PAGEABLE if device.is_unknown else Memory.UNKNOWN
    trail = frame.trail(node, label, f"`{label}` makes a fresh tensor", decisive.trail if decisive else None)
    storage = frame.interpreter.fresh_storage()
    return Array("tensor", device, memory, layout, trail, dtype, storage, False, index_built)


def _all_pinned(inputs: list[Array]) -> bool:
    """Whether a computation starts from pinned tensors alone: then its result is one of them in another form."""
    return bool(inputs) and all(array.memory is Memory.PINNED for array in inputs if array.layout.rank != 0)


def result_device(inputs: list[Array], unknown_inputs: bool) -> Device:
    """Where a computation's result lies: tensors of one device, but for CPU scalars, which go along with any."""
    for array in inputs:
        if array.device.is_accelerator:
            return array.device
    if any(array.device.is_cpu and array.layout.rank != 0 and not array.by_name for array in inputs):
        return CPU
    unknown = next((array.device for array in inputs if array.device.is_unknown), None)
    if unknown is not None or unknown_inputs:
        return unknown or SOMEWHERE
    return inputs[0].device if inputs else SOMEWHERE


def flat_arrays(values: Iterable[Value]) -> tuple[list[Array], bool]:
    """All arrays among arguments, those inside sequences too, and whether some argument might hide another."""
    found: list[Array] = []
    hidden = False
    for value in values:
        if type(value) is Unknown:
            hidden = hidden or value.why != "number"
        elif type(value) is Array:
            found.append(value)
        elif type(value) is Sequence:
            inner, more = flat_arrays(value.items if value.items is not None else [value.item])
            found.extend(inner)
            hidden = hidden or more
        elif type(value) is Choice:
            inner, more = flat_arrays([way.value for way in value.alternatives])
            found.extend(inner)
            hidden = hidden or more
    return found, hidden


def densified(
    array: Array, row: Op, name: str, args: list[Value], keywords: dict[str, Value], node: ast.AST, frame: Frame
) -> Value:
    """`contiguous`, `reshape`, `flatten`: the same memory where it is dense already, else a fresh copy."""
    form = array.layout.form
    target = DENSE_UNRANKED
    if name == "contiguous":
        target = ordered(array.layout, memory_order(keywords))
        same = form in (Form.DENSE, Form.EMPTY, Form.PERMUTED) and lay.same_strides(array.layout, target)
        layout = array.layout if same else None
    else:
        layout = view_layout(row.shape, array, args, keywords)
        copied = DENSE_UNRANKED if array.layout.sizes is None else lay.dense(array.layout.sizes)
        target = view_layout(row.shape, array.but(layout=copied), args, keywords) or DENSE_UNRANKED
    if form is Form.GAPPED and layout is not None and layout.form is Form.UNKNOWN:
        target, layout = layout, None  # the view itself, gaps and all, or a copy: no pinned and dense one in any case
    if layout is not None and form is not Form.UNKNOWN:
        return array.but(layout=layout)
    if form in (Form.UNKNOWN, Form.MAYBE_GAPPED) and array.memory is not Memory.PAGEABLE and array.device.is_cpu:
        return array.but(layout=target, memory=Memory.UNKNOWN, storage=0)
    return fresh(
        [array], node, name, frame, layout=target, dtype=array.dtype, index_built=array.index_built and row.index
    )


def cast(
    array: Array, dtype: str | None, node: ast.AST, label: str, frame: Frame, *, copy: bool = False, exact: bool = True
) -> Value:
    """A change of dtype on the spot: nothing when it has that dtype already (FACTS, 6)."""
    if dtype is not None and array.dtype == dtype and not copy:
        return array
    if dtype is None and not copy:
        if array.memory is Memory.PAGEABLE or not array.device.is_cpu:
            return array.but(dtype=None)
        return array.but(dtype=None, memory=Memory.UNKNOWN)
    if array.dtype is None and array.memory is not Memory.PAGEABLE and array.device.is_cpu and not copy:
        return array.but(
            dtype=dtype,
            memory=Memory.UNKNOWN,
            trail=frame.trail(node, label, f"`{label}` may make a fresh pageable tensor", array.trail),
        )
    made = fresh(
        [array],
        node,
        label,
        frame,
        layout=lay.like(array.layout),
        dtype=dtype,
        index_built=array.index_built and exact,
    )
    return made.but(kind=array.kind) if isinstance(made, Array) and array.kind == "batch" else made


def pinned(value: Value, node: ast.AST, frame: Frame) -> Value:
    """`.pin_memory()`: page-locked memory in the same layout, gaps included; on pinned memory the tensor itself."""

    def one(inner: Value) -> Value:
        if not isinstance(inner, Array):
            storage = frame.interpreter.fresh_storage()
            frame.allocated.add(storage)
            trail = frame.trail(node, "pin_memory", "`.pin_memory()` copies it into page-locked memory")
            return Array("tensor", CPU, Memory.PINNED, DENSE_UNRANKED, trail, storage=storage)
        if inner.device.is_accelerator:
            return Unknown(why="pin_memory of a device tensor raises")
        loose = inner.layout.form in (Form.GAPPED, Form.MAYBE_GAPPED, Form.PERMUTED)
        kept = Pinning.KEPT_GAPS if loose else None
        if inner.memory is Memory.PINNED:
            message = "`.pin_memory()` returns it as it is, since it is pinned"
            return inner.but(trail=frame.trail(node, "pin_memory", message, inner.trail, kept)) if loose else inner
        message = "`.pin_memory()` copies it into page-locked memory"
        if inner.layout.form is Form.GAPPED:
            message += " and keeps the gaps"
        trail = frame.trail(node, "pin_memory", message, inner.trail, kept)
        _note_second_copy(inner, node, frame)
        storage = frame.interpreter.fresh_storage()
        frame.allocated.add(storage)
        return inner.but(device=CPU, memory=Memory.PINNED, trail=trail, storage=storage, from_numpy=False, part="")

    return mapped(value, one)


def _note_second_copy(array: Array, node: ast.AST, frame: Frame) -> None:
    """A tensor that a transfer method has just given is pinned: if it was fetched, this is its second host copy."""
    made = array.trail
    if made is None or made.path != frame.module.path or made.label not in TRANSFERS_HOME:
        return
    if isinstance(made.node, ast.Call):
        frame.interpreter.record(
            Outcome(
                made.node,
                made.label,
                Verdict.NO_TRANSFER,
                Direction.D2H,
                False,
                context=frame.context,
                module=frame.module.file,
                root=frame.root,
                root_file=frame.root_file,
                pinned_by=node,
            )
        )


TRANSFERS_HOME = frozenset({"cpu", "to"})
"""The methods that can bring a tensor to the host."""


def torch_call(
    row: Op, name: str, receiver: Value, args: list[Value], keywords: dict[str, Value], node: ast.AST, frame: Frame
) -> Value:
    """A call that starts from a tensor: `receiver.name(*args)` or `torch.name(receiver, *args)`."""
    if "out" in keywords and not is_none(keywords["out"]):
        return written_out(keywords["out"], node, frame)
    if row.effect is Effect.PIN:
        pitfalls.of_pin(receiver, node, frame)
    if row.effect is Effect.FRESH or row.effect is Effect.FRESH_PAIR:
        whole = name in _REDUCTIONS and not args and not {"dim", "axis", "keepdim"} & set(keywords)
        operands = [receiver] if name in TAKES_NUMBERS else [receiver, *args, *keywords.values()]
        ways = [(fresh_of(row, name, way, node, frame, whole), tags) for way, tags in operand_ways(operands)]
        result = join([value for value, _ in ways], [tags for _, tags in ways])
        if "inplace" in keywords and truth(keywords["inplace"]) is Truth.TRUE:
            return written_out(receiver, node, frame)
        if name in _PICKS and isinstance(result, Array):
            result = result.but(picked=node)
        if name in _JOINED and isinstance(result, Array) and isinstance(receiver, Sequence):
            axis = _axis(args, keywords, 0, 0)
            result = result.but(layout=joined_layout(receiver, axis, new_axis=name == "stack"))
        several = row.effect is Effect.FRESH_PAIR and _gives_several(name, args, keywords)
        several = several or (name == "where" and not args and not keywords)
        return Sequence(None, result, may_be_tuple=True) if several else result
    return mapped(receiver, lambda inner: _one_call(row, name, inner, args, keywords, node, frame))


_JOINED = frozenset(["cat", "concat", "concatenate", "stack"])


def joined_layout(parts: Sequence, axis: int | None, *, new_axis: bool) -> Layout:
    """The layout of `cat` or `stack` of tensors of known rank: dense, as long along one axis as all of them."""
    layouts = [item.layout for item in parts.items or () if isinstance(item, Array)]
    if axis is None or not layouts or len(layouts) != len(parts.items or ()):
        return DENSE_UNRANKED
    first = layouts[0].sizes
    if first is None or any(layout.rank != len(first) for layout in layouts):
        return DENSE_UNRANKED
    rank = len(first) + new_axis
    position = axis + rank if axis < 0 else axis
    if not 0 <= position < rank:
        return DENSE_UNRANKED
    if new_axis:
        return lay.dense([*first[:position], len(layouts), *first[position:]])
    along = lay.sum_of([layout.sizes[position] for layout in layouts if layout.sizes is not None])
    return lay.dense([*first[:position], along, *first[position + 1 :]])


_PICKS = frozenset(["index_select", "gather", "masked_select", "take", "take_along_dim"])
"""Indexing by another name."""


def written_out(value: Value, node: ast.AST, frame: Frame) -> Value:
    """The `out=` of a call: the same memory, holding a result now; an empty one is resized."""
    frame.written(value)
    events.write(frame, value, node)
    return mapped(value, _holding_result)


def _holding_result(value: Value) -> Value:
    if not isinstance(value, Array):
        return value
    layout = DENSE_UNRANKED if value.layout.form is Form.EMPTY else value.layout
    return value.but(index_built=False, layout=layout)


def operand_ways(operands: list[Value]) -> list[tuple[list[Value], tuple[Tag, ...]]]:
    """The combinations of what each operand can be. A list of unknown length is all of one kind on each way."""
    if not any(type(operand) in (Choice, Sequence) for operand in operands):
        return [(operands, ())]
    spread = [_item_ways(operand) if isinstance(operand, Sequence) else operand for operand in operands]
    return [([value for value in way if value is not None], tags) for way, tags in combinations(*spread)]


def _item_ways(sequence: Sequence) -> Value:
    """A sequence whose items differ by path, as a choice of sequences."""
    if sequence.items is None:
        ways = alternatives(sequence.item)
        return (
            Choice(tuple(Alternative(replace(sequence, item=way.value), way.tags) for way in ways))
            if len(ways) > 1
            else sequence
        )
    if not any(type(item) is Choice for item in sequence.items):
        return sequence
    rows = combinations(*sequence.items)
    return Choice(tuple(Alternative(Sequence(tuple(item or NOTHING for item in row)), tags) for row, tags in rows))


def fresh_of(row: Op, name: str, operands: list[Value], node: ast.AST, frame: Frame, whole: bool) -> Value:
    """A computation's result with what is left of dtype, shape and index-builtness."""
    inputs, hidden = flat_arrays(operands)
    if not inputs:
        return unknown_tensor() if name in _JOINING else Unknown()
    index_built = row.index and not hidden and all(array.index_built for array in inputs)
    if name == "meshgrid" and len(inputs) > 1 and all(array.device.is_cpu for array in inputs):
        trail = frame.trail(node, name, "`meshgrid` stretches each one over the others' axes", inputs[0].trail)
        return inputs[0].but(layout=lay.GAPPED_UNRANKED, storage=0, index_built=False, trail=trail)
    if name in MAY_ALIAS and len(inputs) == 1 and inputs[0].memory is Memory.PINNED:
        return inputs[0].but(memory=Memory.UNKNOWN, layout=lay.UNKNOWN_LAYOUT, storage=0, index_built=False)
    dtype = (
        "bool"
        if name in _BOOLEAN
        else inputs[0].dtype
        if name in _KEEPS_DTYPE and all(array.dtype == inputs[0].dtype for array in inputs)
        else None
    )
    layout = lay.dense([]) if whole else DENSE_UNRANKED
    if not whole and name in _ELEMENTWISE:
        layout = elementwise_layout(inputs)
    return fresh(inputs, node, name, frame, layout=layout, dtype=dtype, index_built=index_built, unknown_inputs=hidden)


def elementwise_layout(arrays: list[Array]) -> Layout:
    """Where the elements of an elementwise result lie: in the order of what it is made of, where that is one."""
    shaped = [array.layout for array in arrays if array.layout.rank != 0]
    if len(shaped) == 1:
        return lay.like(shaped[0])
    sizes = common_sizes(arrays)
    turned = any(layout.form not in (Form.DENSE, Form.EMPTY) for layout in shaped)
    if sizes is None or turned:
        return lay.UNKNOWN_LAYOUT if turned else DENSE_UNRANKED
    return lay.dense(sizes)


def common_sizes(arrays: list[Array]) -> tuple[Size, ...] | None:
    """The sizes of an elementwise result of tensors of one shape (scalars go along)."""
    shaped = [array.layout.sizes for array in arrays if array.layout.rank != 0]
    if not shaped or any(sizes != shaped[0] for sizes in shaped):
        return () if arrays and all(array.layout.rank == 0 for array in arrays) else None
    return shaped[0]


_ELEMENTWISE = frozenset(
    [
        "clone",
        "sort",
        "sigmoid",
        "relu",
        "tanh",
        "square",
        "sign",
        "maximum",
        "minimum",
        "add",
        "sub",
        "subtract",
        "mul",
        "multiply",
        "neg",
        "div",
        "floor_divide",
        "remainder",
        "clamp",
        "abs",
        "where",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "logical_not",
        "logical_and",
        "logical_or",
        "sqrt",
        "exp",
        "masked_fill",
        "tril",
        "triu",
        "flip",
        "roll",
        "cumsum",
    ]
)
_OF_SEVERAL = frozenset(
    [
        "cat",
        "concat",
        "concatenate",
        "stack",
        "hstack",
        "vstack",
        "row_stack",
        "dstack",
        "column_stack",
        "pad_sequence",
    ]
)
"""What these make is a tensor of its own: none of the joined ones went on in it."""

_JOINING = frozenset(["cat", "stack", "concat", "pad", "pad_sequence"])
"""What these make of anything is a dense tensor."""

_REDUCTIONS = frozenset(
    ["sum", "prod", "max", "min", "argmax", "argmin", "any", "all", "mean", "median", "std", "var", "norm", "nansum"]
)
"""Over all elements these give a single one."""

_BOOLEAN = frozenset(
    [
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "logical_and",
        "logical_or",
        "logical_not",
        "logical_xor",
        "isin",
        "isnan",
        "isinf",
        "isfinite",
        "any",
        "all",
    ]
)
_KEEPS_DTYPE = frozenset(
    [
        "add",
        "sub",
        "subtract",
        "mul",
        "neg",
        "cat",
        "concat",
        "concatenate",
        "stack",
        "hstack",
        "vstack",
        "repeat",
        "tile",
        "flip",
        "roll",
        "tril",
        "triu",
        "masked_fill",
        "clone",
        "gather",
        "index_select",
        "clamp",
        "abs",
        "maximum",
        "minimum",
        "bitwise_and",
        "bitwise_or",
        "bitwise_not",
        "repeat_interleave",
        "where",
        "floor_divide",
        "remainder",
        "diff",
    ]
)
_ALWAYS_SEVERAL = frozenset(
    [
        "sort",
        "topk",
        "median",
        "mode",
        "kthvalue",
        "cummax",
        "cummin",
        "qr",
        "eig",
        "frexp",
        "aminmax",
        "var_mean",
        "std_mean",
        "meshgrid",
    ]
)


def _gives_several(name: str, args: list[Value], keywords: dict[str, Value]) -> bool:
    if name in _ALWAYS_SEVERAL:
        return True
    if name in ("unique", "unique_consecutive"):
        return any(key.startswith("return_") for key in keywords)
    return "dim" in keywords or bool(args and isinstance(args[0], Const))


def _one_call(
    row: Op, name: str, inner: Value, args: list[Value], keywords: dict[str, Value], node: ast.AST, frame: Frame
) -> Value:
    if row.effect is Effect.PIN:
        return pinned(inner, node, frame)
    if not isinstance(inner, Array):
        return NOTHING
    if inner.kind == "ndarray" or inner.kind == "module":
        return NOTHING
    if row.effect is Effect.VIEW:
        return _viewed(row, name, inner, args, keywords, node, frame)
    if row.effect is Effect.DENSIFY:
        return densified(inner, row, name, args, keywords, node, frame)
    if row.effect is Effect.CAST:
        return cast(inner, row.shape, node, name, frame, exact=row.index)
    if row.effect is Effect.PIECES:
        return pieces(inner, row, args, keywords, node, name, frame)
    if row.effect is Effect.NUMPY:
        events.expose(frame, inner, node)
        return inner.but(kind="ndarray", trail=inner.trail)
    if row.effect is Effect.PRIVATE:
        trail = frame.trail(node, name, f"`{name}` moves it to shared memory, which is pageable", inner.trail)
        return inner.but(memory=Memory.PAGEABLE, trail=trail, storage=frame.interpreter.fresh_storage())
    return NOTHING


_REAL_DTYPES = frozenset(DTYPES.keys() - {"complex64", "complex128", "cfloat"})


def _viewed(
    row: Op, name: str, inner: Array, args: list[Value], keywords: dict[str, Value], node: ast.AST, frame: Frame
) -> Value:
    if name == "set_":
        source = args[0] if args else None
        if isinstance(source, Array):
            sizes, strides = (shape_sizes([args[2]]), shape_sizes([args[3]])) if len(args) > 3 else (None, None)
            layout = lay.strided(sizes, strides) if sizes is not None and strides is not None else source.layout
            return source.but(kind="tensor", layout=layout)
        return NOTHING
    if row.shape == "view" and len(args) == 1 and isinstance(args[0], DType):
        dtype = dtype_of(args[0])
        layout = lay.of_other_width(inner.layout, DTYPES.get(inner.dtype or ""), DTYPES.get(dtype or ""))
        return inner.but(layout=layout, dtype=dtype)
    if row.shape == "component" and lay.element_count(inner.layout) == 1:
        return inner.but(dtype=None)
    if row.shape == "component" and (name == "real" or name == "imag") and inner.dtype in _REAL_DTYPES:
        return inner if name == "real" else NOTHING
    if name == "resize_":
        sizes = shape_sizes(args)
        return inner.but(layout=DENSE_UNRANKED if sizes is None else lay.dense(sizes), index_built=False)
    # A layout that cannot be viewed so raises, or has an axis split: the form stays.
    layout = view_layout(row.shape, inner, args, keywords) or Layout(None, inner.layout.form)
    return inner.but(
        layout=layout,
        index_built=inner.index_built and row.index,
        trail=_view_trail(inner, layout, frame, node, name),
        part=parts.piece(inner.part) if row.shape in _PIECES else inner.part,
    )


_PIECES = frozenset(["selected", "narrowed", "unfolded", "strided", "diagonal", "component"])
"""Views that show less than they are made of."""
