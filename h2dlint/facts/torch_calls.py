"""Calls of torch: factories, functions, tensor methods, modules."""

from __future__ import annotations

import ast
import re

from h2dlint.facts import events, loaders, parts, streams, transfers
from h2dlint.facts import layout as lay
from h2dlint.facts.copies import Direction
from h2dlint.facts.domain import (
    CPU,
    NOTHING,
    POINTER,
    Array,
    Available,
    Const,
    Device,
    DeviceValue,
    DType,
    Instance,
    Mapping,
    Memory,
    Number,
    PinnedTest,
    Sequence,
    Strides,
    Trail,
    Unknown,
    Value,
    alternatives,
    arrays_of,
    given,
    join,
    mapped,
)
from h2dlint.facts.flags import Truth, truth
from h2dlint.facts.frame import Frame
from h2dlint.facts.layout import DENSE_UNRANKED, Form, Symbol
from h2dlint.facts.operations import (
    allocate,
    as_int,
    cast,
    data_dtype,
    data_layout,
    device_of,
    dtype_of,
    factory_dtype,
    factory_layout,
    flat_arrays,
    memory_order,
    ordered,
    torch_call,
    written_out,
)
from h2dlint.facts.torch_api import (
    ACCELERATOR_MODULES,
    AVAILABILITY,
    FACTORIES,
    IN_NAMESPACES,
    LEGACY_CUDA,
    METHODS,
    STREAM_MODULES,
    TAKES_NUMBERS,
    WAITING_FUNCTIONS,
    WAITS,
    WITHOUT_WAIT,
    Effect,
    Op,
)


def call_torch(name: str, args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame) -> Value:
    """`torch.something(...)`, by dotted name."""
    rest = name.partition(".")[2]
    for namespace in IN_NAMESPACES:
        if name.startswith(namespace):
            rest = name[len(namespace) :]
            if namespace == "torch.nn.functional." and rest == "pad":
                break
    if name in AVAILABILITY:
        return Available()
    special = _SPECIAL.get(name)
    if special is not None:
        return special(args, keywords, node, frame)
    submodule, _, last = rest.rpartition(".")
    if submodule in STREAM_MODULES:
        stream = streams.of_call(last, args, node, frame)
        if stream is not None:
            return stream
    if submodule in ACCELERATOR_MODULES:
        return _accelerator_module_call(submodule, last, args, keywords, node, frame)
    if "." in rest:
        if rest.startswith("nn.") and last[:1].isupper():
            return _module(last, args, keywords, node, frame)
        return NOTHING
    row = FACTORIES.get(rest)
    if row is not None:
        return make(row, rest, None, args, keywords, node, frame)
    row = METHODS.get(rest)
    if name.startswith("torch.Tensor.") and args and row is not None:  # `torch.Tensor.to(x, device)`
        return call_method(args[0], rest, args[1:], keywords, node, frame, "")
    if row is None or row.effect in (Effect.TRANSFER, Effect.HOST_READ):
        for value in args:
            events.read_value(frame, value, node)
        if args and (rest in WAITS or name in WAITING_FUNCTIONS):
            transfers.read_back(args[0], rest, node, frame)
        return NOTHING
    if args and name in WAITING_FUNCTIONS:
        transfers.read_back(args[0], rest, node, frame)
    if not args:
        first = next((keywords.pop(key) for key in ("input", "tensors", "tensor") if key in keywords), NOTHING)
        args = [first]
    if row.effect is Effect.QUERY:
        return _query(args[0], rest, args[1:], "")
    return _knowing_its_size(row, rest, args[0], args[1:], keywords, node, frame)


# Making


