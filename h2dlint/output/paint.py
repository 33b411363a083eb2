"""Styled lines to a string: with the terminal's own colors, or plain."""

from __future__ import annotations

from collections.abc import Iterable

from rich.color import ColorSystem
from rich.console import Console
from rich.text import Text


def painted(lines: Iterable[Text], color: bool) -> str:
    """The lines, each ended by a newline; escape sequences only with `color`. Nothing is wrapped or cut."""
    if not color:
        return "".join(f"{line.plain}\n" for line in lines)
    console = Console(color_system="standard", force_terminal=True, legacy_windows=False)
    return "".join(f"{_escaped(line, console)}\n" for line in lines)


def _escaped(line: Text, console: Console) -> str:
    base = console.get_style(line.style)
    styled = ((segment.text, base + segment.style if segment.style else base) for segment in line.render(console))
    return "".join(style.render(text, color_system=ColorSystem.STANDARD) for text, style in styled)
