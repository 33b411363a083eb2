"""What an attribute holds: everything that any method, construction site or other function stores in it."""

from __future__ import annotations

import ast
import re

from h2dlint.facts.annotations import annotated_value, declared_object, holds_no_tensors, is_number
from h2dlint.facts.attributes import decorator_names
from h2dlint.facts.domain import (
    NOTHING,
    Array,
    Choice,
    Class,
    Const,
    Instance,
    Mapping,
    Memory,
    Sequence,
    Tag,
    Unknown,
    Value,
    alternatives,
    join,
    mapped,
)
from h2dlint.facts.frame import Frame, key_of
from h2dlint.facts.modules import (
    ClassInfo,
    FunctionNode,
    ModuleInfo,
    Unit,
    calls_constructor,
    holds,
    own_attribute,
    statements,
    stored_targets,
)
from h2dlint.facts.outcomes import CallSite
from h2dlint.facts.overrides import Overrides, is_host_data
from h2dlint.facts.parameters import bind_parameters, parameter_names
from h2dlint.facts.running import CALLER_DEPTH
from h2dlint.facts.summaries import moves_with

MAX_MAKERS = 3
"""A class whose objects more other files of the project make or fill is not followed into them."""


class Stores(Overrides):
    """The part of a project that knows what objects of its classes hold."""

    @property
    def _most_makers(self) -> int:
        return min(MAX_MAKERS, self.options.max_caller_files)

    def attribute(self, info: ClassInfo, name: str) -> Value:
        """What the class stores in `self.name`, in any method, for any construction that is seen."""
        key = (id(info), name)
        found = self._attributes.get(key)
        if found is not None:
            return found
        if key in self._open:
            self._incomplete = True
            self._partial_reads += 1
            # A None that was found so far is no answer: it would close the way to the store that is looked for.
            return NOTHING if all(map(_is_none, self._open[key])) else join(self._open[key])
        outer_incomplete, self._incomplete = self._incomplete, False
        values: list[Value] = []
        self._open[key] = values
        tags: list[tuple[Tag, ...]] = []
        declared = self._declared_empty(info, name)
        if declared is not None:
            values.append(declared)
            tags.append(())
        else:
            self._stored_in_sight(info, name, values, tags)
        if all(map(_says_nothing, values)) or any(map(is_host_data, values)):
            self._stored_by_derived(info, name, values, tags)
        unknown = all(map(_says_nothing, values)) and _is_declared_data(info, name)
        if unknown or (values and all(map(_hangs_on_a_flag, values))):
            self._from_elsewhere(info, name, values, tags)
        elif values and all(map(_is_none, values)):
            _take(self._assigned_elsewhere(info, name), values, tags)
        del self._open[key]
        if all(isinstance(held, Const) and held.value is None for held in values):
            # Nobody here ever fills it: somebody else does.
            values.append(self._declared_by_method(info, name) or self._as_declared(info, name))
            tags.append(())
        _forget_empty(values, tags)
        value = join(values, tags) if values else self._as_declared(info, name)
        if _holds_nothing(value):  # whoever fills it is out of sight
            value = self._declared_by_method(info, name) or value
        if type(value) is Choice:
            value = self._of_this_class(info, value)
        if self.is_movable(info):
            value = moves_with(value, f"{info.qualname}.{name}")
        value = mapped(value, _written_elsewhere)
        if isinstance(value, Unknown) and not value.key:
            value = Unknown(f"{info.qualname}.{name}", value.why)
        if not self._incomplete:
            self._attributes[key] = value
        self._incomplete = bool(self._open) and (self._incomplete or outer_incomplete)
        return value

    def _declared_empty(self, info: ClassInfo, name: str) -> Value | None:
        """What a constructor that leaves an attribute empty declares it to be, where that says all: numbers, texts or a
        container of such. Then nobody need be run who fills it. A class says less than the place that makes an object.
        """
        for owner in self.lineage(info):
            field = owner.assigned.get(name) if owner.is_dataclass else None
            if isinstance(field, ast.AnnAssign) and is_number(field.annotation):
                outside = self._frame(owner.module, field, owner.qualname)
                return annotated_value(field.annotation, f"{owner.qualname}.{name}", outside)
            constructor = owner.methods.get("__init__")
            if constructor is not None and _takes_number(owner, constructor, name):
                outside = self._frame(owner.module, constructor, owner.qualname)
                return annotated_value(ast.Name("int"), f"{owner.qualname}.{name}", outside)
            if constructor is None or not owner.module.declares(constructor, name):
                continue
            for statement in constructor.body:
                if isinstance(statement, ast.AnnAssign) and own_attribute(statement.target) == name:
                    if not _is_empty(statement.value) or not holds_no_tensors(statement.annotation):
                        return None
                    outside = self._frame(owner.module, constructor, owner.qualname)
                    return annotated_value(statement.annotation, f"{owner.qualname}.{name}", outside)
        return None

    def _stored_in_sight(self, info: ClassInfo, name: str, values: list[Value], tags: list[tuple[Tag, ...]]) -> None:
        """What the class, those that it derives from, and what else its module holds, store in the attribute."""
        replaced = False
        for owner in self.lineage(info):
            self._stored_by(owner, name, values, tags, constructed=not replaced)
            replaced = replaced or name in owner.replaced
        for owner in info.module.subclasses(info):
            self._stored_by(owner, name, values, tags)
        self._stored_outside(info, name, values, tags)

    def _stored_by(
        self,
        info: ClassInfo,
        name: str,
        values: list[Value],
        tags: list[tuple[Tag, ...]],
        constructed: bool = True,
    ) -> None:
        """What the class itself stores; `constructed`: what its constructor does counts, no subclass's replaces it."""
        module = info.module
        if info.is_dataclass and name in info.assigned:
            for made, site in self.constructions(info):
                held = dict(made.fields or ()).get(name)
                if held is not None:
                    values.append(_softened(held))
                    tags.append((Tag("caller", site, path=module.path),))
            if not values:
                later = self._is_filled_later(info, name)
                values.append(Const(None) if later else self.declared_field(info, name, info.assigned[name]))
                tags.append(())
        for method in info.methods_storing(name):
            if method.name == "__init__" and not constructed:
                continue
            plain = module.plain_stores(method, name)
            if method.name == "__init__" and self._from_constructions(info, name, values, tags):
                continue
            if plain is None:
                self._stored_by_method(info, method, name, values, tags)
                continue
            for text in plain:
                values.append(self._plain_value(info, method, name, text))
                tags.append((Tag("store", method, path=module.path),))
        if not values or any(map(_may_be_filled, values)):
            for method in info.methods_filling(name):
                self._stored_by_method(info, method, name, values, tags)

    def _as_declared(self, info: ClassInfo, name: str) -> Value:
        """What is said of an attribute where a class declares it; else it is unknown."""
        for owner in self.lineage(info):
            statement = owner.assigned.get(name)
            if statement is not None and (owner.is_dataclass or statement.value is None):
                return self.declared_field(owner, name, statement)
        return Unknown(f"{info.qualname}.{name}")

    def _declared_by_method(self, info: ClassInfo, name: str) -> Value | None:
        """What a method declares an attribute to be, where that is an object of the project or a container of such
        (`self.states: dict[str, State] = {}`, `self.pair: Pair | None = None`).
        """
        for owner in self.lineage(info):
            for method in owner.methods_storing(name):
                for statement in method.body:
                    if isinstance(statement, ast.AnnAssign) and own_attribute(statement.target) == name:
                        outside = self._frame(owner.module, method, owner.qualname)
                        return declared_object(statement.annotation, outside)
        return None

    def _is_filled_later(self, info: ClassInfo, name: str) -> bool:
        """Whether a field is None in every object as it is made: by default, and nobody who knows the class gives it
        another value by its name.
        """
        statement = info.assigned[name]
        if not isinstance(statement.value, ast.Constant) or statement.value.value is not None:
            return False
        key = (info, name)
        if key not in self._filled_later:
            texts = [self._finder.text_of(file) for file in self._files_knowing(info)]
            self._filled_later[key] = bool(texts) and not any(_gives(text, info.name, name) for text in texts)
        return self._filled_later[key]

    def _files_knowing(self, info: ClassInfo) -> list[str]:
        """The class's own file and the others that import it; none where the project is too large to be searched."""
        files = self._mentions.files_importing(info.name, info.module.name, info.module.file)
        for file in files or ():
            self.note_use(info.module.file, file)
        return [] if files is None else [info.module.file, *files]

    def _stored_by_method(
        self, info: ClassInfo, method: FunctionNode, name: str, values: list[Value], tags: list[tuple[Tag, ...]]
    ) -> None:
        """What a method stores in the attribute when it is looked at on its own, and functions inside it do."""
        module, unit = info.module, info.module.unit_of_node[method]
        for one in (unit, *self._inner_units(module, unit, name)):
            frame = self._look(module, one)
            if frame is None:
                continue
            replaced = method.name == "__init__" and name in info.replaced
            for held, node in frame.stores.get(name, ()):
                if not (replaced and calls_constructor(node)):
                    values.append(held)
                    tags.append((Tag("store", node, path=module.path),))
            if frame.exhausted:
                values.append(self._declared_by_method(info, name) or Unknown(f"{info.qualname}.{name}"))
                tags.append(())

    def _stored_outside(self, info: ClassInfo, name: str, values: list[Value], tags: list[tuple[Tag, ...]]) -> None:
        """What other functions of the module store in `thing.name`, where thing is such an object."""
        for unit in info.module.units_storing_outside(name):
            if self._stores_in_others(info, unit, name):
                continue
            frame = self._look(info.module, unit)
            if frame is None:
                continue
            for owner, held, node in frame.outside_stores.get(name, ()):
                if owner is info or info in self.lineage(owner):
                    values.append(held)
                    tags.append((Tag("store", node, path=info.module.path),))
        if info.pins_by_name and values:
            values.append(Unknown(f"{info.qualname}.{name}"))
            tags.append(())

    def _stores_in_others(self, info: ClassInfo, unit: Unit, name: str) -> bool:
        """Whether all in which a function stores the attribute are objects of other classes that it has made itself."""
        held: dict[str, list[ast.expr]] = {}
        stored_in: set[str] = set()
        for statement in statements(unit.node.body):
            for target in stored_targets(statement):
                if isinstance(target, ast.Name):
                    held.setdefault(target.id, []).append(getattr(statement, "value", target))
                elif isinstance(target, ast.Attribute) and target.attr == name:
                    stored_in.add(key_of(target.value))
        return bool(stored_in) and all(
            one in held and all(self._makes_another(info, node) for node in held[one]) for one in stored_in
        )

    def _makes_another(self, info: ClassInfo, node: ast.expr) -> bool:
        """Whether this is a new object of a class of the project that has nothing to do with `info`."""
        made = node.func if isinstance(node, ast.Call) else None
        found = self.resolve(info.module, made.id) if isinstance(made, ast.Name) else None
        return (
            isinstance(found, Class) and info not in self.lineage(found.info) and found.info not in self.lineage(info)
        )

    def _stored_by_derived(self, info: ClassInfo, name: str, values: list[Value], tags: list[tuple[Tag, ...]]) -> None:
        """What classes of other modules that derive from this one hold in the attribute: objects of theirs are such."""
        derived = self.derived_elsewhere(info, lambda body: _stores_data(body, name))
        for other in derived or ():
            values.append(self.attribute(other, name))
            tags.append((Tag("case", other.node, path=other.module.path, text=f"for an object of `{other.name}`"),))
        if derived is None and values and not all(map(_says_nothing, values)):
            values.append(Unknown(f"{info.qualname}.{name}"))
            tags.append(())

    def _from_elsewhere(self, info: ClassInfo, name: str, values: list[Value], tags: list[tuple[Tag, ...]]) -> None:
        """What other modules store in the attribute: as they make such objects, or later.

        It takes the place of what is known so far, which says nothing.
        """
        found: list[tuple[Value, CallSite]] = []
        for made, site in self._constructed_elsewhere(info):
            held = dict(made.fields or ()).get(name)
            if held is not None and not (_may_be_none(held) and _is_left_open(held)):
                found.append((_softened(held), site))
        if not found and any(_may_be_none(held) for held in values):  # made empty, and filled later
            found = self._assigned_elsewhere(info, name)
        _take(found, values, tags)

    def _of_this_class(self, info: ClassInfo, value: Choice) -> Value:
        """Without the ways on which a method of another class is called than objects of this one have."""
        ways = [way for way in value.alternatives if all(self.reaches(info, tag) for tag in way.tags)]
        if len(ways) in (0, len(value.alternatives)):
            return value
        return join([way.value for way in ways], [way.tags for way in ways])

    def _constructed_elsewhere(self, info: ClassInfo) -> list[tuple[Instance, CallSite]]:
        """The objects of a class that functions of other modules make."""
        known = self._constructions_elsewhere.get(info)
        if known is not None:
            return known
        found: list[tuple[Instance, CallSite]] = []
        self._constructions_elsewhere[info] = found  # who asks meanwhile gets what is found so far
        partial_reads = self._partial_reads
        for module, unit in self.callers_elsewhere(
            info.module, info.name, min(MAX_MAKERS, self.options.max_caller_files)
        ):
            frame = self._look(module, unit, CALLER_DEPTH)
            for made, site in frame.made if frame is not None else ():
                if _same_class(made.info, info):
                    found.append((made, site))
        if partial_reads != self._partial_reads:  # a function that makes one is under way: ask again
            del self._constructions_elsewhere[info]
        return found

    def _assigned_elsewhere(self, info: ClassInfo, name: str) -> list[tuple[Value, CallSite]]:
        """What functions of other modules assign to `thing.name`, where thing is such an object."""
        key = (info, name)
        if key in self._assignments_elsewhere:
            return self._assignments_elsewhere[key]
        found: list[tuple[Value, CallSite]] = []
        self._assignments_elsewhere[key] = found
        partial_reads = self._partial_reads
        for module in self.modules_storing(name, info.module, self._most_makers):
            lines = set(module.lines_storing_outside(name)) if info.name in module.text else set()
            for unit in module.units_storing_outside(name) if module.stores_data(name) else ():
                frame = self._look(module, unit, CALLER_DEPTH)
                for owner, held, node in frame.outside_stores.get(name, ()) if frame is not None else ():
                    lines.discard(node.lineno)  # type: ignore[attr-defined]
                    if any(_same_class(info, one) for one in self.lineage(owner)):
                        found.append((held, CallSite(module.path, node)))
            if found and lines:  # in what is no known object there, and may be one of this class
                node = next(one for one in ast.walk(module.tree) if getattr(one, "lineno", 0) in lines)
                found.append((Unknown(f"{info.qualname}.{name}"), CallSite(module.path, node)))
        if partial_reads != self._partial_reads:  # a function that stores it is under way: ask again
            del self._assignments_elsewhere[key]
        return found

    def _look(self, module: ModuleInfo, unit: Unit, depth: int = 0) -> Frame | None:
        """A function on its own; None when it is under way: then what is found is not all, and it is run again."""
        frame = self.run_unit(module, unit, depth)
        if frame is None:
            self._hasty.add(unit.node)
            if self._stack and self._stack[-1] is unit.node:
                self._own_stores.add(unit.node)
            self._incomplete = True
            self._partial_reads += 1
        return frame

    def _inner_units(self, module: ModuleInfo, unit: Unit, name: str) -> list[Unit]:
        """Functions inside a method that store the attribute, through the method's own `self`."""
        lines = sorted([*module.lines_storing(name), *module.lines_filling(name)])
        return [one for one in module.units if one.parent is unit and holds(one.node, lines)]

    def _plain_value(self, info: ClassInfo, method: ast.AST, name: str, text: str) -> Value:
        """A literal, a parameter or part of a configuration, without running the function that stores it."""
        if text in parameter_names(method):
            frame = self._frame(info.module, method, f"{info.qualname}.{getattr(method, 'name', '')}")
            bind_parameters(frame, method, Instance(info), [], {}, own=True)
            return frame.env.get(text, NOTHING)
        try:
            return Const(ast.literal_eval(text))
        except (ValueError, SyntaxError):  # a name, or what only looks like a store: a line of a text
            return Unknown(f"{info.qualname}.{name}")

    def _from_constructions(self, info: ClassInfo, name: str, values: list[Value], tags: list[tuple[Tag, ...]]) -> bool:
        """The constructor's store, by construction site: arguments decide. False when no site is seen."""
        made = [(dict(instance.fields or ()).get(name), site) for instance, site in self.constructions(info)]
        found = [(held, site) for held, site in made if held is not None]
        for held, site in found:
            values.append(_softened(held))
            tags.append((Tag("caller", site, path=info.module.path),))
        return bool(found)

    def run_callers_elsewhere(self, module: ModuleInfo, unit: Unit, word: str) -> None:
        """Look at the functions of other modules that name `word`, for what they pass to `unit` of this one."""
        for other, caller in self.callers_elsewhere(module, word, self.options.max_caller_files):
            self.run_for(module, other, caller)

    def constructions(self, info: ClassInfo) -> list[tuple[Instance, ast.AST]]:
        """The objects of a class that its own module makes."""
        if info not in self._asked_callers:
            self._asked_callers.add(info)
            self.run_callers(info.module, info.name, set(info.methods.values()))
            for method in info.methods.values():
                if decorator_names(method) & {"classmethod", "staticmethod"}:  # a factory, with `cls(...)`
                    self.run_unit(info.module, info.module.unit_of_node[method])
        return [(made, site) for made, site, _ in self._constructions.get(info, []) if not _remakes_itself(info, site)]


