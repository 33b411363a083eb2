"""Calls of the project's own functions and classes: run with the arguments at hand, remembered, bounded."""

from __future__ import annotations

import ast

from msgspec.structs import replace

from h2dlint.facts import events, keeping
from h2dlint.facts.annotations import annotated_value, declared_object
from h2dlint.facts.attributes import decorator_names, is_transparent
from h2dlint.facts.domain import (
    ACCELERATOR_KIND,
    ASSUMED,
    NOTHING,
    SOMEWHERE,
    Array,
    Available,
    Const,
    Device,
    Function,
    Instance,
    Mapping,
    Memory,
    Sequence,
    Unknown,
    Value,
    join,
    mapped,
    one_of_several,
    signature,
    under_text,
)
from h2dlint.facts.evaluate import evaluate
from h2dlint.facts.flags import Truth, is_availability_name, is_decision_name, is_wsl_name, truth
from h2dlint.facts.flow import run_body
from h2dlint.facts.frame import BudgetExceededError, Environment, Frame
from h2dlint.facts.layout import DENSE_UNRANKED
from h2dlint.facts.modules import ClassInfo
from h2dlint.facts.names import Names
from h2dlint.facts.outcomes import CallSite, Uninformed
from h2dlint.facts.parameters import bind_parameters, leaves_switches, tells_nothing
from h2dlint.facts.running import MAX_CALL_STEPS, MAX_DEPTH

_GENERATORS = ("contextmanager", "asynccontextmanager")
_OPAQUE = (
    "jit",
    "autotune",
    "heuristics",
    *_GENERATORS,
    "overload",
    "custom_op",
    "register_fake",
)


