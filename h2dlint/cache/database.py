"""The SQLite file: tables of blobs, each under a seal, and one transaction for a run.

What lies on the disk may be damaged, of another program, or in use: every trouble is an `Unusable`, never more.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from h2dlint.cache.folder import Unusable
from h2dlint.digest import blake2b

FORMAT = 1
"""Raised with every change of what the tables hold."""

_APPLICATION = 0x48324431
_PATIENCE = 2.0
"""Seconds to wait for another run that is writing."""

_TABLES = (
    "CREATE TABLE results (key BLOB PRIMARY KEY, outcome BLOB, grounds BLOB, trees BLOB, used INTEGER)",
    "CREATE TABLE answers (id INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB UNIQUE)",
    "CREATE TABLE listings (digest BLOB PRIMARY KEY, body BLOB)",
    "CREATE TABLE tables (name TEXT PRIMARY KEY, body BLOB)",
)


class Damaged(Unusable):
    """A file that is no database, or a broken one: it is worth nothing to anybody."""


@contextmanager
def _troubles() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:  # locked, read-only, full
        raise Unusable(str(error)) from error
    except (sqlite3.Error, UnicodeError, OverflowError) as error:
        raise Damaged(str(error)) from error


class Database:
    """An open file of stored results."""

    def __init__(self, file: str) -> None:
        """Opens the file, or begins one where the folder can be written. Raises Unusable."""
        folder = os.path.dirname(file)
        self.writable = os.access(folder, os.W_OK) and (not os.path.exists(file) or os.access(file, os.W_OK))
        with _troubles():
            mode = "rwc" if self.writable else "ro"
            self._connection = sqlite3.connect(
                f"file:{_quoted(file)}?mode={mode}", uri=True, timeout=_PATIENCE, isolation_level=None
            )
        try:
            with _troubles():
                self._prepare()
        except Unusable:
            self.close()
            raise

    def _prepare(self) -> None:
        run = self._connection.execute
        run("PRAGMA trusted_schema = OFF")
        # A power cut may lose or damage what was written last: seals tell, and it is a cache.
        run("PRAGMA synchronous = OFF")
        application = run("PRAGMA application_id").fetchone()[0]
        format = run("PRAGMA user_version").fetchone()[0]
        if (application, format) == (_APPLICATION, FORMAT):
            return
        if application not in (0, _APPLICATION) or (application == 0 and self._tables()):
            raise Unusable("the file is a database of another program")
        if not self.writable:
            raise Unusable("there is nothing stored, and nothing can be")
        run("BEGIN IMMEDIATE")
        if run("PRAGMA user_version").fetchone()[0] != FORMAT:  # no other run was faster
            for name in self._tables():
                run('DROP TABLE "{}"'.format(name.replace('"', '""')))
            for table in _TABLES:
                run(table)
            run(f"PRAGMA application_id = {_APPLICATION}")
            run(f"PRAGMA user_version = {FORMAT}")
        run("COMMIT")

    def _tables(self) -> list[str]:
        rows = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        )
        return [name for (name,) in rows]

    def close(self) -> None:
        """Never raises."""
        with suppress(sqlite3.Error):
            self._connection.close()

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """What a query finds. Raises Unusable."""
        with _troubles():
            return self._connection.execute(query, values).fetchall()

    def write(self, change: Callable[[sqlite3.Connection], None]) -> None:
        """Makes a change as one transaction: all of it or nothing. Raises Unusable."""
        with _troubles():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                change(self._connection)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def size(self) -> int:
        """How many bytes are in use. Raises Unusable."""
        pages, free, size = (
            self.rows(f"PRAGMA {name}")[0][0] for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)


def _quoted(file: str) -> str:
    """A path as part of a URI."""
    plain = os.fsencode(file)
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in plain)


_PLAIN = frozenset(b"/._-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_SEAL = 8


def sealed(body: bytes, *beside: bytes) -> bytes:
    """A blob under a seal that tells whether it, or what stands beside it, is still what was written."""
    return _seal_of(body, beside) + body


def unsealed(blob: object, *beside: bytes) -> bytes | None:
    """What is under the seal; None if that is broken."""
    if not isinstance(blob, bytes):
        return None
    body = blob[_SEAL:]
    return body if _seal_of(body, beside) == blob[:_SEAL] else None


def _seal_of(body: bytes, beside: Iterable[bytes]) -> bytes:
    seal = blake2b(body, digest_size=_SEAL)
    for part in beside:
        seal.update(part)
    return seal.digest()
