"""The fixers: one rewrite a file, named for what it does. Adding a fixer is adding a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from h2dlint.facts.copies import Pitfall
    from h2dlint.finding import Fix
    from h2dlint.fixing import Refusal, Site


class Fixer(Struct, frozen=True):
    """A fixer file, read."""

    name: str
    title: str
    """What the rewrite does, as users read it."""
    order: int
    """Fixers are asked in this order, the best rewrite first."""
    fix: Callable[[Site], Fix | Refusal | None]
    """None: another form than this fixer's; a refusal: its form, but the rewrite would be wrong here."""
    pitfalls: tuple[Pitfall, ...] = ()
    """The mistakes beside a copy's verdict that it is asked about; the others are left to other fixers."""
    hazards: bool = False
    """Whether it is meant for copies that are asynchronous and go wrong for that, instead of those that are not."""

    @classmethod
    def read(cls, module: ModuleType) -> Fixer:
        """The fixer that a module of this package defines. Raises AttributeError where the module lacks a part."""
        name = module.__name__.rpartition(".")[2]
        pitfalls, hazards = getattr(module, "PITFALLS", ()), getattr(module, "HAZARDS", False)
        return cls(name, module.TITLE, module.ORDER, module.fix, pitfalls, hazards)


@lru_cache(maxsize=1)
def all_fixers() -> tuple[Fixer, ...]:
    """Every fixer, best first."""
    from importlib import import_module
    from pkgutil import iter_modules

    names = [found.name for found in iter_modules(__path__) if not found.name.startswith("_")]
    fixers = [Fixer.read(import_module(f"{__name__}.{name}")) for name in names]
    return tuple(sorted(fixers, key=lambda fixer: fixer.order))
