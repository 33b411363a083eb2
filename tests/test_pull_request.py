"""The text of a pull request: what was changed and why, and what needs a person."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import Cli, WriteFiles

FAKE = "import torch\n\nx = torch.rand(99999).to('cuda', non_blocking=True)\n"
WORKER = (
    "import torch\nfrom torch.utils.data import Dataset\n\n\nclass Rows(Dataset):\n    def __getitem__(self, i):\n"
    "        return torch.rand(99999).to('cuda', non_blocking=True)\n"
)
SERVING = (Path(__file__).parent.parent / "examples" / "serving_step.py").read_text("utf-8")
URL = "https://h2dlint.readthedocs.io/rules"


def summary(write: WriteFiles, cli: Cli, files: dict[str, str], *options: str) -> str:
    """The text that `--fix --summary-file` writes about these files."""
    folder = write(files)
    cli("check", "--fix", "--summary-file", "summary.md", *options)
    return (folder / "summary.md").read_text("utf-8")


def test_nothing_found(write: WriteFiles, cli: Cli) -> None:
    said = summary(write, cli, {"a.py": "x = 1\n"})
    assert said == "h2dlint found no copy that asks to be asynchronous and is not.\n"


def test_what_was_changed_and_why(write: WriteFiles, cli: Cli) -> None:
    cell = {"cell_type": "code", "source": FAKE}
    said = summary(write, cli, {"p/a.py": FAKE, "n.ipynb": json.dumps({"cells": [cell]})})
    assert "**2 copies in 2 files rewritten.**" in said
    why = "`torch.rand(99999)` is pageable, so this copy can stall the host (line 3: `rand` allocates pageable memory)"
    assert f"### `p/a.py`\n\n- line 3 [HTD101]({URL}/HTD101): {why}. **Allocate it pinned**.\n" in said
    assert f"### `n.ipynb`\n\n- cell 1, line 3 [HTD101]({URL}/HTD101): " in said
    assert "needs a person" not in said


def test_what_needs_a_person(write: WriteFiles, cli: Cli) -> None:
    said = summary(write, cli, {"a.py": WORKER})
    assert "rewritten." not in said
    assert "**1 finding left for a person.**\n\n## What needs a person\n\n### `a.py`\n\n- line 7 [HTD101]" in said
    assert "\n  - Not rewritten: this runs in a loader's worker" in said


def test_unsafe_changes_are_offered_or_marked(write: WriteFiles, cli: Cli) -> None:
    offered = summary(write, cli, {"a.py": SERVING})
    assert "\n  - `--unsafe-fixes` would do this: Allocate it pinned.\n" in offered
    assert "look at it closely" not in offered
    made = summary(write, cli, {"a.py": SERVING}, "--unsafe-fixes")
    assert ". **Allocate it pinned**, **unsafe: look at it closely**.\n" in made
    assert "needs a person" not in made


def test_it_stays_short_enough_for_a_pull_request(write: WriteFiles, cli: Cli) -> None:
    many = "import torch\n\n" + "".join(
        f"x{number} = torch.rand(99999).to('cuda', non_blocking=True)\n" for number in range(300)
    )
    said = summary(write, cli, {"a.py": many})
    assert "... and 200 more." in said
    assert len(said) < 65_536


def test_words_cannot_become_markup(write: WriteFiles, cli: Cli) -> None:
    said = summary(write, cli, {"a_b_[c](d).py": FAKE})
    assert "### `a_b_[c](d).py`" in said


def test_the_report_itself_is_written_as_ever(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": FAKE})
    assert cli("check", "--summary-file", "s.md", "--output-format", "concise").out.startswith("a.py:3:5: HTD101 ")
    assert cli("check", "--summary-file", "nowhere/s.md").status == 2
