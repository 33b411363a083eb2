"""Statements: assignments, branches, loops, exceptions, guards. Each function answers whether control goes on after
it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from typing import Any, TypeAlias

from h2dlint.facts import events, flags, parts, streams
from h2dlint.facts.annotations import declared_object
from h2dlint.facts.arithmetic import binary
from h2dlint.facts.attributes import instance_attribute
from h2dlint.facts.calls import handed_over
from h2dlint.facts.copies import Direction
from h2dlint.facts.domain import (
    ASSUMED,
    NOTHING,
    SOMEWHERE,
    Array,
    Const,
    Device,
    DeviceValue,
    Function,
    Instance,
    Mapping,
    Memory,
    Sequence,
    Tag,
    Unknown,
    Value,
    alternatives,
    as_assumed,
    join,
    one_of_several,
    without_none,
)
from h2dlint.facts.evaluate import bind_target, branch_tag, decided, evaluate, scope_of
from h2dlint.facts.flags import Truth, truth
from h2dlint.facts.frame import IN_FLIGHT, Environment, Frame, join_environments, key_of
from h2dlint.facts.indexing import read_index, store_element, stored
from h2dlint.facts.iteration import item_of, loop_items
from h2dlint.facts.machines import device_on, names_own_device, spelled_out
from h2dlint.facts.reads import read_in
from h2dlint.facts.refine import refined
from h2dlint.facts.transfers import tested, waits

Statement: TypeAlias = Callable[[Any, Frame], bool]


def run_body(body: SequenceOf[ast.stmt], frame: Frame) -> bool:
    """Run statements in order; False when control does not reach the end."""
    depth = len(frame.path)
    for position, statement in enumerate(body):
        handler = _STATEMENTS.get(type(statement))
        if handler is not None and not handler(statement, frame):
            del frame.path[depth:]
            if isinstance(statement, (ast.If, ast.Assert)):
                _close(body[position + 1 :], statement.test, frame)
            return False
    del frame.path[depth:]
    return True


def _close(body: SequenceOf[ast.stmt], test: ast.expr, frame: Frame) -> None:
    """No way leads to these statements where an accelerator is present, as a test of the device or of that says."""
    if not body or not frame.module.checked:
        return
    first, last = body[0].lineno, body[-1].end_lineno or body[-1].lineno
    for node in ast.walk(test):
        if isinstance(node, (ast.Name, ast.Attribute)):
            name = key_of(node)
            if names_own_device(node):
                frame.module.closed.add((first, last, name.removesuffix(".type")))
            elif flags.is_availability_name(name):
                frame.module.closed.add((first, last, ""))


# Simple statements


def _expression(statement: ast.Expr, frame: Frame) -> bool:
    # The last expression of a notebook's cell is shown, and any cell may end with one.
    shown = frame.function is None and frame.module.path.endswith(".ipynb")
    outer, frame.unused = frame.unused, None if shown else statement.value
    evaluate(statement.value, frame)
    frame.unused = outer
    return not _never_returns(statement.value)


def _never_returns(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and key_of(node.func) in ("sys.exit", "exit", "quit", "os._exit")


def _assign(statement: ast.Assign, frame: Frame) -> bool:
    value = handed_over(statement.value, frame, evaluate)
    if frame.assumes:
        value = as_assumed(value)
    for target in statement.targets:
        assign(target, value, statement, frame)
        if isinstance(target, ast.Name) and isinstance(statement.value, _CONDITIONS):
            frame.remember(target.id, statement.value)
    return True


_CONDITIONS = (ast.Compare, ast.BoolOp)
"""What is worth to be known as the condition that a name stands for: the others say all by their value."""


def _annotated(statement: ast.AnnAssign, frame: Frame) -> bool:
    if statement.value is not None:
        value = evaluate(statement.value, frame)
        if isinstance(value, Unknown):
            value = declared_object(statement.annotation, frame) or value
        assign(statement.target, value, statement, frame)
    return True


def assign(target: ast.expr, value: Value, statement: ast.AST, frame: Frame) -> None:
    """One assignment target."""
    if isinstance(target, ast.Name):
        name = target.id
        if frame.tests:
            frame.bind_anew(name)
        if name in frame.outer_names:
            frame.rebind(name, value)
        elif name in frame.globals:
            frame.stores.setdefault("global " + name, []).append((value, statement))
            frame.env[name] = value
        else:
            frame.forget(name)
            frame.env[name] = value
    elif isinstance(target, ast.Subscript):
        _assign_element(target, value, frame)
    elif isinstance(target, ast.Attribute):
        _assign_attribute(target, value, statement, frame)
    else:
        bind_target(target, value, frame)


def _assign_element(target: ast.Subscript, value: Value, frame: Frame) -> None:
    container = without_none(evaluate(target.value, frame))
    for way in alternatives(container):
        if isinstance(way.value, Array):
            store_element(way.value, read_index(target.slice, evaluate, frame), value, target, frame)
            _write_element(way.value, target, value, frame)
            if not _constant_fill(value):
                frame.written(way.value)
    key = key_of(target.value)
    if not key or isinstance(container, Array):
        return
    index = evaluate(target.slice, frame) if not isinstance(target.slice, ast.Slice) else NOTHING
    changed = stored(container, index, value)
    if changed is not container:
        frame.assign(key, changed, target)


def _write_element(array: Array, target: ast.Subscript, value: Value, frame: Frame) -> None:
    """The host writes into part of a tensor, unless it is the device that does."""
    if isinstance(value, Array) and value.device.is_accelerator:
        return
    if array.device.is_cpu:
        events.read_value(frame, value, target)
    part = parts.indexed(array.part, target.slice)
    events.write(frame, array, target, part, not isinstance(value, Unknown) or value.why == "number")


def _constant_fill(value: Value) -> bool:
    """Whether what is written is the same on every device: a constant, or index-built itself."""
    return isinstance(value, Const) or (isinstance(value, Array) and value.index_built)


def _assign_attribute(target: ast.Attribute, value: Value, statement: ast.AST, frame: Frame) -> None:
    base = evaluate(target.value, frame)
    if target.attr == "data" and isinstance(base, Array) and isinstance(value, Array):
        _replace_storage(base, value, frame)
        return
    for way in alternatives(base):
        if isinstance(way.value, Instance) and way.value.info is not None:
            setter = way.value.info.setters.get(target.attr)
            if setter is not None:
                bound = Function(setter, way.value.info.module, way.value.info, way.value)
                frame.interpreter.call_function(bound, [value], {}, frame, target, key_of(target.value))
                return
            frame.outside_stores.setdefault(target.attr, []).append((way.value.info, value, statement))
    key = key_of(target)
    if key:
        frame.store_attribute(key, value, statement)


def _replace_storage(base: Array, value: Array, frame: Frame) -> None:
    """`p.data = v`: everything that shares p's memory now lies where v does."""
    for name, held in list(frame.env.items()):
        if isinstance(held, Array) and held.storage == base.storage and base.storage:
            frame.env[name] = held.but(
                device=value.device,
                memory=value.memory,
                layout=value.layout,
                trail=value.trail,
                dtype=value.dtype,
                from_numpy=value.from_numpy,
            )


