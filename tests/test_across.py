"""Fixes that change another file than their finding's: what is written, what stays, and that values stay the same."""

from __future__ import annotations

import importlib
import json
import os
import stat
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from across_cases_format import AcrossCase, read_across
from conftest import Cli, WriteFiles
from fixer_proof import StandIn, described, pretending

from h2dlint.apply import NotWrittenError, write_files

CASES = read_across()
cases = pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])

DATA = (
    "from torch.utils.data import DataLoader\n\n\ndef make_loader(rows):\n    return DataLoader(rows, batch_size=2)\n"
)
DATA_FIXED = DATA.replace("batch_size=2", "batch_size=2, pin_memory=torch.cuda.is_available()")
TRAIN = """from pkg.data import make_loader


def train(rows, device):
    for batch in make_loader(rows):
        yield batch.to(device, non_blocking=True)
"""
PROJECT = {"pyproject.toml": "", "pkg/__init__.py": "", "pkg/data.py": DATA, "pkg/train.py": TRAIN}


def read(folder: Path, paths: dict[str, str]) -> dict[str, str]:
    return {path: (folder / path).read_text("utf-8") for path in paths}


@cases
def test_every_fix_is_made_where_it_belongs(case: AcrossCase, tmp_path: Path, cli: Cli) -> None:
    case.write(tmp_path, case.before)
    assert cli("check", "--isolated", "--exit-zero").out.count(" HTD") > 0
    ran = cli("check", "--isolated", "--fix", *case.options)
    assert read(tmp_path, case.after) == case.after
    assert (ran.status, "All clear" in ran.out) == (0, True), ran.out


@cases
def test_a_second_run_changes_nothing(case: AcrossCase, tmp_path: Path, cli: Cli) -> None:
    case.write(tmp_path, case.after)
    assert cli("check", "--isolated", "--diff", *case.options).out == ""


@cases
def test_a_diff_shows_it_and_writes_nothing(case: AcrossCase, tmp_path: Path, cli: Cli) -> None:
    case.write(tmp_path, case.before)
    ran = cli("check", "--isolated", "--diff", *case.options)
    changed = sorted(path for path, code in case.after.items() if code != case.before[path])
    assert [line[6:] for line in ran.out.splitlines() if line.startswith("+++ b/")] == changed
    assert read(tmp_path, case.before) == case.before


