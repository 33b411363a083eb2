"""`h2dlint init`, and a project with two hundred findings that adopts h2dlint with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, WriteFiles
from test_adoption import commit, found, git

from h2dlint.adopt import HOOK, with_hook
from h2dlint.config import config_in
from h2dlint.settings import read_settings

PLATFORM = "import torch\n\nPIN_MEMORY = torch.cuda.is_available()\n"
BUFFERS = """\
import torch

from engine.platform import PIN_MEMORY


def host_buffer(n):
    return torch.empty(n, pin_memory=True)


def to_device(x, device):
    if PIN_MEMORY:
        x = x.pin_memory()
    return x.to(device, non_blocking=True)
"""
WORKER = """\
from engine.buffers import host_buffer


class Worker:
    def execute_step(self, n, device):
        return host_buffer(n).to(device, non_blocking=True)
"""
PYPROJECT = '[project]\nname = "engine"\n\n[tool.ruff]\nline-length = 100'
MISTAKE = "\n\ndef load_{0}(xs, device):\n    return torch.tensor(xs).to(device, non_blocking=True)\n"
PARTS, MISTAKES = 20, 10

ENGINE = {
    "pyproject.toml": PYPROJECT,
    "engine/__init__.py": "",
    "engine/platform.py": PLATFORM,
    "engine/buffers.py": BUFFERS,
    "engine/worker.py": WORKER,
    **{
        f"engine/part{part}.py": "import torch\n\nfrom engine.platform import PIN_MEMORY\n"
        + "".join(MISTAKE.format(number) for number in range(MISTAKES))
        for part in range(PARTS)
    },
}


def settings(folder: Path) -> dict[str, Any]:
    return read_settings("pyproject.toml", (folder / "pyproject.toml").read_bytes()) or {}


def test_two_hundred_findings_are_adopted_and_the_next_mistake_is_caught(write: WriteFiles, cli: Cli) -> None:
    """Five commands to adopt; then what the hook runs, on the files of a commit."""
    folder = write(ENGINE)
    commit(folder)
    assert len(found(cli("check", "--output-format", "json").out)) == PARTS * MISTAKES

    ran = cli("init")  # 1
    assert ran.status == 0, ran.err
    assert cli("check").out.endswith("200 known\n")  # 2
    commit(folder)  # 3: git add, 4: git commit, 5: pre-commit install
    assert git(folder, "status", "--porcelain") == ""

    def hook() -> list[tuple[str, int]]:
        changed = git(folder, "diff", "--name-only", "HEAD").split()
        return found(cli("check", "--affected", "--output-format", "json", *changed).out)

    write({"engine/part3.py": "# moved\n" + ENGINE["engine/part3.py"]})
    assert hook() == [], "old findings stay quiet, wherever they go"
    write({"engine/part3.py": ENGINE["engine/part3.py"] + MISTAKE.format("new")})
    assert hook() == [("engine/part3.py", 47)], "a new mistake in the changed file"
    write({"engine/part3.py": ENGINE["engine/part3.py"]})
    write({"engine/buffers.py": BUFFERS.replace(", pin_memory=True", "")})
    assert hook() == [("engine/worker.py", 6)], "and one through a changed helper"


def test_what_it_finds_out_and_writes(write: WriteFiles, cli: Cli) -> None:
    folder = write(ENGINE)
    git(folder, "init", "-q")
    ran = cli("init")
    assert settings(folder) == {
        "pin-guard": "engine.platform.PIN_MEMORY",
        "transfer-helper": "engine.buffers.to_device",
        "hot-functions": ["engine.worker.Worker.execute_step"],
        "baseline": "h2dlint-baseline.json",
    }
    assert (folder / "pyproject.toml").read_text().startswith(PYPROJECT + "\n\n[tool.h2dlint]\n")
    assert len(json.loads((folder / "h2dlint-baseline.json").read_text())["findings"]) == PARTS * MISTAKES
    assert (folder / ".pre-commit-config.yaml").read_text() == f"repos:\n{HOOK}"
    assert ran.out.splitlines()[0] == "wrote pyproject.toml"
    assert ran.out.splitlines()[-1] == "  git add pyproject.toml h2dlint-baseline.json .pre-commit-config.yaml"


def test_a_project_with_nothing_to_say(write: WriteFiles, cli: Cli) -> None:
    folder = write({"a.py": "x = 1\n"})
    ran = cli("init")
    assert ran.out.splitlines()[:3] == [
        "wrote h2dlint.toml, which says nothing yet: the defaults fit",
        "found nothing to report: no baseline is needed",
        "wrote no commit hook: this is not the top of a git repository",
    ]
    assert config_in(str(folder)) is not None
    assert not (folder / "h2dlint-baseline.json").exists()


def test_settings_that_are_there_stay(write: WriteFiles, cli: Cli) -> None:
    write({"h2dlint.toml": "strict = true\n"})
    ran = cli("init")
    assert (ran.status, ran.out) == (2, "")
    assert "h2dlint.toml has settings already; `h2dlint check --show-settings` prints them" in ran.err


HOOKS: dict[str, tuple[str, str | None]] = {
    "none": ("", f"repos:\n{HOOK}"),
    "others": ("repos:\n- repo: https://x\n  hooks: []\n", f"repos:\n- repo: https://x\n  hooks: []\n{HOOK}"),
    "indented": (
        "# ours\nrepos:\n  - repo: https://x\n    hooks: []",
        "# ours\nrepos:\n  - repo: https://x\n    hooks: []\n" + "".join(f"  {line}\n" for line in HOOK.splitlines()),
    ),
    "settings behind the list": ("repos:\n- repo: x\n  hooks: []\nfail_fast: true\n", None),
    "a list in brackets": ("repos: [{repo: x, hooks: []}]\n", None),
}


@pytest.mark.parametrize(("before", "after"), HOOKS.values(), ids=HOOKS.keys())
def test_the_hook_joins_what_is_there(before: str, after: str | None) -> None:
    assert with_hook(before) == after


def test_a_hooks_file_of_another_kind_is_left_to_its_owner(write: WriteFiles, cli: Cli) -> None:
    text = "repos: []\nfail_fast: true\n"
    folder = write({"a.py": "", ".pre-commit-config.yaml": text, ".git/HEAD": ""})
    assert "add this to its `repos`:\n\n- repo: local\n" in cli("init").out
    assert (folder / ".pre-commit-config.yaml").read_text() == text
