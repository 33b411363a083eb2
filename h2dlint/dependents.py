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
from h2dlint.notebooks import is_notebook

MOST_FILES = 20_000
"""A larger project is scanned up to here."""

_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+(?P<base>\.*[\w.]*)[ \t]+import[ \t]*(?P<names>\([^)]*\)|(?:[^\n\\]|\\\n)*)"
    rb"|import[ \t]+(?P<plain>(?:[^\n\\]|\\\n)+))",
    re.MULTILINE,
)
_COMMENT = re.compile(r"#[^\n]*")


def dependents_of(
    given: Collection[str], excluded: Callable[[str, str], bool], root_of: Callable[[str], str]
) -> list[str]:
    """The other files of the projects of the `given` ones that import one of them, directly or through others, or that
    one of them imports: what a function does with a parameter hangs on who calls it.

    All paths are absolute. `root_of` is the configured root of a file's project, empty where none is.
    """
    files = list(dict.fromkeys([*_projects(given, excluded, root_of), *given]))
    known = set(files)
    called: dict[str, None] = {}
    importers: dict[str, list[str]] = {}
    finders: dict[str, Finder] = {}
    for file in files:
        root = root_of(file)
        finder = finders.get(root)
        if finder is None:
            finder = finders[root] = Finder(root)
        for imported in _imported(file, finder.roots_of(file), known):
            importers.setdefault(imported, []).append(file)
            if file in given and imported not in given:
                called[imported] = None
    found: dict[str, None] = {}
    waiting = list(given)
    while waiting:
        for file in importers.get(waiting.pop(), ()):
            if file not in found and file not in given:
                found[file] = None
                waiting.append(file)
    return list({**found, **called})


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


def _imported(file: str, roots: Collection[str], known: Collection[str]) -> set[str]:
    """The known files that the import statements of a file name, at whatever depth they stand."""
    names: set[str] = set()
    module = ""
    for match in _IMPORT.finditer(_bytes(file)):
        if match["plain"] is not None:
            names.update(part.split(" as ")[0].strip() for part in _listed(match["plain"]))
            continue
        base = match["base"].decode("ascii", "replace")
        if base.startswith("."):
            module = module or module_name(file)
            base = absolute(base, module, os.path.basename(file) == "__init__.py")
        names.add(base)
        names.update(f"{base}.{part.split(' as ')[0].strip()}".strip(".") for part in _listed(match["names"]))
    inner = [name.replace(".", os.sep) for name in names if name]
    places = (os.path.join(root, path) for path in inner for root in roots)
    return {file for place in places for file in (f"{place}.py", f"{place}{os.sep}__init__.py") if file in known}


def _listed(names: bytes) -> list[str]:
    """The names between the commas of an import statement."""
    return _COMMENT.sub("", names.decode("utf-8", "replace")).strip("() \t\n\\").split(",")


def _bytes(file: str) -> bytes:
    """The code of a file; of a notebook, that of its cells."""
    try:
        with open(file, "rb") as stream:
            data = stream.read()
    except OSError:
        return b""
    return _code_of_cells(data) if is_notebook(file) else data


def _code_of_cells(data: bytes) -> bytes:
    from h2dlint.notebooks.document import NotANotebookError
    from h2dlint.notebooks.module import opened

    try:
        return opened(data).text.encode("utf-8", "replace")
    except NotANotebookError:
        return b""
