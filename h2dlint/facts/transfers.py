"""The calls that move data: who is on which side, was it asked to be asynchronous, and what comes out.

Sides follow docs/design.md, "Who is on which side": whoever writes `non_blocking=True` means an accelerator, and an
unknown source is never taken for a CPU tensor.
"""

from __future__ import annotations

import ast
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from h2dlint.facts import events, pitfalls
from h2dlint.facts.backends import Fact, cell, name_of
from h2dlint.facts.copies import Cause, Direction, HazardKind, Pitfall, Verdict
from h2dlint.facts.domain import (
    ACCELERATOR,
    CPU,
    NOTHING,
    PICKED,
    SOMEWHERE,
    Array,
    ConfigFlag,
    Const,
    Device,
    DeviceValue,
    DType,
    Instance,
    Mapping,
    Memory,
    Named,
    PinnedTest,
    Sequence,
    Tag,
    Unknown,
    Value,
    alternatives,
    arrays_of,
    mapped,
    unknown_tensor,
)
from h2dlint.facts.flags import Truth, truth
from h2dlint.facts.frame import Frame, key_of
from h2dlint.facts.layout import DENSE_UNRANKED, Form, like, same_strides
from h2dlint.facts.operations import (
    cast,
    combinations,
    device_of,
    dtype_of,
    fresh,
    is_none,
    memory_order,
    numbers_of,
    ordered,
    with_tags,
)
from h2dlint.facts.outcomes import Outcome, Sighting
from h2dlint.facts.refine import Narrow, guards_in
from h2dlint.facts.torch_api import FLAG_POSITION, TRANSFER_METHODS
from h2dlint.facts.verdict import Ruling, download, unproven, upload

Guard: TypeAlias = "tuple[ast.expr, Narrow]"
"""What a test is about, and what it says of its value."""

NOT_A_TENSOR = Ruling(Verdict.NO_TRANSFER, Direction.UNKNOWN, why="not a tensor's method")
"""A call that takes non_blocking and is not torch's: what it does inside is judged there."""

NO_TRANSFER = Ruling(Verdict.NO_TRANSFER, Direction.UNKNOWN)
D2D = Ruling(Verdict.NO_TRANSFER, Direction.D2D)
H2H = Ruling(Verdict.NO_TRANSFER, Direction.H2H)


class Site(Struct):
    """One call that may move data, while it is judged."""

    frame: Frame
    node: ast.expr
    name: str
    operand: ast.AST | None
    """What is moved, as written."""
    named: bool
    """Whether the call names non_blocking."""
    tags: tuple[Tag, ...] = ()
    asked: bool = False
    to_accelerator: bool = False
    open: bool = False
    doubtful: bool = False
    """Asked only under a switch that is off or unknown."""
    fetches: bool = False
    """Whether it brings a tensor home without being asked to be asynchronous."""
    one_of_several: bool = False
    """It goes to the host on one way and elsewhere on another."""
    hangs_on_place: bool = False
    """It goes to the host on one way and elsewhere on another, and whether it asks may hang on which."""

    @property
    def ways(self) -> list[Tag]:
        """The ways that make a difference: not those on which a buffer was there already, and those that made it."""
        return [tag for tag in self.tags if tag not in self.frame.kept_tags]

    @property
    def backend(self) -> str:
        """The accelerator that a device without a name stands for."""
        return self.frame.interpreter.options.backend

    def judge(self, source: Array | None, flag: Value | None, tags: tuple[Tag, ...], known: bool = False) -> Site:
        """The site for one combination of alternatives; `known`: what the flag tests is seen, and holds there."""
        asked, doubtful = asks(flag, source)
        return replace(self, tags=tags, asked=asked, doubtful=doubtful and not known)

    def text(self) -> str:
        """The operand for messages; empty when it is long."""
        return _short_text(self.operand)


def _short_text(node: ast.AST | None) -> str:
    text = ast.unparse(node) if node is not None else ""
    return text if len(text) <= 60 else ""


# Was it asked?


def asked_value(name: str, args: list[Value], keywords: dict[str, Value]) -> Value | None:
    """The value of the non_blocking argument, or None when the call does not name it."""
    if "non_blocking" in keywords:
        return keywords["non_blocking"]
    position = FLAG_POSITION.get(name)
    if position is None:
        return None
    if (
        name == "to"
        and args
        and (isinstance(args[0], DType) or (isinstance(args[0], Array) and args[0].kind == "tensor"))
    ):
        position = 1
    return args[position] if len(args) > position else None


