"""HTD205: a host mirror is unused only if no file of the project can be using it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from conftest import WriteFiles
from h2dlint.rules import codes_for

from h2dlint.facts.analyse import copies_of
from h2dlint.facts.copies import Pitfall
from h2dlint.facts.project import Project

PAIR = """
import torch


class Pair:
    def __init__(self, n, device):
        self.cpu = torch.zeros(n, pin_memory=True)
        self.gpu = torch.zeros(n, device=device)

    def send(self):
        self.gpu.copy_(self.cpu, non_blocking=True)
"""

STEPS = """
from pair import Pair


class Steps:
    def __init__(self, most, device):
        self.slots = Pair(most, device)

    def advance(self):
        return self.slots.gpu.add_(1)
"""

OTHER_USES = {
    "the host side is read in another file": "def show(steps):\n    return steps.slots.cpu.sum()\n",
    "a method of the pair is called": "def push(steps):\n    steps.slots.send()\n",
    "the pair is handed on": "def give(steps, take):\n    take(steps.slots)\n",
    "its name stands in a string": "NAMES = ['slots']\n",
}


def mirrors(folder: Path) -> list[str]:
    path = folder / "steps.py"
    text = path.read_text("utf-8")
    found = copies_of(Project(), str(path), text, ast.parse(text), pitfalls={Pitfall.MIRROR_UNUSED})
    return [code for copy in found for code in codes_for(copy)]


def test_a_pair_of_which_only_the_device_side_is_used(write: WriteFiles) -> None:
    use = "def zero(steps):\n    steps.slots.gpu.zero_()\n"
    assert mirrors(write({"pair.py": PAIR, "steps.py": STEPS, "use.py": use})) == ["HTD205"]


@pytest.mark.parametrize("use", OTHER_USES.values(), ids=OTHER_USES.keys())
def test_any_other_mention_may_be_a_use(write: WriteFiles, use: str) -> None:
    assert mirrors(write({"pair.py": PAIR, "steps.py": STEPS, "use.py": use})) == []


def test_a_pair_that_nobody_uses_at_all_may_be_used_elsewhere(write: WriteFiles) -> None:
    alone = STEPS.replace("self.slots.gpu.add_(1)", "None")
    assert mirrors(write({"pair.py": PAIR, "steps.py": alone})) == []


def test_attributes_that_are_read_by_name_may_be_any(write: WriteFiles) -> None:
    by_name = STEPS + "\n    def all(self):\n        return [getattr(self, name) for name in vars(self)]\n"
    assert mirrors(write({"pair.py": PAIR, "steps.py": by_name})) == []


def test_two_tensors_on_the_host_are_no_pair(write: WriteFiles) -> None:
    host = PAIR.replace("device=device)", "device='cpu')")
    assert mirrors(write({"pair.py": host, "steps.py": STEPS})) == []
