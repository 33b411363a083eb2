"""Calls that may reach a method which is asked about: of its name, with a keyword that it takes, on an object that may
be one of its class.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from msgspec import Struct

from h2dlint.facts import events
from h2dlint.facts.domain import Array, Function, Instance, Method, Unknown, Value
from h2dlint.facts.frame import IN_FLIGHT, Environment, Frame
from h2dlint.facts.keyword_sites import sites_passing
from h2dlint.facts.modules import ClassInfo, ModuleInfo, Unit, holds, own_attribute
from h2dlint.facts.options import FactOptions
from h2dlint.facts.overrides import asks_super
from h2dlint.facts.parameters import parameter_names
from h2dlint.facts.stores import Stores

MORE_FILES = 2
"""How many times as many files are looked at where only calls with a keyword count."""
_DEFAULTS = FactOptions()


class Sought(Struct, frozen=True, eq=False):
    """A method whose callers are looked at."""

    method: Function
    name: str
    keywords: tuple[str, ...]
    """Parameters of which it is asked what they are given."""
    alone: bool
    """Whether no class of the project has such a method with one of these but its own and those that it derives from.
    """

    @property
    def owner(self) -> ClassInfo:
        """The class that it belongs to."""
        owner: ClassInfo = self.method.owner
        return owner


class KeywordCalls(Stores):
    """The part of a project that follows such calls, while other functions are looked at for what they give a method.

    What is shown is that a call may reach the method, not that it does: whoever asks keeps a way for all other calls.
    """

    def __init__(self, options: FactOptions = _DEFAULTS) -> None:
        super().__init__(options)
        self.asks_by_keyword = False
        self._sought_method: Sought | None = None
        self._sought_from: ast.AST | None = None
        """The function that is looked at for it: what others store is looked up meanwhile, and is no matter of it."""
        self.asked_by_keyword: dict[ast.AST, set[ast.AST | None]] = {}
        """By method: the functions that were looked at for what they give it by keyword."""

    def is_called_widely(self, module: ModuleInfo, method: str) -> bool:
        """Whether more other files call a method of that name than are looked at."""
        if module.defines(method) or not self.options.max_caller_files:
            return False
        files = self._mentions.files_calling(method, module.file)
        return files is not None and len(files) > self.options.max_caller_files

    def callers_by_keyword(
        self, module: ModuleInfo, unit: Unit, keywords: Collection[str]
    ) -> tuple[Sought, list[tuple[ModuleInfo, Unit]]] | None:
        """A method as one that is asked about, with the outermost functions of other modules that give one of these
        keywords in a call which may be one of it; None where there are none, or too many.
        """
        name, owner = unit.node.name, unit.owner
        files = {file for word in keywords for file in self._mentions.files_passing(name, word, module.file) or ()}
        if owner is None or not files:
            return None
        most = MORE_FILES * self.options.max_caller_files
        alone = len(files) <= most and self._is_alone(owner, name, keywords)
        if not alone:
            classes = [info.name for info in self.lineage(owner) if name in info.methods]
            files = {file for file in files if _declares_one_of(classes, self.text_of(file))}
        found: list[tuple[ModuleInfo, Unit]] = []
        for other in self._loaded(sorted(files), module, most):
            text = other.text.encode()
            sites = {at for word in keywords for at in sites_passing(text, name, word)}
            lines = sorted(text.count(b"\n", 0, at) + 1 for at in sites)
            found.extend((other, one) for one in other.units if one.parent is None and holds(one.node, lines))
        if not 0 < len(found) <= self.options.max_caller_sites:
            return None
        return Sought(Function(unit.node, module, owner, Instance(owner)), name, tuple(keywords), alone), found

    def _is_alone(self, owner: ClassInfo, name: str, keywords: Collection[str]) -> bool:
        family = {*map(_identity, self.lineage(owner))}
        files, own = {owner.module.file}, {file for file, _ in family}
        for keyword in keywords:
            files.update(self._mentions.files_taking(name, keyword, owner.module.file) or ())
            if not files <= own:
                return False
        modules = [self.load(file, whole=True) for file in sorted(files)]
        return all(
            _identity(info) in family
            for module in modules
            for info in (_classes_taking(module, name, keywords) if module is not None else ())
        )

    def run_for_method(self, sought: Sought, module: ModuleInfo, unit: Unit) -> None:
        """Look at a function of another module for what it gives the method by keyword."""
        asker: ModuleInfo = sought.method.module
        self.asked_by_keyword.setdefault(sought.method.node, set()).add(unit.node)
        before, self._summaries = self._summaries, self._no_summaries()  # of calls that were followed less
        self.asks_by_keyword, self._sought_method, self._sought_from = True, sought, unit.node
        try:
            self.run_for(asker, module, unit)
        finally:
            self.asks_by_keyword, self._sought_method, self._sought_from = False, None, None
            self._summaries = before

    def _no_summaries(self) -> dict[object, tuple[Value, Environment, events.Effect | None]]:
        return {}

    def call_by_keyword(
        self, callee: Value, args: list[Value], keywords: dict[str, Value], frame: Frame, node: ast.Call
    ) -> None:
        """Follow a call into the method that is asked about as well, if it may reach it."""
        sought = self._sought_method
        if sought is None or keywords.keys().isdisjoint(sought.keywords):
            return
        if frame.root is not self._sought_from or not self._may_reach(callee, node, frame, sought):
            return
        before = frame.env.get(IN_FLIGHT)
        self.call_function(sought.method, args, keywords, frame, node, "")
        if before is None:
            frame.env.pop(IN_FLIGHT, None)
        else:
            frame.env[IN_FLIGHT] = before

    def _may_reach(self, callee: Value, node: ast.Call, frame: Frame, sought: Sought) -> bool:
        """Whether a call may be one of the method, of which nothing is seen otherwise."""
        if isinstance(callee, Function):
            named = getattr(callee.node, "name", "") == sought.name and callee.node is not sought.method.node
            return named and not asks_super(node) and self._may_be_one(callee.receiver, sought.owner)
        if not isinstance(callee, Method) or callee.name != sought.name:
            return False
        receiver = callee.receiver
        if isinstance(receiver, Instance) and receiver.info is not None:
            return self._may_be_one(receiver, sought.owner)
        if not isinstance(receiver, (Unknown, Instance)) and not _is_some_module(receiver):
            return False
        return sought.alone or self._may_be_one(self._as_kept(node, frame), sought.owner)

    def _may_be_one(self, value: Value | None, info: ClassInfo) -> bool:
        """Whether an object that is declared to be of some class may be one of `info`, which derives from it."""
        if not isinstance(value, Instance) or value.info is None or value.fields is not None:
            return False
        return _identity(value.info) in map(_identity, self.lineage(info))

    def _as_kept(self, node: ast.Call, frame: Frame) -> Value | None:
        """What the class says of `self.name` in `self.name.method(...)`, where nothing is known of what was given."""
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        name = own_attribute(receiver) if receiver is not None else ""
        return self.attribute(frame.owner, name) if name and frame.owner is not None else None


def _classes_taking(module: ModuleInfo, name: str, keywords: Collection[str]) -> Iterator[ClassInfo]:
    """The classes that define a method of that name with one of the keywords."""
    for info in module.class_of_node.values():
        method = info.methods.get(name)
        if method is not None and not parameter_names(method).isdisjoint(keywords):
            yield info


def _declares_one_of(classes: list[str], text: str) -> bool:
    """Whether a text declares an object of one of these classes, or makes one."""
    return any(_declaration(name).search(text) is not None for name in classes if name in text)


@lru_cache(maxsize=64)
def _declaration(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?::|->)[ \t]*[\"']?(?:\w[\w.]*\[)?[\"']?(?:\w+\.)*{name}\b(?![.(])|=[ \t]*(?:\w+\.)*{name}\(")


def _is_some_module(value: Value) -> bool:
    return isinstance(value, Array) and value.kind == "module"


def _identity(info: ClassInfo) -> tuple[str, str]:
    """What two readings of a class have in common."""
    return info.module.file, info.qualname
