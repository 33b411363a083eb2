"""The whole: modules, classes, functions and their summaries, found and interpreted only when a question needs them.

One `Project` serves one run in one process. Nothing of the checked code is ever imported or executed.
"""

from __future__ import annotations

import ast
import builtins
import os
from collections.abc import Callable, Collection

from h2dlint.facts.annotations import annotated_value
from h2dlint.facts.attributes import decorator_names, is_transparent, named_attribute
from h2dlint.facts.copies import Verdict
from h2dlint.facts.domain import (
    NOTHING,
    SOMEWHERE,
    Array,
    Available,
    Class,
    Const,
    Device,
    DType,
    Function,
    Instance,
    Memory,
    ModuleValue,
    Named,
    Number,
    Sequence,
    Tag,
    Trail,
    Unknown,
    Value,
    join,
    mapped,
    signature,
)
from h2dlint.facts.evaluate import evaluate
from h2dlint.facts.finder import Finder, parse_module
from h2dlint.facts.flags import is_availability_name, is_wsl_name
from h2dlint.facts.flow import run_body
from h2dlint.facts.frame import BudgetExceededError, Environment, Frame, Steps
from h2dlint.facts.modules import ClassInfo, ModuleInfo, Unit, holds
from h2dlint.facts.outcomes import Outcome

MAX_DEPTH = 5
"""Calls followed into calls."""
SIDE_DEPTH = 2
"""The same for functions that are only looked at for what they store or pass on."""
MAX_STEPS = 60_000
"""Expressions evaluated for one function looked at on its own, with all that it calls."""
MAX_SIDE_STEPS = 6_000
"""The same for functions that are only looked at for what they store or pass on."""
MAX_CALLERS = 8
"""Functions of the module that are looked at because they call another."""

_HARMLESS = (Verdict.ASYNC, Verdict.NO_TRANSFER, Verdict.BLOCKING)
"""Verdicts of which a fuller look would not make a finding."""
_OPAQUE = (
    "jit",
    "autotune",
    "heuristics",
    "contextmanager",
    "asynccontextmanager",
    "overload",
    "custom_op",
    "register_fake",
)
_BUILTINS = frozenset(dir(builtins))