def make(
    row: Op,
    name: str,
    receiver: Array | None,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.expr,
    frame: Frame,
) -> Value:
    """A factory: `torch.zeros(...)`, `torch.empty_like(x)`, `x.new_full(...)`, `torch.tensor(...)`."""
    if "out" in keywords and not isinstance(keywords["out"], Const):
        return written_out(keywords["out"], node, frame)
    if row.effect is Effect.LIKE:
        return mapped(args[0] if args else NOTHING, lambda base: _like(row, name, base, keywords, node, frame))
    if row.effect is Effect.DATA:
        return mapped(
            args[0] if args else keywords.get("data", NOTHING),
            lambda data: _from_data(row, name, receiver, data, args, keywords, node, frame),
        )
    if row.effect is Effect.FROM_HOST:
        return mapped(args[0] if args else NOTHING, lambda data: _from_host(name, data, node, frame))
    if row.effect is Effect.PRIVATE:
        return _loaded(name, args, keywords, node, frame)
    if row.effect is Effect.QUERY:
        return NOTHING
    fallback = receiver.device if receiver is not None else frame.default_device or CPU
    dtype = (
        factory_dtype(row, name.removeprefix("new_"), args, keywords)
        if "dtype" in keywords or receiver is None
        else receiver.dtype
    )
    order = memory_order(keywords)
    layout = factory_layout(row, name, args, keywords)
    return allocate(
        frame,
        node,
        name,
        ordered(layout, order) if order else layout,
        device=given(keywords, "device"),
        fallback=fallback,
        pin=given(keywords, "pin_memory"),
        dtype=dtype,
        index_built=row.index and (receiver is None or receiver.index_built),
    )


def _like(row: Op, name: str, base: Value, keywords: dict[str, Value], node: ast.expr, frame: Frame) -> Value:
    array = base if isinstance(base, Array) else None
    if array is not None and array.kind == "ndarray":
        array = array.but(device=CPU)
    device = array.device if array is not None else device_of(base) if isinstance(base, Unknown) else Device("")
    layout = DENSE_UNRANKED if array is None else lay.like(array.layout)
    dtype = dtype_of(keywords["dtype"]) if "dtype" in keywords else array.dtype if array is not None else None
    built = row.index and array is not None and array.index_built
    return allocate(
        frame,
        node,
        name,
        layout,
        device=given(keywords, "device"),
        fallback=device,
        pin=given(keywords, "pin_memory"),
        dtype=dtype,
        index_built=built,
    )


def _from_data(
    row: Op,
    name: str,
    receiver: Array | None,
    data: Value,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.expr,
    frame: Frame,
) -> Value:
    device = given(keywords, "device")
    dtype_argument = keywords.get("dtype", next((arg for arg in args[1:] if isinstance(arg, DType)), None))
    dtype = dtype_of(dtype_argument) if dtype_argument is not None else row.dtype or data_dtype(data)
    copies = "copy" in keywords and truth(keywords["copy"]) is Truth.TRUE
    aliases = name in ("as_tensor", "asarray", "Tensor") and not copies
    if isinstance(data, Array):
        return _from_array(name, data, aliases, device, dtype, dtype_argument is not None, keywords, node, frame)
    if aliases and isinstance(data, Unknown) and data.why != "number":
        return _maybe_alias(name, data, device, dtype, node, frame)
    if isinstance(data, Instance):
        return NOTHING
    fallback = receiver.device if receiver is not None else frame.default_device or CPU
    layout = data_layout(data)
    if (name[:1].isupper() and isinstance(data, (Number, Unknown))) or (name[:1].isupper() and isinstance(data, Const)):
        layout = DENSE_UNRANKED
    made = allocate(
        frame, node, name, layout, device=device, fallback=fallback, pin=given(keywords, "pin_memory"), dtype=dtype
    )
    for array in arrays_of(made):
        transfers.made_on_device(name, data, array.device, node, frame)
        break
    return made


def _from_array(
    name: str,
    data: Array,
    aliases: bool,
    device: Value | None,
    dtype: str | None,
    casts: bool,
    keywords: dict[str, Value],
    node: ast.expr,
    frame: Frame,
) -> Value:
    """A tensor made of a tensor or an ndarray: an alias where the call allows it, else fresh memory."""
    target = (
        device_of(device) if device is not None and not (isinstance(device, Const) and device.value is None) else None
    )
    if target is not None and target != data.device:
        host = data.but(kind="tensor")
        if target.is_accelerator:
            transfers.made_on_device(name, host, target, node, frame)
            return Array("tensor", target, Memory.UNKNOWN, DENSE_UNRANKED, None, dtype or data.dtype)
        if target.is_unknown:
            return Array("tensor", target, Memory.UNKNOWN, DENSE_UNRANKED, None, dtype or data.dtype)
    place = target or data.device
    if aliases and (not casts or (dtype is not None and dtype == data.dtype)) and target in (None, data.device):
        alias = data.but(kind="tensor", trail=_numpy_trail(data, name, node, frame))
        return _hiding(alias) if data.kind == "ndarray" else alias
    if aliases and data.memory is Memory.UNKNOWN and place.is_cpu:
        return data.but(kind="tensor", dtype=dtype, trail=_numpy_trail(data, name, node, frame))
    return allocate(
        frame,
        node,
        name,
        DENSE_UNRANKED if data.layout.sizes is None else lay.dense(data.layout.sizes),
        device=device,
        fallback=place,
        pin=given(keywords, "pin_memory"),
        dtype=dtype or data.dtype,
        previous=data.trail,
    )