_STORES_DATA = re.compile(
    r"\bself\.(\w+)(?:[ \t]*:[^=\n]*)?[ \t]*=(?!=)[^\n]*"
    r"(?:\btorch\.|\bnp\.|\bnumpy\.|\.(?:to|cpu|pin_memory|clone|contiguous)\(|(?i:buffer|tensor|pinned))"
)
"""An assignment of what may be a tensor, an array or a pair of such, by what stands there."""


def _stores_data(body: str, name: str) -> bool:
    """Whether the text of a class assigns what may be a tensor to `self.name`."""
    start = body.find(f"self.{name}")
    return start >= 0 and any(match[1] == name for match in _STORES_DATA.finditer(body, start))


def _takes_number(info: ClassInfo, constructor: FunctionNode, name: str) -> bool:
    """Whether a constructor stores one of its parameters in an attribute that is declared to be a number."""
    stored = info.module.plain_stores(constructor, name)
    if not stored:
        return False
    numbers = {
        one.arg
        for one in (*constructor.args.posonlyargs, *constructor.args.args, *constructor.args.kwonlyargs)
        if one.annotation is not None and is_number(one.annotation)
    }
    return all(text in numbers for text in stored)


def _take(found: list[tuple[Value, CallSite]], values: list[Value], tags: list[tuple[Tag, ...]]) -> None:
    """What other modules store takes the place of what is known so far, if they store anything."""
    if found:
        values[:] = [held for held, _ in found]
        tags[:] = [(Tag("caller", site.node, path=site.path),) for _, site in found]


