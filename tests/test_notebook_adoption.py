"""Notebooks with everything that a team keeps about its findings: comments, a baseline, revisions, services."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, WriteFiles
from test_notebooks import COPIES, FIXED, MAKES, dumped, findings, sources, version_4
from test_pre_commit import git


def notebook(*cells: Any) -> str:
    """A notebook's text, a string a line."""
    return dumped(version_4(*(cell.splitlines(True) for cell in cells)))


def test_a_baseline_knows_a_copy_wherever_its_cell_goes(write: WriteFiles, cli: Cli) -> None:
    write({"n.ipynb": notebook(MAKES, f"s = 'é\"'\n{COPIES}")})
    cli("check", "--write-baseline", "known.json")
    assert cli("check", "--baseline", "known.json").status == 0
    write({"n.ipynb": notebook("# a new first cell", MAKES, f"\n\n{COPIES}\n")})
    assert cli("check", "--baseline", "known.json").status == 0
    write({"n.ipynb": notebook(MAKES, COPIES, f"y = {COPIES}")})
    assert cli("check", "--baseline", "known.json").status == 1


def test_since_a_revision_only_what_changed_in_the_cells(write: WriteFiles, cli: Cli) -> None:
    folder = write({"n.ipynb": notebook(MAKES, COPIES, "x = 1\n")})
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "First")
    assert cli("check", "--since", "HEAD").status == 0
    write({"n.ipynb": notebook(MAKES, COPIES, "x = 2\n", f"y = {COPIES}")})
    (found,) = findings(cli("check", "--since", "HEAD", "--output-format", "json").out)
    assert found["cell"]["number"] == 4
    # A change of the allocation concerns the copy in another cell.
    write({"n.ipynb": notebook(MAKES.replace("100_000", "200_000"), COPIES, "x = 1\n")})
    (found,) = findings(cli("check", "--since", "HEAD", "--output-format", "json").out)
    assert found["cell"]["number"] == 2


def test_comments_are_written_into_the_cells_and_nothing_else_changes(write: WriteFiles, cli: Cli) -> None:
    before = notebook(MAKES, f"%time\n{COPIES}")
    folder = write({"n.ipynb": before})
    assert cli("check", "--add-ignore=shown at start-up").status == 0
    path = folder / "n.ipynb"
    comment = "  # h2dlint: ignore[HTD101] shown at start-up"
    assert path.read_text("utf-8") == before.replace(json.dumps(COPIES), json.dumps(COPIES + comment))
    assert cli("check").status == 0


def test_a_comment_that_silences_nothing_is_reported_in_its_cell_and_removed(write: WriteFiles, cli: Cli) -> None:
    folder = write({"n.ipynb": notebook(MAKES, f"{FIXED}  # h2dlint: ignore[HTD101] once")})
    (found,) = findings(cli("check", "--output-format", "json").out)
    assert (found["code"], found["cell"]["number"], found["cell"]["line"]) == ("HTD901", 2, 1)
    assert cli("check", "--fix").status == 0
    assert sources(folder / "n.ipynb") == [MAKES, FIXED]


def test_a_notebook_depends_on_the_helper_that_it_imports(write: WriteFiles, cli: Cli) -> None:
    helper = "import torch\n\n\ndef make(n):\n    return torch.rand(n)\n"
    write(
        {
            "pyproject.toml": "",
            "shared.py": helper,
            "n.ipynb": notebook("from shared import make\n", "make(99_999).to('cuda', non_blocking=True)"),
        }
    )
    (found,) = findings(cli("check", "--affected", "shared.py", "--output-format", "json").out)
    assert (found["path"], found["cell"]["number"]) == ("n.ipynb", 2)


@pytest.mark.parametrize("format", ["sarif", "github", "gitlab", "junit", "markdown"])
def test_services_get_the_lines_of_the_file(write: WriteFiles, cli: Cli, format: str) -> None:
    folder = write({"n.ipynb": notebook(MAKES, COPIES)})
    line = next(
        number for number, text in enumerate((folder / "n.ipynb").read_text().split("\n"), 1) if "non_blocking" in text
    )
    ran = cli("check", "--output-format", format)
    assert (ran.status, ran.err) == (1, "")
    assert {
        "sarif": f'"startLine": {line},',
        "github": f"::error file=n.ipynb,line={line},",
        "gitlab": f'"begin": {line},',
        "junit": f'line="{line}"',
        "markdown": f"n.ipynb:{line}",
    }[format] in ran.out


def test_the_fix_in_a_sarif_log_is_one_of_the_file(write: WriteFiles, cli: Cli) -> None:
    folder = write({"n.ipynb": notebook(MAKES, COPIES)})
    log = json.loads(cli("check", "--output-format", "sarif").out)
    (result,) = log["runs"][0]["results"]
    (replacement,) = result["fixes"][0]["artifactChanges"][0]["replacements"]
    region = replacement["deletedRegion"]
    lines = Path(folder / "n.ipynb").read_text("utf-8").split("\n")
    row = lines[region["startLine"] - 1]
    assert region["startLine"] == region["endLine"]
    lines[region["startLine"] - 1] = (
        row[: region["startColumn"] - 1] + replacement["insertedContent"]["text"] + row[region["endColumn"] - 1 :]
    )
    cells = json.loads("\n".join(lines))["cells"]
    assert [cell["source"] for cell in cells] == [MAKES.splitlines(True), [FIXED]]
