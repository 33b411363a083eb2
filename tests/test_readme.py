"""What the README and the guides show is what the tool prints and what the repository holds.

Run as a program, this file brings the README's rule table and the shown output of commands up to date:

    python tests/test_readme.py
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from h2dlint.rules import all_rules
from mdtest_format import Block, parse
from test_mdtest import Reported, wrong_findings

from h2dlint.config import config_in
from h2dlint.output import pages

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
EXAMPLES = ROOT / "examples"
GUIDES = [*sorted((ROOT / "docs").glob("*.md")), README, ROOT / "CONTRIBUTING.md", EXAMPLES / "README.md"]
BLOCKS = [
    block
    for path in GUIDES
    for block in parse(path.read_text("utf-8"), path.stem)
    if block.claims or "h2dlint: ignore" in block.code
]

# The console script, not `-m h2dlint`: that would take the package from the folder it is started in.
H2DLINT = str(Path(sys.executable).with_name("h2dlint"))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)[^)]*\)")
_TABLE = re.compile(r"^\| Code \|.*?(?=\n\n)", re.DOTALL | re.MULTILINE)
_EXAMPLE_ROW = re.compile(r"^\| `[^|]*\| (HTD\d{3}) \|", re.MULTILINE)

each_guide = pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: str(guide.relative_to(ROOT)))


# What commands print


def output_of(arguments: list[str]) -> str:
    """What `h2dlint ARGUMENTS...` prints in the repository's root, without spaces at the ends of lines."""
    plain = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    ran = subprocess.run(
        [H2DLINT, *arguments], cwd=ROOT, env=plain, capture_output=True, text=True, encoding="utf-8", timeout=120
    )
    assert ran.returncode in (0, 1), ran.stderr
    return "\n".join(line.rstrip() for line in ran.stdout.splitlines())


def with_real_output(text: str) -> str:
    """The Markdown text, with each `console` block as it comes out now: `$ h2dlint ...`, then the output."""

    def rerun(block: re.Match[str]) -> str:
        command = block[2].split("\n", 1)[0]
        if block[1] != "console" or not command.startswith("$ h2dlint "):
            return block[0]
        return f"```console\n{command}\n{output_of(command.split()[2:])}\n```"

    return _FENCE.sub(rerun, text)


@each_guide
def test_shown_output_is_what_the_tool_prints(guide: Path) -> None:
    text = guide.read_text("utf-8")
    assert with_real_output(text) == text, "run: python tests/test_readme.py"


# The rule table


def with_real_rules(text: str) -> str:
    """The README's text with the table of all rules as the rule files have it."""
    rows = pages.index(all_rules()).replace("](HTD", "](docs/rules/HTD").split("\n\n", 1)[1].strip()
    return _TABLE.sub(lambda _: rows, text)


def test_the_rule_table_is_what_the_rule_files_say() -> None:
    text = README.read_text("utf-8")
    assert _TABLE.search(text)
    assert with_real_rules(text) == text, "run: python tests/test_readme.py"


# Settings


def test_the_settings_shown_are_valid(tmp_path: Path) -> None:
    (shown,) = (body for language, body in _FENCE.findall(README.read_text("utf-8")) if language == "toml")
    (tmp_path / "pyproject.toml").write_text(shown, "utf-8")
    assert config_in(str(tmp_path)) is not None  # an unknown key or a wrong value raises


# Paths and links


@each_guide
def test_links_lead_somewhere(guide: Path) -> None:
    targets = _LINK.findall(guide.read_text("utf-8"))
    assert [target for target in targets if not (guide.parent / target).exists()] == []


@each_guide
def test_commands_name_files_that_exist(guide: Path) -> None:
    blocks = [body for language, body in _FENCE.findall(guide.read_text("utf-8")) if language == "sh"]
    words = [word.strip("'\"") for body in blocks for word in body.split("#")[0].split() if "/" in word]
    paths = [word for word in words if not word.startswith((".venv/", "http"))]
    assert [path for path in paths if not (ROOT / path).exists()] == []