def asks(flag: Value | None, source: Array | None) -> tuple[bool, bool]:
    """Whether the copy is asked to be asynchronous, and whether only under a switch that is off or unknown."""
    if flag is None:
        return False, False
    if isinstance(flag, PinnedTest):  # asked where the source is pinned: then it is
        never = Memory.PINNED if flag.negated else Memory.PAGEABLE
        return not (source is not None and source.memory is never), False
    found = truth(flag)
    if found is Truth.FALSE:
        return False, False
    return True, found in (Truth.SOFT_FALSE, Truth.CONFIG, Truth.UNKNOWN)


def _where_asked(value: Value, node: ast.AST | None, flag: Value | None) -> Value:
    """What is copied, where `non_blocking=x.is_pinned()` asks for it, or the flag that it is pinned by: then it is."""
    if isinstance(flag, Unknown) and isinstance(value, Array) and value.pinned_by and value.pinned_by == flag.key:
        return value.but(memory=Memory.PINNED)
    if not isinstance(flag, PinnedTest) or node is None or not flag.key or key_of(node) != flag.key:
        return value
    if isinstance(value, Unknown) and not flag.negated:
        return unknown_tensor(CPU, memory=Memory.PINNED)
    if not isinstance(value, Array) or value.memory is not Memory.UNKNOWN or value.device.is_accelerator:
        return value
    if flag.negated:
        return value.but(memory=Memory.PAGEABLE) if value.device.is_cpu else value
    return value.but(device=CPU, memory=Memory.PINNED)


def _asked_by(flag: Value | None, node: ast.Call, frame: Frame) -> list[Guard]:
    """What a flag of unknown value tests: where it asks, that holds (`non_blocking=x.is_cuda`)."""
    if flag is None or truth(flag) is not Truth.UNKNOWN:
        return []
    test = next((keyword.value for keyword in node.keywords if keyword.arg == "non_blocking"), None)
    if isinstance(test, ast.Name) and frame.function is not None:
        name = test.id
        given = [
            one
            for one in ast.walk(frame.function)
            if isinstance(one, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in one.targets)
        ]
        test = given[0].value if len(given) == 1 else None
    return guards_in(test, frame) if test is not None else []


def _on_this_way(asked: Value | None, tags: tuple[Tag, ...], node: ast.Call) -> Value | None:
    """The flag where these ways were taken: one of them may have tested it, or have pinned by it."""
    if not isinstance(asked, (Unknown, Const, ConfigFlag)) or (isinstance(asked, Const) and not asked.soft):
        return asked  # what is certain now may have been something else when it was tested
    origin = asked.origin if isinstance(asked, (Const, ConfigFlag)) else None
    flag = next((keyword.value for keyword in node.keywords if keyword.arg == "non_blocking"), None)
    name = key_of(flag) if flag is not None else ""
    for tag in tags:
        if tag.kind == "switch" and origin is not None and tag.node is origin:
            return Const(tag.holds)
        test, holds = tag.node, tag.holds
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, holds = test.operand, not holds
        if tag.kind == "path" and name and key_of(test) == name:
            return Const(holds)
    return asked


def _under(guards: list[Guard], value: Value, node: ast.AST | None) -> Value | None:
    """A value where these tests hold; None where they cannot."""
    key = key_of(node) if node is not None and guards else ""
    for tested, narrow in guards if key else ():
        if key_of(tested) == key:
            narrowed = narrow(value)
            if narrowed is None:
                return None
            value = narrowed
    return value


def _speak_of(guards: list[Guard], *nodes: ast.AST | None) -> bool:
    """Whether one of the tests is about one of these tensors, or about the one whose device this is."""
    keys = {key_of(node).removesuffix(".device") for node in nodes if node is not None} - {""}
    return any(key_of(tested) in keys for tested, _ in guards)


# Recording


def record(site: Site, ruling: Ruling) -> None:
    """Remember a ruling; a slice of unknown length gives two ways, and so does a doubtful flag."""
    _follow(site, ruling)
    path = site.frame.module.path
    tags = site.tags
    if site.doubtful and ruling.verdict is Verdict.FAKE_ASYNC:
        site = replace(site, open=True)
        off = Tag("case", site.node, False, True, path, "non_blocking is False")
        _note(site, replace(ruling, verdict=Verdict.BLOCKING, causes=()), (*tags, off))
        tags = (*tags, Tag("case", site.node, True, False, path, "non_blocking is True"))
    if ruling.spans is not None:
        site = replace(site, open=True)
        whole = Tag("case", site.node, False, False, path, "the slice spans its whole axis")
        _note(site, replace(ruling, verdict=ruling.spans, causes=()), (*tags, whole))
        tags = (*tags, Tag("case", site.node, True, True, path, "the slice is shorter than its axis"))
    _note(site, ruling, tags)