class Summaries(Names):
    """The part of a project that answers calls: functions by their arguments, constructors by what they store."""

    def call_function(
        self, function: Function, args: list[Value], keywords: dict[str, Value], frame: Frame, node: ast.AST, key: str
    ) -> Value:
        """What the function returns for these arguments; where it cannot be followed, what it is declared to return."""
        value = self._call_function(function, args, keywords, frame, node, key)
        if isinstance(value, Const) and is_stub(function.node):
            value = NOTHING
        returns = None if isinstance(function.node, ast.Lambda) else function.node.returns
        if returns is None or not isinstance(value, Unknown):
            return value
        return declared_object(returns, self._frame(function.module, None, "<declared>")) or value

    def _call_function(
        self, function: Function, args: list[Value], keywords: dict[str, Value], frame: Frame, node: ast.AST, key: str
    ) -> Value:
        """Run the function with these arguments, or remember how that went before."""
        function = self.newest(function)
        name = getattr(function.node, "name", "")
        if is_availability_name(name):
            return self._decision(function, args, keywords, frame, node) if is_decision_name(name) else Available()
        wrapped = self._decorated(function, frame, node)
        if wrapped is not None:
            return self._call_wrapped(wrapped, function, args, keywords, frame, node)
        if is_wsl_name(name):
            return Const(False)
        opaque = _is_opaque(function.node, but=_GENERATORS if node is frame.entered else ())
        circular = function.node in self._stack and not _goes_down(function, args, frame)
        if frame.depth >= MAX_DEPTH or circular or opaque:
            self._note_haste(function, frame)
            return NOTHING
        overrides = _overrides(frame, key)
        device = frame.default_device
        known = self._known_result(function, args, keywords, overrides, frame, node)
        own = _is_known_object(function, key, frame)
        if known is not None:
            value, stored, effect = _remembered(function, known, node)
            events.follow(frame, effect, own, again=True)
            for name, held in stored.items():
                if key:
                    frame.store_attribute(f"{key}.{name}", held, node)
            return value
        memo = _memo_key(function, args, keywords, overrides, device, node)
        found = self._summaries.get(memo) if memo is not None else None
        again = found is not None
        if found is None:
            partial_reads = self._partial_reads
            found = self._run_call(function, args, keywords, overrides, frame, node)
            if memo is not None and frame.default_device is device and partial_reads == self._partial_reads:
                self._summaries[memo] = found
                self._told_apart.append((function.receiver, args, keywords, overrides))
        value, stored, effect = _remembered(function, found, node)
        events.follow(frame, effect, own, again)
        for name, held in stored.items():
            if key:
                frame.store_attribute(f"{key}.{name}", held, node)
        return value

    def _decision(
        self, function: Function, args: list[Value], keywords: dict[str, Value], frame: Frame, node: ast.AST
    ) -> Value:
        """What a function that decides whether to pin comes to: a configuration may have a say in it beside what the
        machine can.
        """
        if frame.depth >= MAX_DEPTH or function.node in self._stack:
            return Available()
        value, _, _ = self._run_call(function, args, keywords, {}, frame, node)
        return value if truth(value) in (Truth.SOFT_TRUE, Truth.CONFIG) else Available()

    def _note_haste(self, function: Function, frame: Frame) -> None:
        """A function that calls one which is still being looked at, further out, is run again at the end."""
        if frame.root in self._stack and function.node in self._stack[: self._stack.index(frame.root)]:
            self._hasty.add(frame.root)
            self._blocked_by.setdefault(frame.root, set()).add(function.node)
            self._incomplete = True
            self._partial_reads += 1

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
        self,
        function: Function,
        args: list[Value],
        keywords: dict[str, Value],
        overrides: Environment,
        frame: Frame,
        node: ast.AST,
    ) -> tuple[Value, Environment, events.Effect | None] | None:
        """The result of the function on its own, for a call whose arguments tell nothing more than it assumes."""
        unit = function.module.unit_of_node.get(function.node)
        if unit is None or unit.parent is not None or frame.default_device is not None:
            return None
        if isinstance(function.receiver, Instance) and function.receiver.fields is not None:
            return None
        values = [*args, *keywords.values(), *overrides.values()]
        if not all(tells_nothing(value) for value in values) or leaves_switches(
            unit.node, len(args) + (function.receiver is not None), set(keywords)
        ):
            return None
        site = CallSite(frame.module.path, node, frame.function)
        call = Uninformed(frame.root, frame.root_file, (*frame.context, site))
        self.uninformed.setdefault(unit.node, []).append(call)
        inner = self.run_unit(function.module, unit)
        if inner is not None and unit.node in self._hasty:
            inner = self.look_again(function.module, unit)
        if inner is None or inner.exhausted:  # what it has returned so far may not be all
            return NOTHING, {}, None
        events.settle_kept(inner)
        _hand_globals(inner, frame)
        if inner.default_device is not None and inner.default_device is not SOMEWHERE:
            frame.default_device = inner.default_device
        stored = _left_in_receiver(inner)
        return _result(inner, inner.falls_through), stored, events.effect_of(inner)

    def _run_call(
        self,
        function: Function,
        args: list[Value],
        keywords: dict[str, Value],
        overrides: Environment,
        frame: Frame,
        node: ast.AST,
    ) -> tuple[Value, Environment, events.Effect | None]:
        inner = self._frame(function.module, function.node, getattr(function.node, "name", "<lambda>"))
        inner.scope = function.scope if function.node not in frame.defined else {**(frame.scope or {}), **frame.env}
        inner.owner = function.owner
        inner.depth = frame.depth + 1
        inner.root = frame.root
        inner.root_file = frame.root_file
        inner.context = (*frame.context, CallSite(frame.module.path, node, frame.function))
        inner.default_device = frame.default_device
        inner.way = frame.way
        if function.receiver is None and function.node in frame.defined:
            inner.self_name = frame.self_name
        bind_parameters(inner, function.node, function.receiver, args, keywords, own=False)
        for name, held in overrides.items():
            key = f"{inner.self_name}.{name}"
            inner.env[key] = held
            inner.note_dotted(key)
        depth = len(self._stack)
        self._stack.append(function.node)
        limit, self.steps.limit = self.steps.limit, self._limit_of_call(frame)
        try:
            if isinstance(function.node, ast.Lambda):
                value = evaluate(function.node.body, inner)
                events.leave(inner, value)
                return value, {}, events.effect_of(inner)
            falls_through = run_body(function.node.body, inner)
            if falls_through:
                events.leave(inner, None)
        except BudgetExceededError:
            if self.steps.taken > limit or self.steps.limit == limit:
                raise
            return NOTHING, {}, None
        finally:
            self.steps.limit = limit
            del self._stack[depth:]
        events.settle_kept(inner)
        frame.default_device = inner.default_device
        if function.node in frame.defined:
            self._hand_out(inner, frame)
        _hand_globals(inner, frame)
        stored = _left_in_receiver(inner)
        value = mapped(_result(inner, falls_through), lambda value: _as_left(value, function.receiver, stored))
        return value, stored, events.effect_of(inner)

    def _limit_of_call(self, frame: Frame) -> int:
        """Up to where a call may take steps: one that a function makes itself not all that are left to it."""
        steps = self.steps
        if frame.context:
            return steps.limit
        return min(steps.limit, steps.taken + MAX_CALL_STEPS)

    def _hand_out(self, inner: Frame, frame: Frame) -> None:
        """What a nested function changed of its enclosing function: variables, and attributes of the same `self`."""
        for name, held in inner.outer_writes.items():
            frame.rebind(name, held)
        if inner.self_name and inner.self_name == frame.self_name:
            for name, stores in inner.stores.items():
                for held, node in stores:
                    frame.store_attribute(f"{frame.self_name}.{name}", held, node)

    # Constructors

    def construct(
        self, info: ClassInfo, args: list[Value], keywords: dict[str, Value], frame: Frame, node: ast.AST
    ) -> Value:
        """An object of a project class: what its constructor stores, given these arguments."""
        made = self._construct(info, args, keywords, frame, node)
        if isinstance(made, Instance) and frame.module is info.module:
            self._constructions.setdefault(info, []).append((made, node, frame.root))
        elif isinstance(made, Instance):
            frame.made.append((made, CallSite(frame.module.path, node, frame.function)))
        return made

    def _construct(
        self, info: ClassInfo, args: list[Value], keywords: dict[str, Value], frame: Frame, node: ast.AST
    ) -> Value:
        constructor = _find_method(self, info, "__init__")
        if constructor is None:
            return self._record_object(info, args, keywords, frame, node)
        if frame.depth >= MAX_DEPTH or constructor.node in self._stack:
            self._note_haste(constructor, frame)
            return Instance(info)
        bound = Function(constructor.node, constructor.module, constructor.owner, Instance(info, ()))
        _, stored, effect = self._run_call(bound, args, keywords, {}, frame, node)
        events.follow(frame, effect, known=True, again=False)
        if self.is_movable(info):
            stored = {name: moves_with(held, f"{info.qualname}.{name}") for name, held in stored.items()}
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
                values[name] = self.declared_field(info, name, statement)
        made = Instance(info, tuple(values.items()))
        after = _find_method(self, info, "__post_init__")
        if after is None or frame.depth >= MAX_DEPTH or after.node in self._stack:
            return made
        _, stored, _ = self._run_call(Function(after.node, after.module, after.owner, made), [], {}, {}, frame, node)
        return Instance(info, tuple({**values, **stored}.items()))

    def declared_field(self, info: ClassInfo, name: str, statement: ast.AnnAssign | ast.Assign) -> Value:
        """A field that nobody has filled: its default, and where that says nothing, its type."""
        default = self._field_default(info, statement)
        if not isinstance(default, Unknown) and not (isinstance(default, Const) and default.value is None):
            return default
        annotation = statement.annotation if isinstance(statement, ast.AnnAssign) else None
        outside = self._frame(info.module, statement, info.qualname)
        found = annotated_value(annotation, f"{info.qualname}.{name}", outside)
        if isinstance(found, Unknown) and _has_twin_on_host(info, name):
            return Array("tensor", Device(ACCELERATOR_KIND, ASSUMED), Memory.UNKNOWN, DENSE_UNRANKED)
        return found

    def _field_default(self, info: ClassInfo, statement: ast.AnnAssign | ast.Assign) -> Value:
        value = statement.value
        if value is None:
            return NOTHING
        if isinstance(value, ast.Call):
            options = {keyword.arg: keyword.value for keyword in value.keywords}
            value = options.get("default")
            if value is None:
                return self._field_made(info, options.get("default_factory"), statement)
        found = evaluate(value, self._frame(info.module, statement, info.qualname))
        return (
            Const(found.value, True, statement) if isinstance(found, Const) and isinstance(found.value, bool) else found
        )

    def _field_made(self, info: ClassInfo, factory: ast.expr | None, statement: ast.AST) -> Value:
        """What `default_factory=lambda: torch.zeros(...)` makes: of anything but a tensor nothing is known, it may have
        been filled since.
        """
        if not isinstance(factory, ast.Lambda):
            return NOTHING
        found = evaluate(factory.body, self._frame(info.module, statement, info.qualname))
        return found if isinstance(found, Array) else NOTHING


