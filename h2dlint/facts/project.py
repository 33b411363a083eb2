"""The whole: modules, classes, functions and their summaries, found and interpreted only when a question needs them.

One `Project` serves one run in one process. Nothing of the checked code is ever imported or executed.
"""

from __future__ import annotations

from collections.abc import Mapping

from h2dlint.facts.keyword_calls import KeywordCalls
from h2dlint.facts.options import FactOptions
from h2dlint.facts.questions import Question

_DEFAULTS = FactOptions()


class Project(KeywordCalls):
    """Everything known of the code under check; answers the questions of `frame.Interpreter`.

    Built in layers, each on the one before: running functions, resolving names, answering calls, looking up attributes.
    """

    def __init__(self, options: FactOptions = _DEFAULTS, assumed: Mapping[str, str] | None = None) -> None:
        """`assumed`: texts that stand for those of files on the disk, by absolute path."""
        super().__init__(options)
        self.assumed: Mapping[str, str] = assumed or {}
        self._finder.assume(self.assumed)

    def afresh(self) -> Project:
        """A project for the same code that remembers nothing of it but the trees that it has searched."""
        return self._like_this(type(self)(self.options, self.assumed))

    def assuming(self, texts: Mapping[str, str]) -> Project:
        """A project as it would be were these the texts of files, by absolute path."""
        return self._like_this(Project(self.options, {**self.assumed, **texts}))

    def _like_this(self, project: Project) -> Project:
        project.needs_room = self.needs_room
        project._mentions.take_trees(self._mentions)
        return project

    def note(self, question: Question) -> None:
        """What is said of the file under check rests on the answer to this; kept in mind only in `grounds`."""

    def files_read(self, start: int = 0) -> list[str]:
        """The files whose modules have been read so far, by absolute path, in that order, from number `start` on."""
        return [file for file, module in list(self._modules.items())[start:] if module is not None]

    @property
    def reads(self) -> int:
        """How many files have been opened so far for what they define."""
        return len(self._modules)
