"""DataLoader: what its batches are, by its options, its dataset, its collate function and the types of a batch.

Without `pin_memory` a batch is ordinary memory. With it, tensors are pinned, in tuples, lists and dicts too, and
objects by a `pin_memory()` of their own; other objects and ndarrays stay as they are, and so do gaps (FACTS, 10).
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from h2dlint.facts import pitfalls
from h2dlint.facts.attributes import class_member
from h2dlint.facts.copies import Pinning
from h2dlint.facts.domain import (
    CPU,
    NOTHING,
    Array,
    Class,
    Const,
    Function,
    Instance,
    Loader,
    Mapping,
    Memory,
    Number,
    Sequence,
    Tag,
    Trail,
    Unknown,
    Value,
    alternatives,
    given,
    is_named_tuple,
    join,
    mapped,
)
from h2dlint.facts.frame import Frame
from h2dlint.facts.layout import DENSE_UNRANKED
from h2dlint.facts.operations import pin_ways, with_tags

LABEL = "DataLoader"
"""What a loader is called in a chain."""

_POSITIONS = {"dataset": 0, "num_workers": 5, "collate_fn": 6, "pin_memory": 7}
"""Where the constructor takes what matters here."""

_PLAIN_BASES = frozenset(["builtins.object", "typing.Generic", "typing.NamedTuple", "typing.Protocol", "abc.ABC"])
"""Classes from elsewhere that say nothing of how an object is pinned."""

_UNPINNED = "`DataLoader` without pin_memory gives pageable batches"
_PINNED = "`DataLoader` pins its batches"
_SHARED = "`DataLoader` takes it from a worker through shared memory, which is pageable"
_NO_METHOD = "`DataLoader` cannot pin a `{name}`, which has no pin_memory(): what it holds stays pageable"
_LEFT_OUT = "`DataLoader` has the `{name}` pin itself, and its pin_memory() leaves this one pageable"


def data_loader(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame) -> Value:
    """A DataLoader, one way for each value of its pin flag."""
    dataset = _option("dataset", args, keywords) or NOTHING
    flag = _option("pin_memory", args, keywords)
    sample = _sample(dataset, node, frame)
    collated = _collated(_option("collate_fn", args, keywords), sample, node, frame)
    if collated is None:
        collated = _by_default(dataset, sample, frame.trail(node, LABEL, _UNPINNED))
    else:
        collated = _from_workers(collated, _option("num_workers", args, keywords), node, frame)
    pitfalls.of_loader(collated, flag, node, frame)
    ways: list[tuple[Value, tuple[Tag, ...]]] = []
    for memory, tag in pin_ways(flag, node, frame):
        batch = _Handing(memory, node, frame).on(collated)
        ways.append((Loader(batch), () if tag is None else (tag,)))
    return with_tags(ways)


def tensor_dataset(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame) -> Value:
    """A TensorDataset: a row of each of its tensors."""
    return Sequence(tuple(args))


def default_collate(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame) -> Value:
    """What torch makes of a list of samples: fresh tensors, in the containers that one sample has."""
    samples = args[0] if args else given(keywords, "batch")
    sample = samples.any_item() if isinstance(samples, Sequence) else NOTHING
    trail = frame.trail(node, "default_collate", "`default_collate` makes fresh pageable tensors")
    return _stacked(sample, trail)


def _option(name: str, args: list[Value], keywords: dict[str, Value]) -> Value | None:
    position = _POSITIONS[name]
    return args[position] if position < len(args) else given(keywords, name)


# What is collated


def _sample(dataset: Value, node: ast.Call, frame: Frame) -> Value:
    """What the dataset hands out for one index, or one after the other. Of an unknown dataset: something on the host,
    since its batches are sent to a device.
    """
    if isinstance(dataset, Instance) and dataset.info is not None:
        for name, given_to_it in (("__getitem__", [NOTHING]), ("__iter__", [])):
            method = class_member(dataset.info, name, frame)
            if isinstance(method, Function):
                bound = Function(method.node, method.module, method.owner, dataset)
                found = frame.interpreter.call_function(bound, [*given_to_it], {}, frame, node, "")
                if name == "__iter__":
                    found = found.any_item() if isinstance(found, Sequence) else NOTHING
                if not isinstance(found, Unknown):
                    return found
    if isinstance(dataset, Sequence):
        return dataset.any_item()
    return Array("batch", CPU, Memory.UNKNOWN, DENSE_UNRANKED)


def _by_default(dataset: Value, sample: Value, trail: Trail) -> Value:
    """A batch as torch's own collate function makes it: fresh tensors, in the containers of the samples."""
    if isinstance(dataset, Sequence) and dataset.items and all(isinstance(one, Array) for one in dataset.items):
        return Sequence(tuple(_stacked(one, trail) for one in dataset.items))
    return _stacked(sample, trail)


