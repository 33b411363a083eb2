"""Whatever a file holds, h2dlint neither fails nor hangs nor changes its mind, and its fixes are sound.

A small sample of what `hunt.py` does for as long as one likes; the same on every run, so that a failure comes again.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Cli, WriteFiles, clean_environment
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import mutated, valid_files
from random_programs import HEADER, compiles, module_text
from survival import assert_fixes_hold, assert_says_the_same_again, assert_survives, looked_at

SAMPLE = settings(
    max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
CHANCE = st.randoms(use_true_random=False)


@SAMPLE
@given(CHANCE)
def test_any_module_is_survived(chance: random.Random) -> None:
    data = module_text(chance, size=20).encode()
    assert_survives(data)
    assert_says_the_same_again(data)


@SAMPLE
@given(CHANCE, st.sampled_from(valid_files()))
def test_any_damaged_file_is_survived(chance: random.Random, data: bytes) -> None:
    assert_survives(mutated(chance, data))


@SAMPLE
@given(CHANCE, st.sampled_from(valid_files()), st.booleans())
def test_fixes_of_any_file_hold(chance: random.Random, data: bytes, damage: bool) -> None:
    assert_fixes_hold(mutated(chance, data) if damage else data)


@SAMPLE
@given(st.binary(max_size=300))
def test_any_bytes_are_survived(data: bytes) -> None:
    assert_survives(data)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["cells", "source", "cell_type", "metadata", "nbformat", "a"]), inner, max_size=5
        )
    ),
    max_leaves=20,
)


@SAMPLE
@given(ANYTHING, st.booleans())
def test_any_notebook_is_survived(content: object, as_cells: bool) -> None:
    notebook = {"cells": content, "nbformat": 4} if as_cells else content
    assert_survives(json.dumps(notebook).encode(), "case.ipynb")


@SAMPLE
@given(CHANCE)
def test_a_damaged_notebook_is_survived(chance: random.Random) -> None:
    source = module_text(chance, size=10)
    cells: list[dict[str, object]] = [
        {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}
    ]
    notebook = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()
    assert_survives(mutated(chance, notebook), "case.ipynb")


def test_a_random_module_is_a_module() -> None:
    texts = [module_text(random.Random(seed)) for seed in range(30)]
    assert all(map(compiles, texts))
    assert sum(text.count("\n") > HEADER.count("\n") + 10 for text in texts) > 20


# --- found by the hunt, or by whole trees: one case for each kind ----------------------------------------------------

FOUND: dict[str, str] = {
    "a range with six numbers": "for i in range(1, 2, 3, 4, 5, 6):\n    x = torch.rand(i)\n",
    "a range that no machine counts": "for i in range(1180591620717411303424):\n    x = i\n",
    "an arange that no machine counts": "x = torch.arange(0, 1180591620717411303424, 2).cuda(non_blocking=True)\n",
    "a slice with the step 0": "x = torch.rand(9)[::0].cuda(non_blocking=True)\n",
    "a size below 0": "x = torch.rand(-1180591620717411303424)[1:].cuda(non_blocking=True)\n",
    "a receiver called like a private value": (
        "class Thing:\n    def __init__(_self):\n        self._x = _self\n    def get(self):\n        return self._x\n"
    ),
    "a store that is only text": (
        'class Thing:\n    def get(self):\n        """\n        self.x = \'\\u12\'\n        """\n'
        "        return self.x\n"
    ),
}


@pytest.mark.parametrize("code", FOUND.values(), ids=FOUND.keys())
def test_what_once_failed_does_no_more(code: str) -> None:
    assert_survives((HEADER + code).encode())


def test_an_encoding_that_cannot_write_back_is_left_alone() -> None:
    code = b"# coding: idna\nimport torch\nx = torch.rand(99999).to('cuda', non_blocking=True)\n"
    assert_survives(code)
    assert assert_fixes_hold(code) == 0


# --- budgets --------------------------------------------------------------------------------------------------------

COPY = "torch.rand(99999).to('cuda', non_blocking=True)"
ENDLESS = "def endless(x):\n" + "    x = x + 1\n" * 25_000 + f"    return {COPY}\n"


def test_a_function_that_takes_too_many_steps_is_unproven_and_the_rest_is_checked(write: WriteFiles, cli: Cli) -> None:
    write({"long.py": f"import torch\n\n\n{ENDLESS}\n\ndef short():\n    return {COPY}\n"})
    ran = cli("check", "-v", "--output-format", "json")
    report = json.loads(ran.out)
    assert [(one["code"], one["line"]) for one in report["findings"]] == [("HTD101", 25_009)]
    assert report["summary"]["unproven"] == 1
    note = "h2dlint: long.py: endless takes too many steps to be followed to its end: its copies are unproven"
    assert note in ran.err.splitlines()


def test_what_a_function_returns_before_its_steps_are_used_up_is_not_all_that_it_returns(
    write: WriteFiles, cli: Cli
) -> None:
    long = "    y = torch.rand(99999)\n    if x:\n        return y\n" + "    x = x + 1\n" * 25_000
    send = "def send():\n    return made(0).to('cuda', non_blocking=True)\n"
    write({"long.py": f"import torch\n\n\ndef made(x):\n{long}    return y.pin_memory()\n\n\n{send}"})
    assert json.loads(cli("check", "--output-format", "json").out)["findings"] == []


# --- the same bytes, however it is run --------------------------------------------------------------------------------


def test_the_output_is_the_same_for_any_order_any_processes_and_any_hash_seed(tmp_path: Path) -> None:
    for number in range(10):
        text = module_text(random.Random(number), size=30)
        (tmp_path / f"m{number}.py").write_text(
            text + f"from m{(number + 3) % 10} import *\nx.cuda(non_blocking=True)\n"
        )
    names = [f"m{number}.py" for number in range(10)]
    outputs = set()
    for seed, order, jobs in (("0", names, "1"), ("1", names[::-1], "1"), ("42", names[5:] + names[:5], "3")):
        command = [sys.executable, "-m", "h2dlint", "check", "-j", jobs, "--no-cache", "--select", "ALL"]
        ran = subprocess.run(
            [*command, "--show-unproven", "--output-format", "json", *order],
            cwd=tmp_path, env={**clean_environment(), "PYTHONHASHSEED": seed}, capture_output=True, timeout=120,
        )  # fmt: skip
        assert ran.returncode in (0, 1), ran.stderr
        report = json.loads(ran.stdout)
        outputs.add(json.dumps([report["findings"], {**report["summary"], "seconds": 0}], sort_keys=True))
    assert len(outputs) == 1


def test_a_look_at_a_file_needs_no_disk() -> None:
    assert looked_at(b"import torch\n").findings == ()
