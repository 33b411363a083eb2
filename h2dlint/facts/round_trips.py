"""What becomes of a tensor that a blocking move brought to the host: pinned by one more copy, or kept and sent again.

Where a tensor is kept and where it is sent from is read off the statements: `p.data = p.data.cpu()` and, further on,
`p.data = p.data.to(device, non_blocking=True)` speak of one place, whatever `p` is. That the first of them leads to the
host is what the analysis saw.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct

from h2dlint.facts.copies import Copy, Direction, Follows, Next, Place, Span, Verdict
from h2dlint.facts.describe import span_of
from h2dlint.facts.frame import key_of
from h2dlint.facts.modules import ModuleInfo, child_statements
from h2dlint.facts.outcomes import Outcome
from h2dlint.facts.torch_api import TRANSFER_METHODS
from h2dlint.facts.walking import touches

_DOWN = frozenset({"cpu", "to"})
_UP = frozenset({"to", *TRANSFER_METHODS}) - {"cpu"}
_SAME_BYTES = frozenset({"detach", "contiguous", "view", "reshape", "flatten", "clone", "requires_grad_"})
_OF_A_PARAMETER = frozenset({"data", "grad"})
_GROWS = frozenset({"append", "extend"})
_HOST_NAME = re.compile(r"(?i)(?:^|[._])(?:cpu|host)(?:[._]|$)")
_MOVES_TEXT = re.compile(r"\.(?:" + "|".join(sorted(_DOWN | _UP)) + r")\b")
_NAMED = re.compile("non_blocking")
_PIN_NAME = re.compile(r"(?i)(?<![a-z])pin(?:ned|ning)?(?![a-z])")
_STALLS = (Verdict.FAKE_ASYNC, Verdict.CONDITIONAL)

NodePlace: TypeAlias = tuple[int, int, int, int]


def place_of(node: ast.expr) -> NodePlace:
    """What a call is known by: its node is another one where an importing module had the file read before."""
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


class _Home(Struct, frozen=True):
    """A place that outlives the statement: an attribute, a parameter's data, an item of a container."""

    kind: str
    """`own` (an attribute of `self`), `parameter`, `item` or `named`."""
    scope: str
    """The class or function that the name belongs to; empty for the module and for parameters."""
    name: str


class _Move(Struct, frozen=True, eq=False):
    """A move whose result is kept."""

    call: ast.Call
    source: ast.expr
    home: _Home
    owner: str
    """The class around it."""
    function: ast.AST | None
    """The innermost function around it."""


class _Trip(Struct, frozen=True, eq=False):
    """A move whose result is kept, and a call that sends it up again."""

    down: ast.Call
    up: ast.Call
    same: bool
    """Whether what goes down comes from the very place where it is kept."""


class RoundTrips(Struct, frozen=True, eq=False):
    """The moves of a module that may bring a tensor to the host, as its statements show them."""

    trips: tuple[_Trip, ...]
    kept: frozenset[NodePlace]
    """Every move whose result is kept."""
    names: Mapping[NodePlace, str]
    """What the result of a move is assigned to, as written."""

    @property
    def downs(self) -> list[ast.Call]:
        """The moves that may lead to the host, of those that go up again."""
        return [trip.down for trip in self.trips]