def _stacked(value: Value, trail: Trail) -> Value:
    if isinstance(value, Array) and value.device.is_cpu:
        kind = "tensor" if value.kind in ("tensor", "ndarray") else "batch"
        return Array(kind, CPU, Memory.PAGEABLE, DENSE_UNRANKED, trail, value.dtype)
    if isinstance(value, Array):
        return value.but(kind="tensor", memory=Memory.UNKNOWN, layout=DENSE_UNRANKED, storage=0)
    if isinstance(value, Sequence) and value.items is not None:
        return Sequence(tuple(_stacked(item, trail) for item in value.items))
    if isinstance(value, Mapping) and value.item is None and value.items:
        return Mapping(tuple((key, _stacked(item, trail)) for key, item in value.items))
    ways = alternatives(value)
    if len(ways) > 1:
        return join([_stacked(way.value, trail) for way in ways], [way.tags for way in ways])
    return Array("batch", CPU, Memory.PAGEABLE, DENSE_UNRANKED, trail)


def _collated(collate: Value | None, sample: Value, node: ast.Call, frame: Frame) -> Value | None:
    """What the collate function returns; None for torch's own."""
    if collate is None or (isinstance(collate, Const) and collate.value is None):
        return None
    samples: list[Value] = [Sequence(None, sample)]
    if isinstance(collate, Instance) and collate.info is not None:
        collate = class_member(collate.info, "__call__", frame) or NOTHING
        if isinstance(collate, Function):
            collate = Function(collate.node, collate.module, collate.owner, Instance(collate.owner))
    if isinstance(collate, Function):
        return frame.interpreter.call_function(collate, samples, {}, frame, node, "")
    if isinstance(collate, Class):
        return frame.interpreter.construct(collate.info, samples, {}, frame, node)
    return NOTHING


def _from_workers(collated: Value, workers: Value | None, node: ast.Call, frame: Frame) -> Value:
    """What reaches this process: from workers it comes through shared memory, where a pin is lost."""
    if workers is None or (isinstance(workers, Const) and not workers.value):
        return collated
    certain = isinstance(workers, Const) and isinstance(workers.value, int)
    memory = Memory.PAGEABLE if certain else Memory.UNKNOWN

    def shared(array: Array) -> Array:
        if not array.device.is_cpu or array.memory is not Memory.PINNED:
            return array
        return array.but(memory=memory, trail=frame.trail(node, LABEL, _SHARED, array.trail), storage=0)

    return _each_array(collated, shared)


def _each_array(value: Value, change: Callable[[Array], Array]) -> Value:
    if isinstance(value, Array):
        return change(value)
    if isinstance(value, Sequence):
        if value.items is None:
            return Sequence(None, _each_array(value.item, change), value.length)
        return Sequence(tuple(_each_array(item, change) for item in value.items))
    if isinstance(value, Mapping):
        items = tuple((key, _each_array(item, change)) for key, item in value.items)
        return Mapping(items, None if value.item is None else _each_array(value.item, change))
    if isinstance(value, Instance) and value.fields is not None:
        return Instance(value.info, tuple((name, _each_array(held, change)) for name, held in value.fields))
    ways = alternatives(value)
    if len(ways) > 1:
        return join([_each_array(way.value, change) for way in ways], [way.tags for way in ways])
    return value


