"""Scenario 16: the same sites on other backends. What is known of a backend decides there, and CUDA's facts do not."""

from __future__ import annotations

import json

import pytest
from conftest import Cli, WriteFiles

SITES = """
import torch


class Step:
    def __init__(self, most, device):
        self.plain = torch.zeros(most, dtype=torch.int32)
        self.pinned = torch.zeros(most, dtype=torch.int32, pin_memory=True)
        self.rows = torch.zeros(3, most + 1, dtype=torch.int32, pin_memory=True)
        self.device = device

    def send(self, n):
        lengths = self.plain[:n].to(self.device, non_blocking=True)
        offsets = self.pinned[:n].to(self.device, non_blocking=True)
        axes = self.rows[:, :n].to(self.device, non_blocking=True)
        return lengths, offsets, axes
"""
LENGTHS, OFFSETS, AXES = 12, 13, 14

RESULTS = """
import torch


def fetch(scores, n):
    scores = scores.to("{device}")
    plain = torch.empty(n)
    pinned = torch.empty(n, pin_memory=True)
    plain.copy_(scores, non_blocking=True)
    pinned.copy_(scores, non_blocking=True)
    torch.{device}.synchronize()
    return plain, pinned
"""
INTO_PLAIN, INTO_PINNED = 8, 9


def settings(backend: str) -> str:
    return f'backend = "{backend}"\n'


def verdicts(cli: Cli) -> dict[int, str]:
    """The verdict of each copy of the checked file, by line."""
    ran = cli("copies", "step.py", "--output-format", "json")
    return {copy["line"]: copy["verdict"] for copy in json.loads(ran.out)["copies"]}


def codes(cli: Cli) -> dict[int, str]:
    ran = cli("check", "step.py", "--output-format", "json")
    return {finding["line"]: finding["code"] for finding in json.loads(ran.out)["findings"]}


@pytest.mark.parametrize(
    ("backend", "plain", "pinned", "gapped"),
    [
        ("cuda", "fake-async", "async", "fake-async"),
        ("rocm", "fake-async", "async", "fake-async"),
        ("xpu", "fake-async", "async", "unproven"),
        ("npu", "fake-async", "async", "unproven"),
        ("hpu", "unproven", "unproven", "unproven"),
        ("mps", "unproven", "unproven", "unproven"),
    ],
)
def test_uploads_to_a_device_without_a_name(
    cli: Cli, write: WriteFiles, backend: str, plain: str, pinned: str, gapped: str
) -> None:
    write({"step.py": SITES.lstrip(), "h2dlint.toml": settings(backend)})
    assert verdicts(cli) == {LENGTHS: plain, OFFSETS: pinned, AXES: gapped}
    assert codes(cli) == {
        line: code
        for line, code, verdict in ((LENGTHS, "HTD101", plain), (AXES, "HTD103", gapped))
        if verdict == "fake-async"
    }


@pytest.mark.parametrize(
    ("device", "plain", "pinned"),
    [
        ("cuda", "fake-async", "async"),
        ("npu", "fake-async", "async"),
        ("xpu", "unproven", "unproven"),
        ("hpu", "unproven", "unproven"),
        ("mps", "unproven", "unproven"),
    ],
)
def test_downloads_from_a_device_with_a_name(cli: Cli, write: WriteFiles, device: str, plain: str, pinned: str) -> None:
    write({"step.py": RESULTS.format(device=device).lstrip()})
    seen = verdicts(cli)
    assert (seen[INTO_PLAIN], seen[INTO_PINNED]) == (plain, pinned)
    assert codes(cli) == ({INTO_PLAIN: "HTD107"} if plain == "fake-async" else {})


def test_a_name_in_the_code_is_stronger_than_the_setting(cli: Cli, write: WriteFiles) -> None:
    named = SITES.lstrip().replace("self.device, non_blocking", '"npu", non_blocking')
    write({"step.py": named, "h2dlint.toml": settings("hpu")})
    assert codes(cli) == {LENGTHS: "HTD101"}


def test_what_is_unproven_there_is_told_on_request_with_the_reason(cli: Cli, write: WriteFiles) -> None:
    write({"step.py": SITES.lstrip(), "h2dlint.toml": settings("npu")})
    shown = cli("check", "step.py", "--show-unproven", "--output-format", "concise").out
    (note,) = [line for line in shown.splitlines() if line.startswith(f"step.py:{AXES}:")]
    assert "HTD190" in note
    assert "npu" in note


@pytest.mark.parametrize(
    ("backend", "guard"),
    [
        ("cuda", "torch.cuda.is_available()"),
        ("rocm", "torch.cuda.is_available()"),
        ("xpu", "torch.xpu.is_available()"),
        ("npu", "torch.accelerator.is_available()"),
    ],
)
def test_the_fix_stands_behind_the_test_of_that_backend(cli: Cli, write: WriteFiles, backend: str, guard: str) -> None:
    folder = write({"step.py": SITES.lstrip(), "h2dlint.toml": settings(backend)})
    cli("check", "step.py", "--fix")
    text = (folder / "step.py").read_text(encoding="utf-8")
    assert f"if {guard}:" in text
    assert "src = src.pin_memory()" in text
    assert "self.plain[:n].to(" not in text
    assert LENGTHS not in {line for line, verdict in verdicts(cli).items() if verdict == "fake-async"}


def test_the_wrong_turn_a_guard_for_another_accelerator(cli: Cli, write: WriteFiles) -> None:
    folder = write({"step.py": SITES.lstrip(), "h2dlint.toml": settings("npu")})
    cli("check", "step.py", "--fix")
    assert "cuda" not in (folder / "step.py").read_text(encoding="utf-8")
