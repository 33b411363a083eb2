"""A trace for people, as a table by time lost, and for programs, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from h2dlint.facts.copies import Verdict
from h2dlint.output.frame import wrapped
from h2dlint.output.terminal import harmless
from h2dlint.trace.remedies import remedy_for
from h2dlint.trace.trace_file import Process, Seen, Trace

if TYPE_CHECKING:
    from rich.table import Table

VERSION = 1
_STYLES = {Verdict.FAKE_ASYNC: "bold red", Verdict.BLOCKING: "magenta"}


def costly(trace: Trace, top: int) -> Sequence[Seen]:
    """The copies that cost the host most, at most `top` of them; not those that are allowed."""
    return [one for one in trace.copies if one.waits and not one.allowed][:top]


def render(trace: Trace, top: int, color: bool, width: int) -> str:
    """The table, and under it what the run was, what it came to, and what could not be seen."""
    from io import StringIO

    from rich.console import Console

    stream = StringIO()
    console = Console(file=stream, force_terminal=color, no_color=not color, width=width, legacy_windows=False)
    shown = costly(trace, top)
    if shown:
        console.print(_table(shown))
    for line in closing_lines(trace, len(shown)):
        first, *rest = wrapped(harmless(line), width - 2)
        for text in (first, *(f"  {one}" for one in rest)):
            console.print(text, markup=False, highlight=False, soft_wrap=True)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def _table(shown: Iterable[Seen]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name in ("host time", "worst", "calls", "size"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("where, and what to do", overflow="fold")
    for one in shown:
        where = Text.assemble((harmless(place(one)), "bold"), f"  {harmless(one.call)} {one.direction.value}")
        if one.called_from:
            where.append(f"  from {harmless(one.called_from)}", "dim")
        where.append(f"\n{remedy_for(one)}", "green")
        verdict = Text(one.verdict.value, _STYLES.get(one.verdict, ""))
        if one.causes:
            verdict.append(f"\n({one.causes[0].value})", "dim")
        table.add_row(
            milliseconds(one.total_ms), milliseconds(one.worst_ms), f"{one.calls:,}", size(one.largest), verdict, where
        )
    return table


def closing_lines(trace: Trace, shown: int) -> Iterable[str]:
    """What the run came to, in words."""
    with_torch = [one for one in trace.processes if one.torch]
    if not with_torch:
        yield "No process of the program imported torch where h2dlint could see it: nothing was recorded."
        if not any(one.trouble for one in trace.processes):
            yield "It is not seen in Pythons that ignore PYTHONPATH (`python -I`, `-E` or `-S`)."
    elif not any(one.verdict is not Verdict.NO_TRANSFER for one in trace.copies):
        yield from _nothing_crossed(trace)
    else:
        yield _totals(trace)
        waiting = sum(one.waits and not one.allowed for one in trace.copies)
        if waiting > shown:
            yield f"{waiting - shown:,} more with --top {waiting}."
    if with_torch:
        machines = ", ".join(trace.accelerators) or "no accelerator in use"
        versions = ", ".join(dict.fromkeys(f"torch {one.torch}" for one in with_torch))
        yield f"Run: {trace.seconds:.1f} s, {_plural(len(with_torch), 'process', 'processes')}, {machines}, {versions}."
        yield f"Not seen: {'; '.join(trace.unseen)}."
    yield from _troubles(trace.processes)


def _nothing_crossed(trace: Trace) -> Iterable[str]:
    if trace.accelerators:
        yield "Nothing was copied between host and device by a call that can be seen."
    else:
        yield "No accelerator was used: every tensor stayed on the host, so there was no copy to judge."
    asked = sum(one.calls for one in trace.copies if one.asked)
    if asked:
        lines = len({(one.path, one.line) for one in trace.copies if one.asked})
        yield (
            f"{_plural(asked, 'call')} in {_plural(lines, 'line')} asked for non_blocking and moved nothing; "
            "run it on a machine with an accelerator to see which of them wait."
        )


def _totals(trace: Trace) -> str:
    parts = []
    for verdict in (Verdict.FAKE_ASYNC, Verdict.BLOCKING, Verdict.UNPROVEN, Verdict.ASYNC):
        these = [one for one in trace.copies if one.verdict is verdict and not one.allowed]
        if these:
            calls, lost = sum(one.calls for one in these), sum(one.total_ms for one in these)
            lines = len({(one.path, one.line) for one in these})
            parts.append(f"{verdict.value} {milliseconds(lost)} ({_plural(calls, 'call')} in {_plural(lines, 'line')})")
    allowed = sum(one.calls for one in trace.copies if one.allowed and one.waits)
    if allowed:
        parts.append(f"allowed: {_plural(allowed, 'call')}")
    return f"Host time in copies: {' · '.join(parts)}."


def _troubles(processes: Iterable[Process]) -> Iterable[str]:
    for one in processes:
        if one.trouble:
            yield f"Warning: {one.trouble}"
        if one.missed:
            yield f"Warning: {_plural(one.missed, 'call')} of process {one.pid} could not be looked at."


def render_json(trace: Trace, top: int) -> str:
    """The same for programs, with the remedies. Keys are added, never changed."""
    totals = {
        verdict.value: {
            "calls": sum(one.calls for one in trace.copies if one.verdict is verdict),
            "total_ms": round(sum(one.total_ms for one in trace.copies if one.verdict is verdict), 4),
        }
        for verdict in Verdict
        if any(one.verdict is verdict for one in trace.copies)
    }
    value = {
        "version": VERSION,
        "seconds": trace.seconds,
        "accelerators": list(trace.accelerators),
        "totals": totals,
        "top": [_entry(one) for one in costly(trace, top)],
        "unseen": list(trace.unseen),
        "warnings": list(_troubles(trace.processes)),
    }
    return json.dumps(value, indent=2) + "\n"


def _entry(one: Seen) -> dict[str, Any]:
    import msgspec

    entry: dict[str, Any] = msgspec.to_builtins(one)
    return {**entry, "remedy": remedy_for(one)}


def place(one: Seen) -> str:
    """`train.py:64`."""
    return f"{one.path}:{one.line}"


def milliseconds(value: float) -> str:
    """`1.24 s`, `293 ms`, `0.05 ms`."""
    if value >= 1000:
        return f"{value / 1000:,.2f} s"
    return f"{value:.0f} ms" if value >= 100 else f"{value:.2g} ms" if value < 1 else f"{value:.1f} ms"


def size(number: int) -> str:
    """`16 B`, `32 KiB`, `2.0 MiB`."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= factor:
            value = number / factor
            return f"{value:.0f} {unit}" if value >= 10 or value == int(value) else f"{value:.1f} {unit}"
    return f"{number} B"


def _plural(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
