"""What is in flight at each point of a function: copies that were issued and not waited for, and who touches their
memory meanwhile.

The state is one more entry of the environment, so that branches, early exits and loops are followed as they are for
variables: it is copied where ways part and joined where they meet. A copy is in flight after a join if it is on one of
the ways and no other way has waited for it. A call of the project's own functions has an `Effect`, which is carried out
where the call stands.

Every function here is a transition of that state; hazards are reported where a transition meets one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from h2dlint.facts import keeping, streams
from h2dlint.facts.copies import Direction, HazardKind
from h2dlint.facts.domain import (
    POINTER,
    POINTER_INTO,
    Array,
    Choice,
    Instance,
    Mapping,
    Memory,
    Sequence,
    Tag,
    Trail,
    Unknown,
    Value,
    alternatives,
    arrays_of,
)
from h2dlint.facts.frame import IN_FLIGHT, Environment, Frame
from h2dlint.facts.outcomes import Sighting
from h2dlint.facts.parts import (
    HIDES,
    SEVERAL,
    WHOLE,
    is_one_of_several,
    is_varying,
    names_in,
    overlap,
    same_key,
    starts_further_in,
)

NEVER: frozenset[str] = frozenset()
_ANYWHERE = frozenset({streams.ANY})
UNNAMED = ""
"""An event that has no name where it is recorded: whoever holds it may wait for it."""
MAX_TOUCHES = 24
"""Writes and reads that a function is known by; more are not kept."""


class Flight(Struct, frozen=True, eq=False):
    """A copy between pinned memory and a device that was issued and, as far as is shown, is not done."""

    number: int
    """When it was issued: later ones have higher numbers."""
    storage: int
    part: str
    node: ast.expr
    """The call."""
    file: str
    direction: Direction
    certain: bool
    """Whether the copy is asynchronous on every way, not just on one that a switch or a caller chooses."""
    born: bool = False
    """The copy itself has made the memory: whatever is made there is in flight."""
    recorded: frozenset[str] = NEVER
    """Events that were recorded after it, as written."""
    lent: bool = False
    """A generator has handed control to whoever consumes it: they may have waited."""
    carried: bool = False
    """It was issued in a call from here."""
    exposed: Trail | None = None
    """Where an ndarray was made of the memory: who gets that reads it without a wait of its own."""
    streams: frozenset[str] = NEVER
    """The streams that are not done before it is: its own, and those that were told to wait for it (streams.py)."""
    missed: Trail | None = None
    """A wait that was for another stream."""


class Touch(Struct, frozen=True, eq=False):
    """The host writes or reads pinned memory."""

    storage: int
    part: str
    trail: Trail
    certain: bool


class InFlight(Value, frozen=True, eq=False):
    """The state at one point."""

    flights: tuple[Flight, ...] = ()
    ended: frozenset[int] = frozenset()
    """Numbers of flights that were waited for."""
    waited: bool = False
    """Whether something on the way here may have waited for the device."""
    writes: tuple[Touch, ...] = ()
    """Host writes before the first wait: they meet what was in flight when the function was called."""
    reads: tuple[Touch, ...] = ()
    events: frozenset[str] = NEVER
    """Events recorded on the way here."""
    ordered: bool = False
    """Whether a stream was told to wait for something on the way here."""

    def meet(self, other: Value) -> Value | None:
        """The state where two ways meet."""
        return _met(self, other) if isinstance(other, InFlight) else None


class Effect(Struct, frozen=True, eq=False):
    """What a call does to the state of its caller."""

    end: InFlight
    made: frozenset[int]
    """Pinned memory that the call allocates: each time anew."""
    ambient: str
    """What the call knows its caller's current stream by."""
    kept_tags: tuple[Tag, ...] = ()
    """Ways of the call that differ in nothing but whether a buffer was there already."""


NOTHING_IN_FLIGHT = InFlight()


def state_of(frame: Frame) -> InFlight:
    """What is in flight now."""
    found = frame.env.get(IN_FLIGHT)
    return found if type(found) is InFlight else NOTHING_IN_FLIGHT


