"""The project's own words for "memory can be pinned here" and "pin this and send it": found by what they are."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from h2dlint.facts.flags import is_availability_name, is_decision_name
from h2dlint.facts.torch_api import ACCELERATOR_MODULES
from h2dlint.finding import Edit
from h2dlint.fixing.helpers import default_of, pins_and_sends, required
from h2dlint.fixing.imports import bindings, need_import, outermost, own_name
from h2dlint.fixing.names import Scope, bound_in, dotted_name, last_name
from h2dlint.fixing.project_files import ProjectFiles, absolute, package_root, project_files
from h2dlint.fixing.site import RefusedError

if TYPE_CHECKING:
    from h2dlint.fixing.document import Document
    from h2dlint.fixing.site import Site

_ANY_AVAILABLE = "torch.accelerator.is_available"
_AVAILABLE = {
    "cuda": "torch.cuda.is_available",
    "rocm": "torch.cuda.is_available",  # where ROCm's devices are called cuda
    "xpu": "torch.xpu.is_available",
}
"""Torch's own test by backend; `torch.npu` and its like are there only with their extension installed."""


class Guard(Struct, frozen=True):
    """Under which condition memory may be pinned at a site."""

    expression: str
    """`PIN_MEMORY`; `True` where none is needed."""
    needed: bool
    """False where the code cannot get there without an accelerator."""
    edits: tuple[Edit, ...] = ()
    """What makes the names in the expression known."""


class Helper(Struct, frozen=True):
    """The project's function that pins and transfers."""

    name: str
    """How the site writes it."""
    edits: tuple[Edit, ...]
    """What makes the name known."""
    definition: ast.FunctionDef | None
    """None where the configured function's file was not found."""


class Candidate(Struct, frozen=True):
    """Something in the project that could serve a site."""

    module: str
    name: str
    called: bool
    """A function to call, rather than a constant."""
    users: int
    """How many modules of the project mention it."""


def guard_for(site: Site) -> Guard:
    """The condition for pinning at `site`.

    In this order: none where the destination is an accelerator, the configured one, a flag of this module or imported
    into it, a flag from elsewhere in the project, and torch's own test. A flag whose definition the project holds must
    be a test of what is there by what it is; its name alone counts only where somebody else defines it.

    Raises RefusedError where the configured one cannot be used here.
    """
    if site.copy.to_accelerator:
        return Guard("True", needed=False)
    if site.options.guard:
        expression, edits = _configured(site, site.options.guard)
        return Guard(expression, True, edits)
    known = known_flag(site.document, site.statement)
    if known is not None:
        return Guard(known, True)
    for candidate in _flags_of(package_root(site.document.file)):
        found = _usable(site, candidate)
        if found is not None:
            return found
    available = _AVAILABLE.get(site.options.backend, _ANY_AVAILABLE)
    name, edits = need_import(site.document, available, site.statement)
    return Guard(f"{name}()", True, edits)


def helper_for(site: Site) -> Helper | None:
    """The project's function that pins its argument and sends it.

    The configured one counts wherever it is; one that was found must be there before the site's function is, or come by
    an import that runs nothing new, and must not be the very function that holds the site.

    Raises RefusedError where the configured one cannot be used here.
    """
    files = project_files(package_root(site.document.file))
    if site.options.helper:
        module, _, name = site.options.helper.rpartition(".")
        definition = _definition(files.text(module), name)
        if definition is None and module == own_name(site.document):
            definition = _definition(site.text, name)
        if _is_inside(site, module, name):
            return None
        _must_exist(site, site.options.helper, "transfer-helper")
        written, edits = need_import(site.document, site.options.helper, site.statement)
        return Helper(written, edits, definition)
    for candidate in _helpers_of(files.root):
        if candidate.module != own_name(site.document) and not files.import_each_other:
            continue
        if _is_inside(site, candidate.module, candidate.name) or not _is_at_hand(site, candidate):
            continue
        try:
            written, edits = need_import(site.document, f"{candidate.module}.{candidate.name}", site.statement)
        except RefusedError:
            continue
        return Helper(written, edits, _definition(files.text(candidate.module), candidate.name))
    return None


def _is_inside(site: Site, module: str, name: str) -> bool:
    around = [node.name for node in site.document.around(site.call) if isinstance(node, ast.FunctionDef)]
    return name in around and module == own_name(site.document)


