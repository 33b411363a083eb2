"""Which files of a project name a word: its text, searched before anything of it is parsed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from h2dlint.facts.finder import MAX_BYTES, Finder
from h2dlint.facts.keyword_sites import passes, takes

MAX_FILES = 8_000
"""Larger trees are not searched: who reads them all for one question makes the user wait."""

_SKIPPED_FOLDERS = frozenset(
    ["node_modules", "__pycache__", "build", "dist", "site-packages", "third_party", "venv", "env"]
)
_TESTS = re.compile(r"[/\\](?:(?:tests?|testing|benchmarks?)[/\\]|(?:test_\w*|\w*_test|conftest)\.py$)")
"""What a test passes is no proof of what the program passes."""


class Tree:
    """The Python files below a folder by what their text calls, stores and imports. The text of its tests is read only
    when one of them asks.
    """

    def __init__(self, top: str, files: list[str]) -> None:
        self._top = top
        self._files = files
        self._indexes: dict[tuple[bool, tuple[re.Pattern[bytes], ...]], dict[bytes, list[str]]] = {}
        self._found: dict[tuple[bool, tuple[str, ...]], list[str]] = {}

    @cached_property
    def _texts(self) -> dict[str, bytes]:
        return {file: searched_text(file) for file in self._files if not _is_test(file, self._top)}

    @cached_property
    def _with_tests(self) -> dict[str, bytes]:
        return {file: self._texts[file] if file in self._texts else searched_text(file) for file in self._files}

    def with_any(self, words: Iterable[str], patterns: tuple[re.Pattern[bytes], ...], asker: str) -> list[str]:
        """The other files with one of the words in what a pattern catches, in order; without the tests, unless the
        asker is one.
        """
        index = self._index(patterns, _is_test(asker, self._top))
        found = dict.fromkeys(file for word in words for file in index.get(word.encode(), ()))
        return sorted(file for file in found if file != asker)

    def naming(self, name: str, files: Iterable[str], asker: str) -> list[str]:
        """Those of the files that an answer to the asker named in whose text the name stands."""
        texts = self._with_tests if _is_test(asker, self._top) else self._texts
        word = name.encode()
        return [file for file in files if word in texts[file]]

    def passing(self, method: str, keyword: str, asker: str) -> list[str]:
        """All files that give a keyword of some `.method(` a value, in order; without the tests likewise."""

        def search(tests: bool) -> list[str]:
            files = self._index(CALLS, tests).get(method.encode(), [])
            texts = self._with_tests if tests else self._texts
            return sorted(file for file in files if passes(texts[file], method, keyword))

        return self._searched(("passing", method, keyword), asker, search)

    def taking(self, method: str, parameter: str, asker: str) -> list[str]:
        """All files that define some `method` with such a parameter."""

        def defining(tests: bool) -> list[str]:
            word = f"def {method}(".encode()
            return [file for file, text in (self._with_tests if tests else self._texts).items() if word in text]

        def search(tests: bool) -> list[str]:
            texts = self._with_tests if tests else self._texts
            files = self._searched(("defining", method), asker, defining)
            return [file for file in files if takes(texts[file], method, parameter)]

        return self._searched(("taking", method, parameter), asker, search)

    def _searched(self, question: tuple[str, ...], asker: str, search: Callable[[bool], list[str]]) -> list[str]:
        """What a search of the texts finds, with those of the tests or without: it is made once."""
        tests = _is_test(asker, self._top)
        found = self._found.get((tests, question))
        if found is None:
            found = self._found[tests, question] = search(tests)
        return found

    def _index(self, patterns: tuple[re.Pattern[bytes], ...], tests: bool) -> dict[bytes, list[str]]:
        index = self._indexes.get((tests, patterns))
        if index is None:
            index = self._indexes[tests, patterns] = {}
            for file, text in (self._with_tests if tests else self._texts).items():
                for word in words_in(text, patterns):
                    index.setdefault(word, []).append(file)
        return index


class Mentions:
    """The trees of the projects, each read once, when a question about it comes first."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._trees: dict[str, Tree | None] = {}

    def take_trees(self, other: Mentions) -> None:
        """Search what `other` has read instead of reading it again."""
        self._trees = other._trees

    def files_calling(self, method: str, asker: str) -> list[str] | None:
        """The other files of the asker's project that call some `.method(`, in order; without its tests, unless the
        asker is one. None where the project is too large to be searched.
        """
        tree = self._tree_of(asker)
        return None if tree is None else tree.with_any((method,), CALLS, asker)

    def files_storing(self, attribute: str, asker: str) -> list[str] | None:
        """The same for files that assign some `.attribute = `."""
        tree = self._tree_of(asker)
        return None if tree is None else tree.with_any((attribute,), STORES, asker)

    def files_importing(self, name: str, module: str, asker: str) -> list[str] | None:
        """The same for files that import `name`, or the module `module`, whose last name counts, and mention `name`."""
        tree = self._tree_of(asker)
        if tree is None:
            return None
        files = tree.with_any((name, module.rpartition(".")[2]), IMPORTS, asker)
        return tree.naming(name, files, asker)

    def files_deriving(self, name: str, asker: str) -> list[str] | None:
        """The same for files with a class statement that names `name`."""
        tree = self._tree_of(asker)
        return None if tree is None else tree.with_any((name,), CLASSES, asker)

    def files_passing(self, method: str, keyword: str, asker: str) -> list[str] | None:
        """The same for files that call some `.method(` and give `keyword` a value there that is not their own parameter
        of that name.
        """
        tree = self._tree_of(asker)
        if tree is None:
            return None
        return [file for file in tree.passing(method, keyword, asker) if file != asker]

    def files_taking(self, method: str, parameter: str, asker: str) -> list[str] | None:
        """The same for files that define some `method` with a parameter of that name."""
        tree = self._tree_of(asker)
        if tree is None:
            return None
        return [file for file in tree.taking(method, parameter, asker) if file != asker]

    def tree_searched_for(self, asker: str) -> tuple[str, bool]:
        """The folder whose files are searched, and whether those below it are as well."""
        tree = self._finder.tree_of(asker)
        return tree or os.path.dirname(asker), tree != ""

    def counts(self, file: str, asker: str) -> bool:
        """Whether a file of the tree may be part of an answer for the asker."""
        top, _ = self.tree_searched_for(asker)
        return file != asker and (_is_test(asker, top) or not _is_test(file, top))

    def _tree_of(self, asker: str) -> Tree | None:
        top, deep = self.tree_searched_for(asker)
        if top not in self._trees:
            files = searched_files(top, deep)
            self._trees[top] = None if files is None else Tree(top, files)
        return self._trees[top]


