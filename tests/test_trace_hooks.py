"""What a recording sees of a program, and what the program sees of it: nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pretend_machine
import pytest
import torch
from pretend_machine import Pretend, pinned
from torch.overrides import TorchFunctionMode

import h2dlint.trace
from h2dlint.trace import tensors
from h2dlint.trace.session import Recording
from h2dlint.trace.trace_file import Seen


@pytest.fixture(autouse=True)
def accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """The meta device plays the accelerator."""
    monkeypatch.setattr(tensors, "this_machine", Pretend)


def seen_of(call: Callable[[], object]) -> tuple[Seen, ...]:
    """What a recording sees of one call."""
    with h2dlint.trace.record() as recording:
        call()
    assert not any(process.missed for process in recording.trace.processes)
    return recording.trace.copies


def host(*sizes: int) -> torch.Tensor:
    return torch.ones(sizes)


def device(*sizes: int) -> torch.Tensor:
    return torch.empty(sizes, device="meta")


CALLS: dict[str, tuple[Callable[[], object], list[str]]] = {
    "to": (lambda: host(3).to("meta", non_blocking=True), ["to h2d fake-async pageable 1x"]),
    "to, by position": (lambda: host(3).to("meta", torch.half, True), ["to h2d fake-async pageable 1x"]),
    "to like another": (lambda: host(3).to(device(1), non_blocking=True), ["to h2d fake-async pageable 1x"]),
    "to that never asked": (lambda: host(3).to("meta"), ["to h2d blocking 1x"]),
    "to from pinned memory": (lambda: pinned(3).to("meta", non_blocking=True), ["to h2d async 1x"]),
    "to with gaps": (lambda: pinned(3, 4)[:, 1:].to("meta", non_blocking=True), ["to h2d fake-async gapped 1x"]),
    "to where it is": (lambda: host(3).to("cpu"), []),
    "to where it is, asking": (lambda: host(3).to("cpu", non_blocking=True), ["to h2h no-transfer 0x"]),
    "to another dtype": (lambda: host(3).to(torch.half), []),
    "to, of nothing": (lambda: host(0).to("meta", non_blocking=True), ["to h2d no-transfer 0x"]),
    "device to device": (lambda: device(3).to("meta", non_blocking=True), ["to d2d no-transfer 0x"]),
    "copy_": (lambda: device(3).copy_(host(3), non_blocking=True), ["copy_ h2d fake-async pageable 1x"]),
    "copy_ by position": (lambda: device(3).copy_(host(3), True), ["copy_ h2d fake-async pageable 1x"]),
    "copy_ of a row": (
        lambda: device(2, 3).copy_(pinned(3), non_blocking=True),
        ["copy_ h2d fake-async broadcast 1x"],
    ),
    "copy_ of several": (
        lambda: torch._foreach_copy_([device(3), device(3)], [host(3), pinned(3)], non_blocking=True),
        ["_foreach_copy_ h2d fake-async pageable 2x"],
    ),
    "a tensor of numbers": (lambda: torch.tensor([1, 2], device="meta"), ["tensor h2d blocking 1x"]),
    "as_tensor": (lambda: torch.as_tensor(host(2), device="meta"), ["as_tensor h2d blocking 1x"]),
    "as_tensor of what is there": (lambda: torch.as_tensor(host(2)), []),
    "a tensor on the host": (lambda: torch.tensor([1, 2]), []),
    "new_tensor": (lambda: device(1).new_tensor([1.0]), ["new_tensor h2d blocking 1x"]),
    "a list as index": (lambda: device(4)[[1, 2]], ["__getitem__ h2d blocking 1x"]),
    "a host tensor as index": (lambda: device(4)[torch.tensor([1, 2])], ["__getitem__ h2d blocking 1x"]),
    "a device tensor as index": (lambda: device(4)[device(2).long()], []),
    "numbers and slices as index": (lambda: device(4, 4)[1, 2:][...], []),
    "an element that is set": (lambda: device(4, 4).__setitem__((1, 2), 3.0), ["__setitem__ h2d blocking 1x"]),
    "a row that is set": (lambda: device(4, 4).__setitem__(1, 3.0), []),
    "a slice that is set to a host tensor": (
        lambda: device(4).__setitem__(slice(2), host(2)),
        ["__setitem__ h2d blocking 1x"],
    ),
    "a module": (lambda: torch.nn.Linear(3, 4).to("meta", non_blocking=True), ["to h2d fake-async pageable 2x"]),
    "a parameter": (lambda: torch.nn.Parameter(host(3)).to("meta"), ["to h2d blocking 1x"]),
    "a subclass": (lambda: host(3).as_subclass(Sub).to("meta"), ["to h2d blocking 1x"]),
    "where with a host tensor": (
        lambda: torch.where(device(3) > 0, device(3), torch.tensor(0.0)),
        ["where h2d blocking 1x"],
    ),
    "by the class": (lambda: torch.Tensor.to(host(3), "meta"), ["to h2d blocking 1x"]),
}


class Sub(torch.Tensor):
    """A user's own kind of tensor."""