class Project:
    """Everything known of the code under check; answers the questions of `frame.Interpreter`."""

    def __init__(self) -> None:
        self.outcomes: dict[str, list[Outcome]] = {}
        """What was seen of copies, by the file that they stand in."""
        self._finder = Finder()
        self.sought: set[ast.AST] = set()
        """Functions that hold a copy which is asked for."""
        self._modules: dict[str, ModuleInfo | None] = {}
        self._globals: dict[int, Frame] = {}
        self._open: dict[tuple[int, str], list[Value]] = {}
        """Attributes that are being looked up, with what was found so far: what a store reads of its own attribute."""
        self._units: dict[ast.AST, Frame | None] = {}
        self._summaries: dict[object, tuple[Value, Environment]] = {}
        self._attributes: dict[tuple[int, str], Value] = {}
        self._constructions: dict[ClassInfo, list[tuple[Instance, ast.AST]]] = {}
        self._incomplete = False
        """Whether the question under way met one that is still open, so that its answer must not be remembered."""
        self._registered: dict[int, tuple[Memory, Trail]] = {}
        self._undecorated: set[ast.AST] = set()
        """Functions whose decorators are being applied: inside them they are called bare."""
        self._partial_reads = 0
        self._hasty: set[ast.AST] = set()
        """Functions that read an attribute or a global while that was still being looked up."""
        self._finished: set[int] = set()
        self._stack: list[ast.AST] = []
        self.steps = Steps(MAX_STEPS)
        self._storage = 0
        self._asked_callers: set[object] = set()
        self._asked_globals: set[tuple[int, str]] = set()
        self._asked_members: set[tuple[str, str]] = set()
        """Names of modules that are being looked up: a circle of re-exports ends there."""

    # Modules and names

    def module(self, path: str, text: str, tree: ast.Module) -> ModuleInfo:
        """The module of a file that is being checked."""
        key = os.path.abspath(path)
        info = self._modules.get(key)
        if info is None or info.text != text:
            info = self._modules[key] = ModuleInfo(path, text, tree, _module_name(key), key)
        info.path = path
        info.checked = True
        return info

    def load(self, file: str) -> ModuleInfo | None:
        """The module in a file of the project, read when it is first asked for."""
        if file not in self._modules:
            text = self._finder.text_of(file)
            tree = parse_module(text)
            shown = os.path.relpath(file).replace(os.sep, "/")
            self._modules[file] = None if tree is None else ModuleInfo(shown, text, tree, _module_name(file), file)
        return self._modules[file]

    def resolve(self, module: ModuleInfo, name: str) -> Value:
        """A module-level name of `module`; a dotted name is a variable of a class body."""
        found = module.resolved.get(name)
        if found is None:
            partial_reads = self._partial_reads
            found = self._resolve(module, name)
            if self._ready(module) and partial_reads == self._partial_reads:
                module.resolved[name] = found
        return found

    def _ready(self, module: ModuleInfo) -> bool:
        """Whether the module's body has been run to its end, so that its variables have their last values."""
        return id(module) in self._finished or not module.checked

    def _resolve(self, module: ModuleInfo, name: str) -> Value:
        if "." in name:
            return self._class_variable(module, name)
        if name in module.assigned:
            return self._global(module, name)
        if name in module.functions:
            return Function(module.functions[name], module)
        if name in module.classes:
            return Class(module.classes[name])
        if name in module.imports:
            return self.imported(module, *module.imports[name])
        if name in _BUILTINS:
            return Named(f"builtins.{name}")
        return self._from_star(module, name) or Unknown(f"{module.path}:{name}")

    def _from_star(self, module: ModuleInfo, name: str) -> Value | None:
        """A name that `from other import *` may have brought."""
        for other in module.star_imports:
            file = self._finder.file_of(other, module.file)
            info = self.load(file) if file is not None else None
            if info is not None and info.defines(name):
                return self.resolve(info, name)
        return None

    def imported(self, module: ModuleInfo, name: str, attribute: str | None) -> Value:
        """What an import binds: something of another module of the project, or a name outside it."""
        dotted = name if attribute is None else f"{name}.{attribute}"
        if dotted.partition(".")[0] == "torch":
            found = named_attribute(dotted)
            return found if isinstance(found, DType) else Named(dotted)
        if attribute is not None and is_availability_name(dotted) and attribute.isupper():
            return Available()
        file = self._finder.file_of(name, module.file)
        if file is None or file == module.file:
            return Named(dotted)
        holder = ModuleValue(name, file)
        return holder if attribute is None else self.member(holder, attribute)

    def member(self, module: ModuleValue, name: str) -> Value:
        """`name` of another module: what it defines or passes on, a module below it, or just the longer name."""
        key = (module.file, name)
        if key in self._asked_members:
            return NOTHING
        self._asked_members.add(key)
        try:
            info = self.load(module.file) if self._finder.worth_following(module.file, name) else None
            if info is not None and (info.defines(name) or info.star_imports):
                return self.resolve(info, name)
            dotted = f"{module.name}.{name}"
            below = self._finder.file_of(dotted, module.file)
            return ModuleValue(dotted, below) if below is not None else Named(dotted)
        finally:
            self._asked_members.discard(key)

    def _global(self, module: ModuleInfo, name: str) -> Value:
        value = self.run_module(module).env.get(name, NOTHING) if module.checked else self._assigned(module, name)
        if is_availability_name(name) and name.isupper() and isinstance(value, (Unknown, Named)):
            return Available()
        if name not in module.declared_global:
            return value
        values = [value]
        for unit in module.units_naming(name):
            if not _declares_global(unit.node, name):
                continue
            inner = self.run_unit(module, unit)
            if inner is None:
                self._partial_reads += 1
                self._hasty.add(unit.node)
            values.extend(held for held, _ in (inner.stores.get(f"global {name}", ()) if inner else ()))
        return join(values)

    def _assigned(self, module: ModuleInfo, name: str) -> Value:
        """A variable of a module that is not under check, from its assignments alone."""
        key = (id(module), name)
        if key in self._asked_globals:
            return NOTHING
        self._asked_globals.add(key)
        frame = self._frame(module, None, "<module>")
        values = [evaluate(node, frame) for node in module.assignments.get(name, ())]
        self._asked_globals.discard(key)
        return join(values) if values else NOTHING

    def _class_variable(self, module: ModuleInfo, dotted: str) -> Value:
        qualname, _, name = dotted.rpartition(".")
        info = next((info for info in module.class_of_node.values() if info.qualname == qualname), None)
        statement = info.assigned.get(name) if info is not None else None
        if statement is None or statement.value is None:
            return NOTHING
        frame = self._frame(module, statement, qualname)
        for other, earlier in info.assigned.items() if info is not None else ():
            if earlier is statement:
                break
            if earlier.value is not None and isinstance(earlier.value, ast.Constant):
                frame.env[other] = Const(earlier.value.value)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if targets and isinstance(targets[0], ast.Tuple):
            return NOTHING
        return evaluate(statement.value, frame)

    def class_value(self, module: ModuleInfo, node: ast.ClassDef) -> Value:
        """A class statement as a value."""
        return Class(module.class_of_node[node])

    def class_bases(self, info: ClassInfo) -> list[Value]:
        """The base classes that can be found."""
        found = []
        for base in info.node.bases:
            node = base.value if isinstance(base, ast.Subscript) else base
            found.append(self._base(info.module, node))
        return found

    def _base(self, module: ModuleInfo, node: ast.expr) -> Value:
        if isinstance(node, ast.Name):
            return self.resolve(module, node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            holder = self.resolve(module, node.value.id)
            if isinstance(holder, ModuleValue):
                return self.member(holder, node.attr)
        return NOTHING

    # Running

    def _frame(self, module: ModuleInfo, function: ast.AST | None, qualname: str) -> Frame:
        return Frame(self, module, function, qualname)

    def run_module(self, module: ModuleInfo) -> Frame:
        """The module's own body, once."""
        found = self._globals.get(id(module))
        if found is None:
            found = self._frame(module, None, "<module>")
            self._globals[id(module)] = found
            with _Budget(self):
                self._guarded(lambda: run_body(module.tree.body, found))
            self._finished.add(id(module))
        return found

    def run_unit(self, module: ModuleInfo, unit: Unit) -> Frame | None:
        """A function on its own, once: its parameters are what annotations and defaults say. None when it is under
        way.
        """
        if unit.node in self._units:
            return self._units[unit.node]
        if unit.parent is not None:
            self.run_unit(module, unit.parent)
            if unit.node in self._units:
                return self._units[unit.node]
        if module.checked:
            self.run_module(module)
        self._units[unit.node] = None
        return self._run_unit(module, unit)

    def _run_unit(self, module: ModuleInfo, unit: Unit) -> Frame:
        amid_questions, partial_reads = bool(self._open), self._partial_reads
        frame = self._frame(module, unit.node, unit.qualname)
        outer = self._units.get(unit.parent.node) if unit.parent is not None else None
        frame.scope = None if outer is None else {**(outer.scope or {}), **outer.env}
        frame.owner = unit.owner
        if unit.owner is None and outer is not None:
            frame.owner = outer.owner
            frame.self_name = outer.self_name
        receiver = Instance(unit.owner) if unit.owner is not None else None
        self._bind(frame, unit.node, receiver, [], {}, own=True)
        body = self._globals.get(id(module))
        frame.default_device = body.default_device if body is not None else None
        if frame.default_device is None and module.sets_default_device:
            frame.default_device = SOMEWHERE
        frame.depth = 0 if unit.node in self.sought else MAX_DEPTH - SIDE_DEPTH
        with _Budget(self, MAX_STEPS if unit.node in self.sought else MAX_SIDE_STEPS):
            self._stack.append(unit.node)
            frame.exhausted = not self._guarded(lambda: self._finish(frame, unit.node.body))
            self._stack.pop()
        self._units[unit.node] = frame
        if amid_questions and self._partial_reads != partial_reads:
            self._hasty.add(unit.node)
        return frame

    def settle(self, module: ModuleInfo) -> None:
        """Run again what was run too early: what it reads can be looked up in full now, its own stores included."""
        for unit in module.units:
            if unit.node not in self._hasty or unit.node not in self.sought:
                continue
            self._hasty.discard(unit.node)
            seen = self.outcomes.get(module.file, [])
            mine = [one for one in seen if one.root is unit.node]
            if mine and all(one.verdict in _HARMLESS for one in mine):
                continue
            self.outcomes[module.file] = [one for one in seen if one.root is not unit.node]
            self._run_unit(module, unit)

    def _finish(self, frame: Frame, body: list[ast.stmt]) -> None:
        frame.falls_through = run_body(body, frame)

    def _guarded(self, run: Callable[[], object]) -> bool:
        """Run within the budget; False when that ended first."""
        depth = len(self._stack)
        try:
            run()
        except BudgetExceededError:
            del self._stack[depth:]
            return False
        return True

    def record(self, outcome: Outcome) -> None:
        """Remember what a copy does on one way."""
        self.outcomes.setdefault(outcome.module, []).append(outcome)

    def register(self, storage: int, memory: Memory, trail: Trail) -> None:
        """Memory that was page-locked after it was allocated."""
        self._registered[storage] = (memory, trail)

    def registered(self, array: Array) -> Array:
        """The array, pinned if its memory was page-locked since."""
        found = self._registered.get(array.storage) if array.storage else None
        return array if found is None or array.memory is Memory.PINNED else array.but(memory=found[0], trail=found[1])

    def fresh_storage(self) -> int:
        """A number for newly allocated memory."""
        self._storage += 1
        return self._storage

    # Calls

    def call_function(
        self, function: Function, args: list[Value], keywords: dict[str, Value], frame: Frame, node: ast.AST, key: str
    ) -> Value:
        """Run the function with these arguments, or remember how that went before."""
        name = getattr(function.node, "name", "")
        if is_availability_name(name):
            return Available()
        wrapped = self._decorated(function, frame, node)
        if wrapped is not None:
            return self._call_wrapped(wrapped, function, args, keywords, frame, node)
        if is_wsl_name(name):
            return Const(False)
        if frame.depth >= MAX_DEPTH or function.node in self._stack or _is_opaque(function.node):
            return NOTHING
        overrides = _overrides(frame, key)
        device = frame.default_device
        known = self._known_result(function, args, keywords, overrides, frame)
        if known is not None:
            value, stored = known
            for name, held in stored.items():
                if key:
                    frame.store_attribute(f"{key}.{name}", held, node)
            return value
        memo = _memo_key(function, args, keywords, overrides, device, node)
        found = self._summaries.get(memo) if memo is not None else None
        if found is None:
            found = self._run_call(function, args, keywords, overrides, frame, node)
            if memo is not None:
                self._summaries[memo] = found
        value, stored = found
        for name, held in stored.items():
            if key:
                frame.store_attribute(f"{key}.{name}", held, node)
        return value

    def _decorated(self, function: Function, frame: Frame, node: ast.AST) -> Value | None:
        """What the decorators that are not known to leave a function as it is make of it; None when there are none."""
        if function.node in self._undecorated or isinstance(function.node, ast.Lambda):
            return None
        changing = [one for one in function.node.decorator_list if not is_transparent(one)]
        if not changing or frame.depth >= MAX_DEPTH:
            return None
        self._undecorated.add(function.node)
        outside = self._frame(function.module, None, "<decorator>")
        outside.depth = frame.depth + 1
        outside.scope = function.scope
        value: Value = function
        for decorator in reversed(changing):
            made_by = evaluate(decorator, outside)
            if not isinstance(made_by, Function):
                value = NOTHING
                break
            value = self.call_function(made_by, [value], {}, outside, node, "")
        self._undecorated.discard(function.node)
        return value if isinstance(value, Function) else NOTHING

    def _call_wrapped(
        self,
        wrapped: Value,
        function: Function,
        args: list[Value],
        keywords: dict[str, Value],
        frame: Frame,
        node: ast.AST,
    ) -> Value:
        if not isinstance(wrapped, Function):
            return NOTHING
        self._undecorated.add(function.node)
        given = [function.receiver, *args] if function.receiver is not None else args
        result = self.call_function(wrapped, given, keywords, frame, node, "")
        self._undecorated.discard(function.node)
        return result

    def _known_result(
        self, function: Function, args: list[Value], keywords: dict[str, Value], overrides: Environment, frame: Frame
    ) -> tuple[Value, Environment] | None:
        """The result of the function on its own, for a call whose arguments tell nothing more than it assumes."""
        unit = function.module.unit_of_node.get(function.node)
        if unit is None or unit.parent is not None or frame.default_device is not None:
            return None
        if isinstance(function.receiver, Instance) and function.receiver.fields is not None:
            return None
        values = [*args, *keywords.values(), *overrides.values()]
        if not all(_tells_nothing(value) for value in values) or _leaves_switches(
            unit.node, len(args) + (function.receiver is not None), set(keywords)
        ):
            return None
        inner = self.run_unit(function.module, unit)
        if inner is None:
            return NOTHING, {}
        _hand_globals(inner, frame)
        stored = _left_in_receiver(inner)
        return _result(inner, inner.falls_through), stored

    def _run_call(
        self,
        function: Function,
        args: list[Value],
        keywords: dict[str, Value],
        overrides: Environment,
        frame: Frame,
        node: ast.AST,
    ) -> tuple[Value, Environment]:
        inner = self._frame(function.module, function.node, getattr(function.node, "name", "<lambda>"))
        inner.scope = function.scope if function.node not in frame.defined else {**(frame.scope or {}), **frame.env}
        inner.owner = function.owner
        inner.depth = frame.depth + 1
        inner.root = frame.root
        inner.root_file = frame.root_file
        inner.context = (*frame.context, node)
        inner.default_device = frame.default_device
        inner.way = frame.way
        if function.receiver is None and function.node in frame.defined:
            inner.self_name = frame.self_name
        self._bind(inner, function.node, function.receiver, args, keywords, own=False)
        for name, held in overrides.items():
            inner.env[f"{inner.self_name}.{name}"] = held
            inner.dotted = True
        self._stack.append(function.node)
        try:
            if isinstance(function.node, ast.Lambda):
                return evaluate(function.node.body, inner), {}
            falls_through = run_body(function.node.body, inner)
        finally:
            self._stack.pop()
        if function.node in frame.defined:
            self._hand_out(inner, frame)
        _hand_globals(inner, frame)
        stored = _left_in_receiver(inner)
        return mapped(_result(inner, falls_through), lambda value: _as_left(value, function.receiver, stored)), stored

    def _hand_out(self, inner: Frame, frame: Frame) -> None:
        """What a nested function changed of its enclosing function: variables, and attributes of the same `self`."""
        for name, held in inner.outer_writes.items():
            frame.rebind(name, held)
        if inner.self_name and inner.self_name == frame.self_name:
            for name, stores in inner.stores.items():
                for held, node in stores:
                    frame.store_attribute(f"{frame.self_name}.{name}", held, node)

    def construct(
        self, info: ClassInfo, args: list[Value], keywords: dict[str, Value], frame: Frame, node: ast.AST
    ) -> Value:
        """An object of a project class: what its constructor stores, given these arguments."""
        made = self._construct(info, args, keywords, frame, node)
        if isinstance(made, Instance) and frame.module is info.module:
            self._constructions.setdefault(info, []).append((made, node))
        return made

    def _construct(
        self, info: ClassInfo, args: list[Value], keywords: dict[str, Value], frame: Frame, node: ast.AST
    ) -> Value:
        constructor = _find_method(self, info, "__init__")
        if constructor is None:
            return self._record_object(info, args, keywords, frame, node)
        if frame.depth >= MAX_DEPTH or constructor.node in self._stack:
            return Instance(info)
        bound = Function(constructor.node, constructor.module, constructor.owner, Instance(info, ()))
        _, stored = self._run_call(bound, args, keywords, {}, frame, node)
        if self.is_movable(info):
            stored = {name: _moves_with(held, f"{info.qualname}.{name}") for name, held in stored.items()}
        return Instance(info, tuple(stored.items()))

    def _record_object(
        self, info: ClassInfo, args: list[Value], keywords: dict[str, Value], frame: Frame, node: ast.AST
    ) -> Value:
        """A dataclass or NamedTuple: its fields are its arguments."""
        fields = _dataclass_fields(self, info)
        if not fields:
            return Instance(info, ())
        values: dict[str, Value] = {}
        for (name, _), value in zip(fields, args, strict=False):
            values[name] = value
        for name, statement in fields:
            if name in keywords:
                values[name] = keywords[name]
            elif name not in values:
                values[name] = self._field_default(info, statement)
        made = Instance(info, tuple(values.items()))
        after = _find_method(self, info, "__post_init__")
        if after is None or frame.depth >= MAX_DEPTH or after.node in self._stack:
            return made
        _, stored = self._run_call(Function(after.node, after.module, after.owner, made), [], {}, {}, frame, node)
        return Instance(info, tuple({**values, **stored}.items()))

    def _field_default(self, info: ClassInfo, statement: ast.AnnAssign | ast.Assign) -> Value:
        value = statement.value
        if value is None:
            return NOTHING
        if isinstance(value, ast.Call):
            options = {keyword.arg: keyword.value for keyword in value.keywords}
            value = options.get("default")
            if value is None:
                return NOTHING
        found = evaluate(value, self._frame(info.module, statement, info.qualname))
        return (
            Const(found.value, True, statement) if isinstance(found, Const) and isinstance(found.value, bool) else found
        )

    # Parameters

    def _bind(
        self,
        frame: Frame,
        node: ast.AST,
        receiver: Value | None,
        args: list[Value],
        keywords: dict[str, Value],
        *,
        own: bool,
    ) -> None:
        """Parameters: what was passed, else the default, else what the annotation says."""
        arguments: ast.arguments = node.args  # type: ignore[attr-defined]
        positional = [*arguments.posonlyargs, *arguments.args]
        given = list(args)
        static = "staticmethod" in decorator_names(node)
        if receiver is not None and not static and positional:
            frame.self_name = positional[0].arg
            if own and "classmethod" in decorator_names(node) and isinstance(receiver, Instance):
                receiver = Class(receiver.info)
            given.insert(0, receiver)
        defaults: dict[str, ast.expr] = {}
        for parameter, default in zip(reversed(positional), reversed(arguments.defaults), strict=False):
            defaults[parameter.arg] = default
        for parameter, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if keyword_default is not None:
                defaults[parameter.arg] = keyword_default
        for position, parameter in enumerate(positional):
            if position < len(given):
                frame.env[parameter.arg] = given[position]
        for parameter in [*positional, *arguments.kwonlyargs]:
            if parameter.arg in frame.env:
                continue
            if parameter.arg in keywords:
                frame.env[parameter.arg] = keywords[parameter.arg]
            else:
                frame.env[parameter.arg] = self._parameter(frame, parameter, defaults.get(parameter.arg), own)
        if arguments.vararg is not None:
            extra = given[len(positional) :]
            frame.env[arguments.vararg.arg] = Sequence(tuple(extra)) if not own else Sequence(None, NOTHING)
        if arguments.kwarg is not None:
            names = {parameter.arg for parameter in [*positional, *arguments.kwonlyargs]}
            from h2dlint.facts.domain import Mapping

            rest = tuple((name, value) for name, value in keywords.items() if name not in names)
            frame.env[arguments.kwarg.arg] = Mapping(rest, NOTHING if own else None)

    def _parameter(self, frame: Frame, parameter: ast.arg, default: ast.expr | None, own: bool) -> Value:
        key = f"{frame.qualname}.{parameter.arg}"
        declared = annotated_value(parameter.annotation, key, frame)
        if default is None:
            return declared
        outside = self._frame(frame.module, frame.function, frame.qualname)
        value = evaluate(default, outside)
        if isinstance(value, Const):
            if value.value is None:
                return join((declared, value)) if own else value
            if isinstance(value.value, bool):
                return Const(value.value, own or value.soft, default)
            return declared if own or not isinstance(value.value, int) else value
        if isinstance(value, Available):
            return value
        return value if not own or isinstance(declared, Unknown) else declared

    # Attributes

    def attribute(self, info: ClassInfo, name: str) -> Value:
        """What the class stores in `self.name`, in any method, for any construction that is seen."""
        key = (id(info), name)
        found = self._attributes.get(key)
        if found is not None:
            return found
        if key in self._open:
            self._incomplete = True
            self._partial_reads += 1
            return join(self._open[key]) if self._open[key] else NOTHING
        outer_incomplete, self._incomplete = self._incomplete, False
        values: list[Value] = []
        self._open[key] = values
        tags: list[tuple[Tag, ...]] = []
        for owner in (*self.lineage(info), *info.module.subclasses(info)):
            self._stored_by(owner, name, values, tags)
        self._stored_outside(info, name, values, tags)
        del self._open[key]
        if all(isinstance(held, Const) and held.value is None for held in values):
            # Nobody here ever fills it: somebody else does.
            values.append(Unknown(f"{info.qualname}.{name}"))
            tags.append(())
        value = join(values, tags) if values else Unknown(f"{info.qualname}.{name}")
        if self.is_movable(info):
            value = _moves_with(value, f"{info.qualname}.{name}")
        value = mapped(value, _written_elsewhere)
        if isinstance(value, Unknown) and not value.key:
            value = Unknown(f"{info.qualname}.{name}", value.why)
        if not self._incomplete:
            self._attributes[key] = value
        self._incomplete = bool(self._open) and (self._incomplete or outer_incomplete)
        return value

    def is_movable(self, info: ClassInfo) -> bool:
        """Whether objects of the class are nn.Modules: made under any default device, and moved with all they hold."""
        for owner in self.lineage(info):
            for base in owner.node.bases:
                name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base).rpartition(".")[2]
                if name not in owner.module.classes and name.endswith(_MODULE_NAMES):
                    return True
        return False

    def lineage(self, info: ClassInfo) -> list[ClassInfo]:
        """The class and its bases inside the project, nearest first."""
        found = [info]
        for owner in found:
            for base in self.class_bases(owner):
                if isinstance(base, Class) and base.info not in found and len(found) < 8:
                    found.append(base.info)
        return found

    def _stored_by(self, info: ClassInfo, name: str, values: list[Value], tags: list[tuple[Tag, ...]]) -> None:
        module = info.module
        if info.is_dataclass and name in info.assigned:
            for made, site in self.constructions(info):
                held = dict(made.fields or ()).get(name)
                if held is not None:
                    values.append(_softened(held))
                    tags.append((Tag("caller", site, path=module.path),))
            if not values:
                values.append(self._declared_field(info, name))
                tags.append(())
        for method in info.methods_naming(name):
            plain = module.plain_stores(method, name)
            if plain is not None and not (
                method.name == "__init__" and self._from_constructions(info, name, values, tags)
            ):
                for text in plain:
                    values.append(self._plain_value(info, method, name, text))
                    tags.append((Tag("store", method, path=module.path),))
            if plain is not None:
                continue
            unit = module.unit_of_node[method]
            if method.name == "__init__" and self._from_constructions(info, name, values, tags):
                continue
            for one in (unit, *self._inner_units(module, unit, name)):
                frame = self.run_unit(module, one)
                if frame is None:
                    self._hasty.add(one.node)
                    self._incomplete = True
                    self._partial_reads += 1
                    continue
                for held, node in frame.stores.get(name, ()):
                    values.append(held)
                    tags.append((Tag("store", node, path=module.path),))
                if frame.exhausted:
                    values.append(Unknown(f"{info.qualname}.{name}"))
                    tags.append(())

    def _stored_outside(self, info: ClassInfo, name: str, values: list[Value], tags: list[tuple[Tag, ...]]) -> None:
        """What other functions of the module store in `thing.name`, where thing is such an object."""
        for unit in info.module.units_storing_outside(name):
            frame = self.run_unit(info.module, unit)
            if frame is None:
                self._incomplete = True
                self._partial_reads += 1
                continue
            for owner, held, node in frame.outside_stores.get(name, ()):
                if owner is info or info in self.lineage(owner):
                    values.append(held)
                    tags.append((Tag("store", node, path=info.module.path),))
        if info.pins_by_name and values:
            values.append(Unknown(f"{info.qualname}.{name}"))
            tags.append(())

    def _inner_units(self, module: ModuleInfo, unit: Unit, name: str) -> list[Unit]:
        """Functions inside a method that store the attribute, through the method's own `self`."""
        lines = module.lines_storing(name)
        return [one for one in module.units if one.parent is unit and holds(one.node, lines)]

    def _plain_value(self, info: ClassInfo, method: ast.AST, name: str, text: str) -> Value:
        """A literal, a parameter or part of a configuration, without running the function that stores it."""
        if text in _parameters(method):
            frame = self._frame(info.module, method, f"{info.qualname}.{getattr(method, 'name', '')}")
            self._bind(frame, method, Instance(info), [], {}, own=True)
            return frame.env.get(text, NOTHING)
        if text[0].isalpha() and text not in ("None", "True", "False"):
            return Unknown(f"{info.qualname}.{name}")
        return Const(ast.literal_eval(text))

    def _declared_field(self, info: ClassInfo, name: str) -> Value:
        statement = info.assigned[name]
        default = self._field_default(info, statement)
        if not isinstance(default, Unknown):
            return default
        annotation = statement.annotation if isinstance(statement, ast.AnnAssign) else None
        return annotated_value(
            annotation, f"{info.qualname}.{name}", self._frame(info.module, statement, info.qualname)
        )

    def _from_constructions(self, info: ClassInfo, name: str, values: list[Value], tags: list[tuple[Tag, ...]]) -> bool:
        """The constructor's store, by construction site: arguments decide. False when no site is seen."""
        made = [(dict(instance.fields or ()).get(name), site) for instance, site in self.constructions(info)]
        found = [(held, site) for held, site in made if held is not None]
        for held, site in found:
            values.append(_softened(held))
            tags.append((Tag("caller", site, path=info.module.path),))
        return bool(found)

    def constructions(self, info: ClassInfo) -> list[tuple[Instance, ast.AST]]:
        """The objects of a class that its own module makes."""
        if info not in self._asked_callers:
            self._asked_callers.add(info)
            self.run_callers(info.module, info.name, set(info.methods.values()))
            for method in info.methods.values():
                if decorator_names(method) & {"classmethod", "staticmethod"}:  # a factory, with `cls(...)`
                    self.run_unit(info.module, info.module.unit_of_node[method])
        return [(made, site) for made, site in self._constructions.get(info, []) if not _remakes_itself(info, site)]

    def run_callers(self, module: ModuleInfo, name: str, without: Collection[ast.AST]) -> None:
        """Look at the functions of the module that name `name`, so that its calls are seen with their arguments."""
        if module.checked:
            self.run_module(module)
        for unit in module.units_naming(name)[:MAX_CALLERS]:
            if unit.node not in without:
                self.run_unit(module, unit)


