"""The abstract values: what the analyser knows of a tensor, an array, a container, a flag or a device.

A value that differs by path, caller or configuration is a `Choice` whose alternatives keep the tag of the way they
came,
so that a verdict can name it. Joins never invent: what is not known stays `Unknown`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from enum import Enum
from itertools import repeat
from operator import is_
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from h2dlint.facts.copies import Pinning
from h2dlint.facts.layout import DENSE_UNRANKED, Layout, Size, SliceIndex
from h2dlint.facts.parts import SEVERAL, of_key

MAX_ALTERNATIVES = 8
"""A choice of more alternatives is cut to these; the dropped ones become one unknown alternative."""

CPU_KIND = "cpu"
ACCELERATOR_KIND = "accelerator"
"""A device known to be some accelerator, though not which."""
UNKNOWN_KIND = ""
META_KIND = "meta"
ACCELERATOR_NAMES = frozenset(["cuda", "npu", "xpu", "hpu", "musa", "mlu", "mps", "rbln", "hip"])


POINTER = "pointer:"
POINTER_INTO = "pointer-into:"
"""Keys of unknown integers that are addresses: of a storage's first byte, or of somewhere in it."""


class Memory(str, Enum):
    """Where host memory comes from. Device tensors carry UNKNOWN: the question does not arise."""

    PAGEABLE = "pageable"
    PINNED = "pinned"
    UNKNOWN = "unknown"


ASSUMED = "assumed"
"""The key of a device that an availability test chose: without an accelerator it is another one."""

DEVICE_NAMES = frozenset(
    [
        "device",
        "target_device",
        "gpu_device",
        "cuda_device",
        "execution_device",
        "compute_device",
        "onload_device",
        "current_device",
    ]
)
"""What programs call the device that they run on. Beside `non_blocking=True` it stands for an accelerator."""


class Device(Struct, frozen=True):
    """A torch device: its kind (`cpu`, `cuda`, ..., empty when unknown) and, when unknown, the expression it stands
    for.
    """

    kind: str
    key: str = ""

    @property
    def is_certain(self) -> bool:
        """Whether the program names it as such, rather than choosing it where an accelerator is present."""
        return not self.key.startswith(ASSUMED)

    def as_accelerator(self) -> Device:
        """The device, taken for an accelerator because host data is sent to it without waiting."""
        return Device(ACCELERATOR_KIND, f"{ASSUMED} {self.key}".rstrip()) if self.is_unknown else self

    def may_be(self, other: Device) -> bool:
        """Whether this one, taken for an accelerator, is the device that is otherwise only known by its name."""
        return other.is_unknown and other.key != "" and self.key == f"{ASSUMED} {other.key}"

    @property
    def is_chosen(self) -> bool:
        """Whether the program names it as the device that it runs on (`device`, `self.device`), of unknown kind."""
        return self.is_unknown and self.key.rpartition(".")[2].lstrip("_") in DEVICE_NAMES

    @property
    def is_cpu(self) -> bool:
        return self.kind == CPU_KIND

    @property
    def is_unknown(self) -> bool:
        return self.kind == UNKNOWN_KIND

    @property
    def is_accelerator(self) -> bool:
        return self.kind not in (CPU_KIND, UNKNOWN_KIND, META_KIND)


CPU = Device(CPU_KIND)
ACCELERATOR = Device(ACCELERATOR_KIND)
SOMEWHERE = Device(UNKNOWN_KIND)


class Trail(Struct, frozen=True, eq=False):
    """A chain of the places that made a value what it is, newest first. Compared by identity: it is no part of the
    value.
    """

    path: str
    node: ast.AST
    label: str
    message: str
    previous: Trail | None = None
    pinning: Pinning | None = None


class Tag(Struct, frozen=True):
    """The way an alternative came: a branch of a condition, a caller, a store, a switch."""

    kind: str
    """`path`, `caller`, `store`, `switch`, `case`, `override` or `note`."""
    node: ast.AST
    holds: bool = True
    """For a branch: whether the condition was true; for a switch: whether it pins."""
    by_default: bool = True
    path: str = ""
    text: str = ""
    """Replaces the rendered condition."""
    machine: str = ""
    """For a branch: the other accelerator that it is for, or with `-` in front the one that it is not for."""