@cases
def test_the_fix_changes_no_value(case: AcrossCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an accelerator stood in for, and without one."""
    outcomes = []
    for name, files in (("before", case.before), ("after", case.after)):
        (tmp_path / name).mkdir()
        case.write(tmp_path / name, files)
        outcomes.append(stood_in(case.run, tmp_path / name, monkeypatch))
    assert outcomes[0] == outcomes[1]


def stood_in(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == "pkg"]:
        del sys.modules[name]
    importlib.invalidate_caches()
    with pretending(), StandIn(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a loader warns that it has nobody to pin for
        names: dict[str, Any] = {"__name__": "run"}
        exec(compile(code, "<run>", "exec"), names)
        return described(names["step"]("cpu"))


# --- which files may be changed -----------------------------------------------------------------------------------


def test_a_file_that_was_not_given_is_not_changed(write: WriteFiles, cli: Cli) -> None:
    folder = write(PROJECT)
    ran = cli("check", "--isolated", "--fix", "pkg/train.py")
    assert (ran.status, read(folder, PROJECT)) == (1, PROJECT)
    found = json.loads(cli("check", "--isolated", "--output-format", "json", "pkg/train.py").out)["findings"]
    assert [one["fix"] for one in found] == [None]
    assert [one["no_fix"] for one in found] == ["the change belongs into pkg/data.py: check that file too"]


def test_it_is_changed_where_both_are_given(write: WriteFiles, cli: Cli) -> None:
    folder = write(PROJECT)
    assert cli("check", "--isolated", "--fix", "pkg/train.py", "pkg/data.py").status == 0
    assert (folder / "pkg/data.py").read_text("utf-8") == "import torch\n" + DATA_FIXED
    assert (folder / "pkg/train.py").read_text("utf-8") == TRAIN


def test_an_excluded_file_is_not_changed(write: WriteFiles, cli: Cli) -> None:
    folder = write(PROJECT)
    assert cli("check", "--isolated", "--fix", "--exclude", "data.py").status == 1
    assert read(folder, PROJECT) == PROJECT


def test_what_comes_from_stdin_changes_no_file(write: WriteFiles, cli: Cli) -> None:
    folder = write(PROJECT)
    write({"pkg/copy.py": TRAIN})
    assert cli("check", "--isolated", "--fix", "pkg/copy.py").status == 1
    assert read(folder, PROJECT) == PROJECT


def test_without_unsafe_fixes_an_unsafe_one_is_only_shown(write: WriteFiles, cli: Cli) -> None:
    case = next(case for case in CASES if "result tensors" in case.title)
    folder = write({"pyproject.toml": "", "pkg/__init__.py": "", **case.before})
    ran = cli("check", "--isolated", "--fix")
    assert (ran.status, read(folder, case.before)) == (1, case.before)
    assert "2 with --fix --unsafe-fixes" in ran.out


def test_a_loader_that_several_files_use_is_changed_once(write: WriteFiles, cli: Cli) -> None:
    folder = write({**PROJECT, "pkg/evaluate.py": TRAIN.replace("train", "evaluate")})
    ran = cli("check", "--isolated", "--fix")
    assert (ran.status, ran.out.splitlines()[-1].partition(" · ")[0]) == (0, "Fixed 2 findings in 1 file")
    assert (folder / "pkg/data.py").read_text("utf-8") == "import torch\n" + DATA_FIXED


def test_several_processes_come_to_the_same(write: WriteFiles, cli: Cli) -> None:
    more = {f"pkg/more{number}.py": TRAIN.replace("train", f"train{number}") for number in range(9)}
    folder = write({**PROJECT, **more})
    ran = cli("check", "--isolated", "--fix", "-j", "2")
    assert (ran.status, ran.out.splitlines()[-1].partition(" · ")[0]) == (0, "Fixed 10 findings in 1 file")
    assert (folder / "pkg/data.py").read_text("utf-8") == "import torch\n" + DATA_FIXED


def test_the_formats_say_where_the_change_goes(write: WriteFiles, cli: Cli) -> None:
    write(PROJECT)
    assert (
        "fix (--fix): Pin the batches in the loader, in pkg/data.py"
        in cli("check", "--isolated", "--output-format", "full").out
    )
    fix = json.loads(cli("check", "--isolated", "--output-format", "json").out)["findings"][0]["fix"]
    assert (fix["edits"], [part["path"] for part in fix["elsewhere"]]) == ([], ["pkg/data.py"])
    assert cli("check", "--isolated", "--output-format", "sarif").status == 1
    assert "in `pkg/data.py`" in cli("check", "--isolated", "--output-format", "markdown").out


def test_the_text_of_a_pull_request_names_both_files(write: WriteFiles, cli: Cli) -> None:
    folder = write(PROJECT)
    cli("check", "--isolated", "--fix", "--summary-file", "said.md")
    said = (folder / "said.md").read_text("utf-8")
    assert "### `pkg/train.py`" in said
    assert "**Pin the batches in the loader** in `pkg/data.py`" in said


def test_a_notebook_that_uses_the_loader_has_it_fixed(write: WriteFiles, cli: Cli) -> None:
    cell: dict[str, object] = {
        "cell_type": "code",
        "metadata": {},
        "execution_count": None,
        "outputs": [],
        "source": TRAIN,
    }
    book = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    folder = write({"pyproject.toml": "", "pkg/__init__.py": "", "pkg/data.py": DATA, "train.ipynb": book})
    assert cli("check", "--isolated", "--fix").status == 0
    assert (folder / "pkg/data.py").read_text("utf-8") == "import torch\n" + DATA_FIXED
    assert (folder / "train.ipynb").read_text("utf-8") == book


# --- all or none --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs permissions")
def test_where_one_file_cannot_be_written_the_other_stays_too(write: WriteFiles, cli: Cli) -> None:
    case = next(case for case in CASES if "of their own too" in case.title)
    folder = write({"pyproject.toml": "", "pkg/__init__.py": "", **case.before})
    target = folder / "pkg/data.py"
    outside = folder / "link-target"
    outside.mkdir()
    target.unlink()
    (outside / "data.py").write_text(case.before["pkg/data.py"], "utf-8")
    target.symlink_to(outside / "data.py")
    (outside / "data.py").chmod(stat.S_IRUSR)
    outside.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        ran = cli("check", "--isolated", "--fix", "pkg")
    finally:
        outside.chmod(stat.S_IRWXU)
    if os.geteuid() != 0:  # nothing is read-only to root
        assert read(folder, case.before) == case.before
        assert "pkg/data.py was left alone" in ran.err
        assert "pkg/train.py was left alone" in ran.err
        assert ran.status == 1


def test_what_was_written_is_put_back_where_another_file_fails(tmp_path: Path) -> None:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_bytes(b"a\n")
    two.write_bytes(b"changed meanwhile\n")
    with pytest.raises(NotWrittenError, match=r"two\.py: it was changed while it was looked at"):
        write_files([(str(one), b"a\n", b"b\n"), (str(two), b"c\n", b"d\n")])
    assert (one.read_bytes(), two.read_bytes()) == (b"a\n", b"changed meanwhile\n")
