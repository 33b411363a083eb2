"""Methods that subclasses override: what `self.make()` is, where `self` may be of any of several classes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from h2dlint.facts.domain import (
    NOTHING,
    Array,
    Function,
    Instance,
    Mapping,
    Sequence,
    Tag,
    Value,
    alternatives,
    join,
)
from h2dlint.facts.frame import IN_FLIGHT, Frame
from h2dlint.facts.modules import ClassInfo, ModuleInfo
from h2dlint.facts.summaries import Summaries, is_stub

MAX_OVERRIDING_FILES = 3
"""A method that more other files of the project override is not followed into them: what it is there is unknown."""
_MOST_SUBCLASSES = 40
_MOST_LEVELS = 4
"""Classes between one that overrides and the one that is overridden, where these say nothing of tensors."""


class Overrides(Summaries):
    """The part of a project that knows which methods of subclasses a call may reach."""

    def call_function(
        self, function: Function, args: list[Value], keywords: dict[str, Value], frame: Frame, node: ast.AST, key: str
    ) -> Value:
        """What the function returns; a method of an object whose class may be a derived one, what its overrides do.

        Subclasses are looked for only where the result says something of host memory, or the method is there to be
        overridden.
        """
        value = super().call_function(function, args, keywords, frame, node, key)
        receiver = function.receiver
        if not isinstance(receiver, Instance) or receiver.fields is not None or receiver.info is None:
            return value
        name = getattr(function.node, "name", "")
        stub = is_stub(function.node)
        if not name or name.startswith("__") or _asks_super(node) or not (stub or _is_host_data(value)):
            return value
        others, all_seen = self.overrides_of(receiver.info, name)
        if not others and (all_seen or stub):
            return value
        values = [] if stub else [value]
        tags = [] if stub else [(self._tag(function, "where no subclass overrides"),)]
        before = frame.env.get(IN_FLIGHT)
        for other in others:
            values.append(super().call_function(other, args, keywords, frame, node, ""))
            tags.append((self._tag(other, f"where `{other.owner.name}` overrides"),))
            if before is None:
                frame.env.pop(IN_FLIGHT, None)
            else:
                frame.env[IN_FLIGHT] = before
        if not all_seen:
            values.append(NOTHING)
            text = f"where one of many others overrides `{name}`"
            tags.append((Tag("note", function.node, path=function.module.path, text=text),))
        return join(values, tags)

    def _tag(self, function: Function, text: str) -> Tag:
        self._overriding[function.node] = function.owner
        name = getattr(function.node, "name", "")
        return Tag("override", function.node, path=function.module.path, text=f"{text} `{name}`")

    def overrides_of(self, info: ClassInfo, name: str) -> tuple[list[Function], bool]:
        """The methods by that name of all classes derived from `info`, bound to such an object, and whether these are
        all: where too many files have one, they are not looked at.
        """
        key = (info, name)
        known = self._overrides.get(key)
        if known is None:
            self._overrides[key] = [], True  # who asks meanwhile
            known = self._overrides[key] = self._find_overrides(info, name)
        return known

    def _find_overrides(self, info: ClassInfo, name: str) -> tuple[list[Function], bool]:
        found = [other for other in info.module.subclasses(info) if name in other.methods]
        files = self._files_overriding(info, name)
        if files is None or len(files) > min(MAX_OVERRIDING_FILES, self.options.max_caller_files):
            return [_bound(other, name) for other in found], False
        for file in files:
            self.note_use(info.module.file, file)
            module = self.load(file, whole=True)
            for other in module.classes.values() if module is not None else ():
                if name in other.methods and self._derives(other.module, other.name, info):
                    found.append(other)
        return [_bound(other, name) for other in found], True

    def _files_overriding(self, info: ClassInfo, name: str) -> list[str] | None:
        """The other files of the project with a class that seems to derive from this one and defines the method; None
        where the classes that derive from it are too many.
        """
        classes, waiting = {info.name}, [info.name]
        found: dict[str, None] = {}
        while waiting:
            files = self._mentions.files_deriving(waiting.pop(), info.module.file)
            if files is None:  # a tree too large to be searched
                return []
            for file in files:
                for derived, defines in _classes_from(self.text_of(file), classes, name):
                    if defines:
                        found[file] = None
                    if derived not in classes:
                        classes.add(derived)
                        waiting.append(derived)
            if len(classes) > _MOST_SUBCLASSES:
                return None
        return list(found)

    def _derives(self, module: ModuleInfo, name: str, info: ClassInfo, depth: int = _MOST_LEVELS) -> bool:
        """Whether a class is `info` or derives from it. A class in between may say nothing of tensors: it is not
        among what is read of its module, and its bases are looked up in the text.
        """
        known = module.classes.get(name)
        if known is not None and any(_is_same(one, info) for one in self.lineage(known)):
            return True
        for base in _bases_in(self.text_of(module.file), name) if depth else ():
            source, attribute = module.imports.get(base, ("", None))
            file = self._finder.file_of(source, module.file) if attribute is not None else module.file
            if file == info.module.file and (attribute or base) == info.name:
                return True
            other = self.load(file) if file is not None else None
            if other is not None and self._derives(other, attribute or base, info, depth - 1):
                return True
        return False

    def text_of(self, file: str) -> str:
        """The text of another file, which is only searched."""
        return self._finder.text_of(file)

    def reaches(self, info: ClassInfo, tag: Tag) -> bool:
        """Whether a way on which a certain override of a method is called can be one of an object of this class."""
        owner = self._overriding.get(tag.node)
        if tag.kind != "override" or owner is None:
            return True
        if any(_is_same(one, info) for one in self.lineage(owner)):
            return True  # an object of a class derived from `info`, or one of `info` itself
        name = getattr(tag.node, "name", "")
        first = next((one for one in self.lineage(info) if name in one.methods), None)
        return first is None or first.methods[name] is tag.node


def _bases_in(text: str, name: str) -> list[str]:
    """The plain names of the bases of a class, by its statement."""
    found = re.search(rf"^class {name}\(([^)]*)\)", text, re.MULTILINE)
    return [base.strip() for base in found[1].split(",") if base.strip().isidentifier()] if found else []


def _bound(info: ClassInfo, name: str) -> Function:
    return Function(info.methods[name], info.module, info, Instance(info))


def _asks_super(node: ast.AST) -> bool:
    """Whether this is a call on `super()`, which goes to one method for certain."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    base = node.func.value
    return isinstance(base, ast.Call) and isinstance(base.func, ast.Name) and base.func.id == "super"