def _written_elsewhere(value: Value) -> Value:
    """A buffer that lives in an object is there to be filled: what it was made of says nothing about what it holds.
    Neither does a None that an object which lives there was made with, or may have been: the class knows who fills it.
    """
    if isinstance(value, Array):
        return value.but(index_built=False) if value.index_built else value
    if isinstance(value, Instance) and value.fields:
        known = ((name, held) for name, held in value.fields if not (_may_be_none(held) and _is_left_open(held)))
        return Instance(value.info, tuple((name, mapped(held, _written_elsewhere)) for name, held in known))
    if isinstance(value, Sequence):
        if value.items is None:
            return Sequence(None, mapped(value.item, _written_elsewhere), value.length)
        return Sequence(tuple(mapped(held, _written_elsewhere) for held in value.items))
    if isinstance(value, Mapping):
        item = None if value.item is None else mapped(value.item, _written_elsewhere)
        return Mapping(tuple((key, mapped(held, _written_elsewhere)) for key, held in value.items), item)
    return value


def _gives(text: str, class_name: str, field: str) -> bool:
    """Whether a text may make an object of the class with a value for the field: by its name, by `*` or `**`, or by
    position, which is not counted.
    """
    if class_name not in text:
        return False
    # The patterns start with a literal: that makes them quick.
    for found in re.finditer(rf"{field}\s*=(?!=)", text) if field in text else ():
        before = text[found.start() - 1 : found.start()]
        if before != "." and before != "_" and not before.isalnum():
            return True
    made = re.finditer(rf"{class_name}\(\s*(?![\s)]|\w+\s*=(?!=))", text)
    return any(not text.endswith(("class ", "def "), 0, found.start()) for found in made)