def _has_twin_on_host(info: ClassInfo, name: str) -> bool:
    """Whether the class holds a `name_cpu` too: then `name` is the half of the pair that lies on the device."""
    return any(f"{start}{name}_cpu" in info.assigned for start in ("", "_"))


def _is_known_object(function: Function, key: str, frame: Frame) -> bool:
    """Whether a function has no receiver, or one that is known as this very object."""
    receiver = function.receiver
    if not isinstance(receiver, Instance):
        return True
    return receiver.fields is not None or (key != "" and key == frame.self_name)


def is_stub(node: ast.AST) -> bool:
    """Whether a function has nothing in its body: what it does, a subclass says."""
    if isinstance(node, ast.Lambda) or (_says_none(node) and not _is_left_open(node)):
        return False
    return all(_is_text(one) or isinstance(one, (ast.Pass, ast.Raise)) for one in getattr(node, "body", ()))


def _is_left_open(node: ast.AST) -> bool:
    """Whether a function says itself that others fill it in."""
    if any(name.rpartition(".")[2] == "abstractmethod" for name in decorator_names(node)):
        return True
    last = getattr(node, "body", [None])[-1]
    return isinstance(last, ast.Raise) and last.exc is not None and "NotImplemented" in ast.unparse(last.exc)


def _says_none(node: ast.AST) -> bool:
    returns = getattr(node, "returns", None)
    return returns is None or (isinstance(returns, ast.Constant) and returns.value is None)


