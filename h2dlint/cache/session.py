"""The stored results as one run uses them: look up, keep what is new, write once at the end."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from h2dlint.cache.database import Damaged, Database, sealed, unsealed
from h2dlint.cache.folder import Unusable, database_in, remove_database
from h2dlint.cache.grounds import SEARCHES, Listing, Now, Recorded, is_steady
from h2dlint.cache.records import Keys, decoded, encoded
from h2dlint.cache.stamps import ABSENT, Stamps
from h2dlint.changes import Changes
from h2dlint.digest import digest_of
from h2dlint.discovery import TooLarge, absolute, has_needle
from h2dlint.engine import Job, Outcome
from h2dlint.facts.options import FactOptions
from h2dlint.facts.questions import Answer, Kinds, Question
from h2dlint.finding import Needle

MOST_BYTES = 128 << 20
"""Of a larger file the results that were not used for longest go."""
MOST_DAYS = 30
"""Results that no run used for so long go."""
_DAY = 86_400
_MOST_LISTINGS = 6
_MORE_SCANS = 4
"""So many times more contents than files may be known: those of other branches, and of the past."""

Say = Callable[[str], None]

_STAMPS = "stamps"
_CHANGED = "changed"
"""A question of this run alone: what changed in a file since the revision that is compared with."""

_INSIDE = "\0"
"""What stands for the root at the beginning of a stored path."""

_WHOLE = (Kinds.ALL, Kinds.FIXERS)


class _Found(Struct, frozen=True):
    """What is stored under a key."""

    outcome: bytes
    grounds: tuple[int, ...]
    listings: Mapping[str, bytes]
    used: int


class _New(Struct, frozen=True):
    """What is to be stored under a key."""

    key: bytes
    outcome: bytes
    grounds: tuple[Recorded, ...]
    listings: Mapping[str, bytes]


class Cache:
    """Results of earlier runs. Whatever is wrong with them, the run goes on without; `say` hears of it."""

    def __init__(self, folder: str, root: str, say: Say) -> None:
        """`folder` holds the results; paths are stored relative to `root`, the project."""
        self._folder = folder
        self._root = root
        self._say = say
        self._start = time.time_ns()
        self._database: Database | None = None
        self._open(make=False)
        stamps = self._table(_STAMPS)
        self._stamps = Stamps(root, stamps)
        self._now = Now(self._stamps, self._old_listing)
        self._scans: dict[bytes, dict[bytes, bool]] = {}
        self._names_of_scans: dict[tuple[tuple[Needle, ...], bool], bytes] = {}
        self._new_scans: set[bytes] = set()
        self._answers: dict[int, Recorded] | None = None
        self._told: dict[tuple[FactOptions, tuple[tuple[str, bytes], ...]], dict[int, bool]] = {}
        """By number, whether a recorded answer still holds."""
        self._key_of = Keys(root).of
        self._keys: dict[str, bytes] = {}
        self._new: list[_New] = []
        self._hits: list[tuple[bytes, Mapping[str, bytes]]] = []
        """Keys of results that still hold, where something has to be written down about them."""
        self._used_listings: dict[bytes, Listing] = {}

    # --- opening --------------------------------------------------------------------------------------------------

    def _open(self, make: bool) -> None:
        try:
            file = database_in(self._folder, make)
            if make or os.path.exists(file):
                self._database = Database(file)
        except Damaged as error:
            self._say(f"the cache is damaged and starts afresh: {error}")
            remove_database(self._folder)
        except Unusable as error:
            self._give_up(error)

    def _give_up(self, error: Unusable) -> None:
        """From here on nothing is looked up or kept."""
        if self._database is not None:
            self._database.close()
        self._database = None
        if isinstance(error, Damaged):
            self._say(f"the cache is damaged and starts afresh: {error}")
            remove_database(self._folder)
        else:
            self._say(f"the cache is not used: {error}")
            self._folder = ""

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        if self._database is None:
            return []
        try:
            return self._database.rows(query, *values)
        except Unusable as error:
            self._give_up(error)
            return []

    def _table(self, name: str) -> bytes | None:
        found = self._rows("SELECT body FROM tables WHERE name = ?", name)
        return unsealed(found[0][0], name.encode()) if found else None

    # --- the look at the bytes ------------------------------------------------------------------------------------

    def holds_any(self, file: str, needles: Sequence[Needle], most: int) -> bool:
        """`has_needle` of a file's bytes, which are not read where they were before. Raises as `read_bytes` does."""
        file = absolute(file)
        if self._stamps.size(file) > most:
            raise TooLarge(self._stamps.size(file), most)
        content = self._stamps.content(file)
        if content == ABSENT:
            return has_needle(self._stamps.read(file, most), needles, file)
        name = self._name_of_scans(tuple(needles), file.endswith(".ipynb"))
        known = self._scans.get(name)
        if known is None:
            known = self._scans[name] = _decoded_scans(self._table(name.decode()))
        held = known.get(content)
        if held is None:
            held = known[content] = has_needle(self._stamps.read(file, most), needles, file)
            self._new_scans.add(name)
        return held

    def _name_of_scans(self, needles: tuple[Needle, ...], notebook: bool) -> bytes:
        key = (needles, notebook)
        if key not in self._names_of_scans:
            digest = digest_of(msgspec.msgpack.encode(key)).hex()
            self._names_of_scans[key] = b"needles %b" % digest.encode()
        return self._names_of_scans[key]

    # --- looking up -----------------------------------------------------------------------------------------------

    def recall(self, job: Job) -> Outcome | None:
        """The stored outcome of a job, if everything that it came from is as it was."""
        content = self._stamps.content(absolute(job.file)) if job.data is None else digest_of(job.data)
        key = self._key_of(job, content) if content != ABSENT else None
        if key is None:
            return None
        self._keys[job.path] = key
        found = self._found(key)
        if found is None or not self._still_holds(job, found):
            return None
        outcome = decoded(found.outcome)
        if outcome is not None:
            self._note_hit(key, found, job)
        return outcome

    def _found(self, key: bytes) -> _Found | None:
        rows = self._rows("SELECT outcome, grounds, trees, used FROM results WHERE key = ?", key)
        if not rows:
            return None
        outcome, grounds, listings, used = rows[0]
        body = unsealed(outcome, key, grounds if isinstance(grounds, bytes) else b"")
        try:
            if body is None or not isinstance(used, int):
                raise ValueError
            numbers = _NUMBERS.decode(grounds)
            trees = _TREES.decode(listings)
        except (ValueError, TypeError, msgspec.DecodeError):
            return None
        return _Found(body, numbers, {self._outside(top): digest for top, digest in trees.items()}, used)

    def _still_holds(self, job: Job, found: _Found) -> bool:
        answers = self._all_answers()
        told = self._told.setdefault((job.facts, tuple(found.listings.items())), {})
        for number in found.grounds:
            holds = told.get(number)
            if holds is None:
                recorded = answers.get(number)
                holds = told[number] = recorded is not None and self._holds(recorded, job, found.listings)
            if not holds:
                return False
        return True

    def _holds(self, recorded: Recorded, job: Job, listings: Mapping[str, bytes]) -> bool:
        question, answer = recorded
        if question[0] == _CHANGED:
            return job.changes is not None and answer == _changed_in(job.changes, question[1])
        return self._now.holds(recorded, job.facts, listings)

    def _all_answers(self) -> dict[int, Recorded]:
        if self._answers is None:
            self._answers = {}
            for number, body in self._rows("SELECT id, body FROM answers"):
                recorded = self._decoded_answer(unsealed(body))
                if recorded is not None and isinstance(number, int):
                    self._answers[number] = recorded
        return self._answers

    def _note_hit(self, key: bytes, found: _Found, job: Job) -> None:
        listings: dict[str, bytes] = {}
        for top, digest in found.listings.items():
            now = next((one for (at, _), one in self._now.listings.items() if at == top), None)
            listings[top] = now.digest if now is not None else digest
            if now is not None and now.digest != digest:
                self._used_listings[now.digest] = now
        if listings != found.listings or found.used < self._start // 1_000_000_000 - _DAY:
            self._hits.append((key, listings))

    def _old_listing(self, digest: bytes) -> Mapping[str, bytes] | None:
        rows = self._rows("SELECT body FROM listings WHERE digest = ?", digest)
        body = unsealed(rows[0][0], digest) if rows else None
        try:
            names = msgspec.msgpack.decode(body, type=dict[bytes, bytes]) if body is not None else None
        except msgspec.DecodeError:
            return None
        return None if names is None else {self._stamps.file(name): content for name, content in names.items()}

    def release(self) -> None:
        """Lets go of the file while others work: no open database goes into another process."""
        if self._database is not None:
            self._database.close()
            self._database = None

    # --- keeping --------------------------------------------------------------------------------------------------

    def keep(self, pairs: Iterable[tuple[Job, Outcome]]) -> None:
        """Takes in what a run found out. Call it before anything is written to the files."""
        if not self._folder:
            return
        # The tree as it is now: it may have changed while it was looked at.
        stamps = Stamps(self._root, self._stamps.encoded())
        now = Now(stamps, lambda digest: None)
        for job, outcome in pairs:
            key = self._keys.get(job.path)
            if key is None or outcome.change is not None or outcome.passing:
                continue
            new = self._new_entry(job, outcome, key, now)
            if new is not None:
                self._new.append(new)
        self._stamps.take(stamps)

    def _new_entry(self, job: Job, outcome: Outcome, key: bytes, now: Now) -> _New | None:
        grounds: list[Recorded] = []
        listings: dict[str, bytes] = {}
        own = os.path.abspath(job.file)
        for question, answer in outcome.grounds:
            recorded = (question, answer)
            if question == (Kinds.FILE, own):
                if answer != (self._content_in_key(job),):
                    return None  # it was changed between the look at its bytes and the analysis
                continue
            if not is_steady(recorded):
                return None
            if question[0] in SEARCHES:
                if not now.was_true_throughout(recorded, job.facts, self._start):
                    return None
                top, deep = now.mentions(job.facts).tree_searched_for(question[1])
                listing = now.listing(top, deep)
                listings[top] = listing.digest
                self._used_listings[listing.digest] = listing
            elif question[0] in _WHOLE:
                digest, contents = now.whole(question)
                fresh = (one for one in contents.items() if now.is_fresh(one[0], self._start))
                if not all(self._stamps.held(*one) for one in fresh):
                    return None  # it may have changed while it was read
                recorded = (question, (digest,))
            grounds.append(recorded)
        if job.changes is not None:
            files = {own, *(question[1] for question, _ in grounds if question[0] == Kinds.FILE)}
            grounds += [((_CHANGED, file), _changed_in(job.changes, file)) for file in sorted(files)]
        body = encoded(outcome)
        return None if body is None else _New(key, body, tuple(grounds), listings)

    def _content_in_key(self, job: Job) -> str:
        if job.data is not None:
            return digest_of(job.data).hex()
        return self._stamps.content(os.path.abspath(job.file)).hex()

    # --- writing --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Writes what is new, in one transaction, where that is possible."""
        if self._folder and (self._new or self._hits or self._new_scans or self._stamps.changed):
            if self._database is None:
                self._open(make=True)
            if self._database is not None and self._database.writable:
                try:
                    self._database.write(self._write)
                except Unusable as error:
                    self._give_up(error)
        if self._database is not None:
            self._database.close()

    def _write(self, connection: sqlite3.Connection) -> None:
        run = connection.execute
        used = self._start // 1_000_000_000
        numbers = self._numbers(connection)
        for new in self._new:
            grounds = msgspec.msgpack.encode(tuple(numbers[recorded] for recorded in new.grounds))
            outcome = sealed(new.outcome, new.key, grounds)
            run(
                "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?)",
                (new.key, outcome, grounds, self._encoded_listings(new.listings), used),
            )
        for key, listings in self._hits:
            run("UPDATE results SET trees = ?, used = ? WHERE key = ?", (self._encoded_listings(listings), used, key))
        for digest, listing in self._used_listings.items():
            if listing.files is not None:
                names = {self._stamps.name(file): content for file, content in listing.files.items()}
                body = msgspec.msgpack.encode(names)
                run("INSERT OR IGNORE INTO listings VALUES (?, ?)", (digest, sealed(body, digest)))
        for name in self._new_scans:
            body = _encoded_scans(self._worth_keeping(self._scans[name]))
            run("INSERT OR REPLACE INTO tables VALUES (?, ?)", (name.decode(), sealed(body, name)))
        body = self._stamps.encoded()
        run("INSERT OR REPLACE INTO tables VALUES (?, ?)", (_STAMPS, sealed(body, _STAMPS.encode())))
        self._prune(connection, used)

    def _worth_keeping(self, scans: Mapping[bytes, bool]) -> Mapping[bytes, bool]:
        contents = self._stamps.contents()
        if len(scans) < _MORE_SCANS * len(contents):
            return scans
        return {content: held for content, held in scans.items() if content in contents}

    def _numbers(self, connection: sqlite3.Connection) -> dict[Recorded, int]:
        """The number of each recorded answer that is to be stored; equal ones are stored once."""
        numbers: dict[Recorded, int] = {}
        for new in self._new:
            for recorded in new.grounds:
                if recorded not in numbers:
                    body = sealed(self._encoded_answer(recorded))
                    connection.execute("INSERT OR IGNORE INTO answers (body) VALUES (?)", (body,))
                    rows = connection.execute("SELECT id FROM answers WHERE body = ?", (body,)).fetchone()
                    numbers[recorded] = rows[0]
        return numbers

    def _prune(self, connection: sqlite3.Connection, now: int) -> None:
        """Takes out what nobody used for long, and what nothing refers to."""
        assert self._database is not None
        run = connection.execute
        gone = run("DELETE FROM results WHERE used < ?", (now - MOST_DAYS * _DAY,)).rowcount
        if self._database.size() > MOST_BYTES:
            gone += run(
                "DELETE FROM results WHERE rowid IN (SELECT rowid FROM results ORDER BY used, rowid"
                " LIMIT (SELECT COUNT(*) / 2 FROM results))"
            ).rowcount
        listings = run("SELECT COUNT(*) FROM listings").fetchone()[0]
        if not gone and listings <= _MOST_LISTINGS:
            return
        answers: set[int] = set()
        trees: set[bytes] = set()
        for grounds, listed in run("SELECT grounds, trees FROM results"):
            answers.update(_NUMBERS.decode(grounds))
            trees.update(_TREES.decode(listed).values())
        for (number,) in run("SELECT id FROM answers").fetchall():
            if number not in answers:
                run("DELETE FROM answers WHERE id = ?", (number,))
        for (digest,) in run("SELECT digest FROM listings").fetchall():
            if digest not in trees:
                run("DELETE FROM listings WHERE digest = ?", (digest,))

    # --- as it is stored ------------------------------------------------------------------------------------------

    def _inside(self, text: str) -> str:
        """A text with the root, if it begins with it, as a sign."""
        if text == self._root or text.startswith(self._root + os.sep):
            return _INSIDE + text[len(self._root) :]
        return text

    def _outside(self, text: str) -> str:
        return self._root + text[1:] if text.startswith(_INSIDE) else text

    def _encoded_listings(self, listings: Mapping[str, bytes]) -> bytes:
        return msgspec.msgpack.encode({self._inside(top): digest for top, digest in listings.items()})

    def _encoded_answer(self, recorded: Recorded) -> bytes:
        question, answer = recorded
        shown = None if answer is None else tuple(_bytes(self._inside(text)) for text in answer)
        return msgspec.msgpack.encode((tuple(_bytes(self._inside(text)) for text in question), shown))

    def _decoded_answer(self, body: bytes | None) -> Recorded | None:
        if body is None:
            return None
        try:
            question, answer = _ANSWER.decode(body)
        except msgspec.DecodeError:
            return None
        shown: Answer = None if answer is None else tuple(self._outside(_text(text)) for text in answer)
        asked: Question = tuple(self._outside(_text(text)) for text in question)
        return asked, shown


_NUMBERS = msgspec.msgpack.Decoder(tuple[int, ...])
_TREES = msgspec.msgpack.Decoder(dict[str, bytes])
_ANSWER = msgspec.msgpack.Decoder(tuple[tuple[bytes, ...], tuple[bytes, ...] | None])


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _changed_in(changes: Changes, file: str) -> tuple[str, ...]:
    found = changes.files.get(os.path.realpath(file))
    return () if found is None else (digest_of(msgspec.msgpack.encode(found)).hex(),)


_CONTENT = 16


def _encoded_scans(scans: Mapping[bytes, bool]) -> bytes:
    return b"".join(content + (b"\1" if held else b"\0") for content, held in scans.items())


def _decoded_scans(body: bytes | None) -> dict[bytes, bool]:
    body = body or b""
    return {body[at : at + _CONTENT]: body[at + _CONTENT] == 1 for at in range(0, len(body) - _CONTENT, _CONTENT + 1)}
