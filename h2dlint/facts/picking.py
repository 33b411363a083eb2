"""What a text may do wrong without a copy that asks for anything, looked for before anything is parsed: fill what
indexing has picked, `x[index].copy_(y)`, or hand on the address of pinned memory.
"""

from __future__ import annotations

import re

_FILLED = re.compile(r"\[([^\n\[\]]*(?:\[[^\n\[\]]*\][^\n\[\]]*)?)\]\.copy_\(")
_INNER = re.compile(r"\[[^\[\]]*\]")
_PLAIN = re.compile(r"\s*(?:[^,]*:[^,]*|-?\d*|\.\.\.|None|[a-z]|\w+\s*[-+]\s*\d+|[\"'].*)\s*")
_EVIDENT = re.compile(
    r"\s*(?:\[.*|.*[<>=!]=?.*|.*(?:tensor|range|nonzero|sorted|list|where|array)\w*\(.*"
    r"|(?:[\w.]*_)?(?:mask|where|which|keep|indices|inds|ids|idxs|rows)\w*)\s*"
)

_HANDED = re.compile(r"(?:[Aa]sync\w*\(|[Ss]tream)[^;#=]{0,160}\.data_ptr\(\)|\.data_ptr\(\)[^;#=]{0,160}[Ss]tream")


def filling_picked(text: str, *, evident: bool = False) -> list[int]:
    """The offsets of calls of `copy_` on an index that may be a list, an array or a mask: one with an item that is no
    slice, number or one-letter name. `evident`: only those that look like one.
    """
    found = _FILLED.finditer(text) if "].copy_(" in text else ()
    return [match.start() for match in found if _may_pick(match.group(1), evident)]


def _may_pick(index: str, evident: bool) -> bool:
    items = [item for item in _INNER.sub("[]", index).split(",") if not _PLAIN.fullmatch(item)]
    return any(_EVIDENT.fullmatch(item) for item in items) if evident else bool(items)


def handed_pointers(text: str) -> list[int]:
    """The offsets where the address of pinned memory may be given to a call that only queues its work."""
    if ".data_ptr()" not in text or "pin_memory" not in text:
        return []
    return [match.start() for match in _HANDED.finditer(text)]
