"""Which files of a project name a word: its text, searched before anything of it is parsed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from h2dlint.facts.finder import MAX_BYTES, Finder

MAX_FILES = 8_000
"""Larger trees are not searched: who reads them all for one question makes the user wait."""

_SKIPPED_FOLDERS = frozenset(
    ["node_modules", "__pycache__", "build", "dist", "site-packages", "third_party", "venv", "env"]
)
_TESTS = re.compile(r"(?:^|[/\\])(?:tests?|testing|benchmarks?)[/\\]|(?:^|[/\\])(?:test_\w*|\w*_test|conftest)\.py$")
"""What a test passes is no proof of what the program passes."""


class Mentions:
    """The text of each project, read once, when a question about it comes first."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._texts: dict[str, dict[str, bytes] | None] = {}

    def files_naming(self, needle: str, asker: str) -> list[str] | None:
        """The other files of the asker's project in whose text `needle` stands, in order; without its tests, unless the
        asker is one. None where the project is too large to be searched.
        """
        tree = self._finder.tree_of(asker)
        top = tree or os.path.dirname(asker)
        if top not in self._texts:
            self._texts[top] = _read_tree(top, deep=tree != "")
        texts = self._texts[top]
        if texts is None:
            return None
        wanted = needle.encode()
        with_tests = _TESTS.search(os.path.relpath(asker, top)) is not None
        return [
            file
            for file, text in texts.items()
            if wanted in text and file != asker and (with_tests or not _TESTS.search(os.path.relpath(file, top)))
        ]


def _read_tree(top: str, deep: bool) -> dict[str, bytes] | None:
    files = list(_python_files(top, deep))
    return {file: _bytes_of(file) for file in files} if len(files) <= MAX_FILES else None


def _python_files(top: str, deep: bool) -> Iterator[str]:
    """The Python files of a folder and, if `deep`, below it, in order, and at most one more than are searched."""
    count = 0
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if deep and name[0] != "." and name not in _SKIPPED_FOLDERS)
        for name in sorted(files):
            if name.endswith(".py"):
                yield os.path.join(folder, name)
                count += 1
                if count > MAX_FILES:
                    return


def _bytes_of(file: str) -> bytes:
    try:
        with open(file, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError:
        return b""
    return data if len(data) <= MAX_BYTES else b""