def set_state(frame: Frame, before: InFlight, ends: list[InFlight]) -> None:
    """Several ways through one expression have led from `before` to `ends`."""
    changed = [end for end in ends if end is not before]
    if changed:
        end = changed[0]
        for other in ends:
            end = _met(end, other)
        frame.env[IN_FLIGHT] = end


def back_to(frame: Frame, env: Environment) -> None:
    """Go on with other variables, as after a comprehension: what is in flight stays."""
    state = frame.env.get(IN_FLIGHT)
    if state is not None and env.get(IN_FLIGHT) is not state:
        env[IN_FLIGHT] = state
    frame.env = env


def _met(left: InFlight, right: InFlight) -> InFlight:
    ended = left.ended | right.ended
    flights = {flight.number: flight for flight in left.flights if flight.number not in ended}
    for flight in right.flights:
        if flight.number not in ended:
            other = flights.get(flight.number, flight)
            flights[flight.number] = flight if other is flight else _either(other, flight)
    return InFlight(
        tuple(flights[number] for number in sorted(flights)),
        ended,
        left.waited or right.waited,
        _merged(left.writes, right.writes),
        _merged(left.reads, right.reads),
        left.events | right.events,
        left.ordered or right.ordered,
    )


def _either(left: Flight, right: Flight) -> Flight:
    """One flight as two ways have left it: an event that only one of them recorded is no proof of its end."""
    return replace(
        left,
        recorded=(left.recorded & right.recorded) | ((left.recorded | right.recorded) & {UNNAMED}),
        certain=left.certain and right.certain and left.recorded == right.recorded,
        lent=left.lent or right.lent,
        exposed=left.exposed or right.exposed,
        streams=left.streams | right.streams,
        missed=left.missed or right.missed,
    )


def _merged(left: tuple[Touch, ...], right: tuple[Touch, ...]) -> tuple[Touch, ...]:
    if left is right or not right:
        return left
    known = set(map(id, left))
    return (*left, *(touch for touch in right if id(touch) not in known))[:MAX_TOUCHES]


def keep(ends: list[tuple[Environment, Tag]], made_before: frozenset[int], frame: Frame) -> None:
    """Where these ways meet: of the memory that one of them has made since, what stands in for what was there."""
    made = frame.allocated - made_before
    renames = keeping.kept_on_some([env for env, _ in ends], made, frame) if made and len(ends) > 1 else None
    if renames:
        frame.allocated -= renames.keys()
        frame.kept_tags += [tag for _, tag in ends]
        ends[:] = [(_renamed(env, renames), tag) for env, tag in ends]


def _renamed(env: Environment, renames: keeping.Renames) -> Environment:
    """What is under way from new memory is under way from what the next call finds."""
    found = keeping.renamed_all(env, renames)
    state = env.get(IN_FLIGHT)
    if isinstance(state, InFlight):
        found[IN_FLIGHT] = _with_names(state, renames)
    return found


def _with_names(state: InFlight, renames: keeping.Renames) -> InFlight:
    flights = tuple(
        replace(flight, storage=renames[flight.storage]) if flight.storage in renames else flight
        for flight in state.flights
    )
    return replace(state, flights=flights)


def has_more(before: Value | None, after: Value | None) -> bool:
    """Whether a loop's turn has left something in flight that its next turn may touch."""
    if not isinstance(after, InFlight) or not after.flights:
        return False
    return not isinstance(before, InFlight) or after.flights != before.flights


# Copies


def issue(frame: Frame, array: Array, node: ast.expr, direction: Direction, certain: bool, born: bool) -> None:
    """A copy from or into `array` is queued; `born`: it has made that memory, of whatever kind the backend makes it."""
    if not (_is_followed(array) or (born and array.storage)):
        return
    if is_one_of_several(array.part) and direction is not Direction.H2D:
        return
    state = state_of(frame)
    number = frame.interpreter.fresh_storage()
    queued = frozenset({streams.current(frame)})
    flight = Flight(
        number, array.storage, array.part, node, frame.module.file, direction, certain, born, streams=queued
    )
    frame.env[IN_FLIGHT] = replace(state, flights=(*state.flights, flight))