def _may_be_filled(value: Value) -> bool:
    """Whether this may be a container: what is stored in a tensor makes it no other one."""
    return any(isinstance(way.value, (Sequence, Mapping, Unknown)) for way in alternatives(value))


def _is_declared_data(info: ClassInfo, name: str) -> bool:
    """Whether an attribute is declared as a tensor or an array: then it is worth a search for who fills it."""
    statement = info.assigned.get(name)
    if isinstance(statement, ast.AnnAssign):
        return info.is_dataclass and (_says_data(statement.annotation) or _NAMED_AS_DATA.search(name) is not None)
    constructor = info.methods.get("__init__")
    if constructor is None:
        return False
    stored = info.module.plain_stores(constructor, name) or ()
    parameters = (*constructor.args.args, *constructor.args.kwonlyargs)
    return any(parameter.arg in stored and _says_data(parameter.annotation) for parameter in parameters)


_NAMED_AS_DATA = re.compile("_(?:cpu|gpu|pinned|tensors?)$")


def _says_data(annotation: ast.expr | None) -> bool:
    text = ast.unparse(annotation) if annotation is not None else ""
    return "Tensor" in text or "ndarray" in text


def _says_nothing(value: Value) -> bool:
    """Whether somebody else must know what this is."""
    return all(
        isinstance(way.value, Unknown)
        or (isinstance(way.value, Const) and way.value.value is None)
        or (isinstance(way.value, Instance) and way.value.info is None)
        for way in alternatives(value)
    )


