"""The other files of the project, read as text: who defines a name, and which module imports which.

Only looked at where a fix needs a name from elsewhere. Nothing is parsed that does not hold the word in question.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from functools import cached_property, lru_cache

from h2dlint.discovery import DEFAULT_EXCLUDES

MOST_FILES = 6000
"""Of a larger project only so many files are read, those nearest to the top first."""
MOST_BYTES = 1 << 20
"""Larger files are generated: nobody keeps a flag there."""

MOST_LEVELS = 12
"""So many folders up a package may begin."""

_IMPORT = re.compile(
    r"^(?:from[ \t]+(?P<base>[.\w]+)[ \t]+import[ \t]*(?P<names>\([^)]*\)|[^\n(]*)|import[ \t]+(?P<plain>[^\n]+))",
    re.MULTILINE,
)
_COMMENT = re.compile(r"#[^\n]*")


def module_name(file: str) -> str:
    """The dotted name of a file, from the packages around it."""
    file = os.path.abspath(file)
    root = package_root(file)
    base = os.path.dirname(root) if _is_package(root) else root
    parts = os.path.relpath(file, base).removesuffix(".py").split(os.sep)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_root(file: str) -> str:
    """The folder of the outermost package that holds `file`; its own folder where there is no package.

    A folder without `__init__.py` may lie between two packages: then the file itself must import from the outer one.
    """
    file = os.path.abspath(file)
    return _package_root(file, os.path.dirname(file))


@lru_cache(maxsize=4096)
def _package_root(file: str, folder: str) -> str:
    root = folder
    for above in _folders_above(folder, MOST_LEVELS):
        if not _is_package(above):
            continue
        adjoins = above == folder or (_is_package(root) and os.path.dirname(root) == above)
        if adjoins or _imports_from(file, os.path.basename(above)):
            root = above
    return root


def _folders_above(folder: str, levels: int) -> Iterator[str]:
    """`folder` and what lies around it, from the inside out."""
    for _ in range(levels):
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _is_package(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "__init__.py"))


def _imports_from(file: str, package: str) -> bool:
    return re.search(rf"^[ \t]*(?:from|import)[ \t]+{re.escape(package)}\b", _read(file), re.MULTILINE) is not None


class ProjectFiles:
    """The Python files of one package, or of one folder that is none."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.is_package = _is_package(root)

    @cached_property
    def files(self) -> dict[str, str]:
        """Module name -> file."""
        base = os.path.dirname(self.root) if self.is_package else self.root
        found: dict[str, str] = {}
        for file in _python_files(self.root, deep=self.is_package):
            parts = os.path.relpath(file, base).removesuffix(".py").split(os.sep)
            if parts[-1] == "__init__":
                del parts[-1]
            if parts and all(part.isidentifier() for part in parts):
                found.setdefault(".".join(parts), file)
        return found

    @cached_property
    def _texts(self) -> dict[str, str]:
        return {}

    def text(self, module: str) -> str:
        """The text of a module of the project; empty for any other, and for one that cannot be read."""
        text = self._texts.get(module)
        if text is None:
            file = self.files.get(module)
            text = self._texts[module] = _read(file) if file else ""
        return text

    @cached_property
    def import_each_other(self) -> bool:
        """Whether one may write the name of a module as it is here: beyond doubt in a package, elsewhere by example."""
        return self.is_package or any(self.imports_of(module) - {module} for module in self.files)

    def imports_of(self, module: str) -> frozenset[str]:
        """The project's modules that `module` imports at its top level, packages on the way included."""
        return self._imports(module)

    @cached_property
    def _known_imports(self) -> dict[str, frozenset[str]]:
        return {}

    def _imports(self, module: str) -> frozenset[str]:
        found = self._known_imports.get(module)
        if found is None:
            names: set[str] = set()
            for dotted in _imported_names(self.text(module), module, self._is_package_module(module)):
                names.update(self._modules_behind(dotted))
            found = self._known_imports[module] = frozenset(names)
        return found

    def _is_package_module(self, module: str) -> bool:
        return os.path.basename(self.files.get(module, "")) == "__init__.py"

    def _modules_behind(self, dotted: str) -> Iterator[str]:
        while dotted:
            if dotted in self.files:
                yield dotted
            dotted = dotted.rpartition(".")[0]

    def reaches(self, start: str, goal: str) -> bool:
        """Whether importing `start` leads, at the top level, to an import of `goal`.

        The packages around `goal` are being imported whenever `goal` is: what they import is no new way.
        """
        around = {goal[:at] for at, character in enumerate(goal) if character == "."}
        seen: set[str] = set(around)
        waiting = [module for module in self._modules_behind(start) if module not in around]
        while waiting:
            module = waiting.pop()
            if module == goal:
                return True
            if module not in seen:
                seen.add(module)
                waiting.extend(self.imports_of(module) - seen)
        return False


@lru_cache(maxsize=4)
def project_files(root: str) -> ProjectFiles:
    """The files below `root`, read once a process."""
    return ProjectFiles(root)


def files_below(root: str) -> Iterator[str]:
    """The files that `project_files` would read."""
    return _python_files(root, deep=_is_package(root))


def _python_files(root: str, deep: bool) -> Iterator[str]:
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if deep and name not in DEFAULT_EXCLUDES)
        for name in sorted(names):
            if name.endswith(".py"):
                yield os.path.join(folder, name)
                count += 1
                if count >= MOST_FILES:
                    return


def _read(file: str) -> str:
    try:
        found = os.stat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:  # a pipe would be waited for
            return ""
        with open(file, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def _imported_names(text: str, module: str, is_package: bool) -> Iterator[str]:
    """What the import statements at the margin of `text` name, dotted and absolute."""
    for match in _IMPORT.finditer(text):
        if match["plain"] is not None:
            for part in _COMMENT.sub("", match["plain"]).split(","):
                yield part.split(" as ")[0].strip()
            continue
        base = absolute(match["base"], module, is_package)
        names = _COMMENT.sub("", match["names"]).strip("() \t\n\\").split(",")
        for name in names:
            yield f"{base}.{name.split(' as ')[0].strip()}".rstrip(".")


def absolute(base: str, module: str, is_package: bool) -> str:
    """The absolute name of the module in `from BASE import ...`, written in `module`."""
    name = base.lstrip(".")
    level = len(base) - len(name)
    if level == 0:
        return name
    parts = module.split(".")
    keep = len(parts) - level + (1 if is_package else 0)
    return ".".join([*parts[: max(keep, 0)], *([name] if name else [])])
