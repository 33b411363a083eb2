"""Runs on a GPU: what a trace says of small forms of copies, beside what CUDA's profiler says; and what it costs.

    python tests/trace_proof.py forms OUT.json         every form of the truth tables, and some more
    python tests/trace_proof.py overhead OUT.json      the cost of a call and of a training step under a trace
    python tests/trace_proof.py step OUT.json FILE.py  time a step of examples/training_step.py or serving_step.py

Needs torch, numpy and msgspec alone. test_trace_truth.py holds what came out against the tables and the analyser.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
import tempfile
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import h2dlint.trace
from h2dlint.probe.stored_forms import PREAMBLE, stored_tables
from h2dlint.trace.trace_file import Seen

DATA = stored_tables()[0].parent
TABLES = tuple(table.name for table in stored_tables())

X = "x = torch.zeros(4, 6).pin_memory()\n"
P = "x = torch.zeros(4, 6)\n"
G = 'g = torch.randn(4, 6, device="cuda")\n'
D = 'd = torch.empty(4, 6, device="cuda")\n'
H = "h = torch.empty(4, 6, pin_memory=True)\n"
MORE: dict[str, tuple[str, str]] = {
    "cast-up": (X, "y = x.to(device, torch.half, non_blocking=True)"),
    "cast-up-permuted": (X, "y = x.t().to(device, torch.half, non_blocking=True)"),
    "cast-up-gapped": (X, "y = x[:, :3].to(device, torch.half, non_blocking=True)"),
    "cast-up-copy": (X + D, "d.copy_(x.long().pin_memory(), non_blocking=True)"),
    "cast-up-copy-permuted": (X + D, "d.t().copy_(x.long().pin_memory().t(), non_blocking=True)"),
    "cast-up-broadcast": (X + D, "d.copy_(x[0].long().pin_memory(), non_blocking=True)"),
    "cast-up-blocking": (X, "y = x.to(device, torch.half)"),
    "cast-up-copy-blocking": (X + D, "d.copy_(x.long().pin_memory())"),
    "cast-down-blocking": (G + H, "h.copy_(g.half())"),
    "cast-down-permuted": (G + H, "h.t().copy_(g.half().t(), non_blocking=True)"),
    "cast-down-to-permuted": (G, 'y = g.t().to("cpu", torch.half, non_blocking=True)'),
    "permuted-up-blocking": (X, "y = x.t().to(device)"),
    "gapped-up-blocking": (X, "y = x[:, :3].to(device)"),
    "channels-last-in-the-call": (
        "x = torch.zeros(2, 3, 4, 5).pin_memory()\n",
        "y = x.to(device, memory_format=torch.channels_last, non_blocking=True)",
    ),
    "channels-last-kept": (
        "x = torch.empty(2, 3, 4, 5, pin_memory=True).to(memory_format=torch.channels_last).pin_memory()\n",
        "y = x.to(device, non_blocking=True)",
    ),
    "permuted-into-gapped": (
        X + 'd = torch.empty(6, 5, device="cuda")\n',
        "d[:, :4].copy_(x.t(), non_blocking=True)",
    ),
    "column-into-column": (X + D, "d[:, :1].copy_(x[:, :1], non_blocking=True)"),
    "one-row-of-many": (X + D, "d[1:2, :3].copy_(x[1:2, :3], non_blocking=True)"),
    "spread-rows": (X + D, "d.copy_(x[:1], non_blocking=True)"),
    "both-spread-by-one": (X + 'd = torch.empty(1, 4, 6, device="cuda")\n', "d.copy_(x, non_blocking=True)"),
    "foreach-mixed": (X + P.replace("x", "p") + D, "torch._foreach_copy_([d, d], [x, p], non_blocking=True)"),
    "foreach-blocking": (X + D, "torch._foreach_copy_([d], [x])"),
    "parameter": ("m = torch.nn.Linear(3, 4)\n", "m.weight.data = m.weight.data.to(device, non_blocking=True)"),
    "module": ("m = torch.nn.Linear(3, 4)\n", "m.to(device, non_blocking=True)"),
    "load-state-dict": (
        "m = torch.nn.Linear(3, 4)\ng = torch.nn.Linear(3, 4, device='cuda')\n",
        "g.load_state_dict(m.state_dict())",
    ),
    "set-mask-value": (G, "g[g > 0] = torch.ones(1, device=device)"),
    "get-mask-2d": (G, "y = g[g > 0]"),
    "get-two-device-indices": (G + "i = torch.arange(3, device=device)\n", "y = g[i, i]"),
    "get-host-mask-2d": (G + "m = torch.ones(4, 6, dtype=torch.bool)\n", "y = g[m]"),
    "get-list-of-bools": (G, "y = g[[True, False, True, False]]"),
    "get-nested-list": (G, "y = g[[[0, 1]]]"),
    "get-ellipsis-list": (G, "y = g[..., [0, 1]]"),
    "set-ellipsis-element": (G, "g[..., 0, 0] = 1.0"),
    "set-column-of-host": (G, "g[:, 0] = torch.ones(4)"),
    "set-column-of-pinned": (G + H, "g[:, 0] = h[:, 0]"),
    "set-host-slice": (G + H, "h[:2] = g[:2]"),
    "set-host-gapped": (G + H, "h[:, :2] = g[:, :2]"),
    "item-of-slice": (G, "y = g[0, 0].item()"),
    "int-of-element": (G, "y = int(g[0, 0])"),
    "numpy-after-cpu": (G, "y = g.cpu().numpy()"),
    "down-in-thread": (
        G + "import threading\n",
        "t = threading.Thread(target=lambda: g.cpu())\nt.start()\nt.join()",
    ),
    "sparse-up": ("x = torch.eye(3).to_sparse()\n", "y = x.to(device, non_blocking=True)"),
    "complex-conj-up": (
        "x = torch.zeros(4, dtype=torch.complex64).pin_memory().conj()\n",
        "y = x.to(device, non_blocking=True)",
    ),
    "as-tensor-pinned-ndarray": ("x = torch.zeros(4).pin_memory().numpy()\n", "y = torch.as_tensor(x, device=device)"),
    "tensor-of-host-tensor": (P, "y = torch.tensor(x, device=device)"),
}


def main(job: str, out: str, *rest: str) -> None:
    """Does one of the jobs and writes what came out."""
    jobs: dict[str, Callable[..., dict[str, Any]]] = {"forms": forms, "overhead": overhead, "step": step}
    found = jobs[job](*rest)
    machine = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    Path(out).write_text(json.dumps({**machine, **found}, indent=0) + "\n", "utf-8")


# --- forms --------------------------------------------------------------------------------------------------------


def forms(*tables: str) -> dict[str, Any]:
    """Each form once under a trace; those of the first table, and some more, under the profiler as well."""
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for table in tables or TABLES:
            for form in json.loads((DATA / table).read_text("utf-8"))["forms"]:
                found.append(_form(folder, table, form["id"], form["setup"], form["code"], table == TABLES[0]))
        for name, (setup, code) in MORE.items():
            found.append({**_form(folder, "", name, setup, code + "\n", True), "setup": setup, "code": code + "\n"})
    return {"forms": found}


def _form(folder: str, table: str, name: str, setup: str, code: str, profiled: bool) -> dict[str, Any]:
    head = PREAMBLE + setup
    file = Path(folder, f"{name}.py")
    file.write_text(head + code, "utf-8")
    row: dict[str, Any] = {"id": name, "table": table, "seen": []}
    module = sys.modules["form"] = types.ModuleType("form")  # dataclasses look for the module of a class
    names = vars(module)
    body = compile("\n" * head.count("\n") + code, str(file), "exec")
    try:
        exec(compile(head, str(file), "exec"), names)
        torch.cuda.synchronize()
        with h2dlint.trace.record() as recording:
            if profiled:
                row["profile"] = _profiled(body, names)
            else:
                exec(body, names)
    except Exception as error:
        row["raises"] = f"{type(error).__name__}: {error}".split("\n")[0][:80]
    finally:
        torch.set_default_device(None)
        torch.cuda.synchronize()
    trace = recording.trace if "recording" in locals() else None
    row["seen"] = [_row(one) for one in sorted(trace.copies, key=lambda one: (one.line, one.column))] if trace else []
    missed = sum(process.missed for process in trace.processes) if trace else 0
    return {**row, "missed": missed} if missed else row


def _row(one: Seen) -> dict[str, Any]:
    return {
        "span": [one.line, one.column, one.end_line, one.end_column],
        "call": one.call,
        "direction": one.direction.value,
        "verdict": one.verdict.value,
        "pageable": one.pageable,
        "pinned": one.copies - one.pageable,
    }


def _profiled(body: Any, names: dict[str, Any]) -> dict[str, Any]:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        exec(body, names)
        torch.cuda.synchronize()
    tags = [event.name for event in seen.events()]
    kinds = {"HtoD": "h2d", "DtoH": "d2h"}
    copies = Counter(
        f"{kinds[short]} {'pageable' if 'Pageable' in tag else 'pinned'}"
        for tag in tags
        if tag.startswith("Memcpy")
        for short in kinds
        if short in tag
    )
    return {"copies": dict(sorted(copies.items())), "stream_syncs": tags.count("cudaStreamSynchronize")}


# --- overhead -----------------------------------------------------------------------------------------------------


def calls_to_time() -> dict[str, Callable[[], object]]:
    """What is timed, by a name for the documentation."""
    gpu, host, pinned = torch.ones(64, device="cuda"), torch.ones(64), torch.ones(64).pin_memory()
    index = torch.arange(3, device="cuda")

    def set_number() -> None:
        gpu[2:5] = 1.0

    return {
        "`pinned.to(device, non_blocking=True)`": lambda: pinned.to("cuda", non_blocking=True),
        "`device.copy_(pinned, non_blocking=True)`": lambda: gpu.copy_(pinned, non_blocking=True),
        "`device.copy_(pageable)`": lambda: gpu.copy_(host),
        "`device.item()`": lambda: gpu[0].item(),
        "`.to` of a tensor that is there": lambda: gpu.to("cuda"),
        "`device[3]`": lambda: gpu[3],
        "`device[index]`, both on the device": lambda: gpu[index],
        "`device[2:5] = 1.0`": set_number,
        "`host[3]`": lambda: host[3],
        "`host.item()`": lambda: host[0].item(),
        "`device + 1`, which is not watched": lambda: gpu + 1,
    }


def overhead(example: str = "") -> dict[str, Any]:
    """Microseconds of one call, and milliseconds of one training step, without and with a recording."""
    plain, traced = _time_calls(), {}
    with h2dlint.trace.record():
        traced = _time_calls()
    rows = [{"call": name, "plain_us": plain[name], "traced_us": traced[name]} for name in plain]
    steps = _time_steps(example) if example else {}
    return {"calls": rows, **steps}


def _time_calls() -> dict[str, float]:
    timed = {}
    for name, call in calls_to_time().items():
        runs = []
        for _ in range(9):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(300):
                call()
            runs.append((time.perf_counter() - start) / 300 * 1e6)
            torch.cuda.synchronize()
        timed[name] = round(statistics.median(runs), 3)
    return timed


def _time_steps(example: str, steps: int = 100) -> dict[str, Any]:
    take = _steps_of(example)
    times: dict[bool, list[float]] = {False: [], True: []}
    next(take)
    for turn in range(10):
        traced = turn % 2 == 1
        times[traced].append(_timed(take, steps, traced)[0])
    plain, slower = (statistics.median(times[traced]) / steps * 1e3 for traced in (False, True))
    return {"steps": steps, "plain_ms": round(plain, 4), "traced_ms": round(slower, 4)}


def _timed(take: Iterator[None], steps: int, traced: bool) -> tuple[float, float, Any]:
    torch.cuda.synchronize()
    recording = h2dlint.trace.record() if traced else None
    recorded = recording.__enter__() if recording else None
    start = time.perf_counter()
    for _ in range(steps):
        next(take)
    issued = time.perf_counter() - start
    torch.cuda.synchronize()
    whole = time.perf_counter() - start
    if recording:
        recording.__exit__(None, None, None)
    return whole, issued, recorded.trace if recorded else None


def _steps_of(example: str) -> Iterator[None]:
    spec = importlib.util.spec_from_file_location(Path(example).stem, example)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return _training(module) if hasattr(module, "Trainer") else _serving(module)


def _training(module: Any) -> Iterator[None]:
    tokens = module.repeating_tokens(200_000, seed=1)
    counts = torch.bincount(torch.from_numpy(tokens), minlength=module.VOCABULARY)
    trainer, stream = module.Trainer(torch.device("cuda"), counts), module.TokenStream(tokens, seed=2)
    batches = [stream.windows() for _ in range(64)]
    for number in range(10):
        trainer.step(batches[number])
    yield
    while True:
        for batch in batches:
            trainer.step(batch)
            yield


def _serving(module: Any) -> Iterator[None]:
    while True:
        engine = module.Engine(module.ServingConfig(new_scheduler=False))
        engine.ban([0, 1, 2])
        requests = [
            module.Request(tokens=[17 * row + place for place in range(20 + row)]) for row in range(module.MAX_REQUESTS)
        ]
        for request in requests:
            engine.admit(request)
        for _ in range(140):
            engine.step(requests)
            yield


# --- a step before and after the fixes ----------------------------------------------------------------------------


def step(example: str) -> dict[str, Any]:
    """One step of an example: its time without a trace, what the host was held for, and what a trace says of it."""
    take = _steps_of(example)
    for _ in range(3):
        next(take)
    runs = [_timed(take, 20, False) for _ in range(5)]
    _, _, trace = _timed(take, 20, True)
    by_verdict: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for one in trace.copies:
        by_verdict[one.verdict.value] += one.total_ms
        calls[one.verdict.value] += one.calls
    return {
        "example": Path(example).name,
        "step_ms": round(statistics.median(run[0] for run in runs) / 20 * 1e3, 4),
        "issued_ms": round(statistics.median(run[1] for run in runs) / 20 * 1e3, 4),
        "host_ms_in_copies": {name: round(value / 20, 4) for name, value in by_verdict.items()},
        "calls": {name: value / 20 for name, value in calls.items()},
        "copies": [
            {**_row(one), "calls": one.calls, "total_ms": one.total_ms, "function": one.function}
            for one in trace.copies
        ],
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