def _augmented(statement: ast.AugAssign, frame: Frame) -> bool:
    target = statement.target
    current = evaluate(target, frame)
    value = evaluate(statement.value, frame)
    if isinstance(target, ast.Subscript):
        _augment_element(target, current, value, statement, frame)
        return True
    if isinstance(current, Array):  # in place: the same memory
        if current.device.is_cpu:
            events.read_value(frame, value, statement)
        events.write(frame, current, statement)
        if not _constant_fill(value):
            frame.written(current)
        return True
    if isinstance(current, Sequence) and isinstance(statement.op, ast.Add):
        other = value if isinstance(value, Sequence) else Sequence(None, item_of(value, statement, frame))
        grown = (
            binary(current, other, statement.op, statement, frame)
            if frame.loop_depth == 0
            else Sequence(
                None, join((current.any_item(), other.any_item())) if current.items != () else other.any_item()
            )
        )
        assign(target, grown, statement, frame)
        return True
    assign(target, binary(current, value, statement.op, statement, frame), statement, frame)
    return True


def _augment_element(
    target: ast.Subscript, current: Value, value: Value, statement: ast.AugAssign, frame: Frame
) -> None:
    """`x[i] += y`: a tensor's element is read, changed and written where it lies; other items are replaced."""
    container = without_none(evaluate(target.value, frame))
    if isinstance(container, Array):
        frame.written(container)
        events.write(frame, container, statement, parts.indexed(container.part, target.slice))
        index = read_index(target.slice, evaluate, frame)
        if container.device.is_accelerator and any(
            not isinstance(one, Array) or one.device.is_cpu for one in index.fancy
        ):
            waits(frame, target, "__setitem__", Direction.H2D, None)
        return
    changed = current if isinstance(current, Array) else binary(current, value, statement.op, statement, frame)
    _assign_element(target, changed, frame)


