"""Calls of Python itself and of the standard library, as far as tensors pass through them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from h2dlint.facts import keeping
from h2dlint.facts.copies import Pinning
from h2dlint.facts.domain import (
    CPU,
    NOTHING,
    REST,
    Array,
    Class,
    Const,
    DeviceValue,
    Instance,
    Mapping,
    Memory,
    Method,
    Named,
    Number,
    Partial,
    Sequence,
    Slice,
    Super,
    Unknown,
    Value,
    join,
    mapped,
    under_key,
)
from h2dlint.facts.frame import Frame, key_of
from h2dlint.facts.indexing import stored
from h2dlint.facts.iteration import item_of
from h2dlint.facts.layout import DENSE_UNRANKED, SliceIndex, Symbol, length_of
from h2dlint.facts.operations import as_size, device_of, fresh
from h2dlint.facts.transfers import read_back

Call: TypeAlias = Callable[[Value, list[Value]], Value]
Rule: TypeAlias = Callable[[list[Value], dict[str, Value], ast.Call, Frame, Call], Value]


def call_builtin(
    name: str, args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call
) -> Value | None:
    """The result of a known function; None for any other."""
    if name in _READS or name.startswith(("math.", "pickle.dump", "json.dump")):
        for arg in args:
            read_back(arg, name.rpartition(".")[2], node, frame)
    rule = _RULES.get(name)
    if rule is None and name.startswith("record:"):
        fields = name[len("record:") :].split(",")
        given = dict(zip(fields, args, strict=False)) | keywords
        return Instance(None, tuple((field, given.get(field, NOTHING)) for field in fields))
    return None if rule is None else rule(args, keywords, node, frame, call)


_READS = frozenset(
    f"builtins.{name}"
    for name in (
        "int",
        "float",
        "bool",
        "complex",
        "str",
        "repr",
        "print",
        "min",
        "max",
        "sorted",
        "any",
        "all",
        "format",
    )
)
"""Functions of Python that look at the elements of a tensor."""


def _len(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    value = args[0] if args else NOTHING
    if isinstance(value, Sequence) and value.items is not None:
        return Const(len(value.items))
    if isinstance(value, Array) and value.layout.axes:
        size = value.layout.axes[0].size
        return Const(size) if isinstance(size, int) else Number(size)
    key = getattr(value, "key", "")
    return Number(Symbol(f"len({key})")) if key else Unknown(why="number")


def _number(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    value = args[0] if args else Const(0)
    if isinstance(value, Number) or (isinstance(value, Const) and isinstance(value.value, int)):
        return value
    if isinstance(value, Unknown) and value.key:
        return Number(Symbol(value.key))
    return Unknown(why="number")


def _plain_number(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    if len(args) == 1 and isinstance(args[0], Sequence):
        return args[0].any_item() if not isinstance(args[0].any_item(), Unknown) else Unknown(why="number")
    if args and all(isinstance(arg, Const) and isinstance(arg.value, (int, float)) for arg in args):
        return Unknown(why="number")
    return Unknown(why="number") if args else NOTHING


def _range(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    numbers = [arg.value for arg in args if isinstance(arg, Const) and isinstance(arg.value, int)]
    if len(numbers) == len(args) and 1 <= len(numbers) <= 3 and numbers[-1] != 0:
        found = range(*numbers)
        if length_of(found) <= 4:
            return Sequence(tuple(map(Const, found)))
    return Sequence(None, Unknown(why="number"))


def _enumerate(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    value = args[0] if args else NOTHING
    if isinstance(value, Sequence) and value.items is not None:
        return Sequence(tuple(Sequence((Const(position), item)) for position, item in enumerate(value.items)))
    return Sequence(None, Sequence((Unknown(why="number"), item_of(value, node, frame))))


def _zip(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    known = [arg.items for arg in args if isinstance(arg, Sequence) and arg.items is not None]
    if args and len(known) == len(args):
        return Sequence(tuple(Sequence(row) for row in zip(*known, strict=False)))
    if (
        len(args) == 1
        and isinstance(args[0], Sequence)
        and args[0].items is None
        and isinstance(node.args[0], ast.Starred)
    ):
        return Sequence(None, Sequence(None, item_of(args[0].item, node, frame)))
    return Sequence(None, Sequence(tuple(item_of(arg, node, frame) for arg in args)))


def _chain(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    return Sequence(None, join([item_of(arg, node, frame) for arg in args]))


def _sequence(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    if not args:
        return Sequence(())
    value = args[0]
    if isinstance(value, Sequence):
        return replace(value, may_be_tuple=False) if value.may_be_tuple else value
    return Sequence(None, item_of(value, node, frame))


def _tuple(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    made = _sequence(args, keywords, node, frame, call)
    return replace(made, may_be_tuple=True) if isinstance(made, Sequence) else made


def _reversed(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    value = args[0] if args else NOTHING
    return Sequence(None, item_of(value, node, frame))


def _dict(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    base = _as_mapping(args[0]) if args else Mapping()
    items = tuple((key, item) for key, item in base.items if key not in keywords)
    return Mapping((*items, *_named(keywords)), NOTHING if REST in keywords else base.item)


def _as_mapping(value: Value) -> Mapping:
    """The argument of `dict(...)`: a mapping, or pairs."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Sequence) and value.items is not None:
        pairs = [item.items for item in value.items if isinstance(item, Sequence) and item.items is not None]
        keys = [pair[0].value for pair in pairs if len(pair) == 2 and isinstance(pair[0], Const)]
        if len(keys) == len(value.items):
            return Mapping(tuple(zip(keys, [pair[1] for pair in pairs], strict=True)))
    return Mapping((), NOTHING)