def _follow(site: Site, ruling: Ruling) -> None:
    """What the copy leaves in flight, or what it waits for."""
    array = ruling.decisive
    born = ruling.direction is Direction.D2H and site.name != "copy_"
    if ruling.verdict is Verdict.ASYNC or (born and ruling.verdict is Verdict.UNPROVEN):
        if array is not None and array.kind == "tensor" and ruling.direction in (Direction.H2D, Direction.D2H):
            certain = ruling.verdict is Verdict.ASYNC and not site.doubtful and not site.ways
            if not (born and site.hangs_on_place):
                events.issue(site.frame, array, site.node, ruling.direction, certain, born)
    elif ruling.verdict is Verdict.BLOCKING or (
        ruling.verdict is Verdict.FAKE_ASYNC and ruling.direction is Direction.D2H
    ):
        events.wait_here(site.frame, site.node)


def _note(site: Site, ruling: Ruling, tags: tuple[Tag, ...]) -> None:
    frame = site.frame
    frame.interpreter.record(
        Outcome(
            site.node,
            site.name,
            ruling.verdict,
            ruling.direction,
            site.asked,
            ruling.causes,
            ruling.decisive,
            site.operand,
            (*frame.way, *tags, *frame.path[-3:]),
            frame.context,
            frame.module.file,
            ruling.why,
            site.open,
            frame.root,
            frame.root_file,
            frame.function,
            site.to_accelerator,
            site.fetches,
        )
    )


def not_a_tensor(node: ast.Call, frame: Frame) -> None:
    """A call that names non_blocking and is the project's own."""
    record(Site(frame, node, key_of(node.func).rpartition(".")[2], None, True, asked=True), NOT_A_TENSOR)


def unfollowed(node: ast.Call, name: str, frame: Frame, asked: bool = True) -> None:
    """A method that names non_blocking, of an object whose class lies out of reach."""
    why = "what this method does cannot be followed"
    record(Site(frame, node, name, None, True, asked=asked), unproven(Direction.UNKNOWN, why) if asked else NO_TRANSFER)


def unfollowed_method(name: str, args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame) -> None:
    """The same of something unknown: a copy only where it is given something that it may copy, or a device."""
    certain = asks(keywords["non_blocking"], None) == (True, False)
    unfollowed(node, name, frame, asked=certain and _target(name, args, keywords)[2])


# `.to`, `.cuda`, `.cpu`


def move(
    receiver: Value, name: str, args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame
) -> Value:
    """`x.to(...)`, `x.cuda(...)`, `x.cpu()` and their kin on anything."""
    flag = asked_value(name, args, keywords)
    operand = node.func.value if isinstance(node.func, ast.Attribute) else node.args[0] if node.args else None
    site = Site(frame, node, name, operand, flag is not None)
    if isinstance(receiver, (Sequence, Mapping)):
        return NOTHING
    target, dtype, has_target = _target(name, args, keywords)
    if frame.unused is node and not device_of(target).is_cpu:
        pitfalls.of_move(receiver, name, node, frame)
    if not has_target:
        return _dtype_only(receiver, dtype, keywords, site)
    ways: list[tuple[Value, tuple[Tag, ...]]] = []
    places = {device_of(way.value).is_cpu for way in alternatives(target)}
    site.one_of_several = len(places) > 1
    site.hangs_on_place = len(places) > 1 and flag is not None and not isinstance(flag, Const)
    guards = _asked_by(flag, node, frame)
    known = _speak_of(guards, operand, _keyword_or_first(node, "device"))
    for (source, place, asked), tags in combinations(receiver, target, flag):
        asked = _on_this_way(asked, (*frame.way, *tags), node)
        source = _where_asked(_as_registered(source, frame), operand, asked)
        narrowed = _under(guards, source, operand)
        source, asked = (source, Const(False)) if narrowed is None else (narrowed, asked)
        array = source if isinstance(source, Array) else None
        order = memory_order(keywords)
        one = site.judge(array, asked, tags, known)
        result = _move_one(source, place or NOTHING, dtype, order, _is_true(keywords.get("copy")), one)
        ways.append((result, tags))
    return with_tags(ways)


def _keyword_or_first(node: ast.Call, name: str) -> ast.expr | None:
    """An argument that is given by its keyword, or first."""
    given = next((keyword.value for keyword in node.keywords if keyword.arg == name), None)
    return given or (node.args[0] if node.args else None)


