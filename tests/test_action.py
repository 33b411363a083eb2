"""The GitHub action: its script, run as the action runs it, against a bare git repository that stands for GitHub's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import Struct
from test_pre_commit import IDENTITY, git

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "action" / "run.sh"
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
H2DLINT = str(Path(sys.executable).with_name("h2dlint"))

FAKE = "import torch\n\nx = torch.rand(99999).to('cuda', non_blocking=True)\n"
FIXED = FAKE.replace("(99999)", "(99999, pin_memory=True)")
WORKER = (
    "import torch\nfrom torch.utils.data import Dataset\n\n\nclass Rows(Dataset):\n    def __getitem__(self, i):\n"
    "        return torch.rand(99999).to('cuda', non_blocking=True)\n"
)
BRANCH = "h2dlint/fixes"


class Ran(Struct, frozen=True):
    """How one run of the script ended."""

    status: int
    outputs: dict[str, str]
    said: str


Run = Callable[..., Ran]


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """The repository on the server."""
    folder = tmp_path / "origin.git"
    folder.mkdir()
    git(folder, "init", "--quiet", "--bare", "--initial-branch=main")
    return folder


@pytest.fixture
def checkout(tmp_path: Path, origin: Path) -> Path:
    """A checkout of it, with one mistake on its main branch."""
    folder = tmp_path / "checkout"
    git(tmp_path, "clone", "--quiet", str(origin), str(folder))
    git(folder, "checkout", "--quiet", "-B", "main")
    commit(folder, {"a.py": FAKE})
    return folder


@pytest.fixture
def run(checkout: Path, tmp_path: Path) -> Run:
    """Runs the script in the checkout with these inputs of the action."""

    def call(**inputs: str) -> Ran:
        outputs = tmp_path / "outputs"
        outputs.write_text("")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "RUNNER_"))}
        environment |= {f"H2DLINT_{name.upper()}": value for name, value in {"command": H2DLINT, **inputs}.items()}
        environment |= {"GITHUB_OUTPUT": str(outputs), "RUNNER_TEMP": str(tmp_path), **no_identity()}
        ran = subprocess.run([SCRIPT], cwd=checkout, env=environment, capture_output=True, text=True, timeout=300)
        pairs = (line.partition("=") for line in outputs.read_text().splitlines())
        return Ran(ran.returncode, {name: value for name, _, value in pairs}, ran.stdout + ran.stderr)

    return call


def no_identity() -> dict[str, str]:
    """An environment in which git knows no user, as on a runner."""
    return {name: value for name, value in IDENTITY.items() if name.startswith("GIT_CONFIG")}


def commit(folder: Path, files: dict[str, str], message: str = "A change") -> str:
    """Commits files and pushes them; the commit."""
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", message)
    git(folder, "push", "--quiet", "origin", "HEAD")
    return git(folder, "rev-parse", "HEAD")


def on_server(origin: Path, file: str, branch: str = BRANCH) -> str:
    """A file as a branch of the server has it."""
    return git(origin, "show", f"{branch}:{file}") + "\n"


# --- fix ----------------------------------------------------------------------------------------------------------


def test_fix_pushes_one_commit_and_writes_what_to_say_about_it(run: Run, checkout: Path, origin: Path) -> None:
    main = git(origin, "rev-parse", "main")
    ran = run(mode="fix", branch=BRANCH, commit_message="Pin what is sent")
    assert ran.status == 0, ran.said
    assert {**ran.outputs, "summary-file": ""} == {
        "findings": "false",
        "changed": "true",
        "pushed": "true",
        "summary-file": "",
    }
    assert on_server(origin, "a.py") == FIXED
    assert git(origin, "log", "--format=%P %s", "-1", BRANCH) == f"{main} Pin what is sent"
    assert git(origin, "rev-parse", "main") == main
    assert "## What was changed\n\n### `a.py`" in Path(ran.outputs["summary-file"]).read_text("utf-8")


def test_the_checkout_keeps_its_branch_and_has_the_changes(run: Run, checkout: Path) -> None:
    head = git(checkout, "rev-parse", "HEAD")
    run(mode="fix", branch=BRANCH)
    assert git(checkout, "rev-parse", "HEAD") == head
    assert git(checkout, "branch", "--show-current") == "main"
    assert git(checkout, "status", "--porcelain") == "M a.py"


def test_without_a_branch_the_changes_stay_in_the_working_tree(run: Run, checkout: Path, origin: Path) -> None:
    ran = run(mode="fix")
    assert (ran.status, ran.outputs["changed"], ran.outputs["pushed"]) == (0, "true", "false")
    assert (checkout / "a.py").read_text() == FIXED
    assert git(origin, "branch", "--list") == "* main"


def test_nothing_to_fix_pushes_nothing(run: Run, checkout: Path, origin: Path) -> None:
    commit(checkout, {"a.py": FIXED})
    ran = run(mode="fix", branch=BRANCH)
    assert (ran.status, ran.outputs["changed"], ran.outputs["pushed"]) == (0, "false", "false")
    assert git(origin, "branch", "--list") == "* main"


def test_what_needs_a_person_is_said_and_fails_only_if_asked(run: Run, checkout: Path) -> None:
    commit(checkout, {"a.py": WORKER})
    ran = run(mode="fix", branch=BRANCH)
    assert (ran.status, ran.outputs["findings"], ran.outputs["changed"]) == (0, "true", "false")
    assert "## What needs a person" in Path(ran.outputs["summary-file"]).read_text("utf-8")
    assert run(mode="fix", branch=BRANCH, fail="true").status == 1


def test_a_second_run_leaves_the_branch_alone(run: Run, checkout: Path, origin: Path) -> None:
    run(mode="fix", branch=BRANCH)
    before = git(origin, "rev-parse", BRANCH)
    git(checkout, "checkout", "--quiet", "--", ".")
    ran = run(mode="fix", branch=BRANCH)
    assert (ran.status, ran.outputs["changed"], ran.outputs["pushed"]) == (0, "true", "false")
    assert git(origin, "rev-parse", BRANCH) == before


def test_the_branch_follows_main(run: Run, checkout: Path, origin: Path) -> None:
    run(mode="fix", branch=BRANCH)
    git(checkout, "checkout", "--quiet", "--", ".")
    main = commit(checkout, {"b.py": FAKE})
    ran = run(mode="fix", branch=BRANCH)
    assert (ran.status, ran.outputs["pushed"]) == (0, "true"), ran.said
    assert git(origin, "rev-parse", f"{BRANCH}^") == main
    assert (on_server(origin, "a.py"), on_server(origin, "b.py")) == (FIXED, FIXED)


def test_a_shallow_checkout_is_enough(run: Run, checkout: Path, origin: Path, tmp_path: Path) -> None:
    commit(checkout, {"b.py": "x = 1\n"})
    run(mode="fix", branch=BRANCH)
    git(checkout, "checkout", "--quiet", "--", ".")
    commit(checkout, {"b.py": "x = 2\n"})
    checkout.rename(tmp_path / "full")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{origin}", str(checkout))
    ran = run(mode="fix", branch=BRANCH)
    assert (ran.status, ran.outputs["pushed"]) == (0, "true"), ran.said
    assert on_server(origin, "b.py") == "x = 2\n"


def test_somebodys_work_on_the_branch_is_not_overwritten(run: Run, checkout: Path, origin: Path) -> None:
    run(mode="fix", branch=BRANCH)
    git(checkout, "checkout", "--quiet", "--", ".")
    git(checkout, "fetch", "--quiet", "origin", BRANCH)
    git(checkout, "checkout", "--quiet", "-B", BRANCH, "FETCH_HEAD")
    theirs = commit(checkout, {"a.py": FIXED + "# by hand\n"})
    git(checkout, "checkout", "--quiet", "main")
    ran = run(mode="fix", branch=BRANCH)
    assert (ran.status, "pushed" in ran.outputs) == (2, False)
    assert f"the branch `{BRANCH}` has a commit that is not h2dlint's" in ran.said
    assert git(origin, "rev-parse", BRANCH) == theirs


def test_main_is_never_overwritten(run: Run, origin: Path) -> None:
    main = git(origin, "rev-parse", "main")
    assert run(mode="fix", branch="main").status == 2
    assert git(origin, "rev-parse", "main") == main


def test_changes_that_are_not_ours_are_not_taken_along(run: Run, checkout: Path) -> None:
    (checkout / "a.py").write_text(FAKE + "y = 1\n")
    ran = run(mode="fix", branch=BRANCH)
    assert (ran.status, ran.outputs) == (2, {})
    assert "the working tree has changes of its own" in ran.said
    assert (checkout / "a.py").read_text() == FAKE + "y = 1\n"


def test_files_that_git_does_not_know_stay_out(run: Run, checkout: Path, origin: Path) -> None:
    (checkout / "new.py").write_text(FAKE)
    assert run(mode="fix", branch=BRANCH).outputs["pushed"] == "true"
    assert git(origin, "ls-tree", "--name-only", BRANCH) == "a.py"


# --- the other modes, and wrong inputs ----------------------------------------------------------------------------


@pytest.fixture
def recorder(tmp_path: Path) -> Callable[[int], tuple[str, Path]]:
    """A stand-in for h2dlint that ends with a status of choice and writes down its arguments."""

    def make(status: int) -> tuple[str, Path]:
        script, arguments = tmp_path / "recorder", tmp_path / "arguments"
        script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >"{arguments}"\nexit {status}\n')
        script.chmod(0o755)
        return str(script), arguments

    return make


CALLS: dict[str, tuple[dict[str, str], str]] = {
    "annotate": ({"mode": "annotate"}, "check --output-format github ."),
    "annotate is the default": ({}, "check --output-format github ."),
    "sarif": ({"mode": "sarif"}, "check --output-format sarif --output-file h2dlint.sarif ."),
    "sarif, elsewhere": (
        {"mode": "sarif", "sarif_file": "out.sarif"},
        "check --output-format sarif --output-file out.sarif .",
    ),
    "paths and options": (
        {"paths": "src  tests/*\nmore", "options": "--since origin/main --strict"},
        "check --since origin/main --strict --output-format github src tests/* more",
    ),
}


@pytest.mark.parametrize(("inputs", "arguments"), CALLS.values(), ids=CALLS.keys())
def test_how_h2dlint_is_called(
    run: Run, recorder: Callable[[int], tuple[str, Path]], inputs: dict[str, str], arguments: str
) -> None:
    command, written = recorder(0)
    assert run(**inputs, command=command).status == 0
    assert written.read_text().split() == arguments.split()


STATUSES: dict[str, tuple[dict[str, str], int, int]] = {
    "annotate fails on findings": ({"mode": "annotate"}, 1, 1),
    "annotate, told not to": ({"mode": "annotate", "fail": "false"}, 1, 0),
    "sarif does not": ({"mode": "sarif"}, 1, 0),
    "sarif, told to": ({"mode": "sarif", "fail": "true"}, 1, 1),
    "wrong usage always fails": ({"mode": "sarif"}, 2, 2),
    "a crash too": ({"mode": "annotate", "fail": "false"}, 3, 3),
    "another mode": ({"mode": "repair"}, 0, 2),
    "another answer": ({"fail": "yes"}, 0, 2),
}


@pytest.mark.parametrize(("inputs", "ends", "status"), STATUSES.values(), ids=STATUSES.keys())
def test_what_fails_the_step(
    run: Run, recorder: Callable[[int], tuple[str, Path]], inputs: dict[str, str], ends: int, status: int
) -> None:
    ran = run(**inputs, command=recorder(ends)[0])
    assert ran.status == status
    if ends < 2 and status < 2:
        assert ran.outputs["findings"] == ("true" if ends else "false")


def test_it_installs_itself(run: Run, checkout: Path) -> None:
    ran = run(mode="fix", command="", python=sys.executable)
    assert (ran.status, ran.outputs["changed"]) == (0, "true"), ran.said
    assert (checkout / "a.py").read_text() == FIXED


# --- the action's own file ----------------------------------------------------------------------------------------


def test_the_script_gets_every_input_and_sets_every_output() -> None:
    text = SCRIPT.read_text("utf-8")
    (step,) = ACTION["runs"]["steps"]
    given = {name: re.search(r"inputs\.([\w-]+)", value) for name, value in step["env"].items()}
    assert {match[1] for match in given.values() if match} == set(ACTION["inputs"])
    read = set(re.findall(r"\$\{(H2DLINT_\w+)", text)) | set(re.findall(r"\$(H2DLINT_\w+)", text))
    assert set(step["env"]) <= read
    assert set(ACTION["outputs"]) == set(re.findall(r"output ([\w-]+) ", text))


def test_the_defaults_of_the_script_are_those_of_the_action() -> None:
    defaults = dict(re.findall(r"\$\{(H2DLINT_\w+):-([^}$]*)\}", SCRIPT.read_text("utf-8")))
    (step,) = ACTION["runs"]["steps"]
    for name, value in step["env"].items():
        shown = ACTION["inputs"][value.split("inputs.")[1].split(" ")[0]]["default"]
        assert defaults.get(name, "") == shown, name


def test_the_script_is_as_shellcheck_wants_it() -> None:
    shellcheck = Path(sys.executable).with_name("shellcheck")
    scripts = [SCRIPT, ROOT / ".ci" / "run", ROOT / ".ci" / "test"]
    ran = subprocess.run([shellcheck, *scripts], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "")


# --- with the real h2dlint ----------------------------------------------------------------------------------------


def test_annotations_come_out_as_workflow_commands(run: Run) -> None:
    ran = run(mode="annotate")
    assert (ran.status, ran.outputs) == (1, {"findings": "true"})
    assert "::error file=a.py,line=3,endLine=3,col=5," in ran.said


def test_a_sarif_file_is_written(run: Run, checkout: Path) -> None:
    ran = run(mode="sarif")
    assert (ran.status, ran.outputs) == (0, {"findings": "true", "sarif-file": "h2dlint.sarif"})
    assert json.loads((checkout / "h2dlint.sarif").read_text("utf-8"))["version"] == "2.1.0"


def test_only_what_a_pull_request_changes_is_annotated(run: Run, checkout: Path) -> None:
    git(checkout, "checkout", "--quiet", "-b", "change")
    commit(checkout, {"b.py": FAKE})
    ran = run(mode="annotate", options="--since origin/main")
    assert ran.status == 1
    assert "file=b.py" in ran.said
    assert "file=a.py" not in ran.said
