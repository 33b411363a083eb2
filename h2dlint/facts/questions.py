"""What facts rest on, as records that can be kept and asked again: kinds of questions about the tree, and answers."""

from __future__ import annotations

from typing import TypeAlias

from h2dlint.digest import digest_of

Question: TypeAlias = tuple[str, ...]
"""One of `Kinds`, and what it is about; paths are absolute."""
Answer: TypeAlias = tuple[str, ...] | None

UNSTEADY = "changing"
"""The content of a file that changed while it was read: no answer that rests on it is worth keeping."""


class Kinds:
    """The kinds of questions: what follows the kind in a question, and what is answered."""

    FILE = "file"
    """A file: its content."""
    MODULE = "module"
    """A module's name, and the folders in which it is looked for: its file, or an empty text."""
    ROOTS = "roots"
    """A folder: where the imports of the files in it are looked for."""
    TREE = "tree"
    """A folder: that of its project, or an empty text."""
    NAME = "name"
    """A folder: what `_.py` in it would be called as a module."""
    WORTH = "worth"
    """A file and a name: the file's content, and whether what it defines there may say anything about tensors."""
    CALLING = "calling"
    """The asking file and a method: the files of its tree that call one of that name; None if the tree is too large."""
    STORING = "storing"
    """The asking file and an attribute: the files of its tree that assign one of that name; None likewise."""
    IMPORTING = "importing"
    """The asking file, a name and a module: the files of its tree that import it; None likewise."""
    DERIVING = "deriving"
    """The asking file and a class: the files of its tree with a class statement that names it; None likewise."""
    PASSING = "passing"
    """The asking file, a method and a keyword: the files of its tree that give it a value there; None likewise."""
    TAKING = "taking"
    """The asking file, a method and a parameter: the files of its tree that define such a one; None likewise."""
    ALL = "all"
    """A folder: everything in the Python files below it. Whoever keeps the answer works it out."""
    FIXERS = "fixers"
    """A file: what fixers see of the project around it. Likewise."""


def content_of(data: bytes) -> str:
    """What tells one content of a file from any other."""
    return digest_of(data).hex()


def content_at(file: str) -> str:
    """The content of a file; empty for one that cannot be read."""
    try:
        with open(file, "rb", buffering=0) as stream:
            return content_of(stream.read())
    except OSError:
        return ""
