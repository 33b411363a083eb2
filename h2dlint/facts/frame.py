"""One activation of a function or of a module's body while it is interpreted, and what an interpreter offers to it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from h2dlint.facts.copies import Pinning
from h2dlint.facts.domain import (
    Array,
    Device,
    Function,
    Instance,
    Memory,
    ModuleValue,
    Tag,
    Trail,
    Value,
    arrays_of,
    join,
    mapped,
)
from h2dlint.facts.modules import ClassInfo, ModuleInfo
from h2dlint.facts.options import FactOptions
from h2dlint.facts.outcomes import CallSite, Outcome, Sighting

Environment: TypeAlias = dict[str, Value]
"""Values by variable name, and by dotted name where an attribute was stored (`self.buf`)."""


IN_FLIGHT = "<in flight>"
"""The entry of an environment that holds what events.py follows: no variable can be called so."""


class Interpreter(Protocol):
    """What expression and statement rules ask of the whole."""

    options: FactOptions
    """What the settings say about values."""

    def call_function(
        self, function: Function, args: list[Value], keywords: dict[str, Value], frame: Frame, node: ast.AST, key: str
    ) -> Value:
        """The result of a call of a project function with these arguments."""

    asks_by_keyword: bool
    """Whether calls are followed into a method that they may reach by its name and a keyword."""

    def call_by_keyword(
        self, callee: Value, args: list[Value], keywords: dict[str, Value], frame: Frame, node: ast.Call
    ) -> None:
        """Follow a call into that method, if it may be one of it."""

    def construct(
        self, info: ClassInfo, args: list[Value], keywords: dict[str, Value], frame: Frame, node: ast.AST
    ) -> Value:
        """A new object of a project class."""

    def attribute(self, info: ClassInfo, name: str) -> Value:
        """What any method of the class stores in `self.name`, joined."""

    def resolve(self, module: ModuleInfo, name: str) -> Value:
        """A module-level name: a definition, an import or a variable."""

    def member(self, module: ModuleValue, name: str) -> Value:
        """`name` of another module of the project."""

    def imported(self, module: ModuleInfo, name: str, attribute: str | None) -> Value:
        """What `import name` or `from name import attribute` binds in a module."""

    def class_value(self, module: ModuleInfo, node: ast.ClassDef) -> Value:
        """A class statement as a value."""

    def class_bases(self, info: ClassInfo) -> list[Value]:
        """The base classes, resolved."""

    def record(self, outcome: Outcome) -> None:
        """Remember what a copy does on one way."""

    def report(self, sighting: Sighting) -> None:
        """Remember a hazard of a copy."""

    def hand_on(self, node: ast.expr) -> None:
        """This copy is under way when its function ends, and what it reads or brings is known outside."""

    def excuse(self, node: ast.AST) -> None:
        """What goes on at this place when its function ends is waited for by a caller."""

    steps: Steps
    """How much of its budget the function that is looked at has used."""

    def register(self, storage: int, memory: Memory, trail: Trail) -> None:
        """Memory that was page-locked after it was allocated."""

    def registered(self, array: Array) -> Array:
        """The array, pinned if its memory was page-locked since."""

    def fresh_storage(self) -> int:
        """A number for newly allocated memory."""


class Steps:
    """Expressions evaluated, and how many may be."""

    __slots__ = ("limit", "taken")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0


class BudgetExceededError(Exception):
    """A function took too many steps; its copies are left unproven."""


class Remembered(NamedTuple):
    """A condition that has a name."""

    test: ast.expr
    names: frozenset[str]
    """The variables that it speaks of."""
    path: tuple[Tag, ...]
    """The branches in which it was given the name."""


class Frame:
    """Variables, path and results of one activation."""

    __slots__ = (
        "allocated",
        "assumes",
        "breaks",
        "context",
        "default_device",
        "defined",
        "depth",
        "dotted",
        "dotted_ends",
        "entered",
        "env",
        "exhausted",
        "exits",
        "falls_through",
        "function",
        "globals",
        "interpreter",
        "jumps",
        "kept",
        "kept_at_exits",
        "kept_tags",
        "loop_depth",
        "loops",
        "made",
        "module",
        "outer_names",
        "outer_writes",
        "outside_stores",
        "owner",
        "path",
        "qualname",
        "returns",
        "root",
        "root_file",
        "scope",
        "self_name",
        "stores",
        "stream",
        "tests",
        "unused",
        "way",
        "yields",
    )

    def __init__(self, interpreter: Interpreter, module: ModuleInfo, function: ast.AST | None, qualname: str) -> None:
        self.interpreter = interpreter
        self.module = module
        self.function = function
        self.qualname = qualname
        self.env: Environment = {}
        self.scope: Environment | None = None
        self.owner: ClassInfo | None = None
        self.self_name = ""
        self.default_device: Device | None = None
        self.context: tuple[CallSite, ...] = ()
        """The call sites through which this activation was reached; empty when the function is looked at on its own."""
        self.root_file = module.file
        self.root: ast.AST | None = function
        """The function that is looked at, of which this is a call."""
        self.depth = 0
        self.loop_depth = 0
        self.tests: dict[str, Remembered] = {}
        """Conditions that were given a name, by it."""
        self.dotted: set[str] = set()
        """The variables of which the environment may hold attributes, by dotted name."""
        self.dotted_ends: set[str] = set()
        """The last parts of such names."""
        self.assumes = 0
        """How many of the branches around are only taken where an accelerator is present."""
        self.exhausted = False
        """Whether the budget ended before the function did."""
        self.path: list[Tag] = []
        self.way: tuple[Tag, ...] = ()
        """The alternative of the callee that is being called, when it is one of several."""
        self.returns: list[tuple[Value, tuple[Tag, ...]]] = []
        self.yields: list[Value] = []
        self.falls_through = True
        """Whether control reached the end of the body."""
        self.stores: dict[str, list[tuple[Value, ast.AST]]] = {}
        self.outside_stores: dict[str, list[tuple[ClassInfo, Value, ast.AST]]] = {}
        """Attributes of objects of known classes that were assigned: owner, value and where, by attribute."""
        self.made: list[tuple[Instance, CallSite]] = []
        """Objects of classes of other modules that were made here."""
        self.unused: ast.expr | None = None
        """The expression that is a statement of its own: nobody sees its value."""
        self.entered: ast.expr | None = None
        """The expression whose object a `with` enters and names."""
        self.stream = ""
        """The stream that a `with` has made current (streams.py); empty for the one that was current already."""
        self.exits: list[Value] = []
        """What is in flight (events.py) at each place where control leaves."""
        self.allocated: set[int] = set()
        """Storages of the pinned memory that was allocated here, or in a call from here."""
        self.kept: dict[int, str] = {}
        """Storages of pinned memory that was made where there was none yet, and where it is kept (keeping.py)."""
        self.kept_tags: list[Tag] = []
        """The ways that differ in nothing but whether it was there already."""
        self.kept_at_exits: list[Environment] = []
        """What outlives the call, at each place where control leaves."""
        self.loops: list[tuple[int, ast.AST]] = []
        """The loops around: when their present turn began, in storage numbers, and their statements."""
        self.globals: set[str] = set()
        self.jumps: list[Environment] = []
        """The variables at each `continue` of the turn under way."""
        self.breaks: list[Environment] = []
        """The variables at each `break` of the loop under way."""
        self.defined: set[ast.AST] = set()
        """Functions that this activation defines: they see its variables as they are when called."""
        self.outer_names: set[str] = set()
        """Names declared nonlocal."""
        self.outer_writes: Environment = {}
        """Variables of the enclosing function that this one has changed."""

    def trail(
        self,
        node: ast.AST,
        label: str,
        message: str,
        previous: Trail | None = None,
        pinning: Pinning | None = None,
    ) -> Trail:
        """A new link of a chain, at `node` of this module."""
        return Trail(self.module.path, node, label, message, previous, pinning)

    def lookup(self, name: str) -> Value | None:
        """A local variable or one of an enclosing function."""
        found = self.env.get(name)
        if found is None and self.scope is not None:
            found = self.scope.get(name)
        return found

    def rebind(self, name: str, value: Value) -> None:
        """A variable now holds `value`; one of the enclosing function changes there too."""
        if (name not in self.env and self.scope is not None and name in self.scope) or name in self.outer_writes:
            self.outer_writes[name] = value
        self.env[name] = value

    def assign(self, key: str, value: Value, node: ast.AST) -> None:
        """A variable or, by dotted name, an attribute now holds `value`."""
        if "." in key:
            self.store_attribute(key, value, node)
        else:
            self.rebind(key, value)

    def change_storage(self, storage: int, change: Callable[[Array], Array]) -> None:
        """Every variable that shares this memory has changed with it."""
        if not storage:
            return
        for name, value in list(self.env.items()):
            if any(array.storage == storage for array in arrays_of(value)):
                self.env[name] = mapped(
                    value, lambda held: change(held) if isinstance(held, Array) and held.storage == storage else held
                )

    def written(self, value: Value) -> None:
        """Host data was written into this memory: it is no longer what it was built as."""
        for array in arrays_of(value):
            if array.index_built:
                self.change_storage(array.storage, lambda held: held.but(index_built=False))

    def store_attribute(self, key: str, value: Value, node: ast.AST) -> None:
        """`key` (dotted) now holds `value`; a store on the receiver counts for the whole class too."""
        self.env[key] = value
        self.note_dotted(key)
        base, _, name = key.rpartition(".")
        if base == self.self_name and base:
            self.stores.setdefault(name, []).append((value, node))

    def filled_since(self, value: Instance, key: str) -> Instance:
        """An object with the attributes that were stored in it since it was made, under the name it is known by."""
        if not key or value.fields is None or key.partition(".")[0] not in self.dotted:
            return value
        prefix = key + "."
        later = {
            name[len(prefix) :]: held
            for name, held in self.env.items()
            if name.startswith(prefix) and "." not in name[len(prefix) :]
        }
        if not later:
            return value
        kept = tuple((name, held) for name, held in value.fields if name not in later)
        return Instance(value.info, (*kept, *later.items()))

    def remember(self, name: str, test: ast.expr) -> None:
        """`name` is a condition of this scope's own variables from here on, as long as none of them is bound anew."""
        names = frozenset(node.id for node in ast.walk(test) if isinstance(node, ast.Name))
        if self.self_name not in names and name not in names:
            self.tests[name] = Remembered(test, names, tuple(self.path))

    def remembered(self, name: str) -> ast.expr | None:
        """The condition that a name stands for on this way."""
        held = self.tests.get(name)
        here = held is not None and tuple(self.path[: len(held.path)]) == held.path
        return held.test if held is not None and here else None

    def bind_anew(self, name: str) -> None:
        """A variable gets another value: conditions that speak of it are no longer known by their names."""
        for key in [key for key, held in self.tests.items() if key == name or name in held.names]:
            del self.tests[key]

    def own(self, name: str) -> str:
        """What an attribute of the receiver is known by."""
        return f"{self.self_name}.{name}"

    def note_dotted(self, key: str) -> None:
        """The environment holds an attribute under this name now."""
        self.dotted.add(key.partition(".")[0])
        self.dotted_ends.add(key.rpartition(".")[2])

    def forget(self, name: str) -> None:
        """Attributes of a rebound variable are no longer known by its name."""
        if self.dotted and name.partition(".")[0] in self.dotted:
            prefix = name + "."
            for key in [key for key in self.env if key.startswith(prefix)]:
                del self.env[key]


def join_environments(
    left: Environment, right: Environment, left_tags: tuple[Tag, ...], right_tags: tuple[Tag, ...]
) -> Environment:
    """The variables after two branches meet; one bound on a single branch keeps that value."""
    joined = dict(left)
    for name, value in right.items():
        other = left.get(name)
        if other is value:
            continue
        if other is None:
            joined[name] = value
        else:
            met = other.meet(value) if name == IN_FLIGHT else None
            joined[name] = met if met is not None else join((other, value), (left_tags, right_tags))
    return joined


def key_of(node: ast.AST) -> str:
    """The dotted name of an expression made of names and attributes, else the empty string.

    Nobody writes a hundred names in a row; who generates ten thousand would wait for all of them at each dot.
    """
    if type(node) is ast.Name:
        return node.id
    if type(node) is not ast.Attribute:
        return ""
    if type(node.value) is ast.Name:
        return f"{node.value.id}.{node.attr}"
    names: list[str] = []
    while isinstance(node, ast.Attribute) and len(names) < _MAX_DOTS:
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    names.append(node.id)
    return ".".join(reversed(names))


_MAX_DOTS = 100