def _numpy_trail(data: Array, name: str, node: ast.AST, frame: Frame) -> Trail | None:
    if data.kind != "ndarray":
        return data.trail
    message = (
        "wraps the ndarray's own, pageable memory"
        if data.memory is Memory.PAGEABLE
        else "wraps the ndarray's own memory"
    )
    return frame.trail(node, "numpy", f"`{name}` {message}", data.trail)


def _maybe_alias(
    name: str, data: Unknown, device: Value | None, dtype: str | None, node: ast.AST, frame: Frame
) -> Value:
    """`as_tensor(unknown)`: perhaps the very tensor it was given."""
    place = device_of(device) if device is not None else Device("", data.key)
    return Array(
        "tensor", place, Memory.UNKNOWN, DENSE_UNRANKED, frame.trail(node, name, f"`{name}` wraps its argument"), dtype
    )


def _from_host(name: str, data: Value, node: ast.expr, frame: Frame) -> Value:
    """`from_numpy`, `from_dlpack`: the argument's own memory (FACTS, 8)."""
    if isinstance(data, Array):
        layout = lay.dense([None]) if name == "frombuffer" and data.layout.form is Form.DENSE else data.layout
        return _hiding(data.but(kind="tensor", layout=layout, trail=_numpy_trail(data, name, node, frame)))
    if name == "from_dlpack":
        return NOTHING
    if isinstance(node, ast.Call) and node.args and _computes(node.args[0], data):
        trail = frame.trail(node, "numpy", f"`{name}` wraps a computed, pageable ndarray")
        return Array("tensor", CPU, Memory.PAGEABLE, DENSE_UNRANKED, trail, from_numpy=True)
    message = f"`{name}` wraps the ndarray's own memory"
    return Array("tensor", CPU, Memory.UNKNOWN, DENSE_UNRANKED, frame.trail(node, "numpy", message), from_numpy=True)


def _computes(node: ast.expr, data: Value) -> bool:
    """Whether an ndarray of unknown origin is worked out on the spot: then it lies in memory of its own."""
    if isinstance(node, (ast.Compare, ast.BinOp, ast.UnaryOp)):
        return True
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not isinstance(data, Unknown):
        return False
    elsewhere = len(node.args) > _MOST_BEFORE_OUT or any(one.arg in ("copy", "out", None) for one in node.keywords)
    return node.func.attr in _COPYING and not elsewhere


_COPYING = frozenset({"copy", "astype", "flatten", "repeat", "cumsum", "take", "clip", "round", "argsort"})
"""Methods of ndarrays whose result is a new array, whatever they are called on, unless told where to put it."""
_MOST_BEFORE_OUT = 2
"""Arguments that `clip`, `take` and `cumsum` take before `out` (numpy: `ndarray` methods)."""


def _hiding(array: Array) -> Array:
    """A tensor on the bare memory of another one: where it starts further in, torch does not see whose that is."""
    return array.but(part=parts.hidden(array.part)) if array.memory is Memory.PINNED else array


def _loaded(name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr, frame: Frame) -> Value:
    """`torch.load`: where it says `map_location="cpu"`, everything in it is pageable."""
    where = keywords.get("map_location", args[1] if len(args) > 1 else None)
    if where is None or not device_of(where).is_cpu:
        return NOTHING
    return Array(
        "batch",
        CPU,
        Memory.PAGEABLE,
        DENSE_UNRANKED,
        frame.trail(node, name, f"`{name}` reads it into pageable memory"),
    )


# torch.cuda and its kin


def _accelerator_module_call(
    kind: str, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr, frame: Frame
) -> Value:
    if name in LEGACY_CUDA:
        data = args[0] if args else NOTHING
        if isinstance(data, (Sequence, Array)):
            transfers.made_on_device(name, data, Device(kind), node, frame)
        return Array("tensor", Device(kind), Memory.UNKNOWN, DENSE_UNRANKED)
    if name == "current_device":
        return DeviceValue(Device(kind))
    return Unknown(why="number") if name == "device_count" else NOTHING