class Value(Struct, frozen=True):
    """Base of all values."""

    def meet(self, other: Value) -> Value | None:
        """What the two are where ways meet, for values that know it themselves."""
        return None


class Unknown(Value, frozen=True):
    """Nothing is known but the expression it stands for: two unknowns of one key are the same object at run time."""

    key: str = ""
    why: str = ""


NOTHING = Unknown()
PICKED = Unknown(why="what it was picked from cannot be followed")
"""Some elements of something unknown, by an index that only tensors and arrays take: a copy of them."""

NO_ITEM = Unknown(why="nothing is seen to be put into what it is taken from")
"""An item of what is empty as far as is seen: of a list in the first turn of the loop that fills it."""

REST = "**"
"""Among a call's keywords: there may be others, which are not known (`**options`)."""


def given(keywords: dict[str, Value], name: str) -> Value | None:
    """What a call passes under a keyword: unknown where it might be among those that are not known, else None."""
    return keywords.get(name, NOTHING if REST in keywords else None)


class Const(Value, frozen=True):
    """A Python constant. `soft`: a default that a caller, a configuration or the environment may change."""

    value: Any
    soft: bool = False
    origin: ast.AST | None = None


class Available(Value, frozen=True):
    """A truth value that holds wherever an accelerator is present (`torch.cuda.is_available()`, PIN_MEMORY)."""


class ConfigFlag(Value, frozen=True):
    """A truth value that a configuration of unknown or off default decides."""

    origin: ast.AST | None = None


class PinnedTest(Value, frozen=True):
    """The result of `key.is_pinned()`; `negated` for its opposite."""

    key: str
    negated: bool = False


class Number(Value, frozen=True):
    """An integer of unknown value, as a size that can be compared with others."""

    size: Size


class Strides(Value, frozen=True):
    """All strides of a tensor, by the layout they belong to: what `empty_strided` is given beside its size."""

    layout: Layout


class DType(Value, frozen=True):
    """`torch.float16` and its kin, by last name."""

    name: str


class DeviceValue(Value, frozen=True):
    """A device object."""

    device: Device


class Stream(Value, frozen=True):
    """A queue of a device's work, known by where it was made (streams.py)."""

    key: str


class Event(Value, frozen=True):
    """What a stream's `record_event()` gives, known by where that stands."""

    key: str


class Array(Value, frozen=True):
    """A tensor, an ndarray, a module's parameters taken as one, or one leaf of a loader's batch."""

    kind: str
    """`tensor`, `ndarray`, `module`, `batch`."""
    device: Device
    memory: Memory
    layout: Layout
    trail: Trail | None = None
    dtype: str | None = None
    storage: int = 0
    """Views and aliases share their base's number; 0 when it cannot be told."""
    from_numpy: bool = False
    index_built: bool = False
    by_name: bool = False
    """That it lies on the host is only what its name says (`lens_cpu`): it cannot vouch for another operand."""
    scalar: bool = False
    """An element or a row of something on the host, or a number that numpy works out: a number as often as an array."""
    picked: ast.AST | None = None
    """The subscript that made it, where that was a list, an array or a mask: it is a copy of what it was taken from."""
    part: str = ""
    """Which part of its storage it shows (parts.py); kept for pinned memory alone."""
    pinned_by: str = ""
    """The flag of unknown value that says whether it is pinned, by name."""
    placed: bool = False
    """Made with `device="cpu"`: neither a default device nor the module that keeps it as a plain attribute moves it."""

    def but(self, **changes: Any) -> Array:
        """A copy with some fields changed."""
        if self.pinned_by and "memory" in changes:
            changes["pinned_by"] = ""
        return replace(self, **changes)


