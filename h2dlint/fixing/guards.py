"""The project's own words for "memory can be pinned here" and "pin this and send it": found by what they are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from h2dlint.facts.flags import is_availability_name, is_wsl_name
from h2dlint.finding import Edit
from h2dlint.fixing.helpers import pins_and_sends, required
from h2dlint.fixing.imports import absolute_name, need_import, own_name
from h2dlint.fixing.names import bound_in, dotted_name, last_name, own_nodes
from h2dlint.fixing.project_files import package_root, project_files
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
    into it, a flag from elsewhere in the project, and torch's own test.

    Raises RefusedError where the configured one cannot be used here.
    """
    if site.copy.to_accelerator:
        return Guard("True", needed=False)
    if site.options.guard:
        expression, edits = _configured(site, site.options.guard)
        return Guard(expression, True, edits)
    known = _known_flag(site.document, site.statement)
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

    The configured one counts wherever it is; one that was found must be importable, and must not be the very function
    that holds the site. Raises RefusedError where the configured one cannot be used here.
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
        if _is_inside(site, candidate.module, candidate.name):
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


# --- flags of this module -----------------------------------------------------------------------------------------


def _known_flag(document: Document, statement: ast.stmt) -> str | None:
    """A flag that `statement` can use as things are: an attribute of its object, or one of the module."""
    in_function = document.function_of(statement) is not None
    for node in document.tree.body:
        if not in_function and node.lineno >= statement.lineno:
            break
        name = _flag_of(document, node)
        if name and not _is_local(document, statement, name):
            return name
    return _attribute_flag(document, statement) or _imported_flag(document, statement)


def _flag_of(document: Document, node: ast.stmt) -> str:
    """The name that a statement makes an availability flag; empty for any other statement."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target: ast.expr = node.targets[0]
        value: ast.expr | None = node.value
    elif isinstance(node, ast.AnnAssign):
        target, value = node.target, node.value
    else:
        return ""
    if not isinstance(target, ast.Name) or value is None or not is_availability(document, value, node):
        return ""
    return target.id if _is_constant(document, target.id) else ""


def _is_constant(document: Document, name: str) -> bool:
    """Whether the module binds `name` once, and no function does it for it."""
    stores = [
        node
        for node in own_nodes(document.tree)
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
    ]
    return len(stores) == 1 and not re.search(rf"\bglobal\b[^\n]*\b{name}\b", document.text)


def is_availability(document: Document, node: ast.expr, statement: ast.stmt) -> bool:
    """Whether an expression is made of tests for an accelerator, or for pinned memory, alone."""
    if isinstance(node, ast.BoolOp):
        return all(is_availability(document, value, statement) for value in node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return is_wsl_name(dotted_name(_called(node.operand)))
    dotted = dotted_name(_called(node))
    if not dotted:
        return False
    meant = absolute_name(document, dotted, statement)
    if isinstance(node, ast.Call):
        return not node.args and not node.keywords and (_tells_truly(meant) or _is_pin_name(meant))
    return _is_pin_name(meant)


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _tells_truly(dotted: str) -> bool:
    """Torch's own tests that are true only where memory can be pinned: no counts, no builds, no MPS."""
    return dotted.startswith("torch.") and dotted.endswith(".is_available") and ".mps" not in dotted


def _is_pin_name(dotted: str) -> bool:
    return not dotted.startswith("torch.") and is_availability_name(dotted)


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
    own = method.args.args[0].arg
    constructor = next((node for node in owner.body if getattr(node, "name", "") == "__init__"), None)
    if not isinstance(constructor, ast.FunctionDef) or _decorated_away(method):
        return None
    for node in constructor.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Attribute):
            target = node.targets[0]
            set_once = len(re.findall(rf"\.{target.attr}\s*(?::[^=\n]*)?=[^=]", document.text)) == 1
            if set_once and _implies(document, constructor, node) and dotted_name(target.value) == own:
                return f"{own}.{target.attr}"
    return None


