"""How far a question is followed through a project before it is given up."""

from __future__ import annotations

from msgspec import Struct


class Limits(Struct, frozen=True):
    """Bounds of the search for who calls a function or makes an object."""

    caller_files: int = 8
    """A name that more other files of the project mention is not followed into them."""
    caller_sites: int = 16
    """Functions of other files that are looked at because they name one function."""
    maker_files: int = 3
    """A class that more other files of the project make objects of is not followed into them."""
    root: str = ""
    """The folder in which imported modules are looked for first; empty: found from each file."""
