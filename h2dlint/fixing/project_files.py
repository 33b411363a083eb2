"""The other files of the project, read as text: who defines a name, which module imports which, and what that runs.

Only looked at where a fix needs a name from elsewhere. Nothing is parsed that does not hold the word in question, or
would be imported for it.
"""

from __future__ import annotations

import ast
import os
import re
import stat
import sys
from collections.abc import Callable, Container, Iterator
from functools import cached_property, lru_cache

from h2dlint.discovery import DEFAULT_EXCLUDES
from h2dlint.facts.flags import is_availability_name
from h2dlint.fixing.names import dotted_name, last_name

MOST_FILES = 6000
"""Of a larger project only so many files are read, those nearest to the top first."""
MOST_BYTES = 1 << 20
"""Larger files are generated: nobody keeps a flag there."""

MOST_LEVELS = 12
"""So many folders up a package may begin."""

_IMPORT = re.compile(
    r"^(?:from[ \t]+(?P<base>[.\w]+)[ \t]+import[ \t]*(?P<names>\([^)]*\)|[^\n(]*)|import[ \t]+(?P<plain>[^\n]+))",
    re.MULTILINE,
)
_COMMENT = re.compile(r"#[^\n]*")
_INDENTED = re.compile(r"^[ \t]+(?:from|import)[ \t]", re.MULTILINE)
_DEFERRED = re.compile(r"(?:async[ \t]+)?def\b|if[ \t]+(?:\w+\.)?TYPE_CHECKING[ \t]*:|if[ \t]+__name__\b")
"""What begins a block that does not run when the module is imported."""


def module_name(file: str) -> str:
    """The dotted name of a file, from the packages around it."""
    file = os.path.abspath(file)
    root = package_root(file)
    base = os.path.dirname(root) if _is_package(root) else root
    parts = os.path.relpath(file, base).removesuffix(".py").split(os.sep)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_root(file: str) -> str:
    """The folder of the outermost package that holds `file`; its own folder where there is no package.

    A folder without `__init__.py` may lie between two packages: then the file itself must import from the outer one.
    """
    file = os.path.abspath(file)
    return _package_root(file, os.path.dirname(file))


@lru_cache(maxsize=4096)
def _package_root(file: str, folder: str) -> str:
    root = folder
    for above in _folders_above(folder, MOST_LEVELS):
        if not _is_package(above):
            continue
        adjoins = above == folder or (_is_package(root) and os.path.dirname(root) == above)
        if adjoins or _imports_from(file, os.path.basename(above)):
            root = above
    return root


def _folders_above(folder: str, levels: int) -> Iterator[str]:
    """`folder` and what lies around it, from the inside out."""
    for _ in range(levels):
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _is_package(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "__init__.py"))


def _imports_from(file: str, package: str) -> bool:
    return re.search(rf"^[ \t]*(?:from|import)[ \t]+{re.escape(package)}\b", _read(file), re.MULTILINE) is not None