class Sequence(Value, frozen=True):
    """A list, tuple, set or generator: its items where each is known, else what any item may be."""

    items: tuple[Value, ...] | None = None
    item: Value = NOTHING
    length: Size = None
    may_be_tuple: bool = False
    """As an index, each item of a tuple counts for itself; a list is one index that picks."""

    def any_item(self) -> Value:
        if self.items is None:
            return one_of_several(self.item)
        return join(self.items) if self.items else NO_ITEM


class Mapping(Value, frozen=True):
    """A dict: the values of known keys, and what any other value may be."""

    items: tuple[tuple[Any, Value], ...] = ()
    item: Value | None = None

    def get(self, key: object) -> Value | None:
        for known, value in self.items:
            if known == key and type(known) is type(key):
                return value
        return None if self.item is None else one_of_several(self.item)

    def any_item(self) -> Value:
        values = [value for _, value in self.items]
        if self.item is not None:
            values.append(one_of_several(self.item))
        return join(values) if values else NO_ITEM


class Named(Value, frozen=True):
    """Something outside the project, by dotted name: `torch.zeros`, `numpy`, `os.environ`."""

    name: str


class Slice(Value, frozen=True):
    """A slice object."""

    item: SliceIndex


class Function(Value, frozen=True, eq=False):
    """A function, method or lambda of the project; `scope` is what it closes over."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    module: Any
    owner: Any = None
    receiver: Value | None = None
    scope: dict[str, Value] | None = None


class Class(Value, frozen=True):
    """A class of the project."""

    info: Any


class Instance(Value, frozen=True):
    """An object of a project class; `fields` where its construction was seen, else what the class stores decides."""

    info: Any
    fields: tuple[tuple[str, Value], ...] | None = None


def is_named_tuple(value: Instance) -> bool:
    """Whether an object of known fields has them by position as well."""
    if value.fields is None or value.info is None:
        return value.fields is not None
    return any(ast.unparse(base).rpartition(".")[2] == "NamedTuple" for base in value.info.node.bases)


class Super(Value, frozen=True):
    """`super()` inside a method."""

    info: Any
    receiver: Value


class ModuleValue(Value, frozen=True):
    """A module of the project, by name and file: it is read when something in it is asked for."""

    name: str
    file: str


class Partial(Value, frozen=True):
    """A callable with arguments already bound."""

    function: Value
    args: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]


class Method(Value, frozen=True):
    """A bound method of a value that is not an instance of a project class."""

    receiver: Value
    name: str
    key: str = ""


class Loader(Value, frozen=True):
    """A torch DataLoader: what one batch is."""

    batch: Value


class Alternative(Struct, frozen=True):
    """One way a value can be."""

    value: Value
    tags: tuple[Tag, ...] = ()


class Choice(Value, frozen=True):
    """One of several values, by path, caller or configuration."""

    alternatives: tuple[Alternative, ...]


Values: TypeAlias = Iterable[Value]


def alternatives(value: Value) -> tuple[Alternative, ...]:
    """The ways a value can be; one way for a plain value."""
    return value.alternatives if type(value) is Choice else (Alternative(value),)


def signature(value: Value) -> object:
    """What makes two values the same for a join: everything but storage, size symbols and provenance."""
    if type(value) is Unknown:
        return ("unknown", value.key)
    if type(value) in _BY_VALUE:
        return value
    if type(value) is Array:
        return (
            value.kind,
            value.device,
            value.memory,
            value.layout.signature(),
            value.dtype,
            value.from_numpy,
            value.index_built,
            value.by_name,
        )
    if type(value) is Sequence:
        items = None if value.items is None else tuple(map(signature, value.items))
        return ("sequence", items, signature(value.item) if value.items is None else None, value.may_be_tuple)
    if type(value) is Mapping:
        return (
            "mapping",
            tuple((key, signature(item)) for key, item in value.items),
            value.item and signature(value.item),
        )
    if type(value) is Choice:
        return ("choice", *(signature(alternative.value) for alternative in value.alternatives))
    if type(value) is Const:
        held = value.value
        plain = held is None or type(held) in _PLAIN or _hashable(held)
        return ("const", type(held), held if plain else id(held), value.soft)
    if type(value) is Function:
        return ("function", id(value.node), id(value.receiver))
    return value if _hashable(value) else id(value)


_PLAIN = frozenset({bool, int, float, str, bytes})
_BY_VALUE = frozenset({Available, ConfigFlag, PinnedTest, DType, DeviceValue, Named, Class, ModuleValue, Stream, Event})
"""Values that are the same where they are equal, and that can always be hashed."""


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def join(values: Values, tags: Iterable[tuple[Tag, ...]] | None = None) -> Value:
    """One value that stands for all of `values`; equal ones merge, different ones become a choice.

    `tags`, one tuple for each value, says which way each of them came.
    """
    values = list(values)
    if values and all(map(is_, values, repeat(values[0]))):
        return values[0]
    found: dict[object, Alternative] = {}
    for value, extra in zip(values, repeat(()) if tags is None else tags, strict=False):
        if type(value) is not Choice:
            _add(value, (), extra, found)
            continue
        for way in value.alternatives:
            _add(way.value, way.tags, extra, found)
    ways = list(found.values())
    if not ways:
        return NOTHING
    if len(ways) == 1:
        return ways[0].value
    joined = _join_containers(ways)
    if joined is not None:
        return joined
    if len(ways) > MAX_ALTERNATIVES:
        ways = [*ways[: MAX_ALTERNATIVES - 1], Alternative(NOTHING)]
    return Choice(tuple(ways))


def _add(held: Value, kept: tuple[Tag, ...], extra: tuple[Tag, ...], found: dict[object, Alternative]) -> None:
    """Enter one more way that a joined value can be, with the tags that it had and those of the way it comes now."""
    key = signature(held)
    if key not in found:
        more = tuple([tag for tag in extra if tag not in kept]) if kept else extra
        found[key] = Alternative(held, kept + more)
    elif type(held) is Array and held.memory is Memory.PINNED:
        found[key] = _which_of_both(found[key], held)


def _which_of_both(way: Alternative, other: Array) -> Alternative:
    """Two pinned tensors that are alike: one of them, and it cannot be told which."""
    one = way.value
    if not isinstance(one, Array) or one is other or one.part == SEVERAL:
        return way
    if one.storage == other.storage and one.part == other.part:
        return way
    storage = one.storage or other.storage  # one that is known here, rather than none
    return Alternative(one.but(part=SEVERAL, storage=storage), way.tags)


def one_of_several(value: Value) -> Value:
    """A value that stands for any of several objects: which pinned memory it is cannot be told."""
    if type(value) is Array:
        return value.but(part=SEVERAL) if value.memory is Memory.PINNED and value.part != SEVERAL else value
    if type(value) is Sequence:
        if value.items is None:
            return value  # its items are marked where they are taken out
        items = tuple(map(one_of_several, value.items))
        changed = any(new is not old for new, old in zip(items, value.items, strict=True))
        return Sequence(items, may_be_tuple=value.may_be_tuple) if changed else value
    if type(value) is Instance and value.fields:
        fields = tuple((name, one_of_several(held)) for name, held in value.fields)
        changed = any(new[1] is not old[1] for new, old in zip(fields, value.fields, strict=True))
        return Instance(value.info, fields) if changed else value
    if type(value) is Choice:
        ways = tuple(Alternative(one_of_several(way.value), way.tags) for way in value.alternatives)
        changed = any(new.value is not old.value for new, old in zip(ways, value.alternatives, strict=True))
        return Choice(ways) if changed else value
    return value


def under_key(value: Value, key: ast.expr) -> Value:
    """What a dict holds under a key that names alone make: looked up again, it is the same."""
    if not all(isinstance(part, _NAMING) for part in ast.walk(key)):
        return value
    text = ast.unparse(key)
    return mapped(value, lambda held: under_text(held, text))


_NAMING = (ast.Name, ast.Attribute, ast.Tuple, ast.Constant, ast.expr_context)


def under_text(value: Value, text: str) -> Value:
    """One of several tensors, marked as the one that this text names."""
    return value.but(part=of_key(text)) if isinstance(value, Array) and value.part == SEVERAL else value


def _join_containers(ways: list[Alternative]) -> Value | None:
    """Sequences that differ become one sequence of what an item may be; the empty one adds nothing."""
    first = type(ways[0].value)
    if first is not Mapping and first is not Sequence:
        return None
    if all(type(way.value) is Mapping for way in ways):
        return _join_mappings([way.value for way in ways if isinstance(way.value, Mapping)])
    if not all(type(way.value) is Sequence for way in ways):
        return None
    sequences = [way.value for way in ways if isinstance(way.value, Sequence)]
    filled = [sequence for sequence in sequences if sequence.items != ()]
    tuples = any(sequence.may_be_tuple for sequence in sequences)
    if len(filled) == 1:
        return Sequence(None, filled[0].any_item(), may_be_tuple=tuples)
    lengths = {len(sequence.items) if sequence.items is not None else -1 for sequence in filled}
    if len(lengths) == 1 and -1 not in lengths:
        columns = zip(*(sequence.items or () for sequence in filled), strict=True)
        way_tags = [way.tags for way in ways if isinstance(way.value, Sequence) and way.value.items != ()]
        return Sequence(tuple(join(column, way_tags) for column in columns), may_be_tuple=tuples)
    return Sequence(None, join([sequence.any_item() for sequence in filled]), may_be_tuple=tuples)


def _join_mappings(mappings: list[Mapping]) -> Mapping:
    """Dicts that differ: a key that only some of them have is looked up in those."""
    keys = list(dict.fromkeys(key for mapping in mappings for key, _ in mapping.items))
    items = tuple(
        (key, join([value for mapping in mappings for known, value in mapping.items if known == key])) for key in keys
    )
    rest = [mapping.item for mapping in mappings if mapping.item is not None]
    return Mapping(items, join(rest) if rest else None)


def tagged(value: Value, tag: Tag) -> Value:
    """The value with one more tag on each of its alternatives; a plain value becomes a choice of one."""
    return Choice(tuple(Alternative(way.value, (*way.tags, tag)) for way in alternatives(value)))


def mapped(value: Value, change: Callable[[Value], Value]) -> Value:
    """`change` applied to each alternative."""
    if type(value) is not Choice:
        return change(value)
    ways = value.alternatives
    if len(ways) == 1:
        inner = change(ways[0].value)
        return Choice(tuple(Alternative(way.value, ways[0].tags + way.tags) for way in alternatives(inner)))
    return join([change(way.value) for way in ways], [way.tags for way in ways])


def as_assumed(value: Value) -> Value:
    """A device chosen by an availability test, marked as that."""
    return mapped(value, _assumed)


def _assumed(value: Value) -> Value:
    if isinstance(value, DeviceValue) and value.device.is_accelerator:
        return DeviceValue(Device(value.device.kind, ASSUMED))
    if isinstance(value, Const) and isinstance(value.value, str):
        kind = value.value.partition(":")[0]
        return DeviceValue(Device(kind, ASSUMED)) if kind in ACCELERATOR_NAMES else value
    return value


def without_none(value: Value) -> Value:
    """The value where it is not None: an attribute of None would raise."""
    if type(value) is not Choice:
        return value
    ways = tuple(way for way in value.alternatives if not (type(way.value) is Const and way.value.value is None))
    if not ways or len(ways) == len(value.alternatives):
        return value
    return Choice(ways) if len(ways) > 1 or ways[0].tags else ways[0].value


def arrays_of(value: Value) -> tuple[Array, ...]:
    """Every array among the alternatives."""
    if type(value) is Array:
        return (value,)
    if type(value) is not Choice:
        return ()
    return tuple([way.value for way in value.alternatives if type(way.value) is Array])


def unknown_tensor(device: Device = SOMEWHERE, trail: Trail | None = None, **fields: Any) -> Array:
    """A tensor of which only the given is known."""
    return Array(
        "tensor", device, fields.pop("memory", Memory.UNKNOWN), fields.pop("layout", DENSE_UNRANKED), trail, **fields
    )
