"""The trace file, version 1: what one run of a program copied between host and device. docs/trace.md describes it."""

from __future__ import annotations

import os

import msgspec
from msgspec import Struct

from h2dlint.discovery import TooLarge, read_bytes
from h2dlint.facts.copies import Cause, Direction, Verdict

VERSION = 1
TOOL = "h2dlint trace"
MOST_BYTES = 1_000_000_000
"""A larger file is no trace: one that holds each place of a large program takes some megabytes."""

LIMITS = (
    "copies that C++ code makes without calling torch's Python functions",
    "copies inside compiled or captured graphs (torch.compile, CUDA graphs)",
    "waits inside operators, such as unique, bincount or repeat_interleave",
    "copies of bare storages, such as torch.load(map_location=...)",
)
"""What a trace does not see."""


class TraceError(Exception):
    """A trace file that cannot be used, with the reason for a user."""


class Process(Struct, frozen=True):
    """One process of the program in which torch was imported."""

    pid: int
    command: tuple[str, ...]
    python: str
    torch: str = ""
    accelerator: str = ""
    """The name of the first accelerator; empty where there is none."""
    missed: int = 0
    """Calls that could not be looked at."""
    trouble: str = ""
    """Why nothing, or not everything, was recorded in this process."""


class Seen(Struct, frozen=True):
    """What happened at one call with one outcome. Lines and columns are 1-based, the end is exclusive."""

    path: str
    """Relative to the working directory of the run, with forward slashes, where the file lies in it."""
    line: int
    column: int
    end_line: int
    end_column: int
    function: str
    call: str
    """The name of torch's function: `to`, `copy_`, `item`, `__getitem__`."""
    direction: Direction
    verdict: Verdict
    asked: bool
    pinned: bool
    dense: bool
    calls: int
    copies: int
    """Tensors that were copied: a call may move several."""
    pageable: int
    """How many of them went through pageable memory."""
    bytes: int
    largest: int
    """Bytes of the largest call."""
    total_ms: float
    """Time that the host spent in these calls."""
    worst_ms: float
    """The longest of them."""
    causes: tuple[Cause, ...] = ()
    allowed: bool = False
    """Whether it happened inside `allow_sync()`."""
    exact: bool = True
    """Whether the place is that of a call in the file; else only the line is known."""
    called_from: str = ""
    """Where the program itself led there, if the file is not in the working directory."""

    @property
    def waits(self) -> bool:
        """Whether the host may have been stopped by it."""
        return self.verdict in (Verdict.FAKE_ASYNC, Verdict.BLOCKING)


class Trace(Struct, frozen=True):
    """A run, over all of its processes. `copies` has the costliest first."""

    version: int
    tool: str
    seconds: float
    processes: tuple[Process, ...]
    files: dict[str, str]
    """Of each file with a copy, a digest of its bytes when the first one happened."""
    copies: tuple[Seen, ...]
    unseen: tuple[str, ...] = LIMITS
    """What a trace does not see, in words."""

    @property
    def accelerators(self) -> tuple[str, ...]:
        """The accelerators of its processes, each once."""
        return tuple(dict.fromkeys(one.accelerator for one in self.processes if one.accelerator))


def by_cost(copies: list[Seen]) -> tuple[Seen, ...]:
    """The costliest waits first, then what did not wait."""
    return tuple(
        sorted(
            copies,
            key=lambda one: (not one.waits, one.allowed, -one.total_ms, one.path, one.line, one.column, one.call),
        )
    )


def write(trace: Trace, file: str) -> None:
    """Writes a trace as JSON. Raises TraceError where the file cannot be written."""
    try:
        with open(file, "wb") as stream:
            stream.write(msgspec.json.format(msgspec.json.encode(trace), indent=1) + b"\n")
    except OSError as error:
        raise TraceError(f"{file} cannot be written: {error.strerror or error}") from error


def read(file: str) -> Trace:
    """Reads what `write` wrote. Raises TraceError for anything else."""
    try:
        data = read_bytes(file, MOST_BYTES)
    except OSError as error:
        raise TraceError(f"{file} cannot be read: {error.strerror or error}") from error
    except TooLarge as error:
        raise TraceError(f"{file} is too large for a trace: more than {error.most:,} bytes") from error
    try:
        head = msgspec.json.decode(data, type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"{file} is not a trace of `{TOOL}`") from error
    if head.tool != TOOL:
        raise TraceError(f"{file} is not a trace of `{TOOL}`")
    if head.version != VERSION:
        raise TraceError(f"{file} is a trace of version {head.version}; this h2dlint reads version {VERSION}")
    try:
        return msgspec.json.decode(data, type=Trace)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TraceError(f"{file} is damaged: {error}") from error
    except RecursionError as error:
        raise TraceError(f"{file} is damaged: it is nested too deeply") from error


class _Head(Struct, frozen=True):
    tool: str
    version: int


def refuse_to_overwrite(file: str) -> None:
    """Raises TraceError where there is a file that is no trace of ours: other tools write a trace.json too."""
    if os.path.exists(file):
        try:
            read(file)
        except TraceError as error:
            if "is not a trace" in str(error):
                raise TraceError(f"{error}: it is left alone; name another file with --out") from error
