"""What the rules about waits that nobody asked for have in common."""

from __future__ import annotations

from h2dlint.facts.copies import Copy
from h2dlint.finding import Severity

MOST_LINES = 6


def severity(copy: Copy) -> Severity | None:
    """A warning where the device is only named."""
    return None if copy.certain else Severity.WARNING


def on_device(copy: Copy) -> str:
    """`lies on the device`, or under which condition it does."""
    if copy.certain:
        return "lies on the device"
    return f"lies on `{copy.unproven}`, which is a device unless it is the host"


def others(copy: Copy) -> str:
    """The other waits of the function: curing one moves the wait to the next."""
    lines = [place.span.line for place in copy.related]
    if not lines:
        return ""
    shown = ", ".join(map(str, lines[:MOST_LINES])) + (", ..." if len(lines) > MOST_LINES else "")
    word = "line" if len(lines) == 1 else "lines"
    return f"; this function waits on {word} {shown} too, so cure them together"
