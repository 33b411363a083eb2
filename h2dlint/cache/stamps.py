"""What a file holds, without reading it where nothing was written to it since it was last read."""

from __future__ import annotations

import os
import stat
import time
from typing import TypeAlias

import msgspec

from h2dlint.digest import digest_of
from h2dlint.discovery import read_bytes

Stamp: TypeAlias = tuple[int, int, int, int]
"""Times of the last change of content and of anything, in nanoseconds; size; number on the disk."""

SETTLED = 2_000_000_000
"""Nanoseconds after which a change must show in the times: those of some file systems come in steps of two seconds.

A file that is read sooner after its last change is read again next time, as git does with its index.
"""

MOST_BYTES = 100_000_000
"""Nobody reads larger files: they count as absent."""

ABSENT = b""
"""The content of a file that is not there, or is no file."""


class Stamps:
    """Contents of files by path. Each is looked up once: what it was then holds for the run."""

    def __init__(self, root: str, stored: bytes | None) -> None:
        """Paths are absolute; those below `root` are stored relative to it."""
        self._below = os.path.join(root, "")
        self._known = _decoded(stored)
        self._seen: dict[str, tuple[Stamp, bytes]] = {}
        self._kept: dict[bytes, tuple[Stamp, bytes]] = {}
        self._last: tuple[str, bytes] = ("", b"")
        """The file that was read last, and its bytes."""
        self.changed = False
        """Whether there is something to store."""

    def content(self, file: str) -> bytes:
        """What tells one content from any other; ABSENT for what cannot be read."""
        return self._look(file)[1]

    def stamp(self, file: str) -> Stamp | None:
        """When the file was changed last, and the rest; None where it is not there."""
        return self._look(file)[0] if self._look(file)[1] else None

    def held(self, file: str, content: bytes) -> bool:
        """Whether that is what the file held when it was looked up here."""
        seen = self._seen.get(file)
        return seen is not None and seen[1] == content

    def take(self, later: Stamps) -> None:
        """Learn what was looked up later, to be stored. What was seen here stays."""
        self._kept.update(later._kept)
        self.changed = self.changed or later.changed

    def contents(self) -> frozenset[bytes]:
        """All contents that are known."""
        return frozenset(content for _, content in (*self._known.values(), *self._kept.values(), *self._seen.values()))

    def read(self, file: str, most: int) -> bytes:
        """The bytes that `content` speaks of, or those that are there now. Raises as `read_bytes` does."""
        return self._last[1] if self._last[0] == file else read_bytes(file, most)

    def size(self, file: str) -> int:
        """How many bytes the file has; 0 for one that is not there."""
        return self._look(file)[0][2]

    def _look(self, file: str) -> tuple[Stamp, bytes]:
        seen = self._seen.get(file)
        if seen is None:
            seen = self._seen[file] = self._looked_up(file)
        return seen

    def _looked_up(self, file: str) -> tuple[Stamp, bytes]:
        try:
            found = os.stat(file)
        except (OSError, ValueError):
            return _NO_STAMP, ABSENT
        if not stat.S_ISREG(found.st_mode):
            return _NO_STAMP, ABSENT
        stamp = _stamp_of(found)
        if found.st_size > MOST_BYTES:
            return stamp, ABSENT
        name = self.name(file)
        known = self._known.get(name)
        if known is not None and known[0] == stamp:
            self._kept[name] = known
            return known
        return self._read(file, name)

    def _read(self, file: str, name: bytes) -> tuple[Stamp, bytes]:
        now = time.time_ns()
        try:
            with open(file, "rb", buffering=0) as stream:
                before = _stamp_of(os.fstat(stream.fileno()))
                data = stream.read()
                after = _stamp_of(os.fstat(stream.fileno()))
        except OSError:
            return _NO_STAMP, ABSENT
        content = digest_of(data)
        self._last = (file, data)
        if before == after and max(after[:2]) + SETTLED < now:
            self._kept[name] = (after, content)
            self.changed = True
        return after, content

    def name(self, file: str) -> bytes:
        """What a file is called in what is stored: below the root, the way from there."""
        return os.fsencode(file[len(self._below) :] if file.startswith(self._below) else file)

    def file(self, name: bytes) -> str:
        """The file that is stored under a name."""
        return os.path.join(self._below, os.fsdecode(name))

    def encoded(self) -> bytes:
        """What to store: what was seen in this run, and what was not looked for but is there."""
        for name, known in self._known.items():
            if name not in self._kept and os.path.lexists(os.path.join(os.fsencode(self._below), name)):
                self._kept[name] = known
        return msgspec.msgpack.encode(self._kept)


_NO_STAMP: Stamp = (0, 0, 0, 0)
_DECODER = msgspec.msgpack.Decoder(dict[bytes, tuple[Stamp, bytes]])


def _decoded(stored: bytes | None) -> dict[bytes, tuple[Stamp, bytes]]:
    try:
        return _DECODER.decode(stored) if stored else {}
    except msgspec.DecodeError:
        return {}


def _stamp_of(found: os.stat_result) -> Stamp:
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