class ProjectFiles:
    """The Python files of one package, or of one folder that is none."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.is_package = _is_package(root)

    @cached_property
    def files(self) -> dict[str, str]:
        """Module name -> file."""
        base = os.path.dirname(self.root) if self.is_package else self.root
        found: dict[str, str] = {}
        for file in _python_files(self.root, deep=self.is_package):
            parts = os.path.relpath(file, base).removesuffix(".py").split(os.sep)
            if parts[-1] == "__init__":
                del parts[-1]
            if parts and all(part.isidentifier() for part in parts):
                found.setdefault(".".join(parts), file)
        return found

    @cached_property
    def _texts(self) -> dict[str, str]:
        return {}

    def text(self, module: str) -> str:
        """The text of a module of the project; empty for any other, and for one that cannot be read."""
        text = self._texts.get(module)
        if text is None:
            file = self.files.get(module)
            text = self._texts[module] = _read(file) if file else ""
        return text

    @cached_property
    def import_each_other(self) -> bool:
        """Whether one may write the name of a module as it is here: beyond doubt in a package, elsewhere by example."""
        return self.is_package or any(self.imports_of(module) - {module} for module in self.files)

    def imports_of(self, module: str) -> frozenset[str]:
        """The project's modules that `module` imports at its top level, packages on the way included."""
        return self._imports(module)

    @cached_property
    def _known_imports(self) -> dict[tuple[str, bool], frozenset[str]]:
        return {}

    def _imports(self, module: str, perhaps: bool = False) -> frozenset[str]:
        """What is imported at the margin; with `perhaps`, also in a `try` or an `if` that runs at import."""
        found = self._known_imports.get((module, perhaps))
        if found is None:
            text = _run_at_import(self.text(module)) if perhaps else self.text(module)
            names: set[str] = set()
            for dotted in _imported_names(text, module, self.is_package_module(module)):
                names.update(self.modules_behind(dotted))
            found = self._known_imports[module, perhaps] = frozenset(names)
        return found

    def is_package_module(self, module: str) -> bool:
        """Whether a module is an `__init__.py`."""
        return os.path.basename(self.files.get(module, "")) == "__init__.py"

    def modules_behind(self, dotted: str) -> Iterator[str]:
        """The project's modules that importing `dotted` loads: itself, or the one that has the name, and packages."""
        while dotted:
            if dotted in self.files:
                yield dotted
            dotted = dotted.rpartition(".")[0]

    @cached_property
    def _trees(self) -> dict[str, ast.Module | None]:
        return {}

    def tree(self, module: str) -> ast.Module | None:
        """The tree of a module of the project; None for any other, and for one that does not parse."""
        if module not in self._trees:
            self._trees[module] = _parsed(self.text(module)) if module in self.files else None
        return self._trees[module]

    def reaches(self, start: str, goal: str) -> bool:
        """Whether importing `start` leads to an import of `goal`, if only in a `try` or under a condition.

        The packages around `goal` are being imported whenever `goal` is: what they import is no new way.
        """
        around = {goal[:at] for at, character in enumerate(goal) if character == "."}
        starts = [module for module in self.modules_behind(start) if module not in around]
        return goal in self._closure(starts, lambda module: self._imports(module, perhaps=True), around)

    def _closure(
        self, starts: list[str], following: Callable[[str], frozenset[str]], without: Container[str] = ()
    ) -> set[str]:
        """The modules that are met from `starts` on."""
        seen: set[str] = set()
        waiting = list(starts)
        while waiting:
            module = waiting.pop()
            if module not in seen and module not in without:
                seen.add(module)
                waiting.extend(following(module) - seen)
        return seen

    def is_harmless(self, module: str, own: str, own_text: str) -> bool:
        """Whether `own` may import `module`: that goes in no circle, and runs nothing that did not run before.

        What `own` imports already, at the margin, by itself or through others, has run; any further module must only
        define things, and need no library that nobody has asked for yet.
        """
        if module not in self.files or self.reaches(module, own):
            return False
        asked = [*_imported_names(own_text, own, self.is_package_module(own))]
        loaded = self._closure([one for name in (own, *asked) for one in self.modules_behind(name)], self.imports_of)
        further = self._closure(
            [*self.modules_behind(module)], lambda one: self._imports(one, perhaps=True), frozenset(loaded)
        )
        if not further:
            return True
        known = sys.stdlib_module_names.union(*(self._roots_asked_for(one) for one in loaded))
        known |= {name.partition(".")[0] for name in (*asked, *self.files)}
        return all(_only_defines(self.tree(one), known) for one in further)

    @cached_property
    def _known_roots(self) -> dict[str, frozenset[str]]:
        return {}

    def _roots_asked_for(self, module: str) -> frozenset[str]:
        """The libraries that a module imports at the margin."""
        found = self._known_roots.get(module)
        if found is None:
            names = _imported_names(self.text(module), module, self.is_package_module(module))
            found = self._known_roots[module] = frozenset(name.partition(".")[0] for name in names)
        return found


@lru_cache(maxsize=4)
def project_files(root: str) -> ProjectFiles:
    """The files below `root`, read once a process."""
    return ProjectFiles(root)


def files_below(root: str) -> Iterator[str]:
    """The files that `project_files` would read."""
    return _python_files(root, deep=_is_package(root))


def _python_files(root: str, deep: bool) -> Iterator[str]:
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if deep and name not in DEFAULT_EXCLUDES)
        for name in sorted(names):
            if name.endswith(".py"):
                yield os.path.join(folder, name)
                count += 1
                if count >= MOST_FILES:
                    return


