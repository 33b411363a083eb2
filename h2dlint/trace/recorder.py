"""Counts what was heard, by call site, and turns the counts into a trace."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

import msgspec
from msgspec import Struct

from h2dlint.facts.copies import Cause, Direction, Span, Verdict
from h2dlint.trace.call_site import Calls, Site, Sites
from h2dlint.trace.moves import Move, gravest, ruling
from h2dlint.trace.trace_file import TOOL, VERSION, Process, Seen, Trace, by_cost

_ALLOWED: ContextVar[bool] = ContextVar("h2dlint_allow_sync", default=False)


@contextmanager
def allow_sync() -> Iterator[None]:
    """Exempts what happens in the block, in this thread or task, from `no_fake_async`; a trace marks it as allowed."""
    token = _ALLOWED.set(True)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


class Outcome(Struct, frozen=True):
    """What a call came to, as far as it tells one count from another."""

    name: str
    direction: Direction
    verdict: Verdict
    causes: tuple[Cause, ...]
    asked: bool
    pinned: bool
    dense: bool
    allowed: bool


class Tally(Struct):
    """How often, how much and how long; times in nanoseconds."""

    calls: int = 0
    copies: int = 0
    pageable: int = 0
    bytes: int = 0
    largest: int = 0
    total: int = 0
    worst: int = 0


class Count(Struct, frozen=True):
    """One call site with one outcome, as a process wrote it down."""

    site: Site
    outcome: Outcome
    tally: Tally


class Part(Struct, frozen=True):
    """What one process recorded."""

    process: Process
    counts: tuple[Count, ...]
    files: dict[str, str]
    """The digest of each file, by the name that its code has."""


class Recorder:
    """Listens to the hooks. Every thread of the process may speak to it at once."""

    def __init__(self) -> None:
        self.sites = Sites()
        self._tallies: dict[tuple[int, int, tuple[object, ...], bool], tuple[Site, Outcome, Tally]] = {}
        self._found: dict[tuple[int, int], Site] = {}
        self._files: dict[str, str] = {}
        self._missed = 0
        self._lock = threading.RLock()  # a finaliser may make a copy while a count is being made

    def heard(self, name: str, moves: Sequence[Move], nanoseconds: int, frame: FrameType) -> None:
        """Counts one call: once for each direction, and its time for what was gravest in it."""
        at = self.sites.frame_of(frame)
        if len(moves) == 1:
            self._count(name, moves, moves[0], nanoseconds, at)
            return
        worst = gravest(moves)
        for direction in dict.fromkeys((worst.direction, *(move.direction for move in moves))):
            group = [move for move in moves if move.direction is direction]
            self._count(name, group, gravest(group), nanoseconds if direction is worst.direction else 0, at)

    def _count(self, name: str, moves: Sequence[Move], move: Move, nanoseconds: int, at: FrameType) -> None:
        size = move.size if len(moves) == 1 else sum(one.size for one in moves)
        # Hashing enums and records would take longer than all the rest.
        facts = (name, id(move.direction), move.asked, move.pinned, move.dense, move.broadcast, move.known, size > 0)
        key = (id(at.f_code), at.f_lasti, facts, _ALLOWED.get())
        with self._lock:
            counted = self._tallies.get(key)
            if counted is None:
                counted = self._tallies[key] = (self._site(at), _outcome(name, move), Tally())
            tally = counted[2]
            tally.calls += 1
            tally.bytes += size
            tally.total += nanoseconds
            if size > tally.largest:
                tally.largest = size
            if nanoseconds > tally.worst:
                tally.worst = nanoseconds
            for one in moves:
                if one.size:
                    tally.copies += 1
                    if not (one.pinned and one.dense):
                        tally.pageable += 1

    def _site(self, frame: FrameType) -> Site:
        key = (id(frame.f_code), frame.f_lasti)
        site = self._found.get(key)
        if site is None:
            site = self._found[key] = self.sites.site(frame)
            if site.file not in self._files:
                self._files[site.file] = digest_of(site.file)
        return site

    def missed(self, error: Exception) -> None:
        """Counts a call that could not be looked at."""
        self._missed += 1

    def part(self) -> Part:
        """What was counted so far."""
        with self._lock:
            counts = tuple(
                Count(site, outcome, msgspec.structs.replace(tally)) for site, outcome, tally in self._tallies.values()
            )
            return Part(this_process(self._missed), counts, dict(self._files))


def _outcome(name: str, move: Move) -> Outcome:
    ruled = ruling(move)
    return Outcome(
        name, move.direction, ruled.verdict, ruled.causes, move.asked, move.pinned, move.dense, _ALLOWED.get()
    )


def this_process(missed: int = 0, trouble: str = "") -> Process:
    """What there is to say of the process that this runs in."""
    import platform

    torch = sys.modules.get("torch")
    accelerator = ""
    if torch is not None:
        cuda = torch.cuda
        # Only where the program has initialised it: a look must not do that.
        if cuda.is_initialized():
            accelerator = str(cuda.get_device_name())
    return Process(
        os.getpid(),
        tuple(getattr(sys, "orig_argv", sys.argv)),
        platform.python_version(),
        str(getattr(torch, "__version__", "")),
        accelerator,
        missed,
        trouble,
    )


def digest_of(file: str) -> str:
    """A digest of a file's bytes; empty where it cannot be read."""
    try:
        with open(file, "rb") as stream:
            return digest_of_bytes(stream.read())
    except OSError:
        return ""