def _is_true(value: Value | None) -> bool:
    return value is not None and truth(value) is Truth.TRUE


def _target(name: str, args: list[Value], keywords: dict[str, Value]) -> tuple[Value, str | None, bool]:
    """The device argument, the dtype argument, and whether there is a device at all."""
    dtype = next((dtype_of(value) for value in [keywords.get("dtype"), *args] if isinstance(value, DType)), None)
    if name in TRANSFER_METHODS:
        return DeviceValue(Device(TRANSFER_METHODS[name])), dtype, True
    for keyword in ("device", "other"):
        if keyword in keywords:
            return keywords[keyword], dtype, not is_none(keywords[keyword])
    if not args or isinstance(args[0], DType):
        return NOTHING, dtype, False
    first = args[0]
    if isinstance(first, Array):
        return first, first.dtype, True
    if isinstance(first, Unknown) and ("dtype" in first.key.rpartition(".")[2].lower() or first.why == "dtype"):
        return NOTHING, None, False
    if isinstance(first, Const) and isinstance(first.value, bool):
        return NOTHING, dtype, False
    return first, dtype, not is_none(first)


def _dtype_only(receiver: Value, dtype: str | None, keywords: dict[str, Value], site: Site) -> Value:
    if site.named:
        record(replace(site, asked=True), NO_TRANSFER)
    copies, order = _is_true(keywords.get("copy")), memory_order(keywords)
    names_dtype = dtype is not None or "memory_format" not in keywords
    ways = [(_cast_one(way.value, dtype, copies, order, names_dtype, site), way.tags) for way in alternatives(receiver)]
    return with_tags(ways)


def _cast_one(value: Value, dtype: str | None, copies: bool, order: str, names_dtype: bool, site: Site) -> Value:
    if not isinstance(value, Array) or value.kind == "module":
        return value if isinstance(value, (Array, Instance)) else Unknown(getattr(value, "key", ""))
    if order and value.device.is_accelerator:
        return value.but(layout=ordered(value.layout, order))
    if order and value.device.is_cpu and not same_strides(value.layout, ordered(value.layout, order)):
        layout = ordered(value.layout, order)
        return fresh([value], site.node, "to", site.frame, layout=layout, dtype=dtype or value.dtype)
    return cast(value, dtype, site.node, "to", site.frame, copy=copies) if names_dtype else value


def _move_one(source: Value, place: Value, dtype: str | None, order: str, copies: bool, site: Site) -> Value:
    device = device_of(place)
    if isinstance(source, (Instance, Named)) or (isinstance(source, Const) and source.value is not None):
        if site.named:
            record(site, NOT_A_TENSOR)
        return source if isinstance(source, Instance) else NOTHING
    array = source if isinstance(source, Array) else None
    if array is None or array.device.is_unknown:
        return _move_unknown(source, array, device, dtype, site)
    if array.device == device or (array.device.is_accelerator and device.is_accelerator):
        return _stay(array, device, dtype, copies, site)
    if array.device.is_cpu and _was_made_for(site, array):
        return _stay(array, array.device, dtype, copies, site)
    if array.device.is_cpu:
        return _send(array, device, dtype, order, site)
    if device.is_cpu:
        return _fetch(array, dtype, site)
    if site.named:  # device to device, or to host memory that torch pins when asked: it waits on neither way
        record(site, Ruling(Verdict.ASYNC, Direction.UNKNOWN, (), array) if site.asked else NO_TRANSFER)
    return array.but(device=device, dtype=dtype or array.dtype, memory=Memory.UNKNOWN)


def _was_made_for(site: Site, array: Array) -> bool:
    """Whether this function made the tensor with `device=self.device`, and now moves it to the very same."""
    trail = array.trail
    while trail is not None and trail.previous is not None:
        trail = trail.previous
    function, call = site.frame.function, site.node
    if trail is None or trail.path != site.frame.module.path or not isinstance(call, ast.Call):
        return False
    first, last = getattr(function, "lineno", 0), getattr(function, "end_lineno", None) or 0
    given = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "device")]
    target = next((one for one in given if isinstance(one, ast.Attribute)), None)
    if target is None or not first <= getattr(trail.node, "lineno", 0) <= last:
        return False
    return any(
        word.arg == "device" and ast.unparse(word.value) == ast.unparse(target)
        for word in getattr(trail.node, "keywords", ())
    )


