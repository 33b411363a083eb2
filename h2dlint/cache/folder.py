"""Where stored results lie, and whether that place may be used."""

from __future__ import annotations

import os
from contextlib import suppress

FOLDER = ".h2dlint_cache"
DATABASE = "results.db"

_TAG = "CACHEDIR.TAG"
_TAG_TEXT = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This folder holds results that h2dlint stores between runs. It can be deleted at any time.\n"
    "# For information about cache directory tags, see https://bford.info/cachedir/\n"
)
_IGNORE = ".gitignore"
_IGNORE_TEXT = "# Made by h2dlint\n*\n"
_OWN_FILES = (DATABASE, f"{DATABASE}-journal", f"{DATABASE}-wal", f"{DATABASE}-shm", _IGNORE, _TAG)
_MARKERS = ("h2dlint.toml", "pyproject.toml", "setup.py", "setup.cfg", ".git")


class Unusable(Exception):
    """A cache that cannot be used; the text is a clause that says why. The run goes on without it."""


def project_root(path: str) -> str:
    """The folder of the project that `path` belongs to: the nearest one, above or itself, that is marked as one.

    Without a project it is the working directory for what lies in it, else the folder of `path`.
    """
    path = os.path.abspath(path)
    start = at = path if os.path.isdir(path) else os.path.dirname(path)
    while True:
        if any(os.path.exists(os.path.join(at, marker)) for marker in _MARKERS):
            return at
        parent = os.path.dirname(at)
        if parent == at:
            break
        at = parent
    here = os.getcwd()
    return here if start == here or start.startswith(os.path.join(here, "")) else start


def database_in(folder: str, make: bool) -> str:
    """The path of the file in a cache folder; `make`: the folder too, with what keeps it out of git and of backups.

    Raises Unusable for a folder that is somebody else's, or cannot be made.
    """
    if os.path.islink(folder):
        raise Unusable(f"{folder} is a symbolic link")
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        names = []
        if make:
            _make(folder)
    except OSError as error:
        raise Unusable(f"{folder}: {error.strerror or error}") from error
    if names and not _is_ours(folder):
        raise Unusable(f"{folder} holds something else")
    file = os.path.join(folder, DATABASE)
    if os.path.lexists(file) and (os.path.islink(file) or not os.path.isfile(file)):
        raise Unusable(f"{file} is no file of h2dlint's")
    return file


def _make(folder: str) -> None:
    try:
        os.mkdir(folder)
        for name, text in ((_TAG, _TAG_TEXT), (_IGNORE, _IGNORE_TEXT)):
            with open(os.path.join(folder, name), "x", encoding="ascii") as stream:
                stream.write(text)
    except FileExistsError:
        pass  # another run made it just now
    except OSError as error:
        raise Unusable(f"{folder} cannot be made: {error.strerror or error}") from error


def _is_ours(folder: str) -> bool:
    try:
        with open(os.path.join(folder, _TAG), "rb") as stream:
            return b"h2dlint" in stream.read(1000)
    except OSError:
        return False


def remove_database(folder: str) -> None:
    """Takes the stored results away, so that the next run begins afresh. Never raises."""
    for name in _OWN_FILES[:4]:
        with suppress(OSError):
            os.unlink(os.path.join(folder, name))


def clear(folder: str) -> bool:
    """Removes a cache folder: what h2dlint put there, and the folder if nothing else is in it. False: there is none.

    Raises Unusable for a folder that is somebody else's, or cannot be removed.
    """
    if not os.path.lexists(folder):
        return False
    database_in(folder, make=False)
    try:
        for name in _OWN_FILES:
            if os.path.lexists(os.path.join(folder, name)):
                os.unlink(os.path.join(folder, name))
        with suppress(OSError):  # something else is in it
            os.rmdir(folder)
    except OSError as error:
        raise Unusable(f"{folder} cannot be removed: {error.strerror or error}") from error
    return True
