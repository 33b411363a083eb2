"""How the cases of fixes over several modules in `across_cases/` are written.

A heading names the case. A line `options: --unsafe-fixes` gives what is passed beside `--fix`. Blocks
```` ```python before pkg/a.py ```` are the project, blocks ```` ```python after pkg/a.py ```` the files that the fix
changes, each as it is afterwards; `python run` defines `step(device)`, which must give the same before and after.
"""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

FOLDER = Path(__file__).parent / "across_cases"
_CASE = re.compile(r"^## (?P<title>.+)\n(?P<rest>(?:(?!^## ).*\n?)*)", re.MULTILINE)
_BLOCK = re.compile(
    r"^```python (?P<when>before|after|run)(?: (?P<path>\S+))?\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
_OPTIONS = re.compile(r"^options: (.+)$", re.MULTILINE)


class AcrossCase(Struct, frozen=True):
    """A small project, and the project after every fix."""

    title: str
    options: tuple[str, ...]
    before: dict[str, str]
    """The code of each file, by path."""
    after: dict[str, str]
    """The same with the fixes made."""
    run: str

    def write(self, folder: Path, files: dict[str, str]) -> None:
        """Make the project in a folder."""
        (folder / "pyproject.toml").write_text("", "utf-8")
        for path, code in files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            (file.parent / "__init__.py").touch()
            file.write_text(code, "utf-8")


def read_across() -> list[AcrossCase]:
    """All cases, by file and place."""
    return [
        _case(match["title"], match["rest"])
        for path in sorted(FOLDER.glob("*.md"))
        for match in _CASE.finditer(path.read_text("utf-8"))
    ]


def _case(title: str, rest: str) -> AcrossCase:
    blocks = {(block["when"], block["path"]): block["code"] for block in _BLOCK.finditer(rest)}
    before = {path: code for (when, path), code in blocks.items() if when == "before"}
    changed = {path: code for (when, path), code in blocks.items() if when == "after"}
    options = _OPTIONS.search(rest)
    return AcrossCase(
        title, tuple(options[1].split()) if options else (), before, {**before, **changed}, blocks["run", None]
    )
