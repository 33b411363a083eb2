"""Mistakes around a copy that are none of its verdict, noted where the interpreter meets them.

A note says what happens on one way through the program; `mistakes.py` decides which of them are worth a word.
"""

from __future__ import annotations

import ast
import re

from h2dlint.facts.backends import Fact, is_so
from h2dlint.facts.copies import Direction, Pitfall, Verdict
from h2dlint.facts.domain import Array, Device, Mapping, Memory, Sequence, Tag, Value, alternatives
from h2dlint.facts.flags import Truth, truth
from h2dlint.facts.frame import Frame
from h2dlint.facts.layout import Form
from h2dlint.facts.outcomes import Outcome
from h2dlint.facts.torch_api import FACTORIES, METHODS, TRANSFER_METHODS, Effect

_DEVICE_NAME = re.compile(r"(?i)(?:^|_)dev(?:ice)?(?:_|\d|$)")
_TENSOR = re.compile(r"(?:torch\.)?(?:\w*Tensor|nn\.Parameter)")
_MOVES = frozenset({"to", *TRANSFER_METHODS}) - {"cpu"}
_WAITING = (Pitfall.HOST_INDEX, Pitfall.HOST_DATA, Pitfall.HOST_VALUE)


def note(
    frame: Frame,
    node: ast.expr,
    call: str,
    pitfall: Pitfall,
    array: Array | None = None,
    *,
    operand: ast.AST | None = None,
    why: str = "",
    certain: bool = True,
    direction: Direction = Direction.H2H,
    tags: tuple[Tag, ...] = (),
) -> None:
    """Remember a pitfall as it shows on this way."""
    frame.interpreter.record(
        Outcome(
            node,
            call,
            Verdict.BLOCKING if pitfall in _WAITING else Verdict.NO_TRANSFER,
            direction,
            False,
            decisive=array,
            operand=operand,
            tags=(*frame.way, *tags, *frame.path[-3:]),
            context=frame.context,
            module=frame.module.file,
            why=why,
            root=frame.root,
            root_file=frame.root_file,
            pitfall=pitfall,
            certain=certain,
        )
    )


# Pinning


