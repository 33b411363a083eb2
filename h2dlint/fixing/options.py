"""What the settings say about rewrites."""

from __future__ import annotations

from msgspec import Struct

MAX_ROWS = 8
"""Up to so many rows one copy a row was faster than gathering them first."""
MAX_PIN_BYTES = 8 << 20
"""A larger page-locked block for each call costs more than the stall."""


class FixOptions(Struct, frozen=True):
    """The settings that fixers obey."""

    guard: str | None = None
    """An expression that is true where memory can be pinned; a dotted name in it is imported: `pkg.mod.PIN_MEMORY`."""
    helper: str | None = None
    """The dotted name of the project's function that pins and transfers."""
    max_rows: int = MAX_ROWS
    max_pin_bytes: int = MAX_PIN_BYTES
    backend: str = "cuda"
    """The accelerator that the code runs on where it names none: its own test stands behind a pin."""
