"""Streams: which one is current, which one an expression names, and which of them are certainly two.

Work of one stream is done in order, and streams know nothing of each other unless one is told to wait (CUDA C
Programming Guide, "Streams"). A stream is known by where it was made, so the streams that a loop makes are taken for
one; `torch.cuda.current_stream()` of a function is the one that its caller works in, unless a `with` has set another.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TypeAlias

from h2dlint.facts.domain import NOTHING, Const, Event, Stream, Value, alternatives
from h2dlint.facts.frame import Frame, key_of

ANY = "?"
"""A stream that cannot be told from any other."""
DEFAULT = "default"
_MADE = "made at "
_AMBIENT = "around "
_SEES = ("current_stream", "default_stream", "Stream", "ExternalStream")
"""Calls that give a stream and do nothing else, so that they may be looked at twice."""
_LEAVES_IT = frozenset(
    [
        "no_grad", "enable_grad", "inference_mode", "set_grad_enabled", "autocast", "record_function", "nullcontext",
        "range", "annotate", "profile", "suppress", "open", "lock", "Lock", "RLock", "_lock", "catch_warnings",
        "device", "timer", "Timer", "tqdm", "closing", "TemporaryDirectory", "NamedTemporaryFile", "ThreadPoolExecutor",
    ]
)  # fmt: skip
"""Contexts that are known to leave the current stream alone."""

Evaluate: TypeAlias = Callable[[ast.expr, Frame], Value]


def ambient(frame: Frame) -> str:
    """The stream that is current where the function is called."""
    return f"{_AMBIENT}{frame.module.file}:{getattr(frame.function, 'lineno', 0)}"


def current(frame: Frame) -> str:
    """The stream that work is queued in now."""
    return frame.stream or ambient(frame)


def are_apart(one: str, other: str, frame: Frame) -> bool:
    """Whether two streams are certainly not the same: each made at a place of its own, or one made and the other the
    one that was there already.
    """
    made = [stream.startswith(_MADE) for stream in (one, other)]
    if all(made):
        return one != other
    return any(made) and (one if made[1] else other) in (DEFAULT, ambient(frame))


def is_own(stream: str, frame: Frame) -> bool:
    """Whether the function that is looked at has made the stream itself: nobody else can have it current."""
    file, line, _ = stream.removeprefix(_MADE).rsplit(":", 2) if stream.startswith(_MADE) else ("", "", "")
    if not file or file != frame.module.file:
        return False
    function = frame.function
    if function is None:
        return True
    first, last = getattr(function, "lineno", 0), getattr(function, "end_lineno", None) or 0
    return first <= int(line) <= last


def of_call(name: str, args: list[Value], node: ast.AST, frame: Frame) -> Value | None:
    """What functions of `torch.cuda` and its kin that are about streams give; None for other functions."""
    if name == "Stream":
        place = f"{getattr(node, 'lineno', 0)}:{getattr(node, 'col_offset', 0)}"
        return Stream(f"{_MADE}{frame.module.file}:{place}")
    if name == "current_stream":
        return Stream(current(frame))
    if name == "default_stream":
        return Stream(DEFAULT)
    if name == "ExternalStream":
        return Stream(ANY)
    if name in ("stream", "StreamContext"):
        given = args[0] if args else NOTHING
        return Stream(current(frame)) if given == Const(None) else Stream(key_in(given))
    if name == "graph":
        return Stream(ANY)
    if name == "set_stream":
        frame.stream = ANY
    return None


def key_in(value: Value) -> str:
    """The stream that a value is; any, where it may be several or cannot be followed."""
    ways = [way.value for way in alternatives(value) if way.value != Const(None)]
    found = {way.key if isinstance(way, Stream) else ANY for way in ways}
    return found.pop() if len(found) == 1 else ANY


def named_by(node: ast.expr | None, frame: Frame, evaluate: Evaluate) -> str | None:
    """The stream that an expression names; None where it is no stream, or does more than name one."""
    if node is None:
        return None
    if isinstance(node, ast.Call):
        if key_of(node.func).rpartition(".")[2] not in _SEES:
            return None
    elif not key_of(node):
        return None
    value = evaluate(node, frame)
    return key_in(value) if any(isinstance(way.value, Stream) for way in alternatives(value)) else None


def event_of(node: ast.expr | None, frame: Frame, evaluate: Evaluate) -> str:
    """What an expression that may name an event is known by: where the event was recorded, else its text."""
    if isinstance(node, ast.Name):
        value = evaluate(node, frame)
        if isinstance(value, Event):
            return value.key
    return "" if node is None else ast.unparse(node)


def entered(value: Value, node: ast.expr, frame: Frame) -> str:
    """The current stream inside of `with node:`, whose value this is, as it is kept in a frame."""
    if isinstance(value, Stream):
        return value.key
    called = node.func if isinstance(node, ast.Call) else node
    return frame.stream if key_of(called).rpartition(".")[2] in _LEAVES_IT else ANY