def _is_at_hand(site: Site, candidate: Candidate) -> bool:
    """Whether the site can have something of the project: from this very module, above the site; else by an import
    that does no harm.
    """
    document = site.document
    if candidate.module != own_name(document):
        files = project_files(package_root(document.file))
        return files.is_harmless(candidate.module, own_name(document), document.text)
    found = _definitions(document.tree, candidate.name)
    return len(found) == 1 and found[0].lineno < outermost(document, site.statement).lineno


# --- the configured guard -----------------------------------------------------------------------------------------


def _configured(site: Site, text: str) -> tuple[str, tuple[Edit, ...]]:
    """The expression with each dotted name as this module writes it, and the imports for that."""
    pieces: list[str] = []
    edits: list[Edit] = []
    at = 0
    for node in _outermost_names(ast.parse(text, mode="eval").body):
        dotted = dotted_name(node)
        start, end = node.col_offset, node.end_col_offset or node.col_offset
        if "." not in dotted:
            if dotted not in bound_in(site.tree) and dotted not in ("True", "False", "bool"):
                raise RefusedError(f"`{dotted}`, which `pin-guard` names, is not known in this module")
            continue
        _must_exist(site, dotted, "pin-guard")
        written, needed = need_import(site.document, dotted, site.statement)
        edits += needed
        pieces += [text[at:start], written]
        at = end
    return "".join([*pieces, text[at:]]), tuple(edits)


def _must_exist(site: Site, dotted: str, setting: str) -> None:
    """Raises RefusedError where a setting names something of this project that the project does not have."""
    files = project_files(package_root(site.document.file))
    module, _, name = dotted.rpartition(".")
    top = module.partition(".")[0]
    if not any(one == top or one.startswith(f"{top}.") for one in files.files):
        return  # somebody else's
    while module not in files.files and "." in module:
        module, _, name = module.rpartition(".")
    text = files.text(module)
    if re.search(rf"\b{re.escape(name)}\b", text) is None and "import *" not in text:
        raise RefusedError(f"`{setting}` names `{dotted}`, and there is no `{name}` in `{module}`")


def _outermost_names(node: ast.AST) -> Iterator[ast.expr]:
    """The names and dotted names of an expression on one line, from left to right."""
    if isinstance(node, (ast.Name, ast.Attribute)) and dotted_name(node):
        yield node
        return
    children = sorted(
        (child for child in ast.iter_child_nodes(node) if isinstance(child, (ast.expr, ast.keyword))),
        key=lambda child: child.col_offset,
    )
    for child in children:
        yield from _outermost_names(child)


# --- what says that memory can be pinned --------------------------------------------------------------------------


class _Place(Struct, frozen=True):
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


_MOST_STEPS = 8
_CACHES = frozenset({"cache", "lru_cache"})
_TRUTHFUL = frozenset({f"torch.{kind}.is_available" for kind in ACCELERATOR_MODULES - {"mps"}} | {_ANY_AVAILABLE})
"""Torch's own tests that are true only where memory can be pinned: no counts, no builds, no MPS."""
_TRUTH_METHODS = frozenset({"startswith", "endswith", "is_available", "is_set", "exists", "isdigit", "is_pinned"})
_TRUTH_FUNCTIONS = frozenset({"bool", "isinstance", "issubclass", "hasattr", "callable", "any", "all"})


def is_availability(document: Document, node: ast.expr, statement: ast.stmt) -> bool:
    """Whether an expression holds only where an accelerator is, or memory can be pinned."""
    return _implies(_place_of(document, statement), node)


def _place_of(document: Document, statement: ast.stmt) -> _Place:
    around = [node for node in document.around(statement) if isinstance(node, Scope)]
    return msgspec.structs.replace(_module_place(document), around=tuple(around))


def _module_place(document: Document) -> _Place:
    """What the names of a module mean at its margin."""
    module, is_package = own_name(document), os.path.basename(document.file) == "__init__.py"
    return _Place(project_files(package_root(document.file)), module, is_package, document.tree)


def _place_in(files: ProjectFiles, module: str, depth: int = 0) -> _Place | None:
    tree = files.tree(module)
    return None if tree is None else _Place(files, module, files.is_package_module(module), tree, (), depth)


def _inside(place: _Place, definition: ast.FunctionDef) -> _Place:
    return msgspec.structs.replace(place, around=(definition, *place.around))