def _is_followed(array: Array) -> bool:
    return array.storage != 0 and array.memory is Memory.PINNED and array.device.is_cpu and array.part != SEVERAL


def hand_pointers(frame: Frame, values: Iterable[Value], node: ast.Call, is_queued: Callable[[ast.Call], bool]) -> None:
    """A call that only queues its work is given addresses: of pinned memory that was allocated here, if there is any,
    torch knows nothing of it.
    """
    state = state_of(frame)
    for storage, certain in dict(_addresses(values)).items():
        if storage in frame.allocated and is_queued(node):
            number = frame.interpreter.fresh_storage()
            flight = Flight(
                number, storage, HIDES, node, frame.module.file, Direction.UNKNOWN, certain, streams=_ANYWHERE
            )
            state = replace(state, flights=(*state.flights, flight))
            frame.env[IN_FLIGHT] = state


def _addresses(values: Iterable[Value], certain: bool = True) -> Iterator[tuple[int, bool]]:
    """The storages that addresses among the values, or in lists of them, point to; whether on every way."""
    for value in values:
        ways = alternatives(value)
        for way in ways:
            held = way.value
            if isinstance(held, Unknown) and held.key.startswith((POINTER, POINTER_INTO)):
                yield int(held.key.partition(":")[2]), certain and len(ways) == 1
            elif isinstance(held, Sequence):
                yield from _addresses((held.item,) if held.items is None else held.items, certain and len(ways) == 1)


# The host


def write(frame: Frame, value: Value, node: ast.AST, part: str | None = None, certain: bool = True) -> None:
    """The host writes into `value`, or into a part of it."""
    for array in arrays_of(value):
        if _is_followed(array):
            _touch(frame, array, array.part if part is None else part, node, certain, writes=True)


def read(frame: Frame, arrays: Iterable[Array], node: ast.AST, certain: bool = True) -> None:
    """The host looks at the elements of `arrays`."""
    for array in arrays:
        if _is_followed(array):
            _touch(frame, array, array.part, node, certain, writes=False)
        elif any(_is_born_in(flight, array) for flight in state_of(frame).flights):
            _touch(frame, array.but(part=WHOLE), WHOLE, node, False, writes=False)


def read_value(frame: Frame, value: Value, node: ast.AST) -> None:
    """The host looks at the elements of whatever tensors `value` may be, or hold."""
    if type(value) is Choice:
        for way in value.alternatives:
            read_value(frame, way.value, node)
    elif type(value) is Array:
        read(frame, (value,), node)
    elif type(value) is Sequence:
        for item in value.items or ():
            read_value(frame, item, node)
    elif type(value) is Mapping:
        for _, item in value.items:
            read_value(frame, item, node)


def _is_born_in(flight: Flight, array: Array) -> bool:
    return flight.born and flight.storage == array.storage and array.device.is_cpu


def _touch(frame: Frame, array: Array, part: str, node: ast.AST, certain: bool, *, writes: bool) -> None:
    state = state_of(frame)
    word = "written" if writes else "read"
    touch = Touch(array.storage, part, frame.trail(node, word, f"the host {_VERB[writes]} it"), certain)
    _meets(frame, state.flights, touch, writes, own=True)
    kept = state.writes if writes else state.reads
    if state.waited or len(kept) >= MAX_TOUCHES or any(_same(touch, other) for other in kept):
        return
    kept = (*kept, touch)
    frame.env[IN_FLIGHT] = replace(state, writes=kept) if writes else replace(state, reads=kept)


_VERB = {True: "writes", False: "reads"}


def _same(one: Touch, other: Touch) -> bool:
    return one.storage == other.storage and one.part == other.part and one.trail.node is other.trail.node


def _meets(frame: Frame, flights: tuple[Flight, ...], touch: Touch, writes: bool, *, own: bool) -> None:
    """Report what a touch does to copies in flight: a write races with uploads, a read with downloads."""
    wanted = Direction.H2D if writes else Direction.D2H
    for flight in flights:
        if flight.storage != touch.storage or flight.direction is not wanted or flight.node is touch.trail.node:
            continue
        alike = is_varying(touch.part) and is_varying(flight.part)
        if overlap(flight.part, touch.part) and (not alike or _names_hold(frame, flight, touch, own)):
            kind = HazardKind.REWRITTEN if writes else HazardKind.READ_EARLY
            _report(frame, flight, kind, touch.trail, flight.certain and touch.certain and not flight.lent)


