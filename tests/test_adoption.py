"""Living with old findings: the baseline, what changed since a git revision, and the files that a change reaches."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Cli, WriteFiles

from h2dlint.changes import changes_since
from h2dlint.settings import ConfigError

COPY = "torch.rand(99999).to('cuda', non_blocking=True)"
BASELINE = "h2dlint-baseline.json"


def module(*functions: str) -> str:
    """A module in which each of the functions makes the same mistake."""
    return "import torch\n" + "".join(f"\n\ndef {name}():\n    return {COPY}\n" for name in functions)


def found(out: str) -> list[tuple[str, int]]:
    """Path and line of each finding in a JSON report."""
    return [(one["path"], one["line"]) for one in json.loads(out)["findings"]]


def git(folder: Path, *arguments: str) -> str:
    """Runs git in a repository of the test's own."""
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
    ran = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def commit(folder: Path) -> str:
    """Commits everything; the commit's name."""
    if not (folder / ".git").exists():
        git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "a state")
    return git(folder, "rev-parse", "HEAD")


# --- the baseline -------------------------------------------------------------------------------------------------


def test_known_findings_are_not_reported_and_new_ones_are(write: WriteFiles, cli: Cli) -> None:
    folder = write({"p/a.py": module("f", "g"), "b.py": module("f")})
    ran = cli("check", "--write-baseline", BASELINE)
    assert (ran.status, ran.out) == (0, "")
    assert "wrote 3 findings" in ran.err
    ran = cli("check", "--baseline", BASELINE)
    assert (ran.status, ran.out) == (0, "All clear: nothing to report in 2 files (2 analysed) · 3 known\n")
    write({"p/a.py": "# moved\n\n" + module("f", "g", "new")})
    assert found(cli("check", "--baseline", BASELINE, "--output-format", "json").out) == [("p/a.py", 15)]
    write({"h2dlint.toml": f"baseline = '{BASELINE}'"})
    assert found(cli("check", "--output-format", "json").out) == [("p/a.py", 15)]
    assert [one["path"] for one in json.loads((folder / BASELINE).read_text())["findings"]] == [
        "b.py",
        "p/a.py",
        "p/a.py",
    ]