def _stay(array: Array, device: Device, dtype: str | None, copies: bool, site: Site) -> Value:
    """Already there: the same tensor, or a cast on the spot."""
    if site.named:
        record(site, replace(H2H if device.is_cpu else D2D, decisive=array))
    if dtype is not None or copies:
        return cast(array, dtype or array.dtype, site.node, site.name, site.frame, copy=copies)
    return array if device.kind in (ACCELERATOR.kind, array.device.kind) else array.but(device=device)


def _send(array: Array, device: Device, dtype: str | None, order: str, site: Site) -> Value:
    """Host to device. Not asked and the device unknown, nothing is said: it may be the CPU."""
    if site.asked or device.is_accelerator:
        casts = _casts(array.dtype, dtype)
        target = ordered(array.layout, order) if order else None
        ruling = upload(array, device, target, site.asked, site.backend, casts)
        if ruling.verdict is Verdict.ASYNC and array.layout.form is Form.PERMUTED and dtype and array.dtype is None:
            ruling = unproven(Direction.H2D, "whether this changes the dtype cannot be followed", array)
        record(replace(site, to_accelerator=device.is_accelerator and device.is_certain), ruling)
    elif site.named:
        record(site, Ruling(Verdict.NO_TRANSFER, Direction.H2D, (), array))
    return array.but(
        device=device.as_accelerator() if site.asked else device,
        memory=Memory.UNKNOWN,
        dtype=dtype or array.dtype,
        storage=site.frame.interpreter.fresh_storage(),
        from_numpy=False,
        trail=site.frame.trail(site.node, site.name, f"`.{site.name}` brings it to the device", array.trail),
    )


def _casts(one: str | None, other: str | None) -> bool:
    """Whether a copy is known to change the dtype."""
    return one is not None and other is not None and one != other


def _fetch(array: Array, dtype: str | None, site: Site) -> Value:
    """Device to host: torch allocates the result, pinned when asked to be asynchronous (FACTS, 9)."""
    pins = cell(Fact.DOWNLOAD_IS_PINNED, array.device, site.backend).holds if site.asked else False
    how = "pinned, since it was asked to be asynchronous" if pins else "into pageable memory"
    host = array.but(
        device=CPU,
        memory=Memory.UNKNOWN if pins is None else Memory.PINNED if pins else Memory.PAGEABLE,
        dtype=dtype or array.dtype,
        storage=_made_pinned(site.frame),
        part="",
        index_built=False,
        layout=like(array.layout),
        trail=site.frame.trail(site.node, site.name, f"`.{site.name}` fetches it from the device {how}", array.trail),
    )
    if array.layout.form is Form.EMPTY:
        record(site, Ruling(Verdict.NO_TRANSFER, Direction.D2H, (), host))
    elif site.asked and not pins:
        record(
            site,
            unproven(Direction.D2H, f"whether `{name_of(array.device, site.backend)}` waits here is not known", host),
        )
    elif site.asked and host.layout.form is Form.PERMUTED and not _runs_alike(array, dtype):
        record(site, Ruling(Verdict.FAKE_ASYNC, Direction.D2H, (Cause.GAPPED,), host))
    else:
        verdict = Verdict.ASYNC if site.asked else Verdict.BLOCKING
        record(replace(site, fetches=not site.asked), Ruling(verdict, Direction.D2H, (), host))
    return host


def _runs_alike(array: Array, dtype: str | None) -> bool:
    """Whether a permuted tensor is fetched as it lies: its elements without holes, and none of them converted."""
    return array.layout.form is Form.PERMUTED and not _casts(array.dtype, dtype)


def _made_pinned(frame: Frame) -> int:
    """The storage of memory that torch allocates for a result."""
    storage = frame.interpreter.fresh_storage()
    frame.allocated.add(storage)
    return storage


def _move_unknown(source: Value, array: Array | None, device: Device, dtype: str | None, site: Site) -> Value:
    """A source of which it is not known where it lies. To the CPU it is fetched, or already there: never fake."""
    if device.is_cpu:
        return _bring_home(array, dtype, site)
    if site.named:
        record(site, _ruling_of_unknown(source, array, device, site))
    if not site.asked:
        events.wait_here(site.frame, site.node, perhaps=True)  # or it is there already
    if array is not None:
        return array.but(device=device, dtype=dtype or array.dtype, memory=Memory.UNKNOWN)
    if device.is_accelerator or device.key:
        return Array("tensor", device, Memory.UNKNOWN, DENSE_UNRANKED, None, dtype)
    return Unknown(getattr(source, "key", ""))


def _ruling_of_unknown(source: Value, array: Array | None, device: Device, site: Site) -> Ruling:
    if array is not None and device.is_unknown and device.key != "" and device.key == array.device.key:
        return D2D
    return unproven(Direction.UNKNOWN, _why_unknown(source, site), array) if site.asked else NO_TRANSFER


