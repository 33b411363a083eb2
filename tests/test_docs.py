"""The documentation's site: every page is in its menu, and what it tells people to copy fits the repository."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SITE: dict[str, Any] = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))

_YAML = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
BLOCKS = [
    (f"{path.name}-{number}", yaml.safe_load(body))
    for path in sorted(DOCS.glob("*.md"))
    for number, body in enumerate(_YAML.findall(path.read_text("utf-8")))
]


def pages(nav: list[Any]) -> list[str]:
    """The files that a menu names."""
    found: list[str] = []
    for entry in nav:
        target = next(iter(entry.values())) if isinstance(entry, dict) else entry
        found += pages(target) if isinstance(target, list) else [target]
    return found


def test_the_menu_has_every_page_once() -> None:
    there = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
    assert sorted(pages(SITE["nav"])) == there


def uses(block: Any) -> list[dict[str, Any]]:
    """The steps of a workflow that run our action."""
    jobs = block.get("jobs", {}).values() if isinstance(block, dict) else ()
    return [step for job in jobs for step in job["steps"] if "/h2dlint@" in step.get("uses", "")]


@pytest.mark.parametrize("block", [block for _, block in BLOCKS], ids=[name for name, _ in BLOCKS])
def test_what_is_shown_fits_the_action_and_the_hooks(block: Any) -> None:
    for step in uses(block):
        assert set(step.get("with", {})) <= set(ACTION["inputs"])
    for repo in block.get("repos", ()):
        for hook in repo["hooks"]:
            ours = next(one for one in HOOKS if one["id"] == hook["id"])
            for key in ("entry", "types_or", "require_serial"):
                assert hook.get(key, ours[key]) == ours[key]


def test_workflows_ask_for_outputs_that_the_action_has() -> None:
    text = (DOCS / "ci.md").read_text("utf-8")
    asked = set(re.findall(r"steps\.h2dlint\.outputs\.([\w-]+)", text))
    assert asked
    assert asked <= set(ACTION["outputs"])


def test_every_mode_has_a_workflow() -> None:
    modes = {step.get("with", {}).get("mode", "annotate") for _, block in BLOCKS for step in uses(block)}
    assert modes == {"annotate", "sarif", "fix"}


def test_the_tables_list_what_the_action_takes_and_gives() -> None:
    text = (DOCS / "ci.md").read_text("utf-8").split("## What the action takes and gives")[1].split("\n## ")[0]
    takes, gives = text.split("| Output |")
    rows = re.findall(r"^\| `([\w-]+)` \| (.*?) ?\|", takes, re.MULTILINE)
    assert {name: default.strip("` ") for name, default in rows} == {
        name: one["default"] for name, one in ACTION["inputs"].items()
    }
    cells = re.findall(r"^\| (`.*?) \|", gives, re.MULTILINE)
    assert {name for cell in cells for name in re.findall(r"`([\w-]+)`", cell)} == set(ACTION["outputs"])
