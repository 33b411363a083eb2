"""Where settings may lie. Without record types, so that a run with nothing to do can ask."""

from __future__ import annotations

import os

from h2dlint.discovery import TooLarge, read_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

OWN = "h2dlint.toml"
SHARED = "pyproject.toml"
MOST_BYTES = 1_000_000
"""Larger settings are refused: what takes a moment in a file that a person writes may take hours there."""
MOST_BYTES_SHARED = 64_000_000
"""In how large a file h2dlint's name is looked for."""


def settings_files(folder: str) -> Iterator[tuple[str, bytes]]:
    """The files in `folder` that may hold settings, with their bytes; h2dlint's own comes first.

    A pyproject.toml that does not mention h2dlint is none of them. Raises OSError for a file that cannot be read, and
    TooLarge for one that no person has written.
    """
    for name in (OWN, SHARED):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            data = read_bytes(path, MOST_BYTES if name == OWN else MOST_BYTES_SHARED)
            if name == OWN or b"h2dlint" in data:
                if len(data) > MOST_BYTES:
                    raise TooLarge(len(data), MOST_BYTES, path)
                yield path, data
