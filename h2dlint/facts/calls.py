"""Calls: who is called, with what, and what comes back."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from h2dlint.facts import builtin_calls, events, numpy_calls, pinned, streams, torch_calls, transfers
from h2dlint.facts.arithmetic import kind_test
from h2dlint.facts.attributes import attribute_of, instance_attribute
from h2dlint.facts.domain import (
    NOTHING,
    POINTER,
    POINTER_INTO,
    REST,
    Array,
    Available,
    Choice,
    Class,
    Const,
    Event,
    Function,
    Instance,
    Loader,
    Mapping,
    Memory,
    Method,
    Named,
    Partial,
    Sequence,
    Super,
    Tag,
    Unknown,
    Value,
    alternatives,
    arrays_of,
    without_none,
)
from h2dlint.facts.flags import is_availability_name, is_wsl_name
from h2dlint.facts.frame import Frame, key_of
from h2dlint.facts.operations import with_tags

Evaluate: TypeAlias = Callable[[ast.expr, Frame], Value]


def call(node: ast.Call, frame: Frame, evaluate: Evaluate) -> Value:
    """The value of a call expression."""
    value = _call(node, frame, evaluate)
    func = node.func
    kind = _kind(func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else "")
    return _mark(kind, node, frame, evaluate) or value if kind else value


_FILLERS = frozenset(["readinto", "readinto1", "recv_into", "recvfrom_into"])
"""Methods of files and sockets that write into the buffer which they are given."""


@lru_cache(maxsize=4096)
def _kind(name: str) -> str:
    """What a call by this name says of what is in flight: that the host waits, or that an event is recorded."""
    if name in ("record", "record_event", "record_stream"):  # who records a stream waits for it somewhere
        return "records"
    if name in ("wait", "wait_stream", "wait_event"):
        return name
    return "waits" if events.name_says_wait(name) else ""


def _mark(kind: str, node: ast.Call, frame: Frame, evaluate: Evaluate) -> Value | None:
    """Carry out what a call says of what is in flight; the event that it gives, if any."""
    func = node.func
    owner = func.value if isinstance(func, ast.Attribute) else None
    given = node.args[0] if node.args else node.keywords[0].value if len(node.keywords) == 1 else None
    receiver = streams.event_of(owner, frame, evaluate)

    def stream(expression: ast.expr | None) -> str:
        return streams.named_by(expression, frame, evaluate) or streams.ANY

    def given_stream() -> str:
        return streams.current(frame) if given is None else stream(given)

    if kind == "records":
        name = func.attr if isinstance(func, ast.Attribute) else ""
        if name == "record":
            events.record_event(frame, receiver, given_stream())
        elif name == "record_event":
            made = Event(f"{frame.module.file}:{node.lineno}:{node.col_offset}") if given is None else None
            events.record_event(frame, made.key if made else streams.event_of(given, frame, evaluate), stream(owner))
            return made
        else:
            events.record_event(frame, events.UNNAMED, streams.ANY)
    elif kind == "wait_stream":
        events.order(frame, stream(owner), stream(given))
    elif kind == "wait_event":
        events.order(frame, stream(owner), event=streams.event_of(given, frame, evaluate))
    elif kind == "wait" and receiver in events.state_of(frame).events:
        events.order(frame, given_stream(), event=receiver)  # a stream waits, and the host goes on
    else:
        events.wait(frame, receiver, stream(owner), node=node)
    return None


def _call(node: ast.Call, frame: Frame, evaluate: Evaluate) -> Value:
    callee, key = _callee(node, frame, evaluate)
    args, keywords = _arguments(node, frame, evaluate)
    if any(map(_is_empty, args)) or (keywords and any(map(_is_empty, keywords.values()))):
        _hands_to_be_filled(callee, node, frame)
    if type(callee) is not Choice:
        return _call_one(callee, args, keywords, node, frame, key)
    ways: list[tuple[Value, tuple[Tag, ...]]] = []
    outer = frame.way
    for way in alternatives(callee):
        frame.way = (*outer, *way.tags)
        ways.append((_call_one(way.value, args, keywords, node, frame, key), way.tags))
    frame.way = outer
    return with_tags(ways)


def _is_empty(value: Value) -> bool:
    """Whether this is a list or a dict into which nothing was put yet."""
    if type(value) is Sequence:
        return value.items == ()
    return type(value) is Mapping and value.items == () and value.item is None


def _hands_to_be_filled(callee: Value, node: ast.Call, frame: Frame) -> None:
    """An empty list or dict that is given to a function: it may be there to be filled, with what is not known."""
    if isinstance(callee, Named) and callee.name.partition(".")[0] in ("torch", "numpy", "builtins"):
        return
    if isinstance(callee, Method) and isinstance(callee.receiver, (Sequence, Mapping)):
        return
    for given in (*node.args, *(keyword.value for keyword in node.keywords)):
        held = frame.env.get(given.id) if isinstance(given, ast.Name) else None
        if isinstance(given, ast.Name) and held is not None and _is_empty(held):
            filled = Mapping((), NOTHING) if isinstance(held, Mapping) else Sequence(None, NOTHING)
            frame.rebind(given.id, filled)


def _callee(node: ast.Call, frame: Frame, evaluate: Evaluate) -> tuple[Value, str]:
    """What is called; of a method also the dotted name of its receiver."""
    func = node.func
    if not isinstance(func, ast.Attribute):
        return evaluate(func, frame), ""
    if func.attr in frame.dotted_ends:
        stored = frame.env.get(key_of(func))
        if stored is not None and not isinstance(stored, Unknown):
            return stored, key_of(func.value)
    base = evaluate(func.value, frame)
    key = frame.self_name if type(base) is Super else key_of(func.value)
    if type(base) is not Choice:
        return _method(base, func, frame, key), key
    base = without_none(base)
    ways = [(_method(way.value, func, frame, key), way.tags) for way in alternatives(base)]
    return with_tags(ways), key


def _method(value: Value, func: ast.Attribute, frame: Frame, key: str) -> Value:
    if type(value) in _WITH_METHODS:
        return Method(value, func.attr, key)
    if isinstance(value, Super):
        return _super_method(value, func, frame)
    if isinstance(value, Instance):
        value = frame.filled_since(value, key)
        found = instance_attribute(value, func.attr, func, frame)
        return found if not isinstance(found, Unknown) else Method(value, func.attr, key)
    found = attribute_of(value, func, frame)
    return Method(value, func.attr, key) if isinstance(found, Unknown) else found


_WITH_METHODS = frozenset({Array, Sequence, Mapping, Unknown, Const})
"""Values of which every attribute that is called is taken for a method."""


def _super_method(value: Super, func: ast.Attribute, frame: Frame) -> Value:
    from h2dlint.facts.attributes import class_member

    for base in frame.interpreter.class_bases(value.info):
        if isinstance(base, Class):
            found = class_member(base.info, func.attr, frame)
            if isinstance(found, Function):
                return Function(found.node, found.module, found.owner, value.receiver)
    return NOTHING


def _arguments(node: ast.Call, frame: Frame, evaluate: Evaluate) -> tuple[list[Value], dict[str, Value]]:
    args: list[Value] = []
    for item in node.args:
        if not isinstance(item, ast.Starred):
            args.append(handed_over(item, frame, evaluate))
            continue
        value = evaluate(item.value, frame)
        if isinstance(value, Sequence) and value.items is not None:
            args.extend(value.items)
        else:
            args.append(Sequence(None, value.any_item() if isinstance(value, Sequence) else NOTHING))
    keywords: dict[str, Value] = {}
    for keyword in node.keywords:
        value = handed_over(keyword.value, frame, evaluate)
        if keyword.arg is not None:
            keywords[keyword.arg] = value
        elif isinstance(value, Mapping):
            keywords.update({str(key): item for key, item in value.items})
            if value.item is not None:
                keywords[REST] = NOTHING
        else:
            keywords[REST] = NOTHING
    return args, keywords


def handed_over(node: ast.expr, frame: Frame, evaluate: Evaluate) -> Value:
    """The value of an expression; an object that has a name with all that was stored in it under that name."""
    value = evaluate(node, frame)
    if type(value) is Instance and type(node) is ast.Name:
        return frame.filled_since(value, node.id)
    return value


def _call_one(
    callee: Value, args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame, key: str
) -> Value:
    if "non_blocking" in keywords and (
        isinstance(callee, (Function, Class)) or (isinstance(callee, Named) and callee.name.startswith("builtins."))
    ):
        transfers.not_a_tensor(node, frame)
    if type(callee) in _NOT_FOLLOWED:
        _hands_over(callee, [*args, *keywords.values()] if keywords else args, node, frame)
    if keywords and frame.interpreter.asks_by_keyword:
        frame.interpreter.call_by_keyword(callee, args, keywords, frame, node)
    if isinstance(callee, Method):
        return _call_method(callee, args, keywords, node, frame)
    if isinstance(callee, Function):
        result = frame.interpreter.call_function(callee, args, keywords, frame, node, key)
        return _as_the_settings_say(result, callee, node, frame)
    if isinstance(callee, Class):
        return frame.interpreter.construct(callee.info, args, keywords, frame, node)
    if isinstance(callee, Named):
        return call_named(callee.name, args, keywords, node, frame)
    if isinstance(callee, Partial):
        return _call_one(
            callee.function, [*callee.args, *args], {**dict(callee.keywords), **keywords}, node, frame, key
        )
    if isinstance(callee, Instance):
        return _call_instance(callee, args, keywords, node, frame)
    if isinstance(callee, Array) and callee.kind == "module":
        return NOTHING
    if isinstance(callee, Unknown) and is_availability_name(callee.key):
        return Available()
    return _call_unknown(args, keywords, node, frame)


_NOT_FOLLOWED = frozenset({Method, Unknown, Named})


def _as_the_settings_say(result: Value, callee: Function, node: ast.Call, frame: Frame) -> Value:
    declared = frame.interpreter.options.pinned_factories
    if declared and pinned.is_declared(name := pinned.name_of(callee), declared):
        return pinned.as_declared(result, name, node, frame)
    return result


def _hands_over(callee: Value, args: list[Value], node: ast.Call, frame: Frame) -> None:
    """An ndarray given to something that cannot be followed is read there, or filled, whatever that waits for."""
    if isinstance(callee, Method) and callee.name in _FILLERS and args:
        events.write(frame, args[0], node)
        return
    if frame.allocated:
        events.hand_pointers(frame, args, node, _is_queued)
    if not args:
        return
    foreign = isinstance(callee, Unknown) or (isinstance(callee, Method) and isinstance(callee.receiver, Unknown))
    if foreign or (isinstance(callee, Named) and callee.name.partition(".")[0] not in ("torch", "numpy", "builtins")):
        for value in args:
            for array in arrays_of(value):
                if array.kind == "ndarray":
                    events.read(frame, (array,), node, certain=False)


def _is_queued(node: ast.Call) -> bool:
    """Whether a native call only queues its work: its name says so, or it is given a stream."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    return "async" in name.lower() or any("stream" in key_of(one).lower() for one in given)


