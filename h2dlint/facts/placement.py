"""Pins in places where they do no good: a loader's worker process, a captured graph, compiled code.

What runs in a worker is proven only by the loader that starts workers: with `num_workers=0` the same code runs in the
main process, where pinning is fine.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from h2dlint.facts.around import FunctionNode, around
from h2dlint.facts.copies import Pitfall
from h2dlint.facts.frame import key_of
from h2dlint.facts.modules import ModuleInfo
from h2dlint.facts.walking import expressions_on

_CAPTURES = ("torch.cuda.graph", "torch.cuda.graphs.graph")
_COMPILES = ("torch.compile",)
_DATASETS = ("torch.utils.data.Dataset", "torch.utils.data.IterableDataset", "torch.utils.data.dataset.Dataset")
_LOADERS = re.compile("DataLoader")
_PIN_MEMORY = re.compile("pin_memory")
_ITEMS = ("__getitem__", "__getitems__", "__iter__")


class Misplaced(Struct, frozen=True):
    """One pin that stands in the wrong place."""

    node: ast.Call
    pitfall: Pitfall
    because: ast.AST | None
    """The loader, the capture or the decorator."""
    certain: bool


def misplaced_pins(module: ModuleInfo) -> Iterator[Misplaced]:
    """The pins of a module that run in a loader's worker, while a graph is captured, or in compiled code."""
    loaders = [node for node in _calls_on(module, _LOADERS) if _last(node.func) == "DataLoader"]
    for pin in _pins(module):
        path = around(module.tree, pin)
        yield from _captured(module, pin, path)
        yield from _in_worker(module, pin, path, loaders)


def _calls_on(module: ModuleInfo, pattern: re.Pattern[str]) -> Iterator[ast.Call]:
    """The calls of the statements in which the pattern stands."""
    for node in expressions_on(module.tree.body, module.lines_with(pattern)):
        if isinstance(node, ast.Call):
            yield node


def _pins(module: ModuleInfo) -> Iterator[ast.Call]:
    """Calls of `.pin_memory()`, and factories that are told to pin."""
    for node in _calls_on(module, _PIN_MEMORY):
        told = any(
            word.arg == "pin_memory" and isinstance(word.value, ast.Constant) and word.value.value is True
            for word in node.keywords
        )
        factory = _last(node.func) != "DataLoader" and _dotted(module, node.func).startswith("torch.")
        if (told and factory) or (isinstance(node.func, ast.Attribute) and node.func.attr == "pin_memory"):
            yield node


def _captured(module: ModuleInfo, pin: ast.Call, path: list[ast.AST]) -> Iterator[Misplaced]:
    for one in reversed(path):
        if isinstance(one, (ast.With, ast.AsyncWith)):
            context = _capture_in(module, one)
            if context is not None:
                yield Misplaced(pin, Pitfall.PIN_IN_CAPTURE, context, certain=True)
                return
        elif isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in one.decorator_list:
                called = decorator.func if isinstance(decorator, ast.Call) else decorator
                if _dotted(module, called) in _COMPILES:
                    yield Misplaced(pin, Pitfall.PIN_COMPILED, decorator, certain=False)
            return


def capture_around(module: ModuleInfo, node: ast.AST) -> ast.expr | None:
    """The `torch.cuda.graph(...)` of the `with` that a piece of syntax stands in."""
    if "graph(" not in module.text:
        return None
    for one in reversed(around(module.tree, node)):
        if isinstance(one, (ast.With, ast.AsyncWith)):
            context = _capture_in(module, one)
            if context is not None:
                return context
        elif isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
            break
    return None


def _capture_in(module: ModuleInfo, statement: ast.With | ast.AsyncWith) -> ast.expr | None:
    for item in statement.items:
        context = item.context_expr
        if isinstance(context, ast.Call) and _dotted(module, context.func) in _CAPTURES:
            return context
    return None


def _in_worker(module: ModuleInfo, pin: ast.Call, path: list[ast.AST], loaders: list[ast.Call]) -> Iterator[Misplaced]:
    functions = [one for one in path if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))]
    owner = next((one for one in path if isinstance(one, ast.ClassDef)), None)
    for loader in loaders:
        workers = _workers(loader)
        if workers is not False and _runs(loader, functions, owner, module):
            yield Misplaced(pin, Pitfall.PIN_IN_WORKER, loader, certain=workers is True)
            return
    if owner is None or not functions or functions[0].name not in _ITEMS:
        return
    of_torch = any(_dotted(module, base) in _DATASETS for base in owner.bases)
    if of_torch and not any(_names(loader, owner.name, module) for loader in loaders):
        yield Misplaced(pin, Pitfall.PIN_IN_WORKER, None, certain=False)


def _workers(loader: ast.Call) -> bool | None:
    """Whether the loader starts worker processes; None where a variable says how many."""
    given = next((word.value for word in loader.keywords if word.arg == "num_workers"), None)
    if given is None:
        return None if any(word.arg is None for word in loader.keywords) else False
    return given.value != 0 if isinstance(given, ast.Constant) else None


def _runs(loader: ast.Call, functions: list[FunctionNode], owner: ast.ClassDef | None, module: ModuleInfo) -> bool:
    given = {word.arg: word.value for word in loader.keywords}
    called = {_last(given[name]) for name in ("collate_fn", "worker_init_fn") if name in given}
    if functions and functions[0].name in called - {""}:
        return True
    if owner is None or not functions:
        return False
    if functions[0].name == "__call__" and owner.name in called:
        return True
    return functions[0].name in _ITEMS and _names(loader, owner.name, module)


def _names(loader: ast.Call, name: str, module: ModuleInfo) -> bool:
    """Whether the loader's dataset is made from the class, on the spot or by the only assignment of a variable."""
    given = loader.args[0] if loader.args else next((w.value for w in loader.keywords if w.arg == "dataset"), None)
    if isinstance(given, ast.Call):
        return _last(given.func) == name
    if not isinstance(given, ast.Name):
        return False
    made = [
        node.value
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Assign) and any(key_of(target) == given.id for target in node.targets)
    ]
    return bool(made) and all(isinstance(one, ast.Call) and _last(one.func) == name for one in made)


def _last(node: ast.AST) -> str:
    if isinstance(node, ast.Call):  # `Collate(pad=0)`, `partial(collate, ...)`
        return _last(node.args[0]) if _last(node.func) == "partial" and node.args else _last(node.func)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _dotted(module: ModuleInfo, node: ast.AST) -> str:
    """The absolute dotted name of an imported thing."""
    root, _, rest = key_of(node).partition(".")
    base, attribute = module.imports.get(root, (root, None))
    return ".".join(part for part in (base, attribute or "", rest) if part)