# Methods

_SENDS = re.compile(r"(?:^|_)to(?:$|_)|(?:^|_)(?:cuda|cpu|device|npu|xpu)(?:$|_)")
"""Methods of something unknown that may well move it, as `.to` does: `to_device`, `move_to`."""


def call_method(
    receiver: Value, name: str, args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, key: str
) -> Value:
    """A method of a tensor, a module, a batch, or of something unknown that may be one of them."""
    row = METHODS.get(name)
    if isinstance(receiver, Array) and receiver.kind == "module":
        return _module_method(receiver, name, args, keywords, node, frame, key)
    if isinstance(receiver, Array) and receiver.kind == "batch" and row is None:
        return _batch_method(receiver, name, node)
    if isinstance(receiver, Instance):
        if "non_blocking" in keywords and row is not None and row.effect is Effect.TRANSFER:
            transfers.unfollowed(node, name, frame)
        return receiver if name in ("to", "cuda", "cpu", "eval", "train") else NOTHING
    if row is None:
        shaped = METHODS.get(name[:-1]) if name.endswith("_") else None
        if shaped is not None and shaped.effect is Effect.VIEW and isinstance(receiver, Array):
            return _reshape_in_place(shaped, receiver, name, args, keywords, node, frame, key)
        if isinstance(receiver, Array) and name.endswith("_") and not name.startswith("_"):
            if (
                not all(isinstance(arg, Const) or (isinstance(arg, Array) and arg.index_built) for arg in args)
                or name in _RANDOM_FILLS
            ):
                frame.written(receiver)
                _in_place(receiver, name, [*args, *keywords.values()], node, frame)
                return receiver.but(index_built=False)
            if name not in _LEAVE_ALONE:
                _in_place(receiver, name, [*args, *keywords.values()], node, frame)
            return receiver
        if "non_blocking" in keywords and _SENDS.search(name):
            return transfers.move(receiver, name, args, keywords, node, frame)
        if "non_blocking" in keywords:
            transfers.unfollowed_method(name, args, keywords, node, frame)
        return _unknown_method(receiver, name)
    if row.effect is Effect.TRANSFER:
        return _transfer(receiver, name, args, keywords, node, frame)
    if row.effect is Effect.HOST_READ:
        return transfers.read_on_host(receiver, name, node, frame)
    if row.effect is Effect.QUERY:
        return _query(receiver, name, args, key)
    if row.effect is Effect.PRIVATE and key:
        return _moved_in_place(row, receiver, name, node, frame, key)
    if row.effect in (Effect.FACTORY, Effect.DATA):
        base = (
            receiver
            if isinstance(receiver, Array)
            else Array("tensor", Device("", getattr(receiver, "key", "")), Memory.UNKNOWN, DENSE_UNRANKED)
        )
        return make(row, name, base, args, keywords, node, frame)
    if not isinstance(receiver, Array) and row.effect is not Effect.PIN and not _goes_along(row, name, receiver, args):
        if _asks_for_size(name, args, keywords):
            events.wait_here(frame, node)
        return _of_unknown(receiver, name, row)
    return _knowing_its_size(row, name, receiver, args, keywords, node, frame)


def _knowing_its_size(
    row: Op, name: str, receiver: Value, args: list[Value], keywords: dict[str, Value], node: ast.expr, frame: Frame
) -> Value:
    """A call that may have to ask the device for its result's size: then it waits."""
    result = torch_call(row, name, receiver, args, keywords, node, frame)
    if name == "where":
        _sends_its_numbers(receiver, args, node, frame)
    if _asks_for_size(name, args, keywords):
        made = result.any_item() if isinstance(result, Sequence) else result
        transfers.read_back(made, name, node, frame)
        if any(map(_may_be_there, (way.value for way in alternatives(made)))):
            events.wait_here(frame, node)  # where a copy from the device is under way, this is there too
    return result


def _sends_its_numbers(condition: Value, args: list[Value], node: ast.expr, frame: Frame) -> None:
    """`torch.where(gpu > 0, gpu, torch.tensor(0.0))`: the host's number goes there first, with a wait (measured)."""
    there = any(array.device.is_accelerator for array in arrays_of(condition))
    here = [array for arg in args for array in arrays_of(arg) if array.device.is_cpu and not array.by_name]
    if there and here:
        transfers.waits(frame, node, "where", Direction.H2D, here[0])


