"""The table of backends: every cell is there, says what it says with a source, and decides for the right devices."""

from __future__ import annotations

import pytest

from h2dlint.facts.backends import BACKENDS, DEFAULT, TABLE, Fact, cell, column, is_so
from h2dlint.facts.copies import Cause, Verdict
from h2dlint.facts.domain import ACCELERATOR, CPU, SOMEWHERE, Array, Device, Memory
from h2dlint.facts.layout import dense, strided
from h2dlint.facts.verdict import upload

CUDA, NPU, HPU, XPU = Device("cuda"), Device("npu"), Device("hpu"), Device("xpu")


@pytest.mark.parametrize("fact", Fact)
def test_every_fact_has_a_cell_for_every_backend(fact: Fact) -> None:
    assert tuple(TABLE[fact]) == BACKENDS


@pytest.mark.parametrize("fact", Fact)
def test_what_is_said_has_a_public_source_and_what_has_none_is_unproven(fact: Fact) -> None:
    for known in TABLE[fact].values():
        assert (known.holds is None) == (known.source == "")
        assert known.source == "" or known.source.startswith("https://")


def test_cuda_is_known_in_every_respect() -> None:
    assert all(TABLE[fact]["cuda"].holds for fact in Fact)


@pytest.mark.parametrize(
    ("device", "configured", "expected"),
    [
        (CUDA, "cuda", "cuda"),
        (CUDA, "rocm", "rocm"),
        (CUDA, "npu", "cuda"),
        (Device("hip"), "cuda", "rocm"),
        (NPU, "cuda", "npu"),
        (HPU, "npu", "hpu"),
        (SOMEWHERE, "cuda", "cuda"),
        (SOMEWHERE, "npu", "npu"),
        (ACCELERATOR, "hpu", "hpu"),
        (Device("musa"), "cuda", ""),
        (Device("xla"), "npu", ""),
    ],
)
def test_a_literal_device_chooses_its_column_and_the_setting_the_rest(
    device: Device, configured: str, expected: str
) -> None:
    assert column(device, configured) == expected


def test_an_accelerator_without_a_column_is_unproven_in_every_respect() -> None:
    assert all(cell(fact, Device("musa")).holds is None for fact in Fact)


def test_a_fact_that_is_known_to_be_false_is_not_so() -> None:
    assert cell(Fact.DOWNLOAD_IS_PINNED, Device("mps")).holds is False
    assert not is_so(Fact.DOWNLOAD_IS_PINNED, Device("mps"))


def test_the_default_is_a_column() -> None:
    assert DEFAULT in BACKENDS


PAGEABLE = Array("tensor", CPU, Memory.PAGEABLE, dense([64, 64]))
PINNED = Array("tensor", CPU, Memory.PINNED, dense([64, 64]))
GAPPED = Array("tensor", CPU, Memory.PINNED, strided([64, 8], [64, 1]))


@pytest.mark.parametrize(
    ("source", "device", "verdict", "causes"),
    [
        (PAGEABLE, CUDA, Verdict.FAKE_ASYNC, (Cause.PAGEABLE,)),
        (PAGEABLE, NPU, Verdict.FAKE_ASYNC, (Cause.PAGEABLE,)),
        (PAGEABLE, XPU, Verdict.FAKE_ASYNC, (Cause.PAGEABLE,)),
        (PAGEABLE, HPU, Verdict.UNPROVEN, ()),
        (PINNED, NPU, Verdict.ASYNC, ()),
        (PINNED, HPU, Verdict.UNPROVEN, ()),
        (GAPPED, CUDA, Verdict.FAKE_ASYNC, (Cause.GAPPED,)),
        (GAPPED, NPU, Verdict.UNPROVEN, ()),
    ],
)
def test_the_verdict_of_an_upload_follows_the_table(
    source: Array, device: Device, verdict: Verdict, causes: tuple[Cause, ...]
) -> None:
    ruling = upload(source, device, None, asked=True)
    assert (ruling.verdict, ruling.causes) == (verdict, causes)
