"""Where a module of the project lies: from its dotted name to a file, and the text in it.

Roots are found from the asking file: the folder that holds its topmost package, the nearest folder with a
pyproject.toml,
a setup.py or a .git, and that folder's `src`. What lies outside them is not the project's and is never read.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Collection, Iterable, Mapping

from h2dlint.source import encoding_of

MAX_BYTES = 1_500_000
"""Larger files are generated ones: not read for what they define."""

_MOST_LEVELS = 12
_MARKERS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
_FOREIGN = frozenset(
    [
        "torch", "numpy", "typing", "typing_extensions", "os", "sys", "re", "math", "time", "json", "logging",
        "functools", "itertools", "collections", "dataclasses", "enum", "abc", "copy", "contextlib", "pathlib",
        "random", "warnings", "threading", "asyncio", "subprocess", "inspect", "types", "operator", "builtins",
        "unittest", "pytest", "triton", "transformers", "einops", "scipy", "pandas", "PIL", "cv2", "safetensors",
        "pydantic", "msgspec", "ray", "uuid",
    ]
)  # fmt: skip
"""Well-known packages that no project defines: not worth a look at the disk."""


class Finder:
    """Files of modules by name, with what was found before."""

    def __init__(self, root: str = "", declared: Iterable[str] = ()) -> None:
        """`root`: the one folder in which modules are looked for; empty: found from the asking file. `declared`: dotted
        names of functions of which the settings say something.
        """
        self._root = os.path.abspath(root) if root else ""
        self.declared = frozenset(part for name in declared for part in name.split("."))
        self._roots: dict[str, tuple[str, ...]] = {}
        self._trees: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._worth: dict[tuple[str, str], bool] = {}
        self._files: dict[tuple[tuple[str, ...], str], str | None] = {}
        self._found: dict[tuple[str, str], str | None] = {}
        """By module and asking file: many files ask for the same again and again."""
        self._packages: dict[str, bool] = {}
        self._marked: dict[str, bool] = {}

    def file_of(self, name: str, asker: str) -> str | None:
        """The file of the module `name`, as seen from the file `asker`; None when it is not in the project."""
        known = self._found.get((name, asker), "")
        if known == "":
            known = self._found[name, asker] = self._find(name, asker)
        return known

    def _find(self, name: str, asker: str) -> str | None:
        if not name or name.partition(".")[0] in _FOREIGN:
            return None
        roots = self.roots_of(asker)
        key = (roots, name)
        if key not in self._files:
            self._files[key] = module_file(roots, name)
        return self._files[key]

    def roots_of(self, file: str) -> tuple[str, ...]:
        """The folders in which the modules that a file imports are looked for."""
        if self._root:
            return (self._root,)
        folder = os.path.dirname(file)
        found = self._roots.get(folder)
        if found is None:
            found = self._roots[folder] = self._roots_above(folder)
        return found

    def tree_of(self, file: str) -> str:
        """The folder of all that belongs together with a file: its project, else its topmost package; empty if none."""
        folder = os.path.dirname(file)
        found = self._trees.get(folder)
        if found is None:
            top = self._topmost_package(folder)
            found = self._trees[folder] = self._marked_folder(os.path.dirname(top) if top else folder) or top
        return found

    def module_name(self, file: str) -> str:
        """The dotted name of a file, from the packages around it."""
        folder, last = os.path.split(file)
        package = self._topmost_package(folder)
        inner = os.path.relpath(folder, os.path.dirname(package)).split(os.sep) if package else []
        return ".".join(inner if last == "__init__.py" else [*inner, last.removesuffix(".py")])

    def text_of(self, file: str) -> str:
        """The text of a file of the project, empty when it cannot be read or is too large to be worth it."""
        if file not in self._texts:
            self._texts[file] = _decoded(self._bytes_of(file))
        return self._texts[file]

    def _bytes_of(self, file: str) -> bytes:
        """What is in a file of the project; nothing where it cannot be read or is too large."""
        try:
            with open(file, "rb", buffering=0) as stream:
                return stream.read() if os.fstat(stream.fileno()).st_size <= MAX_BYTES else b""
        except (OSError, ValueError):
            return b""

    def assume(self, texts: Mapping[str, str]) -> None:
        """Take these texts for what is in the files, by absolute path: somebody is about to write them."""
        self._texts.update(texts)

    def worth_following(self, file: str, name: str) -> bool:
        """Whether what a file defines as `name` may say anything about tensors: looked up in its text, unparsed."""
        key = (file, name)
        found = self._worth.get(key)
        if found is None:
            found = self._worth[key] = name in self.declared or _may_be_about_tensors(self.text_of(file), name)
        return found

    # What lies around a folder

    def _roots_above(self, folder: str) -> tuple[str, ...]:
        package = self._topmost_package(folder)
        roots = [os.path.dirname(package) if package else folder]
        marked = self._marked_folder(roots[0])
        if marked:
            roots.extend([marked, os.path.join(marked, "src")])
        return tuple(dict.fromkeys(roots))

    def _topmost_package(self, folder: str) -> str:
        """The outermost of the packages around a folder, itself included; empty when there is none.

        A folder without `__init__.py` between two packages belongs to them, but not one above the project's own folder.
        """
        top = ""
        for _ in range(_MOST_LEVELS):
            if self._is_package(folder):
                top = folder
            parent = os.path.dirname(folder)
            if parent == folder or self._is_marked(folder):
                break
            folder = parent
        return top

    def _marked_folder(self, folder: str) -> str:
        """The nearest folder, this one or above, that is a project's root by what lies in it; empty without one."""
        for _ in range(_MOST_LEVELS):
            if self._is_marked(folder):
                return folder
            parent = os.path.dirname(folder)
            if parent == folder:
                break
            folder = parent
        return ""

    def _is_package(self, folder: str) -> bool:
        found = self._packages.get(folder)
        if found is None:
            found = self._packages[folder] = os.path.isfile(os.path.join(folder, "__init__.py"))
        return found

    def _is_marked(self, folder: str) -> bool:
        found = self._marked.get(folder)
        if found is None:
            found = any(os.path.exists(os.path.join(folder, marker)) for marker in _MARKERS)
            self._marked[folder] = found
        return found


