"""The other files of a project while one is repaired: what they hold, and what would be said were it something else."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from h2dlint.discovery import read_bytes
from h2dlint.facts.copies import Copy
from h2dlint.fixing.document import Document
from h2dlint.source import load, parsed

if TYPE_CHECKING:
    from h2dlint.facts.project import Project

CopiesIn = Callable[["Project", str, str, ast.Module], Sequence[Copy]]
"""The copies of a file, by its path and text, as a project sees them."""


class Others:
    """Other files than the one under repair."""

    def __init__(self, project: Project, copies_in: CopiesIn) -> None:
        self._project = project
        self._copies_in = copies_in
        self._documents: dict[str, Document | None] = {}
        self._changed: tuple[Mapping[str, str], Project] | None = None
        self._before: dict[str, Sequence[Copy]] = {}

    def document(self, path: str) -> Document | None:
        """A module by its path as shown; None for one that cannot be read, parsed or written back."""
        if path not in self._documents:
            self._documents[path] = self._opened(path)
        return self._documents[path]

    def _opened(self, path: str) -> Document | None:
        file = os.path.abspath(path)
        assumed = self._project.assumed.get(file)
        if not path.endswith(".py"):
            return None
        if assumed is not None:
            tree, _ = parsed(assumed)
            return None if tree is None else Document(path, assumed, tree, file)
        try:
            data = read_bytes(file)
        except OSError:
            return None
        source = load(path, data)
        if source.tree is None or source.text.encode(source.encoding) != data:
            return None
        return Document(path, source.text, source.tree, file)

    def copies_now(self, path: str) -> Sequence[Copy]:
        """The copies of another file as it is."""
        if path not in self._before:
            document = self.document(path)
            found = () if document is None else self._copies_in(self._project, path, document.text, document.tree)
            self._before[path] = found
        return self._before[path]

    def copies_with(self, texts: Mapping[str, str], path: str, text: str, tree: ast.Module) -> Sequence[Copy]:
        """The copies of a file, were these the texts of others, by their paths as shown."""
        if self._changed is None or self._changed[0] != texts:
            absolute = {os.path.abspath(other): new for other, new in texts.items()}
            self._changed = texts, self._project.assuming(absolute)
        return self._copies_in(self._changed[1], path, text, tree)