def told(seen: tuple[Seen, ...]) -> list[str]:
    return [
        " ".join([one.call, one.direction.value, one.verdict.value, *(c.value for c in one.causes), f"{one.copies}x"])
        for one in seen
    ]


@pytest.mark.parametrize(("call", "expected"), CALLS.values(), ids=CALLS.keys())
def test_a_call_is_seen(call: Callable[[], object], expected: list[str]) -> None:
    assert told(seen_of(call)) == expected


def test_the_place_is_that_of_the_call() -> None:
    source = host(3)
    (seen,) = seen_of(
        lambda: source.to(
            "meta",
            non_blocking=True,
        )
    )
    line = test_the_place_is_that_of_the_call.__code__.co_firstlineno + 3
    assert (seen.path, seen.line, seen.end_line, seen.exact) == ("test_trace_hooks.py", line, line + 3, True)


def test_every_thread_is_heard() -> None:
    def send() -> None:
        for _ in range(50):
            host(3).to("meta", non_blocking=True)

    def run() -> None:
        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    (seen,) = seen_of(run)
    assert (seen.calls, seen.copies, seen.bytes) == (200, 200, 200 * 12)


def test_a_copy_in_autograds_thread_is_heard() -> None:
    class Send(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, value: torch.Tensor) -> torch.Tensor:
            return value * 2

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
            host(3).to("meta", non_blocking=True)
            return gradient

    source = host(3).requires_grad_()
    (seen,) = seen_of(lambda: Send.apply(source).sum().backward())  # type: ignore[no-untyped-call]
    assert seen.function.endswith("backward")


def test_what_is_allowed_is_marked() -> None:
    def run() -> None:
        with h2dlint.trace.allow_sync():
            host(3).to("meta")

    with h2dlint.trace.record() as recording:
        run()
    assert [one.allowed for one in recording.trace.copies] == [True]
    assert recording.waits == ()


def test_a_recording_can_be_asked_while_it_goes_on() -> None:
    with h2dlint.trace.record() as recording:
        assert not recording.fake_async
        host(3).to("meta", non_blocking=True)
        assert len(recording.fake_async) == 1
    assert recording.accelerator_used


def test_two_recordings_hear_the_same() -> None:
    with h2dlint.trace.record() as outer:
        with h2dlint.trace.record() as inner:
            host(3).to("meta")
        host(3).to("meta")
    assert [sum(one.calls for one in which.trace.copies) for which in (outer, inner)] == [2, 1]


# Nothing else changes