def _names_hold(frame: Frame, flight: Flight, touch: Touch, own: bool) -> bool:
    """Whether the names in an index mean the same as when the copy was issued: no loop and no statement between them
    has bound one again.
    """
    if not own or frame.function is None:
        return False
    names = names_in(touch.part)
    first: int = flight.node.lineno
    last: int = getattr(touch.trail.node, "lineno", first)
    loops = [loop for started, loop in frame.loops if started > flight.number]
    for node in ast.walk(loops[0] if loops else frame.function):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in names and (loops or first <= node.lineno <= last):
                return False
    return True


def _report(
    frame: Frame, flight: Flight, kind: HazardKind, other: Trail, certain: bool, *, across_calls: bool = False
) -> None:
    frame.interpreter.report(
        Sighting(
            flight.node, flight.file, kind, other, certain, across_calls, frame.root, frame.root_file, flight.missed
        )
    )


def expose(frame: Frame, array: Array, node: ast.AST) -> None:
    """An ndarray is made of memory that a copy may still be filling."""
    state = state_of(frame)
    if not any(_fills(flight, array) for flight in state.flights):
        return
    trail = frame.trail(node, "numpy", "this ndarray is handed on without a wait")
    flights = tuple(
        replace(flight, exposed=trail) if _fills(flight, array) and flight.exposed is None else flight
        for flight in state.flights
    )
    frame.env[IN_FLIGHT] = replace(state, flights=flights)


def _fills(flight: Flight, array: Array) -> bool:
    return flight.storage == array.storage != 0 and flight.direction is Direction.D2H


# Waits


def wait_here(frame: Frame, node: ast.AST, *, perhaps: bool = False) -> None:
    """The host waits for the current stream, as for a copy that is not asynchronous."""
    wait(frame, stream=streams.current(frame), node=node, perhaps=perhaps)


def wait(
    frame: Frame,
    event: str = "",
    stream: str = streams.ANY,
    *,
    node: ast.AST | None = None,
    perhaps: bool = False,
) -> None:
    """The host waits, at `node`: where `event` was recorded on the way here, for what was issued before, else for one
    stream, or, where that is any, for everything.

    `perhaps`: a move that may have nothing to do; who reads a result must not count on it.
    """
    state = state_of(frame)
    if event and event in state.events:
        reached = tuple(flight for flight in state.flights if event in flight.recorded)
        done = frozenset(flight.number for flight in reached)
    else:
        kept = Direction.D2H if perhaps else None
        reached = _reached(frame, state.flights, stream)
        done = frozenset(flight.number for flight in reached if flight.direction is not kept)
        if len(reached) < len(state.flights) and node is not None:
            state = _passed_by(frame, state, reached, stream, node)
    for flight in state.flights:
        if flight.number in done and flight.exposed is not None:
            frame.interpreter.excuse(flight.exposed.node)
        if flight.number in done and flight.carried:
            frame.interpreter.excuse(flight.node)
    if len(done) < len(reached):
        perhaps_done = {flight.number for flight in reached} - done
        flights = tuple(
            replace(flight, certain=False) if flight.number in perhaps_done else flight for flight in state.flights
        )
        frame.env[IN_FLIGHT] = state = replace(state, flights=flights)
    if done or not state.waited:
        flights = tuple(flight for flight in state.flights if flight.number not in done)
        frame.env[IN_FLIGHT] = replace(state, flights=flights, ended=state.ended | done, waited=True)


def _reached(frame: Frame, flights: tuple[Flight, ...], stream: str) -> tuple[Flight, ...]:
    """The flights that may be queued in a stream, or before something that is."""
    return tuple(
        flight for flight in flights if not all(streams.are_apart(one, stream, frame) for one in flight.streams)
    )


