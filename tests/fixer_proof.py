"""Run the code of a fixer case before and after its fix, and compare what comes out.

On the CPU a stand-in takes the device's place: memory is "pinned" by a plain copy and a transfer always copies, so that
the guarded way runs too. On a GPU the same code runs for real, under the profiler. Needs torch and numpy alone:
`python fixer_proof.py RESULT.json` on a machine with a GPU writes down what the profiler saw.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from fixer_cases_format import SCENARIOS, Case, read_cases
from torch.overrides import TorchFunctionMode

SIZES = 9, 8
"""The inputs on the GPU."""


class Traffic(NamedTuple):
    """What one run did, as the profiler tags it."""

    pageable: int
    pinned: int
    waits: int
    """Times that the host waited for a stream."""


class StandIn(TorchFunctionMode):
    """A machine with an accelerator, on the CPU: a transfer copies, and pinned memory is ordinary memory.

    As on a real one, pinning what is pinned already gives the very same tensor.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pinned: set[int] = set()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.pin_memory:
            return self._pin(args[0])
        pins = kwargs.pop("pin_memory", False)
        if func in (torch.Tensor.cuda, torch.Tensor.cpu):
            return args[0].clone()
        if func is torch.Tensor.to and (kwargs.get("non_blocking") or _names_a_device(args, kwargs)):
            return func(*args, **{**kwargs, "copy": True})
        made = func(*args, **kwargs)
        if pins:
            self.pinned.add(made.untyped_storage().data_ptr())
        return made

    def _pin(self, source: torch.Tensor) -> torch.Tensor:
        """A copy of the memory, gaps and all."""
        if source.untyped_storage().data_ptr() in self.pinned:
            return source
        made = torch.empty_strided(source.shape, source.stride(), dtype=source.dtype).copy_(source)
        self.pinned.add(made.untyped_storage().data_ptr())
        return made


def _names_a_device(args: Any, kwargs: dict[str, Any]) -> bool:
    return "device" in kwargs or any(isinstance(one, (str, torch.device)) for one in args[1:2])


def prepared(code: str, case: Case, sizes: tuple[int, int], dtype: torch.dtype, device: str) -> Callable[[], Any]:
    """`step`, with the case's inputs made."""
    names: dict[str, Any] = {"__name__": "case"}
    exec(compile(code, f"<{case.title}>", "exec"), names)
    exec(compile(case.inputs, f"<inputs of {case.title}>", "exec"), names)
    return partial(names["step"], *names["inputs"](*sizes, dtype, torch.device(device)))


def run(code: str, case: Case, sizes: tuple[int, int], dtype: torch.dtype, device: str) -> Any:
    """What `step` gives for the case's inputs."""
    return prepared(code, case, sizes, dtype, device)()


def run_stood_in(code: str, case: Case, sizes: tuple[int, int], dtype: torch.dtype) -> Any:
    """The same with the stand-in: what happens where an accelerator is present, on the CPU."""
    with pretending(), StandIn(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a loader warns that it has nobody to pin for
        return run(code.replace('"cuda"', '"cpu"'), case, sizes, dtype, "cpu")


@contextmanager
def pretending() -> Iterator[None]:
    available, synchronize = torch.cuda.is_available, torch.cuda.synchronize
    torch.cuda.is_available = lambda: True
    torch.cuda.synchronize = lambda device=None: None
    try:
        yield
    finally:
        torch.cuda.is_available, torch.cuda.synchronize = available, synchronize


def described(value: Any, strides: bool = True) -> Any:
    """A result in a form that compares: values, dtype, shape and, if wanted, strides of every tensor."""
    if isinstance(value, torch.Tensor):
        host = value.detach().cpu()
        order = tuple(value.stride()) if strides and value.numel() else ()
        return str(value.dtype), tuple(value.shape), order, host.tolist()
    if isinstance(value, (list, tuple)):
        return [described(one, strides) for one in value]
    return value


def keeps_strides(case: Case) -> bool:
    """Whether the rewrite promises the same strides: an expanded view repeats one row instead of copying it."""
    return case.fixer != "expand_after_copy"


def may_wait(fixer: str) -> bool:
    """Whether the host waits before and after: a download that nobody asked to be asynchronous stays one."""
    return fixer == "pin_restored"


def traffic(code: str, case: Case, sizes: tuple[int, int], dtype: torch.dtype) -> Traffic:
    """The copies and waits of one run on the GPU, after one run that warms up."""
    from torch.profiler import ProfilerActivity, profile

    run(code, case, sizes, dtype, "cuda")
    step = prepared(code, case, sizes, dtype, "cuda")
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        kept = step()
    del kept
    tags = [event.name for event in seen.events()]
    copies = [tag for tag in tags if tag.startswith("Memcpy") and "DtoD" not in tag]
    pageable = sum("Pageable" in tag for tag in copies)
    return Traffic(pageable, len(copies) - pageable, tags.count("cudaStreamSynchronize"))


def run_behind_work(code: str, case: Case, sizes: tuple[int, int], dtype: torch.dtype) -> Any:
    """What `step` gives when the GPU is busy meanwhile, so that copies are still queued when the host goes on."""
    step = prepared(code, case, sizes, dtype, "cuda")
    torch.cuda._sleep(100_000_000)  # type: ignore[no-untyped-call]
    return step()


def main(path: str) -> None:
    """Run every case on the GPU and write what came out."""
    found = []
    for case in [*read_cases(), *read_cases(SCENARIOS)]:
        if not (case.after and case.inputs):
            continue
        sizes, dtype = SIZES, torch.int64
        row: dict[str, Any] = {"case": case.title, "fixer": case.fixer}
        for name, code in (("before", case.before), ("after", case.after)):
            row[name] = traffic(code, case, sizes, dtype)._asdict()
        right = described(run_stood_in(case.before, case, sizes, dtype), keeps_strides(case))
        for name, code in (("before", case.before), ("after", case.after)):
            outcome = run_behind_work(code, case, sizes, dtype)
            row[name]["right"] = described(outcome, keeps_strides(case)) == right
        found.append(row)
    name = torch.cuda.get_device_properties(0).name
    result = {"gpu": name, "torch": torch.__version__, "sizes": SIZES, "cases": found}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
