"""Calls of a method that give a certain parameter by its keyword, as they stand in a text: nothing of it is parsed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_MAX_LENGTH = 4_000
"""Bytes of one list of arguments or parameters that are looked at."""
_OPENING, _CLOSING = frozenset(b"([{"), frozenset(b")]}")


def passes(text: bytes, method: str, keyword: str) -> bool:
    """Whether a text calls some `.method(` with a value of its own for `keyword`."""
    return next(sites_passing(text, method, keyword), None) is not None


def sites_passing(text: bytes, method: str, keyword: str) -> Iterator[int]:
    """Where a text calls some `.method(..., keyword=value, ...)`, in order, as offsets.

    A function that hands on its own parameter of that name (`keyword=keyword`) tells nothing of the value: its call is
    left out, and so is one on `super()`, which goes to another method for certain.
    """
    called, name = b"." + method.encode() + b"(", keyword.encode()
    start = text.find(called)
    while start >= 0:
        inside = start + len(called)
        near = text.find(name, inside, inside + _MAX_LENGTH) >= 0
        value = _value_of(text, inside, name) if near else None
        own = value == name and _is_own_parameter(text, start, name)
        if value is not None and not own and not text.endswith(b"super()", 0, start):
            yield start
        start = text.find(called, inside)


def takes(text: bytes, method: str, keyword: str) -> bool:
    """Whether a text defines some `method` with a parameter called `keyword`."""
    defined, start = b"def " + method.encode() + b"(", -1
    while (start := text.find(defined, start + 1)) >= 0:
        if keyword.encode() in _WORD.findall(_in_parentheses(text, start + len(defined))):
            return True
    return False


def _value_of(text: bytes, start: int, keyword: bytes) -> bytes | None:
    """The expression that the arguments from `start` on give `keyword`; None where they do not."""
    depth, found = 0, -1
    for match in _arguments(keyword).finditer(text, start, start + _MAX_LENGTH):
        first = match[0][0]
        if first in _OPENING:
            depth += 1
        elif first in _CLOSING:
            depth -= 1
            if depth < 0:
                return text[found : match.start()].strip() if found >= 0 else None
        elif depth == 0 and match[0] == b"," and found >= 0:
            return text[found : match.start()].strip()
        elif depth == 0 and match[1] is not None:
            found = match.end()
    return None


@lru_cache(maxsize=64)
def _arguments(keyword: bytes) -> re.Pattern[bytes]:
    """What parts a list of arguments; what stands in texts and comments is passed over."""
    return re.compile(_PASSED_OVER + rb"|[()\[\]{},]|\b(" + keyword + rb")[ \t]*=(?!=)")


def _is_own_parameter(text: bytes, call: int, name: bytes) -> bool:
    """Whether the function around a call has a parameter of that name, and gives it no other value before the call."""
    start = text.rfind(b"def ", 0, call)
    opening = text.find(b"(", start, call) + 1 if start >= 0 else 0
    if not opening:
        return False
    parameters = _in_parentheses(text, opening)
    if name not in _WORD.findall(parameters):
        return False
    return _rebinding(name).search(text, opening + len(parameters), call) is None


@lru_cache(maxsize=64)
def _rebinding(name: bytes) -> re.Pattern[bytes]:
    """An assignment to a variable, alone or among others."""
    return re.compile(rb"\n[ \t]+(?:[\w.]+,[ \t]*)*" + name + rb"(?:,[ \t]*[\w.]+)*[ \t]*(?::[^=\n]*)?=(?!=)")


def _in_parentheses(text: bytes, start: int) -> bytes:
    """What stands between a parenthesis that ends at `start` and the one that closes it."""
    depth = 1
    for match in _PARENTHESES.finditer(text, start, start + _MAX_LENGTH):
        depth += (match[0] == b"(") - (match[0] == b")")
        if not depth:
            return text[start : match.start()]
    return b""


_WORD = re.compile(rb"\w+")
_PASSED_OVER = rb"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|#[^\n]*"
_PARENTHESES = re.compile(_PASSED_OVER + rb"|[()]")
