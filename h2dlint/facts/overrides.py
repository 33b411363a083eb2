"""Methods that subclasses override: what `self.make()` is, where `self` may be of any of several classes."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from h2dlint.facts.domain import (
    CPU,
    CPU_KIND,
    NOTHING,
    Array,
    Const,
    DeviceValue,
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
_MOST_SUBCLASSES = 24
"""A class that has more, or is named by more classes, is not followed to those of other files."""
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
        if not isinstance(receiver, Instance) or receiver.info is None:
            return value
        of_itself = key != "" and key == frame.self_name
        told = is_host_data(value) or _names_host(value)
        if told and not of_itself and _serves_another(receiver.info, self.options.backend):
            return NOTHING
        if receiver.fields is not None:
            return value
        name = getattr(function.node, "name", "")
        stub = is_stub(function.node) and not _gives_no_data(function.node)
        if not name or name.startswith("__") or asks_super(node) or not (stub or is_host_data(value)):
            return value
        others, all_seen = self.overrides_of(receiver.info, name)
        if not others and (all_seen or stub):
            return value
        values = [] if stub else [value]
        tags = [] if stub else [(self._tag(function, "where no subclass overrides"),)]
        before = frame.env.get(IN_FLIGHT)
        for other in others:
            made = super().call_function(other, args, keywords, frame, node, "")
            values.append(NOTHING if _serves_another(other.owner, self.options.backend) else made)
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
        here = [other for other in info.module.subclasses(info) if name in other.methods]
        elsewhere = self.derived_elsewhere(info, lambda body: f" def {name}(" in body)
        found = [*here, *(other for other in elsewhere or () if name in other.methods)]
        return [_bound(other, name) for other in found], elsewhere is not None

    def derived_elsewhere(self, info: ClassInfo, wanted: Callable[[str], bool]) -> list[ClassInfo] | None:
        """The classes of other modules that derive from `info` and whose text is as wanted; None where too many files
        have one.
        """
        texts = self.derived_texts(info)
        if texts is None:
            return None
        files: dict[str, list[str]] = {}
        for file, name, body in texts:
            if wanted(body):
                files.setdefault(file, []).append(name)
        if len(files) > min(MAX_OVERRIDING_FILES, self.options.max_caller_files):
            return None
        found: list[ClassInfo] = []
        for file, names in files.items():
            self.note_use(info.module.file, file)
            module = self.load(file, whole=True)
            if module is not None:
                known = [name for name in names if name in module.classes]
                found.extend(module.classes[name] for name in known if self._derives(module, name, info))
        return found

    def derived_texts(self, info: ClassInfo) -> list[tuple[str, str, str]] | None:
        """The classes of other files that seem to derive from this one: file, name, and what stands in them. None where
        they are too many.
        """
        if info not in self._derived:
            self._derived[info] = self._find_derived_texts(info)
        return self._derived[info]

    def _find_derived_texts(self, info: ClassInfo) -> list[tuple[str, str, str]] | None:
        classes, waiting = {info.name}, [info.name]
        found: dict[tuple[str, str], str] = {}
        while waiting:
            files = self._mentions.files_deriving(waiting.pop(), info.module.file)
            if files is not None and len(files) + len(classes) > _MOST_SUBCLASSES:
                return None
            # None as well where the tree is too large to be searched. Of its own module not all may have been read.
            unread = [] if info.module.whole else [info.module.file]
            for file in [*(files or ()), *unread]:
                for derived, body in _classes_from(self.text_of(file), classes):
                    if file == info.module.file and derived in info.module.classes:
                        continue
                    found[file, derived] = body
                    if derived not in classes:
                        classes.add(derived)
                        waiting.append(derived)
        return [(file, name, body) for (file, name), body in found.items()]

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


_OF_ONE_KIND = re.compile(
    r"(CPU|MPS|XPU|HPU|NPU|TPU|MLU|MUSA|SDAA)_?(?:Accelerator|Backend|Device|Platform|Worker|(?:Model)?Runner|Executor)\b",
    re.IGNORECASE,
)


def _serves_another(info: ClassInfo, backend: str) -> bool:
    """Whether a class stands for another kind of machine by its name (`CPU_Accelerator`, `MpsPlatform`): there the
    accelerator of the settings is not in use.
    """
    found = _OF_ONE_KIND.search(info.name)
    return found is not None and found[1].lower() != backend


def _names_host(value: Value) -> bool:
    """Whether it is the host as a device: `"cpu"`, `torch.device("cpu")`."""
    return any(
        way.value == _HOST or (isinstance(way.value, Const) and way.value.value == CPU_KIND)
        for way in alternatives(value)
    )


_HOST = DeviceValue(CPU)


def _bound(info: ClassInfo, name: str) -> Function:
    return Function(info.methods[name], info.module, info, Instance(info))


def asks_super(node: ast.AST) -> bool:
    """Whether this is a call on `super()`, which goes to one method for certain."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    base = node.func.value
    return isinstance(base, ast.Call) and isinstance(base.func, ast.Name) and base.func.id == "super"


_NO_DATA = frozenset({"None", "bool", "int", "float", "str", "bytes"})


def _gives_no_data(node: ast.AST) -> bool:
    """Whether a function is declared to return nothing that holds tensors."""
    returns = getattr(node, "returns", None)
    return returns is not None and ast.unparse(returns) in _NO_DATA


def is_host_data(value: Value, depth: int = 2) -> bool:
    """Whether a value holds a tensor or an array of which it is known that it lies on the host."""
    for way in alternatives(value):
        held = way.value
        if isinstance(held, Array):
            if held.device.is_cpu:
                return True
        elif depth and any(is_host_data(one, depth - 1) for one in _parts(held)):
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


_CLASS = re.compile(r"\nclass (\w+)\(([^)]*)\)")
_NEXT_TOP_LEVEL = re.compile(r"\n[^\s#)\]}]")
_WORD = re.compile(r"\w+")


def _classes_from(text: str, bases: set[str]) -> Iterator[tuple[str, str]]:
    """The classes of a text that name one of the bases, with their bodies, by what stands there."""
    for name, named, start in _class_statements(text):
        if not bases.isdisjoint(named):
            end = _NEXT_TOP_LEVEL.search(text, start)
            yield name, text[start : end.start() if end else len(text)]


@lru_cache(maxsize=512)
def _class_statements(text: str) -> list[tuple[str, list[str], int]]:
    """The class statements of a text: the name, the words between its parentheses, and where these end."""
    return [(match[1], _WORD.findall(match[2]), match.end()) for match in _CLASS.finditer(text)]