def _return(statement: ast.Return, frame: Frame) -> bool:
    value = handed_over(statement.value, frame, evaluate) if statement.value is not None else Const(None)
    if frame.assumes:
        value = as_assumed(value)
    frame.returns.append((value, tuple(frame.path[-2:])))
    events.leave(frame, value)
    return False


def _raise(statement: ast.Raise, frame: Frame) -> bool:
    for node in (statement.exc, statement.cause):
        if node is not None:
            evaluate(node, frame)
    return False


def _assert(statement: ast.Assert, frame: Frame) -> bool:
    found = truth(tested(evaluate(statement.test, frame), statement.test, frame))
    if found is Truth.FALSE:
        return False
    narrowed = refined(statement.test, frame, True, evaluate)
    if narrowed is not None:
        frame.env = narrowed
    return True


def _delete(statement: ast.Delete, frame: Frame) -> bool:
    for target in statement.targets:
        if isinstance(target, ast.Name):
            frame.env.pop(target.id, None)
        elif isinstance(target, ast.Subscript):
            _delete_element(target, frame)
    return True


def _delete_element(target: ast.Subscript, frame: Frame) -> None:
    container, key = evaluate(target.value, frame), key_of(target.value)
    index = evaluate(target.slice, frame) if not isinstance(target.slice, ast.Slice) else NOTHING
    left: Value | None = None
    if isinstance(container, Sequence):
        items = list(container.items or ())
        if (
            items
            and isinstance(index, Const)
            and isinstance(index.value, int)
            and -len(items) <= index.value < len(items)
        ):
            del items[index.value]
            left = Sequence(tuple(items))
        else:
            left = Sequence(None, container.any_item())
    elif isinstance(container, Mapping) and isinstance(index, Const):
        left = Mapping(tuple(entry for entry in container.items if entry[0] != index.value), container.item)
    if left is not None and key:
        frame.assign(key, left, target)


def _global(statement: ast.Global | ast.Nonlocal, frame: Frame) -> bool:
    if isinstance(statement, ast.Global):
        frame.globals.update(statement.names)
    else:
        frame.outer_names.update(statement.names)
    return True


def _import(statement: ast.Import | ast.ImportFrom, frame: Frame) -> bool:
    if frame.function is None:
        return True
    bound: dict[str, tuple[str, str | None]] = {}
    frame.module.add_import(statement, bound)
    for name, (module, attribute) in bound.items():
        frame.env[name] = frame.interpreter.imported(frame.module, module, attribute)
    return True