def _call_unknown(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame) -> Value:
    """Whatever is called, it may write into the tensors that it is given."""
    for value in (*args, *keywords.values()):
        frame.written(value)
    if "non_blocking" in keywords:
        transfers.unfollowed(node, key_of(node.func).rpartition(".")[2], frame)
    return NOTHING


def _call_instance(
    callee: Instance, args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame
) -> Value:
    if callee.info is None:
        return NOTHING
    for name in ("__call__", "forward"):
        found = instance_attribute(callee, name, node, frame)
        if isinstance(found, Function):
            return frame.interpreter.call_function(found, args, keywords, frame, node, "")
    return NOTHING


def call_named(name: str, args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame) -> Value:
    """A call of something outside the project."""
    root = name.partition(".")[0]
    if name.rpartition(".")[2] in _TREE_MAPS:
        return _mapped_over(args, keywords, node, frame)
    if name in frame.interpreter.options.pinned_factories:
        return pinned.as_declared(NOTHING, name, node, frame)
    if root == "torch":
        return torch_calls.call_torch(name, args, keywords, node, frame)
    if root == "numpy":
        return numpy_calls.call_numpy(name, args, keywords, node, frame)
    found = builtin_calls.call_builtin(name, args, keywords, node, frame, _caller(node, frame))
    if found is not None:
        return found
    if is_availability_name(name):
        return Available()
    if is_wsl_name(name):
        return Const(False)
    last = name.rpartition(".")[2]
    if "non_blocking" in keywords and isinstance(node.func, ast.Attribute) and "." in name:
        # A name imported from outside: it may well be a tensor.
        return torch_calls.call_method(Unknown(name.rpartition(".")[0]), last, args, keywords, node, frame, "")
    return _call_unknown(args, keywords, node, frame)


