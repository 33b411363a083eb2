"""The conformance tables that are installed with h2dlint: forms of copies and what a GPU's profiler saw of each."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct


class SeenCopy(Struct, frozen=True, order=True):
    """Copies of one kind that one form made."""

    direction: str
    """`h2d`, `d2h` or `d2d`."""
    host_memory: str | None
    """What the profiler calls the host's side: `pageable` or `pinned`; None between two places on the device."""
    count: int


class StoredForm(Struct, frozen=True, omit_defaults=True):
    """A small program, and what it did on a GPU. What `setup` does is not counted."""

    id: str
    setup: str
    code: str
    copies: tuple[SeenCopy, ...] = ()
    stream_syncs: int = 0
    """How often the host waited for a stream."""
    raises: str | None = None
    """The exception's name, if the code raised one there."""


class StoredTable(Struct, frozen=True):
    """Forms that were run on one machine."""

    gpu: str
    torch: str
    driver: str
    cuda: str
    how: str
    forms: tuple[StoredForm, ...]


PREAMBLE = 'import numpy as np\nimport torch\n\ndevice = torch.device("cuda")\n'
"""What stands before the setup of every form."""


def stored_tables() -> tuple[Path, Path]:
    """The two files: the forms that the facts were stated from, and the larger set that was measured afterwards."""
    folder = Path(__file__).parent / "forms"
    return folder / "truth_h200_torch2.11.json", folder / "more_forms_h200.json"


def read_table(path: Path) -> StoredTable:
    """One file's table.

    Raises:
        OSError, msgspec.MsgspecError: the file cannot be read, or holds something else.
    """
    return msgspec.json.decode(path.read_bytes(), type=StoredTable)