def _bring_home(array: Array | None, dtype: str | None, site: Site) -> Value:
    memory = Memory.PINNED if site.asked else Memory.UNKNOWN
    base = array or Array("tensor", CPU, memory, DENSE_UNRANKED)
    trail = site.frame.trail(site.node, site.name, f"`.{site.name}` brings it to the host", base.trail)
    host = base.but(device=CPU, memory=memory, dtype=dtype or base.dtype, trail=trail, index_built=False)
    if site.asked and site.one_of_several:  # the CPU where there is no accelerator: nothing was on one
        record(site, replace(H2H, decisive=host))
    elif site.asked:
        host = host.but(storage=_made_pinned(site.frame), part="")
        record(site, Ruling(Verdict.ASYNC, Direction.D2H, (), host))
    else:  # fetched, or there already: a caller may know
        events.wait_here(site.frame, site.node)
        ruling = NO_TRANSFER if site.named else Ruling(Verdict.NO_TRANSFER, Direction.D2H, (), host)
        record(replace(site, fetches=True, open=not site.named), ruling)
    return host


def _why_unknown(source: Value, site: Site) -> str:
    if isinstance(source, Unknown) and source.why not in ("", "number", "dtype", "shape"):
        return source.why
    text = site.text()
    return f"where `{text}` lies cannot be followed" if text else "where the source lies cannot be followed"


# `copy_`


def copy_into(destination: Value, args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame) -> Value:
    """`destination.copy_(source)`: returns the destination."""
    given = args[0] if args else keywords.get("src", NOTHING)
    flag = asked_value("copy_", args, keywords)
    site = Site(frame, node, "copy_", node.args[0] if node.args else None, flag is not None)
    receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
    guards = _asked_by(flag, node, frame)
    known = _speak_of(guards, site.operand, receiver)
    for (target, source, asked), tags in combinations(destination, given, flag):
        asked = _on_this_way(asked, (*frame.way, *tags), node)
        source = _where_asked(_as_registered(source, frame), site.operand, asked)
        target = _where_asked(_as_registered(target, frame), receiver, asked)
        here, there = _under(guards, source, site.operand), _under(guards, target, receiver)
        if here is None or there is None:
            asked = Const(False)
        else:
            source, target = here, there
        one = site.judge(source if isinstance(source, Array) else None, asked, tags, known)
        _copy_one(target, source, receiver, one)
        _host_side(target, source, one)
    _into_temporary(destination, receiver, node, frame)
    if not _same_everywhere(given):
        frame.written(destination)
    return destination


def _host_side(target: Value, source: Value, site: Site) -> None:
    """What a `copy_` does on the host: from host memory it is done when it returns."""
    here = _side(source, site.operand)
    if not isinstance(target, Array) or not target.device.is_cpu or here.is_accelerator:
        return
    if isinstance(source, Array) and here.is_cpu:
        events.read(site.frame, [source], site.node)
    if here.is_cpu or not site.asked:
        events.write(site.frame, target, site.node, certain=here.is_cpu and not site.ways)


def _into_temporary(destination: Value, receiver: ast.AST | None, node: ast.Call, frame: Frame) -> None:
    """`x[[0, 2]].copy_(y)`: indexing with a list, an array or a mask has made a copy, and that is what is filled."""
    if receiver is None or frame.unused is not node:
        return
    arrays = arrays_of(destination)
    if not arrays:
        picked = _picks_in_any_case(destination, receiver)
    elif any(one.picked is None for one in arrays):
        picked = False
    else:
        inside = set(ast.walk(receiver))
        picked = all(one.picked in inside for one in arrays)
    if picked:
        other = frame.trail(receiver, "fancy index", "indexing with a list, an array or a mask makes a copy")
        frame.interpreter.report(
            Sighting(
                node,
                frame.module.file,
                HazardKind.INTO_TEMPORARY,
                other,
                True,
                False,
                frame.root,
                frame.root_file,
            )
        )


def _picks_in_any_case(value: Value, node: ast.AST) -> bool:
    """Whether an index, a list or a comparison as written or one that is shown to be an array, is one that only tensors
    take: no dict, no list does.
    """
    if not isinstance(node, ast.Subscript):
        return False
    if value is PICKED:
        return True
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return isinstance(value, Unknown) and any(isinstance(item, (ast.List, ast.Compare)) for item in items)


