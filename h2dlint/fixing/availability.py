"""What says that memory can be pinned: tests by what they are, followed to where they are defined."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from h2dlint.facts.flags import is_availability_name, is_decision_name
from h2dlint.facts.torch_api import ACCELERATOR_MODULES
from h2dlint.fixing.helpers import default_of, required
from h2dlint.fixing.imports import bindings, own_name
from h2dlint.fixing.names import Scope, bound_in, dotted_name, last_name
from h2dlint.fixing.project_files import ProjectFiles, absolute, package_root, project_files

if TYPE_CHECKING:
    from h2dlint.fixing.document import Document

ANY_AVAILABLE = "torch.accelerator.is_available"


class Place(Struct, frozen=True):
    """Where an expression stands, and so what its names mean."""

    files: ProjectFiles
    module: str
    is_package: bool
    """Whether the module is an `__init__.py`."""
    tree: ast.Module
    around: tuple[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, ...] = ()
    """The functions around the expression, from the inside out."""
    depth: int = 0
    """How many names were followed to get here."""


MOST_STEPS = 8
_CACHES = frozenset({"cache", "lru_cache"})
_TRUTHFUL = frozenset({f"torch.{kind}.is_available" for kind in ACCELERATOR_MODULES - {"mps"}} | {ANY_AVAILABLE})
"""Torch's own tests that are true only where memory can be pinned: no counts, no builds, no MPS."""
_TRUTH_METHODS = frozenset({"startswith", "endswith", "is_available", "is_set", "exists", "isdigit", "is_pinned"})
_TRUTH_FUNCTIONS = frozenset({"bool", "isinstance", "issubclass", "hasattr", "callable", "any", "all"})


def is_availability(document: Document, node: ast.expr, statement: ast.stmt) -> bool:
    """Whether an expression holds only where an accelerator is, or memory can be pinned."""
    return implies_pinning(place_of(document, statement), node)


def place_of(document: Document, statement: ast.stmt) -> Place:
    around = [node for node in document.around(statement) if isinstance(node, Scope)]
    return msgspec.structs.replace(module_place(document), around=tuple(around))


def module_place(document: Document) -> Place:
    """What the names of a module mean at its margin."""
    module, is_package = own_name(document), os.path.basename(document.file) == "__init__.py"
    return Place(project_files(package_root(document.file)), module, is_package, document.tree)


def place_in(files: ProjectFiles, module: str, depth: int = 0) -> Place | None:
    tree = files.tree(module)
    return None if tree is None else Place(files, module, files.is_package_module(module), tree, (), depth)


def place_inside(place: Place, definition: ast.FunctionDef) -> Place:
    return msgspec.structs.replace(place, around=(definition, *place.around))


def implies_pinning(place: Place, test: ast.expr) -> bool:
    """Whether a test holds only where memory can be pinned: such a test, or one beside switches."""
    if isinstance(test, ast.BoolOp):
        parts = [implies_pinning(place, part) for part in test.values]
        return any(parts) if isinstance(test.op, ast.And) else all(parts)
    if isinstance(test, ast.Call) and last_name(test.func) == "bool" and len(test.args) == 1 and not test.keywords:
        return implies_pinning(place, test.args[0])
    called = isinstance(test, ast.Call)
    if isinstance(test, ast.Call) and (test.args or test.keywords):
        return False
    dotted = dotted_name(_called(test))
    return bool(dotted) and tells_test(place, dotted, called)


def _denies(place: Place, test: ast.expr) -> bool:
    """Whether memory can be pinned wherever a test does not hold: `not PINNABLE`, `in_wsl() or not PINNABLE`."""
    if isinstance(test, ast.BoolOp):
        parts = [_denies(place, part) for part in test.values]
        return any(parts) if isinstance(test.op, ast.Or) else all(parts)
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and implies_pinning(place, test.operand)


def is_flag(place: Place, value: ast.expr) -> bool:
    """Whether a value is True only where memory can be pinned, and False otherwise, not just something empty."""
    return implies_pinning(place, value) and _is_truth(place, value)


