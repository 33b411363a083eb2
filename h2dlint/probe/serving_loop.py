"""A loop as in serving: many steps of GPU work, and what each sends. The host should be far ahead of the GPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from h2dlint.probe.bench import Bench, step_cost, totals
from h2dlint.probe.forms_table import POSITION_IDS, SLICES, STEPS, Form
from h2dlint.probe.results import Measured, Point

TENSORS_NAME, SLICES_NAME, IDS_NAME = "loop-tensors", "loop-slices", "loop-ids"
LOOP_STEPS, WORK = 60, 5.0
TENSORS = 6
SIZES = (2 << 10, 32 << 10, 256 << 10, 2 << 20)
ROWS = 3
COLUMNS = (4_096, 65_536, 524_288)
_GPU_DONE = LOOP_STEPS * WORK
_HOW = (
    f"Milliseconds until the host has issued {LOOP_STEPS} steps of {WORK:g} ms of GPU work. The GPU takes "
    f"{_GPU_DONE:g} ms: the closer the host is to that, the less it is ahead. `First loop` begins with no page-locked "
    "block in torch's cache; the others have what the loop before left."
)


def measure_tensors(bench: Bench) -> Measured:
    """Six tensors a step, of four sizes."""
    forms = [(template.of(name, size, copies=TENSORS), size) for name, template in STEPS.items() for size in SIZES]
    return Measured(
        TENSORS_NAME,
        f"A loop that sends {TENSORS} tensors a step",
        _HOW,
        "bytes",
        "ms",
        _points(bench, forms),
        gpu_done=_GPU_DONE,
    )


def measure_slices(bench: Bench) -> Measured:
    """Three rows of a wider buffer a step, of three widths."""
    forms = [
        (SLICES[name].of(name, columns * 8, ROWS, columns=columns), columns * 8)
        for name in ("gapped", "rows", "gathered")
        for columns in COLUMNS
    ]
    title = f"A loop that sends `[:, :n]` of a pinned `[{ROWS}, n + 1]` int64 buffer"
    return Measured(SLICES_NAME, title, _HOW, "bytes", "ms", _points(bench, forms), gpu_done=_GPU_DONE)


def measure_ids(bench: Bench) -> Measured:
    """Position ids of a 64 x 64 grid over 4 frames."""
    forms = [(template.of(name), None) for name, template in POSITION_IDS.items()]
    return Measured(
        IDS_NAME, "A loop that needs position ids", _HOW, None, "ms", _points(bench, forms), gpu_done=_GPU_DONE
    )


def _points(bench: Bench, forms: Sequence[tuple[Form, int | None]]) -> tuple[Point, ...]:
    found: list[Point] = []
    for form, x in bench.each(forms):
        found.extend(_of(bench, form, x))
    return tuple(sorted(found, key=lambda point: [one.form for one in found].index(point.form)))


def _of(bench: Bench, form: Form, x: int | None) -> Iterable[Point]:
    if form.kind == "snapshot":
        first = bench.loops(form, LOOP_STEPS, WORK, forgetting=True)
        label = f"{form.label}, first loop"
        yield Point(f"{form.name}-first", label, "first", x, totals(first), per_step=step_cost(first))
    loops = bench.loops(form, LOOP_STEPS, WORK)
    yield Point(form.name, form.label, form.kind, x, totals(loops), per_step=step_cost(loops))
