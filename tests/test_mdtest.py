"""Every block of `mdtest/*.md` says about its lines what h2dlint says (`mdtest_format.py` explains the claims)."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mdtest_format import Block, Claim, FormatError, parse, read_blocks
from msgspec import Struct

from h2dlint.facts.analyse import copies_of
from h2dlint.facts.copies import Copy
from h2dlint.facts.project import Project

BLOCKS = read_blocks(Path(__file__).parent / "mdtest")


class Reported(Struct, frozen=True):
    """The part of a finding's JSON that a claim can speak of."""

    code: str
    severity: str
    line: int
    end_line: int
    message: str


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All blocks as one file each: one project, so that one process can check them all."""
    folder = tmp_path_factory.mktemp("mdtest")
    for block in BLOCKS:
        (folder / block.module).write_text(block.code, "utf-8")
    return folder


@pytest.fixture(scope="module")
def reported(folder: Path) -> dict[str, list[Reported]]:
    """What `h2dlint check` finds in each block, by file name."""
    opt_in = sorted(block.module for block in BLOCKS if block.opt_in)
    exclude = [part for module in opt_in for part in ("--exclude", module)]
    return {**_checked(folder, ".", *exclude), **_checked(folder, *opt_in, "--extend-select", "HTD2")}


def _checked(folder: Path, *arguments: str) -> dict[str, list[Reported]]:
    options = ("--output-format", "json", "--isolated", "--no-cache")
    command = [sys.executable, "-m", "h2dlint", "check", *arguments, *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), f"h2dlint check exited {done.returncode}:\n{done.stderr}"
    found: dict[str, list[Reported]] = {}
    for row in json.loads(done.stdout)["findings"]:
        finding = Reported(row["code"], row["severity"], row["line"], row["end_line"], row["message"])
        found.setdefault(Path(row["path"]).name, []).append(finding)
    return found


@pytest.fixture(scope="module")
def project() -> Project:
    """One project for all blocks, as in a run."""
    return Project()


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_block_is_as_claimed(block: Block, folder: Path, project: Project, reported: dict[str, list[Reported]]) -> None:
    path = str(folder / block.module)
    copies = copies_of(project, path, block.code, ast.parse(block.code), every=True)
    findings = reported.get(block.module, [])
    wrong = [*wrong_verdicts(block, copies), *wrong_findings(block, findings)]
    assert not wrong, shown(block, copies, findings, wrong)


def wrong_verdicts(block: Block, copies: list[Copy]) -> Iterator[str]:
    """Each way in which the copies differ from the claims, as a sentence."""
    for claim in block.claims:
        near = [copy for copy in copies if copy.span.line <= claim.line <= copy.span.end_line]
        yield from _wrong_claim(claim, near)
    for copy in copies:
        silent = not block.claims_within(copy.span.line, copy.span.end_line)
        if copy.verdict.value == "fake-async" and silent:
            yield f"line {copy.span.line}: fake-async, but nothing is claimed there"


def _wrong_claim(claim: Claim, near: list[Copy]) -> Iterator[str]:
    got = {copy.verdict.value for copy in near}
    if claim.kind == "verdict":
        # A transfer that moves nothing need not be listed, and may stand beside one that does.
        if got - {"no-transfer"} != claim.verdicts() - {"no-transfer"}:
            yield f"line {claim.line}: verdict {claim.text} expected, got {', '.join(sorted(got)) or 'no copy'}"
    elif claim.kind == "revealed":
        if not any(claim.matches_reveal(copy.reveal) for copy in near):
            yield f"line {claim.line}: reveal {claim.text!r} expected, got {[copy.reveal for copy in near]}"
    elif (implied := claim.implied_verdict()) and implied not in got:
        yield f"line {claim.line}: {claim.text} needs {implied}, got {', '.join(sorted(got)) or 'no copy'}"


def wrong_findings(block: Block, findings: list[Reported]) -> Iterator[str]:
    """Each claimed finding that is missing and each unclaimed error or warning, as a sentence."""
    for claim in block.claims:
        if claim.kind in ("error", "warning", "note", "finding"):
            near = [found for found in findings if found.line <= claim.line <= found.end_line]
            if not any(claim.allows(found.code, found.severity) for found in near):
                got = ", ".join(f"{found.severity} {found.code}" for found in near) or "nothing"
                yield f"line {claim.line}: {claim.kind} {claim.text} expected, got {got}"
    for found in findings:
        claims = block.claims_within(found.line, found.end_line)
        if found.severity != "note" and not any(claim.allows(found.code, found.severity) for claim in claims):
            yield f"line {found.line}: unclaimed {found.severity} {found.code}: {found.message}"


def shown(block: Block, copies: list[Copy], findings: list[Reported], wrong: list[str]) -> str:
    """The failure message: the block with line numbers, what was got on each line, and what is wrong."""
    said: dict[int, list[str]] = {}
    for copy in copies:
        said.setdefault(copy.span.line, []).append(f"{copy.call}: {copy.verdict.value} [{copy.reveal}]")
    for found in findings:
        said.setdefault(found.line, []).append(f"{found.severity} {found.code}: {found.message}")
    lines = [f"{block.source}  {block.name}"]
    for number, line in enumerate(block.code.splitlines(), 1):
        lines.append(f"{number:4} | {line}")
        lines += [f"     ^ {text}" for text in said.get(number, [])]
    return "\n".join([*lines, "", *wrong])


def test_asking_for_every_transfer_changes_no_verdict(folder: Path) -> None:
    """The linter looks at the copies that name non_blocking, the inventory at all: they must not disagree."""
    differing = []
    for block in BLOCKS:
        path, tree = str(folder / block.module), ast.parse(block.code)
        asked = {copy.span: copy.verdict.value for copy in copies_of(Project(), path, block.code, tree) if copy.asked}
        listed = {copy.span: copy.verdict.value for copy in copies_of(Project(), path, block.code, tree, every=True)}
        differing += [
            f"{block.name} line {span.line}: {verdict} alone, {listed.get(span, 'absent')} in the inventory"
            for span, verdict in asked.items()
            if listed.get(span) != verdict
        ]
    assert not differing, "\n".join(differing)


def test_claims_of_one_line_are_read_apart() -> None:
    (block,) = parse("# A\n```python\nx = 1  # error: HTD101|HTD201  # verdict: async, blocking\n```\n", "t")
    assert [(claim.kind, claim.text) for claim in block.claims] == [
        ("error", "HTD101|HTD201"),
        ("verdict", "async, blocking"),
    ]


def test_a_comment_that_claims_nothing_is_no_claim() -> None:
    (block,) = parse("# A\n```python\nx = 1  # the error is here\n```\n", "t")
    assert block.claims == ()


@pytest.mark.parametrize(
    "text",
    [
        "# A\n```python\nx = 1  # error: H101\n```\n",
        "# A\n```python\nx = 1  # verdict: maybe\n```\n",
        "# A\n```python\nx = 1\n",
        "```python\nx = 1\n```\n",
    ],
    ids=["unknown code", "unknown verdict", "unclosed block", "no heading"],
)
def test_a_malformed_block_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse(text, "t")


def test_there_are_enough_blocks_to_mean_something() -> None:
    assert len(BLOCKS) >= 250