_TREE_MAPS = frozenset({"tree_map", "tree_map_", "tree_map_only", "map_structure", "apply_to_collection"})
"""Functions of torch, of optree, of lightning and others that call a function with each leaf of nested containers."""


def _mapped_over(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame) -> Value:
    """The containers that were given, with what the function makes of each leaf."""
    every = [*args, *keywords.values()]
    function = next((one for one in every if isinstance(one, (Function, Partial))), None)
    data = next((one for one in every if isinstance(one, (Mapping, Sequence, Array)) and not _are_types(one)), NOTHING)
    call = _caller(node, frame)

    def leaves(value: Value) -> Value:
        if isinstance(value, Mapping):
            items = tuple((key, leaves(item)) for key, item in value.items)
            return Mapping(items, None if value.item is None else leaves(value.item))
        if isinstance(value, Sequence) and value.items is not None:
            return Sequence(tuple(map(leaves, value.items)), may_be_tuple=value.may_be_tuple)
        if isinstance(value, Sequence):
            return Sequence(None, leaves(value.item), value.length, value.may_be_tuple)
        return NOTHING if function is None else call(function, [value])

    return leaves(data)


def _are_types(value: Value) -> bool:
    """Whether this is a tuple of types: the kinds of leaves that are wanted, not the leaves."""
    items = value.items if isinstance(value, Sequence) else None
    return bool(items) and all(type(one) in (Named, Class) for one in items or ())