def without_the_rest(text: str, declared: Collection[str] = ()) -> str:
    """The text with the definitions that say nothing about tensors, and are not `declared`, left blank: they are never
    followed, and need not be parsed. Lines keep their numbers.
    """
    text = f"\n{text}"  # so that each line begins behind a line end
    parts: list[str] = []
    at = 0
    for opening in _OPENS_DEFINITION.finditer(text):
        start = opening.start() + 1
        following = _ENDS_DEFINITION.search(text, opening.end())
        end = following.start() if following else len(text)
        segment = text[start:end]
        if _is_about_tensors(segment) or (declared and _named(segment) in declared):
            continue
        before = text.rfind("\n", 0, start - 1) + 1
        while text.startswith("@", before):
            start, before = before, text.rfind("\n", 0, before - 1) + 1
        # A decorator of several lines stays with its function.
        if before < at or not text.startswith((")", "]"), before):
            parts += (text[at:start], "\n" * text.count("\n", start, end))
            at = end
    parts.append(text[at:])
    return "".join(parts)[1:]


_OPENS_DEFINITION = re.compile(r"\n(?:def |class |async def )")
_ENDS_DEFINITION = re.compile(r"\n[^ \t#)\]}\n]")


def keeps_objects(text: str, name: str) -> bool:
    """Whether the class of that name in a text makes objects of other classes and keeps them, and is no `nn.Module`."""
    start = text.find(f"\nclass {name}(")
    header = text.find("\n", start + 1)
    if start < 0 or "Module" in text[start:header]:
        return False
    end = _NEXT_TOP_LEVEL.search(text, header)
    return _KEPT_OBJECT.search(text, header, end.start() if end else len(text)) is not None


_KEPT_OBJECT = re.compile(r"^ {8,}self\.\w+(?:: [^=\n]+)? = [A-Z]\w+\(", re.MULTILINE)


def _named(line: str) -> str:
    found = re.match(r"(?:async\s+)?(?:def|class)\s+(\w+)", line)
    return found[1] if found else ""


