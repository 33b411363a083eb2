"""How the cases in `notebook_cases/` are written and read.

A heading `##` names the case, each ``python`` block below it is a code cell, text between blocks is a Markdown cell. A
comment `# error: HTD101` claims a finding on its line; a line without a claim has no error and no warning. Blocks
below `### After --fix` are all code cells as the safe fixes leave them.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from msgspec import Struct
from nbformat import v4

_CASE = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
_CLAIM = re.compile(r"#\s*(error|warning|note): (HTD\d{3})")


class Case(Struct, frozen=True):
    """One notebook, with what is claimed of it."""

    name: str
    cells: tuple[tuple[str, str], ...]
    """Kind, `code` or `markdown`, and source of each cell."""
    fixed: tuple[str, ...]
    """The code cells after `--fix`; empty if nothing is claimed."""

    def claims(self) -> list[tuple[int, int, str, str]]:
        """Cell, line in it, severity and code of every claimed finding."""
        return [
            (number, line, match[1], match[2])
            for number, (kind, source) in enumerate(self.cells, 1)
            for line, text in enumerate(source.split("\n"), 1)
            for match in _CLAIM.finditer(text)
            if kind == "code"
        ]

    def notebook(self) -> nbformat.NotebookNode:
        """The case as a notebook with outputs."""
        cells = [
            v4.new_code_cell(source, execution_count=1, outputs=[v4.new_output("stream", text="é\n" * 3)])
            if kind == "code"
            else v4.new_markdown_cell(source)
            for kind, source in self.cells
        ]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook: nbformat.NotebookNode = v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
        return notebook


def read_cases(folder: Path) -> list[Case]:
    """The cases of all files of a folder, in reading order."""
    return [
        _case(f"{path.stem}: {heading}", body)
        for path in sorted(folder.glob("*.md"))
        for heading, body in _CASE.findall(path.read_text("utf-8"))
    ]


def _case(name: str, body: str) -> Case:
    before, _, after = body.partition("### After --fix\n")
    return Case(name, tuple(_cells(before)), tuple(source for kind, source in _cells(after) if kind == "code"))


def _cells(text: str) -> list[tuple[str, str]]:
    pieces = re.split(r"^```python\n(.*?)\n```$", text, flags=re.DOTALL | re.MULTILINE)
    kinds = ("markdown", "code")
    return [
        (kinds[index % 2], piece if index % 2 else piece.strip())
        for index, piece in enumerate(pieces)
        if index % 2 or piece.strip()
    ]
