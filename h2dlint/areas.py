"""Which part of a file a setting speaks for: the whole of it, or some of its functions and classes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from msgspec import Struct

from h2dlint.discovery import Patterns


class Area(Struct, frozen=True):
    """A part of one file."""

    whole: bool = False
    names: tuple[str, ...] = ()
    """Functions and classes by their dotted names in the file."""

    def __bool__(self) -> bool:
        return self.whole or bool(self.names)

    def holds(self, function: str) -> bool:
        """Whether the function with this dotted name inside its file belongs to the area."""
        return self.whole or any(function == name or function.startswith(f"{name}.") for name in self.names)


def is_glob(entry: str) -> bool:
    """Whether an entry names files, rather than a module, a class or a function."""
    return any(sign in entry for sign in "/*?") or entry.endswith(".py")


def area_of(entries: Sequence[str], file: str, folder: str) -> Area:
    """What `entries`, written in `folder`, say about a file: globs of files and folders, or dotted names."""
    if not entries:
        return Area()
    globs = [entry for entry in entries if is_glob(entry)]
    if globs and names_file(Patterns(globs, folder), file, folder):
        return Area(whole=True)
    names: list[str] = []
    modules = _module_names(file, folder)
    for entry in entries:
        if is_glob(entry):
            continue
        for module in modules:
            if module == entry or module.startswith(f"{entry}."):
                return Area(whole=True)
            if entry.startswith(f"{module}."):
                names.append(entry[len(module) + 1 :])
    return Area(names=tuple(dict.fromkeys(names)))


def names_file(patterns: Patterns, file: str, folder: str) -> bool:
    """Whether globs written in `folder` name the file, or a folder on the way to it."""
    path = os.path.abspath(file)
    inside = os.path.relpath(path, folder).split(os.sep)
    if inside[0] == os.pardir:
        return False
    at = os.path.abspath(folder)
    for name in inside:
        if patterns.match(at, name):
            return True
        at = os.path.join(at, name)
    return False


def _module_names(file: str, folder: str) -> Iterable[str]:
    """The names by which a file may be known as a module: by its packages, and by its path from `folder` or its src."""
    path = os.path.abspath(file)
    at, parts = os.path.dirname(path), [os.path.basename(path).removesuffix(".py")]
    while os.path.isfile(os.path.join(at, "__init__.py")):
        at, package = os.path.split(at)
        parts.insert(0, package)
    from_folder = os.path.relpath(path, folder).removesuffix(".py").split(os.sep)
    ways = [parts, from_folder, from_folder[1:] if from_folder[0] == "src" else from_folder]
    for way in ways:
        if way[-1] == "__init__":
            del way[-1]
    return dict.fromkeys(".".join(way) for way in ways if way)
