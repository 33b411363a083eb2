"""How the literate tests of several modules in `projects/` are written: as those of `mdtest_format.py`, but each block
names its file, ```` ```python pkg/helpers.py ````, and the blocks under one heading are one project. A line
`no init file in: src, ns/inner` under the heading names the folders that are no regular packages.
"""

from __future__ import annotations

import re
from pathlib import Path

from mdtest_format import Block, FormatError, claims_in
from msgspec import Struct

_HEADING = re.compile(r"^#{1,4}\s+(.+?)\s*$")
_OPENING = re.compile(r"^```python\s+(\S+\.py)\s*$")
_PLAIN = re.compile(r"^no init file in: (.+)$")


class ProjectCase(Struct, frozen=True):
    """A small project and what is claimed about the lines of its modules."""

    name: str
    modules: dict[str, Block]
    """By path inside the project; a path's packages need no `__init__.py` of their own."""
    plain_folders: list[str]
    """The folders that get none."""

    def write(self, folder: Path) -> None:
        """Make the project in a folder."""
        folder.mkdir()
        (folder / "pyproject.toml").write_text("", "utf-8")
        for path, block in self.modules.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            for package in [parent for parent in file.parents if folder in parent.parents]:
                if package.relative_to(folder).as_posix() not in self.plain_folders:
                    (package / "__init__.py").touch()
            file.write_text(block.code, "utf-8")


def read_projects(folder: Path) -> list[ProjectCase]:
    """All projects of all Markdown files of a folder, in reading order. Raises FormatError."""
    return [case for path in sorted(folder.glob("*.md")) for case in _parse(path.read_text("utf-8"), path.stem)]


def _parse(text: str, stem: str) -> list[ProjectCase]:
    cases: list[ProjectCase] = []
    code: list[str] | None = None
    path = ""
    for number, line in enumerate(text.splitlines(), 1):
        if code is not None:
            if line.rstrip() != "```":
                code.append(line)
                continue
            source = "\n".join(code) + "\n"
            where = f"{stem}.md:{number - len(code)}"
            cases[-1].modules[path] = Block(f"{cases[-1].name}/{path}", where, source, claims_in(source, where))
            code = None
        elif match := _OPENING.match(line):
            path, code = match[1], []
        elif match := _PLAIN.match(line):
            cases[-1].plain_folders.extend(match[1].split(", "))
        elif match := _HEADING.match(line):
            slug = re.sub(r"[^a-z0-9]+", "-", match[1].lower()).strip("-")
            cases.append(ProjectCase(f"{stem}/{slug}", {}, []))
    if code is not None:
        raise FormatError(f"{stem}.md: the last block is not closed")
    return [case for case in cases if case.modules]