# What is handed on


class _Handing:
    """A collated value as the loader hands it on."""

    def __init__(self, memory: Memory, node: ast.Call, frame: Frame) -> None:
        self._memory = memory
        self._node = node
        self._frame = frame

    def on(self, value: Value) -> Value:
        """The value in the memory that the loader leaves it in."""
        if self._memory is Memory.PAGEABLE:
            return _each_array(value, lambda array: self._marked(array, _UNPINNED))
        return mapped(value, self._pinned)

    def _pinned(self, value: Value) -> Value:
        if isinstance(value, Array):
            return self._pinned_array(value)
        if isinstance(value, Sequence):
            if value.items is None:
                return Sequence(None, self.on(value.item), value.length)
            return Sequence(tuple(self.on(item) for item in value.items))
        if isinstance(value, Mapping):
            items = tuple((key, self.on(item)) for key, item in value.items)
            return Mapping(items, None if value.item is None else self.on(value.item))
        if isinstance(value, Instance):
            return self._pinned_object(value)
        if isinstance(value, Unknown) and self._memory is Memory.PINNED:
            return Array("batch", CPU, Memory.PINNED, DENSE_UNRANKED, self._trail(_PINNED))
        return value if isinstance(value, (Const, Number)) else NOTHING

    def _pinned_array(self, array: Array) -> Array:
        if array.kind not in ("tensor", "batch") or not array.device.is_cpu:
            return array
        previous = None if array.trail is None or array.trail.label == LABEL else array.trail
        trail = self._trail(_PINNED if self._memory is Memory.PINNED else _UNPINNED, previous)
        return array.but(memory=self._memory, trail=trail, index_built=False, from_numpy=False)

    def _pinned_object(self, value: Instance) -> Value:
        if value.info is None:  # a namedtuple: its parts are pinned, as those of any tuple
            return Instance(None, tuple((name, self.on(held)) for name, held in value.fields or ()))
        if self._memory is not Memory.PINNED:
            return Instance(value.info)
        method = class_member(value.info, "pin_memory", self._frame)
        name = value.info.name
        if isinstance(method, Function):
            bound = Function(method.node, method.module, method.owner, value)
            result = self._frame.interpreter.call_function(bound, [], {}, self._frame, self._node, "")
            return _each_array(result, lambda array: self._marked(array, _LEFT_OUT.format(name=name), Pinning.LEFT_OUT))
        if not self._bases_are_known(value):
            return NOTHING
        if is_named_tuple(value):
            return Instance(value.info, tuple((name, self.on(held)) for name, held in value.fields or ()))
        return _each_array(value, lambda array: self._marked(array, _NO_METHOD.format(name=name), Pinning.LEFT_OUT))

    def _bases_are_known(self, value: Instance) -> bool:
        """Whether nothing outside the project can make an object of this class a mapping, or give it pin_memory()."""
        seen = [value.info]
        for owner in seen:
            for base in self._frame.interpreter.class_bases(owner):
                if isinstance(base, Class) and base.info not in seen:
                    seen.append(base.info)
                elif not isinstance(base, Class) and getattr(base, "name", "") not in _PLAIN_BASES:
                    return False
        return True

    def _marked(self, array: Array, message: str, pinning: Pinning | None = None) -> Array:
        """An array that stays as it is: where it is pageable, the loader is where that could be mended."""
        is_tensor = array.kind in ("tensor", "batch") and array.device.is_cpu
        if not is_tensor or array.memory is not Memory.PAGEABLE or (array.trail and array.trail.label == LABEL):
            return array
        trail = self._frame.trail(self._node, LABEL, message, array.trail, pinning)
        return array.but(trail=trail, index_built=False, from_numpy=False)

    def _trail(self, message: str, previous: Trail | None = None) -> Trail:
        return self._frame.trail(self._node, LABEL, message, previous)