def _is_truth(place: Place, value: ast.expr) -> bool:
    """Whether a value is True or False, as `pin_memory=` wants it."""
    if isinstance(value, ast.BoolOp):
        return all(_is_truth(place, part) for part in value.values)
    if isinstance(value, ast.Call):
        known = _TRUTH_METHODS if isinstance(value.func, ast.Attribute) else _TRUTH_FUNCTIONS
        return last_name(value.func) in known or implies_pinning(place, value)
    if isinstance(value, ast.Name):
        return _is_truth_name(place, value.id) or implies_pinning(place, value)
    truth = isinstance(value, ast.Compare) or (isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not))
    return truth or (isinstance(value, ast.Constant) and isinstance(value.value, bool)) or implies_pinning(place, value)


def _is_truth_name(place: Place, name: str) -> bool:
    """Whether a name is a parameter that is True or False unless told otherwise, or a constant of the module."""
    for function in place.around:
        if name in bound_in(function):
            default = default_of(function, name) if isinstance(function, ast.FunctionDef) else None
            return isinstance(default, ast.Constant) and isinstance(default.value, bool)
    found = definitions_of(place.tree, name)
    value = _assigned(found[0], name) if len(found) == 1 and place.depth < MOST_STEPS else None
    outside = msgspec.structs.replace(place, around=(), depth=place.depth + 1)
    return value is not None and _is_truth(outside, value)


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def tells_test(place: Place, written: str, called: bool) -> bool:
    """Whether what a dotted name means, or a call of it without arguments, holds only where memory can be pinned."""
    meant = meaning_of(place, written)
    return meant is not None and _stands_for_test(place, meant, called)


def _stands_for_test(place: Place, meant: str, called: bool) -> bool:
    """The same for an absolute name."""
    if place.depth >= MOST_STEPS:
        return False
    if meant.startswith("torch."):
        return called and meant in _TRUTHFUL
    module, rest = split_name(place.files, meant, place.module)
    if not module:
        return is_availability_name(meant)
    name, _, inside = rest.partition(".")
    there = place if module == place.module else place_in(place.files, module)
    if not name or there is None:
        return False
    following = msgspec.structs.replace(there, around=(), depth=place.depth + 1)
    if inside:
        return called and _is_method_out_of_sight(following, name, inside)
    return name_tells(following, name, called)


def name_tells(place: Place, name: str, called: bool) -> bool:
    """The same for a name of a module of the project, by its only definition."""
    found = definitions_of(place.tree, name)
    if not found:
        return any(_stands_for_test(place, f"{base}.{name}", called) for base in _handed_on(place))
    definition = found[0]
    if len(found) > 1 or definition not in place.tree.body or is_set_elsewhere(place.tree, name):
        return False
    if isinstance(definition, (ast.Import, ast.ImportFrom)):
        imported = imported_by(place, [definition], name)
        return bool(imported) and _stands_for_test(place, imported, called)
    if isinstance(definition, ast.FunctionDef):
        return called and not required(definition) and answers_test(place, definition)
    value = _assigned(definition, name)
    return value is not None and not called and is_flag(place, value)


def answers_test(place: Place, definition: ast.FunctionDef) -> bool:
    """Whether a function gives True only where memory can be pinned, and False on every other way."""
    if not all(last_name(decorator) in _CACHES for decorator in definition.decorator_list):
        return False
    inside = place_inside(place, definition)
    try:
        return not _runs_on(inside, definition.body, known=False)
    except _NoTestError:
        return False


class _NoTestError(Exception):
    """A function gives something else than the outcome of a test."""


def _runs_on(place: Place, body: Sequence[ast.stmt], known: bool) -> bool:
    """Whether a block of a test may be left at its end; `known`: only where memory can be pinned one gets there.

    Raises _NoTestError where it gives True for no reason, or does what is not read here.
    """
    for statement in body:
        if isinstance(statement, ast.Return):
            _check_answer(place, statement.value, known)
            return False
        if isinstance(statement, ast.If):
            onward = _runs_on(place, statement.body, known or implies_pinning(place, statement.test))
            otherwise = _runs_on(place, statement.orelse, known or _denies(place, statement.test))
            if not onward and not otherwise:
                return False
            known = known or (not onward and _denies(place, statement.test))
        elif isinstance(statement, ast.Try) and not statement.orelse and not statement.finalbody:
            ways = [_runs_on(place, way, known) for way in (statement.body, *(one.body for one in statement.handlers))]
            if not any(ways):
                return False
        elif not isinstance(statement, (ast.Import, ast.ImportFrom, ast.Pass, ast.Raise)) and not _only_tells(
            statement
        ):
            raise _NoTestError
    return True