def _implies(document: Document, constructor: ast.FunctionDef, statement: ast.Assign) -> bool:
    """Whether what is stored holds only where memory can be pinned, and wherever it can unless somebody opts out."""
    value = statement.value
    operands = value.values if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.And) else [value]
    tests = [one for one in operands if is_availability(document, one, statement)]
    return bool(tests) and all(one in tests or _is_on_by_default(constructor, one) for one in operands)


def _is_on_by_default(function: ast.FunctionDef, node: ast.expr) -> bool:
    """Whether an expression is a parameter with the default True."""
    spec = function.args
    plain = [*spec.posonlyargs, *spec.args]
    pairs = [*zip(plain[len(plain) - len(spec.defaults) :], spec.defaults, strict=True)]
    pairs += [(one, value) for one, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if value is not None]
    return isinstance(node, ast.Name) and any(
        one.arg == node.id and isinstance(value, ast.Constant) and value.value is True for one, value in pairs
    )


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
    """A flag, or a function that tells, among the names that this module imports."""
    constants: list[str] = []
    for node in document.tree.body:
        if not isinstance(node, ast.ImportFrom):
            continue
        if document.function_of(statement) is None and node.lineno >= statement.lineno:
            break
        for alias in node.names:
            name = alias.asname or alias.name
            if is_availability_name(alias.name) and not _is_local(document, statement, name):
                constants.append(name if alias.name.isupper() else f"{name}()")
    constants.sort(key=lambda name: name.endswith("()"))
    for written in constants:
        if not written.endswith("()") or _takes_nothing(document, written[:-2], statement):
            return written
    return None


def _takes_nothing(document: Document, name: str, statement: ast.stmt) -> bool:
    """Whether the imported function can be called without arguments; False where it was not found.

    A package may hand on what a module of its own defines: then the project's only flag of that name is meant.
    """
    module, _, last = absolute_name(document, name, statement).rpartition(".")
    files = project_files(package_root(document.file))
    definition = _definition(files.text(module), last)
    if definition is not None:
        return not required(definition)
    return module in files.files and sum(one.called and one.name == last for one in _flags_of(files.root)) == 1


# --- flags and helpers of the project -----------------------------------------------------------------------------

_DEFINES = re.compile(
    r"^(?:def[ \t]+(?P<function>\w*pin\w*)[ \t]*\(|(?P<flag>\w*PIN\w*)[ \t]*(?::[^=\n]+)?=[^=])", re.M
)
_SENDS = re.compile(r"^def[ \t]+([^\W_]\w*)[ \t]*\(", re.M)
"""Functions at the margin that other modules may use: a name with an underscore in front is its own module's."""


def _usable(site: Site, candidate: Candidate) -> Guard | None:
    if candidate.module == own_name(site.document):
        return None  # had it been of use, it would have been found above
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
            if not name.startswith("_") and is_availability_name(name) and _holds_up(text, name, called):
                found.append(Candidate(module, name, called, _users(root, name)))
    return tuple(sorted(found, key=lambda one: (one.called, -one.users, one.module.count("."), one.module)))


def _is_aside(module: str) -> bool:
    """Whether a module is a test, an example or a benchmark: others should not import from it."""
    return any(_ASIDE.match(part) for part in module.split("."))


_ASIDE = re.compile(r"tests?$|test_|testing$|examples?$|bench")


def _holds_up(text: str, name: str, called: bool) -> bool:
    """Whether the definition is what its name says: a constant set once, or a function of no arguments."""
    if called:
        definition = _definition(text, name)
        return definition is not None and not required(definition)
    return len(re.findall(rf"^[ \t]*{name}[ \t]*(?::[^=\n]+)?=[^=]", text, re.M)) == 1


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
            definition = _definition(text, match.group(1))
            if definition is not None and pins_and_sends(definition):
                found.append(Candidate(module, definition.name, True, _users(root, definition.name)))
    return tuple(sorted(found, key=lambda one: (-one.users, one.module.count("."), one.module)))


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