def _asks_for_size(name: str, args: list[Value], keywords: dict[str, Value]) -> bool:
    """Whether a call asks a device for the size of its result, or for a truth: nobody tells it beforehand."""
    if name == "repeat_interleave" and args and isinstance(args[0], (Const, Number)):
        return False
    if name == "where":  # of a condition alone: where it holds
        return not args and not keywords
    told = WITHOUT_WAIT.get(name)
    return name in WAITS and not (told is not None and (told in keywords or (name == "one_hot" and bool(args))))


def _may_be_there(value: Value) -> bool:
    """Whether a tensor may lie on a device, as far as is known."""
    return isinstance(value, Unknown) or (isinstance(value, Array) and value.device.is_unknown)


def _reshape_in_place(
    row: Op,
    receiver: Array,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.Call,
    frame: Frame,
    key: str,
) -> Value:
    """`unsqueeze_`, `t_`: the tensor itself gets the view's layout; its aliases keep theirs."""
    result = torch_call(row, name[:-1], receiver, args, keywords, node, frame)
    if key:
        frame.assign(key, result, node)
    return result


def _moved_in_place(row: Op, receiver: Value, name: str, node: ast.Call, frame: Frame, key: str) -> Value:
    """`share_memory_`: the tensor itself lies in other memory from here on."""
    moved = torch_call(row, name, receiver, [], {}, node, frame)
    if isinstance(receiver, Array):
        frame.assign(key, moved, node)
    return moved


_RANDOM_FILLS = frozenset(
    ["uniform_", "normal_", "random_", "bernoulli_", "exponential_", "cauchy_", "geometric_", "log_normal_"]
)


def _in_place(receiver: Array, name: str, operands: list[Value], node: ast.AST, frame: Frame) -> None:
    """A method that writes: all but those that only fill have to read first; what goes in with it is read as well."""
    for operand in operands if receiver.device.is_cpu else ():
        events.read_value(frame, operand, node)
    if name not in _RANDOM_FILLS and name not in ("fill_", "zero_"):
        events.read(frame, [receiver], node)
    events.write(frame, receiver, node)


_LEAVE_ALONE = frozenset(["requires_grad_", "detach_", "share_", "rename_", "as_strided_", "swapaxes_", "swapdims_"])
"""Methods that end like those which write, and write nothing."""


def _goes_along(row: Op, name: str, receiver: Value, args: list[Value]) -> bool:
    """Whether something unknown is computed with a tensor on a device: torch does that on this device alone."""
    if row.effect not in (Effect.FRESH, Effect.FRESH_PAIR) or name in TAKES_NUMBERS:
        return False
    return isinstance(receiver, Unknown) and any(
        array.device.is_accelerator and array.layout.rank != 0 for array in flat_arrays(args)[0]
    )


def _of_unknown(receiver: Value, name: str, row: Op) -> Value:
    key = getattr(receiver, "key", "")
    if row.effect is Effect.NUMPY:
        return Array("ndarray", CPU, Memory.UNKNOWN, DENSE_UNRANKED, from_numpy=True)
    if row.effect in (Effect.VIEW, Effect.DENSIFY, Effect.CAST) and key:
        return Unknown(key)
    return NOTHING


def _unknown_method(receiver: Value, name: str) -> Value:
    if isinstance(receiver, Unknown):
        return Unknown(f"{receiver.key}.{name}()") if receiver.key else NOTHING
    return NOTHING


def _transfer(
    receiver: Value, name: str, args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame
) -> Value:
    if name == "copy_":
        return transfers.copy_into(receiver, args, keywords, node, frame)
    if name == "type_as":
        return _to_that_of(receiver, args, keywords, node, frame)
    if name == "type":
        return _legacy_type(receiver, args, keywords, node, frame)
    return transfers.move(receiver, name, args, keywords, node, frame)


def _to_that_of(receiver: Value, args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame) -> Value:
    """`x.type_as(other)`: a cast, and where the other lies elsewhere a move that waits."""
    given = args[0] if args else keywords.get("other", NOTHING)
    ways = [
        (_as_other(here.value, there.value, node, frame), here.tags + there.tags)
        for here in alternatives(receiver)
        for there in alternatives(given)
    ]
    return join([value for value, _ in ways], [tags for _, tags in ways])