def round_trips(module: ModuleInfo, named: Iterable[ast.Call]) -> RoundTrips:
    """The round trips that a module's statements show. `named`: its calls that name non_blocking."""
    asked = {place_of(call) for call in named if not _never_asks(call)}
    if not asked and not _moves_parameters(module) and ".pin_memory(" not in module.text:
        return RoundTrips((), frozenset(), {})
    moves: list[_Move] = []
    uploads: list[tuple[_Home, ast.Call]] = []
    names: dict[NodePlace, str] = {}
    decided: list[range] = []
    lines = sorted({place[0] for place in asked})
    for statement, owner, function in _statements(module, module.lines_with(_NAMED, _MOVES_TEXT)):
        if isinstance(statement, ast.If) and _names_pin(statement.test, module.lines):
            decided.append(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
        for target, value in _stores(statement):
            moved = list(_moves_in(value))
            home = _home(target, owner, function) if moved else None
            if home is not None:
                moves.extend(_Move(call, source, home, owner, function) for call, source in moved)
            names.update((place_of(call), ast.unparse(target)) for call, _ in _moves_in(value, items=False))
        for call in _calls_in(statement, asked) if touches(statement, lines) else ():
            sent = _source_of(call)
            from_home = _home(sent, owner, function) if sent is not None else None
            if from_home is not None:
                uploads.append((from_home, call))
    downs = [
        move
        for move in moves
        if _may_lead_down(move)
        and place_of(move.call) not in asked
        and not any(move.call.lineno in lines for lines in decided)  # where a pin flag decides, somebody has thought
    ]
    trips = [
        _Trip(down.call, up, _home(down.source, down.owner, down.function) == down.home)
        for down in downs
        for up in _ways_up(down, moves, uploads, asked)
        if not _is_one_or_the_other(module, down.call, up)
    ]
    return RoundTrips(tuple(trips), frozenset(place_of(down.call) for down in downs), names)


def _names_pin(test: ast.expr, lines: list[str]) -> bool:
    """Whether something in a condition is called after pinning."""
    written = any("pin" in line.lower() for line in lines[test.lineno - 1 : test.end_lineno])
    return written and _PIN_NAME.search(ast.unparse(test)) is not None


def _is_one_or_the_other(module: ModuleInfo, one: ast.Call, other: ast.Call) -> bool:
    """Whether a flag decides which of two calls is made: they stand in both branches of `if flag:`."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.If) or not node.orelse:
            continue
        test = node.test.operand if isinstance(node.test, ast.UnaryOp) else node.test
        arms = [any(_holds_line(part, call) for part in node.body) for call in (one, other)]
        rest = [any(_holds_line(part, call) for part in node.orelse) for call in (one, other)]
        if isinstance(test, (ast.Name, ast.Attribute)) and (arms, rest) in (
            ([True, False], [False, True]),
            ([False, True], [True, False]),
        ):
            return True
    return False


def _holds_line(statement: ast.stmt, call: ast.Call) -> bool:
    return statement.lineno <= call.lineno <= (statement.end_lineno or statement.lineno)


def _never_asks(call: ast.Call) -> bool:
    flag = next((word.value for word in call.keywords if word.arg == "non_blocking"), None)
    return isinstance(flag, ast.Constant) and not flag.value


def _moves_parameters(module: ModuleInfo) -> bool:
    return "parameters(" in module.text and (".data.to(" in module.text or ".data.cpu(" in module.text)


def _ways_up(
    down: _Move, moves: list[_Move], uploads: list[tuple[_Home, ast.Call]], asked: set[NodePlace]
) -> Iterator[ast.Call]:
    """The calls that send what `down` keeps: those that ask for non_blocking, and for a parameter that goes there and
    back in one function those that do not.
    """
    if down.home.kind != "parameter":
        yield from (call for home, call in uploads if home == down.home and call is not down.call)
        return
    for move in moves:
        both_here = move.function is down.function and down.function is not None
        if move.home == down.home and move.call is not down.call and (both_here or place_of(move.call) in asked):
            yield move.call


def _may_lead_down(move: _Move) -> bool:
    """Whether a move can be a download: not one that only clones, nor one of what is called a host tensor."""
    clones = any(word.arg == "copy" for word in move.call.keywords)
    return _last_name(move.call) in _DOWN and not clones and not _HOST_NAME.search(key_of(move.source))


def _last_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


# --- statements ---------------------------------------------------------------------------------------------------


def _statements(module: ModuleInfo, lines: list[int]) -> Iterator[tuple[ast.stmt, str, ast.AST | None]]:
    """Every statement on one of the lines, and those around it, with the class and the function around it."""
    waiting: list[tuple[ast.stmt, str, ast.AST | None]] = [(one, "", None) for one in reversed(module.tree.body)]
    while waiting:
        statement, owner, function = waiting.pop()
        if not touches(statement, lines):
            continue
        yield statement, owner, function
        if isinstance(statement, ast.ClassDef):
            owner = f"{owner}.{statement.name}"
        elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = statement
        waiting.extend((child, owner, function) for child in child_statements(statement))


def _stores(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a statement stores, and where."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        yield statement.targets[0], statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield statement.target, statement.value
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and statement.value.args:
        call = statement.value
        if isinstance(call.func, ast.Attribute) and call.func.attr in _GROWS:
            yield ast.Subscript(call.func.value, ast.Constant(0), ast.Store()), call.args[-1]


def _moves_in(value: ast.expr, items: bool = True) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The move that a value is, or, with `items`, that each item of it is; with what it moves."""
    value = _peeled(value)
    if isinstance(value, (ast.ListComp, ast.GeneratorExp)) and items:
        yield from _moves_in(value.elt)
    elif isinstance(value, ast.DictComp) and items:
        yield from _moves_in(value.value)
    elif isinstance(value, (ast.List, ast.Tuple)) and items:
        for item in value.elts:
            yield from _moves_in(item)
    elif isinstance(value, ast.IfExp):
        yield from _moves_in(value.body, items)
        yield from _moves_in(value.orelse, items)
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in (_DOWN | _UP):
        yield value, value.func.value


def _peeled(node: ast.expr) -> ast.expr:
    """What a chain of views and the like starts from, if that is a call too."""
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _SAME_BYTES
        and isinstance(node.func.value, ast.Call)
    ):
        node = node.func.value
    return node