class _Budget:
    """A step count of its own for the function that starts to be looked at; the outer one's goes on afterwards."""

    def __init__(self, project: Project, limit: int = MAX_STEPS) -> None:
        self._project = project
        self._steps = Steps(limit)

    def __enter__(self) -> None:
        self._project.steps, self._steps = self._steps, self._project.steps

    def __exit__(self, *exc: object) -> None:
        self._project.steps, self._steps = self._steps, self._project.steps


def _module_name(path: str) -> str:
    """The dotted name of a file, from the packages around it."""
    folder, file = os.path.split(path)
    parts = [] if file == "__init__.py" else [file.removesuffix(".py")]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        parts.insert(0, package)
    return ".".join(parts)


_MODULE_NAMES = (
    "Module",
    "Model",
    "Layer",
    "Net",
    "Network",
    "Embedding",
    "Encoder",
    "Decoder",
    "Attention",
    "MLP",
    "Block",
    "Head",
    "Transformer",
    "Backbone",
)
"""How classes of other modules that are nn.Modules are usually called."""


def _moves_with(value: Value, key: str) -> Value:
    """What a module holds lies wherever the module was moved to."""
    return mapped(value, lambda held: _moves_along(held, key))


def _moves_along(value: Value, key: str) -> Value:
    if (
        isinstance(value, Array)
        and value.device.is_cpu
        and value.memory is Memory.PAGEABLE
        and value.kind in ("tensor", "module")
    ):
        return value.but(device=Device("", key), memory=Memory.UNKNOWN)
    return value