def _as_other(value: Value, other: Value, node: ast.Call, frame: Frame) -> Value:
    if not isinstance(value, Array) or not isinstance(other, Array):
        return Unknown(getattr(value, "key", ""))
    if value.device == other.device or (value.device.is_accelerator and other.device.is_accelerator):
        return cast(value, other.dtype, node, "type_as", frame)
    return transfers.move(value, "type_as", [other], {}, node, frame)


def _legacy_type(receiver: Value, args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame) -> Value:
    """`x.type(torch.cuda.FloatTensor)` moves, `x.type(torch.float16)` casts."""
    first = args[0] if args else keywords.get("dtype", NOTHING)
    text = first.value if isinstance(first, Const) and isinstance(first.value, str) else getattr(first, "name", "")
    parts = text.split(".")
    if len(parts) == 3 and parts[0] == "torch" and parts[1] in ACCELERATOR_MODULES:
        rest = {key: value for key, value in keywords.items() if key == "non_blocking"}
        if len(args) > 1:
            rest["non_blocking"] = args[1]
        named = FACTORIES.get(parts[2])
        if named is not None and named.dtype:
            rest["dtype"] = DType(named.dtype)
        return transfers.move(receiver, "type", [DeviceValue(Device(parts[1]))], rest, node, frame)
    if isinstance(first, DType):
        return transfers.move(
            receiver,
            "type",
            [first],
            {key: value for key, value in keywords.items() if key == "non_blocking"},
            node,
            frame,
        )
    return NOTHING


def _address(value: Value) -> Value:
    return Unknown(f"{POINTER}{value.storage}" if isinstance(value, Array) and value.storage else "", "number")


def _query(receiver: Value, name: str, args: list[Value], key: str) -> Value:
    if name == "is_pinned":
        known = [array.memory for array in arrays_of(receiver) if array.device.is_cpu]
        if known and len(known) == len(alternatives(receiver)) and Memory.UNKNOWN not in known and len(set(known)) == 1:
            return Const(known[0] is Memory.PINNED)
        return PinnedTest(key)
    if name in ("untyped_storage", "storage"):
        return mapped(
            receiver,
            lambda inner: inner.but(kind="tensor", layout=DENSE_UNRANKED) if isinstance(inner, Array) else NOTHING,
        )
    if name == "size":
        return _size(receiver, args)
    if name in ("numel", "nelement") and isinstance(receiver, Array):
        count = lay.element_count(receiver.layout)
        return Unknown(why="number") if count is None else Const(count)
    if name in ("dim", "ndimension") and isinstance(receiver, Array) and receiver.layout.rank is not None:
        return Const(receiver.layout.rank)
    if name == "is_contiguous" and not args and isinstance(receiver, Array):
        return _is_row_major(receiver)
    if name == "stride" and not args and isinstance(receiver, Array):
        return Strides(receiver.layout)
    if name == "data_ptr" and any(array.storage for array in arrays_of(receiver)):
        return mapped(receiver, _address)
    if name in (
        "numel",
        "nelement",
        "dim",
        "ndimension",
        "stride",
        "element_size",
        "storage_offset",
        "data_ptr",
        "get_device",
        "nbytes",
    ):
        return Unknown(
            f"{receiver.key}.{name}" if isinstance(receiver, Unknown) and receiver.key and not args else "", "number"
        )
    return NOTHING


def _is_row_major(array: Array) -> Value:
    """`x.is_contiguous()`, where the layout is known and not only taken for dense."""
    form = array.layout.form
    if form in (Form.GAPPED, Form.PERMUTED):
        return Const(False)
    known = array.layout.axes is not None or array.memory is not Memory.UNKNOWN
    return Const(True) if form is Form.DENSE and known else NOTHING


def _size(receiver: Value, args: list[Value]) -> Value:
    if not isinstance(receiver, Array):
        key = getattr(receiver, "key", "")
        return Unknown(f"{key}.shape" if key else "?.shape") if not args else Unknown(why="number")
    sizes = receiver.layout.sizes
    if not args:
        return (
            Unknown("?.shape")
            if sizes is None
            else Sequence(tuple(Const(size) if isinstance(size, int) else Number(size) for size in sizes))
        )
    axis = as_int(args[0])
    if sizes is None or axis is None or not -len(sizes) <= axis < len(sizes):
        return Unknown(why="number")
    size = sizes[axis]
    return Const(size) if isinstance(size, int) else Number(size)