def digest_of_bytes(data: bytes) -> str:
    """The digest that a trace keeps of a file."""
    from hashlib import sha256

    return sha256(data).hexdigest()[:32]


# --- from parts to a trace ----------------------------------------------------------------------------------------


def trace_of(parts: Iterable[Part], seconds: float, folder: str) -> Trace:
    """One trace of all processes, with every place as the source has it. `folder`: what paths are relative to."""
    parts = tuple(parts)
    digests = {file: digest for part in parts for file, digest in part.files.items()}
    sources = _Sources(digests)
    merged: dict[tuple[str, Span, bool, Outcome, str], tuple[Site, Tally]] = {}
    for part in parts:
        for count in part.counts:
            span, exact = sources.span(count.site, count.outcome.name)
            key = (count.site.file, span, exact, count.outcome, count.site.function)
            site, tally = merged.get(key, (count.site, Tally()))
            merged[key] = (site, _sum(tally, count.tally))
    copies = [
        _seen(site, span, exact, outcome, tally, _shown(file, folder))
        for (file, span, exact, outcome, _), (site, tally) in merged.items()
    ]
    files = {_shown(file, folder): digest for file, digest in sorted(digests.items()) if digest}
    return Trace(VERSION, TOOL, round(seconds, 3), tuple(part.process for part in parts), files, by_cost(copies))


def _sum(one: Tally, other: Tally) -> Tally:
    return Tally(
        one.calls + other.calls,
        one.copies + other.copies,
        one.pageable + other.pageable,
        one.bytes + other.bytes,
        max(one.largest, other.largest),
        one.total + other.total,
        max(one.worst, other.worst),
    )


def _seen(site: Site, span: Span, exact: bool, outcome: Outcome, tally: Tally, path: str) -> Seen:
    return Seen(
        path=path,
        line=span.line,
        column=span.column,
        end_line=span.end_line,
        end_column=span.end_column,
        function=site.function,
        call=outcome.name,
        direction=outcome.direction,
        verdict=outcome.verdict,
        asked=outcome.asked,
        pinned=outcome.pinned,
        dense=outcome.dense,
        calls=tally.calls,
        copies=tally.copies,
        pageable=tally.pageable,
        bytes=tally.bytes,
        largest=tally.largest,
        total_ms=round(tally.total / 1e6, 4),
        worst_ms=round(tally.worst / 1e6, 4),
        causes=outcome.causes,
        allowed=outcome.allowed,
        exact=exact,
        called_from=site.called_from,
    )


def _shown(file: str, folder: str) -> str:
    """A file as a trace names it: relative to the folder if it lies in it."""
    if file.startswith("<"):
        return file
    path = os.path.join(folder, file)
    inside = os.path.abspath(path).startswith(os.path.join(os.path.abspath(folder), ""))
    return (os.path.relpath(path, folder) if inside else os.path.abspath(path)).replace(os.sep, "/")


class _Sources:
    """Finds calls in the files that ran, each read once."""

    def __init__(self, digests: dict[str, str]) -> None:
        self._digests = digests
        self._calls: dict[str, Calls | None] = {}

    def span(self, site: Site, name: str) -> tuple[Span, bool]:
        """The range of a call, and whether it was found in the source; else its line is all there is."""
        if site.file not in self._calls:
            self._calls[site.file] = self._read(site.file)
        calls = self._calls[site.file]
        found = calls.find(site, name) if calls is not None else None
        if found is not None:
            return found, True
        return Span(site.line, 1, site.end_line or site.line, 1), False

    def _read(self, file: str) -> Calls | None:
        from h2dlint.source import load

        if not self._digests.get(file) or digest_of(file) != self._digests[file]:
            return None  # gone, or changed while the program ran
        with open(file, "rb") as stream:
            source = load(file, stream.read())
        return Calls(source.text, source.tree) if source.tree is not None else None