class Counting(TorchFunctionMode):
    """Somebody else's mode, which calls on what it is given."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def test_a_call_that_a_mode_repeats_counts_once() -> None:
    def run() -> None:
        with Counting():
            host(3).to("meta")

    (seen,) = seen_of(run)
    assert (seen.calls, seen.copies) == (1, 1)


def names_that_torch_has() -> dict[str, Any]:
    return {name: getattr(torch.Tensor, name) for name in dir(torch.Tensor) if name not in ("__init_subclass__",)}


def test_torch_is_afterwards_what_it_was() -> None:
    before, functions = names_that_torch_has(), dict(vars(torch))
    with pytest.raises(ZeroDivisionError), h2dlint.trace.record():
        assert torch.Tensor.to is not before["to"]
        raise ZeroDivisionError
    after = names_that_torch_has()
    assert [name for name, value in before.items() if after[name] != value] == []
    assert [name for name, value in functions.items() if vars(torch)[name] is not value] == []


class Owner(torch.Tensor):
    """One that has item access of its own."""

    def __getitem__(self, key: object) -> torch.Tensor:
        return torch.zeros(())


HARMLESS: dict[str, Callable[[], object]] = {
    "a tensor of tensors": lambda: torch.tensor([torch.tensor(1.0), torch.tensor(2.0)]),
    "a tensor of tensors of a new class": lambda: torch.tensor([torch.tensor(3.0).as_subclass(new_class())]),
    "a list of a tensor": lambda: torch.stack(list(host(3))),
    "item access of its own": lambda: host(3).as_subclass(Owner)[1],
    "a default device": lambda: on_default_device(),
    "TorchScript": lambda: scripted()(host(4)),
    "deep copies": lambda: __import__("copy").deepcopy(host(3)),
    "vmap": lambda: torch.func.vmap(lambda one: one.to(torch.float64) * 2)(host(3, 1)),
    "an ndarray of tensors": lambda: torch.as_tensor(__import__("numpy").asarray([torch.tensor(1.0)])),
}


def new_class() -> type[torch.Tensor]:
    return type("New", (torch.Tensor,), {})


def on_default_device() -> torch.Tensor:
    with torch.device("meta"):
        made = torch.tensor([1, 2])
    return torch.tensor(made.device.type == "meta")


def scripted() -> Callable[[torch.Tensor], torch.Tensor]:
    compiled: Callable[[torch.Tensor], torch.Tensor] = torch.jit.CompilationUnit(
        "def f(x):\n    index = torch.tensor([0, 1])\n    return torch.where(x > 2, x, x * 2)[index].double()\n"
    ).f
    return compiled


@pytest.mark.filterwarnings("ignore")  # TorchScript says on some versions that its time has come
@pytest.mark.parametrize("call", HARMLESS.values(), ids=HARMLESS.keys())
def test_a_program_computes_the_same(call: Callable[[], torch.Tensor]) -> None:
    alone = call()
    with h2dlint.trace.record():
        watched = call()
    assert torch.equal(alone, watched)


def test_compilers_know_torch_before_and_after_recordings() -> None:
    # A process of its own: a compiler makes its list of functions when it is used first, here within a recording.
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", COMPILE], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True"] * 8


COMPILE = """
import torch
import h2dlint.trace

def step(x):
    return x.to(torch.float64)[1:] + torch.as_tensor([1.0]) + torch.where(x > 0, x, 0.0)[1:]

text = "def f(x):\\n    return torch.where(x > 0, x, x)[torch.tensor([1, 2])] + torch.tensor([1.0])\\n"

def compiles():
    torch._dynamo.reset()
    x = torch.ones(3)
    print(torch.equal(torch.compile(step, backend="eager", fullgraph=True)(x), step(x)))
    print(torch.jit.CompilationUnit(text).f(x).tolist() == [2.0, 2.0])

with h2dlint.trace.record():
    compiles()
compiles()
with h2dlint.trace.record():
    compiles()
compiles()
"""


def test_an_error_reaches_the_program() -> None:
    with h2dlint.trace.record() as recording:
        with pytest.raises(RuntimeError):
            host(3).to("nonsense")
        host(3).to("meta")
    assert told(recording.trace.copies) == ["to h2d blocking 1x"]


def test_a_failure_to_look_is_counted_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[torch.Tensor] = []

    def fails(self: object, tensor: torch.Tensor) -> bool:
        looks.append(tensor)
        raise RuntimeError("no")

    monkeypatch.setattr(Pretend, "is_pinned", fails)
    with h2dlint.trace.record() as recording:
        assert host(3).to("meta").shape == (3,)
    assert looks
    assert [process.missed for process in recording.trace.processes] == [len(looks)]


def test_the_machine_is_a_stand_in() -> None:
    assert isinstance(tensors.this_machine(), pretend_machine.Pretend)
    assert isinstance(Recording, type)
