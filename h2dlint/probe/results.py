"""What the probe hands on: the machine, the measurements with their points, and the few figures that follow."""

from __future__ import annotations

from msgspec import Struct

from h2dlint.probe.spread import Spread

VERSION = 1
"""Of the JSON: keys are added, never changed."""


class Machine(Struct, frozen=True):
    """Where it was measured. None: not known here."""

    gpu: str
    driver: str | None
    cuda: str | None
    torch: str
    link: str | None
    """Between host and device, such as `PCIe gen 5 x16` or `NVLink-C2C`."""
    reads_pageable: bool | None
    """Whether the GPU can read pageable memory itself (CUDA's attribute PAGEABLE_MEMORY_ACCESS)."""
    host: str
    """Processor architecture and operating system of the host."""
    python: str


class Point(Struct, frozen=True):
    """One form at one place of the axis."""

    form: str
    """The form's name, the same in all versions."""
    label: str
    """What to call it in a table."""
    kind: str
    """What decides (see `Form.kind`); `first` for a snapshot that has to lock new memory."""
    x: float | None
    """The place on the axis; None where there is no axis."""
    value: Spread
    at_least: bool = False
    """Whether it was as far as was looked: the value may be higher."""
    per_step: float | None = None
    """Of a loop: what one step's copies cost the host, in milliseconds (median over the steps of the median run)."""
    waits: bool | None = None
    """Whether the host waited for the queue, where that is the question."""
    said: bool | None = None
    """Whether the rules say that it waits."""


class Answer(Struct, frozen=True):
    """One figure that follows from the points, beside the one that the rules are built on."""

    name: str
    text: str
    """What it is, in words."""
    unit: str
    """`bytes`, `ms`, `copies`, `rows`, `forms` or `ratio`."""
    value: float | None
    """None: there is no such thing on this machine."""
    at_least: bool = False
    rules: float | None = None
    """The same on the NVIDIA H200 with torch 2.11 that the rules are built on; None where no figure is kept."""


class Measured(Struct, frozen=True):
    """The outcome of one measurement."""

    name: str
    title: str
    note: str
    """How it was measured and how to read it."""
    axis: str | None
    """What the points' `x` is: `bytes`, `rows` or `ms`; None where the forms are the only axis."""
    unit: str
    """Of the points' values: `ms` or `copies`."""
    points: tuple[Point, ...]
    answers: tuple[Answer, ...] = ()
    gpu_done: float | None = None
    """Of loops: the milliseconds after which the GPU is done."""
    seconds: float = 0.0
    """Wall time of the measurement."""


class LeftOut(Struct, frozen=True):
    """A measurement that could not be made, or not in full."""

    name: str
    reason: str


class Results(Struct, frozen=True):
    """One run of the probe."""

    machine: Machine
    seconds: float
    """Wall time of the measurements."""
    measurements: tuple[Measured, ...]
    left_out: tuple[LeftOut, ...] = ()
    version: int = VERSION
