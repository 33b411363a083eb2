"""What the facts of a file rest on: the other files that were read for them, and what was asked of the tree.

A graph: each thing that the project computes once and remembers is a node, with what it read itself and the nodes that
it asked. So a remembered answer leads to the same grounds as one that is worked out anew, and circles do no harm.
"""

from __future__ import annotations

import ast
import os
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, TypeAlias

from h2dlint.facts import events
from h2dlint.facts.domain import Function, Instance, Value
from h2dlint.facts.finder import Finder
from h2dlint.facts.frame import Environment, Frame
from h2dlint.facts.mentions import Mentions
from h2dlint.facts.modules import ClassInfo, ModuleInfo, Unit
from h2dlint.facts.options import FactOptions
from h2dlint.facts.outcomes import CallSite
from h2dlint.facts.project import Project
from h2dlint.facts.questions import UNSTEADY, Answer, Kinds, Question, content_at, content_of


class Grounds:
    """The graph, and the node that is being worked on."""

    def __init__(self) -> None:
        self._answers: dict[Question, Answer] = {}
        self._reads: defaultdict[object, set[Question]] = defaultdict(set)
        self._asks: defaultdict[object, set[object]] = defaultdict(set)
        self._current: object = None

    def note(self, question: Question, answer: Answer = ()) -> None:
        """The node at work read this."""
        self._answers[question] = answer
        self._reads[self._current].add(question)

    def ask(self, node: object) -> None:
        """The node at work uses what `node` is."""
        self._asks[self._current].add(node)

    def start(self, node: object) -> None:
        """From here on `node` is at work, on its own."""
        self._current = node

    def enter(self, node: object) -> object:
        """From here on `node` is at work, for the one that was so far; answers that one, for `leave`."""
        before, self._current = self._current, node
        self._asks[before].add(node)
        return before

    def leave(self, before: object) -> None:
        """The node that asked goes on."""
        self._current = before

    def same(self, node: object, other: object) -> None:
        """From now on `node` stands for what `other` is."""
        self._asks[node] = {other}

    def of(self, node: object) -> dict[Question, Answer]:
        """Everything that a node rests on, itself or through others."""
        seen: set[object] = {node}
        waiting = [node]
        found: set[Question] = set()
        while waiting:
            here = waiting.pop()
            found |= self._reads.get(here, _NO_QUESTIONS)
            new = self._asks.get(here, _NO_NODES) - seen
            seen |= new
            waiting += new
        return {question: self._answers[question] for question in found}


_NO_QUESTIONS: set[Question] = set()
_NO_NODES: set[object] = set()
_DEFAULTS = FactOptions()


class _NotedFinder(Finder):
    """A finder whose answers are noted."""

    def __init__(self, options: FactOptions, grounds: Grounds) -> None:
        super().__init__(options.root, options.pinned_factories)
        self._grounds = grounds
        self._contents: dict[str, str] = {}
        self._located: dict[tuple[str, str], tuple[str | None, str, tuple[str, ...] | None]] = {}

    def file_of(self, name: str, asker: str) -> str | None:
        known = self._located.get((name, asker))
        if known is None:
            found = super().file_of(name, asker)
            roots = super().roots_of(asker)
            searched = (roots, name) in self._files  # not for a name that no project defines
            known = self._located[name, asker] = (found, os.path.dirname(asker), roots if searched else None)
        found, folder, searched_in = known
        if searched_in is not None:
            self._grounds.note((Kinds.ROOTS, folder), searched_in)
            self._grounds.note((Kinds.MODULE, name, *searched_in), (found or "",))
        return found

    def roots_of(self, file: str) -> tuple[str, ...]:
        found = super().roots_of(file)
        self._grounds.note((Kinds.ROOTS, os.path.dirname(file)), found)
        return found

    def tree_of(self, file: str) -> str:
        found = super().tree_of(file)
        self._grounds.note((Kinds.TREE, os.path.dirname(file)), (found,))
        return found

    def module_name(self, file: str) -> str:
        folder = os.path.dirname(file)
        self._grounds.note((Kinds.NAME, folder), (super().module_name(os.path.join(folder, "_.py")),))
        return super().module_name(file)

    def _bytes_of(self, file: str) -> bytes:
        data = super()._bytes_of(file)
        self._contents[file] = content_of(data) if data else content_at(file)
        return data

    def content_of(self, file: str) -> str:
        """The content of a file when its text was read; of one whose text is only assumed none that lasts."""
        self.text_of(file)
        return self._contents.get(file, UNSTEADY)

    def worth_following(self, file: str, name: str) -> bool:
        found = super().worth_following(file, name)
        content = self.content_of(file) if name not in self.declared else ""
        self._grounds.note((Kinds.WORTH, file, name), (content, "yes" if found else ""))
        return found


