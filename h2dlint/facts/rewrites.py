"""Whether a pinned buffer is written again after a `.pin_memory()` that was meant to keep what it held.

Pinning pinned memory returns the buffer itself, so the later write shows in the "snapshot" too. Only writes that the
text shows are counted: items, in-place methods, `copy_`, and the same through the buffer's ndarray.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from h2dlint.facts.around import LOOPS, FunctionNode, around, covers, function_around, text_of
from h2dlint.facts.frame import key_of
from h2dlint.facts.modules import ModuleInfo

_WAITS = re.compile(r"synchronize\(|\.wait\(|\.query\(|\.item\(|\.tolist\(|\.cpu\(|wait_event\(|wait_stream\(")
_SAME_MEMORY = ("numpy", "view", "detach", "data", "squeeze", "unsqueeze", "flatten", "reshape", "narrow", "select")


class Rewrite(Struct, frozen=True):
    """A write that reaches what should have been kept."""

    node: ast.AST
    certain: bool
    """One function shows the pin, the write and that nothing waits between them."""


def rewrite_after(module: ModuleInfo, pin: ast.Call) -> Rewrite | None:
    """The write that a `.pin_memory()` on pinned memory does not protect from; None where none is seen, or it may be
    waited for.
    """
    assert isinstance(pin.func, ast.Attribute)
    key = base_key(pin.func.value)
    path = around(module.tree, pin)
    function = function_around(path)
    if not key or function is None or not _is_kept(pin, path, function, key):
        return None
    here = _in_function(module, pin, key, path, function)
    if here is not None or "." not in key:
        return here
    return _in_class(module, key, path, function)


def base_key(node: ast.expr) -> str:
    """The dotted name of the buffer behind slices and views; empty where there is none."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME_MEMORY:
            node = node.func.value
        else:
            break
    return key_of(node)


def _is_kept(pin: ast.Call, path: list[ast.AST], function: FunctionNode, key: str) -> bool:
    """Whether the result is used as a copy would be: sent without waiting, or under a name of its own."""
    statement = next((one for one in reversed(path) if isinstance(one, ast.stmt)), None)
    if statement is None:
        return False
    for one in path:
        if isinstance(one, ast.Call) and any(word.arg == "non_blocking" for word in one.keywords):
            return True
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        name = key_of(statement.targets[0])
        return bool(name) and name != key and _is_sent(function, name, statement)
    return False


def _is_sent(function: FunctionNode, name: str, after: ast.stmt) -> bool:
    """Whether a call that names non_blocking has to do with `name` further down."""
    return any(
        isinstance(node, ast.Call)
        and node.lineno >= after.lineno
        and any(word.arg == "non_blocking" for word in node.keywords)
        and any(key_of(part) == name for part in ast.walk(node) if isinstance(part, (ast.Name, ast.Attribute)))
        for node in ast.walk(function)
    )


def _in_function(
    module: ModuleInfo, pin: ast.Call, key: str, path: list[ast.AST], function: FunctionNode
) -> Rewrite | None:
    """A write further down, or further up in a loop that does not make the buffer anew."""
    if _WAITS.search(text_of(module.lines, function)):
        return None
    loops = [one for one in path if isinstance(one, LOOPS) and not _binds(one, key)]
    for write in writes_to(function, key):
        later = (write.lineno, write.col_offset) > (pin.lineno, pin.col_offset)
        if later or any(covers(loop, write) for loop in loops):
            return Rewrite(write, certain=True)
    return None


def _binds(loop: ast.AST, key: str) -> bool:
    return any(
        isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store) and key_of(node) == key
        for node in ast.walk(loop)
    )


def _in_class(module: ModuleInfo, key: str, path: list[ast.AST], function: FunctionNode) -> Rewrite | None:
    """A buffer that an object keeps, written by any of its methods but the constructor."""
    owner = next((one for one in reversed(path) if isinstance(one, ast.ClassDef)), None)
    first = (function.args.posonlyargs + function.args.args)[:1]
    if owner is None or not first or key.partition(".")[0] != first[0].arg:
        return None
    if _WAITS.search(text_of(module.lines, owner)):
        return None
    for method in owner.body:
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and method.name != "__init__":
            for write in writes_to(method, key):
                return Rewrite(write, certain=False)
    return None


def writes_to(function: ast.AST, key: str) -> Iterator[ast.expr]:
    """The places where a function writes into the memory that `key` names, in source order."""
    names = {key, *_ndarrays(function, key)}
    found: list[ast.expr] = []
    for node in ast.walk(function):
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                item = isinstance(target, ast.Subscript) and base_key(target) in names
                if item or (isinstance(node, ast.AugAssign) and key_of(target) in names):
                    found.append(target)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            if name.endswith("_") and not name.startswith("_") and base_key(node.func.value) in names:
                found.append(node)
    return iter(sorted(found, key=lambda node: (node.lineno, node.col_offset)))


def _ndarrays(function: ast.AST, key: str) -> Iterator[str]:
    """Names that the function gives to the buffer's ndarray or to views of it."""
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Assign)
            and len(node.targets) == 1
            and isinstance(node.value, (ast.Call, ast.Subscript))
        ):
            pins = isinstance(node.value, ast.Call) and getattr(node.value.func, "attr", "") == "pin_memory"
            name = key_of(node.targets[0])
            if name and not pins and base_key(node.value) == key:
                yield name