def _written_elsewhere(value: Value) -> Value:
    """A buffer that lives in an object is there to be filled: what it was made of says nothing about what it holds."""
    return value.but(index_built=False) if isinstance(value, Array) and value.index_built else value


def _declares_global(node: ast.AST, name: str) -> bool:
    return any(isinstance(inner, ast.Global) and name in inner.names for inner in ast.walk(node))


def _is_opaque(node: ast.AST) -> bool:
    return any(name.rpartition(".")[2] in _OPAQUE for name in decorator_names(node))


def _overrides(frame: Frame, key: str) -> Environment:
    if not key or not frame.dotted:
        return {}
    prefix = key + "."
    return {
        name[len(prefix) :]: value
        for name, value in frame.env.items()
        if name.startswith(prefix) and "." not in name[len(prefix) :]
    }


def _memo_key(
    function: Function,
    args: list[Value],
    keywords: dict[str, Value],
    overrides: Environment,
    device: object,
    node: ast.AST,
) -> object:
    if function.scope is not None:
        return None
    receiver = function.receiver
    return (
        id(function.node),
        signature(receiver)
        if receiver is not None and not isinstance(receiver, Instance)
        else id(receiver.fields)
        if isinstance(receiver, Instance) and receiver.fields
        else None,
        tuple(id(value) for value in args),
        tuple((name, id(value)) for name, value in keywords.items()),
        tuple((name, id(value)) for name, value in overrides.items()),
        device,
        id(node),
    )


