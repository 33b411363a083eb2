"""Pairs of a host and a device buffer of which the whole project uses the device side alone.

Decided from the text of all files around: every mention of the attribute must be `.name.device_side`, but for the
assignment that makes the pair. Anything else, a mention in a comment included, is taken for a use of the host side.
"""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache

from h2dlint.facts.copies import Copy, Direction, Pitfall, Verdict
from h2dlint.facts.describe import span_of
from h2dlint.facts.domain import Array, Instance
from h2dlint.facts.modules import ClassInfo, ModuleInfo, statements
from h2dlint.facts.pitfalls import named_as_device
from h2dlint.facts.project import Project
from h2dlint.facts.questions import Kinds

MOST_FILES = 6000
"""In a larger project nothing is said."""

_BY_NAME = re.compile(r"getattr\(|setattr\(|__dict__|vars\(")


def unused_mirrors(project: Project, module: ModuleInfo) -> Iterator[Copy]:
    """A record for each pair whose host side nobody is seen to use."""
    if not module.classes or _BY_NAME.search(module.text):
        return
    one_sided = _used_on_one_side(module.text)
    for info in module.classes.values():
        for attribute, call in _pairs_made(info):
            if not one_sided(attribute):
                continue
            sides = _sides(project, info, attribute)
            if sides is not None:
                project.note((Kinds.ALL, _folder_around(module.file)))
            if sides is None or not _only_device_side(module, attribute, sides[1], call):
                continue
            yield Copy(
                path=module.path,
                span=span_of(call, module.lines),
                function=info.qualname,
                call=sides[0],
                asked=False,
                direction=Direction.H2H,
                verdict=Verdict.NO_TRANSFER,
                causes=(),
                reveal="",
                trace=(),
                source_text=f"self.{attribute}.{sides[1]}",
                pitfall=Pitfall.MIRROR_UNUSED,
            )


def _pairs_made(info: ClassInfo) -> Iterator[tuple[str, ast.Call]]:
    """The attributes that the methods of a class set once, to what a call returns."""
    found: dict[str, list[ast.expr | None]] = {}
    for method in info.methods.values():
        for node in statements(method.body):
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                        found.setdefault(target.attr, []).append(node.value)
    for name, values in found.items():
        if len(values) == 1 and isinstance(values[0], ast.Call):
            yield name, values[0]


def _used_on_one_side(text: str) -> Callable[[str], bool]:
    """Tells of an attribute whether all its mentions in its own module, but for one, are of one and the same side."""
    mentions = Counter(re.findall(r"\w+", text))
    sides: dict[str, list[str]] = {}
    for name, side in re.findall(r"\.(\w+)(?=\.(\w+))", text):
        sides.setdefault(name, []).append(side)

    def holds(attribute: str) -> bool:
        found = sides.get(attribute, [])
        return mentions[attribute] == len(found) + 1 and len(set(found)) <= 1

    return holds


def _sides(project: Project, info: ClassInfo, attribute: str) -> tuple[str, str] | None:
    """The names of the host and of the device side, where the object is such a pair and nothing more."""
    value = project.attribute(info, attribute)
    if not isinstance(value, Instance) or not value.fields:
        return None
    arrays = {name: held for name, held in value.fields if isinstance(held, Array) and held.kind == "tensor"}
    host = [name for name, held in arrays.items() if held.device.is_cpu]
    there = [name for name, held in arrays.items() if held.device.is_accelerator or named_as_device(held.device)]
    return (host[0], there[0]) if len(host) == 1 and len(there) == 1 else None


def _only_device_side(module: ModuleInfo, attribute: str, side: str, call: ast.Call) -> bool:
    """Whether every mention of the attribute in the project is one of its device side, and there is one."""
    files = _files_around(module.file)
    if files is None:
        return False
    word = re.compile(rf"\b{re.escape(attribute)}\b")
    allowed = re.compile(rf"\.{re.escape(attribute)}\.{re.escape(side)}\b")
    used = False
    for file in {*files, module.file}:
        text = module.text if file == module.file else _text(file)
        mentions = len(word.findall(text)) - (1 if file == module.file else 0)
        uses = len(allowed.findall(text))
        if mentions != uses:
            return False
        used = used or uses > 0
    return used


def _files_around(file: str) -> tuple[str, ...] | None:
    """The Python files of the outermost package around a file, or of its folder; None where they are too many."""
    return _python_files(_folder_around(file))


def _folder_around(file: str) -> str:
    folder = os.path.dirname(file)
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder = os.path.dirname(folder)
    return folder


@lru_cache(maxsize=8)
def _python_files(folder: str) -> tuple[str, ...] | None:
    found: list[str] = []
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in ("node_modules", "venv")]
        found += [os.path.join(root, name) for name in names if name.endswith(".py")]
        if len(found) > MOST_FILES:
            return None
    return tuple(found)


@lru_cache(maxsize=MOST_FILES)
def _text(file: str) -> str:
    try:
        if not os.path.isfile(file):  # a pipe would be waited for
            return ""
        with open(file, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
