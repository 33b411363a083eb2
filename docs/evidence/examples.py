"""The example programs before and after `h2dlint check --fix --unsafe-fixes`: what a step costs, and who waits.

    python docs/evidence/examples.py [RESULT.json]

For each program: the wall time of a step, how far ahead of the GPU the host is after all of them, the milliseconds a
step that it spends in copies and in waits, and the copies by the profiler's own tag. Needs torch with CUDA, and h2dlint
installed; takes about half a minute.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any, NamedTuple

import torch
from _gpu import cycles_of, need_gpu
from torch.profiler import ProfilerActivity, profile

from h2dlint.probe.torch_gpu import spin
from h2dlint.probe.truth import copy_kind

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
WARM_UP, STEPS, ROUNDS = 5, 30, 5
BUSY_MS = 10.0
"""Other work for the GPU in each step, in a second series: a model that is large enough to keep the GPU busy."""
COPY_CALLS = ("cudaMemcpyAsync", "cudaMemcpy")
WAIT_CALLS = ("cudaStreamSynchronize", "cudaEventSynchronize")


class Program(NamedTuple):
    """One running program."""

    step: Callable[[], object]
    never_asked: int
    """Copies of its construction that do not ask for `non_blocking`: the parameters of a model."""


def training(module: ModuleType) -> Program:
    """The training program, without its own loop."""
    device = torch.device("cuda")
    tokens = module.repeating_tokens(200_000, seed=1)
    counts = torch.bincount(torch.from_numpy(tokens), minlength=module.VOCABULARY)
    trainer = module.Trainer(device, counts)
    stream = module.TokenStream(tokens, seed=2)
    trainer.evaluate(stream.windows())
    return Program(lambda: trainer.step(stream.windows()), len(list(trainer.model.parameters())))


def serving(module: ModuleType) -> Program:
    """The serving program, without its own loop; the requests grow by a token a step."""
    engine = module.Engine(module.ServingConfig(new_scheduler=False))
    engine.ban([0, 1, 2])
    requests = [module.Request(tokens=[17 * row + place for place in range(20 + row)]) for row in range(8)]
    for request in requests:
        engine.admit(request)
    return Program(lambda: engine.step(requests), 0)


PROGRAMS: dict[str, Callable[[ModuleType], Program]] = {"training_step.py": training, "serving_step.py": serving}


def main(result: str | None) -> None:
    """Prints a table, and writes it as JSON where a file is named."""
    need_gpu()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        fixed = Path(scratch) / "examples"
        shutil.copytree(EXAMPLES, fixed, ignore=shutil.ignore_patterns("__pycache__"))
        command = [sys.executable, "-m", "h2dlint", "check", "--isolated", "--fix", "--unsafe-fixes", str(fixed)]
        print(subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False).stdout.strip())
        for name, start in PROGRAMS.items():
            folders = {"before": EXAMPLES, "after": fixed}
            modules = {state: loaded(folder / name, state) for state, folder in folders.items()}
            for state, row in compared(start, modules).items():
                rows.append({"program": name, "state": state, **row})
                print(json.dumps(rows[-1]), flush=True)
    if result is not None:
        Path(result).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def compared(start: Callable[[ModuleType], Program], modules: dict[str, ModuleType]) -> dict[str, dict[str, Any]]:
    """All figures of one program in each of its states, timed in turns: what else the machine does falls on all."""
    programs: dict[str, Program] = {}
    figures: dict[str, dict[str, Any]] = {}
    for state, module in modules.items():
        torch.manual_seed(0)
        with watched() as seen:
            programs[state] = program = start(module)
            for _ in range(WARM_UP):
                program.step()
            torch.cuda.synchronize()
        figures[state] = {"copies_of_start_and_warm_up": tags(seen), "of_them_never_asked": program.never_asked}
    steps = {state: program.step for state, program in programs.items()}
    cycles = cycles_of(BUSY_MS)
    busy = {state: partial(behind_work, step, cycles) for state, step in steps.items()}
    for series, timed_steps in (("alone", steps), (f"beside_{BUSY_MS:g}_ms_of_work", busy)):
        for state, found in times(timed_steps).items():
            figures[state][series] = found
    return figures


def behind_work(step: Callable[[], object], cycles: int) -> None:
    """A step of a program that has more work for the GPU."""
    spin(cycles)
    step()


def times(steps: dict[str, Callable[[], object]]) -> dict[str, dict[str, Any]]:
    """Of each: wall time of a step, the lead of the host at the end, time in copies and in waits, copies by tag."""
    rounds = [{state: timed(step) for state, step in steps.items()} for _ in range(ROUNDS)]
    found: dict[str, dict[str, Any]] = {}
    for state, step in steps.items():
        with watched() as seen:
            for _ in range(STEPS):
                step()
            torch.cuda.synchronize()
        found[state] = {
            "step_ms": round(median(one[state][0] for one in rounds), 3),
            "lead_ms": round(median(one[state][1] for one in rounds), 1),
            "in_copies_ms": round(host_time(seen, COPY_CALLS, crossing(seen)), 3),
            "in_waits_ms": round(host_time(seen, WAIT_CALLS), 3),
            f"copies_of_{STEPS}_steps": tags(seen),
        }
    return found


def crossing(seen: profile) -> set[int]:
    """What copies between host and device have in common with the calls that issued them: their correlation ids."""
    kinds = {event.id: copy_kind(event.name) for event in seen.events() if event.device_type.name != "CPU"}
    return {number for number, kind in kinds.items() if kind is not None and kind[0] != "d2d"}


def host_time(seen: profile, names: tuple[str, ...], ids: set[int] | None = None) -> float:
    """Milliseconds a step that the host spends in calls of these names, all of them or those with these ids."""
    calls = [event for event in seen.events() if event.name in names and (ids is None or event.id in ids)]
    return sum(event.time_range.elapsed_us() for event in calls) / 1000 / STEPS


def watched() -> profile:
    """A profiler that sees the host's calls and the device's copies."""
    return profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])


def timed(step: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds of wall time a step, and how long the GPU is still busy when the host has issued them all."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(STEPS):
        step()
    issued = time.perf_counter()
    torch.cuda.synchronize()
    end = time.perf_counter()
    return (end - start) * 1000 / STEPS, (end - issued) * 1000


def tags(seen: profile) -> dict[str, int]:
    """How many copies of each kind a profile shows."""
    found: dict[str, int] = {}
    for event in seen.events():
        kind = copy_kind(event.name)
        if kind is not None and kind[1] is not None:
            name = f"{kind[0]} {kind[1]}"
            found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items()))


def loaded(path: Path, state: str) -> ModuleType:
    """A program as a module of its own."""
    name = f"{path.stem}_{state}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