def _is_test(file: str, top: str) -> bool:
    return _TESTS.search(file, len(top)) is not None


# Each starts with a literal: that is what makes a search of millions of lines quick.
CALLS = (re.compile(rb"\.(\w+)\("),)
STORES = (re.compile(rb"\.(\w+) ="),)
CLASSES = (re.compile(rb"\nclass (\w+\([^)]*\))"),)
IMPORTS = (re.compile(rb"import[ \t]+([^\n(]*(?:\([^)]*\))?)"), re.compile(rb"from[ \t]+([\w.]+)[ \t]+import\b"))
_WORD = re.compile(rb"\w+")


def words_in(text: bytes, patterns: tuple[re.Pattern[bytes], ...]) -> set[bytes]:
    """The words of all that the patterns catch in a text."""
    if patterns in (CALLS, STORES):  # what these catch is a word
        return set(patterns[0].findall(text))
    caught = {part for pattern in patterns for part in pattern.findall(text)}
    return set(_WORD.findall(b"\n".join(caught)))


def searched_files(top: str, deep: bool) -> list[str] | None:
    """The files that a search of the tree reads, in order; None where they are too many."""
    files = list(_python_files(top, deep))
    return files if len(files) <= MAX_FILES else None


def _python_files(top: str, deep: bool) -> Iterator[str]:
    """The Python files of a folder and, if `deep`, below it, in order, and at most one more than are searched."""
    count = 0
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if deep and name[0] != "." and name not in _SKIPPED_FOLDERS)
        inside = os.path.join(folder, "")
        for name in sorted(files):
            if name.endswith(".py"):
                yield inside + name
                count += 1
                if count > MAX_FILES:
                    return


def searched_text(file: str) -> bytes:
    """What a search sees of a file: nothing of one that cannot be read or is too large."""
    try:
        if not os.path.isfile(file):  # a pipe would be waited for
            return b""
        with open(file, "rb", buffering=0) as stream:
            if os.fstat(stream.fileno()).st_size > MAX_BYTES:
                return b""
            data = stream.read()
    except OSError:
        return b""
    return data if len(data) <= MAX_BYTES else b""