def of_pin(value: Value, node: ast.AST, frame: Frame) -> None:
    """A `.pin_memory()` on something: what is wrong with it whichever way the program came."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    operand = node.func.value
    ways = [way.value for way in alternatives(value)]
    arrays = [way for way in ways if isinstance(way, Array)]
    whole = len(arrays) == len(ways)
    if frame.unused is node and _outlives(operand) and _is_tensor(arrays, whole, operand, frame):
        found = Pitfall.PIN_DISCARDED
    elif not whole or not all(array.kind == "tensor" for array in arrays):
        found = Pitfall.PIN_SEEN
    elif all(array.device.is_accelerator and _refuses_pin(array.device, frame) for array in arrays):
        found = Pitfall.PIN_ON_DEVICE
    elif all(array.device.is_cpu and array.layout.form is Form.GAPPED for array in arrays):
        found = Pitfall.PIN_KEEPS_GAPS
    elif all(array.memory is Memory.PINNED for array in arrays):
        found = Pitfall.PIN_NO_SNAPSHOT
    else:
        found = Pitfall.PIN_SEEN
    note(frame, node, "pin_memory", found, arrays[0] if arrays else None, operand=operand)


def of_move(value: Value, name: str, node: ast.Call, frame: Frame) -> None:
    """A `.to(...)` or `.cuda()` that is a statement of its own: it moves no tensor in place."""
    if frame.unused is not node or name not in _MOVES or not isinstance(node.func, ast.Attribute):
        return
    operand = node.func.value
    ways = [way.value for way in alternatives(value)]
    arrays = [way for way in ways if isinstance(way, Array)]
    if (
        isinstance(operand, (ast.Name, ast.Attribute))
        and _outlives(operand)
        and _is_tensor(arrays, len(arrays) == len(ways), operand, frame)
    ):
        note(frame, node, name, Pitfall.MOVE_DISCARDED, arrays[0] if arrays else None, operand=operand)


def _outlives(operand: ast.expr) -> bool:
    """Whether what is pinned or moved goes on after the statement; a fresh tensor is there for an effect of its own."""
    return not any(isinstance(part, (ast.Call, ast.Await, ast.NamedExpr)) for part in ast.walk(operand))


def _is_tensor(arrays: list[Array], whole: bool, operand: ast.expr, frame: Frame) -> bool:
    """Whether it is a tensor on every way; objects of other classes may well change in place."""
    if isinstance(operand, ast.Name) and _annotated_tensor(operand.id, frame.function):
        return all(array.kind == "tensor" for array in arrays)
    return whole and bool(arrays) and all(_is_shown(array) for array in arrays)


def _is_shown(array: Array) -> bool:
    """Whether it is shown to be a tensor: what something unknown is after `x = x.to(device)` may be a module, and so
    may what a name alone puts on the host.
    """
    return array.kind == "tensor" and (array.trail is not None or (array.device.is_cpu and not array.by_name))


def _annotated_tensor(name: str, function: ast.AST | None) -> bool:
    arguments = getattr(function, "args", None)
    if not isinstance(arguments, ast.arguments):
        return False
    for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if parameter.arg == name and parameter.annotation is not None:
            return bool(_TENSOR.fullmatch(ast.unparse(parameter.annotation).strip("'\"")))
    return False


def _refuses_pin(device: Device, frame: Frame) -> bool:
    return is_so(Fact.DEVICE_REFUSES_PIN, device, frame.interpreter.options.backend)


def of_factory(label: str, devices: list[Device], flag: Value, explicit: bool, node: ast.AST, frame: Frame) -> None:
    """`pin_memory=True` at a factory whose device is an accelerator: it raises (FACTS, 11)."""
    row = FACTORIES.get(label) or METHODS.get(label)
    if row is None or row.effect not in (Effect.FACTORY, Effect.LIKE) or not isinstance(node, ast.expr):
        return
    if truth(flag) not in (Truth.TRUE, Truth.AVAILABLE) or not devices:
        return
    if all(device.is_accelerator and _refuses_pin(device, frame) for device in devices):
        ambient = not explicit and row.effect is Effect.FACTORY and not label.startswith("new_")
        note(frame, node, label, Pitfall.PIN_UNDER_DEVICE if ambient else Pitfall.PIN_FOR_DEVICE)


def of_loader(item: Value, flag: Value | None, node: ast.Call, frame: Frame) -> None:
    """A DataLoader that pins what its dataset hands out, or its collate function makes, on a device: the first batch
    raises.
    """
    arrays = _leaves(item)
    if flag is None or truth(flag) not in (Truth.TRUE, Truth.AVAILABLE) or not arrays:
        return
    if any(array.device.is_accelerator and array.device.is_certain for array in arrays):
        note(frame, node, "DataLoader", Pitfall.PIN_OF_DEVICE_BATCH, arrays[0])


def _leaves(value: Value) -> list[Array]:
    if isinstance(value, Sequence):
        items = (value.item,) if value.items is None else value.items
        return [leaf for item in items for leaf in _leaves(item)]
    if isinstance(value, Mapping):
        return _leaves(value.any_item())
    ways = alternatives(value)
    found = [way.value for way in ways if isinstance(way.value, Array)]
    return found if len(found) == len(ways) else []


# Waits that nobody asked for


def placed(device: Device, frame: Frame) -> bool:
    """Whether a tensor was put on a device of unknown kind by a name that says so: `device=dev`, `.to(self.device)`.

    Who does that means an accelerator, unless the name is a parameter that is the host's unless told otherwise.
    """
    return named_as_device(device) and not defaults_to_host(device.key.rpartition(".")[2], frame.function)


def named_as_device(device: Device) -> bool:
    """Whether the unknown device has a name such as `dev`, `self.device`, `x.device`."""
    return device.is_unknown and bool(_DEVICE_NAME.search(device.key.rpartition(".")[2]))


def defaults_to_host(name: str, function: ast.AST | None) -> bool:
    """Whether the function has a parameter of that name whose default is the host: `device="cpu"`."""
    arguments = getattr(function, "args", None)
    if not isinstance(arguments, ast.arguments):
        return False
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(reversed(positional), reversed(arguments.defaults), strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return any(one.arg == name and default is not None and _says_cpu(default) for one, default in pairs)


def _says_cpu(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Constant) and part.value == "cpu" for part in ast.walk(node))


def waits(
    frame: Frame,
    node: ast.expr,
    call: str,
    pitfall: Pitfall,
    device: Device,
    *,
    operand: ast.AST | None = None,
    array: Array | None = None,
    direction: Direction = Direction.H2D,
) -> None:
    """A hidden wait, on a device that is proven or only placed. `operand`: what goes to the device."""
    certain = device.is_accelerator and is_so(Fact.HIDDEN_WAITS, device, frame.interpreter.options.backend)
    if certain or placed(device, frame):
        why = "" if certain else device.key.rpartition(".")[2]
        note(frame, node, call, pitfall, array, operand=operand, why=why, certain=certain, direction=direction)
