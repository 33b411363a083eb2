"""The results for people: one table a measurement, then what follows beside what the rules are built on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from h2dlint.probe.results import Answer, Machine, Measured, Point, Results
from h2dlint.probe.spread import Spread
from h2dlint.probe.truth import Comparison, Difference
from h2dlint.probe.units import ms_text, short_size, value_text

_Layout = Callable[[Measured], RenderableType]
_JITTER = 0.2
"""Below this many milliseconds, or copies, a range would only show the jitter of a call."""
_BOUNDLESS = 10_000
_SHORT = 10
"""Characters of a name that can head a column of figures."""
_EDGE_STYLES = {True: "red", False: "green"}


def show_results(results: Results, console: Console) -> None:
    """Prints a run of the probe."""
    console.print(_machine(results.machine), highlight=False)
    told = ""
    for measured in results.measurements:
        note = "As above." if measured.note == told else plain(told := measured.note)
        console.print()
        console.print(measured_table(measured, note, console), highlight=False)
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


def measured_table(measured: Measured, note: str, console: Console) -> RenderableType:
    """The points of one measurement below its title and a note, in the widest of the layouts that fits the console."""
    layouts: tuple[_Layout, ...] = (_list,) if measured.axis is None else (_grid, _narrow_grid, _turned_grid)
    tables = [layout(measured) for layout in layouts]
    boundless = console.options.update(width=_BOUNDLESS)
    fitting = (table for table in tables if console.measure(table, options=boundless).maximum <= console.width)
    body = next(fitting, tables[-1])
    head = Text.assemble((plain(measured.title), "bold"), ("\n" + note, "dim"))
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


def _grid(measured: Measured, ranges: bool = True) -> RenderableType:
    """Forms down, the axis across."""
    places = _places(measured)
    table = _table("", *(axis_text(place, measured.axis) for place in places))
    for label in _labels(measured):
        table.add_row(_text(label), *(_at(measured, label, place, ranges) for place in places))
    return table


def _narrow_grid(measured: Measured) -> RenderableType:
    """The same without ranges."""
    return _grid(measured, ranges=False)


def _turned_grid(measured: Measured) -> RenderableType:
    """The axis down, forms across: by their names if those are short, else by numbers that stand for them."""
    labels = _labels(measured)
    short = all(len(label) <= _SHORT for label in labels)
    table = _table("", *(labels if short else (f"({number})" for number in range(1, len(labels) + 1))))
    for place in _places(measured):
        cells = [_at(measured, label, place, ranges=False) for label in labels]
        table.add_row(axis_text(place, measured.axis), *cells)
    if short:
        return table
    names = [Text(f"({number}) {plain(label)}", "dim") for number, label in enumerate(labels, 1)]
    return Group(table, *names)


def _places(measured: Measured) -> list[float]:
    return sorted({point.x for point in measured.points if point.x is not None})


def _labels(measured: Measured) -> list[str]:
    return list(dict.fromkeys(point.label for point in measured.points))


def _at(measured: Measured, label: str, place: float, ranges: bool) -> Text:
    """The cell of a form at a place of the axis."""
    points = [point for point in measured.points if point.label == label and point.x == place]
    return _cell(points[0], measured.unit, ranges) if points else Text("-", "dim")


def _list(measured: Measured) -> RenderableType:
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


def _cell(point: Point, unit: str, ranges: bool = True) -> Text:
    text = Text(value_cell(point.value, unit, ranges))
    if point.at_least:
        text = Text("> ") + text
    if point.waits is not None and point.said is None:
        text.stylize(_EDGE_STYLES[point.waits])
    return text


def value_cell(value: Spread, unit: str, ranges: bool = True) -> str:
    """The median; where the repetitions lie far apart, their range below it, if ranges are wanted."""
    write = ms_text if unit == "ms" else "{:,.0f}".format
    if not ranges or not value.wide or value.high < _JITTER or write(value.low) == write(value.high):
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