def _passed_by(frame: Frame, state: InFlight, reached: tuple[Flight, ...], stream: str, node: ast.AST) -> InFlight:
    """The state where a wait has passed some flights by. Only where the function has made a stream itself is that
    certain: else a caller may have made it the current one.
    """
    known = set(map(id, reached))
    trail = frame.trail(node, "stream", "this waits for another stream")
    flights = tuple(
        flight
        if id(flight) in known
        else replace(
            flight,
            certain=flight.certain and any(streams.is_own(one, frame) for one in (*flight.streams, stream)),
            missed=flight.missed or trail,
        )
        for flight in state.flights
    )
    frame.env[IN_FLIGHT] = state = replace(state, flights=flights)
    return state


def order(frame: Frame, later: str, earlier: str = streams.ANY, event: str = "") -> None:
    """A stream is told to wait for another, or for an event: not the host, but what the host waits for later."""
    state = state_of(frame)
    if event and event in state.events:
        reached = tuple(flight for flight in state.flights if event in flight.recorded)
    else:
        reached = _reached(frame, state.flights, earlier)
    known = set(map(id, reached))
    flights = tuple(
        replace(flight, streams=flight.streams | {later}) if id(flight) in known else flight for flight in state.flights
    )
    frame.env[IN_FLIGHT] = replace(state, flights=flights, ordered=True)


def record_event(frame: Frame, event: str, stream: str) -> None:
    """An event marks the end of what is queued so far in a stream."""
    state = state_of(frame)
    reached = set(map(id, _reached(frame, state.flights, stream)))
    flights = tuple(
        replace(flight, recorded=flight.recorded | {event}) if id(flight) in reached else flight
        for flight in state.flights
    )
    events = state.events | {event} if event != UNNAMED else state.events
    frame.env[IN_FLIGHT] = replace(state, flights=flights, events=events)


def lend(frame: Frame) -> None:
    """A generator hands control to its consumer."""
    state = state_of(frame)
    if state.flights:
        flights = tuple(replace(flight, lent=True) for flight in state.flights)
        frame.env[IN_FLIGHT] = replace(state, flights=flights)


# The end of a function, and calls


def leave(frame: Frame, value: Value | None) -> None:
    """Control leaves the function here, with `value` where it is returned."""
    state = state_of(frame)
    frame.exits.append(state)
    frame.kept_at_exits.append(keeping.lasting(frame.env, frame))
    if not frame.context:
        for flight in state.flights:
            if not flight.recorded and _outlives(flight, frame, value):
                frame.interpreter.hand_on(flight.node)
    for flight in state.flights:
        if flight.exposed is not None and flight.recorded:
            frame.interpreter.excuse(flight.exposed.node)
        elif _hands_on(flight, value) and flight.exposed is not None and not _says_async(frame.function):
            _report(frame, flight, HazardKind.READ_EARLY, flight.exposed, False)
        if flight.part[:1] == HIDES and flight.storage in frame.allocated and _is_dropped(frame, flight, value):
            made = frame.trail(flight.node, "dropped", "the memory goes when the function ends")
            certain = flight.certain and (flight.part == HIDES or starts_further_in(flight.part) is True)
            _report(frame, flight, HazardKind.ALIAS_DROPPED, made, certain)


def _outlives(flight: Flight, frame: Frame, value: Value | None) -> bool:
    """Whether what a copy reads or brings is known outside of the function: a caller may touch it."""
    if flight.born:
        stored = [held for stores in frame.stores.values() for held, _ in stores]
        return any(_holds(held, flight.storage) for held in ([value] if value is not None else []) + stored)
    return flight.storage not in frame.allocated


def _hands_on(flight: Flight, value: Value | None) -> bool:
    """Whether an ndarray of what is under way is returned, by a function that asks for it whatever it is passed."""
    shown = flight.certain or flight.lent
    return shown and flight.exposed is not None and value is not None and _holds(value, flight.storage)


def _says_async(function: ast.AST | None) -> bool:
    """Whether a function's name tells its callers that they have to wait."""
    return "async" in getattr(function, "name", "").lower()


