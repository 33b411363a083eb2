"""Where settings may lie. Without record types, so that a run with nothing to do can ask."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

OWN = "h2dlint.toml"
SHARED = "pyproject.toml"


def settings_files(folder: str) -> Iterator[tuple[str, bytes]]:
    """The files in `folder` that may hold settings, with their bytes; h2dlint's own comes first.

    A pyproject.toml that does not mention h2dlint is none of them. Raises OSError for a file that cannot be read.
    """
    for name in (OWN, SHARED):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, "rb") as file:
                data = file.read()
            if name == OWN or b"h2dlint" in data:
                yield path, data
