"""Which files of a project name a word: its text, searched before anything of it is parsed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import cached_property

from h2dlint.facts.finder import MAX_BYTES, Finder

MAX_FILES = 8_000
"""Larger trees are not searched: who reads them all for one question makes the user wait."""

_SKIPPED_FOLDERS = frozenset(
    ["node_modules", "__pycache__", "build", "dist", "site-packages", "third_party", "venv", "env"]
)
_TESTS = re.compile(r"[/\\](?:(?:tests?|testing|benchmarks?)[/\\]|(?:test_\w*|\w*_test|conftest)\.py$)")
"""What a test passes is no proof of what the program passes."""


class Tree:
    """The Python files below a folder: their text, and what their import statements name."""

    def __init__(self, texts: dict[str, bytes]) -> None:
        self.texts = texts

    @cached_property
    def importers(self) -> dict[bytes, list[str]]:
        """The files by each word of their import statements: modules and names, and the names they get instead."""
        found: dict[bytes, list[str]] = {}
        for file, text in self.texts.items():
            words = {word for statement in _IMPORT.findall(text) for word in _WORD.findall(statement)}
            for word in words:
                found.setdefault(word, []).append(file)
        return found


class Mentions:
    """The trees of the projects, each read once, when a question about it comes first."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._trees: dict[str, Tree | None] = {}

    def files_naming(self, needle: str, asker: str) -> list[str] | None:
        """The other files of the asker's project in whose text `needle` stands, in order; without its tests, unless the
        asker is one. None where the project is too large to be searched.
        """
        tree = self._tree_of(asker)
        wanted = needle.encode()
        return None if tree is None else self._of_note(asker, (f for f, text in tree.texts.items() if wanted in text))

    def files_importing(self, name: str, module: str, asker: str) -> list[str] | None:
        """The same for files that import `name`, or the module `module`, whose last name counts, and mention `name`."""
        tree = self._tree_of(asker)
        if tree is None:
            return None
        words = (name.encode(), module.rpartition(".")[2].encode())
        files = dict.fromkeys(file for word in words for file in tree.importers.get(word, ()))
        return self._of_note(asker, sorted(file for file in files if words[0] in tree.texts[file]))

    def _tree_of(self, asker: str) -> Tree | None:
        tree = self._finder.tree_of(asker)
        top = tree or os.path.dirname(asker)
        if top not in self._trees:
            self._trees[top] = _read_tree(top, deep=tree != "")
        return self._trees[top]

    def _of_note(self, asker: str, files: Iterable[str]) -> list[str]:
        top = self._finder.tree_of(asker) or os.path.dirname(asker)
        with_tests = _is_test(asker, top)
        return [file for file in files if file != asker and (with_tests or not _is_test(file, top))]


def _is_test(file: str, top: str) -> bool:
    return _TESTS.search(file, len(top)) is not None


_IMPORT = re.compile(rb"^[ \t]*(?:from|import)[ \t]+([^\n(]*(?:\([^)]*\))?)", re.MULTILINE)
_WORD = re.compile(rb"\w+")


def _read_tree(top: str, deep: bool) -> Tree | None:
    files = list(_python_files(top, deep))
    return Tree({file: _bytes_of(file) for file in files}) if len(files) <= MAX_FILES else None


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
