"""Watches torch's transfer entry points by standing in front of them.

Wrappers, not a TorchFunctionMode: a mode holds for one thread only, and autograd's own threads never get one; it costs
some microseconds on *every* torch function, copies or not; and torch.compile traces into it. A wrapper on the class is
there for every thread, every subclass and every Parameter, costs nothing elsewhere, and compiled code passes it by.
What a wrapper does not see is what never calls the Python name: copies made in C++ and those inside compiled graphs.

The functions of the torch module (`torch.tensor` and its kin) are replaced as well. Torch compares some of them by
identity, so it is told: its list of factories for default devices is made before, and TorchScript knows the wrappers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from h2dlint.trace.entry_points import ENTRIES, Entry
from h2dlint.trace.moves import Move
from h2dlint.trace.slots import hook_getitem
from h2dlint.trace.tensors import Looker, this_machine

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
    """What stands in front of torch at the moment."""

    def __init__(self) -> None:
        self.listeners: tuple[Listener, ...] = ()
        self.undo: list[Callable[[], None]] = []
        self.lock = threading.RLock()


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


def _install() -> None:
    import torch

    _let_torch_remember()
    owners: dict[str, Any] = {
        "Tensor": torch.Tensor,
        "torch": torch,
        "Module": torch.nn.Module,
        "Optimizer": torch.optim.Optimizer,
    }
    look = Looker(this_machine())
    calls = _Calls()
    for entry in ENTRIES:
        owner = owners[entry.owner]
        original = getattr(owner, entry.name, None)
        if original is not None:
            hooked = _hooked(entry, original, look, calls)
            undo = hook_getitem(owner, hooked) if entry.plain_keys else _replaced(owner, entry.name, hooked)
            if undo is not None:
                _HOOKS.undo.append(undo)
            if owner is torch:
                _tell_torchscript(hooked, entry.name)


def _replaced(owner: Any, name: str, hooked: Callable[..., Any]) -> Callable[[], None]:
    """Puts `hooked` in the place of an attribute; answers what undoes it."""
    own = vars(owner).get(name)
    setattr(owner, name, hooked)
    return (lambda: delattr(owner, name)) if own is None else (lambda: setattr(owner, name, own))


def _hooked(entry: Entry, original: Callable[..., Any], look: Looker, calls: _Calls) -> Callable[..., Any]:
    import functools
    from sys import _getframe

    import torch

    name, moves_of, plain_keys = entry.name, entry.moves, entry.plain_keys
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
                    moves = moves_of(look, arguments, keywords, result)
            except Exception as error:  # whatever goes wrong with looking is no business of the program's
                _tell_missed(error)
                moves = ()
            calls.depth = depth
            if moves:
                calls.moves.extend(moves)
                calls.names.append(name)
        if not depth and calls.names:
            moved, calls.moves, calls.names = calls.moves, [], []
            for listener in _HOOKS.listeners:
                listener.heard(name, moved, took, _getframe(1))
        return result

    return functools.update_wrapper(call, original, ("__name__", "__qualname__", "__doc__"), ())


def _tell_missed(error: Exception) -> None:
    for listener in _HOOKS.listeners:
        listener.missed(error)


def _let_torch_remember() -> None:
    """Has torch make its list of factories, which it keeps, while the originals are in their places."""
    try:
        from torch.utils._device import _device_constructors

        _device_constructors()
    except (ImportError, TypeError):
        pass  # another torch, which does it in another way


def _tell_torchscript(hooked: Callable[..., Any], name: str) -> None:
    try:
        from torch.jit._builtins import _register_builtin

        _register_builtin(hooked, f"aten::{name}")
    except (ImportError, TypeError):
        pass
