"""One outcome as it is stored, and the key that it is found by."""

from __future__ import annotations

import os
import sys
from functools import lru_cache

import msgspec
from msgspec import Struct
from msgspec.structs import replace

import h2dlint
from h2dlint import __version__
from h2dlint.accepted import Accepted
from h2dlint.digest import blake2b
from h2dlint.discovery import absolute
from h2dlint.engine import Job, Outcome
from h2dlint.facts.copies import Copy, Span
from h2dlint.finding import Finding
from h2dlint.suppress import Suppression


class Record(Struct, frozen=True, omit_defaults=True):
    """What is kept of an `Outcome` without changes: all that the report and every format needs."""

    path: str
    findings: tuple[Finding, ...] = ()
    unproven: tuple[Finding, ...] = ()
    suppressed: tuple[Finding, ...] = ()
    suppressions: tuple[Suppression, ...] = ()
    used: tuple[tuple[Suppression, str], ...] = ()
    copies: tuple[Copy, ...] = ()
    accepted: tuple[Accepted, ...] = ()
    uses: tuple[str, ...] = ()
    text: str = ""
    refusals: tuple[tuple[Span, str, str], ...] = ()


_SAME = ("path", "findings", "unproven", "suppressed", "suppressions", "used", "copies", "accepted", "text")
_DECODER = msgspec.msgpack.Decoder(Record)


def encoded(outcome: Outcome) -> bytes | None:
    """The outcome as bytes; None for one that cannot be kept."""
    record = Record(
        **{name: getattr(outcome, name) for name in _SAME},
        uses=tuple(sorted(outcome.uses)),
        refusals=tuple((span, code, reason) for (span, code), reason in outcome.refusals.items()),
    )
    try:
        return msgspec.msgpack.encode(record)
    except UnicodeEncodeError:  # a name with bytes that are no text
        return None


def decoded(body: bytes) -> Outcome | None:
    """The outcome that was stored; None where these bytes are none."""
    try:
        record = _DECODER.decode(body)
    except msgspec.DecodeError:
        return None
    return Outcome(
        **{name: getattr(record, name) for name in _SAME},
        uses=frozenset(record.uses),
        refusals={(span, code): reason for span, code, reason in record.refusals},
    )


class Keys:
    """The keys of one run's jobs.

    What is in a key: versions, the file and its content, all that the settings and options say of it, and where the run
    was started, since paths are shown from there. Places are told from `root`: a project that is moved as a whole keeps
    its results.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._encode = msgspec.msgpack.Encoder().encode
        self._run = self._encode((_versions(), os.fsencode(os.path.relpath(os.getcwd(), root))))

    def of(self, job: Job, content: bytes) -> bytes | None:
        """The key of a job on a file with this content; None where there is no such thing."""
        file = absolute(job.file)
        below = file[len(self._root) :] if file.startswith(self._root) else file
        plain = replace(job, file=below, changes=None, data=None, verbose=False)
        try:
            body = self._encode((self._run, plain, job.changes is not None, content))
        except (UnicodeEncodeError, ValueError):  # a name with bytes that are no text
            return None
        return blake2b(body, digest_size=20).digest()


@lru_cache(maxsize=1)
def _versions() -> tuple[object, ...]:
    """What makes an outcome what it is besides the code that it is about."""
    return (__version__, _own_code(), sys.implementation.name, *sys.version_info[:3])


def _own_code() -> tuple[object, ...]:
    """When h2dlint itself was changed, where it runs from its sources; nothing where it is installed."""
    found: list[object] = []
    for home in h2dlint.__path__:
        if "site-packages" in home or "dist-packages" in home:
            continue
        for folder in (home, *(entry.path for entry in os.scandir(home) if entry.is_dir())):
            found += [
                (entry.name, entry.stat().st_mtime_ns, entry.stat().st_size)
                for entry in sorted(os.scandir(folder), key=lambda entry: entry.name)
                if entry.name.endswith(".py")
            ]
    return tuple(found)
