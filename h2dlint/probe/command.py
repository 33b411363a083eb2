"""`h2dlint probe`: what is missing, what is run, where the results go."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import msgspec

from h2dlint.cli import EXIT_ERROR
from h2dlint.probe.display import bar
from h2dlint.probe.needs import missing_gpu, missing_plots, missing_torch
from h2dlint.probe.results import Results
from h2dlint.probe.truth import Comparison

EXIT_DIFFERENT = 1


def probe_gpu(
    truth: bool, only: Sequence[str], device: int, output_format: str | None, out: str | None, color: bool
) -> int:
    """Measures, or runs the stored forms again, and writes what came out.

    Returns:
        The exit status: 1 if stored forms differ, 2 if no measurement could be made, else 0.

    Raises:
        click.ClickException: something that is needed is missing here, or a name is unknown.
    """
    if truth and only:
        raise click.UsageError("`--only` chooses measurements, and `--truth` makes none: give one of them")
    wanted = _wanted(only)
    problem = missing_torch() or (missing_plots() if out is not None and not truth else None) or missing_gpu(device)
    if problem is not None:
        raise Missing(problem)
    folder = _folder(out) if out is not None else None
    import torch

    torch.cuda.set_device(device)
    found: Results | Comparison = _compare() if truth else _measure(wanted)
    if folder is not None:
        _write(found, folder)
    if output_format == "json":
        click.echo(encoded(found))
    else:
        _show(found, color)
    if isinstance(found, Comparison):
        return EXIT_DIFFERENT if found.differences else 0
    return 0 if found.measurements else EXIT_ERROR


class Missing(click.ClickException):
    """Something that the probe needs is not here."""

    exit_code = EXIT_ERROR

    def show(self, file: object = None) -> None:
        """One line on stderr, as all of h2dlint's messages."""
        click.echo(f"h2dlint: {self.message}", err=True)


def encoded(found: Results | Comparison) -> str:
    """The results as JSON, indented."""
    return msgspec.json.format(msgspec.json.encode(found), indent=1).decode()


def _wanted(only: Sequence[str]) -> list[str]:
    """The names of the measurements to make; all if none is named."""
    from h2dlint.config import nearest
    from h2dlint.probe.measurements import MEASUREMENTS

    known = [one.name for one in MEASUREMENTS]
    names = [name.strip() for value in only for name in value.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise click.UsageError(f"no measurement `{name}`{nearest(name, known)}")
    return [name for name in known if not names or name in names]


def _measure(wanted: Sequence[str]) -> Results:
    from h2dlint.probe.machine import this_machine
    from h2dlint.probe.measurements import MEASUREMENTS
    from h2dlint.probe.run import run_all
    from h2dlint.probe.torch_gpu import TorchGpu

    chosen = [one for one in MEASUREMENTS if one.name in wanted]
    with bar(sum(one.seconds for one in chosen), enabled=True) as progress:
        return run_all(TorchGpu(), this_machine(), chosen, progress)


def _compare() -> Comparison:
    from h2dlint.probe.machine import this_machine
    from h2dlint.probe.stored_forms import read_table, stored_tables
    from h2dlint.probe.truth import compare
    from h2dlint.probe.truth_gpu import Broken, run_forms

    began = time.monotonic()
    tables = [read_table(path) for path in stored_tables()]
    forms = [form for table in tables for form in table.forms]
    with bar(len(forms), enabled=True) as progress:
        try:
            here = run_forms(forms, lambda done: progress("forms", done))
        except Broken as error:
            raise Missing(str(error)) from error
    differences = compare(forms, here)
    first = tables[0]
    return Comparison(
        this_machine(),
        f"{first.gpu} · driver {first.driver} · CUDA {first.cuda} · torch {first.torch}",
        round(time.monotonic() - began, 1),
        len(here),
        len(here) - len(differences),
        tuple(differences),
    )


def _folder(out: str) -> Path:
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.FileError(out, error.strerror or str(error)) from error
    if not os.access(folder, os.W_OK):
        raise click.FileError(out, "not writable")
    return folder


def _write(found: Results | Comparison, folder: Path) -> None:
    """The JSON and, of measurements, the plots."""
    name = "probe.json" if isinstance(found, Results) else "truth.json"
    written = [folder / name]
    written[0].write_text(encoded(found) + "\n", encoding="utf-8")
    if isinstance(found, Results):
        from h2dlint.probe.charts import draw_all

        written += draw_all(found, folder)
    click.echo(f"h2dlint: wrote {len(written)} {'file' if len(written) == 1 else 'files'} to {folder}", err=True)


def _show(found: Results | Comparison, color: bool) -> None:
    from rich.console import Console

    from h2dlint.probe.report import show_comparison, show_results

    width = None if sys.stdout.isatty() else 120
    console = Console(file=sys.stdout, width=width, force_terminal=color, no_color=not color, soft_wrap=False)
    show: Callable[[], None] = (
        (lambda: show_results(found, console))
        if isinstance(found, Results)
        else (lambda: show_comparison(found, console))
    )
    show()