def _is_dropped(frame: Frame, flight: Flight, value: Value | None) -> bool:
    """Whether nothing keeps the memory when the function ends: it is not returned, stored, or passed on."""
    if value is not None and _holds(value, flight.storage):
        return False
    stored = [held for stores in frame.stores.values() for held, _ in stores]
    stored += [held for outside in frame.outside_stores.values() for _, held, _ in outside]
    if any(_holds(held, flight.storage) for held in stored) or frame.function is None:
        return False
    # One of those that a loop makes is known by the variable that holds the last of them.
    storages = {flight.storage} if flight.certain else frame.allocated
    names = {name for name, held in frame.env.items() if any(_holds(held, storage) for storage in storages)}
    names -= _parameters(frame.function)
    return not any(_keeps(node, names) for node in ast.walk(frame.function))


def _parameters(function: ast.AST) -> set[str]:
    return {one.arg for one in ast.walk(getattr(function, "args", function)) if isinstance(one, ast.arg)}


_BORROWS = frozenset(["from_numpy", "asarray", "as_tensor", "from_dlpack", "ascontiguousarray", "copy_", "empty_like"])
"""Calls that do not keep what they are given beyond what their result is known to share."""


_GROW = frozenset(["append", "appendleft", "add", "extend", "insert"])


def _keeps(node: ast.AST, names: set[str]) -> bool:
    """Whether a node may keep one of the names alive beyond the function."""
    if isinstance(node, ast.Call):
        last = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        into = node.func.value if isinstance(node.func, ast.Attribute) else None
        if last in _GROW and isinstance(into, ast.Name) and into.id in names:
            return False  # a list of this function's own
        return last not in _BORROWS and any(isinstance(one, ast.Name) and one.id in names for one in given)
    if isinstance(node, (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.Yield)):
        inside = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.Name)]
        return any(one.id in names and isinstance(one.ctx, ast.Load) for one in inside)
    if isinstance(node, (ast.Lambda, ast.FunctionDef)):
        return isinstance(node, ast.Lambda) and any(
            isinstance(one, ast.Name) and one.id in names for one in ast.walk(node.body)
        )
    return False


def _holds(value: Value, storage: int, depth: int = 0) -> bool:
    if depth > 4:
        return True
    for way in alternatives(value):
        held = way.value
        inner: Iterable[Value] = ()
        if isinstance(held, Array) and held.storage == storage:
            return True
        if isinstance(held, Sequence):
            inner = (held.item,) if held.items is None else held.items
        elif isinstance(held, Mapping):
            inner = (*(one for _, one in held.items), *((held.item,) if held.item is not None else ()))
        elif isinstance(held, Instance) and held.fields:
            inner = [one for _, one in held.fields]
        if any(_holds(one, storage, depth + 1) for one in inner):
            return True
    return False


def effect_of(frame: Frame) -> Effect | None:
    """What a call of the function that `frame` has run does to its caller; None for a generator, which runs later."""
    if frame.yields:
        return None
    states = [state for state in frame.exits if isinstance(state, InFlight)]
    end = states[0] if states else NOTHING_IN_FLIGHT
    for state in states[1:]:
        end = _met(end, state)
    if end is NOTHING_IN_FLIGHT and not frame.allocated and not frame.kept:
        return None
    return Effect(end, frozenset(frame.allocated), streams.ambient(frame), tuple(frame.kept_tags))


def settle_kept(frame: Frame) -> None:
    """Where one way out of a function has made a buffer and kept it, and another has found one, they are the same to
    its caller.
    """
    renames = keeping.kept_on_some(frame.kept_at_exits, frame.allocated, frame) if len(frame.kept_at_exits) > 1 else {}
    if not renames:
        return
    frame.allocated -= renames.keys()
    frame.kept_tags += [tag for _, tags in frame.returns for tag in tags]
    frame.env = _renamed(frame.env, renames)
    frame.returns = [(keeping.renamed(value, renames), tags) for value, tags in frame.returns]
    frame.exits = [_with_names(end, renames) if isinstance(end, InFlight) else end for end in frame.exits]