def _caller(node: ast.Call, frame: Frame) -> Callable[[Value, list[Value]], Value]:
    return lambda function, args: _call_one(function, args, {}, node, frame, "")


def _call_method(method: Method, args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame) -> Value:
    receiver = method.receiver
    if method.name == "cudaHostRegister":
        _register(args, node, frame)
        return NOTHING
    if isinstance(receiver, Unknown):
        if is_availability_name(method.name):
            return Available()
        if method.name == "startswith" and isinstance(node.func, ast.Attribute):
            return kind_test(node.func.value, args, True, frame.interpreter.options.backend) or NOTHING
        if is_wsl_name(method.name):
            return Const(False)
        return torch_calls.call_method(receiver, method.name, args, keywords, node, frame, method.key)
    if isinstance(receiver, Array) and receiver.kind == "ndarray":
        return numpy_calls.call_ndarray(receiver, method.name, args, keywords, node, frame)
    if isinstance(receiver, Loader):
        return receiver.batch if method.name == "__next__" else receiver if method.name == "__iter__" else NOTHING
    if isinstance(receiver, (Sequence, Mapping)):
        return builtin_calls.call_container(receiver, method, args, keywords, node, frame)
    if isinstance(receiver, Instance) and is_wsl_name(method.name):
        return Const(False)
    if isinstance(receiver, Instance) and method.name in _OF_RECORDS:
        return _changed_record(receiver, method.name, keywords)
    if isinstance(receiver, (Array, Instance)):
        return torch_calls.call_method(receiver, method.name, args, keywords, node, frame, method.key)
    return NOTHING


_OF_RECORDS = frozenset({"_asdict", "_replace"})
"""Methods of a named tuple."""


def _changed_record(value: Instance, name: str, keywords: dict[str, Value]) -> Value:
    if value.fields is None or REST in keywords:
        return Instance(value.info) if name == "_replace" else NOTHING
    fields = tuple({**dict(value.fields), **keywords}.items())
    return Instance(value.info, fields) if name == "_replace" else Mapping(fields)


def _register(args: list[Value], node: ast.Call, frame: Frame) -> None:
    """`cudaHostRegister(t.data_ptr(), ...)`: the tensor's memory is pinned from here on (FACTS, 8).

    Of a pointer somewhere into the memory it cannot be told how much of it is.
    """
    pointer = args[0].key if args and isinstance(args[0], Unknown) else ""
    prefix, _, number = pointer.partition(":")
    if number and prefix + ":" in (POINTER, POINTER_INTO):
        memory = Memory.PINNED if prefix + ":" == POINTER else Memory.UNKNOWN
        trail = frame.trail(node, "cudaHostRegister", "`cudaHostRegister` pins its memory")
        frame.interpreter.register(int(number), memory, trail)