def _calls_in(statement: ast.stmt, asked: set[NodePlace]) -> list[ast.Call]:
    """The asking calls of a statement, without those of the statements inside it."""
    found: list[ast.Call] = []
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call) and place_of(node) in asked:
            found.append(node)
        inner = ast.iter_child_nodes(node)
        waiting.extend(child for child in inner if not isinstance(child, (ast.stmt, ast.excepthandler)))
    return found


def _source_of(call: ast.Call) -> ast.expr | None:
    """What an upload sends."""
    if not isinstance(call.func, ast.Attribute):
        return None
    if call.func.attr == "copy_":
        return call.args[0] if call.args else None
    return call.func.value if call.func.attr in _UP else None


# --- where it is kept ---------------------------------------------------------------------------------------------


def _home(node: ast.expr, owner: str, function: ast.AST | None) -> _Home | None:
    """The place that an expression reads or writes, items and views of it included; None for a plain local name."""
    item = False
    while True:
        if isinstance(node, ast.Subscript):
            item, node = True, node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME_BYTES:
            node = node.func.value
        else:
            break
    name = key_of(node)
    if isinstance(node, ast.Attribute) and node.attr in _OF_A_PARAMETER and isinstance(node.value, ast.Name):
        return _Home("parameter", "", name)
    if isinstance(node, ast.Attribute) and name.startswith("self."):
        return _Home("own", owner, name)
    if isinstance(node, ast.Attribute) and name:
        return _Home("named", "", name)
    if item and isinstance(node, ast.Name):
        # A local container belongs to its function: the same name elsewhere is another one.
        here = function if function is not None and _binds(function, name) else None
        return _Home("item", f"{owner}.{getattr(here, 'name', '')}" if here is not None else "", name)
    return None


def _binds(function: ast.AST, name: str) -> bool:
    spec: ast.arguments = function.args  # type: ignore[attr-defined]
    if any(one.arg == name for one in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)):
        return True
    names = (node for node in ast.walk(function) if isinstance(node, ast.Name))
    return any(node.id == name and isinstance(node.ctx, ast.Store) for node in names)


# --- with what the analysis saw -----------------------------------------------------------------------------------


def second_copies(
    trips: RoundTrips, pins: Iterable[Outcome], fetched: Container[NodePlace], path: str, lines: list[str]
) -> dict[NodePlace, Follows]:
    """The moves among `fetched` whose result is pinned by one more copy, each with the call that does it.

    Either in one expression, or by the name that the first one was given: an item of a container may be wanted
    pageable as well.
    """
    found: dict[NodePlace, Follows] = {}
    for one in pins:
        place, pin = place_of(one.node), one.pinned_by
        if place not in fetched or not isinstance(pin, ast.Call) or not isinstance(pin.func, ast.Attribute):
            continue
        if place_of(pin)[:2] == place[:2] or ast.unparse(_peeled(pin.func.value)) == trips.names.get(place):
            at = Place(path, span_of(pin, lines), "pin_memory", "`.pin_memory()` copies it again")
            found.setdefault(place, Follows(Next.PINNED, at))
    return found


def sent_again(
    trips: RoundTrips, fetched: Mapping[NodePlace, bool], copies: Iterable[Copy], path: str, lines: list[str]
) -> dict[NodePlace, Follows]:
    """The moves that keep in pageable memory what is sent up again, each with the first call that sends it.

    `fetched`: the moves that lead to the host without being asked to be asynchronous, and whether what they move is
    shown to lie on a device. Where it is not, only a move of the very place that is sent up again counts: who moves a
    tensor both ways has it on the device in between.
    """
    uploads = {copy.span: copy for copy in copies if copy.asked}
    found: dict[NodePlace, Follows] = {}
    for trip in trips.trips:
        down, span = place_of(trip.down), span_of(trip.up, lines)
        copy = uploads.get(span)
        if place_of(trip.up) in fetched or not (fetched.get(down, False) or (trip.same and down in fetched)):
            continue
        if copy is None or copy.verdict in (*_STALLS, Verdict.UNPROVEN):
            what = Next.SENT if copy is None else Next.SENT_ASKING
            found.setdefault(down, Follows(what, _sent(path, span, _last_name(trip.up))))
    for copy in uploads.values():
        if copy.verdict in _STALLS and copy.direction is Direction.H2D:
            chain = {link.span for link in copy.trace if link.path == path}
            for down in trips.kept:
                if fetched.get(down, False) and _span_of(down, lines) in chain:
                    found.setdefault(down, Follows(Next.SENT_ASKING, _sent(path, copy.span, copy.call)))
    return found


def _sent(path: str, span: Span, name: str) -> Place:
    return Place(path, span, name, f"`.{name}` sends it to the device again")


def _span_of(place: NodePlace, lines: list[str]) -> Span:
    line, column, end_line, end_column = place
    return span_of(ast.Pass(lineno=line, col_offset=column, end_lineno=end_line, end_col_offset=end_column), lines)