def follow(frame: Frame, effect: Effect | None, known: bool, again: bool) -> None:
    """A call with this effect has been made.

    `known`: whether its receiver is this function's own, or an object that was seen to be made: of another one it
    cannot be told which memory it touches. `again`: the effect was seen at an earlier call, and what it allocates is
    new.
    """
    if effect is None:
        return
    if again and effect.made:
        _forget(frame, effect.made)
    frame.allocated.update(effect.made)
    frame.kept_tags += [tag for tag in effect.kept_tags if tag not in frame.kept_tags]
    end = effect.end
    if known:
        for writes, touches in ((True, end.writes), (False, end.reads)):
            for touch in touches:
                _meets(frame, state_of(frame).flights, touch, writes, own=False)
    before = state_of(frame)
    if end.waited:
        wait(frame)
    elif end.ordered:
        order(frame, streams.ANY)
    state = state_of(frame)
    if not known:
        return
    here = streams.current(frame)
    issued = tuple(
        replace(
            flight,
            number=frame.interpreter.fresh_storage(),
            carried=True,
            streams=frozenset(here if one == effect.ambient else one for one in flight.streams),
        )
        for flight in end.flights
    )
    writes_kept = before.writes if before.waited else _merged(before.writes, end.writes)
    reads_kept = before.reads if before.waited else _merged(before.reads, end.reads)
    if issued or writes_kept is not before.writes or reads_kept is not before.reads:
        frame.env[IN_FLIGHT] = replace(state, flights=(*state.flights, *issued), writes=writes_kept, reads=reads_kept)


def _forget(frame: Frame, storages: frozenset[int]) -> None:
    state = state_of(frame)
    if any(flight.storage in storages for flight in state.flights):
        flights = tuple(flight for flight in state.flights if flight.storage not in storages)
        frame.env[IN_FLIGHT] = replace(state, flights=flights)


def across_calls(frame: Frame) -> None:
    """A function that was run on its own: called again, it writes what its last call may have left in flight."""
    effect = effect_of(frame)
    if effect is None or effect.end.waited:
        return
    for flight in effect.end.flights:
        if flight.direction is not Direction.H2D or flight.storage in effect.made or flight.recorded:
            continue
        if flight.lent or not flight.certain or not _stays_in_place(flight.storage, frame):
            continue
        touch = next((one for one in effect.end.writes if _rewrites(one, flight, frame)), None)
        if touch is not None:
            _report(frame, flight, HazardKind.REWRITTEN, touch.trail, False, across_calls=True)


def _stays_in_place(storage: int, frame: Frame) -> bool:
    """Whether a buffer is still where the next call looks for it: not swapped with another."""
    key = frame.kept.get(storage)
    for held in frame.kept_at_exits:
        if key is not None and key in held and storage not in set(keeping.storages(held[key])):
            return False
        stored = [set(keeping.storages(held[name])) for name in map(frame.own, frame.stores) if name in held]
        if any(storage in one for one in stored) and any(one and storage not in one for one in stored):
            return False
    return True


def _rewrites(touch: Touch, flight: Flight, frame: Frame) -> bool:
    if touch.storage != flight.storage:
        return False
    if is_one_of_several(flight.part):
        return same_key(touch.part, flight.part) and not _takes_turns(flight.part, frame)
    alike = is_varying(touch.part) and is_varying(flight.part)
    return not alike and overlap(flight.part, touch.part)


def _takes_turns(part: str, frame: Frame) -> bool:
    """Whether a key may be another one in the next call by itself: counted, or kept in the object."""
    names = names_in(part)
    if frame.self_name in names or frame.function is None:
        return True
    for node in ast.walk(frame.function):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.NamedExpr)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(one, ast.Name) and one.id in names for one in targets) and _counts(node.value, frame):
                return True
    return False


def _counts(node: ast.expr, frame: Frame) -> bool:
    return any(
        (isinstance(one, ast.BinOp) and isinstance(one.op, (ast.Mod, ast.BitXor, ast.BitAnd, ast.Sub)))
        or (isinstance(one, ast.Name) and one.id in (frame.self_name, "next"))
        for one in ast.walk(node)
    )


# Names that say that a call waits


_WAITS = re.compile(r"sync|wait|barrier|drain|flush|finish|complete|block_until|^query$|^result$")


def name_says_wait(name: str) -> bool:
    """Whether a call of something that cannot be followed may wait, by its name."""
    return _WAITS.search(name.lower().replace("async", "")) is not None
