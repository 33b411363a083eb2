"""A GPU that only counts: a clock that moves when something costs time, a queue, and a driver's staging space.

It behaves as the H200 that the rules are built on was measured to: see `Staging`. So the measurements can be held to
recover the figures that were put in.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from h2dlint.probe.forms_table import WAITING_CODE, Form

CALL = 0.005
"""Milliseconds that any call takes."""
BYTES_PER_MS = 10e6
LOCK_MS = 0.1
PAGE_LOCK_BYTES_PER_MS = 1.5e6
IDS = 256 << 10
"""Bytes of the position ids, which the forms build themselves."""
WAITING_DOWNLOADS = ("into-pageable", "into-gapped", "cpu")


class Staging(Struct, frozen=True):
    """How much pageable memory the driver takes in before it waits."""

    threshold: float = 2 << 20
    """Up to this size a copy does not wait by itself."""
    slots: int = 2
    """Larger copies than `shared_up_to` that are taken in."""
    shared_up_to: int = 64 << 10
    pool: float = 63.5 * (64 << 10)
    """Bytes that the smaller ones share."""
    launches: int = 1021
    """Copies of any kind that fit in flight."""


class FakeGpu:
    """Plays `Gpu`. Nothing is copied."""

    def __init__(self, staging: Staging | None = None, memory: int = 100 << 30) -> None:
        self.staging = staging or Staging()
        self.memory = memory
        self.calibrated = 0
        self._clock = 0.0
        self._idle_at = 0.0
        self._cached: set[int] = set()
        self._reset()

    def now(self) -> float:
        return self._clock

    def work(self, milliseconds: float) -> None:
        if self._clock >= self._idle_at:
            self._reset()
        self._idle_at = max(self._clock, self._idle_at) + milliseconds
        self._clock += CALL

    def finish(self) -> None:
        self._clock = max(self._clock, self._idle_at)
        self._reset()

    def calibrate(self) -> None:
        self.calibrated += 1

    def prepare(self, form: Form) -> Callable[[], object]:
        if form.setup.startswith("broken"):
            raise RuntimeError("CUDA error: out of memory\nCompile with TORCH_USE_CUDA_DSA")
        return lambda: self._issue(form)

    def forget_pinned(self) -> None:
        self._cached.clear()

    def room(self) -> int:
        return self.memory // 8

    def _reset(self) -> None:
        self._slots = 0
        self._pool = 0
        self._launched = 0

    def _issue(self, form: Form) -> None:
        copies, size = form.copies, form.size * form.rows
        if form.kind == "rows":
            copies, size = form.rows, form.size
        for _ in range(copies):
            self._clock += CALL
            self._launched += 1
            if self._launched > self.staging.launches:
                self.finish()
            self._one(form, size)

    def _one(self, form: Form, size: int) -> None:
        if form.kind == "snapshot":
            self._pin(size)
        if form.code in WAITING_CODE or form.name in WAITING_DOWNLOADS:
            self.finish()
        elif form.name == "clone":
            self._clock += size / BYTES_PER_MS
        elif form.kind in ("pageable", "gapped"):
            self._stage(size or IDS)

    def _stage(self, size: int) -> None:
        staging = self.staging
        self._clock += size / BYTES_PER_MS
        if size > staging.threshold:
            self.finish()
        elif size > staging.shared_up_to:
            self._slots += 1
            if self._slots > staging.slots:
                self.finish()
        else:
            self._pool += size
            if self._pool > staging.pool:
                self.finish()

    def _pin(self, size: int) -> None:
        self._clock += size / BYTES_PER_MS
        if size not in self._cached:
            self._clock += LOCK_MS + size / PAGE_LOCK_BYTES_PER_MS
            self._cached.add(size)
