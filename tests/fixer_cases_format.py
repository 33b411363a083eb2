"""Cases of fixers, written in Markdown: a title, the expected answer, the code before, the code after, inputs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "fixer_cases"
SCENARIOS = Path(__file__).parent / "scenarios"
CASE = re.compile(
    r"^## (?P<title>.+)\n\n(?P<expected>.+)\n(?P<marks>(?:[a-z ]+: .+\n)*)(?P<rest>(?:(?!^## ).*\n?)*)", re.MULTILINE
)
BLOCK = re.compile(r"^```python (?P<name>\w+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


class Case(NamedTuple):
    """One case."""

    title: str
    expected: str
    """`FIXER safe|unsafe`, `refused: PATTERN`, `FIXER refuses: PATTERN`, or `not FIXER`."""
    before: str
    after: str
    """The code with every fix made; empty for a refusal."""
    inputs: str
    """Defines `inputs(n, m, dtype, device)`, which gives the arguments of `step`; empty where nothing is run."""
    finding: str = ""
    """The code of the first finding."""
    wrong_turn: str = ""
    """A regular expression for what a naive tool would write: the code after must not match it."""

    @property
    def fixer(self) -> str:
        """The fixer that is expected to answer."""
        return self.expected.split()[0]


def read_cases(folder: Path = FOLDER) -> list[Case]:
    """All cases of a folder, by file and place."""
    return [
        case_of(match)
        for path in sorted(folder.glob("*.md"))
        for match in CASE.finditer(path.read_text(encoding="utf-8"))
    ]


def case_of(match: re.Match[str]) -> Case:
    """The case that one match of `CASE` holds."""
    blocks = {block["name"]: block["code"] for block in BLOCK.finditer(match["rest"])}
    marks = dict(line.split(": ", 1) for line in match["marks"].splitlines())
    return Case(
        match["title"].strip(),
        match["expected"].strip(),
        blocks["before"],
        blocks.get("after", ""),
        blocks.get("inputs", ""),
        marks.get("finding", ""),
        marks.get("wrong turn", ""),
    )