def _as_registered(value: Value | None, frame: Frame) -> Value:
    return frame.interpreter.registered(value) if isinstance(value, Array) else value or NOTHING


def _same_everywhere(value: Value) -> bool:
    return isinstance(value, Array) and value.index_built


def foreach_copy(args: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame) -> Value:
    """`torch._foreach_copy_(destinations, sources)`: a `copy_` for each pair."""
    flag = asked_value("_foreach_copy_", args, keywords)
    lists = [value.any_item() if isinstance(value, Sequence) else NOTHING for value in args[:2]]
    if len(lists) < 2:
        return NOTHING
    site = Site(frame, node, "_foreach_copy_", node.args[1] if len(node.args) > 1 else None, flag is not None)
    for (target, source, asked), tags in combinations(lists[0], lists[1], flag):
        one = site.judge(source if isinstance(source, Array) else None, asked, tags)
        _copy_one(target or NOTHING, source or NOTHING, None, one)
    return args[0]


def _side(value: Value, node: ast.AST | None) -> Device:
    """Where one side of a copy lies; a name that ends in `_cpu` is fair evidence for the CPU."""
    if isinstance(value, Array):
        return CPU if value.kind == "ndarray" else value.device
    name = key_of(node.value if isinstance(node, ast.Subscript) else node) if node is not None else ""
    return CPU if name.endswith(("_cpu", ".cpu")) else SOMEWHERE


def _copy_one(target: Value, source: Value, receiver: ast.AST | None, site: Site) -> None:
    if isinstance(target, Instance):
        if site.named:
            record(site, NOT_A_TENSOR)
        return
    ruling = _copy_ruling(target, source, receiver, site)
    if site.named:
        if not site.asked and ruling.verdict is Verdict.UNPROVEN:
            ruling = Ruling(Verdict.NO_TRANSFER, ruling.direction)
        there = target.device if isinstance(target, Array) else SOMEWHERE
        to_accelerator = there.is_accelerator and there.is_certain
        operand = receiver if ruling.direction is Direction.D2H else site.operand
        record(replace(site, operand=operand, to_accelerator=to_accelerator), ruling)
    elif isinstance(source, Array) and isinstance(target, Array) and ruling.verdict is Verdict.BLOCKING:
        record(site, ruling)


def _copy_ruling(target: Value, source: Value, receiver: ast.AST | None, site: Site) -> Ruling:
    here, there = _side(source, site.operand), _side(target, receiver)
    if here.is_cpu and there.is_cpu:
        return H2H
    if (_is_a_device(here, site) and _is_a_device(there, site)) or here.may_be(there) or there.may_be(here):
        return D2D
    if here.is_cpu and isinstance(source, Array) and (site.asked or there.is_accelerator):
        return _into_device(target, source, there, site)
    if _is_a_device(here, site) and there.is_cpu and isinstance(target, Array):
        layout = source.layout if isinstance(source, Array) else DENSE_UNRANKED
        casts = isinstance(source, Array) and _casts(source.dtype, target.dtype)
        ruling = download(target, site.asked, layout, here, site.backend, casts)
        return _as_far_as_shown(ruling, target, source, "source")
    if there.is_cpu and not here.is_cpu and isinstance(target, Array):
        ruling = download(target, True, backend=site.backend)
        # Into pinned, dense host memory nothing waits, wherever the source lies; else the source decides.
        if ruling.verdict is Verdict.ASYNC:
            return ruling if site.asked else NO_TRANSFER
        return unproven(Direction.UNKNOWN, _why_unknown(source, site), target)
    if _is_a_device(here, site):
        text = _short_text(receiver)
        why = f"where `{text}` lies cannot be followed" if text else "where the destination lies cannot be followed"
        return unproven(Direction.UNKNOWN, why)
    return unproven(Direction.H2D if here.is_cpu else Direction.UNKNOWN, _why_unknown(source, site))


def _is_a_device(device: Device, site: Site) -> bool:
    """Whether a tensor lies on an accelerator: known, or made on the program's device and copied without waiting. A
    parameter that is the host's unless told otherwise may be either.
    """
    if device.is_accelerator:
        return True
    name = device.key.rpartition(".")[2]
    return site.asked and device.is_chosen and not pitfalls.defaults_to_host(name, site.frame.function)


def _into_device(target: Value, source: Array, there: Device, site: Site) -> Ruling:
    layout = target.layout if isinstance(target, Array) else DENSE_UNRANKED
    casts = isinstance(target, Array) and _casts(source.dtype, target.dtype)
    ruling = upload(source, there, layout, site.asked, site.backend, casts)
    return _as_far_as_shown(ruling, source, target, "destination")


