"""How best to send a slice that leaves gaps: by its number of rows."""

from __future__ import annotations

from h2dlint.probe.bench import Bench, step_cost, totals
from h2dlint.probe.forms_table import COLUMNS, SLICES
from h2dlint.probe.results import Answer, Measured, Point

NAME = "row-counts"
TITLE = "`[:, :1024]` of a `[rows, 1025]` int64 buffer"
ROWS = (2, 3, 8, 16, 32, 64, 256, 1024)
STEPS, WORK = 20, 5.0


def measure(bench: Bench) -> Measured:
    """Each way to send the slice, in a loop of steps."""
    grid = [(name, rows) for name in SLICES for rows in ROWS if rows * (COLUMNS + 1) * 8 * 64 <= bench.gpu.room()]
    points = []
    for name, rows in bench.each(grid):
        form = SLICES[name].of(name, size=COLUMNS * 8, rows=rows)
        loops = bench.loops(form, STEPS, WORK)
        points.append(Point(name, form.label, form.kind, rows, totals(loops), per_step=step_cost(loops)))
    return Measured(
        NAME,
        TITLE,
        f"Host milliseconds for {STEPS} steps of {WORK:g} ms of GPU work, each of which sends the slice once. The GPU "
        f"takes {STEPS * WORK:g} ms: a host that is held as long has lost its lead.",
        "rows",
        "ms",
        tuple(points),
        (_crossover(points),),
        gpu_done=STEPS * WORK,
    )


def _crossover(points: list[Point]) -> Answer:
    """Up to how many rows one copy a row is as fast as gathering and pinning, to a tenth."""
    took = {(point.form, point.x): point.value.median for point in points}
    rows = None
    for number in ROWS:
        by_row, gathered = took.get(("rows", number)), took.get(("gathered", number))
        if by_row is None or gathered is None or by_row > 1.1 * gathered:
            break
        rows = number
    text = "rows up to which row by row is no slower than `.contiguous().pin_memory()`"
    return Answer("rows_crossover", text, "rows", rows, rules=3)
