"""From a place in a file to the explanation of the copies there."""

from __future__ import annotations

import os

from h2dlint.config import Configs
from h2dlint.discovery import display_path, read_bytes
from h2dlint.facts.explain import Explanation, explain
from h2dlint.facts.project import Project
from h2dlint.source import load


def explained(path: str, line: int, configs: Configs) -> list[Explanation] | str:
    """The copies on a line of a file with all that is known of them, or why there are none.

    Raises ConfigError: a settings file cannot be used.
    """
    try:
        source = load(display_path(path), read_bytes(path))
    except OSError as error:
        return f"{display_path(path)} cannot be read: {error.strerror or error}"
    if source.tree is None or source.problem is not None:
        return f"{display_path(path)}: {source.problem.message if source.problem else 'not Python'}"
    options = configs.for_folder(os.path.dirname(path) or os.curdir).fact_options()
    try:
        found = explain(Project(options), source.path, source.text, source.tree, line)
    except (RecursionError, MemoryError):
        return f"{display_path(path)}: nested too deeply to be analysed"
    return found or f"{display_path(path)}:{line}: no copy between host and device is known on this line"
