"""The results for people: one table a measurement, then what follows beside what the rules are built on."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from h2dlint.probe.results import Answer, Machine, Measured, Point, Results
from h2dlint.probe.spread import Spread
from h2dlint.probe.truth import Comparison, Difference
from h2dlint.probe.units import ms_text, short_size, value_text

_JITTER = 0.2
"""Below this many milliseconds, or copies, a range would only show the jitter of a call."""
_EDGE_STYLES = {True: "red", False: "green"}


def show_results(results: Results, console: Console) -> None:
    """Prints a run of the probe."""
    console.print(_machine(results.machine), highlight=False)
    for measured in results.measurements:
        console.print()
        console.print(measured_table(measured), highlight=False)
    answers = [answer for measured in results.measurements for answer in measured.answers]
    if answers:
        console.print()
        console.print(answers_table(answers), highlight=False)
    for one in results.left_out:
        console.print(Text(f"left out: {one.name}: {one.reason}", "yellow"))
    console.print(Text(f"\nMeasured in {results.seconds:.0f} s", "dim"))


def show_comparison(comparison: Comparison, console: Console) -> None:
    """Prints what differs from the stored table."""
    console.print(_machine(comparison.machine), highlight=False)
    console.print(Text(f"Stored: {comparison.stored_on}", "dim"))
    for difference in comparison.differences:
        console.print()
        console.print(_difference(difference), highlight=False)
    number = len(comparison.differences)
    verdict = f"{comparison.alike:,} as stored, {number:,} {'differs' if number == 1 else 'differ'}"
    line = f"{comparison.forms:,} forms, {verdict if number else 'all as stored'}"
    console.print()
    console.print(
        Text.assemble((line, "bold red" if number else "bold green"), (f" · {comparison.seconds:.0f} s", "dim"))
    )


def measured_table(measured: Measured) -> RenderableType:
    """The points of one measurement, forms down and the axis across, below its title."""
    body = _list(measured) if measured.axis is None else _grid(measured)
    head = Text.assemble((measured.title, "bold"), ("\n" + measured.note.replace("`", ""), "dim"))
    return Group(head, body)


def answers_table(answers: Sequence[Answer]) -> Table:
    """Each figure beside the one that the rules are built on."""
    table = _table("What follows", "here", "the rules' H200")
    for answer in answers:
        table.add_row(_text(answer.text), _answer(answer.value, answer.at_least, answer.unit), _rules(answer))
    return table


def _rules(answer: Answer) -> str:
    return "" if answer.rules is None else _answer(answer.rules, False, answer.unit)


def _answer(value: float | None, at_least: bool, unit: str) -> str:
    if value is None:
        return "none"
    return ("at least " if at_least else "") + value_text(value, unit)


def _grid(measured: Measured) -> Table:
    places = sorted({point.x for point in measured.points if point.x is not None})
    table = _table("", *(axis_text(place, measured.axis) for place in places))
    for label in dict.fromkeys(point.label for point in measured.points):
        cells = {point.x: _cell(point, measured.unit) for point in measured.points if point.label == label}
        table.add_row(_text(label), *(cells.get(place, Text("-", "dim")) for place in places))
    return table


def _list(measured: Measured) -> Table:
    asked = any(point.said is not None for point in measured.points)
    table = _table("", measured.unit, "" if asked else "one step")
    for point in measured.points:
        table.add_row(_text(point.label), _cell(point, measured.unit), _verdict(point) if asked else _step(point))
    return table


def _step(point: Point) -> str:
    return f"{ms_text(point.per_step)} ms" if point.per_step is not None else ""


def _verdict(point: Point) -> Text:
    """Whether it waits, and what the rules say where they say something else."""
    words = {True: "waits", False: "does not wait"}
    found = Text(words[bool(point.waits)])
    if point.waits != point.said:
        found = Text(f"{found} (the rules: {words[bool(point.said)]})", "bold red")
    return found


def axis_text(place: float, axis: str | None) -> str:
    """A place on the axis, for the head of a column or a tick."""
    if axis == "bytes":
        return short_size(place)
    return f"{place:,.0f} ms" if axis == "ms" else f"{place:,.0f}"


def _cell(point: Point, unit: str) -> Text:
    text = Text(value_cell(point.value, unit))
    if point.at_least:
        text = Text("> ") + text
    if point.waits is not None and point.said is None:
        text.stylize(_EDGE_STYLES[point.waits])
    return text


def value_cell(value: Spread, unit: str) -> str:
    """The median; where the repetitions lie far apart, their range below it."""
    write = ms_text if unit == "ms" else "{:,.0f}".format
    if not value.wide or value.high < _JITTER or write(value.low) == write(value.high):
        return write(value.median)
    return f"{write(value.median)}\n{write(value.low)}-{write(value.high)}"


def _difference(difference: Difference) -> RenderableType:
    head = Text.assemble((difference.id, "bold"), f"  ({difference.kind})")
    code = Text("\n".join(f"    {line}" for line in difference.code.splitlines()), "cyan")
    said = Text.assemble(
        ("  stored: ", "dim"), difference.stored.words, ("\n  here:   ", "dim"), (difference.here.words, "red")
    )
    return Group(head, code, said)


def _machine(machine: Machine) -> Text:
    parts = [
        f"driver {machine.driver}" if machine.driver else "",
        f"CUDA {machine.cuda}" if machine.cuda else "",
        f"torch {machine.torch}",
        machine.link or "",
        "reads pageable memory itself" if machine.reads_pageable else "",
    ]
    return Text.assemble((machine.gpu, "bold"), *(f" · {part}" for part in parts if part))


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if number else "left", overflow="fold", no_wrap=bool(number))
    return table


def plain(label: str) -> str:
    """A label without the marks that Markdown needs."""
    return label.replace("`", "")


def _text(label: str) -> Text:
    """A label as it is: rich would read brackets in a string as its own marks."""
    return Text(plain(label))
