"""What a name stands for: a definition, an import, a variable of a module or class, a base class."""

from __future__ import annotations

import ast
import builtins
import os

from h2dlint.facts.attributes import named_attribute
from h2dlint.facts.domain import (
    NOTHING,
    Available,
    Class,
    Const,
    DType,
    Function,
    Mapping,
    ModuleValue,
    Named,
    Sequence,
    Tag,
    Unknown,
    Value,
    join,
)
from h2dlint.facts.evaluate import evaluate
from h2dlint.facts.finder import keeps_objects, without_the_rest
from h2dlint.facts.flags import DEFINITELY_TRUE, Truth, is_availability_name, truth
from h2dlint.facts.late_text import parse_late
from h2dlint.facts.modules import Binding, Bound, ClassInfo, ModuleInfo, Unit, grows
from h2dlint.facts.running import Running, Spent

_BUILTINS = frozenset(dir(builtins))


class Names(Running):
    """The part of a project that knows its modules and what their names stand for."""

    def module(self, path: str, text: str, tree: ast.Module) -> ModuleInfo:
        """The module of a file that is being checked."""
        key = os.path.abspath(path)
        info = self._modules.get(key)
        if info is None or info.text != text:
            self.sightings.pop(key, None)
            self.outcomes.pop(key, None)  # those of an earlier reading: another tree
            self.asked_roots.pop(key, None)
            info = self._modules[key] = ModuleInfo(path, text, tree, self._finder.module_name(key), key)
        elif not info.checked:
            self._forget(info)
            info.read_all(tree)
        info.path = path
        info.checked = info.whole = True  # others may have asked for part of it, and it is all of it
        self._under_check = key
        self._read_whole = set()
        self.spent = Spent()
        return info

    def _forget(self, module: ModuleInfo) -> None:
        """Forget what was seen of a module from outside: who asked, and in which order, must make no difference to what
        it is found to do by itself.
        """
        nodes = {unit.node for unit in module.units}
        for node in nodes:
            self._units.pop(node, None)
            self._hasty.discard(node)
            self._run_twice.discard(node)
        self.outcomes[module.file] = [one for one in self.outcomes.get(module.file, ()) if one.root not in nodes]
        classes = module.classes.values()
        self._asked_callers.difference_update(classes)
        for info in classes:
            self._constructions.pop(info, None)
        stale = set(map(id, classes))
        for key in [key for key in self._attributes if key[0] in stale]:
            del self._attributes[key]

    def load(self, file: str, whole: bool = False) -> ModuleInfo | None:
        """The module in a file of the project, read when it is first asked for; `whole`: with all its functions."""
        if whole:
            self._read_whole.add(file)
        known = self._modules.get(file)
        if file not in self._modules or (whole and known is not None and not known.whole):
            text = self._finder.text_of(file)
            text = text if whole else without_the_rest(text, self._finder.declared)
            tree = parse_late(text)
            shown = os.path.relpath(file).replace(os.sep, "/")
            self._modules[file] = (
                None if tree is None else ModuleInfo(shown, text, tree, self._finder.module_name(file), file, whole)
            )
        return self._modules[file]

    def newest(self, function: Function) -> Function:
        """The function as the last reading of its module has it: who imported the module before kept an earlier one."""
        last = self._modules.get(function.module.file)
        if last is None or last is function.module:
            return function
        unit = function.module.unit_of_node.get(function.node)
        other = last.unit_at(unit.qualname, unit.node.lineno) if unit is not None else None
        if other is None:
            return function
        return Function(other.node, last, other.owner, function.receiver, function.scope)

    def callers_elsewhere(self, module: ModuleInfo, word: str, most: int) -> list[tuple[ModuleInfo, Unit]]:
        """The outermost functions of other modules whose text calls `word`, a function or class of this module or a
        method of one; none where they stand in more than `most` modules, or are too many.
        """
        if module.defines(word):
            files = self._mentions.files_importing(word, module.name, module.file)
        else:
            files = self._mentions.files_calling(word, module.file)
        found: list[tuple[ModuleInfo, Unit]] = []
        for other in self._loaded(files, module, most):
            for name in (word, *other.aliases_of(word)):
                found.extend((other, unit) for unit in other.units_calling(name))
        return found if len(found) <= self.options.max_caller_sites else []

    def modules_storing(self, attribute: str, asker: ModuleInfo, most: int) -> list[ModuleInfo]:
        """The other modules of the project that assign some `.attribute`; none where they are more than `most`."""
        return self._loaded(self._mentions.files_storing(attribute, asker.file), asker, most)

    def _loaded(self, files: list[str] | None, asker: ModuleInfo, most: int) -> list[ModuleInfo]:
        if files is None or len(files) > most:
            return []
        for file in files:
            self.note_use(asker.file, file)
        modules = [self.load(file, whole=True) for file in files]
        return [module for module in modules if module is not None]

    def resolve(self, module: ModuleInfo, name: str) -> Value:
        """A module-level name of `module`; a dotted name is a variable of a class body."""
        known = self.names_seen(module)
        found = known.get(name)
        if found is None:
            partial_reads = self._partial_reads
            found = self._resolve(module, name)
            # What is not followed now may be, when the module that it comes from is under check.
            follows = not isinstance(found, Named) or name not in module.imports or self._is_foreign(module, name)
            if follows and self._ready(module) and partial_reads == self._partial_reads:
                known[name] = found
        return found

    def names_seen(self, module: ModuleInfo) -> dict[str, Value]:
        """The names of a module that were looked up before, as it is seen for the file under check."""
        if module.file == self._under_check:
            return module.resolved
        return module.resolved_by_readers if module.file in self._read_whole else module.resolved_outside

    def _is_left_out(self, module: ModuleInfo, name: str) -> bool:
        """Whether a definition would not be there had nobody else had the whole module read."""
        seen = module.file == self._under_check or module.file in self._read_whole
        return not seen and not self._finder.worth_following(module.file, name)

    def _is_foreign(self, module: ModuleInfo, name: str) -> bool:
        """Whether an import leads out of the project."""
        return self._finder.file_of(module.imports[name][0], module.file) is None

    def _ready(self, module: ModuleInfo) -> bool:
        """Whether the module's body has been run to its end, so that its variables have their last values."""
        return id(module) in self._finished or module.file != self._under_check

    def _resolve(self, module: ModuleInfo, name: str) -> Value:
        if "." in name:
            return self._class_variable(module, name)
        ways: list[Binding] = module.ways.get(name, [])
        if len(ways) > 1:
            ways = [way for way in ways if self._is_reached(module, way)] or ways
            tags = [(_way_tag(module, way),) for way in ways]
            return join([self._bound_to(module, name, way.what) for way in ways], tags)
        if name in module.assigned:
            return self._global(module, name)
        if name in module.functions or name in module.classes:
            if module.whole and self._is_left_out(module, name):
                return Unknown(f"{module.path}:{name}")
            if name in module.functions:
                return Function(module.functions[name], module)
            return Class(module.classes[name])
        if name in module.imports:
            return self.imported(module, *module.imports[name])
        if name in _BUILTINS:
            return Named(f"builtins.{name}")
        return self._from_star(module, name) or Unknown(f"{module.path}:{name}")

    def _is_reached(self, module: ModuleInfo, way: Binding) -> bool:
        """Whether a binding may be the one where an accelerator is present."""
        frame = self._frame(module, None, "<module>")
        for test, holds in way.tests:
            key = (id(module), f"if {test.lineno}:{test.col_offset}")
            if key in self._asked_globals:
                continue  # the condition asks for the very name
            self._asked_globals.add(key)
            found = truth(evaluate(test, frame))
            self._asked_globals.discard(key)
            if found is Truth.FALSE if holds else found in DEFINITELY_TRUE:
                return False
        return True

    def _bound_to(self, module: ModuleInfo, name: str, what: Bound) -> Value:
        """One of several things that a name may be: another branch, another version, another package."""
        if what is None:
            return self._global(module, name)
        if isinstance(what, tuple):
            return self.imported(module, *what)
        return Class(what) if isinstance(what, ClassInfo) else Function(what, module)

    def _from_star(self, module: ModuleInfo, name: str) -> Value | None:
        """A name that `from other import *` may have brought."""
        for other in module.star_imports:
            file = self._finder.file_of(other, module.file)
            if file is not None:
                self.note_use(module.file, file)
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
        self.note_use(module.file, file)
        holder = ModuleValue(name, file)
        return holder if attribute is None else self.member(holder, attribute)

    def member(self, module: ModuleValue, name: str) -> Value:
        """`name` of another module: what it defines or passes on, a module below it, or just the longer name."""
        key = (module.file, name)
        if key in self._asked_members:
            return NOTHING
        self._asked_members.add(key)
        try:
            worth = module.file == self._under_check or self._finder.worth_following(module.file, name)
            info = self.load(module.file) if worth else None
            if info is not None and (info.defines(name) or info.star_imports):
                return self.resolve(info, name)
            dotted = f"{module.name}.{name}"
            below = self._finder.file_of(dotted, module.file)
            if below is not None:
                self.note_use(module.file, below)
            return ModuleValue(dotted, below) if below is not None else Named(dotted)
        finally:
            self._asked_members.discard(key)

    def _global(self, module: ModuleInfo, name: str) -> Value:
        inside = module.file == self._under_check
        value = self.run_module(module).env.get(name, NOTHING) if inside else self._assigned(module, name)
        if is_availability_name(name) and name.isupper() and isinstance(value, (Unknown, Named)):
            return Available()
        if name in module.declared_for_types and isinstance(value, Const):
            value = Const(value.value, True, value.origin)
        if _holds_code(value) and grows(module.text if module.whole else self._finder.text_of(module.file), name):
            value = _with_others(value)
        if name not in module.declared_global:
            return value
        values = [value]
        for unit in module.units_rebinding(name):
            inner = self.run_unit(module, unit)
            if inner is None:
                self._partial_reads += 1
                self._hasty.add(unit.node)
                if self._stack and self._stack[-1] is unit.node:
                    self._own_stores.add(unit.node)
            values.extend(held for held, _ in (inner.stores.get(f"global {name}", ()) if inner else ()))
            if inner is None and value == Const(None):
                values.append(Unknown(name))  # no answer while it is not known what replaces it
            if inner is not None and inner.exhausted:
                values.append(NOTHING)
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

    # Classes

    def class_bases(self, info: ClassInfo) -> list[Value]:
        """The base classes that can be found."""
        if not info.node.bases:
            return []
        known = self._bases.get(info)
        if known is None:
            nodes = [base.value if isinstance(base, ast.Subscript) else base for base in info.node.bases]
            known = [self._base(info.module, node) for node in nodes]
            if self._ready(info.module):
                self._bases[info] = known
        return known

    def _base(self, module: ModuleInfo, node: ast.expr) -> Value:
        if isinstance(node, ast.Name):
            found = self.resolve(module, node.id)
            if type(found) is Named and node.id in module.imports:
                return self._maker(module, *module.imports[node.id]) or found
            return found
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            holder = self.resolve(module, node.value.id)
            if isinstance(holder, ModuleValue):
                return self.member(holder, node.attr)
        return NOTHING

    def _maker(self, module: ModuleInfo, name: str, attribute: str | None) -> Value | None:
        """A class of another module that is not worth reading but for the objects that it makes and keeps: classes that
        derive from it use them.
        """
        file = self._finder.file_of(name, module.file) if attribute is not None else None
        if file is None or attribute is None or not keeps_objects(self._finder.text_of(file), attribute):
            return None
        other = self.load(file, whole=True)
        return self.resolve(other, attribute) if other is not None and attribute in other.classes else None

    def lineage(self, info: ClassInfo) -> list[ClassInfo]:
        """The class and its bases inside the project, nearest first."""
        if not info.node.bases:
            return [info]
        found = [info]
        for owner in found:
            for base in self.class_bases(owner):
                if isinstance(base, Class) and base.info not in found and len(found) < 8:
                    found.append(base.info)
        return found

    def is_movable(self, info: ClassInfo) -> bool:
        """Whether objects of the class are nn.Modules: made under any default device, and moved with all they hold."""
        for owner in self.lineage(info):
            for base in owner.node.bases:
                name = _last_name(base.value if isinstance(base, ast.Subscript) else base)
                if name not in owner.module.classes and (name.endswith(_MODULE_NAMES) or owner.registers):
                    return True
        return False


def _last_name(base: ast.expr) -> str:
    if isinstance(base, ast.Attribute):
        return base.attr
    return base.id if isinstance(base, ast.Name) else ast.unparse(base).rpartition(".")[2]


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
    "Linear",
    "Norm",
)
"""How classes of other modules that are nn.Modules are usually called."""


def _holds_code(value: Value) -> bool:
    """Whether this is a container of functions or classes: who takes one out calls what is registered there."""
    held = [item for _, item in value.items] if isinstance(value, Mapping) else []
    if isinstance(value, Sequence):
        held = list(value.items or ())
    return any(isinstance(one, (Function, Class)) for one in held)


def _with_others(value: Value) -> Value:
    """The container, to which others have added what is not known here."""
    if isinstance(value, Mapping):
        return Mapping(value.items, NOTHING)
    return Sequence(None, join([value.any_item(), NOTHING])) if isinstance(value, Sequence) else value


def _way_tag(module: ModuleInfo, way: Binding) -> Tag:
    line = way.statement.lineno
    return Tag("case", way.statement, path=module.path, text=f"with what line {line} of {module.path} brings")