def _implies(place: _Place, test: ast.expr) -> bool:
    """Whether a test holds only where memory can be pinned: such a test, or one beside switches."""
    if isinstance(test, ast.BoolOp):
        parts = [_implies(place, part) for part in test.values]
        return any(parts) if isinstance(test.op, ast.And) else all(parts)
    if isinstance(test, ast.Call) and last_name(test.func) == "bool" and len(test.args) == 1 and not test.keywords:
        return _implies(place, test.args[0])
    called = isinstance(test, ast.Call)
    if isinstance(test, ast.Call) and (test.args or test.keywords):
        return False
    dotted = dotted_name(_called(test))
    return bool(dotted) and _tells(place, dotted, called)


def _denies(place: _Place, test: ast.expr) -> bool:
    """Whether memory can be pinned wherever a test does not hold: `not PINNABLE`, `in_wsl() or not PINNABLE`."""
    if isinstance(test, ast.BoolOp):
        parts = [_denies(place, part) for part in test.values]
        return any(parts) if isinstance(test.op, ast.Or) else all(parts)
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and _implies(place, test.operand)


def _is_flag(place: _Place, value: ast.expr) -> bool:
    """Whether a value is True only where memory can be pinned, and False otherwise, not just something empty."""
    return _implies(place, value) and _is_truth(place, value)


def _is_truth(place: _Place, value: ast.expr) -> bool:
    """Whether a value is True or False, as `pin_memory=` wants it."""
    if isinstance(value, ast.BoolOp):
        return all(_is_truth(place, part) for part in value.values)
    if isinstance(value, ast.Call):
        known = _TRUTH_METHODS if isinstance(value.func, ast.Attribute) else _TRUTH_FUNCTIONS
        return last_name(value.func) in known or _implies(place, value)
    if isinstance(value, ast.Name):
        return _is_truth_name(place, value.id) or _implies(place, value)
    truth = isinstance(value, ast.Compare) or (isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not))
    return truth or (isinstance(value, ast.Constant) and isinstance(value.value, bool)) or _implies(place, value)


def _is_truth_name(place: _Place, name: str) -> bool:
    """Whether a name is a parameter that is True or False unless told otherwise, or a constant of the module."""
    for function in place.around:
        if name in bound_in(function):
            default = default_of(function, name) if isinstance(function, ast.FunctionDef) else None
            return isinstance(default, ast.Constant) and isinstance(default.value, bool)
    found = _definitions(place.tree, name)
    value = _assigned(found[0], name) if len(found) == 1 and place.depth < _MOST_STEPS else None
    outside = msgspec.structs.replace(place, around=(), depth=place.depth + 1)
    return value is not None and _is_truth(outside, value)


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _tells(place: _Place, written: str, called: bool) -> bool:
    """Whether what a dotted name means, or a call of it without arguments, holds only where memory can be pinned."""
    meant = _meant(place, written)
    return meant is not None and _stands_for_test(place, meant, called)


def _stands_for_test(place: _Place, meant: str, called: bool) -> bool:
    """The same for an absolute name."""
    if place.depth >= _MOST_STEPS:
        return False
    if meant.startswith("torch."):
        return called and meant in _TRUTHFUL
    module, rest = _split(place.files, meant, place.module)
    if not module:
        return is_availability_name(meant)
    name, _, inside = rest.partition(".")
    there = place if module == place.module else _place_in(place.files, module)
    if not name or there is None:
        return False
    following = msgspec.structs.replace(there, around=(), depth=place.depth + 1)
    if inside:
        return called and _is_method_out_of_sight(following, name, inside)
    return _name_tells(following, name, called)


def _name_tells(place: _Place, name: str, called: bool) -> bool:
    """The same for a name of a module of the project, by its only definition."""
    found = _definitions(place.tree, name)
    if not found:
        return any(_stands_for_test(place, f"{base}.{name}", called) for base in _handed_on(place))
    definition = found[0]
    if len(found) > 1 or definition not in place.tree.body or _is_set_elsewhere(place.tree, name):
        return False
    if isinstance(definition, (ast.Import, ast.ImportFrom)):
        imported = _imported(place, [definition], name)
        return bool(imported) and _stands_for_test(place, imported, called)
    if isinstance(definition, ast.FunctionDef):
        return called and not required(definition) and _answers(place, definition)
    value = _assigned(definition, name)
    return value is not None and not called and _is_flag(place, value)


