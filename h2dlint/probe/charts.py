"""The results as plots: one a measurement, as PNG and SVG, that read on light and on dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from h2dlint.probe.report import axis_text, plain
from h2dlint.probe.results import Machine, Measured, Point, Results
from h2dlint.probe.units import ms_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#7d828c"
"""Text and axes: a contrast of about 4 both on white and on the dark theme's background."""
COLORS = {
    "pageable": "#d9534f",
    "gapped": "#dd8a26",
    "first": "#a478d1",
    "snapshot": "#4a90d9",
    "pinned": "#2fa36b",
    "rows": "#1fa5b0",
    "device": "#2fa36b",
    "host": "#8a909a",
}
"""By what decides the copy (`Form.kind`): the same memory has the same color in all plots."""
_MARKERS = {
    "pageable": "o",
    "gapped": "s",
    "first": "D",
    "snapshot": "v",
    "pinned": "^",
    "rows": "P",
    "device": "X",
    "host": "*",
}
_AXES = {"bytes": "bytes a copy", "rows": "rows", "ms": "queued work, ms"}
_LOG_VALUES = ("single-copy", "queue-depth", "in-flight", "pin-cost", "row-counts", "downloads")
"""Measurements whose values span decades."""
WIDTH, HEIGHT = 8.0, 4.2
"""Inches."""


def draw_all(results: Results, folder: Path) -> list[Path]:
    """Draws every measurement into a folder, which is made where it is missing; the files that were written.

    Raises:
        OSError: a file cannot be written.
    """
    from matplotlib import rc_context

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with rc_context(_style()):
        for measured in results.measurements:
            if not measured.points:
                continue
            figure = draw(measured, results.machine)
            for ending in ("png", "svg"):
                path = folder / f"{measured.name}.{ending}"
                # No date: the same results give the same file.
                metadata = {"Date": None} if ending == "svg" else {"Software": None}
                figure.savefig(path, metadata=metadata, transparent=True)
                written.append(path)
    return written


def draw(measured: Measured, machine: Machine) -> Figure:
    """One measurement: lines over its axis, or bars where it has none."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.06)
    if measured.axis is None:
        figure = Figure(figsize=(WIDTH, 1.5 + 0.24 * len(measured.points)), layout=layout)
        axes = figure.subplots()
        _bars(axes, measured)
    else:
        figure = Figure(figsize=(WIDTH, HEIGHT), layout=layout)
        axes = figure.subplots()
        _lines(axes, measured)
    figure.suptitle(plain(measured.title), x=0.01, ha="left", fontsize=12, fontweight="bold", color=INK)
    figure.supxlabel(f"{machine.gpu}, torch {machine.torch}", x=0.99, ha="right", fontsize=8, color=INK)
    return figure


def _lines(axes: Axes, measured: Measured) -> None:
    labels = list(dict.fromkeys(point.label for point in measured.points))
    for behind, label in zip(reversed(range(len(labels))), labels, strict=True):
        points = sorted((point for point in measured.points if point.label == label), key=lambda point: point.x or 0.0)
        _line(axes, plain(label), points, behind)
    if measured.gpu_done is not None:
        axes.axhline(measured.gpu_done, color=INK, linestyle="--", linewidth=1.2, label="the GPU is done")
    axes.set_xscale("log", base=2)
    shown = spaced(sorted({point.x for point in measured.points if point.x is not None}))
    axes.set_xticks(shown, [axis_text(place, measured.axis).removesuffix(" ms") for place in shown])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(_AXES[measured.axis or "bytes"])
    axes.set_ylabel("host held, ms" if measured.unit == "ms" else measured.unit)
    if measured.name in _LOG_VALUES:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    else:
        axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2)


def spaced(places: Sequence[float]) -> list[float]:
    """The places on a logarithmic axis that are far enough apart to be labelled: a fifteenth of its length."""
    apart = (places[-1] / places[0]) ** (1 / 15)
    shown: list[float] = []
    for place in places:
        if not shown or place >= shown[-1] * apart:
            shown.append(place)
    return shown


def _line(axes: Axes, label: str, points: Sequence[Point], behind: int) -> None:
    """One form. Lines that others may cover are wider: `behind` is how many are drawn after it."""
    kind = points[0].kind
    xs = [point.x or 0.0 for point in points]
    axes.plot(
        xs,
        [point.value.median for point in points],
        color=COLORS[kind],
        marker=_MARKERS[kind],
        label=label,
        linewidth=1.4 + 0.6 * behind,
        markersize=4.5 + 0.8 * behind,
    )
    if len(xs) > 1:
        low, high = ([getattr(point.value, end) for point in points] for end in ("low", "high"))
        axes.fill_between(xs, low, high, color=COLORS[kind], alpha=0.18, linewidth=0)
    beyond = [point for point in points if point.at_least]
    axes.plot(
        [point.x or 0.0 for point in beyond],
        [point.value.median * 1.12 for point in beyond],
        linestyle="none",
        marker=r"$\uparrow$",
        markersize=9,
        color=COLORS[kind],
    )


def _bars(axes: Axes, measured: Measured) -> None:
    points = measured.points
    places = range(len(points))
    longest = max(point.value.median for point in points)
    axes.barh(places, [point.value.median for point in points], color=list(map(_bar_color, points)), height=0.7)
    for place, point in zip(places, points, strict=True):
        inside = point.value.median > 0.8 * longest  # beside it there may be the line that tells when the GPU is done
        axes.text(
            point.value.median + longest * (-0.01 if inside else 0.01),
            place,
            ms_text(point.value.median),
            ha="right" if inside else "left",
            va="center",
            fontsize=8,
            color="white" if inside else INK,
        )
    if measured.gpu_done is not None:
        axes.axvline(measured.gpu_done, color=INK, linestyle="--", linewidth=1.2)
    axes.set_yticks(places, [plain(point.label) for point in points], fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, longest * 1.1)
    axes.set_ylim(len(points) - 0.4, -0.6)
    axes.set_xlabel("host held, ms")
    axes.grid(axis="x")


def _bar_color(point: Point) -> str:
    """By the memory that decides; where the question is whether it waits, by the answer."""
    if point.said is not None:
        return COLORS["pageable" if point.waits else "pinned"]
    return COLORS[point.kind]


def _style() -> dict[Any, Any]:
    return {
        "axes.axisbelow": True,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "font.family": "sans-serif",
        "font.size": 10,
        "grid.alpha": 0.35,
        "grid.color": INK,
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "legend.labelcolor": INK,
        "lines.markersize": 5,
        "savefig.dpi": 160,
        "svg.fonttype": "none",
        "svg.hashsalt": "h2dlint",
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
    }
