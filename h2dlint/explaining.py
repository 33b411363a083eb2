"""From a place in a file to the explanation of the copies there."""

from __future__ import annotations

import os

from h2dlint.config import Configs
from h2dlint.discovery import TooLarge, display_path, most_bytes, read_bytes
from h2dlint.facts.explain import Explanation, explain
from h2dlint.facts.options import FactOptions
from h2dlint.facts.project import Project
from h2dlint.room import with_room
from h2dlint.source import load


def explained(path: str, line: int, configs: Configs) -> list[Explanation] | str:
    """The copies on a line of a file with all that is known of them, or why there are none.

    Raises ConfigError: a settings file cannot be used.
    """
    try:
        data = read_bytes(path, most_bytes(path))
    except TooLarge as error:
        return f"{display_path(path)}: more than {error.most:,} bytes are not looked at"
    except OSError as error:
        return f"{display_path(path)} cannot be read: {error.strerror or error}"
    options = configs.for_folder(os.path.dirname(path) or os.curdir).fact_options()
    try:
        return _explained(path, line, data, options)
    except (RecursionError, MemoryError):
        pass
    try:
        return with_room(lambda: _explained(path, line, data, options))
    except (RecursionError, MemoryError):
        return f"{display_path(path)}: nested too deeply to be analysed"


def _explained(path: str, line: int, data: bytes, options: FactOptions) -> list[Explanation] | str:
    """The same for a file with these bytes. Raises RecursionError on code that is too deep."""
    source = load(display_path(path), data)
    if source.problem is not None and source.problem.deep:
        raise RecursionError
    if source.tree is None or source.problem is not None:
        return f"{display_path(path)}: {source.problem.message if source.problem else 'not Python'}"
    found = explain(Project(options), source.path, source.text, source.tree, line)
    return found or f"{display_path(path)}:{line}: no copy between host and device is known on this line"
