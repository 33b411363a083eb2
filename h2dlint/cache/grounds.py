"""Whether what facts rest on is as it was: each recorded answer against what the tree would answer now.

A search of the tree is not done again. Its answer was true of a listing, the contents of all files by path; so it is
true now if it is for each file that differs from that listing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TypeAlias

from msgspec import Struct

from h2dlint.cache.stamps import SETTLED, Stamps
from h2dlint.digest import blake2b
from h2dlint.facts.finder import Finder, module_file
from h2dlint.facts.keyword_sites import passes, takes
from h2dlint.facts.mentions import CALLS, CLASSES, IMPORTS, STORES, Mentions, searched_files, searched_text, words_in
from h2dlint.facts.options import FactOptions
from h2dlint.facts.questions import UNSTEADY, Answer, Kinds, Question

Recorded: TypeAlias = tuple[Question, Answer]
Listings: TypeAlias = Mapping[str, bytes]
"""The digest of its listing by each tree that was searched."""


class Listing(Struct, frozen=True):
    """The files of a tree, with their contents; None for a tree that is too large to be searched."""

    files: Mapping[str, bytes] | None
    digest: bytes


class Now:
    """The tree as it is: each question is answered once."""

    def __init__(self, stamps: Stamps, old_listing: Callable[[bytes], Mapping[str, bytes] | None]) -> None:
        """`old_listing` finds a stored listing by its digest."""
        self.stamps = stamps
        self._old_listing = old_listing
        self.listings: dict[tuple[str, bool], Listing] = {}
        """By folder, and whether what is below it counts: those that were asked for."""
        self._differing: dict[tuple[bytes, bytes], tuple[str, ...] | None] = {}
        self._fresh: dict[tuple[bytes, int], tuple[str, ...]] = {}
        self._finders: dict[FactOptions, tuple[Finder, Mentions]] = {}
        self._texts: dict[str, _Text] = {}
        self._wholes: dict[Question, tuple[str, Mapping[str, bytes]]] = {}

    def holds(self, recorded: Recorded, options: FactOptions, listings: Listings) -> bool:
        """Whether a recorded answer would be given now."""
        question, answer = recorded
        tree = b""
        if question[0] in SEARCHES:
            tree = listings.get(self.mentions(options).tree_searched_for(question[1])[0], b"")
        return self._holds(question, answer, options, tree)

    def _holds(self, question: Question, answer: Answer, options: FactOptions, tree: bytes) -> bool:
        kind, *about = question
        finder = self._tools(options)[0]
        if kind == Kinds.FILE:
            return answer == (self.stamps.content(about[0]).hex(),)
        if kind == Kinds.MODULE:
            return answer == (module_file(tuple(about[1:]), about[0]) or "",)
        if kind == Kinds.ROOTS:
            return answer == finder.roots_of(os.path.join(about[0], _ANY))
        if kind == Kinds.TREE:
            return answer == (finder.tree_of(os.path.join(about[0], _ANY)),)
        if kind == Kinds.NAME:
            return answer == (finder.module_name(os.path.join(about[0], _ANY)),)
        if kind == Kinds.WORTH:
            return self._is_worth_as_much(finder, about[0], about[1], answer)
        if kind in SEARCHES:
            return self._finds_the_same(question, answer, options, tree)
        return kind in _WHOLE and answer == (self.whole(question)[0],)

    def _is_worth_as_much(self, finder: Finder, file: str, name: str, answer: Answer) -> bool:
        if answer is None or len(answer) != 2:
            return False
        if answer[0] == self.stamps.content(file).hex():
            return True
        return finder.worth_following(file, name) == bool(answer[1])

    # Searches of the tree

    def mentions(self, options: FactOptions) -> Mentions:
        """What knows which tree a file belongs to."""
        return self._tools(options)[1]

    def _tools(self, options: FactOptions) -> tuple[Finder, Mentions]:
        tools = self._finders.get(options)
        if tools is None:
            finder = Finder(options.root, options.pinned_factories)
            tools = self._finders[options] = (finder, Mentions(finder))
        return tools

    def listing(self, top: str, deep: bool) -> Listing:
        """The files of a tree as they are."""
        found = self.listings.get((top, deep))
        if found is None:
            files = searched_files(top, deep)
            contents = None if files is None else {file: self.stamps.content(file) for file in files}
            found = self.listings[top, deep] = Listing(contents, self._digest(contents))
        return found

    def _finds_the_same(self, question: Question, answer: Answer, options: FactOptions, tree: bytes) -> bool:
        now = self.listing(*self.mentions(options).tree_searched_for(question[1]))
        if tree == now.digest:
            return True
        differing = self._differing_files(tree, now)
        return differing is not None and self._is_true_of(question, answer, differing, now, options)

    def _differing_files(self, tree: bytes, now: Listing) -> tuple[str, ...] | None:
        """The files that are not as in an old listing; None where that is not known any more, or one is too large."""
        key = (tree, now.digest)
        if key not in self._differing:
            old = self._old_listing(tree)
            files = now.files
            if old is None or files is None:
                self._differing[key] = None
            else:
                both = [*old, *(file for file in files if file not in old)]
                self._differing[key] = tuple(file for file in both if old.get(file) != files.get(file))
        return self._differing[key]

    def _is_true_of(
        self, question: Question, answer: Answer, files: tuple[str, ...], now: Listing, options: FactOptions
    ) -> bool:
        """Whether these files belong to an answer just as far as they are in it."""
        if answer is None or now.files is None:
            return False
        there, mentions = frozenset(answer), self.mentions(options)
        return all(
            (file in now.files and self._belongs(question, file) and mentions.counts(file, question[1]))
            == (file in there)
            for file in files
        )

    def _belongs(self, question: Question, file: str) -> bool:
        text = self._texts.get(file)
        if text is None:
            text = self._texts[file] = _Text(file)
        name = question[2].encode()
        if question[0] == Kinds.CALLING:
            return name in text.called
        if question[0] == Kinds.STORING:
            return name in text.stored
        if question[0] == Kinds.DERIVING:
            return name in text.classes
        if question[0] in (Kinds.PASSING, Kinds.TAKING):
            said_by = passes if question[0] == Kinds.PASSING else takes
            return said_by(text.data, question[2], question[3])
        words = (name, question[3].rpartition(".")[2].encode())
        return any(word in text.imported for word in words) and name in text.data

    def was_true_throughout(self, recorded: Recorded, options: FactOptions, since: int) -> bool:
        """Whether the answer to a search that was given after `since` (in nanoseconds) is true of the tree as it is."""
        question, answer = recorded
        now = self.listing(*self.mentions(options).tree_searched_for(question[1]))
        if answer is None or now.files is None:
            return answer is None and now.files is None
        gone = tuple(file for file in answer if file not in now.files)
        return not gone and self._is_true_of(question, answer, self._fresh_in(now, since), now, options)

    def _fresh_in(self, listing: Listing, since: int) -> tuple[str, ...]:
        key = (listing.digest, since)
        found = self._fresh.get(key)
        if found is None:
            found = self._fresh[key] = tuple(file for file in listing.files or () if self.is_fresh(file, since))
        return found

    def is_fresh(self, file: str, since: int) -> bool:
        """Whether a file may have changed after `since`."""
        stamp = self.stamps.stamp(file)
        return stamp is None or max(stamp[:2]) + SETTLED >= since

    # Everything below a folder

    def whole(self, question: Question) -> tuple[str, Mapping[str, bytes]]:
        """What `ALL` and `FIXERS` answer, and the contents that it is made of."""
        found = self._wholes.get(question)
        if found is None:
            contents = {file: self.stamps.content(file) for file in _files_of(question)}
            found = self._wholes[question] = (self._digest(contents).hex(), contents)
        return found

    def _digest(self, files: Mapping[str, bytes] | None) -> bytes:
        if files is None:
            return _TOO_LARGE
        digest = blake2b(digest_size=16)
        for file, content in files.items():
            name = self.stamps.name(file)
            digest.update(b"%d %d %b%b" % (len(name), len(content), name, content))
        return digest.digest()


_ANY = "_.py"
"""Some file of a folder."""
_TOO_LARGE = b"too large"
_WHOLE = (Kinds.ALL, Kinds.FIXERS)
SEARCHES = (Kinds.CALLING, Kinds.STORING, Kinds.DERIVING, Kinds.IMPORTING, Kinds.PASSING, Kinds.TAKING)
"""The questions that a search of the whole tree answers."""


class _Text:
    """What a search sees of a file."""

    def __init__(self, file: str) -> None:
        self.data = searched_text(file)

    @cached_property
    def called(self) -> set[bytes]:
        return words_in(self.data, CALLS)

    @cached_property
    def stored(self) -> set[bytes]:
        return words_in(self.data, STORES)

    @cached_property
    def classes(self) -> set[bytes]:
        return words_in(self.data, CLASSES)

    @cached_property
    def imported(self) -> set[bytes]:
        return words_in(self.data, IMPORTS)


def is_steady(recorded: Recorded) -> bool:
    """Whether an answer was given by files that stood still."""
    return recorded[1] is None or UNSTEADY not in recorded[1]


def _files_of(question: Question) -> Iterator[str]:
    kind, place = question
    if kind == Kinds.ALL:
        yield from _python_files(place)
        return
    from h2dlint.fixing.layout import settings_files_above
    from h2dlint.fixing.project_files import files_below, package_root

    yield from files_below(package_root(place))
    yield from settings_files_above(place)


def _python_files(folder: str) -> Iterator[str]:
    for here, folders, names in os.walk(folder):
        folders.sort()
        yield from (os.path.join(here, name) for name in sorted(names) if name.endswith(".py"))
