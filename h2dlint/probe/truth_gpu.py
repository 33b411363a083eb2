"""Runs the forms of the stored tables on the current GPU under torch's profiler."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from h2dlint.probe.stored_forms import PREAMBLE, StoredForm
from h2dlint.probe.truth import Event, Seen, marks_of, seen_between

BATCH = 64
"""Forms under one profiler: starting one costs more than running a form."""
_MARK = "h2dlint form "


class Broken(RuntimeError):
    """A form left the GPU in a state in which nothing runs any more."""


def run_forms(forms: Sequence[StoredForm], progress: Callable[[int], None]) -> dict[str, Seen]:
    """What each form does here, by its id. `progress` takes the number of forms that have run.

    Raises:
        Broken: a form broke the CUDA context; the message names it.
    """
    found: dict[str, Seen] = {}
    with _quiet():
        for start in range(0, len(forms), BATCH):
            batch = forms[start : start + BATCH]
            for form in batch:  # once without the profiler, so that nothing is set up for the first time under it
                _run(form, lambda: None)
            found.update(_profiled(batch))
            progress(start + len(batch))
    return found


def _profiled(batch: Sequence[StoredForm]) -> dict[str, Seen]:
    raised: dict[str, str] = {}
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for number, form in enumerate(batch):
            mark = record_function(f"{_MARK}{number}")
            error = _run(form, mark.__enter__)
            mark.__exit__(None, None, None)
            if error is not None:
                raised[form.id] = error
    events = [
        Event(one.name, one.time_range.start, one.time_range.end, one.device_type.name != "CPU")
        for one in seen.events()
    ]
    marks = marks_of(events, _MARK)
    found = {}
    for number, form in enumerate(batch):
        mark_seen = marks[str(number)]
        error = raised.get(form.id)
        found[form.id] = seen_between(events, mark_seen.start, mark_seen.end) if error is None else Seen(raises=error)
    return found


def _run(form: StoredForm, before_code: Callable[[], object]) -> str | None:
    """Runs a form; `before_code` is called when its setup is done. The name of what it raised, if it did."""
    names: dict[str, Any] = {"__name__": "__main__"}  # a module that can be looked up, as dataclasses do
    try:
        exec(compile(PREAMBLE + form.setup, f"<setup of {form.id}>", "exec"), names)
        torch.cuda.synchronize()
    except Exception as error:
        before_code()
        return _after_error(form, error)
    before_code()
    try:
        exec(compile(form.code, f"<{form.id}>", "exec"), names)
    except Exception as error:
        return _after_error(form, error)
    finally:
        _settle(form)
    return None


def _after_error(form: StoredForm, error: Exception) -> str:
    _settle(form)
    return type(error).__name__


def _settle(form: StoredForm) -> None:
    """Waits for what the form queued, and undoes what it set for the whole process."""
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        raise Broken(f"the form `{form.id}` broke the GPU's context: {error}") from error
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)


@contextmanager
def _quiet() -> Iterator[None]:
    """Forms print and warn; collecting garbage between two of them keeps memory flat."""
    with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            gc.collect()
