"""`h2dlint check PATHS...` where no file holds anything to look at: answered without loading the command line.

Loading click and the records takes longer than looking at a small tree, and editors and commit hooks ask often.
"""

from __future__ import annotations

import os
import sys

from h2dlint.discovery import NEEDLES, Missing, has_needle, python_files, read_bytes
from h2dlint.settings_files import settings_files

MOST_FILES = 500
"""A larger tree is left to the command line at once, instead of being walked twice."""

WITHOUT_EFFECT = (
    *("--strict", "--show-unproven", "--exit-zero", "--no-cache", "--isolated"),
    *("--fix", "--unsafe-fixes", "--exit-non-zero-on-fix"),
)
"""Options that change nothing where there is nothing to look at."""


class _NotSimple(Exception):
    """There is something to look at, to read or to complain about."""


def try_shortcut(arguments: list[str]) -> int | None:
    """Does the whole run and answers its exit status; None, and nothing done, where this is not the simple case."""
    paths = [argument for argument in arguments[1:] if argument not in WITHOUT_EFFECT]
    if arguments[:1] != ["check"] or any(path.startswith("-") for path in paths) or sys.stdout.isatty():
        return None
    try:
        files = _count_files(paths or [os.curdir])
    except (_NotSimple, Missing, OSError):
        return None
    sys.stdout.write(all_clear(files) + "\n")
    return 0


def all_clear(files: int) -> str:
    """What the concise output says about so many files without any finding."""
    return f"All clear: nothing to report in {files:,} file{'' if files == 1 else 's'} (0 analysed)"


def _count_files(paths: list[str]) -> int:
    """How many files there are, if none needs a closer look."""
    plain: set[str] = set()
    for path in paths:
        _refuse_settings(path, plain)
    count = 0
    for file in python_files(paths):
        count += 1
        _refuse_settings(os.path.dirname(file) or os.curdir, plain)
        if count > MOST_FILES or has_needle(read_bytes(file), NEEDLES):
            raise _NotSimple
    return count


def _refuse_settings(path: str, plain: set[str]) -> None:
    """Raises if settings may hold for `path`. `plain` collects the folders known to have none, in or above them."""
    folder = os.path.abspath(path)
    while folder not in plain:
        for _ in settings_files(folder):
            raise _NotSimple
        plain.add(folder)
        folder = os.path.dirname(folder)
