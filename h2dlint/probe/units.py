"""Figures as people read them."""

from __future__ import annotations

_UNITS = ("bytes", "KiB", "MiB", "GiB")


def size_text(size: float) -> str:
    """Bytes in the largest unit that leaves a short number: `2 MiB`, `9.5 KiB`, `65,537 bytes`."""
    for power in (3, 2, 1):
        value = size / 1024**power
        if value >= 1 and round(value, 2) == value:
            return f"{value:g} {_UNITS[power]}"
    return f"{size:,.0f} bytes"


def short_size(size: float) -> str:
    """The same for the head of a column and the ticks of an axis: rounded, `64K`, `2M`."""
    for power, letter in ((3, "G"), (2, "M"), (1, "K")):
        if size >= 1024**power:
            return f"{size / 1024**power:.3g}{letter}"
    return f"{size:.0f}"


def ms_text(milliseconds: float) -> str:
    """Milliseconds with three digits, down to a microsecond: `0.021`, `4.80`, `335`."""
    digits = next((digits for digits, above in enumerate((100, 10, 1)) if milliseconds >= above), 3)
    return f"{milliseconds:,.{digits}f}"


def value_text(value: float, unit: str) -> str:
    """A figure of any unit that the results know, with its unit."""
    if unit == "bytes":
        return size_text(value)
    if unit == "ms":
        return f"{ms_text(value)} ms"
    if unit == "ratio":
        return f"{value:.2f}"
    number = f"{value:,.0f}"
    return f"1 {_SINGULAR[unit]}" if number == "1" else f"{number} {unit}"


_SINGULAR = {"copies": "copy", "rows": "row", "forms": "form"}
