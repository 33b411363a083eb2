"""Where a text may store something in `self.attribute`, before it is parsed: by what stands around the name.

It may say yes where nothing is stored, which costs a parse, and must not say no where something is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

GROWS = frozenset({"append", "extend", "insert", "add", "update", "setdefault", "appendleft"})
"""The methods that store something in a container."""

_ASSIGNED = re.compile(r"[ \t]*(?:[-+*/%&|^@]|//|\*\*|<<|>>)?=(?!=)")
_GROWN = re.compile(rf"\s*\.\s*(?:{'|'.join(sorted(GROWS))})\b")
_STARTS_TARGETS = ("for ", "async for ", "with ", "async with ", "*", "(", "[")
"""How a line starts that may give a value to what stands anywhere on it."""
_ENDS_OPEN = (",", "\\", "(", "[", "{")
"""How a line ends whose statement goes on."""


def places_storing(text: str, attribute: str) -> Iterator[int]:
    """The offsets of each `self.attribute` that may be stored in, or into which something may be stored, in order."""
    needle = f"self.{attribute}"
    end = -1
    while (start := text.find(needle, end + 1)) >= 0:
        end = start + len(needle)
        following = text[end : end + 1]
        if not (following.isalnum() or following == "_") and _may_be_stored(text, start, end, following):
            yield start


def _may_be_stored(text: str, start: int, end: int, following: str) -> bool:
    if following == "(":  # a call
        return False
    if _ASSIGNED.match(text, end) or _GROWN.match(text, end):
        return True
    if following == ".":  # part of it is read, or something is stored in another object
        return False
    line_end = text.find("\n", end)
    rest = text[end : line_end if line_end >= 0 else len(text)].partition("#")[0].rstrip()
    before = text[text.rfind("\n", 0, start) + 1 : start].lstrip()
    if before.startswith(_STARTS_TARGETS) or before.endswith("as ") or rest.endswith(_ENDS_OPEN):
        return True
    if not before:  # the statement itself, or a line of a tuple of targets
        return rest[:1] in ("", ",", ")", "]", ":", "[", ";")
    if rest[:1] == "[":
        return "=" in rest or "]." in rest or rest.count("[") > rest.count("]")
    return rest[:1] in (",", ")", "]", ":") and ("=" in rest or rest[1:2] in (".", "["))