def _may_be_about_tensors(text: str, name: str) -> bool:
    for opening in (f"def {name}(", f"class {name}(", f"class {name}:"):
        start = text.find(opening)
        if start >= 0:
            end = _NEXT_TOP_LEVEL.search(text, text.find("\n", start))
            segment = text[start : end.start() + 1 if end else len(text)]
            if opening.startswith("class") and _NO_DATA_CLASS.match(segment):
                return False
            return _is_about_tensors(segment)
    at = text.find(name)  # a variable, or passed on from another module
    while at >= 0:
        line = text[text.rfind("\n", 0, at) + 1 : text.find("\n", at)].strip()
        if line.startswith(("from ", "import ")) or line.rstrip(",") == name:
            return True
        if line.startswith(name) and "=" in line:
            told = _names_tensors(line) or "torch.device(" in line or "PIN" in name
            return told or _is_registry(text, at + len(name))
        at = text.find(name, at + len(name))
    return "import *" in text


_REGISTRY = re.compile(r"(?::[^=\n]*)? = [{\[(]([^{}]*?)[}\])][ \t]*(?:#.*)?$", re.MULTILINE)
"""The rest of an assignment of a dict, a list or a tuple without dicts in it."""
_BARE_NAME = re.compile(r"(?:^|[:,])\s*[A-Za-z_][\w.]*\s*(?:,|$)")


def _is_registry(text: str, end: int) -> bool:
    """Whether the variable whose name ends here holds functions or classes by their names: who calls what it finds
    there calls one of them.
    """
    found = _REGISTRY.match(text, end)
    return found is not None and _BARE_NAME.search(found[1]) is not None


def _is_about_tensors(definition: str) -> bool:
    """Whether the text of a function or class says anything of tensors, or is short and hands on what it is given."""
    if _names_tensors(definition):
        return True
    if definition.startswith("class") and _FIELD_OF_NOTE.search(definition) is not None:
        return True
    lines = definition.count("\n")
    if lines <= _MOST_LINES_OF_AN_OPERATION and "-> torch.Tensor:" in definition:
        return True
    return lines <= _MOST_LINES_OF_A_LINK and _HANDS_ON.search(definition) is not None


_MOST_LINES_OF_A_LINK = 12
_MOST_LINES_OF_AN_OPERATION = 30
_HANDS_ON = re.compile(r"\n    (?:return (?!None)[\w.]+\(|    self\.(\w+) = \1$)", re.MULTILINE)
"""The last line of a function that calls another for its result; a constructor that keeps a parameter as it is."""
_NEXT_TOP_LEVEL = re.compile(r"\n[^\s#)\]}]")
_NO_DATA_CLASS = re.compile(r"class\s+\w+\([^)]*(?:Enum|Exception|Error)\b[^)]*\)")
_WORDS_OF_TENSORS = (
    "pin_memory", "from_numpy", "as_tensor", "partial", "repeat_interleave", "cumsum", ".numpy(", "non_blocking",
    ".is_pinned", "is_available", "cudaHostRegister", "set_default_", ".copy_(",
)  # fmt: skip
_FORMS_OF_TENSORS = tuple(
    map(
        re.compile,
        (
            r"torch\.(?:zeros|ones|empty|full|arange|tensor|cat|stack|rand|load|linspace|eye|where)",
            r"np\.(?<!\wnp\.)\w+\(",
            r"\.cpu\b",
            r"_cpu\b",
        ),
    )
)


def _names_tensors(text: str) -> bool:
    """Whether a text says something that decides over copies. Words first: they are found ten times as fast."""
    return any(word in text for word in _WORDS_OF_TENSORS) or any(form.search(text) for form in _FORMS_OF_TENSORS)


_FIELD_OF_NOTE = re.compile(
    r"\n    (?:\w+: [^=\n]*\b(?:Tensor|ndarray|(?:[Ll]ist|[Dd]ict|tuple)\[[^\]]*[A-Z]\w+)\b"
    r"|\w+_(?:cpu|gpu|pinned|tensors?): )"
)
"""A field of a class that holds tensors, arrays or objects of other classes, or is named after where it lies."""


def _decoded(data: bytes) -> str:
    """The text of a module's bytes, with Python's line ends; empty for what is none."""
    try:
        text = data.decode(encoding_of(data))
    except (SyntaxError, ValueError, LookupError):
        return ""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def module_file(roots: tuple[str, ...], name: str) -> str | None:
    """The file of a module below the first of the folders that has it."""
    inner = os.path.join(*name.split("."))
    for root in roots:
        base = os.path.join(root, inner)
        for candidate in (f"{base}.py", f"{base}{os.sep}__init__.py"):
            if os.path.isfile(candidate):
                return candidate
    return None


def parse_module(text: str) -> ast.Module | None:
    """The tree of a module's text; None when it is empty or cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text) if text else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
