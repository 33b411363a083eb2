"""What the settings say about values that the code alone does not show."""

from __future__ import annotations

from msgspec import Struct


class FactOptions(Struct, frozen=True):
    """The settings that the analysis obeys; one project is analysed under one of these."""

    pinned_factories: tuple[str, ...] = ()
    """Dotted names of functions and methods whose tensors lie in pinned memory, whatever their code says."""
    backend: str = "cuda"
    """The accelerator that an unnamed device stands for."""
    root: str = ""
    """The folder in which imported modules are looked for; empty: found from where the files lie."""
    max_caller_files: int = 5
    """A function that more other files of the project mention is not followed into them."""
    max_caller_sites: int = 8
    """Functions of other files that are looked at because they name one function."""