def _only_tells(statement: ast.stmt) -> bool:
    """Whether a statement is a docstring, or a call whose outcome nobody keeps, such as a line in a log."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, (ast.Constant, ast.Call))


def _check_answer(place: Place, value: ast.expr | None, known: bool) -> None:
    if isinstance(value, ast.Constant) and value.value is False:
        return
    if value is None or not (_is_truth(place, value) if known else is_flag(place, value)):
        raise _NoTestError


def _handed_on(place: Place) -> list[str]:
    """The project's modules from which a module imports everything."""
    found = [node for node in place.tree.body if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"]
    bases = [absolute("." * node.level + (node.module or ""), place.module, place.is_package) for node in found]
    return [base for base in bases if base in place.files.files]


def _is_method_out_of_sight(place: Place, name: str, inside: str) -> bool:
    """Whether an object of a module, not a class of it, is asked by name whether memory can be pinned."""
    found = definitions_of(place.tree, name)
    plain = all(isinstance(one, (ast.Assign, ast.AnnAssign)) for one in found)
    return plain and is_availability_name(inside) and not is_decision_name(inside.rpartition(".")[2])


def meaning_of(place: Place, written: str) -> str | None:
    """The absolute name of what is written; None for what a function binds."""
    head, dot, rest = written.partition(".")
    for function in place.around:
        if head in bound_in(function):
            imported = imported_by(place, function.body if isinstance(function.body, list) else [], head)
            return f"{imported}{dot}{rest}" if imported else None
    found = definitions_of(place.tree, head)
    imported = imported_by(place, [one for one in found if isinstance(one, (ast.Import, ast.ImportFrom))], head)
    if imported and (len(found) == 1 or not any(place.files.modules_behind(imported))):
        return f"{imported}{dot}{rest}"
    return f"{place.module}.{written}" if found or _handed_on(place) else written


def imported_by(place: Place, body: Sequence[ast.stmt], name: str) -> str:
    """What the last import among some statements makes of a name; empty where none binds it."""
    found = [one.dotted for one in bindings(body, place.module, place.is_package) if one.name == name]
    return found[-1] if found else ""


def split_name(files: ProjectFiles, dotted: str, own: str) -> tuple[str, str]:
    """The module of the project in a dotted name, and what follows; two empty ones where it is somebody else's."""
    module, rest = dotted, ""
    while module:
        if module in files.files or module == own:
            return module, rest
        module, _, last = module.rpartition(".")
        rest = f"{last}.{rest}" if rest else last
    return "", ""


def definitions_of(tree: ast.Module, name: str) -> list[ast.stmt]:
    """The statements of a module, those in its blocks among them, that bind a name."""
    return sorted(_all_definitions(tree).get(name, ()), key=lambda one: one.lineno)


def is_set_elsewhere(tree: ast.Module, name: str) -> bool:
    """Whether a function of the module sets a name of it."""
    return any(isinstance(node, ast.Global) and name in node.names for node in ast.walk(tree))


def _assigned(statement: ast.stmt, name: str) -> ast.expr | None:
    """What a statement gives to a name alone."""
    if isinstance(statement, ast.AnnAssign):
        targets: list[ast.expr] = [statement.target]
    elif isinstance(statement, ast.Assign):
        targets = statement.targets
    else:
        return None
    alone = len(targets) == 1 and isinstance(targets[0], ast.Name) and targets[0].id == name
    return statement.value if alone else None


@lru_cache(maxsize=32)
def _all_definitions(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    found: dict[str, list[ast.stmt]] = {}
    waiting: list[tuple[ast.AST, ast.stmt]] = [(node, node) for node in tree.body]
    while waiting:
        node, statement = waiting.pop()
        for name in _names_bound_by(node):
            found.setdefault(name, []).append(statement)
        if not isinstance(node, (*Scope, ast.ClassDef)):
            waiting += [(one, one if isinstance(one, ast.stmt) else statement) for one in ast.iter_child_nodes(node)]
    return found


def _names_bound_by(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name):
        return [] if isinstance(node.ctx, ast.Load) else [node.id]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    named = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
    return [node.name] if isinstance(node, named) and node.name else []