# Modules, batches


_WRAPPERS = frozenset(
    [
        "Sequential",
        "ModuleList",
        "ModuleDict",
        "DataParallel",
        "DistributedDataParallel",
        "ParameterList",
        "ParameterDict",
    ]
)


def _module(name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr, frame: Frame) -> Value:
    """`torch.nn.Linear(...)`: its parameters, taken as one, are pageable host memory unless a device says otherwise."""
    inner, hidden = flat_arrays(args)
    if (hidden and name in _WRAPPERS) or any(isinstance(arg, Instance) for arg in args):
        return NOTHING
    device_argument = given(keywords, "device")
    device = (
        inner[0].device
        if inner
        else device_of(device_argument)
        if device_argument is not None
        else frame.default_device or CPU
    )
    memory = inner[0].memory if inner else Memory.PAGEABLE if device.is_cpu else Memory.UNKNOWN
    trail = frame.trail(
        node,
        name,
        f"`{name}` makes its parameters in pageable memory" if device.is_cpu else f"`{name}` makes its parameters",
    )
    return Array("module", device, memory, DENSE_UNRANKED, trail, "float32", frame.interpreter.fresh_storage())


def _module_method(
    receiver: Array, name: str, args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, key: str
) -> Value:
    """A module moves in place; its parameters share its memory."""
    tensor = receiver.but(kind="tensor")
    row = METHODS.get(name)
    if row is not None and row.effect is Effect.TRANSFER:
        moved = mapped(
            transfers.move(receiver, name, args, keywords, node, frame),
            lambda value: value.but(kind="module", storage=receiver.storage) if isinstance(value, Array) else receiver,
        )
        for variable, value in list(frame.env.items()):
            if isinstance(value, Array) and value.storage == receiver.storage and receiver.storage:
                frame.env[variable] = _of_kind(moved, value.kind)
        return moved
    if name in ("parameters", "buffers", "children", "modules"):
        return Sequence(None, tensor if name in ("parameters", "buffers") else receiver, Symbol(name))
    if name in ("named_parameters", "named_buffers"):
        return Sequence(None, Sequence((NOTHING, tensor)))
    if name == "state_dict":
        return Mapping((), tensor)
    if name in ("half", "float", "double", "bfloat16", "eval", "train", "requires_grad_", "apply", "share_memory"):
        return receiver
    return NOTHING


def _of_kind(value: Value, kind: str) -> Value:
    return mapped(value, lambda inner: inner.but(kind=kind) if isinstance(inner, Array) else inner)


def _batch_method(receiver: Array, name: str, node: ast.AST) -> Value:
    if name in ("items",):
        return Sequence(None, Sequence((NOTHING, receiver)))
    if name in ("values", "get", "pop"):
        return Sequence(None, receiver) if name == "values" else receiver
    if name in ("keys", "__len__"):
        return NOTHING
    return NOTHING


def _device(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame) -> Value:
    return mapped(args[0] if args else keywords.get("type", NOTHING), lambda value: DeviceValue(device_of(value)))


def _set_default_device(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame) -> Value:
    frame.default_device = device_of(args[0]) if args else None
    return NOTHING


def _parameter(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame) -> Value:
    return mapped(args[0] if args else keywords.get("data", NOTHING), _registered)


def _registered(value: Value) -> Value:
    """A parameter: it goes where its module goes."""
    return value.but(placed=False) if isinstance(value, Array) and value.placed else value


def _foreach_copy(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame) -> Value:
    return transfers.foreach_copy(args, keywords, node, frame)


_SPECIAL = {
    "torch.device": _device,
    "torch.set_default_device": _set_default_device,
    "torch.nn.Parameter": _parameter,
    "torch.nn.parameter.Parameter": _parameter,
    "torch._foreach_copy_": _foreach_copy,
    "torch.utils.data.DataLoader": loaders.data_loader,
    "torch.utils.data.default_collate": loaders.default_collate,
    "torch.utils.data.dataloader.default_collate": loaders.default_collate,
    "torch.utils.data._utils.collate.default_collate": loaders.default_collate,
    "torch.utils.data.TensorDataset": loaders.tensor_dataset,
    "torch.utils.data.dataloader.DataLoader": loaders.data_loader,
}
