"""A pin that a fix writes goes without a guard only where the copy goes to an accelerator on every way."""

from __future__ import annotations

import json

import pytest
from conftest import Cli, WriteFiles

UNGUARDED: dict[str, str] = {
    "a literal": """
def upload(rows: list[float]):
    ids = torch.tensor(rows)
    return ids.to("cuda", non_blocking=True)
""",
    "a method named after the device": """
def upload(rows: list[float]):
    ids = torch.tensor(rows)
    return ids.cuda(non_blocking=True)
""",
    "a local name": """
def upload(rows: list[float], rank: int):
    device = torch.device("cuda", rank)
    ids = torch.tensor(rows)
    return ids.to(device, non_blocking=True)
""",
}

GUARDED: dict[str, str] = {
    "a parameter": """
def upload(rows: list[float], device):
    ids = torch.tensor(rows)
    return ids.to(device, non_blocking=True)
""",
    "a choice": """
def upload(rows: list[float], use_gpu: bool):
    device = torch.device("cuda" if use_gpu else "cpu")
    ids = torch.tensor(rows)
    return ids.to(device, non_blocking=True)
""",
    "another device where there is none": """
def upload(rows: list[float]):
    device = "cuda"
    if not torch.cuda.is_available():
        device = "cpu"
    ids = torch.tensor(rows)
    return ids.to(device, non_blocking=True)
""",
    "the choice the other way round": """
def upload(rows: list[float]):
    device = "cpu" if not torch.cuda.is_available() else "cuda"
    ids = torch.tensor(rows)
    return ids.to(device, non_blocking=True)
""",
    "an error": """
def upload(rows: list[float]):
    try:
        torch.zeros(1, device="cuda")
        device = "cuda"
    except RuntimeError:
        device = "cpu"
    ids = torch.tensor(rows)
    return ids.to(device, non_blocking=True)
""",
    "a copy that may be left out": """
def upload(rows: list[float], wanted: bool):
    ids = torch.tensor(rows)
    return wanted and ids.cuda(non_blocking=True)
""",
    "one of two values": """
def upload(rows: list[float], wanted: bool):
    ids = torch.tensor(rows)
    return ids.cuda(non_blocking=True) if wanted else None
""",
    "several devices in turn": """
def upload(rows: list[float]):
    for device in ("cuda", "cpu"):
        try:
            ids = torch.tensor(rows)
            return ids.to(device, non_blocking=True)
        except RuntimeError:
            pass
""",
    "a device of the class, which a derived class may have otherwise": """
class Mover:
    device = "cuda"

    def upload(self, rows: list[float]):
        ids = torch.tensor(rows)
        return ids.to(self.device, non_blocking=True)
""",
    "an attribute that is another device where there is none": """
class Mover:
    def __init__(self):
        self.device = "cuda"
        if not torch.cuda.is_available():
            self.device = "cpu"

    def upload(self, rows: list[float]):
        ids = torch.tensor(rows)
        return ids.to(self.device, non_blocking=True)
""",
    "an attribute that is set later": """
class Mover:
    def __init__(self, gpu_id=None):
        self.device = "cpu"
        if gpu_id is not None:
            self.device = f"cuda:{gpu_id}"

    def upload(self, rows: list[float]):
        ids = torch.tensor(rows)
        return ids.to(self.device, non_blocking=True)
""",
}


def pins_written(write: WriteFiles, cli: Cli, text: str) -> list[str]:
    write({"a.py": f"import torch\n{text}"})
    found = json.loads(cli("check", "--output-format", "json").out)["findings"]
    return [edit["replacement"] for one in found if one["fix"] for edit in one["fix"]["edits"]]


@pytest.mark.parametrize("text", UNGUARDED.values(), ids=UNGUARDED)
def test_no_guard_where_every_way_leads_to_an_accelerator(write: WriteFiles, cli: Cli, text: str) -> None:
    (pin,) = pins_written(write, cli, text)
    assert "pin_memory=True" in pin


@pytest.mark.parametrize("text", GUARDED.values(), ids=GUARDED)
def test_a_guard_where_some_way_leads_elsewhere_or_passes_the_copy_by(write: WriteFiles, cli: Cli, text: str) -> None:
    pins = pins_written(write, cli, text)
    assert pins
    assert all("torch.cuda.is_available()" in pin for pin in pins)


DATA: dict[str, tuple[str, bool]] = {
    "a list": ("def upload(xs: list[int], dev):\n    ids = torch.tensor(xs)", True),
    "lists of lists": ("def upload(xs: List[List[float]], dev):\n    ids = torch.tensor(xs)", True),
    "a number or lists": ("def upload(xs: int | list[int], dev):\n    ids = torch.tensor(xs)", True),
    "a list made here": ("def upload(n, dev):\n    xs = [1] * 2\n    xs = [n]\n    ids = torch.tensor(xs)", False),
    "a list, or an array": ("def upload(xs: list[int] | np.ndarray, dev):\n    ids = torch.tensor(xs)", False),
    "a number, or a tensor": ("def upload(xs: int | torch.Tensor, dev):\n    ids = torch.tensor(xs)", False),
    "a list of arrays": ("def upload(xs: list[np.ndarray], dev):\n    ids = torch.tensor(xs)", False),
    "a class whose name begins like int": ("def upload(xs: intarray, dev):\n    ids = torch.tensor(xs)", False),
    "a list that becomes an array": (
        "def upload(xs: list[int], dev):\n    xs = np.asarray(xs)\n    ids = torch.tensor(xs)",
        False,
    ),
    "a list, and what a loop goes over": (
        "def upload(xs: list[int], tensors, dev):\n    for xs in tensors:\n        pass\n    ids = torch.tensor(xs)",
        False,
    ),
}


@pytest.mark.parametrize(("text", "pinned"), DATA.values(), ids=DATA)
def test_only_numbers_and_lists_are_pinned_as_they_are_made(
    write: WriteFiles, cli: Cli, text: str, pinned: bool
) -> None:
    head = "from typing import List\n\nimport numpy as np\n\n\n"
    pins = pins_written(write, cli, f"{head}{text}\n    return ids.to(dev, non_blocking=True)\n")
    assert any("pin_memory=" in pin for pin in pins) is pinned
