"""What `h2dlint trace` does: a program, its trace, the report and the chart."""

from __future__ import annotations

from typing import TextIO

from msgspec import Struct

from h2dlint.output.terminal import emit, width_of
from h2dlint.trace.report import render, render_json
from h2dlint.trace.trace_file import Trace, read, refuse_to_overwrite, write


class Wish(Struct, frozen=True):
    """What the command line says."""

    program: tuple[str, ...]
    """Its words; `-m` and a module may come first."""
    out: str
    top: int
    format: str
    chart: str | None
    read: str | None
    """A trace to show instead of running anything."""


def carry_out(wish: Wish, stream: TextIO, color: bool) -> int:
    """Runs the program and writes what was asked for; the program's exit status.

    Raises TraceError for what cannot be read, run or written; before the program has run, where that can be known.
    """
    if wish.chart is not None:
        from h2dlint.trace.chart import check_kind

        check_kind(wish.chart)
    if wish.read is not None:
        status, trace = 0, read(wish.read)
    else:
        refuse_to_overwrite(wish.out)
        from h2dlint.trace.run_program import command_of, run_program

        module, words = (wish.program[1], wish.program[2:]) if _names_module(wish) else (None, wish.program)
        ran = run_program(command_of(words, module))
        status, trace = ran.status, ran.trace
        write(trace, wish.out)
    _report(wish, trace, stream, color)
    return status


def _names_module(wish: Wish) -> bool:
    return wish.program[0] == "-m" and len(wish.program) > 1


def _report(wish: Wish, trace: Trace, stream: TextIO, color: bool) -> None:
    if wish.format == "json":
        emit(stream, render_json(trace, wish.top))
    else:
        emit(stream, render(trace, wish.top, color, width_of(stream)))
        if wish.read is None:
            emit(stream, f"Trace: {wish.out} (h2dlint check --trace {wish.out})\n")
    if wish.chart is not None:
        from h2dlint.trace.chart import draw

        draw(trace, wish.chart, wish.top)
        if wish.format != "json":
            emit(stream, f"Chart: {wish.chart}\n")
