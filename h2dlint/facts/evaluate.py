"""Expressions to values: one small function a node type."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from h2dlint.facts import events, flags
from h2dlint.facts.arithmetic import SYMBOLS, arithmetic, binary, compare
from h2dlint.facts.attributes import attribute_of
from h2dlint.facts.calls import call
from h2dlint.facts.domain import (
    CPU,
    NOTHING,
    Array,
    Choice,
    Const,
    Function,
    Instance,
    Mapping,
    PinnedTest,
    Sequence,
    Tag,
    Unknown,
    Value,
    alternatives,
    as_assumed,
    join,
    mapped,
    unknown_tensor,
    without_none,
)
from h2dlint.facts.flags import Truth, truth
from h2dlint.facts.frame import BudgetExceededError, Environment, Frame, key_of
from h2dlint.facts.indexing import element
from h2dlint.facts.iteration import item_of, loop_items, unpacked
from h2dlint.facts.machines import is_elsewhere, machine_of, spelled_out
from h2dlint.facts.operations import flat_arrays
from h2dlint.facts.refine import refined
from h2dlint.facts.transfers import read_back, tested

Handler: TypeAlias = Callable[[Any, Frame], Value]


def evaluate(node: ast.expr, frame: Frame) -> Value:
    """The value of an expression; transfers met on the way are recorded."""
    steps = frame.interpreter.steps
    steps.taken += 1
    if steps.taken > steps.limit:
        raise BudgetExceededError
    handler = _HANDLERS.get(type(node))
    return handler(node, frame) if handler is not None else _children(node, frame)


def _children(node: ast.expr, frame: Frame) -> Value:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            evaluate(child, frame)
    return NOTHING


def _constant(node: ast.Constant, frame: Frame) -> Value:
    return Const(node.value)


def _name(node: ast.Name, frame: Frame) -> Value:
    name = node.id
    found = frame.env.get(name)
    if found is None:
        found = frame.lookup(name) or frame.interpreter.resolve(frame.module, name)
    return on_host_by_name(found, name) if "cpu" in name else found


# Attributes


def _attribute(node: ast.Attribute, frame: Frame) -> Value:
    if node.attr in frame.dotted_ends:
        key = key_of(node)
        found = frame.env.get(key) if key else None
        if found is not None:
            return found
    base = evaluate(node.value, frame)
    if type(base) is Instance and frame.dotted:
        base = frame.filled_since(base, key_of(node.value))
    if type(base) is Choice:
        found = mapped(without_none(base), lambda value: attribute_of(value, node, frame))
    else:
        found = attribute_of(base, node, frame)
    return on_host_by_name(found, node.attr) if "cpu" in node.attr else found


def on_host_by_name(value: Value, name: str) -> Value:
    """A name such as `lens_cpu`, `ids_cpu_tensor` or `buf.cpu` is fair evidence for the CPU, never for pinning."""
    return mapped(value, _on_host) if _HOST_NAME.search(name) else value


def _on_host(value: Value) -> Value:
    if isinstance(value, Unknown) and not value.why:
        return unknown_tensor(CPU, by_name=True)
    if isinstance(value, Array) and value.device.is_unknown:
        return value.but(device=CPU, by_name=True)
    return value


_HOST_NAME = re.compile(r"(?:^|_)cpu(?:_tensor|_buf|_buffer)?s?$")


# Operators


def _binary(node: ast.BinOp, frame: Frame) -> Value:
    left, right = evaluate(node.left, frame), evaluate(node.right, frame)
    return binary(left, right, node.op, node, frame)


def _unary(node: ast.UnaryOp, frame: Frame) -> Value:
    value = evaluate(node.operand, frame)
    if isinstance(node.op, ast.Not):
        tested(value, node.operand, frame)
        if isinstance(value, PinnedTest):
            return PinnedTest(value.key, not value.negated)
        found = flags.of_truth(flags.negation(truth(value)), node)
        return found if found is not None else NOTHING
    if isinstance(value, Const) and isinstance(value.value, (int, float)):
        if isinstance(node.op, ast.USub):
            return Const(-value.value, value.soft)
        return value if isinstance(node.op, ast.UAdd) else NOTHING
    arrays, hidden = flat_arrays((value,))
    if arrays:
        name = "bitwise_not" if isinstance(node.op, ast.Invert) else "neg"
        return arithmetic(arrays, hidden, name, SYMBOLS.get(type(node.op), "-"), node, frame)
    return value if isinstance(value, Unknown) and value.why == "number" else NOTHING


def _compare(node: ast.Compare, frame: Frame) -> Value:
    left = evaluate(node.left, frame)
    rights = [evaluate(comparator, frame) for comparator in node.comparators]
    if len(rights) > 1:
        return NOTHING
    return compare(left, rights[0], node.ops[0], node, frame)


def _boolean(node: ast.BoolOp, frame: Frame) -> Value:
    """`and`, `or`: of flags a flag again; of other values one of them."""
    is_and = isinstance(node.op, ast.And)
    values: list[Value] = []
    outer = frame.env
    for operand in node.values:
        value = evaluate(operand, frame)
        values.append(value)
        if operand is not node.values[-1]:
            tested(value, operand, frame)
        found = truth(value)
        if (is_and and found is Truth.FALSE) or (not is_and and found in flags.DEFINITELY_TRUE):
            break
        narrowed = refined(operand, frame, is_and, evaluate)
        if narrowed is not None:
            events.back_to(frame, narrowed)
    events.back_to(frame, outer)
    truths = [truth(value) for value in values]
    if all(flags.is_flag(value) or isinstance(value, Unknown) for value in values) and any(
        flags.is_flag(value) for value in values
    ):
        pinned = next((value for value in values if isinstance(value, PinnedTest)), None)
        if pinned is not None and is_and and Truth.FALSE not in truths:  # true only where that is
            return pinned
        if all(isinstance(value, PinnedTest) for value in values):
            return values[0]
        found_flag = flags.of_truth(flags.conjunction(truths) if is_and else flags.disjunction(truths), node)
        return found_flag if found_flag is not None else NOTHING
    return _one_of(values, truths, is_and)


def _one_of(values: list[Value], truths: list[Truth], is_and: bool) -> Value:
    stops = {Truth.FALSE} if is_and else flags.DEFINITELY_TRUE
    passes = flags.DEFINITELY_TRUE if is_and else {Truth.FALSE}
    kept = [
        value for value, found in zip(values[:-1], truths[:-1], strict=True) if found not in passes or found in stops
    ]
    return join([*(kept if is_and else map(_where_true, kept)), values[-1]])


def _where_true(value: Value) -> Value:
    """The alternatives that `or` lets through."""
    ways = tuple(way for way in alternatives(value) if truth(way.value) is not Truth.FALSE)
    return Choice(ways) if ways and len(ways) < len(alternatives(value)) else value


def _conditional(node: ast.IfExp, frame: Frame) -> Value:
    found = decided(node.test, frame)
    ways: list[Value] = []
    tags: list[tuple[Tag, ...]] = []
    start = events.state_of(frame)
    ends: list[events.InFlight] = []
    for branch, holds in ((node.body, True), (node.orelse, False)):
        if (holds and found is Truth.FALSE) or (not holds and found in flags.DEFINITELY_TRUE):
            continue
        narrowed = refined(node.test, frame, holds, evaluate)
        if narrowed is None:
            continue
        outer, frame.env = frame.env, narrowed
        tag = branch_tag(node.test, holds, found, frame)
        frame.path.append(tag)
        ways.append(evaluate(branch, frame))
        frame.path.pop()
        ends.append(events.state_of(frame))
        frame.env = outer
        tags.append((tag,))
    events.set_state(frame, start, ends)
    value = join(ways, tags)
    return as_assumed(value) if found in (Truth.AVAILABLE, Truth.FALSE) else value


def branch_tag(test: ast.expr, holds: bool, found: Truth, frame: Frame) -> Tag:
    """The tag of a branch; one that a switch closes by default says so."""
    by_default = not ((found is Truth.SOFT_TRUE and not holds) or (found is Truth.SOFT_FALSE and holds))
    machine = machine_of(spelled_out(test, frame), holds, frame.interpreter.options.backend)
    return Tag("path", test, holds, by_default, frame.module.path, machine=machine)


def decided(test: ast.expr, frame: Frame) -> Truth:
    """What a condition of a branch comes to. One that asks for another accelerator may be true on other machines."""
    found = truth(tested(evaluate(test, frame), test, frame))
    return Truth.UNKNOWN if is_elsewhere(spelled_out(test, frame), frame.interpreter.options.backend) else found


# Containers


def _list(node: ast.List | ast.Tuple | ast.Set, frame: Frame) -> Value:
    items: list[Value] = []
    open_ended = False
    for item in node.elts:
        value = evaluate(item.value if isinstance(item, ast.Starred) else item, frame)
        if not isinstance(item, ast.Starred):
            items.append(value)
        elif isinstance(value, Sequence) and value.items is not None:
            items.extend(value.items)
        else:
            open_ended = True
            items.append(value.any_item() if isinstance(value, Sequence) else NOTHING)
    is_tuple = isinstance(node, ast.Tuple)
    return (
        Sequence(None, join(items), may_be_tuple=is_tuple)
        if open_ended
        else Sequence(tuple(items), may_be_tuple=is_tuple)
    )


def _dict(node: ast.Dict, frame: Frame) -> Value:
    items: list[tuple[object, Value]] = []
    rest: list[Value] = []
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        value = evaluate(value_node, frame)
        if key_node is None:
            if isinstance(value, Mapping):
                items.extend(value.items)
                rest.extend([value.item] if value.item is not None else [])
            else:
                rest.append(NOTHING)
            continue
        key = evaluate(key_node, frame)
        if isinstance(key, Const):
            items = [(known, held) for known, held in items if known != key.value]
            items.append((key.value, value))
        else:
            rest.append(value)
    return Mapping(tuple(items), join(rest) if rest else None)


def _comprehension(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, frame: Frame) -> Value:
    outer = frame.env
    frame.env = dict(outer)
    frame.loop_depth += 1
    results = list(_comprehend(node, 0, frame))
    frame.loop_depth -= 1
    events.back_to(frame, outer)
    if isinstance(node, ast.DictComp):
        keyed = [(key.value, value) for key, value in results if isinstance(key, Const)]
        if len(keyed) == len(results) and keyed and len(node.generators) == 1:
            return Mapping(tuple(keyed))
        return Mapping((), join([value for _, value in results]))
    values = [value for _, value in results]
    unrolled = len(node.generators) == 1 and not node.generators[0].ifs and len(values) > 1
    return Sequence(tuple(values)) if unrolled else Sequence(None, join(values))


def _comprehend(
    node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, position: int, frame: Frame
) -> list[tuple[Value, Value]]:
    if position == len(node.generators):
        if isinstance(node, ast.DictComp):
            return [(evaluate(node.key, frame), evaluate(node.value, frame))]
        return [(NOTHING, evaluate(node.elt, frame))]
    generator = node.generators[position]
    iterated = evaluate(generator.iter, frame)
    results: list[tuple[Value, Value]] = []
    for item in loop_items(iterated, generator.iter, frame):
        bind_target(generator.target, item, frame)
        before = frame.env
        for condition in generator.ifs:
            tested(evaluate(condition, frame), condition, frame)
            narrowed = refined(condition, frame, True, evaluate)
            if narrowed is not None:
                frame.env = narrowed
        results.extend(_comprehend(node, position + 1, frame))
        frame.env = before
    return results


def bind_target(target: ast.expr, value: Value, frame: Frame) -> None:
    """Bind a loop, comprehension, with or assignment target."""
    if isinstance(target, ast.Name):
        if frame.tests:
            frame.bind_anew(target.id)
        frame.forget(target.id)
        frame.env[target.id] = value
    elif isinstance(target, (ast.Tuple, ast.List)):
        for item, part in zip(target.elts, unpacked(value, len(target.elts), target, frame), strict=False):
            if isinstance(item, ast.Starred):
                bind_target(item.value, Sequence(None, part), frame)
            else:
                bind_target(item, part, frame)
    elif isinstance(target, ast.Attribute):
        evaluate(target.value, frame)
        key = key_of(target)
        if key:
            frame.store_attribute(key, value, target)


def _subscript(node: ast.Subscript, frame: Frame) -> Value:
    base = without_none(evaluate(node.value, frame))
    return element(base, node, evaluate, frame)


def _walrus(node: ast.NamedExpr, frame: Frame) -> Value:
    value = evaluate(node.value, frame)
    bind_target(node.target, value, frame)
    return value


def _lambda(node: ast.Lambda, frame: Frame) -> Value:
    frame.defined.add(node)
    return Function(node, frame.module, frame.owner, None, scope_of(frame))


def scope_of(frame: Frame) -> Environment:
    """What a nested function closes over: enclosing scopes below the live local variables."""
    return frame.env if frame.scope is None else {**frame.scope, **frame.env}


def _inner(node: ast.Await | ast.Starred, frame: Frame) -> Value:
    value = evaluate(node.value, frame)
    if isinstance(node, ast.Await):
        events.wait(frame)  # whoever runs meanwhile may
    return value


def _yield(node: ast.Yield | ast.YieldFrom, frame: Frame) -> Value:
    if node.value is not None:
        value = evaluate(node.value, frame)
        frame.yields.append(item_of(value, node, frame) if isinstance(node, ast.YieldFrom) else value)
    events.lend(frame)
    return NOTHING


def _call(node: ast.Call, frame: Frame) -> Value:
    return call(node, frame, evaluate)


def _text(node: ast.JoinedStr, frame: Frame) -> Value:
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            read_back(evaluate(part.value, frame), "__format__", part.value, frame)
    first = node.values[0] if node.values else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str) and ":" in first.value:
        return Const(first.value)  # as good as the whole for the name of a device
    return Unknown(why="number")


_HANDLERS: dict[type, Handler] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.Subscript: _subscript,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _boolean,
    ast.IfExp: _conditional,
    ast.List: _list,
    ast.Tuple: _list,
    ast.Set: _list,
    ast.Dict: _dict,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.NamedExpr: _walrus,
    ast.Lambda: _lambda,
    ast.Await: _inner,
    ast.Starred: _inner,
    ast.Yield: _yield,
    ast.YieldFrom: _yield,
    ast.JoinedStr: _text,
}
