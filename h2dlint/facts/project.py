"""The whole: modules, classes, functions and their summaries, found and interpreted only when a question needs them.

One `Project` serves one run in one process. Nothing of the checked code is ever imported or executed.
"""

from __future__ import annotations

from h2dlint.facts.stores import Stores


class Project(Stores):
    """Everything known of the code under check; answers the questions of `frame.Interpreter`.

    Built in layers, each on the one before: running functions, resolving names, answering calls, looking up attributes.
    """