def _is_host_data(value: Value, depth: int = 2) -> bool:
    """Whether a value holds a tensor or an array of which it is known that it lies on the host."""
    for way in alternatives(value):
        held = way.value
        if isinstance(held, Array):
            if held.device.is_cpu:
                return True
        elif depth and any(_is_host_data(one, depth - 1) for one in _parts(held)):
            return True
    return False


def _parts(value: Value) -> Iterator[Value]:
    if isinstance(value, Sequence):
        yield from value.items if value.items is not None else (value.any_item(),)
    elif isinstance(value, Mapping):
        yield from (held for _, held in value.items)
    elif isinstance(value, Instance):
        yield from (held for _, held in value.fields or ())


def _is_same(left: ClassInfo, right: ClassInfo) -> bool:
    """Whether two readings of a class are of the same one."""
    return left is right or (left.qualname == right.qualname and left.module.file == right.module.file)


_CLASS = re.compile(r"^class (\w+)\(([^)]*)\)", re.MULTILINE)
_NEXT_TOP_LEVEL = re.compile(r"^[^\s#)\]}]", re.MULTILINE)
_WORD = re.compile(r"\w+")


def _classes_from(text: str, bases: set[str], method: str) -> Iterator[tuple[str, bool]]:
    """The classes of a text that name one of the bases, and whether they define the method, by what stands there."""
    for match in _CLASS.finditer(text):
        if bases.isdisjoint(_WORD.findall(match[2])):
            continue
        end = _NEXT_TOP_LEVEL.search(text, match.end())
        body = text[match.end() : end.start() if end else len(text)]
        yield match[1], f"    def {method}(" in body