def _is_text(statement: ast.stmt) -> bool:
    """A docstring, or `...`."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _goes_down(function: Function, args: list[Value], frame: Frame) -> bool:
    """Whether a function that was given a container calls itself with a tensor: `[send(one) for one in data]`."""
    if frame.function is not function.node or not args or not isinstance(args[0], Array):
        return False
    parameters = function.node.args.args
    position = 0 if function.receiver is None else 1
    outer = frame.env.get(parameters[position].arg) if position < len(parameters) else None
    return isinstance(outer, (Sequence, Mapping))


def _is_opaque(node: ast.AST, but: tuple[str, ...]) -> bool:
    names = decorator_names(node)
    lasts = [name.rpartition(".")[2] for name in names]
    return any(last in _OPAQUE and last not in but for last in lasts)


def _overrides(frame: Frame, key: str) -> Environment:
    if not key or key.partition(".")[0] not in frame.dotted:
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


_CACHING = frozenset({"cached_property", "lru_cache", "cache"})


def _remembered(
    function: Function, found: tuple[Value, Environment, events.Effect | None], node: ast.AST
) -> tuple[Value, Environment, events.Effect | None]:
    """What a call gives of a function that makes its result once, and once for each argument: it is not new."""
    value, stored, effect = found
    decorators = {name.rpartition(".")[2] for name in decorator_names(function.node)}
    if effect is None or not effect.made or decorators.isdisjoint(_CACHING):
        return found
    if isinstance(node, ast.Call) and (node.args or node.keywords):
        value = mapped(one_of_several(value), lambda held: under_text(held, ast.unparse(node)))
    return value, stored, replace(effect, made=effect.made - set(keeping.storages(value)))


def _result(frame: Frame, falls_through: bool) -> Value:
    if frame.yields:
        return Sequence(None, join(frame.yields))
    values = [value for value, _ in frame.returns]
    tags = [tags for _, tags in frame.returns]
    if falls_through:
        values.append(Const(None))
        tags.append(())
    return join(values, tags) if values else NOTHING


def _hand_globals(inner: Frame, frame: Frame) -> None:
    """What a called function rebinds of the module's variables, its caller sees when it is the module itself."""
    if frame.function is None and frame.module is inner.module:
        frame.env.update({name: inner.env[name] for name in inner.globals if name in inner.env})


def _left_in_receiver(frame: Frame) -> Environment:
    """What a method's receiver holds, by attribute, when the method is done."""
    held = {name: frame.env.get(f"{frame.self_name}.{name}") for name in frame.stores}
    return {name: value for name, value in held.items() if value is not None}


def _as_left(value: Value, receiver: Value | None, stored: Environment) -> Value:
    """A method that returns its own object returns it as it left it."""
    if value is not receiver or not isinstance(value, Instance) or value.fields is None or not stored:
        return value
    kept = tuple((name, held) for name, held in value.fields if name not in stored)
    return Instance(value.info, (*kept, *stored.items()))


def moves_with(value: Value, key: str) -> Value:
    """What a module holds lies wherever the module was moved to."""
    return mapped(value, lambda held: _moves_along(held, key))


def _moves_along(value: Value, key: str) -> Value:
    if (
        isinstance(value, Array)
        and value.device.is_cpu
        and value.memory is Memory.PAGEABLE
        and value.kind in ("tensor", "module")
        and not value.placed
    ):
        return value.but(device=Device("", key), memory=Memory.UNKNOWN)
    return value


def _find_method(project: Names, info: ClassInfo, name: str) -> Function | None:
    for owner in project.lineage(info):
        if name in owner.methods:
            return Function(owner.methods[name], owner.module, owner)
    return None


def _dataclass_fields(project: Names, info: ClassInfo) -> list[tuple[str, ast.AnnAssign | ast.Assign]]:
    found: dict[str, ast.AnnAssign | ast.Assign] = {}
    for owner in reversed(project.lineage(info)):
        if owner.is_dataclass:
            found.update(
                {name: statement for name, statement in owner.assigned.items() if isinstance(statement, ast.AnnAssign)}
            )
    return list(found.items())