def _answers(place: _Place, definition: ast.FunctionDef) -> bool:
    """Whether a function gives True only where memory can be pinned, and False on every other way."""
    if not all(last_name(decorator) in _CACHES for decorator in definition.decorator_list):
        return False
    inside = _inside(place, definition)
    try:
        return not _runs_on(inside, definition.body, known=False)
    except _NoTestError:
        return False


class _NoTestError(Exception):
    """A function gives something else than the outcome of a test."""


def _runs_on(place: _Place, body: Sequence[ast.stmt], known: bool) -> bool:
    """Whether a block of a test may be left at its end; `known`: only where memory can be pinned one gets there.

    Raises _NoTestError where it gives True for no reason, or does what is not read here.
    """
    for statement in body:
        if isinstance(statement, ast.Return):
            _check_answer(place, statement.value, known)
            return False
        if isinstance(statement, ast.If):
            onward = _runs_on(place, statement.body, known or _implies(place, statement.test))
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


def _check_answer(place: _Place, value: ast.expr | None, known: bool) -> None:
    if isinstance(value, ast.Constant) and value.value is False:
        return
    if value is None or not (_is_truth(place, value) if known else _is_flag(place, value)):
        raise _NoTestError


def _handed_on(place: _Place) -> list[str]:
    """The project's modules from which a module imports everything."""
    found = [node for node in place.tree.body if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"]
    bases = [absolute("." * node.level + (node.module or ""), place.module, place.is_package) for node in found]
    return [base for base in bases if base in place.files.files]


def _is_method_out_of_sight(place: _Place, name: str, inside: str) -> bool:
    """Whether an object of a module, not a class of it, is asked by name whether memory can be pinned."""
    found = _definitions(place.tree, name)
    plain = all(isinstance(one, (ast.Assign, ast.AnnAssign)) for one in found)
    return plain and is_availability_name(inside) and not is_decision_name(inside.rpartition(".")[2])


def _meant(place: _Place, written: str) -> str | None:
    """The absolute name of what is written; None for what a function binds."""
    head, dot, rest = written.partition(".")
    for function in place.around:
        if head in bound_in(function):
            imported = _imported(place, function.body if isinstance(function.body, list) else [], head)
            return f"{imported}{dot}{rest}" if imported else None
    found = _definitions(place.tree, head)
    imported = _imported(place, [one for one in found if isinstance(one, (ast.Import, ast.ImportFrom))], head)
    if imported and (len(found) == 1 or not any(place.files.modules_behind(imported))):
        return f"{imported}{dot}{rest}"
    return f"{place.module}.{written}" if found or _handed_on(place) else written


def _imported(place: _Place, body: Sequence[ast.stmt], name: str) -> str:
    """What the last import among some statements makes of a name; empty where none binds it."""
    found = [one.dotted for one in bindings(body, place.module, place.is_package) if one.name == name]
    return found[-1] if found else ""


def _split(files: ProjectFiles, dotted: str, own: str) -> tuple[str, str]:
    """The module of the project in a dotted name, and what follows; two empty ones where it is somebody else's."""
    module, rest = dotted, ""
    while module:
        if module in files.files or module == own:
            return module, rest
        module, _, last = module.rpartition(".")
        rest = f"{last}.{rest}" if rest else last
    return "", ""


def _definitions(tree: ast.Module, name: str) -> list[ast.stmt]:
    """The statements of a module, those in its blocks among them, that bind a name."""
    return sorted(_all_definitions(tree).get(name, ()), key=lambda one: one.lineno)


def _is_set_elsewhere(tree: ast.Module, name: str) -> bool:
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


# --- flags of this module -----------------------------------------------------------------------------------------


def known_flag(document: Document, statement: ast.stmt) -> str | None:
    """A flag that `statement` can use as things are: an attribute of its object, or one of the module.

    Only one that is there before what holds the statement is: a function may be called at once.
    """
    place = _module_place(document)
    for node in _above(document, statement):
        name = _name_given(node)
        if name and _name_tells(place, name, called=False) and not _is_local(document, statement, name):
            return name
    return _attribute_flag(document, statement) or _imported_flag(document, statement)


def local_flag(document: Document, statement: ast.stmt) -> str | None:
    """A flag that the function around `statement` has worked out for itself: `pin = pinning_supported(device)`.

    Set once, at the top of its body, by a test that the project's definition of it shows to be one, or by one that
    somebody else defines under such a name.
    """
    function = document.function_of(statement)
    if function is None:
        return None
    place = _place_of(document, statement)
    for node in function.body:
        if node.lineno >= statement.lineno:
            return None
        name = _name_given(node)
        if name and isinstance(node, ast.Assign) and _is_set_once(function, name) and _is_test_call(place, node.value):
            return name
    return None


def _is_test_call(place: _Place, value: ast.expr) -> bool:
    """Whether a value is a call, of whatever arguments, that says whether memory can be pinned."""
    if not isinstance(value, ast.Call) or not dotted_name(value.func):
        return False
    if not value.args and not value.keywords:
        return _is_flag(place, value)
    meant = _meant(place, dotted_name(value.func))
    if meant is None or meant.startswith("torch."):
        return False
    if not _split(place.files, meant, place.module)[0]:
        return is_availability_name(meant)
    return _is_test_function(msgspec.structs.replace(place, around=()), meant)


def _is_test_function(place: _Place, meant: str) -> bool:
    """Whether an absolute name is a function of the project that says whether memory can be pinned."""
    module, name = _split(place.files, meant, place.module)
    there = place if module == place.module else _place_in(place.files, module)
    found = _definitions(there.tree, name) if there is not None else []
    if there is None or len(found) != 1 or found[0] not in there.tree.body or place.depth >= _MOST_STEPS:
        return False
    there = msgspec.structs.replace(there, depth=place.depth + 1)
    if isinstance(found[0], (ast.Import, ast.ImportFrom)):
        return _is_test_function(there, _imported(there, found, name))
    return isinstance(found[0], ast.FunctionDef) and _answers(there, found[0])


def _is_set_once(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    """Whether a function binds a name once, and nothing inside it does so in its place."""
    stores = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == name]
    shared = any(isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names for node in ast.walk(function))
    return not shared and sum(not isinstance(node.ctx, ast.Load) for node in stores) == 1


def _above(document: Document, statement: ast.stmt) -> list[ast.stmt]:
    """The statements of the module that stand above the one that holds `statement`."""
    own = outermost(document, statement)
    return [node for node in document.tree.body if node.lineno < own.lineno]


def _name_given(node: ast.stmt) -> str:
    """The only name that an assignment gives something to; empty for any other statement."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return node.target.id if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else ""


def _is_local(document: Document, statement: ast.stmt, name: str) -> bool:
    return any(
        name in bound_in(node)
        for node in document.around(statement)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    )


def _attribute_flag(document: Document, statement: ast.stmt) -> str | None:
    """`self.pin_memory`, where the constructor of this very class sets it to an availability test and nobody else."""
    method, owner = _method_of(document, statement)
    if method is None or owner is None or not method.args.args or method.name == "__init__":
        return None
    constructor = next((node for node in owner.body if getattr(node, "name", "") == "__init__"), None)
    if not isinstance(constructor, ast.FunctionDef) or not constructor.args.args or _decorated_away(method):
        return None
    own = constructor.args.args[0].arg
    for node in constructor.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Attribute):
            target = node.targets[0]
            set_once = len(re.findall(_setting(target.attr), document.text)) == 1
            if set_once and dotted_name(target.value) == own and _holds_always(document, constructor, node):
                return f"{method.args.args[0].arg}.{target.attr}" if _is_kept(document, owner, target.attr) else None
        if _may_use(document, node, own):
            return None
    return None


def _setting(attribute: str) -> str:
    return rf"\.{attribute}\s*(?::[^=\n]*)?=[^=]"


def _may_use(document: Document, node: ast.stmt, own: str) -> bool:
    """Whether a statement of a constructor may call a method of the object that is being made: then it is too early."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and inner.id == own and not isinstance(document.parents[inner], ast.Attribute):
            return True  # it is handed on
        if not isinstance(inner, ast.Call):
            continue
        if dotted_name(inner.func).rpartition(".")[0] == own:
            return True
        owner = next(one for one in document.around(node) if isinstance(one, ast.ClassDef))
        if last_name(inner.func) == "__init__" and any(_is_in_sight(document, base) for base in owner.bases):
            return True
    return False


def _is_in_sight(document: Document, base: ast.expr) -> bool:
    """Whether a base class is the project's own: its constructor may call what its heirs define."""
    place = _module_place(document)
    meant = _meant(place, dotted_name(base)) if dotted_name(base) else None
    return meant is None or bool(_split(place.files, meant, place.module)[0])


def _is_kept(document: Document, owner: ast.ClassDef, attribute: str) -> bool:
    """Whether no class in sight that inherits from `owner` sets the attribute, or may leave it unset."""
    files = project_files(package_root(document.file))
    texts = [document.text, *(files.text(module) for module in files.files if module != own_name(document))]
    heirs, seen = [owner.name], {owner.name}
    for parent in heirs:  # grows while it runs
        for text in texts:
            for name in _heirs_in(text, parent):
                if text is not document.text and re.search(_setting(attribute), text):
                    return False
                if not _starts_with_its_parent(text, name):
                    return False
                if name not in seen:
                    seen.add(name)
                    heirs.append(name)
    return True


def _heirs_in(text: str, parent: str) -> list[str]:
    if parent not in text:
        return []
    return re.findall(rf"^[ \t]*class[ \t]+(\w+)[ \t]*\([^)]*\b{parent}\b", text, re.MULTILINE)


def _starts_with_its_parent(text: str, name: str) -> bool:
    """Whether a class has no constructor of its own, or one that calls its parent's before anything else."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            own = [one for one in node.body if getattr(one, "name", "") in ("__init__", "__new__")]
            if not all(isinstance(one, ast.FunctionDef) and _calls_parent_first(one) for one in own):
                return False
    return True


def _calls_parent_first(constructor: ast.FunctionDef) -> bool:
    body = [one for one in constructor.body if not _is_docstring(one)]
    called = body[0].value if body and isinstance(body[0], ast.Expr) else None
    return isinstance(called, ast.Call) and last_name(called.func) == "__init__" and constructor.name == "__init__"


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _holds_always(document: Document, constructor: ast.FunctionDef, statement: ast.Assign) -> bool:
    """Whether what is stored holds only where memory can be pinned, and wherever it can unless somebody opts out."""
    value = statement.value
    place = _place_of(document, statement)
    operands = value.values if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.And) else [value]
    tests = [one for one in operands if _is_flag(place, one)]
    return bool(tests) and all(one in tests or _is_on_by_default(constructor, one) for one in operands)


def _is_on_by_default(function: ast.FunctionDef, node: ast.expr) -> bool:
    """Whether an expression is a parameter with the default True."""
    default = default_of(function, node.id) if isinstance(node, ast.Name) else None
    return isinstance(default, ast.Constant) and default.value is True


def _method_of(
    document: Document, statement: ast.stmt
) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef | None, ast.ClassDef | None]:
    function = document.function_of(statement)
    if function is None:
        return None, None
    parent = document.parents[function]
    return function, parent if isinstance(parent, ast.ClassDef) else None


def _decorated_away(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(last_name(decorator) in ("staticmethod", "classmethod") for decorator in method.decorator_list)


def _imported_flag(document: Document, statement: ast.stmt) -> str | None:
    """A flag, or a function that tells, among the names that this module imports above `statement`."""
    place = _place_of(document, statement)
    found: list[str] = []
    for node in _above(document, statement):
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            name, called = alias.asname or alias.name, not alias.name.isupper()
            if not is_availability_name(alias.name) or _is_local(document, statement, name):
                continue
            if _tells(place, name, called) and (not called or _is_in_reach(place, name)):
                found.append(f"{name}()" if called else name)
    return next(iter(sorted(found, key=lambda written: written.endswith("()"))), None)


def _is_in_reach(place: _Place, name: str) -> bool:
    """Whether the project defines what a name means: it is known then which arguments a function takes."""
    meant = _meant(place, name)
    return meant is not None and bool(_split(place.files, meant, place.module)[0])


# --- flags and helpers of the project -----------------------------------------------------------------------------

_DEFINES = re.compile(
    r"^(?:def[ \t]+(?P<function>\w*pin\w*)[ \t]*\(|(?P<flag>\w*PIN\w*)[ \t]*(?::[^=\n]+)?=[^=])", re.M
)
_SENDS = re.compile(r"^def[ \t]+([^\W_]\w*)[ \t]*\(", re.M)
"""Functions at the margin that other modules may use: a name with an underscore in front is its own module's."""


def _usable(site: Site, candidate: Candidate) -> Guard | None:
    if candidate.module == own_name(site.document) or not _is_at_hand(site, candidate):
        return None  # had this module's own been of use, it would have been found above
    try:
        name, edits = need_import(site.document, f"{candidate.module}.{candidate.name}", site.statement)
    except RefusedError:
        return None
    return Guard(f"{name}()" if candidate.called else name, True, edits)


@lru_cache(maxsize=4)
def _flags_of(root: str) -> tuple[Candidate, ...]:
    """The availability flags and functions that the project's modules define, the most used constants first."""
    files = project_files(root)
    found: list[Candidate] = []
    for module in files.files if files.import_each_other else ():
        text = files.text(module)
        if _is_aside(module) or ("pin" not in text and "PIN" not in text):
            continue
        for match in _DEFINES.finditer(text):
            name, called = match["flag"] or match["function"], match["function"] is not None
            place = _place_in(files, module) if is_availability_name(name) and not name.startswith("_") else None
            if place is not None and _name_tells(place, name, called):
                found.append(Candidate(module, name, called, _users(root, name)))
    return tuple(sorted(found, key=lambda one: (one.called, -one.users, one.module.count("."), one.module)))


def _is_aside(module: str) -> bool:
    """Whether a module is a test, an example or a benchmark: others should not import from it."""
    return any(_ASIDE.match(part) for part in module.split("."))


_ASIDE = re.compile(r"tests?$|test_|testing$|examples?$|bench")


@lru_cache(maxsize=4)
def _helpers_of(root: str) -> tuple[Candidate, ...]:
    """The project's functions that pin their first argument and send it without waiting, the most used first."""
    files = project_files(root)
    found: list[Candidate] = []
    for module in files.files:
        text = files.text(module)
        if _is_aside(module) or "pin_memory" not in text or "non_blocking" not in text:
            continue
        for match in _SENDS.finditer(text):
            body = text[match.start() : _end_of_definition(text, match.end())]
            if "pin_memory" not in body or "non_blocking" not in body:
                continue
            definition = _only_function(files, module, match.group(1))
            if definition is not None:
                found.append(Candidate(module, definition.name, True, _users(root, definition.name)))
    return tuple(sorted(found, key=lambda one: (-one.users, one.module.count("."), one.module)))


def _only_function(files: ProjectFiles, module: str, name: str) -> ast.FunctionDef | None:
    """The function of a module that pins and sends, if its name means nothing else there."""
    place = _place_in(files, module)
    found = _definitions(place.tree, name) if place is not None else []
    if place is None or len(found) != 1 or found[0] not in place.tree.body or _is_set_elsewhere(place.tree, name):
        return None
    definition = found[0]
    if not isinstance(definition, ast.FunctionDef):
        return None
    inside = _inside(place, definition)
    return definition if pins_and_sends(definition, lambda test: _implies(inside, test)) else None


@lru_cache(maxsize=1024)
def _users(root: str, name: str) -> int:
    files = project_files(root)
    word = re.compile(rf"\b{name}\b")
    return sum(name in text and bool(word.search(text)) for text in map(files.text, files.files))


_AT_THE_MARGIN = re.compile(r"^[^\s#)\]}]", re.M)


def _end_of_definition(text: str, start: int) -> int:
    """Where the function whose head goes on at `start` ends: at the next line that begins at the margin."""
    following = _AT_THE_MARGIN.search(text, start)
    return following.start() if following else len(text)


@lru_cache(maxsize=1024)
def _definition(text: str, name: str) -> ast.FunctionDef | None:
    """The function that `text` defines under `name` at its top level."""
    match = re.search(rf"^def[ \t]+{re.escape(name)}[ \t]*\(", text, re.M)
    if match is None:
        return None
    try:
        parsed = ast.parse(text[match.start() : _end_of_definition(text, match.end())])
    except (SyntaxError, ValueError, RecursionError):
        return None
    return next((node for node in parsed.body if isinstance(node, ast.FunctionDef)), None)


# --- for a project's first settings -------------------------------------------------------------------------------


def project_guard(root: str) -> str | None:
    """The availability flag that most of the modules below `root` use, as `pin-guard` takes it."""
    found = next(iter(_flags_of(root)), None)
    return None if found is None else f"{found.module}.{found.name}{'()' if found.called else ''}"


def project_helper(root: str) -> str | None:
    """The function that pins and sends which most of the modules below `root` use, as `transfer-helper` takes it."""
    found = next(iter(_helpers_of(root)), None)
    return None if found is None else f"{found.module}.{found.name}"
