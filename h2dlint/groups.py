"""Things that belong together, in pairs: which groups they make."""

from __future__ import annotations

from collections.abc import Iterable


class Groups:
    """Names joined in pairs; whoever hangs together is one group."""

    def __init__(self) -> None:
        self._group: dict[str, list[str]] = {}

    def join(self, one: str, other: str) -> None:
        """Put two names, and all that is joined with them, into one group."""
        first = self._group.setdefault(one, [one])
        second = self._group.setdefault(other, [other])
        if first is not second:
            first.extend(second)
            for name in second:
                self._group[name] = first

    def of(self, names: Iterable[str]) -> list[tuple[str, ...]]:
        """The groups that the names are in, each once, by the first name; names that were never joined are alone."""
        found: dict[int, tuple[str, ...]] = {}
        for name in names:
            group = self._group.setdefault(name, [name])
            found.setdefault(id(group), tuple(group))
        return list(found.values())
