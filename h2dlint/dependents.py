"""Which files may depend on given ones: a textual scan of the imports, backwards through the project.

It answers too many rather than too few: `Outcome.uses` says afterwards from where a file's facts really came.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator

from h2dlint.discovery import python_files
from h2dlint.facts.finder import Finder
from h2dlint.fixing.project_files import absolute, module_name

MOST_FILES = 20_000
"""A larger project is scanned up to here."""

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<base>\.*[\w.]*)[ \t]+import[ \t]*(?P<names>\([^)]*\)|(?:[^\n\\]|\\\n)*)"
    r"|import[ \t]+(?P<plain>(?:[^\n\\]|\\\n)+))",
    re.MULTILINE,
)
_COMMENT = re.compile(r"#[^\n]*")


def dependents_of(
    given: Collection[str], excluded: Callable[[str, str], bool], root_of: Callable[[str], str]
) -> Iterator[str]:
    """The other files of the projects of the `given` ones that import one of them, directly or through others.

    All paths are absolute. `root_of` is the configured root of a file's project, empty where none is.
    """
    seen = set(given)
    frontier = list(given)
    finders: dict[str, Finder] = {}
    texts = {file: text for file in _projects(given, excluded, root_of) if (text := _text(file))}
    while frontier:
        # Whoever imports a file writes the last part of its name, or takes it from its package.
        words = re.compile(rb"\b(?:" + b"|".join({re.escape(_word(file)) for file in frontier}) + rb")\b")
        goal = set(frontier)
        frontier = []
        for file, text in texts.items():
            if file in seen or not words.search(text):
                continue
            finder = finders.setdefault(root_of(file), Finder(root_of(file)))
            if any(found in goal for found in _imported(file, text.decode("utf-8", "replace"), finder)):
                seen.add(file)
                frontier.append(file)
                yield file


def _projects(
    given: Collection[str], excluded: Callable[[str, str], bool], root_of: Callable[[str], str]
) -> Iterator[str]:
    """The Python files below the folders in which the given files' imports are looked for."""
    folders: dict[str, None] = {}
    for file in sorted(given):
        for folder in Finder(root_of(file)).roots_of(file):
            if os.path.isdir(folder):
                folders[folder] = None
    outermost = [one for one in folders if not any(one.startswith(f"{other}{os.sep}") for other in folders)]
    for number, file in enumerate(python_files(outermost, excluded)):
        if number == MOST_FILES:
            return
        yield os.path.abspath(file)


def _word(file: str) -> bytes:
    folder, name = os.path.split(file)
    return os.fsencode(os.path.basename(folder) if name == "__init__.py" else name.removesuffix(".py"))


def _text(file: str) -> bytes:
    try:
        with open(file, "rb") as stream:
            return stream.read()
    except OSError:
        return b""


def _imported(file: str, text: str, finder: Finder) -> Iterator[str]:
    """The project's files that the import statements of a file name, at whatever depth they stand."""
    module, is_package = module_name(file), os.path.basename(file) == "__init__.py"
    for match in _IMPORT.finditer(text):
        if match["plain"] is not None:
            dotted = [part.split(" as ")[0].strip() for part in _COMMENT.sub("", match["plain"]).split(",")]
        else:
            base = absolute(match["base"], module, is_package)
            names = _COMMENT.sub("", match["names"]).strip("() \t\n\\").split(",")
            dotted = [base, *(f"{base}.{name.split(' as ')[0].strip()}".strip(".") for name in names)]
        for name in dotted:
            found = finder.file_of(name, file) if name else None
            if found is not None:
                yield os.path.abspath(found)
