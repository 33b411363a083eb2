"""Flags of a module, a class or a function that say that memory can be pinned, where a statement may read them."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import msgspec

from h2dlint.facts.flags import is_availability_name
from h2dlint.fixing.availability import (
    MOST_STEPS,
    Place,
    answers_test,
    definitions_of,
    imported_by,
    is_flag,
    meaning_of,
    module_place,
    name_tells,
    place_in,
    place_of,
    split_name,
    tells_test,
)
from h2dlint.fixing.helpers import default_of
from h2dlint.fixing.imports import outermost, own_name
from h2dlint.fixing.names import bound_in, dotted_name, last_name
from h2dlint.fixing.project_files import package_root, project_files

if TYPE_CHECKING:
    from h2dlint.fixing.document import Document


def known_flag(document: Document, statement: ast.stmt) -> str | None:
    """A flag that `statement` can use as things are: an attribute of its object, or one of the module.

    Only one that is there before what holds the statement is: a function may be called at once.
    """
    place = module_place(document)
    for node in _above(document, statement):
        name = _name_given(node)
        if name and name_tells(place, name, called=False) and not _is_local(document, statement, name):
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
    place = place_of(document, statement)
    for node in function.body:
        if node.lineno >= statement.lineno:
            return None
        name = _name_given(node)
        if name and isinstance(node, ast.Assign) and _is_set_once(function, name) and _is_test_call(place, node.value):
            return name
    return None


def _is_test_call(place: Place, value: ast.expr) -> bool:
    """Whether a value is a call, of whatever arguments, that says whether memory can be pinned."""
    if not isinstance(value, ast.Call) or not dotted_name(value.func):
        return False
    if not value.args and not value.keywords:
        return is_flag(place, value)
    meant = meaning_of(place, dotted_name(value.func))
    if meant is None or meant.startswith("torch."):
        return False
    if not split_name(place.files, meant, place.module)[0]:
        return is_availability_name(meant)
    return _is_test_function(msgspec.structs.replace(place, around=()), meant)


def _is_test_function(place: Place, meant: str) -> bool:
    """Whether an absolute name is a function of the project that says whether memory can be pinned."""
    module, name = split_name(place.files, meant, place.module)
    there = place if module == place.module else place_in(place.files, module)
    found = definitions_of(there.tree, name) if there is not None else []
    if there is None or len(found) != 1 or found[0] not in there.tree.body or place.depth >= MOST_STEPS:
        return False
    there = msgspec.structs.replace(there, depth=place.depth + 1)
    if isinstance(found[0], (ast.Import, ast.ImportFrom)):
        return _is_test_function(there, imported_by(there, found, name))
    return isinstance(found[0], ast.FunctionDef) and answers_test(there, found[0])


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
    place = module_place(document)
    meant = meaning_of(place, dotted_name(base)) if dotted_name(base) else None
    return meant is None or bool(split_name(place.files, meant, place.module)[0])


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
    place = place_of(document, statement)
    operands = value.values if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.And) else [value]
    tests = [one for one in operands if is_flag(place, one)]
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
    place = place_of(document, statement)
    found: list[str] = []
    for node in _above(document, statement):
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            name, called = alias.asname or alias.name, not alias.name.isupper()
            if not is_availability_name(alias.name) or _is_local(document, statement, name):
                continue
            if tells_test(place, name, called) and (not called or _is_in_reach(place, name)):
                found.append(f"{name}()" if called else name)
    return next(iter(sorted(found, key=lambda written: written.endswith("()"))), None)


def _is_in_reach(place: Place, name: str) -> bool:
    """Whether the project defines what a name means: it is known then which arguments a function takes."""
    meant = meaning_of(place, name)
    return meant is not None and bool(split_name(place.files, meant, place.module)[0])
