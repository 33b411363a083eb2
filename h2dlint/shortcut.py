"""`h2dlint check PATHS...` where no file holds anything to look at: answered without loading the command line.

Loading click and the records takes longer than looking at a small tree, and editors and commit hooks ask often.
"""

from __future__ import annotations

import os
import sys

from h2dlint.discovery import (
    DEFAULT_EXCLUDES,
    NEEDLES,
    Missing,
    Patterns,
    TooLarge,
    has_needle,
    most_bytes,
    python_files,
    read_bytes,
    read_regular,
)
from h2dlint.settings_files import settings_files

TYPE_CHECKING = False  # typing itself is more than this file needs
if TYPE_CHECKING:
    from h2dlint.finding import Needle

MOST_FILES = 500
"""A larger tree is left to the command line at once, instead of being walked twice."""

FORCE_EXCLUDE = "--force-exclude"

WITHOUT_EFFECT = (
    *("--strict", "--show-unproven", "--exit-zero", "--no-cache", "--isolated"),
    *("--fix", "--unsafe-fixes", "--exit-non-zero-on-fix", FORCE_EXCLUDE),
)
"""Options that change nothing where there is nothing to look at."""

LOOK_FOR_MORE = ("select", "extend-select", "strict-paths")
"""Settings that may have rules run which look for something else in a file."""


class _NotSimple(Exception):
    """There is something to look at, to read or to complain about."""


def try_shortcut(arguments: list[str]) -> int | None:
    """Does the whole run and answers its exit status; None, and nothing done, where this is not the simple case."""
    paths = [argument for argument in arguments[1:] if argument not in WITHOUT_EFFECT]
    if arguments[:1] != ["check"] or any(path.startswith("-") for path in paths) or sys.stdout.isatty():
        return None
    try:
        settings = _Settings(isolated="--isolated" in arguments)
        files = _count_files(paths or [os.curdir], settings, FORCE_EXCLUDE in arguments)
    except (_NotSimple, Missing, TooLarge, OSError):
        return None
    sys.stdout.write(all_clear(files) + "\n")
    return 0


def all_clear(files: int) -> str:
    """What the concise output says about so many files without any finding."""
    return f"All clear: nothing to report in {files:,} file{'' if files == 1 else 's'} (0 analysed)"


def _count_files(paths: list[str], settings: _Settings, named_too: bool) -> int:
    """How many files there are, if none needs a closer look."""
    settings.excludes(os.curdir)  # the output is as the settings of the working directory want it
    for path in paths:
        settings.excludes(path if os.path.isdir(path) else os.path.dirname(path) or os.curdir)
    seen: set[str] = set()
    for file in python_files(paths, settings.excluded, named_too):
        seen.add(os.path.abspath(file))
        settings.excludes(os.path.dirname(file) or os.curdir)
        if len(seen) > MOST_FILES or has_needle(read_bytes(file, most_bytes(file)), settings.needles, file):
            raise _NotSimple
    for baseline in settings.baselines:
        _refuse_what_is_gone(baseline, seen)
    return len(seen)


def _refuse_what_is_gone(baseline: str, seen: set[str]) -> None:
    """Raises where the baseline knows findings of files that hold nothing any more: somebody must be told."""
    import json

    try:
        data = json.loads(read_regular(baseline, _MOST_BASELINE_BYTES))
        paths = {str(entry["path"]) for entry in data["findings"]} if data["version"] == 1 else {""}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _NotSimple from None
    for path in paths:
        file = os.path.normpath(os.path.join(os.path.dirname(baseline), path))
        if file in seen or not os.path.exists(file):
            raise _NotSimple


_MOST_BASELINE_BYTES = 1_000_000
"""Reading a larger one takes longer than the command line does to load."""


class _Settings:
    """What the settings leave out, folder by folder. Raises _NotSimple where they say more that matters here."""

    def __init__(self, isolated: bool) -> None:
        self._isolated = isolated
        self._known: dict[str, Patterns] = {}
        self._default = Patterns(DEFAULT_EXCLUDES, os.getcwd())
        self.baselines: set[str] = set()
        self.needles: tuple[Needle, ...] = NEEDLES
        """What a file of any folder seen so far may be looked at for."""

    def excluded(self, folder: str, name: str) -> bool:
        """Whether an entry of a folder is to be left out."""
        return self.excludes(folder).match(folder, name)

    def excludes(self, folder: str) -> Patterns:
        """What is left out in a folder: by its own settings, or by those of the nearest folder above that has some."""
        if self._isolated:
            return self._default
        folder = os.path.abspath(folder)
        found = self._known.get(folder)
        if found is None:
            parent = os.path.dirname(folder)
            above = self._default if parent == folder else self.excludes(parent)
            found = self._known[folder] = self._own(folder) or above
        return found

    def _own(self, folder: str) -> Patterns | None:
        for _ in settings_files(folder):
            from h2dlint.settings import ConfigError, rule_needles, settings_in

            try:
                for _, table in settings_in(folder):
                    if table.get("output-format", "concise") != "concise" or "max-file-bytes" in table:
                        raise _NotSimple
                    if any(key in table for key in LOOK_FOR_MORE):
                        needles = rule_needles()
                        if needles is None:
                            raise _NotSimple
                        self.needles = (*NEEDLES, *needles)
                    if "baseline" in table:
                        self.baselines.add(os.path.join(folder, table["baseline"]))
                    globs = (*table.get("exclude", DEFAULT_EXCLUDES), *table.get("extend-exclude", ()))
                    return Patterns(globs, folder)
            except ConfigError:
                raise _NotSimple from None  # the command line has the words for it
            break
        return None