class _NotedMentions(Mentions):
    """Searches of the tree that are noted."""

    def __init__(self, finder: Finder, grounds: Grounds) -> None:
        super().__init__(finder)
        self._grounds = grounds

    def files_calling(self, method: str, asker: str) -> list[str] | None:
        found = super().files_calling(method, asker)
        self._grounds.note((Kinds.CALLING, asker, method), None if found is None else tuple(found))
        return found

    def files_storing(self, attribute: str, asker: str) -> list[str] | None:
        found = super().files_storing(attribute, asker)
        self._grounds.note((Kinds.STORING, asker, attribute), None if found is None else tuple(found))
        return found

    def files_importing(self, name: str, module: str, asker: str) -> list[str] | None:
        found = super().files_importing(name, module, asker)
        self._grounds.note((Kinds.IMPORTING, asker, name, module), None if found is None else tuple(found))
        return found

    def files_deriving(self, name: str, asker: str) -> list[str] | None:
        found = super().files_deriving(name, asker)
        self._grounds.note((Kinds.DERIVING, asker, name), None if found is None else tuple(found))
        return found

    def files_passing(self, method: str, keyword: str, asker: str) -> list[str] | None:
        found = super().files_passing(method, keyword, asker)
        self._grounds.note((Kinds.PASSING, asker, method, keyword), None if found is None else tuple(found))
        return found

    def files_taking(self, method: str, parameter: str, asker: str) -> list[str] | None:
        found = super().files_taking(method, parameter, asker)
        self._grounds.note((Kinds.TAKING, asker, method, parameter), None if found is None else tuple(found))
        return found


_Summary: TypeAlias = tuple[Value, Environment, events.Effect | None]


class _NotedSummaries(dict[object, _Summary]):
    """Remembered calls: who is told one rests on what it rests on."""

    def __init__(self, grounds: Grounds) -> None:
        super().__init__()
        self._grounds = grounds

    def get(self, key: object, default: Any = None) -> Any:
        found = super().get(key)
        if found is None:
            return default
        self._grounds.ask(("summary", id(found)))
        return found