def _as_far_as_shown(ruling: Ruling, host: Array, device: Value, side: str) -> Ruling:
    """The ruling, unless it hangs on the order of axes on the device, and that is not shown."""
    hangs_on_order = host.memory is not Memory.PAGEABLE and host.layout.form is Form.PERMUTED
    if hangs_on_order and not _order_is_shown(device) and ruling.verdict is Verdict.FAKE_ASYNC:
        return unproven(ruling.direction, f"the layout of the {side} cannot be followed", host)
    return ruling


def _order_is_shown(value: Value) -> bool:
    """Whether the order of a tensor's axes is known: not of what came from somewhere, nor of what was made like it."""
    if not isinstance(value, Array):
        return False
    made = value.trail
    return value.layout.axes is not None or (made is not None and not made.label.endswith("_like"))


# Transfers that nobody asked to be asynchronous


def waits(frame: Frame, node: ast.expr, name: str, direction: Direction, decisive: Array | None) -> None:
    """Record a transfer that makes the host wait (FACTS, "Transfers that wait without being asked")."""
    if name.startswith("__") and _is_a_transfer(node):
        events.wait_here(frame, node)  # what is read back here is what this very call has sent: it is told of itself
        return
    record(Site(frame, node, name, None, False), Ruling(Verdict.BLOCKING, direction, (), decisive))


def _is_a_transfer(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FLAG_POSITION


def read_on_host(receiver: Value, name: str, node: ast.Call, frame: Frame) -> Value:
    """`.item()`, `.tolist()`: a wait when the tensor is on a device."""
    events.read_value(frame, receiver, node)
    if not isinstance(receiver, Array) or receiver.device.is_unknown:
        events.wait_here(frame, node)
    for way in alternatives(receiver):
        if isinstance(way.value, Array) and way.value.device.is_accelerator:
            operand = node.func.value if isinstance(node.func, ast.Attribute) else None
            record(
                Site(frame, node, name, operand, False, way.tags),
                Ruling(Verdict.BLOCKING, Direction.D2H, (), way.value),
            )
    return mapped(receiver, numbers_of) if name == "tolist" else Unknown(why="number")


def tested(value: Value, node: ast.expr, frame: Frame) -> Value:
    """The value as a condition: the truth of a device tensor is read back with a wait."""
    if isinstance(value, Unknown) and value.why != "number" and events.state_of(frame).flights and _asks_tensor(node):
        events.wait_here(frame, node, perhaps=True)
    return read_back(value, "__bool__", node, frame)


_ASKED = frozenset(["any", "all", "sum", "max", "min", "mean", "equal", "allclose", "isnan", "isfinite", "norm"])


def _asks_tensor(node: ast.expr) -> bool:
    """Whether a condition of unknown value calls what tensors have, so that a device may be asked for it."""
    return any(
        isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in _ASKED
        for one in ast.walk(node)
    )


def read_back(value: Value, name: str, node: ast.expr, frame: Frame) -> Value:
    """A value that the host looks at: a wait where it is a device tensor."""
    events.read_value(frame, value, node)
    if isinstance(value, Unknown) and value.why != "number" and name != "__bool__":
        events.wait_here(frame, node, perhaps=True)
    for array in arrays_of(value):
        if array.device.is_accelerator and array.kind == "tensor":
            waits(frame, node, name, Direction.D2H, array)
            break
    return value


def made_on_device(name: str, data: Value, device: Device, node: ast.expr, frame: Frame) -> None:
    """`torch.tensor(data, device="cuda")`, `as_tensor`, `new_tensor`: host data sent with a wait."""
    arrays = arrays_of(data)
    operand = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if isinstance(data, Sequence):
        items = [data.item] if data.items is None else data.items
        if data.items == ():
            return
        if any(array.device.is_accelerator for item in items for array in arrays_of(item)):
            waits(frame, node, name, Direction.D2H, None)
            pitfalls.waits(frame, node, name, Pitfall.HOST_DATA, device, operand=operand, direction=Direction.D2H)
            return
    if device.is_cpu and any(array.device.is_accelerator for array in arrays):
        waits(frame, node, name, Direction.D2H, arrays[0])
        return
    if not arrays or any(array.device.is_cpu for array in arrays):
        pitfalls.waits(frame, node, name, Pitfall.HOST_DATA, device, operand=operand)
    if not device.is_accelerator or (arrays and all(array.device.is_accelerator for array in arrays)):
        return
    waits(frame, node, name, Direction.H2D, next((array for array in arrays if array.device.is_cpu), None))
