"""Watches torch's transfer entry points by standing in front of them.

Wrappers, not a TorchFunctionMode: a mode holds for one thread only, and autograd's own threads never get one; it costs
some microseconds on *every* torch function, copies or not; and torch.compile traces into it. A wrapper on the class is
there for every thread, every subclass and every Parameter, costs nothing elsewhere, and compiled code passes it by.
What a wrapper does not see is what never calls the Python name: copies made in C++ and those inside compiled graphs.

The functions of the torch module (`torch.tensor` and its kin) are replaced as well. Parts of torch know these by
identity; compilers.py tells them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from h2dlint.trace import tensors
from h2dlint.trace.compilers import let_torch_remember, tell_dynamo, tell_torchscript
from h2dlint.trace.entry_points import ENTRIES, Entry
from h2dlint.trace.moves import Move
from h2dlint.trace.slots import hook_getitem

if TYPE_CHECKING:
    from types import FrameType


class Listener(Protocol):
    """Who wants to hear of calls that moved something."""

    def heard(self, name: str, moves: Sequence[Move], nanoseconds: int, frame: FrameType) -> None:
        """A call of `name` made these moves; the host was in it for so long. `frame` made the call."""

    def missed(self, error: Exception) -> None:
        """A call could not be looked at."""


class _Calls(threading.local):
    """The calls that this thread is in."""

    def __init__(self) -> None:
        self.depth = 0
        self.moves: list[Move] = []
        """What the calls inside the outermost one have moved."""
        self.names: list[str] = []
        """The names of those that moved something. A mode or a subclass calls a function anew: once counts."""


class _Hooks:
    """What stands in front of torch, at the moment or since there was a first recording."""

    def __init__(self) -> None:
        self.listeners: tuple[Listener, ...] = ()
        self.lock = threading.RLock()
        self.look: tensors.Looker | None = None
        self.made: list[_Hook] = []
        """One for each entry point that this torch has. They are made once: torch's compilers remember them."""
        self.undo: list[Callable[[], None]] = []


class _Hook:
    """One entry point: who has it under which name, what it was, and what stands in front of it."""

    def __init__(self, entry: Entry, owner: Any, original: Callable[..., Any], calls: _Calls) -> None:
        self.entry = entry
        self.owner = owner
        self.original = original
        self.hooked = _hooked(entry, original, calls)
        self.both = (original, self.hooked)


_HOOKS = _Hooks()


def listen(listener: Listener) -> None:
    """Has `listener` hear of every call that moves something, in every thread, until `leave`. Imports torch."""
    with _HOOKS.lock:
        if not _HOOKS.listeners:
            _install()
        _HOOKS.listeners = (*_HOOKS.listeners, listener)


def leave(listener: Listener) -> None:
    """Takes a listener away; with the last one torch is as it was."""
    with _HOOKS.lock:
        _HOOKS.listeners = tuple(one for one in _HOOKS.listeners if one is not listener)
        if not _HOOKS.listeners:
            while _HOOKS.undo:
                _HOOKS.undo.pop()()
            tell_dynamo([(one.original, one.hooked) for one in _HOOKS.made])


def _install() -> None:
    let_torch_remember()
    _HOOKS.look = tensors.Looker(tensors.this_machine())  # by its module, where a test can put another
    _HOOKS.made = _HOOKS.made or list(_hooks())
    for hook in _HOOKS.made:
        if hook.entry.plain_keys:
            undo = hook_getitem(hook.owner, hook.hooked)
        else:
            undo = _replaced(hook.owner, hook.entry.name, hook.hooked)
        if undo is not None:
            _HOOKS.undo.append(undo)
    tell_torchscript(
        [(one.entry.name, function) for one in _HOOKS.made if one.entry.owner == "torch" for function in one.both]
    )


def _hooks() -> Iterator[_Hook]:
    import torch

    owners: dict[str, Any] = {
        "Tensor": torch.Tensor,
        "torch": torch,
        "Module": torch.nn.Module,
        "Optimizer": torch.optim.Optimizer,
    }
    calls = _Calls()
    for entry in ENTRIES:
        original = getattr(owners[entry.owner], entry.name, None)
        if original is not None:
            yield _Hook(entry, owners[entry.owner], original, calls)


def _replaced(owner: Any, name: str, hooked: Callable[..., Any]) -> Callable[[], None]:
    """Puts `hooked` in the place of an attribute; answers what undoes it."""
    own = vars(owner).get(name)
    setattr(owner, name, hooked)
    return (lambda: delattr(owner, name)) if own is None else (lambda: setattr(owner, name, own))


def _hooked(entry: Entry, original: Callable[..., Any], calls: _Calls) -> Callable[..., Any]:
    import functools
    from sys import _getframe

    import torch

    hooks, name, moves_of, plain_keys = _HOOKS, entry.name, entry.moves, entry.plain_keys
    compiling = torch.compiler.is_dynamo_compiling
    plain = (int, slice, type(None), type(Ellipsis))
    undispatched = torch._C.DisableTorchFunction

    def call(*arguments: Any, **keywords: Any) -> Any:
        if compiling():
            return original(*arguments, **keywords)
        if plain_keys:
            key = arguments[1]
            if type(key) in plain or (type(key) is tuple and all(type(part) in plain for part in key)):
                return original(*arguments)
        depth, told = calls.depth, len(calls.names)
        calls.depth = depth + 1
        start = perf_counter_ns()
        try:
            result = original(*arguments, **keywords)
        except BaseException:
            calls.depth = depth
            if not depth:
                calls.moves, calls.names = [], []
            raise
        took = perf_counter_ns() - start
        calls.depth = depth
        if moves_of is not None and name not in calls.names[told:]:
            calls.depth = depth + 1  # what looking calls is not the program's
            try:
                with undispatched():
                    moves = moves_of(hooks.look, arguments, keywords, result)  # type: ignore[arg-type]
            except Exception as error:  # whatever goes wrong with looking is no business of the program's
                _tell_missed(error)
                moves = ()
            calls.depth = depth
            if moves:
                calls.moves.extend(moves)
                calls.names.append(name)
        if not depth and calls.names:
            moved, calls.moves, calls.names = calls.moves, [], []
            for listener in hooks.listeners:
                listener.heard(name, moved, took, _getframe(1))
        return result

    return functools.update_wrapper(call, original, ("__name__", "__qualname__", "__doc__"), ())


def _tell_missed(error: Exception) -> None:
    for listener in _HOOKS.listeners:
        listener.missed(error)
