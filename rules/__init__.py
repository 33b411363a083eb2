"""The rules: one file each, named after the rule. Adding a rule is adding a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from h2dlint.facts.copies import Copy
    from h2dlint.finding import Finding, Meta


class Rule(Struct, frozen=True):
    """A rule file, read."""

    meta: Meta
    page: str
    """Markdown for `h2dlint rule` and the documentation: fixed headings, the two examples in place."""
    bad: str
    """A snippet that the rule reports."""
    good: str
    """The same job without anything to report."""
    check: Callable[[Copy, Any], Iterator[Finding]]
    """What the rule has to say about one copy; the second argument is its libcst node, or None."""

    @classmethod
    def read(cls, module: ModuleType) -> Rule:
        """The rule that a module of this package defines.

        Raises AttributeError where the module lacks a part.
        """
        page = (module.__doc__ or "").strip()
        for mark, code in (("{BAD}", module.BAD), ("{GOOD}", module.GOOD)):
            page = page.replace(mark, f"```python\n{code.strip()}\n```")
        return cls(module.META, page, module.BAD, module.GOOD, module.check)


@lru_cache(maxsize=1)
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    from importlib import import_module
    from pkgutil import iter_modules

    names = [found.name for found in iter_modules(__path__) if not found.name.startswith("_")]
    rules = [Rule.read(import_module(f"{__name__}.{name}")) for name in names]
    return tuple(sorted(rules, key=lambda rule: rule.meta.code))


def codes_for(copy: Copy) -> list[str]:
    """The codes of the rules that report `copy`, by code."""
    return [rule.meta.code for rule in all_rules() if any(True for _ in rule.check(copy, None))]