def _define(statement: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> bool:
    if frame.function is None:
        frame.env[statement.name] = Function(statement, frame.module)
    else:
        frame.env[statement.name] = Function(statement, frame.module, frame.owner, None, scope_of(frame))
        frame.defined.add(statement)
    return True


def _class(statement: ast.ClassDef, frame: Frame) -> bool:
    frame.env[statement.name] = frame.interpreter.class_value(frame.module, statement)
    return True


def _continue(statement: ast.Continue, frame: Frame) -> bool:
    frame.jumps.append(frame.env)
    return False


def _break(statement: ast.Break, frame: Frame) -> bool:
    frame.breaks.append(frame.env)
    return False


# Branches


def _if(statement: ast.If, frame: Frame) -> bool:
    found = decided(statement.test, frame)
    before, made_before = frame.env, frozenset(frame.allocated)
    ends: list[tuple[Environment, Tag]] = []
    tags = [branch_tag(statement.test, holds, found, frame) for holds in (True, False)]
    seen: dict[ast.expr, Value] = {}
    for body, holds, tag in ((statement.body, True, tags[0]), (statement.orelse, False, tags[1])):
        if (holds and found is Truth.FALSE) or (not holds and found in flags.DEFINITELY_TRUE):
            _close(body, statement.test, frame)
            before = _assumed_in(body, before, frame)
            continue
        frame.env = before
        narrowed = refined(statement.test, frame, holds, evaluate, seen)
        if narrowed is None:
            _close(body, statement.test, frame)
            continue
        frame.env = dict(narrowed) if narrowed is before else narrowed
        if tag.machine:
            _on_machine(spelled_out(statement.test, frame), holds, frame)
        frame.path.append(tag)
        frame.assumes += found is Truth.AVAILABLE
        goes_on = run_body(body, frame)
        frame.assumes -= found is Truth.AVAILABLE
        frame.path.pop()
        if goes_on:
            ends.append((frame.env, tag))
    events.keep(ends, made_before, frame)
    return _meet(
        ends, before, frame, exited=len(ends) == 1 and found not in flags.DEFINITELY_TRUE and found is not Truth.FALSE
    )


def _on_machine(test: ast.expr, holds: bool, frame: Frame) -> None:
    """In a branch for another accelerator, the program's own device is that one."""
    found = device_on(test, holds, frame.interpreter.options.backend)
    if found is None:
        return
    name, kind = found
    frame.env[name] = DeviceValue(Device(kind, ASSUMED))
    if "." in name:
        frame.note_dotted(name)


def _assumed_in(body: SequenceOf[ast.stmt], env: Environment, frame: Frame) -> Environment:
    """The variables where a branch is left out that sets some of them for a machine without an accelerator."""
    targets = [target for statement in body if isinstance(statement, ast.Assign) for target in statement.targets]
    assumed = {key: as_assumed(env[key]) for key in map(key_of, targets) if key in env}
    for key in assumed:
        base, dot, name = key.rpartition(".")
        if dot and base == frame.self_name:
            stores = frame.stores.get(name, [])
            frame.stores[name] = [(as_assumed(held), node) for held, node in stores]
    return {**env, **assumed} if assumed else env


def _meet(ends: list[tuple[Environment, Tag]], before: Environment, frame: Frame, *, exited: bool = False) -> bool:
    """The variables where branches meet again; when the other branch left, the rest of the block stands under this
    one's tag.
    """
    if not ends:
        frame.env = before
        return False
    env, tag = ends[0]
    for other, other_tag in ends[1:]:
        env, other = _with_what_was_there(env, other, frame), _with_what_was_there(other, env, frame)
        env = join_environments(env, other, (tag,), (other_tag,))
    frame.env = env
    if exited:
        frame.path.append(tag)
    return True


def _with_what_was_there(env: Environment, other: Environment, frame: Frame) -> Environment:
    """The variables of one way, with what it leaves in the attributes that the other way gives pageable memory."""
    missing = [
        name
        for name, value in other.items()
        if name not in env and "." in name and isinstance(value, Array) and _is_pageable(value)
    ]
    if not missing or getattr(frame.function, "name", "") == "__init__":  # a new object has nothing there
        return env
    frame.env = dict(env)
    for name in missing:
        frame.env[name] = evaluate(ast.parse(name, mode="eval").body, frame)
    return frame.env


def _is_pageable(array: Array) -> bool:
    return array.device.is_cpu and array.memory is Memory.PAGEABLE


def _match(statement: ast.Match, frame: Frame) -> bool:
    evaluate(statement.subject, frame)
    before = frame.env
    ends: list[tuple[Environment, Tag]] = []
    for case in statement.cases:
        frame.env = dict(before)
        for node in ast.walk(case.pattern):
            name = getattr(node, "name", None) or getattr(node, "rest", None)
            if isinstance(name, str):
                frame.env[name] = NOTHING
        tag = Tag("case", case.pattern, path=frame.module.path, text=f"in the case on line {case.pattern.lineno}")
        frame.path.append(tag)
        goes_on = run_body(case.body, frame)
        frame.path.pop()
        if goes_on:
            ends.append((frame.env, tag))
    catches_all = any(
        isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None
        for case in statement.cases
    )
    if not catches_all:
        ends.append((before, Tag("case", statement, path=frame.module.path, text="in no case of the match")))
    return _meet(ends, before, frame)


# Loops


def _for(statement: ast.For | ast.AsyncFor, frame: Frame) -> bool:
    iterated = evaluate(statement.iter, frame)
    items = loop_items(iterated, statement.iter, frame)
    unrolled = len(items) > 1
    before = frame.env
    runs = items if unrolled else items * (2 if frame.loop_depth < 3 else 1)
    outer_jumps, frame.jumps = frame.jumps, []
    outer_breaks, frame.breaks = frame.breaks, []
    for position, item in enumerate(runs):
        frame.env = dict(frame.env)
        bind_target(statement.target, item, frame)
        _loop_body(statement, frame, counts=not unrolled)
        after = frame.env
        certain = unrolled or (isinstance(iterated, Sequence) and (bool(iterated.items) or iterated.length is not None))
        frame.env = after if certain else join_environments(before, after, (), ())
        if not unrolled and position == 0 and _settled(before, frame, statement):
            break
    frame.jumps = outer_jumps
    if statement.orelse:
        run_body(statement.orelse, frame)
    _leave_loop(frame, outer_breaks)
    return True


def _leave_loop(frame: Frame, outer: list[Environment], *, only: bool = False) -> None:
    """Behind a loop: the ways that broke off join it; `only`: there are no others."""
    for position, env in enumerate(frame.breaks):
        frame.env = env if only and not position else join_environments(frame.env, env, (), ())
    frame.breaks = outer


def _loop_body(statement: ast.For | ast.AsyncFor | ast.While, frame: Frame, *, counts: bool) -> None:
    """One turn; `continue` joins the end of it."""
    frame.loops.append((frame.interpreter.fresh_storage(), statement))
    if counts:
        frame.loop_depth += 1
    frame.jumps = []
    goes_on = run_body(statement.body, frame)
    frame.loops.pop()
    if counts:
        frame.loop_depth -= 1
    env = frame.env if goes_on else None
    for jump in frame.jumps:
        env = jump if env is None else join_environments(env, jump, (), ())
    if env is not None:
        frame.env = env


def _settled(before: Environment, frame: Frame, statement: ast.For | ast.AsyncFor | ast.While) -> bool:
    """Whether a second turn would see the same variables as the first, and leave alone what that left in flight.

    A container that is only filled is seen by no turn; it may hold pinned memory of several, if any is made here.
    """
    after = frame.env
    if events.has_more(before.get(IN_FLIGHT), after.get(IN_FLIGHT)):
        return False
    targets = (
        {node.id for node in ast.walk(statement.target) if isinstance(node, ast.Name)}
        if not isinstance(statement, ast.While)
        else set()
    )
    changed = [
        name
        for name, value in after.items()
        if name in before and name not in targets and not _as_good_as(before[name], value)
    ]
    return not changed or (not frame.allocated and read_in(statement).isdisjoint(changed))


def _as_good_as(before: Value, after: Value) -> bool:
    """Whether a value is the same, but for which memory it is (`one_of_several`), or is what events.py follows."""
    if before is after or isinstance(after, events.InFlight):
        return True
    return isinstance(before, Array) and isinstance(after, Array) and after is one_of_several(before)


def _while(statement: ast.While, frame: Frame) -> bool:
    before = frame.env
    outer_jumps = frame.jumps
    outer_breaks, frame.breaks = frame.breaks, []
    forever = isinstance(statement.test, ast.Constant) and bool(statement.test.value)
    for _ in range(2 if frame.loop_depth < 3 else 1):
        frame.env = dict(frame.env)
        tested(evaluate(statement.test, frame), statement.test, frame)
        narrowed = refined(statement.test, frame, True, evaluate)
        frame.env = dict(narrowed) if narrowed is not None else frame.env
        _loop_body(statement, frame, counts=True)
        frame.env = join_environments(before, frame.env, (), ())
        if _settled(before, frame, statement):
            break
    broke = bool(frame.breaks)
    frame.jumps = outer_jumps
    if not forever:
        narrowed = refined(statement.test, frame, False, evaluate)
        frame.env = narrowed if narrowed is not None else frame.env
    if statement.orelse:
        run_body(statement.orelse, frame)
    _leave_loop(frame, outer_breaks, only=forever)
    return not forever or broke


# Blocks


def _with(statement: ast.With | ast.AsyncWith, frame: Frame) -> bool:
    outer_device, outer_stream = frame.default_device, frame.stream
    for item in statement.items:
        outer, frame.entered = frame.entered, item.context_expr if item.optional_vars is not None else None
        value = evaluate(item.context_expr, frame)
        frame.entered = outer
        frame.stream = streams.entered(value, item.context_expr, frame)
        frame.default_device = _device_entered(value, item.context_expr) or frame.default_device
        if item.optional_vars is not None:
            bind_target(item.optional_vars, _entered(value, item.context_expr, frame), frame)
    goes_on = run_body(statement.body, frame)
    frame.default_device, frame.stream = outer_device, outer_stream
    return goes_on


def _device_entered(value: Value, node: ast.expr) -> Device | None:
    """The device on which factories allocate inside a `with`; None where it enters something else."""
    found = [way.value for way in alternatives(value)]
    devices = {one.device for one in found if isinstance(one, DeviceValue)}
    if devices:
        return devices.pop() if len(devices) == len(found) == 1 else SOMEWHERE
    name = (value.key if isinstance(value, Unknown) else "") or key_of(node)
    last = name.rpartition(".")[2].lower()
    named = isinstance(value, Unknown) and ("device" in last or last == "dev" or last.endswith("_dev"))
    return Device("", name) if named else None


def _entered(value: Value, node: ast.expr, frame: Frame) -> Value:
    """What a `with` binds: what `__enter__` returns, what a generator yields, what a `nullcontext` holds."""
    if isinstance(value, Instance):
        method = instance_attribute(value, "__enter__", node, frame)
        if isinstance(method, Function):
            return frame.interpreter.call_function(method, [], {}, frame, node, "")
        return NOTHING
    if isinstance(value, Sequence):
        return value.any_item()
    return value if isinstance(value, (Array, DeviceValue, Mapping)) else NOTHING  # a dict: an open file of tensors


def _try(statement: ast.stmt, frame: Frame) -> bool:
    body: list[ast.stmt] = statement.body  # type: ignore[attr-defined]
    handlers: list[ast.ExceptHandler] = statement.handlers  # type: ignore[attr-defined]
    before, made_before = dict(frame.env), frozenset(frame.allocated)
    ends: list[tuple[Environment, Tag]] = []
    frame.env = dict(before)
    if run_body([*body, *statement.orelse], frame):  # type: ignore[attr-defined]
        ends.append((frame.env, Tag("case", statement, path=frame.module.path, text="when nothing is raised")))
    interrupted = join_environments(before, frame.env, (), ())
    interrupted.pop(IN_FLIGHT, None)
    if IN_FLIGHT in before:  # what raised was issued perhaps, or not
        interrupted[IN_FLIGHT] = before[IN_FLIGHT]
    # A fallback for where nothing can be pinned is a guard like any other.
    lines = frame.module.lines[statement.lineno - 1 : body[-1].end_lineno or body[-1].lineno]
    tries_to_pin = any("pin_memory" in line for line in lines)
    for handler in handlers:
        frame.env = dict(interrupted)
        if handler.name:
            frame.env[handler.name] = NOTHING
        tag = Tag(
            "case", handler, True, not tries_to_pin, frame.module.path, f"in the except branch (line {handler.lineno})"
        )
        frame.path.append(tag)
        goes_on = run_body(handler.body, frame)
        frame.path.pop()
        if goes_on:
            ends.append((frame.env, tag))
    events.keep(ends, made_before, frame)
    goes_on = _meet(ends, before, frame)
    return run_body(statement.finalbody, frame) and goes_on  # type: ignore[attr-defined]


_STATEMENTS: dict[type, Statement] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Assert: _assert,
    ast.Delete: _delete,
    ast.Global: _global,
    ast.Nonlocal: _global,
    ast.Import: _import,
    ast.ImportFrom: _import,
    ast.FunctionDef: _define,
    ast.AsyncFunctionDef: _define,
    ast.ClassDef: _class,
    ast.If: _if,
    ast.Match: _match,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.Break: _break,
    ast.Continue: _continue,
}
if hasattr(ast, "TryStar"):
    _STATEMENTS[ast.TryStar] = _try
