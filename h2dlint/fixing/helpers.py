"""Which functions of a project pin what they are given and send it, and do nothing else.

A call of such a function may take the place of a transfer only if the same values arrive, in the same dtype, and if
nothing is raised where nothing was. So its body is held against the few statements that do no more.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from h2dlint.fixing.names import dotted_name, own_nodes

_MOST_NODES = 250
"""A longer function does more than pin and send."""


def pins_and_sends(definition: ast.FunctionDef, says_pinnable: Callable[[ast.expr], bool]) -> bool:
    """Whether a function pins what its first parameter holds, where that is possible, sends it with `non_blocking=`,
    returns that, and does nothing else.

    `says_pinnable` tells whether a test in it holds only where memory can be pinned. A decorated function is none: a
    cache would hand out what it sent before, and whatever else stands around a function is not in sight.
    """
    if definition.decorator_list or not definition.args.args or len(list(own_nodes(definition))) > _MOST_NODES:
        return False
    if not 1 <= len(required(definition)) <= 2:  # one may call it with a tensor and a device alone
        return False
    reader = _Reader(definition, says_pinnable)
    return reader.only_sends(definition.body) and reader.pins and reader.sends


def required(definition: ast.FunctionDef) -> list[str]:
    """The parameters that have no default."""
    arguments = definition.args
    plain = [*arguments.posonlyargs, *arguments.args]
    plain = plain[: len(plain) - len(arguments.defaults)]
    named = [one for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None]
    return [argument.arg for argument in (*plain, *named)]


def default_of(definition: ast.FunctionDef, name: str) -> ast.expr | None:
    """The default of a parameter; None where it has none, or there is no such parameter."""
    return next((default for one, default in _defaults(definition) if one.arg == name), None)


def asks_its_device(definition: ast.FunctionDef, name: str) -> bool:
    """Whether a function takes an attribute of its parameter `name`: then a string will not do for the device."""
    return any(isinstance(node, ast.Attribute) and dotted_name(node.value) == name for node in ast.walk(definition))


class _Reader:
    """Reads a body, and knows which names hold the given tensor, as it is or pinned, and which one on a device."""

    def __init__(self, definition: ast.FunctionDef, says_pinnable: Callable[[ast.expr], bool]) -> None:
        self._says_pinnable = says_pinnable
        self.pins = False
        """Whether something is pinned, under a test that says that it can be."""
        self.sends = False
        self._same = {definition.args.args[0].arg}
        self._made: set[str] = set()
        arguments = definition.args
        self._parameters = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
        self._optional = _given_none(definition)
        self._tests: list[ast.expr] = []

    def only_sends(self, body: list[ast.stmt]) -> bool:
        """Whether these statements keep values and dtype, and raise nothing of their own."""
        return all(self._is_plain(statement) for statement in body)

    def _is_plain(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.Expr):
            return isinstance(statement.value, ast.Constant) or self._fills(statement.value)
        if isinstance(statement, ast.If):
            self._tests.append(statement.test)
            plain = self.only_sends(statement.body)
            self._tests.pop()
            return plain and self.only_sends(statement.orelse)
        if isinstance(statement, ast.Return) and statement.value is not None:
            return self._arrives(statement.value)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            return isinstance(statement.targets[0], ast.Name) and self._binds(statement.targets[0].id, statement.value)
        return False

    def _binds(self, name: str, value: ast.expr) -> bool:
        self._made.discard(name)
        if self._keeps(value):
            self._same.add(name)
            return True
        self._same.discard(name)
        if self._is_empty_one(value) or self._arrives(value):
            self._made.add(name)
            return True
        return False

    def _keeps(self, value: ast.expr) -> bool:
        """Whether an expression is the given tensor, made dense or pinned at most."""
        if isinstance(value, ast.Name):
            return value.id in self._same
        if isinstance(value, ast.IfExp):
            self._tests.append(value.test)
            chosen = self._keeps(value.body)
            self._tests.pop()
            return chosen and self._keeps(value.orelse)
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
            return False
        name = value.func.attr
        if name in ("as_tensor", "tensor") and dotted_name(value.func) in ("torch.as_tensor", "torch.tensor"):
            return len(value.args) == 1 and self._keeps(value.args[0]) and self._keeps_dtype(value, ("pin_memory",))
        if (
            value.args
            or value.keywords
            or name not in ("pin_memory", "contiguous")
            or not self._keeps(value.func.value)
        ):
            return False
        return name == "contiguous" or self._may_pin()

    def _may_pin(self, *flags: ast.expr) -> bool:
        """Note that something is pinned; False where nothing says that it can be."""
        self.pins = True
        return any(self._says_pinnable(test) for test in (*self._tests, *flags))

    def _arrives(self, value: ast.expr) -> bool:
        """Whether an expression is the given tensor on its device."""
        if isinstance(value, ast.Name):
            return value.id in self._made
        if isinstance(value, ast.IfExp):
            return self._arrives(value.body) and self._arrives(value.orelse)
        if self._fills(value):
            return True
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
            return False
        asked = self._does_not_wait(value)
        self.sends = self.sends or asked
        devices = [*value.args, *(keyword.value for keyword in value.keywords if keyword.arg == "device")]
        return (
            value.func.attr == "to"
            and asked
            and len(devices) == 1
            and self._is_parameter(devices[0])
            and self._keeps(value.func.value)
            and self._keeps_dtype(value, ("device", "non_blocking"))
        )

    def _does_not_wait(self, call: ast.Call) -> bool:
        """Whether a call copies with `non_blocking=True`, or as the caller says."""
        given = next((keyword.value for keyword in call.keywords if keyword.arg == "non_blocking"), None)
        if isinstance(given, ast.Name):
            return given.id == "non_blocking" and given.id in self._parameters
        return isinstance(given, ast.Constant) and given.value is True

    def _is_parameter(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self._parameters

    def _fills(self, value: ast.expr) -> bool:
        """`made.copy_(given, non_blocking=True)`."""
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or value.func.attr != "copy_":
            return False
        into = value.func.value
        made = self._is_empty_one(into) or (isinstance(into, ast.Name) and into.id in self._made)
        self.sends = self.sends or self._does_not_wait(value)
        return made and len(value.args) == 1 and self._keeps(value.args[0])

    def _is_empty_one(self, value: ast.expr) -> bool:
        """`torch.empty_like(given, device=device)`."""
        return (
            isinstance(value, ast.Call)
            and dotted_name(value.func) == "torch.empty_like"
            and len(value.args) == 1
            and self._keeps(value.args[0])
            and all(keyword.arg == "device" and self._is_parameter(keyword.value) for keyword in value.keywords)
            and bool(value.keywords)
        )

    def _keeps_dtype(self, call: ast.Call, others: tuple[str, ...]) -> bool:
        """Whether a call changes the dtype only for whoever asks for that."""
        for keyword in call.keywords:
            if keyword.arg == "pin_memory" and "pin_memory" in others:
                if not self._may_pin(keyword.value):
                    return False
            elif keyword.arg == "dtype":
                if not isinstance(keyword.value, ast.Name) or keyword.value.id not in self._optional:
                    return False
            elif keyword.arg not in others:
                return False
        return True


def _given_none(definition: ast.FunctionDef) -> frozenset[str]:
    """The parameters that are None unless somebody gives them."""
    pairs = _defaults(definition)
    return frozenset(one.arg for one, default in pairs if isinstance(default, ast.Constant) and default.value is None)


def _defaults(definition: ast.FunctionDef) -> list[tuple[ast.arg, ast.expr]]:
    """The parameters that have a default, each with it."""
    arguments = definition.args
    plain = [*arguments.posonlyargs, *arguments.args]
    named = [*zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return [
        *zip(plain[len(plain) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *((one, default) for one, default in named if default is not None),
    ]
