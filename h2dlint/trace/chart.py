"""The time that each line cost, as a bar chart. Needs matplotlib, which the extra `torch` brings along."""

from __future__ import annotations

import os
from collections.abc import Sequence

from h2dlint.facts.copies import Verdict
from h2dlint.trace.report import costly, milliseconds, place
from h2dlint.trace.trace_file import Seen, Trace, TraceError

KINDS = (".png", ".svg", ".pdf")
_COLORS = {Verdict.FAKE_ASYNC: "#c0392b", Verdict.BLOCKING: "#8e6bbf"}
_LONGEST = 48


def check_kind(file: str) -> None:
    """Raises TraceError where a chart cannot be drawn into such a file, before the program has run for it."""
    if not file.lower().endswith(KINDS):
        raise TraceError(f"a chart is written as {', '.join(KINDS)}, not as {file}")
    _matplotlib()


def draw(trace: Trace, file: str, top: int) -> None:
    """Draws the costliest lines into a file. Raises TraceError where that cannot be done."""
    check_kind(file)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    shown = costly(trace, top)[::-1]
    figure = Figure(figsize=(9, 1.4 + 0.34 * max(len(shown), 1)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    bars = axes.barh(_labels(shown), [one.total_ms for one in shown], color=[_COLORS[one.verdict] for one in shown])
    axes.bar_label(bars, [f" {milliseconds(one.total_ms)}, {one.calls:,}x" for one in shown], fontsize=8)
    axes.margins(x=0.18)
    axes.set_xlabel("host time in the calls of each line, ms")
    axes.set_title(f"Copies that wait, {trace.seconds:.1f} s on {', '.join(trace.accelerators) or 'no accelerator'}")
    axes.tick_params(axis="y", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    there = {one.verdict for one in shown}
    patches = [Patch(color=color, label=kind.value) for kind, color in _COLORS.items() if kind in there]
    if patches:
        axes.legend(handles=patches, loc="lower right")
    else:
        axes.text(0.5, 0.5, "no copy made the host wait", ha="center", transform=axes.transAxes)
    try:
        figure.savefig(file, dpi=150)
    except OSError as error:
        raise TraceError(f"{file} cannot be written: {error.strerror or error}") from error


def _labels(shown: Sequence[Seen]) -> list[str]:
    labels: list[str] = []
    for one in shown:
        where = place(one)
        where = where if len(where) <= _LONGEST else f"...{os.sep}{where[-_LONGEST:]}"
        label = f"{where} {one.call}"
        labels.append(label if label not in labels else f"{label} ({one.column})" + " " * labels.count(label))
    return labels


def _matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise TraceError("a chart needs matplotlib: pip install 'h2dlint[torch]', or matplotlib itself") from None
