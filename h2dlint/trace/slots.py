"""Keeps a tensor from becoming a sequence when its `__getitem__` is wrapped.

A class that defines `__getitem__` in Python gets two slots for it, one for mappings and one for sequences. Torch's own
class has the first alone, and torch asks for the second: with it, `torch.tensor([zero_dimensional])` fails, since it
takes the element for a sequence of its own. So the slot is emptied again, in the class and in its subclasses. Where
that cannot be done with certainty, reading items is not watched.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable
from typing import Any

_POINTER = ctypes.sizeof(ctypes.c_void_p)
_AS_SEQUENCE = 13 * _POINTER
"""Where a type object keeps the address of its sequence slots (CPython's Include/cpython/object.h)."""
_ITEM = 3 * _POINTER
"""Where the slot for one item is among them."""


def can_be_kept() -> bool:
    """Whether types are laid out here as this module knows them: CPython with its lock, on 64 bits."""
    with_lock = not sysconfig.get_config_var("Py_GIL_DISABLED")
    return sys.implementation.name == "cpython" and with_lock and _POINTER == 8 and not _is_sequence(dict)


def hook_getitem(owner: type, hooked: Callable[..., Any]) -> Callable[[], None] | None:
    """Puts `hooked` in the place of `__getitem__` and keeps the class what it was; answers what undoes it.

    None, and nothing done, where that is not possible.
    """
    if not can_be_kept() or _is_sequence(owner) or "__init_subclass__" in vars(owner):
        return None

    def begin_subclass(cls: type[Any], /, **keywords: Any) -> None:
        super(owner, cls).__init_subclass__(**keywords)  # type: ignore[arg-type]
        _forget(cls, hooked)

    def undo() -> None:
        type.__delattr__(owner, "__init_subclass__")
        type.__delattr__(owner, "__getitem__")

    type.__setattr__(owner, "__getitem__", hooked)
    type.__setattr__(owner, "__init_subclass__", classmethod(begin_subclass))
    _forget_all(owner, hooked)
    if _is_sequence(owner):
        undo()
        return None
    return undo


def _forget_all(owner: type, hooked: Callable[..., Any]) -> None:
    _forget(owner, hooked)
    subclasses: list[type] = type.__subclasses__(owner)
    for cls in subclasses:
        _forget_all(cls, hooked)


def _forget(cls: type, hooked: Callable[..., Any]) -> None:
    """Empties the slot of a class that has its `__getitem__` from us. One that defines its own keeps its slot."""
    if getattr(cls, "__getitem__", None) is not hooked:
        return
    slots = ctypes.c_void_p.from_address(id(cls) + _AS_SEQUENCE).value
    if slots:
        ctypes.c_void_p.from_address(slots + _ITEM).value = None


def _is_sequence(cls: type) -> bool:
    """Whether the slot is filled. The interpreter can be asked about objects only, so it is read as it is."""
    slots = ctypes.c_void_p.from_address(id(cls) + _AS_SEQUENCE).value
    return bool(slots and ctypes.c_void_p.from_address(slots + _ITEM).value)