class GroundedProject(Project):
    """A project that knows what the facts of a file rest on, which takes a little longer.

    Each method here is one whose answer is remembered, and does what it does without.
    """

    def __init__(self, options: FactOptions = _DEFAULTS, assumed: Mapping[str, str] | None = None) -> None:
        super().__init__(options, assumed)
        self.grounds = Grounds()
        finder = _NotedFinder(options, self.grounds)
        finder.assume(self.assumed)
        self._finder: Finder = finder
        self._content_of = finder.content_of
        self._mentions: Mentions = _NotedMentions(self._finder, self.grounds)
        self._summaries: dict[object, _Summary] = _NotedSummaries(self.grounds)

    def grounds_of(self, file: str) -> dict[Question, Answer]:
        """What the facts of a file that was under check rest on, but for its own content; paths are absolute."""
        file = os.path.abspath(file)
        module = self._modules.get(file)
        self.grounds.start(file)
        for unit in module.units if module is not None else ():
            if unit.node in self._units:  # whoever had it run
                self.grounds.ask(unit.node)
        found = self.grounds.of(file)
        found.pop((Kinds.FILE, file), None)
        return found

    def note(self, question: Question) -> None:
        self.grounds.note(question)

    def module(self, path: str, text: str, tree: ast.Module) -> ModuleInfo:
        self.grounds.start(os.path.abspath(path))
        return super().module(path, text, tree)

    def load(self, file: str, whole: bool = False) -> ModuleInfo | None:
        self.grounds.note((Kinds.FILE, file), (self._content_of(file),))
        return super().load(file, whole)

    def text_of(self, file: str) -> str:
        self.grounds.note((Kinds.FILE, file), (self._content_of(file),))
        return super().text_of(file)

    def overrides_of(self, info: ClassInfo, name: str) -> tuple[list[Function], bool]:
        before = self.grounds.enter(("overrides", info, name))
        try:
            return super().overrides_of(info, name)
        finally:
            self.grounds.leave(before)

    def derived_texts(self, info: ClassInfo) -> list[tuple[str, str, str]] | None:
        before = self.grounds.enter(("derived", info))
        try:
            return super().derived_texts(info)
        finally:
            self.grounds.leave(before)

    def resolve(self, module: ModuleInfo, name: str) -> Value:
        known = self.names_seen(module).get(name)
        if known is not None:
            self.grounds.ask((module, name))
            return known
        before = self.grounds.enter((module, name))
        try:
            return super().resolve(module, name)
        finally:
            self.grounds.leave(before)

    def class_bases(self, info: ClassInfo) -> list[Value]:
        if not info.node.bases:
            return []
        known = self._bases.get(info)
        if known is not None:
            self.grounds.ask(("bases", info))
            return known
        before = self.grounds.enter(("bases", info))
        try:
            return super().class_bases(info)
        finally:
            self.grounds.leave(before)

    def run_module(self, module: ModuleInfo) -> Frame:
        known = self._globals.get(id(module))
        if known is not None:
            self.grounds.ask(("body", module))
            return known
        before = self.grounds.enter(("body", module))
        try:
            return super().run_module(module)
        finally:
            self.grounds.leave(before)

    def run_unit(self, module: ModuleInfo, unit: Unit, depth: int = 0) -> Frame | None:
        before = self.grounds.enter(unit.node)
        try:
            return super().run_unit(module, unit, depth)
        finally:
            self.grounds.leave(before)

    def _run_unit(self, module: ModuleInfo, unit: Unit, depth: int = 0, steps: int = 0) -> Frame:
        before = self.grounds.enter(unit.node)
        try:
            return super()._run_unit(module, unit, depth, steps)
        finally:
            self.grounds.leave(before)

    def _run_call(
        self,
        function: Function,
        args: list[Value],
        keywords: dict[str, Value],
        overrides: Environment,
        frame: Frame,
        node: ast.AST,
    ) -> _Summary:
        call = object()
        before = self.grounds.enter(call)
        try:
            found = super()._run_call(function, args, keywords, overrides, frame, node)
        finally:
            self.grounds.leave(before)
        self.grounds.same(("summary", id(found)), call)
        return found

    def attribute(self, info: ClassInfo, name: str) -> Value:
        known = self._attributes.get((id(info), name))
        if known is not None:
            self.grounds.ask(("attribute", info, name))
            return known
        before = self.grounds.enter(("attribute", info, name))
        try:
            return super().attribute(info, name)
        finally:
            self.grounds.leave(before)

    def _no_summaries(self) -> dict[object, _Summary]:
        return _NotedSummaries(self.grounds)

    def constructions(self, info: ClassInfo) -> list[tuple[Instance, ast.AST]]:
        before = self.grounds.enter(("constructions", info))
        try:
            return super().constructions(info)
        finally:
            self.grounds.leave(before)

    def _constructed_elsewhere(self, info: ClassInfo) -> list[tuple[Instance, CallSite]]:
        before = self.grounds.enter(("constructed", info))
        try:
            return super()._constructed_elsewhere(info)
        finally:
            self.grounds.leave(before)

    def _assigned_elsewhere(self, info: ClassInfo, name: str) -> list[tuple[Value, CallSite]]:
        before = self.grounds.enter(("assigned", info, name))
        try:
            return super()._assigned_elsewhere(info, name)
        finally:
            self.grounds.leave(before)
