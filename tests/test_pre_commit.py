"""The hooks, run by the real pre-commit in a real repository.

pre-commit installs a hook's repository from git into an environment of its own. Here that repository is the working
tree as it is, put into a new commit, and the environment is made once for all tests.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
FAKE = "import torch\n\nx = torch.rand(99999).to('cuda', non_blocking=True)\n"
FIXED = FAKE.replace("(99999)", "(99999, pin_memory=True)")
NOTEBOOK = json.dumps({"cells": [{"cell_type": "code", "source": FAKE}], "nbformat": 4}, indent=1) + "\n"
PARTS = ("h2dlint", "rules", "fixers", "pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml")

IDENTITY = {
    **{f"GIT_{role}_NAME": "A Tester" for role in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{role}_EMAIL": "tester@example.org" for role in ("AUTHOR", "COMMITTER")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


def git(folder: Path, *arguments: str) -> str:
    """What `git ARGUMENTS...` prints in `folder`."""
    ran = subprocess.run(
        ["git", *arguments], cwd=folder, env={**os.environ, **IDENTITY}, capture_output=True, text=True, check=True
    )
    return ran.stdout.strip()


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that holds this project as it is."""
    folder = tmp_path_factory.mktemp("hooks")
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / part)
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "The hooks")
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pre-commit keeps the environments it makes."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository without files."""
    git(tmp_path, "init", "--quiet")
    return tmp_path


def commit(project: Path, hooks: Path, store: Path, hook: str, files: dict[str, str]) -> tuple[int, str]:
    """Stages files and runs one hook on them as a commit would: its status, and what it says."""
    config = {"repos": [{"repo": str(hooks), "rev": git(hooks, "rev-parse", "HEAD"), "hooks": [{"id": hook}]}]}
    for name, text in {**files, ".pre-commit-config.yaml": json.dumps(config)}.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, "utf-8")
    git(project, "add", ".")
    environment = {**os.environ, **IDENTITY, "PRE_COMMIT_HOME": str(store)}
    command = [sys.executable, "-m", "pre_commit", "run", "--color", "never"]
    ran = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=300)
    return ran.returncode, ran.stdout + ran.stderr


def test_a_mistake_stops_the_commit(project: Path, hooks: Path, store: Path) -> None:
    status, said = commit(project, hooks, store, "h2dlint", {"a.py": FAKE, "b.py": FIXED, "c.txt": FAKE})
    assert status == 1
    assert "a.py:3:5: HTD101 error" in said
    assert "in 2 files" in said
    assert (project / "a.py").read_text() == FAKE


def test_a_clean_commit_passes(project: Path, hooks: Path, store: Path) -> None:
    status, said = commit(project, hooks, store, "h2dlint", {"a.py": FIXED, "b.py": "x = 1\n"})
    assert (status, "Passed" in said) == (0, True), said


def test_a_notebook_is_checked(project: Path, hooks: Path, store: Path) -> None:
    status, said = commit(project, hooks, store, "h2dlint", {"n.ipynb": NOTEBOOK})
    assert status == 1
    assert "n.ipynb:cell 1:3:5: HTD101 error" in said


def test_excludes_hold_for_the_files_that_pre_commit_names(project: Path, hooks: Path, store: Path) -> None:
    settings = "[tool.h2dlint]\nextend-exclude = ['generated', '*_pb2.py']\n"
    files = {"generated/deep/a.py": FAKE, "p/a_pb2.py": FAKE, "build/a.py": FAKE, "pyproject.toml": settings}
    status, said = commit(project, hooks, store, "h2dlint", files)
    assert status == 0, said
    status, said = commit(project, hooks, store, "h2dlint", {"p/a.py": FAKE})
    assert status == 1
    assert [line.split(":")[0] for line in said.splitlines() if "HTD101" in line] == ["p/a.py"]


def test_the_fixing_hook_fixes_and_stops_the_commit_once(project: Path, hooks: Path, store: Path) -> None:
    status, said = commit(project, hooks, store, "h2dlint-fix", {"a.py": FAKE, "n.ipynb": NOTEBOOK})
    assert status == 1
    assert "Fixed 2 findings in 2 files" in said
    assert (project / "a.py").read_text() == FIXED
    assert (project / "n.ipynb").read_text() == NOTEBOOK.replace("(99999)", "(99999, pin_memory=True)")
    assert commit(project, hooks, store, "h2dlint-fix", {})[0] == 0


def test_both_hooks_see_all_files_at_once() -> None:
    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")):
        assert hook["require_serial"] is True
        assert hook["types_or"] == ["python", "jupyter"]
        assert hook["entry"].startswith("h2dlint check --affected --force-exclude")