def test_known_findings_can_be_asked_for(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": module("f"), "h2dlint.toml": f"baseline = '{BASELINE}'"})
    cli("check", "--write-baseline", BASELINE)
    assert (cli("check").status, cli("check", "--no-baseline").status) == (0, 1)
    assert cli("check", "--no-baseline", "--baseline", BASELINE).status == 2


def test_a_second_copy_like_a_known_one_is_new(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": f"import torch\n\nx = {COPY}\ny = {COPY}\n"})
    cli("check", "--write-baseline", BASELINE)
    write({"a.py": f"import torch\n\nx = {COPY}\ny = {COPY}\nz = {COPY}\n"})
    assert found(cli("check", "--baseline", BASELINE, "--output-format", "json").out) == [("a.py", 5)]


def test_a_baseline_holds_from_any_folder(write: WriteFiles, cli: Cli, tmp_path: Path) -> None:
    write({"p/a.py": module("f"), "h2dlint.toml": f"baseline = '{BASELINE}'"})
    cli("check", "--write-baseline", BASELINE)
    assert cli("check", str(tmp_path / "p" / "a.py")).status == 0


def test_what_is_gone_from_the_baseline_is_told(write: WriteFiles, cli: Cli) -> None:
    folder = write({"a.py": module("f", "g"), "b.py": module("f"), "c.py": module("f")})
    cli("check", "--write-baseline", BASELINE)
    write({"a.py": module("g")})
    (folder / "c.py").unlink()
    ran = cli("check", "--baseline", BASELINE)
    assert (ran.status, ran.err) == (
        0,
        "h2dlint: 2 findings of the baseline are gone; run with --write-baseline FILE to take note of it\n",
    )
    assert cli("check", "--baseline", BASELINE, "b.py").err.startswith("h2dlint: 1 finding of the baseline is gone")
    assert cli("check", "--baseline", BASELINE, "--select", "HTD2").err == ""
    assert "wrote 2 findings" in cli("check", "--write-baseline", BASELINE).err
    assert cli("check", "--baseline", BASELINE).err == ""


def test_a_baseline_of_a_part_keeps_the_rest(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": module("f"), "b.py": module("f")})
    cli("check", "--write-baseline", BASELINE)
    write({"a.py": module("f", "g")})
    assert "wrote 3 findings" in cli("check", "a.py", "--write-baseline", BASELINE).err
    assert cli("check", "--baseline", BASELINE).status == 0


def test_known_findings_are_not_fixed(write: WriteFiles, cli: Cli) -> None:
    index = "torch.arange(99999).to('cuda', non_blocking=True)"
    folder = write({"a.py": f"import torch\n\nx = {index}\n"})
    cli("check", "--write-baseline", BASELINE)
    write({"a.py": f"import torch\n\nx = {index}\n\n\ndef f():\n    return {index}\n"})
    assert cli("check", "--baseline", BASELINE, "--fix").status == 0
    fixed = f"import torch\n\nx = {index}\n\n\ndef f():\n    return torch.arange(99999, device='cuda')\n"
    assert (folder / "a.py").read_text() == fixed


def test_a_file_that_cannot_be_read_can_be_known_too(write: WriteFiles, cli: Cli) -> None:
    folder = write({"a.py": "non_blocking = (\n", "b.py": module("f")})
    commit(folder)
    cli("check", "--write-baseline", BASELINE)
    assert (cli("check", "--baseline", BASELINE).status, cli("check", "--since", "HEAD").status) == (0, 0)
    write({"c.py": "non_blocking = (\n"})
    for option in (("--baseline", BASELINE), ("--since", "HEAD")):
        assert found(cli("check", *option, "--output-format", "json").out) == [("c.py", 1)]


BAD_BASELINES = {
    "no such file": (None, "no such baseline; write it with `h2dlint check --write-baseline"),
    "no JSON": ("[", "not a baseline ("),
    "another kind of file": ("[]", "not a baseline of this version"),
    "another version": ('{"version": 9}', "not a baseline of this version"),
    "an entry that is none": ('{"version": 1, "findings": [{"path": 3}]}', "not a baseline's entry"),
}


@pytest.mark.parametrize(("text", "message"), BAD_BASELINES.values(), ids=BAD_BASELINES.keys())
def test_a_baseline_that_cannot_be_used(write: WriteFiles, cli: Cli, text: str | None, message: str) -> None:
    write({"a.py": module("f"), **({} if text is None else {BASELINE: text})})
    ran = cli("check", "--baseline", BASELINE)
    assert (ran.status, ran.out) == (2, "")
    assert f"{BASELINE}: {message}" in ran.err


# --- since a revision ---------------------------------------------------------------------------------------------

CHAIN = """\
import torch


def f(d, n):
    host = torch.zeros(n, pin_memory=True)
    rows = n + 1
    host = host.pin_memory()
    return host.to(d, non_blocking=True)


def old(d):
    return torch.rand(99999).to(d, non_blocking=True)
"""


def test_only_what_rests_on_a_changed_line_is_reported(write: WriteFiles, cli: Cli) -> None:
    folder = write({"a.py": CHAIN})
    commit(folder)

    def since(text: str) -> list[tuple[str, int]]:
        write({"a.py": text})
        return found(cli("check", "--since", "HEAD", "--output-format", "json").out)

    assert since(CHAIN) == []
    assert since(CHAIN.replace("rows = n + 1", "rows = n + 2")) == []
    assert since(CHAIN.replace("rand(99999)", "rand(99998)")) == [("a.py", 12)], "the copy's own line"
    unpinned = CHAIN.replace(", pin_memory=True", "").replace("    host = host.pin_memory()\n", "")
    commit_of_pageable = unpinned.replace("rows = n + 1", "rows = n")
    assert since(unpinned) == [("a.py", 7)], "the line where the memory is made, two lines above the copy"
    assert since(CHAIN.replace("def f", "\n\n\ndef f")) == [], "lines that move have not changed"
    write({"a.py": commit_of_pageable})
    commit(folder)
    assert since(commit_of_pageable) == []
    assert since(unpinned) == []


def test_a_pin_that_was_taken_out_is_a_change_although_no_line_of_the_chain_is_new(write: WriteFiles, cli: Cli) -> None:
    pinned = CHAIN.replace(", pin_memory=True", "")
    folder = write({"a.py": pinned})
    commit(folder)
    assert found(cli("check", "--since", "HEAD", "--output-format", "json").out) == []
    write({"a.py": pinned.replace("    host = host.pin_memory()\n", "").replace("def old", "# moved\ndef old")})
    assert found(cli("check", "--since", "HEAD", "--output-format", "json").out) == [("a.py", 7)]


def test_a_chain_through_another_file_counts(write: WriteFiles, cli: Cli) -> None:
    helper = "import torch\n\n\ndef make(n):\n    return torch.zeros(n, pin_memory=True)\n"
    user = "from helper import make\n\n\ndef f(d, n):\n    return make(n).to(d, non_blocking=True)\n"
    folder = write({"helper.py": helper, "sub dir/größe.py": module("f"), "user.py": user})
    first = commit(folder)
    write({"helper.py": helper.replace(", pin_memory=True", "")})
    commit(folder)
    assert found(cli("check", "--since", first, "--output-format", "json").out) == [("user.py", 5)]
    assert found(cli("check", "--since", "HEAD", "--output-format", "json").out) == []
    write({"sub dir/größe.py": module("f").replace("99999", "9999"), "new.py": module("f")})
    assert found(cli("check", "--since", "HEAD", "--output-format", "json").out) == [
        ("new.py", 5),
        ("sub dir/größe.py", 5),
    ]


def test_a_repository_behind_a_link_is_the_same(write: WriteFiles, cli: Cli, tmp_path: Path) -> None:
    write({"real/a.py": module("f")})
    commit(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write({"real/a.py": module("f", "g"), "outside.py": ""})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "outside.py")
    git(tmp_path, "commit", "-q", "-m", "around it")
    ran = subprocess.run(
        [sys.executable, "-m", "h2dlint", "check", str(tmp_path / "link" / "a.py"), "--since", "HEAD"],
        cwd=tmp_path / "link",
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stdout.count("HTD101")) == (1, 1), ran.stdout + ran.stderr


def test_fixes_since_a_revision_leave_old_code_alone(write: WriteFiles, cli: Cli) -> None:
    index = "torch.arange(99999).to('cuda', non_blocking=True)"
    old = f"import torch\n\n\ndef old():\n    return {index}\n"
    folder = write({"a.py": old})
    commit(folder)
    write({"a.py": f"{old}\n\ndef new():\n    x = {index}\n    return x\n"})
    assert cli("check", "--since", "HEAD", "--fix").status == 0
    text = (folder / "a.py").read_text()
    assert text.startswith(old)
    assert "    x = torch.arange(99999, device='cuda')\n" in text


def test_what_git_cannot_answer_is_told(write: WriteFiles, cli: Cli) -> None:
    folder = write({"a.py": module("f")})
    ran = cli("check", "--since", "HEAD", env={"GIT_CEILING_DIRECTORIES": str(folder.parent)})
    assert (ran.status, ran.out) == (2, "")
    assert "`--since` asks git, which says: not a git repository" in ran.err
    commit(folder)
    ran = cli("check", "--since", "nonsense")
    assert (ran.status, "git knows no revision `nonsense`" in ran.err) == (2, True)
    assert cli("check", "--since=--output=x").status == 2
    assert cli("check", "--since", "HEAD", env={"PATH": "/nowhere"}).status == 2


def test_a_change_is_read_as_git_means_it(write: WriteFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write({"a.py": "1\n2\n3\n4\n5\n", 'q"t.py': "1\n", "z.py": "1\n"})
    monkeypatch.chdir(folder)
    commit(folder)
    write({"a.py": "1\nx\n+++ b/z.py\n5\n", 'q"t.py': "0\n1\n"})
    files = {Path(path).name: changes for path, changes in changes_since("HEAD").files.items()}
    assert {name: (one.added, one.removed) for name, one in files.items()} == {
        "a.py": (((2, 3),), ()),
        'q"t.py': (((1, 1),), ()),
    }
    write({"a.py": "1\n5\n", 'q"t.py': "1\n"})
    (changes,) = changes_since("HEAD").files.values()
    assert (changes.added, changes.removed) == ((), (1,))
    with pytest.raises(ConfigError, match="no revision"):
        changes_since("nothing")


# --- files that a change reaches ----------------------------------------------------------------------------------

UTILS = "import torch\n\n\ndef make(n):\n    return torch.zeros(n, pin_memory=True)\n"
WORKER = "from engine.utils import make\n\n\ndef step(d, n):\n    return make(n).to(d, non_blocking=True)\n"
AGAIN = "from engine import make\n\n\ndef step(d, n):\n    return make(n).to(d, non_blocking=True)\n"
OTHER = (
    "import torch\nfrom engine import utils\n\n\ndef step(d):\n    return torch.rand(99999).to(d, non_blocking=True)\n"
)
ENGINE = {
    "engine/__init__.py": "from .utils import make\n",
    "engine/utils.py": UTILS,
    "engine/worker.py": WORKER,
    "again.py": AGAIN,
    "other.py": OTHER,
    "unrelated.py": module("f"),
    "pyproject.toml": "",
}


def test_a_changed_helper_is_caught_in_the_file_that_uses_it(write: WriteFiles, cli: Cli) -> None:
    """The commit touches utils.py alone; the copies that it turns fake are in two other files."""
    folder = write(ENGINE)
    assert cli("check", "engine", "again.py").status == 0
    first = commit(folder)
    write({"engine/utils.py": UTILS.replace(", pin_memory=True", "")})
    commit(folder)
    changed = git(folder, "diff", "--name-only", first, "HEAD").split()
    assert changed == ["engine/utils.py"]
    assert cli("check", *changed).status == 0
    ran = cli("check", "--affected", *changed)
    assert ran.status == 1
    assert found(cli("check", "--affected", "--output-format", "json", *changed).out) == [
        ("again.py", 5),
        ("engine/worker.py", 5),
    ]
    assert ran.out.splitlines()[-1] == "Found 2 errors in 1 file (2 analysed, 2 of them for depending on these)"


def test_a_changed_caller_is_caught_in_the_function_that_it_calls(write: WriteFiles, cli: Cli) -> None:
    caller = "import torch\nfrom send import send\n\n\ndef step(n):\n    send(torch.rand(n, pin_memory=True), 'cuda')\n"
    callee = "def send(x, d):\n    return x.to(d, non_blocking=True)\n"
    write({"send.py": callee, "caller.py": caller, "pyproject.toml": ""})
    assert cli("check").status == 0
    write({"caller.py": caller.replace(", pin_memory=True", "")})
    out = cli("check", "--affected", "caller.py", "--output-format", "json").out
    assert found(out) == [("send.py", 2)]


def test_a_file_that_does_not_use_what_changed_is_left_out(write: WriteFiles, cli: Cli) -> None:
    write(ENGINE)
    ran = cli("check", "--affected", "engine/utils.py", "--output-format", "json")
    assert found(ran.out) == [], "other.py imports the helper and never calls it"


def test_an_import_within_a_function_is_one(write: WriteFiles, cli: Cli) -> None:
    imported = "    from engine import (  # late\n        utils,\n    )\n"
    late = f"def step(d, n):\n{imported}    utils.make(n).to(d, non_blocking=True)\n"
    write({**ENGINE, "late.py": late, "engine/utils.py": UTILS.replace(", pin_memory=True", "")})
    out = cli("check", "--affected", "engine/utils.py", "--output-format", "json").out
    assert [path for path, _ in found(out)] == ["again.py", "engine/worker.py", "late.py"]


def test_only_the_given_files_are_fixed(write: WriteFiles, cli: Cli) -> None:
    folder = write({**ENGINE, "engine/utils.py": UTILS.replace(", pin_memory=True", "")})
    assert cli("check", "--affected", "--fix", "--unsafe-fixes", "engine/utils.py").status == 1
    assert (folder / "engine/worker.py").read_text() == WORKER