def _result(frame: Frame, falls_through: bool) -> Value:
    if frame.yields:
        return Sequence(None, join(frame.yields))
    values = [value for value, _ in frame.returns]
    tags = [tags for _, tags in frame.returns]
    if falls_through:
        values.append(Const(None))
        tags.append(())
    return join(values, tags) if values else NOTHING


def _softened(value: Value) -> Value:
    """A flag or a number of one visible object: others may be made elsewhere, where it is not the same."""
    if isinstance(value, Const) and isinstance(value.value, (bool, int, str)):
        return Const(value.value, True, value.origin)
    return value


def _remakes_itself(info: ClassInfo, site: ast.AST) -> bool:
    """Whether an object is made by a method of another one like it: that says nothing of where the first came from."""
    line: int = getattr(site, "lineno", 0)
    for method in info.methods.values():
        if method.lineno <= line <= (method.end_lineno or method.lineno):
            return not decorator_names(method) & {"classmethod", "staticmethod"}
    return False


def _hand_globals(inner: Frame, frame: Frame) -> None:
    """What a called function rebinds of the module's variables, its caller sees when it is the module itself."""
    if frame.function is None and frame.module is inner.module:
        frame.env.update({name: inner.env[name] for name in inner.globals if name in inner.env})


def _parameters(method: ast.AST) -> set[str]:
    arguments: ast.arguments = method.args  # type: ignore[attr-defined]
    return {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


def _left_in_receiver(frame: Frame) -> Environment:
    """What a method's receiver holds, by attribute, when the method is done."""
    held = {name: frame.env.get(f"{frame.self_name}.{name}") for name in frame.stores}
    return {name: value for name, value in held.items() if value is not None}


def _tells_nothing(value: Value) -> bool:
    """Whether an argument says no more than an unknown parameter does."""
    if isinstance(value, Instance):
        return value.fields is None
    return isinstance(value, (Unknown, Number))


def _leaves_switches(node: ast.AST, count: int, keywords: set[str]) -> bool:
    """Whether the call leaves out a parameter whose default is more than a guess there."""
    arguments: ast.arguments = node.args  # type: ignore[attr-defined]
    positional = [*arguments.posonlyargs, *arguments.args]
    with_default = positional[len(positional) - len(arguments.defaults) :]
    given = {parameter.arg for parameter in positional[:count]} | keywords
    optional = with_default + [
        one for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is not None
    ]
    return any(parameter.arg not in given for parameter in optional) or arguments.vararg is not None


def _as_left(value: Value, receiver: Value | None, stored: Environment) -> Value:
    """A method that returns its own object returns it as it left it."""
    if value is not receiver or not isinstance(value, Instance) or value.fields is None or not stored:
        return value
    kept = tuple((name, held) for name, held in value.fields if name not in stored)
    return Instance(value.info, (*kept, *stored.items()))


def _find_method(project: Project, info: ClassInfo, name: str) -> Function | None:
    for owner in project.lineage(info):
        if name in owner.methods:
            return Function(owner.methods[name], owner.module, owner)
    return None


def _dataclass_fields(project: Project, info: ClassInfo) -> list[tuple[str, ast.AnnAssign | ast.Assign]]:
    found: dict[str, ast.AnnAssign | ast.Assign] = {}
    for owner in reversed(project.lineage(info)):
        if owner.is_dataclass:
            found.update(
                {name: statement for name, statement in owner.assigned.items() if isinstance(statement, ast.AnnAssign)}
            )
    return list(found.items())