def _read(file: str) -> str:
    try:
        found = os.stat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:  # a pipe would be waited for
            return ""
        with open(file, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _run_at_import(text: str) -> str:
    """The lines that run when `text` is imported, all at the margin: none of functions or for type checkers."""
    if not _INDENTED.search(text):
        return text
    kept: list[str] = []
    left_out: int | None = None  # the indentation of what begins a block that does not run
    for line in text.splitlines():
        bare = line.lstrip(" \t")
        indent = len(line) - len(bare)
        if not bare or bare.startswith("#") or (left_out is not None and indent > left_out):
            continue
        if left_out == indent and bare.startswith((")", "]", "}")):
            continue  # the end of a header over several lines
        left_out = indent if _DEFERRED.match(bare) else None
        kept.append(bare)
    return "\n".join(kept)


def _imported_names(text: str, module: str, is_package: bool) -> Iterator[str]:
    """What the import statements at the margin of `text` name, dotted and absolute."""
    for match in _IMPORT.finditer(text):
        if match["plain"] is not None:
            for part in _COMMENT.sub("", match["plain"]).split(","):
                yield part.split(" as ")[0].strip()
            continue
        base = absolute(match["base"], module, is_package)
        names = _COMMENT.sub("", match["names"]).strip("() \t\n\\").split(",")
        for name in names:
            yield f"{base}.{name.split(' as ')[0].strip()}".rstrip(".")


def absolute(base: str, module: str, is_package: bool) -> str:
    """The absolute name of the module in `from BASE import ...`, written in `module`."""
    name = base.lstrip(".")
    level = len(base) - len(name)
    if level == 0:
        return name
    parts = module.split(".")
    keep = len(parts) - level + (1 if is_package else 0)
    return ".".join([*parts[: max(keep, 0)], *([name] if name else [])])


# --- what an import runs ------------------------------------------------------------------------------------------

_QUIET_CALLS = frozenset(
    {
        *("getLogger", "init_logger", "get_logger", "TypeVar", "ParamSpec", "NewType", "namedtuple", "getenv", "get"),
        *("compile", "device", "dtype", "frozenset", "set", "tuple", "list", "dict", "str", "int", "float", "bool"),
        *("len", "min", "max", "sorted", "range", "is_available", "device_count", "startswith", "endswith", "lower"),
    }
)
"""Calls by their last name that only give a value."""


def _only_defines(tree: ast.Module | None, known: Container[str]) -> bool:
    """Whether importing a module only defines names: `known` are the libraries that it may ask for."""
    return tree is not None and all(_is_definition(node, known) for node in tree.body)


def _is_definition(node: ast.stmt, known: Container[str], guarded: bool = False) -> bool:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Pass)):
        return True
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return guarded or all(root in known for root in _roots(node))
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return node.value is None or _only_gives(node.value)
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.ClassDef):
        return all(_is_definition(inner, known, guarded) for inner in node.body)
    if isinstance(node, ast.If):
        body = [] if _never_holds_at_import(node.test) else node.body
        return _only_gives(node.test) and all(_is_definition(inner, known, guarded) for inner in (*body, *node.orelse))
    if isinstance(node, ast.Try):
        rest = [*node.orelse, *node.finalbody, *(inner for one in node.handlers for inner in one.body)]
        tried = guarded or any(_catches_import(one) for one in node.handlers)
        return all(_is_definition(one, known, tried) for one in node.body) and all(
            _is_definition(one, known, guarded) for one in rest
        )
    return False


def _roots(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    return [] if node.level else [(node.module or "").partition(".")[0]]


def _only_gives(value: ast.expr) -> bool:
    """Whether an expression calls nothing but what only gives a value."""
    calls = (node for node in ast.walk(value) if isinstance(node, ast.Call))
    return all(last_name(call.func) in _QUIET_CALLS or is_availability_name(dotted_name(call.func)) for call in calls)


def _never_holds_at_import(test: ast.expr) -> bool:
    return last_name(test) == "TYPE_CHECKING" or (isinstance(test, ast.Compare) and last_name(test.left) == "__name__")


def _catches_import(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(last_name(kind) in _IMPORT_ERRORS for kind in kinds)


_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
