"""Runs a command with the recording switched on in every Python process that it starts, and gathers what they wrote."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
from msgspec import Struct

from h2dlint.trace.recorder import Part, this_process, trace_of
from h2dlint.trace.start import PART
from h2dlint.trace.trace_file import Process, Trace, TraceError

BOOTSTRAP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bootstrap")
FOLDER = "H2DLINT_TRACE"
"""The environment variable that tells the processes where to write."""
_PASSED_ON = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
_LEFT_TO_IT = ("SIGINT", "SIGQUIT")
"""A terminal sends these to the program as well: it answers them."""


class Ran(Struct, frozen=True):
    """A program that has ended."""

    status: int
    """As a shell has it: 128 and the signal's number for a program that a signal ended."""
    trace: Trace


def command_of(words: Sequence[str], module: str | None = None) -> list[str]:
    """The command that words stand for: `script.py ARGS` and `-m module ARGS` mean this Python."""
    if module is not None:
        return [sys.executable, "-m", module, *words]
    if words and words[0].endswith((".py", ".pyw")):
        return [sys.executable, *words]
    return list(words)


def run_program(command: Sequence[str]) -> Ran:
    """Runs a command to its end with stdin, stdout, stderr and signals its own.

    Raises TraceError where it cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="h2dlint-trace-") as folder:
        start = time.perf_counter()
        status = _run(command, folder)
        seconds = time.perf_counter() - start
        return Ran(128 - status if status < 0 else status, trace_of(_parts(folder), seconds, os.getcwd()))


def _run(command: Sequence[str], folder: str) -> int:
    path = os.pathsep.join(filter(None, (BOOTSTRAP, os.environ.get("PYTHONPATH", ""))))
    environment = {**os.environ, FOLDER: folder, "PYTHONPATH": path}
    try:
        program = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise TraceError(f"`{command[0]}` cannot be started: {error.strerror or error}") from error
    with _signals_to(program):
        return program.wait()


@contextmanager
def _signals_to(program: subprocess.Popen[bytes]) -> Iterator[None]:
    def pass_on(number: int, frame: object) -> None:
        with suppress(ProcessLookupError):
            program.send_signal(number)

    before: dict[int, Any] = {}
    for name, handler in (*((name, pass_on) for name in _PASSED_ON), *((name, _leave_it) for name in _LEFT_TO_IT)):
        number = getattr(signal, name, None)
        if number is not None:
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave_it(number: int, frame: object) -> None:
    pass


def _parts(folder: str) -> Iterator[Part]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.stat().st_mtime_ns):
        if entry.name.endswith(PART):
            with open(entry.path, "rb") as stream, suppress(msgspec.DecodeError):
                yield msgspec.json.decode(stream.read(), type=Part)
        elif entry.name.endswith(".trouble"):
            with open(entry.path, encoding="utf-8") as stream:
                python, why = stream.read().split("\n", 1)
            yield Part(_without_h2dlint(python, why), (), {})


def _without_h2dlint(python: str, why: str) -> Process:
    trouble = f"h2dlint cannot be imported by {python}, so nothing was recorded there: {why}"
    return msgspec.structs.replace(this_process(trouble=trouble), pid=0, command=(python,), torch="", python="")