def _next(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    return item_of(args[0], node, frame) if args else NOTHING


def _iter(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    return args[0] if args else NOTHING


def _getattr(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    if len(args) > 1 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        from h2dlint.facts.attributes import attribute_of

        attribute = ast.copy_location(ast.Attribute(node.args[0], args[1].value, ast.Load()), node)
        found = mapped(args[0], lambda value: attribute_of(value, attribute, frame))
        return found if len(args) < 3 else join((found, args[2]))
    return NOTHING


def _setattr(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    key = key_of(node.args[0]) if node.args else ""
    if key and len(args) == 3 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        frame.store_attribute(f"{key}.{args[1].value}", args[2], node)
    return Const(None)


def _map(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    return Sequence(None, call(args[0], [item_of(arg, node, frame) for arg in args[1:]])) if len(args) > 1 else NOTHING


def _filter(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    return Sequence(None, item_of(args[1], node, frame)) if len(args) > 1 else NOTHING


def _sum(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    item = item_of(args[0], node, frame) if args else NOTHING
    if isinstance(item, Array):
        return fresh([item], node, "sum", frame)
    return Unknown(why="number") if not isinstance(item, Unknown) or item.why == "number" else NOTHING


def _super(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    receiver = frame.env.get(frame.self_name) if frame.self_name else None
    return Super(frame.owner, receiver) if frame.owner is not None and receiver is not None else NOTHING


def _partial(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    return Partial(args[0], tuple(args[1:]), tuple(keywords.items())) if args else NOTHING


def _cast(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    return args[1] if len(args) > 1 else NOTHING


def _deepcopy(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    """Copies of tensors in fresh memory; whatever was pinned is not any more (FACTS, 7)."""
    return mapped(args[0] if args else NOTHING, lambda value: _deep(value, node, frame))


def _deep(value: Value, node: ast.AST, frame: Frame) -> Value:
    if isinstance(value, Array) and value.device.is_cpu:
        return value.but(
            memory=Memory.PAGEABLE,
            storage=frame.interpreter.fresh_storage(),
            trail=frame.trail(
                node,
                "deepcopy",
                "`deepcopy` makes a pageable copy",
                value.trail,
                Pinning.LOST if value.memory is Memory.PINNED else None,
            ),
        )
    if isinstance(value, Sequence) and value.items is not None:
        return Sequence(tuple(_deep(item, node, frame) for item in value.items))
    if isinstance(value, Mapping):
        return Mapping(
            tuple((key, _deep(item, node, frame)) for key, item in value.items),
            value.item and _deep(value.item, node, frame),
        )
    return value if isinstance(value, (Const, Number)) else NOTHING


def _copy(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    return args[0] if args else NOTHING


def _environment(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    """`os.environ.get(name, default)`: the default, as long as nobody sets the variable."""
    default = args[1] if len(args) > 1 else Const(None)
    return Const(default.value, True, node) if isinstance(default, Const) else NOTHING


def _namedtuple(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    fields = args[1] if len(args) > 1 else keywords.get("field_names", NOTHING)
    if isinstance(fields, Const) and isinstance(fields.value, str):
        return Named("record:" + ",".join(fields.value.replace(",", " ").split()))
    if (
        isinstance(fields, Sequence)
        and fields.items is not None
        and all(isinstance(item, Const) for item in fields.items)
    ):
        return Named("record:" + ",".join(str(item.value) for item in fields.items if isinstance(item, Const)))
    return NOTHING


def _replace(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    base = args[0] if args else NOTHING
    if isinstance(base, Instance) and REST in keywords:
        return Instance(base.info)
    if isinstance(base, Instance):
        kept = tuple((name, value) for name, value in base.fields or () if name not in keywords)
        return Instance(base.info, (*kept, *keywords.items()))
    return NOTHING


def _bool(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    from h2dlint.facts.flags import of_truth, truth

    return (of_truth(truth(args[0]), node) if args else None) or NOTHING


def _bytes(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    """Bytes of Python's own: memory that a `frombuffer` wraps as that of an ndarray."""
    name = node.func.id if isinstance(node.func, ast.Name) else "bytes"
    trail = frame.trail(node, name, f"`{name}` lies in pageable memory")
    storage = frame.interpreter.fresh_storage()
    return Array("ndarray", CPU, Memory.PAGEABLE, DENSE_UNRANKED, trail, None, storage, from_numpy=True)


def _safetensors(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    """A safetensors file: a dict of tensors in pageable memory, unless a device is named."""
    return _read_from("load_file", keywords.get("device", args[1] if len(args) > 1 else None), node, frame)


def _safe_open(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    """An open safetensors file: each tensor is read where it is asked for."""
    return _read_from("safe_open", keywords.get("device", args[2] if len(args) > 2 else None), node, frame)


def _read_from(name: str, device: Value | None, node: ast.Call, frame: Frame) -> Value:
    if device is not None and not device_of(device).is_cpu:
        return NOTHING
    trail = frame.trail(node, name, f"`{name}` reads it into pageable memory")
    return Mapping((), Array("tensor", CPU, Memory.PAGEABLE, DENSE_UNRANKED, trail))


def _string(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    value = args[0] if args else NOTHING
    return Const(value.device.kind) if isinstance(value, DeviceValue) and not value.device.is_unknown else NOTHING


def _slice(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    bounds = [Const(None), args[0], Const(None)] if len(args) == 1 else [*args, Const(None), Const(None)][:3]
    given = [not (isinstance(bound, Const) and bound.value is None) for bound in bounds]
    sizes = [as_size(bound) for bound in bounds]
    return Slice(SliceIndex(sizes[0], sizes[1], sizes[2], given[0], given[1], given[2]))


def _namespace(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    return Instance(None, tuple(keywords.items()))


def _isinstance(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    """Decided where the value's kind is known and so is the type."""
    if len(args) != 2:
        return NOTHING
    kinds = args[1].items if isinstance(args[1], Sequence) and args[1].items is not None else (args[1],)
    names = {kind.name.rpartition(".")[2] for kind in kinds if isinstance(kind, Named)}
    value = args[0]
    if len(names) != len(kinds):
        return NOTHING
    mine, others = _types_of(value)
    if mine <= names and mine:
        return Const(True)
    return Const(False) if mine and names <= others else NOTHING


_TENSORS = frozenset({"Tensor", "ndarray"})
_DICTS = frozenset({"dict", "Mapping", "MutableMapping", "OrderedDict", "defaultdict"})
_LISTS = frozenset({"list", "tuple", "Sequence", "set", "frozenset"})
_PLAIN = frozenset({"str", "bytes", "int", "float", "bool", "complex"})


def _types_of(value: Value) -> tuple[frozenset[str], frozenset[str]]:
    """The types that a value is of, all of which must be asked for to be sure, and those that it is not of."""
    if isinstance(value, Array) and value.kind == "tensor":
        return frozenset({"Tensor"}), _DICTS | _LISTS | _PLAIN | {"ndarray"}
    if isinstance(value, Array) and value.kind == "ndarray":
        return frozenset({"ndarray"}), _DICTS | _LISTS | (_PLAIN - {"bytes"}) | {"Tensor"}  # `bytes` pass for one
    if isinstance(value, Sequence):
        return frozenset({"list", "tuple"}), _TENSORS | _DICTS | _PLAIN
    if isinstance(value, Mapping):
        return frozenset({"dict"}), _TENSORS | _LISTS | _PLAIN
    if isinstance(value, Const) and value.value is None:
        return frozenset({"NoneType"}), _TENSORS | _DICTS | _LISTS | _PLAIN
    if isinstance(value, Const) and isinstance(value.value, str) and not value.soft:
        return frozenset({"str"}), _TENSORS | _DICTS | _LISTS | (_PLAIN - {"str"})
    return frozenset(), frozenset()


def _type_variable(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, call: Call) -> Value:
    """`TypeVar("T", bound=Base)`: what is annotated with it is at least a Base."""
    bound = keywords.get("bound", NOTHING)
    if isinstance(bound, Const) and isinstance(bound.value, str):
        bound = frame.interpreter.resolve(frame.module, bound.value)
    return bound if isinstance(bound, Class) else NOTHING


_RULES: dict[str, Rule] = {
    "builtins.len": _len,
    "builtins.int": _number,
    "builtins.round": _plain_number,
    "builtins.float": _plain_number,
    "builtins.abs": _plain_number,
    "builtins.min": _plain_number,
    "builtins.max": _plain_number,
    "builtins.sum": _sum,
    "builtins.range": _range,
    "builtins.enumerate": _enumerate,
    "builtins.zip": _zip,
    "builtins.list": _sequence,
    "builtins.tuple": _tuple,
    "builtins.set": _sequence,
    "builtins.sorted": _reversed,
    "builtins.reversed": _reversed,
    "builtins.dict": _dict,
    "builtins.next": _next,
    "builtins.iter": _iter,
    "builtins.getattr": _getattr,
    "builtins.setattr": _setattr,
    "builtins.map": _map,
    "builtins.filter": _filter,
    "builtins.super": _super,
    "builtins.bool": _bool,
    "builtins.str": _string,
    "builtins.isinstance": _isinstance,
    "builtins.slice": _slice,
    "builtins.memoryview": _copy,
    "builtins.bytearray": _bytes,
    "builtins.bytes": _bytes,
    "collections.OrderedDict": _dict,
    "collections.deque": _sequence,
    "types.SimpleNamespace": _namespace,
    "contextlib.nullcontext": _copy,
    "functools.partial": _partial,
    "typing.cast": _cast,
    "typing.TypeVar": _type_variable,
    "typing_extensions.TypeVar": _type_variable,
    "copy.deepcopy": _deepcopy,
    "copy.copy": _copy,
    "os.environ.get": _environment,
    "os.getenv": _environment,
    "collections.namedtuple": _namedtuple,
    "dataclasses.replace": _replace,
    "itertools.chain": _chain,
    "itertools.cycle": _reversed,
    "itertools.islice": _reversed,
    "tqdm.tqdm": _copy,
    "tqdm.auto.tqdm": _copy,
    "tqdm.autonotebook.tqdm": _copy,
    "tqdm.notebook.tqdm": _copy,
    "rich.progress.track": _copy,
    "safetensors.torch.load_file": _safetensors,
    "safetensors.torch.load": _safetensors,
    "safetensors.safe_open": _safe_open,
}


# Methods of containers

_GROWING = frozenset({"append", "add", "appendleft", "put", "put_nowait"})


def call_container(
    receiver: Sequence | Mapping,
    method: Method,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.Call,
    frame: Frame,
) -> Value:
    """A method of a list, tuple or dict; those that grow it rebind the name it is known by."""
    name = method.name
    if isinstance(receiver, Mapping):
        return _mapping_method(receiver, method, args, keywords, node, frame)
    if name == "insert" and receiver.items is not None and len(args) == 2 and frame.loop_depth == 0:
        position = args[0].value if isinstance(args[0], Const) else None
        if isinstance(position, int):
            items = list(receiver.items)
            items.insert(position, args[1])
            _rebind(method.key, Sequence(tuple(items)), node, frame)
            return Const(None)
    if name in _GROWING or name == "insert":
        value = args[-1] if args else NOTHING
        grown = (
            Sequence((*receiver.items, value))
            if receiver.items is not None and frame.loop_depth == 0
            else Sequence(None, join((receiver.any_item(), value)) if receiver.items != () else value)
        )
        _rebind(method.key, grown, node, frame)
        return Const(None)
    if name in ("extend", "__iadd__"):
        more = args[0] if args else NOTHING
        added = item_of(more, node, frame)
        if (
            receiver.items is not None
            and isinstance(more, Sequence)
            and more.items is not None
            and frame.loop_depth == 0
        ):
            _rebind(method.key, Sequence(receiver.items + more.items), node, frame)
        else:
            _rebind(
                method.key,
                Sequence(None, added if receiver.items == () else join((receiver.any_item(), added))),
                node,
                frame,
            )
        return Const(None)
    if name in ("pop", "popleft") and receiver.items and frame.loop_depth == 0 and (not args or name == "popleft"):
        taken, left = (-1, receiver.items[:-1]) if name == "pop" else (0, receiver.items[1:])
        _rebind(method.key, Sequence(left), node, frame)
        return receiver.items[taken]
    if name in ("pop", "popleft", "get", "get_nowait", "__getitem__"):
        return receiver.any_item()
    if name == "copy":
        return receiver
    return NOTHING


def _mapping_method(
    receiver: Mapping, method: Method, args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame
) -> Value:
    name = method.name
    if name == "items":
        if receiver.item is None and 0 < len(receiver.items) <= 4:
            return Sequence(tuple(Sequence((Const(key), value)) for key, value in receiver.items))
        return Sequence(None, Sequence((NOTHING, receiver.any_item())))
    if name == "values":
        return (
            Sequence(None, receiver.any_item())
            if receiver.item is not None
            else Sequence(tuple(value for _, value in receiver.items))
        )
    if name in ("get", "pop", "setdefault", "__getitem__"):
        key = args[0] if args else NOTHING
        found = receiver.get(key.value) if isinstance(key, Const) else _under(node, receiver.any_item())
        if name == "setdefault" and len(args) > 1:
            new = keeping.kept_by_default(args[1], method.key, frame)
            _rebind(method.key, stored(receiver, key, new), node, frame)
            return new if found is None else join((found, new))
        default = args[1] if len(args) > 1 else Const(None)
        if found is not None and name == "get" and not (isinstance(key, Const) and _has(receiver, key)):
            return join((found, default))  # there yet, or not
        return default if found is None else found
    if name == "update":
        more = args[0] if args else NOTHING
        grown = receiver
        for key_name, value in (more.items if isinstance(more, Mapping) else ()) + _named(keywords):
            known = stored(grown, Const(key_name), value)
            grown = known if isinstance(known, Mapping) else grown
        if (not isinstance(more, Mapping) and args) or REST in keywords:
            grown = Mapping(grown.items, NOTHING)
        _rebind(method.key, grown, node, frame)
        return Const(None)
    if name in ("get_tensor", "get_slice"):  # of an open safetensors file
        return receiver.any_item()
    if name == "copy":
        return receiver
    return NOTHING


def _has(mapping: Mapping, key: Const) -> bool:
    return any(known == key.value and type(known) is type(key.value) for known, _ in mapping.items)


def _under(node: ast.Call, value: Value) -> Value:
    return under_key(value, node.args[0]) if node.args else value


def _named(keywords: dict[str, Value]) -> tuple[tuple[str, Value], ...]:
    return tuple((name, value) for name, value in keywords.items() if name != REST)


def _rebind(key: str, value: Value, node: ast.AST, frame: Frame) -> None:
    if key:
        frame.assign(key, value, node)
