"""Every project of `projects/*.md` says about its lines what h2dlint says, whatever else was looked at before."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from projects_format import read_projects
from test_mdtest import Reported, shown, wrong_findings, wrong_verdicts

from h2dlint.facts.analyse import copies_of
from h2dlint.facts.copies import Copy
from h2dlint.facts.project import Project

CASES = read_projects(Path(__file__).parent / "projects")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All projects, a folder each."""
    folder = tmp_path_factory.mktemp("projects")
    for number, case in enumerate(CASES):
        case.write(folder / str(number))
    return folder


@pytest.fixture(scope="module")
def reported(folder: Path) -> dict[str, list[Reported]]:
    """What `h2dlint check` finds in each module, by `number of the project/path`."""
    command = [sys.executable, "-m", "h2dlint", "check", ".", "--output-format", "json", "--isolated"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), f"h2dlint check exited {done.returncode}:\n{done.stderr}"
    found: dict[str, list[Reported]] = {}
    for row in json.loads(done.stdout)["findings"]:
        finding = Reported(row["code"], row["severity"], row["line"], row["end_line"], row["message"])
        found.setdefault(row["path"], []).append(finding)
    return found


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_project_is_as_claimed(
    number: int, folder: Path, reported: dict[str, list[Reported]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / str(number))
    case, project = CASES[number], Project()
    for path, block in case.modules.items():
        copies = _copies(project, path)
        findings = reported.get(f"{number}/{path}", [])
        wrong = [*wrong_verdicts(block, copies), *wrong_findings(block, findings)]
        assert not wrong, shown(block, copies, findings, wrong)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_the_order_of_files_changes_no_verdict(number: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder / str(number))
    files = list(CASES[number].modules)
    forwards, backwards = Project(), Project()
    alone = {file: _verdicts(Project(), file) for file in files}
    assert {file: _verdicts(forwards, file) for file in files} == alone
    assert {file: _verdicts(backwards, file) for file in reversed(files)} == alone


def _verdicts(project: Project, file: str) -> list[tuple[object, ...]]:
    return [(copy.span, copy.verdict, copy.reveal, copy.branches) for copy in _copies(project, file)]


def _copies(project: Project, file: str) -> list[Copy]:
    text = Path(file).read_text("utf-8")
    return copies_of(project, file, text, ast.parse(text), every=True)


def test_every_case_has_a_claim() -> None:
    assert not [case.name for case in CASES if not any(block.claims for block in case.modules.values())]


LONG = "".join(f"        self.table_{number} = [{number} + size, {number} - size]\n" for number in range(800))
"""More statements than a function is followed through for somebody else's question."""


def test_a_constructor_that_was_cut_short_for_others_is_followed_in_its_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = (
        "import torch\n\n\nclass Runner:\n    def __init__(self, size):\n"
        + LONG
        + "        self.host = torch.zeros(size, "
        "pin_memory=True)\n        self.host.to('cuda', non_blocking=True)\n\n"
        "    def step(self, device):\n        return self.host.to(device, non_blocking=True)\n"
    )
    before = (
        "from runner import Runner\n\n\ndef warm(runner: Runner, device):\n"
        "    return runner.host.to(device, non_blocking=True)\n"
    )
    monkeypatch.chdir(tmp_path)
    Path("runner.py").write_text(runner, "utf-8")
    Path("before.py").write_text(before, "utf-8")
    project = Project()
    copies_of(project, "before.py", before, ast.parse(before))
    seen = [copy.verdict.value for copy in copies_of(project, "runner.py", runner, ast.parse(runner))]
    assert seen == ["async", "async"]