# Python blocks


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python blocks of the guides that say what h2dlint says, one file each."""
    folder = tmp_path_factory.mktemp("guides")
    for block in BLOCKS:
        (folder / module_of(block)).write_text(block.code, "utf-8")
    return folder


@pytest.fixture(scope="module")
def findings(folder: Path) -> list[dict[str, object]]:
    """The findings in all blocks."""
    return listed(folder, "check", "findings")


@pytest.fixture(scope="module")
def copies(folder: Path) -> list[dict[str, object]]:
    """The copies in all blocks."""
    return listed(folder, "copies", "copies")


def listed(folder: Path, command: str, what: str, path: str = ".") -> list[dict[str, object]]:
    """The list called `what` in the JSON of a command."""
    arguments = [H2DLINT, command, path, "--output-format", "json", "--isolated", "--no-cache"]
    ran = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, encoding="utf-8", timeout=120)
    assert ran.returncode in (0, 1), ran.stderr
    found: list[dict[str, object]] = json.loads(ran.stdout)[what]
    return found


def module_of(block: Block) -> str:
    """A file name of its own for each block: a guide may have several below one heading."""
    return re.sub(r"\W", "_", block.source) + ".py"


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.source)
def test_findings_are_as_the_comments_say(block: Block, findings: list[dict[str, object]]) -> None:
    mine = [
        Reported(*(found[key] for key in ("code", "severity", "line", "end_line", "message")))  # type: ignore[arg-type]
        for found in findings
        if found["path"] == module_of(block)
    ]
    assert list(wrong_findings(block, mine)) == []


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.source)
def test_verdicts_are_as_the_comments_say(block: Block, copies: list[dict[str, object]]) -> None:
    claimed = {claim.line: claim.text for claim in block.claims if claim.kind == "verdict"}
    got = {copy["line"]: copy["verdict"] for copy in copies if copy["path"] == module_of(block)}
    assert {line: got.get(line) for line in claimed} == claimed


def test_the_guides_show_every_verdict() -> None:
    shown = {claim.text for block in BLOCKS for claim in block.claims if claim.kind == "verdict"}
    assert shown == {"fake-async", "async", "conditional", "blocking", "no-transfer", "unproven"}


# The design


def test_the_design_lists_the_modules_of_the_facts_in_the_order_of_their_imports() -> None:
    section = (ROOT / "docs" / "design.md").read_text("utf-8").split("### The modules of `h2dlint/facts`")[1]
    cells = re.findall(r"^\| (`.*?) \|", section.split("\n### ")[0], re.MULTILINE)
    listed_modules = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    files = {path.stem: path for path in (ROOT / "h2dlint" / "facts").glob("[a-z]*.py")}
    assert sorted(listed_modules) == sorted(files)
    upwards = [
        f"{name} imports {other}"
        for position, name in enumerate(listed_modules)
        for other in imports_of(files[name]) & set(listed_modules[position:])
    ]
    assert upwards == []


def imports_of(path: Path) -> set[str]:
    """The sibling modules that a module of the facts imports when it is imported itself."""
    package = "h2dlint.facts"
    found: set[str] = set()
    for statement in ast.parse(path.read_text("utf-8")).body:
        if isinstance(statement, ast.ImportFrom) and statement.module == package:
            found |= {alias.name for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(f"{package}."):
            found.add((statement.module or "").removeprefix(f"{package}."))
    return found


# The examples


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda example: example.name)
def test_the_table_of_an_example_names_the_rules_that_report_it(example: Path) -> None:
    tables = (EXAMPLES / "README.md").read_text("utf-8").split("\n## ")
    rows = next(part for part in tables if part.startswith(example.name))
    found = listed(EXAMPLES, "check", "findings", example.name)
    assert sorted(set(_EXAMPLE_ROW.findall(rows))) == sorted({str(finding["code"]) for finding in found})


if __name__ == "__main__":
    for path in GUIDES:
        before = path.read_text("utf-8")
        path.write_text(with_real_rules(with_real_output(before)), "utf-8")