def _is_left_open(value: Value) -> bool:
    """Whether nothing is known of a field but what it is declared to be."""
    return all(
        _is_none(way.value)
        or isinstance(way.value, Unknown)
        or (isinstance(way.value, Instance) and way.value.fields is None)
        for way in alternatives(value)
    )


def _is_empty(node: ast.expr | None) -> bool:
    """Whether this is None, or a new container without anything in it."""
    if isinstance(node, ast.Constant):
        return node.value is None
    if isinstance(node, ast.Dict):
        return not node.keys
    if isinstance(node, (ast.List, ast.Tuple)):
        return not node.elts
    made = node.func if isinstance(node, ast.Call) and not node.keywords else None
    return isinstance(made, ast.Name) and made.id in _CONTAINERS


_CONTAINERS = frozenset({"dict", "list", "set", "deque", "defaultdict", "OrderedDict", "Counter"})


def _is_none(value: Value) -> bool:
    return isinstance(value, Const) and value.value is None


def _hangs_on_a_flag(value: Value) -> bool:
    """Whether this is a host tensor of which whoever makes the object says whether it is pinned."""
    return all(
        isinstance(way.value, Array) and way.value.device.is_cpu and way.value.memory is Memory.UNKNOWN
        for way in alternatives(value)
    )


def _forget_empty(values: list[Value], tags: list[tuple[Tag, ...]]) -> None:
    """Leave out the empty container that an attribute starts as, where another store shows what is put in it."""
    filled = {type(value) for value in values if not _holds_nothing(value)}
    kept = [at for at, value in enumerate(values) if not (_holds_nothing(value) and type(value) in filled)]
    values[:], tags[:] = [values[at] for at in kept], [tags[at] for at in kept]


def _holds_nothing(value: Value) -> bool:
    """Whether this is a container without anything in it."""
    if isinstance(value, Mapping):
        return not value.items and value.item is None
    return isinstance(value, Sequence) and value.items == ()


def _may_be_none(value: Value) -> bool:
    return any(isinstance(way.value, Const) for way in alternatives(value))


def _same_class(left: ClassInfo, right: ClassInfo) -> bool:
    """Whether two readings of a class are of the same one."""
    return left.qualname == right.qualname and left.module.file == right.module.file


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
