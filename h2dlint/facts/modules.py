"""A module as the analyser sees it: its definitions, imports, classes and functions, from the syntax tree alone.

Only statements are walked here, never expressions: most of a file is never looked at more closely.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from h2dlint.facts.late_bodies import is_late, read_from
from h2dlint.facts.store_text import GROWS, places_storing

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

if TYPE_CHECKING:
    from h2dlint.facts.domain import Value

_BODIES = ("body", "orelse", "finalbody")


_SIMPLE = frozenset(
    {ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Assert, ast.Raise, ast.Import, ast.ImportFrom}
)


def child_statements(statement: ast.stmt) -> Iterator[ast.stmt]:
    """The statements directly inside a compound one, bodies of definitions included."""
    if type(statement) in _SIMPLE:
        return
    for field in _BODIES:
        body = getattr(statement, field, None)
        if body:
            yield from body
    for handler in getattr(statement, "handlers", ()):
        yield from handler.body
    for case in getattr(statement, "cases", ()):
        yield from case.body


class Unit:
    """A function of the module, with where it stands."""

    __slots__ = ("node", "owner", "parent", "qualname")

    def __init__(self, node: FunctionNode, qualname: str, owner: ClassInfo | None, parent: Unit | None) -> None:
        self.node = node
        self.qualname = qualname
        self.owner = owner
        self.parent = parent

    def covers(self, line: int) -> bool:
        """Whether the line belongs to the function or its decorators."""
        return self.node.lineno <= line <= (self.node.end_lineno or self.node.lineno)


class ClassInfo:
    """A class statement."""

    def __init__(self, node: ast.ClassDef, module: ModuleInfo, qualname: str) -> None:
        self.node = node
        self.module = module
        self.name = node.name
        self.qualname = qualname
        self.methods: dict[str, FunctionNode] = {}
        self.setters: dict[str, FunctionNode] = {}
        self.assigned: dict[str, ast.Assign | ast.AnnAssign] = {}
        self._storing: dict[str, list[FunctionNode]] = {}
        for statement in node.body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                setter = any(_last_name(decorator) == "setter" for decorator in statement.decorator_list)
                (self.setters if setter else self.methods)[statement.name] = statement
            elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                self.assigned[statement.target.id] = statement
            elif isinstance(statement, ast.Assign):
                for target in statement.targets:
                    if isinstance(target, ast.Name):
                        self.assigned[target.id] = statement

    @cached_property
    def is_dataclass(self) -> bool:
        """Whether a decorator or a base makes the constructor from the annotated fields."""
        names = [_last_name(decorator) for decorator in self.node.decorator_list]
        bases = [_last_name(base) for base in self.node.bases]
        return "dataclass" in names or "NamedTuple" in bases or "define" in names or "Struct" in bases

    @cached_property
    def pins_by_name(self) -> bool:
        """Whether some method pins attributes whose names are only known at run time."""
        first, last = self.node.lineno, self.node.end_lineno or self.node.lineno
        return any("setattr(self," in line and "pin" in line for line in self.module.lines[first - 1 : last])

    @cached_property
    def registers(self) -> bool:
        """Whether its methods register buffers or parameters, as those of an `nn.Module` do."""
        first, last = self.node.lineno, self.node.end_lineno or self.node.lineno
        return any("self.register_" in line and _REGISTERS.search(line) for line in self.module.lines[first - 1 : last])

    @cached_property
    def replaced(self) -> frozenset[str]:
        """The attributes to which the constructor gives a value in any case, after those of the bases have run."""
        constructor = self.methods.get("__init__")
        found: set[str] = set()
        for statement in constructor.body if constructor is not None else ():
            if isinstance(statement, ast.Expr) and calls_constructor(statement.value):
                found.clear()
            found.update(map(own_attribute, stored_targets(statement)))
        return frozenset(found - {""})

    def methods_storing(self, attribute: str) -> list[FunctionNode]:
        """The methods that give `self.attribute` a value: by assignment, in a loop or a `with`."""
        found = self._storing.get(attribute)
        if found is None:
            found = self._storing[attribute] = self._methods_on(self.module.lines_storing(attribute))
        return found

    def methods_filling(self, attribute: str) -> list[FunctionNode]:
        """The methods that store something in a container `self.attribute`, and give it no value."""
        storing = self.methods_storing(attribute)
        return [one for one in self._methods_on(self.module.lines_filling(attribute)) if one not in storing]

    def _methods_on(self, lines: list[int]) -> list[FunctionNode]:
        every = (*self.methods.values(), *self.setters.values())
        return [method for method in every if holds(method, lines)] if lines else []


_REGISTERS = re.compile(r"\bself\.register_(?:buffer|parameter)\(")

Bound: TypeAlias = "tuple[str, str | None] | FunctionNode | ClassInfo | None"
"""What a top level may bind a name to: an import, a function, a class; None for what it assigns."""


Tests: TypeAlias = "tuple[tuple[ast.expr, bool], ...]"
"""The conditions around a statement, and how each comes out where it is reached."""


class Binding(NamedTuple):
    """What a statement binds a name to."""

    what: Bound
    statement: ast.stmt
    tests: Tests


class ModuleInfo:
    """A parsed module."""

    def __init__(
        self, path: str, text: str, tree: ast.Module, name: str = "", file: str = "", whole: bool = True
    ) -> None:
        self.path = path
        self.text = text
        self.tree = tree
        self.name = name
        self.file = file
        self.whole = whole
        """Whether all its functions are there, not just those that say something of tensors."""
        self.functions: dict[str, FunctionNode] = {}
        self.classes: dict[str, ClassInfo] = {}
        self.class_of_node: dict[ast.ClassDef, ClassInfo] = {}
        self.units: list[Unit] = []
        self.unit_of_node: dict[ast.AST, Unit] = {}
        self.imports: dict[str, tuple[str, str | None]] = {}
        """Local name -> (absolute module, attribute or None for the module itself)."""
        self.ways: dict[str, list[Binding]] = {}
        """What the top level may bind a name to: one after the other replaces, in branches each is a way of its own."""
        self.star_imports: list[str] = []
        self.assigned: set[str] = set()
        self.declared_for_types: set[str] = set()
        """What is assigned for type checkers alone: when the program runs, something else says what it is."""
        self.closed: set[tuple[int, int, str]] = set()
        """Lines, first and last, to which no way leads where an accelerator is present, and the device that is tested:
        nothing that is sent there leaves the host. Empty: nothing is sent at all.
        """
        self.checked = False
        """Whether the module itself is under check: then its body is run, else only what is asked of it."""
        self.assignments: dict[str, list[ast.expr]] = {}
        """What the top level assigns to a plain name."""
        self._bound: dict[FunctionNode, frozenset[str]] = {}
        """The names that functions give values."""
        self._unindexed: list[FunctionNode] = []
        """Functions whose bodies nobody had looked into when the module was read, and whose stores are not known."""
        self._indexed: set[str] = set()
        """Attributes whose stores are known in any case."""
        self.resolved: dict[str, Value] = {}
        """Names looked up before: the project's memory, kept here so that it goes with the module."""
        self.resolved_by_readers: dict[str, Value] = {}
        """The same for who had the whole module read, while another is under check."""
        self.resolved_outside: dict[str, Value] = {}
        """The same for everybody else: functions that say nothing about tensors are left out."""
        self._collect(tree.body, "", None, None, top=True, branch=None)

    def _collect(
        self,
        body: list[ast.stmt],
        prefix: str,
        owner: ClassInfo | None,
        parent: Unit | None,
        top: bool,
        branch: Tests | None,
    ) -> None:
        for statement in body:
            if not top and type(statement) in _SIMPLE:
                continue
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                unit = Unit(statement, prefix + statement.name, owner, parent)
                self.units.append(unit)
                self.unit_of_node[statement] = unit
                if top:
                    self.functions[statement.name] = statement
                    self._bind(statement.name, statement, statement, branch)
                if is_late(statement):  # nothing is defined in it
                    self._unindexed.append(statement)
                else:
                    self._collect(statement.body, f"{unit.qualname}.", None, unit, top=False, branch=None)
            elif isinstance(statement, ast.ClassDef):
                info = ClassInfo(statement, self, prefix + statement.name)
                self.class_of_node[statement] = info
                if top:
                    self.classes[statement.name] = info
                    self._bind(statement.name, info, statement, branch)
                self._collect(statement.body, f"{info.qualname}.", info, parent, top=False, branch=None)
            elif isinstance(statement, (ast.Import, ast.ImportFrom)):
                if top:
                    bound: dict[str, tuple[str, str | None]] = {}
                    self.add_import(statement, bound)
                    self.imports.update(bound)
                    for name, imported in bound.items():
                        self._bind(name, imported, statement, branch)
            elif isinstance(
                statement, (ast.If, ast.Try, ast.With, ast.For, ast.While, ast.AsyncWith, ast.AsyncFor, ast.Match)
            ) or hasattr(statement, "handlers"):
                if not isinstance(statement, ast.If):
                    self._collect(list(child_statements(statement)), prefix, owner, parent, top, branch or ())
                    continue
                if _last_name(statement.test) != "TYPE_CHECKING":
                    for part, holds in ((statement.body, True), (statement.orelse, False)):
                        self._collect(part, prefix, owner, parent, top, (*(branch or ()), (statement.test, holds)))
                    continue
                others, assigned = dict(self.ways), set(self.assigned)
                self._collect(statement.body, prefix, owner, parent, top, branch)
                self.declared_for_types |= self.assigned - assigned
                for_types, self.ways = self.ways, others
                self._collect(statement.orelse, prefix, owner, parent, top, branch)
                self.ways = {**for_types, **self.ways}  # what only a type checker sees is no way where there is another
            elif top and isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                for target in targets:
                    if isinstance(target, ast.Name) and statement.value is not None:
                        self.assignments.setdefault(target.id, []).append(statement.value)
                        self._bind(target.id, None, statement, branch)
                    for node in ast.walk(target):
                        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                            self.assigned.add(node.id)
                            self.declared_for_types.discard(node.id)

    def _bind(self, name: str, what: Bound, statement: ast.stmt, branch: Tests | None) -> None:
        earlier = self.ways.get(name, []) if branch is not None else []
        if what is None and any(one.what is None for one in earlier):
            return  # all assignments of a name are one way: together they are its value
        self.ways[name] = [*earlier, Binding(what, statement, branch or ())]

    def add_import(self, statement: ast.Import | ast.ImportFrom, into: dict[str, tuple[str, str | None]]) -> None:
        """Enter what an import statement binds, with relative names made absolute."""
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.asname:
                    into[alias.asname] = (alias.name, None)
                else:
                    root = alias.name.partition(".")[0]
                    into[root] = (root, None)
            return
        base = self.absolute(statement.module or "", statement.level)
        for alias in statement.names:
            if alias.name == "*":
                self.star_imports.append(base)
            else:
                into[alias.asname or alias.name] = (base, alias.name)

    def aliases_of(self, name: str) -> list[str]:
        """Under which other names the module imports something that is called `name` where it is defined."""
        return [alias for alias, (_, attribute) in self.imports.items() if attribute == name and alias != name]

    def defines(self, name: str) -> bool:
        """Whether the module's top level binds the name."""
        return name in self.functions or name in self.classes or name in self.assigned or name in self.imports

    def absolute(self, name: str, level: int) -> str:
        """The absolute module name of a (relative) import."""
        if level == 0:
            return name
        parts = self.name.split(".")
        is_package = self.file.endswith("__init__.py")
        keep = len(parts) - level + (1 if is_package else 0)
        base = ".".join(parts[: max(keep, 0)])
        return f"{base}.{name}" if base and name else base or name

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *accumulate(len(line) + 1 for line in self.lines)]

    def line_at(self, offset: int) -> int:
        """The 1-based line of a character offset."""
        return bisect_right(self._line_starts, offset)

    def lines_with(self, *patterns: re.Pattern[str]) -> list[int]:
        """The lines on which a match of a pattern starts, in order."""
        return sorted({self.line_at(match.start()) for pattern in patterns for match in pattern.finditer(self.text)})

    def lines_storing(self, attribute: str) -> list[int]:
        """Lines where a statement starts that gives `self.attribute` a value, in order."""
        self._index_functions_storing(attribute)
        return self._store_lines.get(attribute, [])

    def lines_filling(self, attribute: str) -> list[int]:
        """Lines where a statement starts that stores something in a container `self.attribute`, in order."""
        self._index_functions_storing(attribute)
        return self._fill_lines.get(attribute, [])

    def declares(self, node: FunctionNode, attribute: str) -> bool:
        """Whether a function may say what type `self.attribute` has, by its text: `self.attribute: int = 0`."""
        start, end = self._line_starts[node.lineno - 1], self._line_starts[node.end_lineno or node.lineno]
        return self.text.find(f"self.{attribute}:", start, end) >= 0

    def plain_stores(self, node: FunctionNode, attribute: str) -> list[str] | None:
        """What a function stores in `self.attribute`, as written, where that is a literal, a parameter or part of a
        configuration each time: then the function need not be run to know. None when it must be.
        """
        lines = self.lines_storing(attribute)
        own = lines[bisect_left(lines, node.lineno) : bisect_right(lines, node.end_lineno or node.lineno)]
        found = [self._plain_store(line, attribute) for line in own]
        texts = [text for text in found if text is not None]
        parameters = {one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
        plain = len(texts) == len(found) and all(
            text in parameters or _LITERAL.fullmatch(text) or _OF_CONFIG.fullmatch(text) for text in texts
        )
        return texts if plain and not any(self._rebinds(node, text) for text in texts if text in parameters) else None

    def _plain_store(self, line: int, attribute: str) -> str | None:
        target, _, value = self.lines[line - 1].partition("#")[0].partition("=")
        return value.strip() if target.strip() == f"self.{attribute}" else None

    def _rebinds(self, node: FunctionNode, name: str) -> bool:
        """Whether a function gives one of its parameters another value, or narrows it."""
        if node not in self._bound:
            targets = (target for statement in statements(node.body) for target in stored_targets(statement))
            self._bound[node] = frozenset(target.id for target in targets if isinstance(target, ast.Name))
        if name in self._bound[node]:
            return True
        lines = self.lines[node.body[0].lineno - 1 : node.end_lineno]
        return any(name in line and re.search(rf"\b{name}\b\s*(?::=|is\b)", line) for line in lines)

    @cached_property
    def lines(self) -> list[str]:
        """The text by line."""
        return self.text.split("\n")

    def units_storing_outside(self, attribute: str) -> list[Unit]:
        """The outermost functions that assign `something.attribute` where something is not `self`."""
        lines = self.lines_storing_outside(attribute)
        return [unit for unit in self.units if unit.parent is None and holds(unit.node, lines)] if lines else []

    def lines_storing_outside(self, attribute: str) -> list[int]:
        """Lines that assign `something.attribute` where something is not `self`."""
        return self._outside_stores.get(attribute, [])

    @cached_property
    def _outside_stores(self) -> dict[str, list[int]]:
        """By attribute, the lines that assign `something.attribute`, in order."""
        found: dict[str, list[int]] = {}
        for match in _NAMED_ATTRIBUTE.finditer(self.text):
            if match[1] != "self" and _STORE.match(self.text, match.end()):
                found.setdefault(match[2], []).append(self.line_at(match.start(1)))
        return found

    def stores_data(self, attribute: str) -> bool:
        """Whether what is assigned to `something.attribute` may be a tensor or an array, by what stands there."""
        return any(_DATA.search(self.lines[line - 1]) for line in self.lines_storing_outside(attribute))

    def subclasses(self, info: ClassInfo) -> list[ClassInfo]:
        """The classes of the module that name `info` as a base, or a class that does."""
        found = [info]
        for owner in found:
            found.extend(other for other in self._classes_by_base.get(owner.name, ()) if other not in found)
        return found[1:]

    @cached_property
    def _classes_by_base(self) -> dict[str, list[ClassInfo]]:
        """The classes that name something as a base, each once, by its last name."""
        found: dict[str, list[ClassInfo]] = {}
        for info in self.classes.values():
            for name in dict.fromkeys(map(_last_name, info.node.bases)):
                found.setdefault(name, []).append(info)
        return found

    @property
    def _store_lines(self) -> dict[str, list[int]]:
        return self._stores[0]

    @property
    def _fill_lines(self) -> dict[str, list[int]]:
        return self._stores[1]

    @cached_property
    def _stores(self) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """The lines that give attributes of `self` values, and those that store something in them, by attribute."""
        stores: dict[str, list[int]] = {}
        fills: dict[str, list[int]] = {}
        self._unindexed = list(filter(is_late, self._unindexed))
        self._index_stores(statements(self.tree.body, late=False), stores, fills)
        return stores, fills

    def _index_functions_storing(self, attribute: str) -> None:
        """Enter the stores of the functions that seem to store the attribute, where they are not known yet."""
        if attribute in self._indexed:
            return
        self._indexed.add(attribute)
        stores, fills = self._stores
        lines = [self.line_at(at) for at in places_storing(self.text, attribute)] if self._unindexed else []
        found = [node for node in self._unindexed if holds(node, lines)] if lines else []
        if not found:
            return
        for node in found:
            self._unindexed.remove(node)
            self._index_stores(statements(node.body), stores, fills)

    def _index_stores(
        self, found: Iterator[ast.stmt], stores: dict[str, list[int]], fills: dict[str, list[int]]
    ) -> None:
        """Enter the lines on which these statements store something, by attribute."""
        lines = self.lines
        for statement in found:
            line = statement.lineno
            if type(statement) in _STORES_NOTHING or (line == statement.end_lineno and "self." not in lines[line - 1]):
                continue
            for target in stored_targets(statement):
                into, name = (fills, _own_container(target)) if isinstance(target, ast.Subscript) else (stores, "")
                name = name or own_attribute(target)
                if name:
                    insort(into.setdefault(name, []), line)  # handlers come behind an `else` that follows them
            for container in _grown(statement):
                name = _own_container(container)
                if name:
                    insort(fills.setdefault(name, []), line)

    def read_all(self, tree: ast.Module) -> None:
        """Look into all functions, since the module comes under check; `tree`: one of the same text."""
        read_from(self._unindexed, tree)

    def unit_at(self, qualname: str, line: int) -> Unit | None:
        """The function of that dotted name on that line."""
        return next((unit for unit in self.units if unit.node.lineno == line and unit.qualname == qualname), None)

    def units_naming(self, word: str) -> list[Unit]:
        """The outermost functions whose text names `word`."""
        lines = self._lines_of(word, called=True) or self._lines_of(word)
        return [unit for unit in self.units if unit.parent is None and holds(unit.node, lines)] if lines else []

    def units_calling(self, word: str) -> list[Unit]:
        """The outermost functions whose text calls `word`."""
        lines = self._lines_of(word, called=True)
        return [unit for unit in self.units if unit.parent is None and holds(unit.node, lines)] if lines else []

    def _lines_of(self, word: str, called: bool = False) -> list[int]:
        """The lines where `word` stands by itself, in order; `called`: where it is called, not defined."""
        lines: list[int] = []
        needle = word + "(" if called else word
        text, start = self.text, 0
        while (start := text.find(needle, start)) >= 0:
            after = start + len(needle)
            alone = not _is_word(text[start - 1 : start]) and (called or not _is_word(text[after : after + 1]))
            defined = called and text[max(start - 6, 0) : start].endswith(("def ", "class "))
            if alone and not defined:
                lines.append(self.line_at(start))
            start = after
        return lines

    @cached_property
    def sets_default_device(self) -> bool:
        """Whether some function changes torch's default device: then no factory's device is certain."""
        return "set_default_device(" in self.text or "set_default_tensor_type(" in self.text

    @cached_property
    def declared_global(self) -> dict[str, list[int]]:
        """The names that some function declares global, each with the lines that say so, in order."""
        found: dict[str, list[int]] = {}
        if "global " in self.text or "global\t" in self.text:
            for match in _GLOBAL.finditer(self.text):
                for name in re.findall(r"\w+", match[1]):
                    found.setdefault(name, []).append(self.line_at(match.start()))
        return found

    def units_rebinding(self, name: str) -> list[Unit]:
        """The outermost functions that declare `name` global."""
        lines = self.declared_global.get(name, [])
        return [
            unit
            for unit in self.units
            if unit.parent is None and holds(unit.node, lines) and _declares_global(unit.node, name)
        ]


def _declares_global(node: ast.AST, name: str) -> bool:
    return any(isinstance(inner, ast.Global) and name in inner.names for inner in ast.walk(node))


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def grows(text: str, name: str) -> bool:
    """Whether some function of a module's text stores something in the container `name` of the top level."""
    return any(match[1] == name for match in _GROWING.finditer(text))


def holds(node: FunctionNode, lines: list[int]) -> bool:
    """Whether one of the lines, in order, belongs to the function."""
    position = bisect_left(lines, node.lineno)
    return position < len(lines) and lines[position] <= (node.end_lineno or node.lineno)


_DATA = re.compile(r"\btorch\.|\bnp\.|\bnumpy\.|\.(?:to|cpu|pin_memory|clone|contiguous)\(|= *\w+$")
_NAMED_ATTRIBUTE = re.compile(r"\n[ \t]+([^\W\d]\w*)\.(\w+)")
"""An attribute of a name that begins a line of a block."""
_STORE = re.compile(r"(?:[ \t]*:[^=\n]{1,80})?[ \t]*=(?!=)")
"""What follows an attribute that is assigned."""
_GLOBAL = re.compile(r"^[ \t]+global[ \t]+([\w, \t]+)", re.MULTILINE)
_LITERAL = re.compile(r"None|True|False|-?\d+(?:\.\d+)?|'[^']*'|\"[^\"]*\"")
_OF_CONFIG = re.compile(r"(?:self\.)?\w*(?:config|args|params|settings)(?:\.\w+)*|self\.\w*config(?:\.\w+)+")


_STORES_NOTHING = frozenset(
    {ast.If, ast.While, ast.Try, ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Raise}
)


def statements(body: list[ast.stmt], late: bool = True) -> Iterator[ast.stmt]:
    """All statements, those inside others included, in order; without `late` not those of functions whose bodies nobody
    has looked into.
    """
    waiting = body[::-1]
    while waiting:
        statement = waiting.pop()
        yield statement
        if type(statement) not in _SIMPLE and (late or not is_late(statement)):
            waiting.extend(list(child_statements(statement))[::-1])


def stored_targets(statement: ast.stmt) -> Iterator[ast.expr]:
    """What a statement gives a value: the targets of an assignment, a loop or a `with`, each for itself."""
    waiting: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        waiting = list(statement.targets)
    elif isinstance(statement, (ast.AugAssign, ast.For, ast.AsyncFor)) or (
        isinstance(statement, ast.AnnAssign) and statement.value is not None
    ):
        waiting = [statement.target]
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        waiting = [item.optional_vars for item in statement.items if item.optional_vars is not None]
    while waiting:
        target = waiting.pop()
        if isinstance(target, (ast.Tuple, ast.List)):
            waiting.extend(target.elts)
        elif isinstance(target, ast.Starred):
            waiting.append(target.value)
        else:
            yield target


_GROWING = re.compile(rf"^[ \t]+(\w+)(?:\[[^\]\n]*\][ \t]*=(?!=)|\.(?:{'|'.join(sorted(GROWS))})\()", re.MULTILINE)
"""A statement inside another that stores something in a container."""


def _grown(statement: ast.stmt) -> Iterator[ast.expr]:
    """The containers in which a statement stores something by a call: `x.append(y)` and the like."""
    value = statement.value if isinstance(statement, (ast.Expr, ast.Assign, ast.AnnAssign, ast.Return)) else None
    while isinstance(value, (ast.Call, ast.Attribute, ast.Subscript)):  # `x.setdefault(key, []).append(y)`
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in GROWS:
            yield value.func.value
        value = value.func if isinstance(value, ast.Call) else value.value


def own_attribute(node: ast.expr) -> str:
    """The name of an attribute of `self`; empty for anything else."""
    own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return node.attr if own and isinstance(node, ast.Attribute) else ""


def _own_container(node: ast.expr) -> str:
    """The attribute of `self` of which this is an item, or that it is itself."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return own_attribute(node)


def calls_constructor(node: ast.AST) -> bool:
    """Whether this is `super().__init__(...)`, or the same of a named base."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "__init__"


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
