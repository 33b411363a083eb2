"""Flags and transfer helpers anywhere in a project, and what makes one fit for use at a place."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from h2dlint.facts.flags import is_availability_name
from h2dlint.finding import Edit
from h2dlint.fixing.availability import (
    definitions_of,
    implies_pinning,
    is_set_elsewhere,
    name_tells,
    place_in,
    place_inside,
)
from h2dlint.fixing.helpers import pins_and_sends
from h2dlint.fixing.imports import need_import, outermost, own_name
from h2dlint.fixing.project_files import ProjectFiles, package_root, project_files
from h2dlint.fixing.site import RefusedError

if TYPE_CHECKING:
    from h2dlint.fixing.site import Site


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


def is_at_hand(site: Site, candidate: Candidate) -> bool:
    """Whether the site can have something of the project: from this very module, above the site; else by an import
    that does no harm.
    """
    document = site.document
    if candidate.module != own_name(document):
        files = project_files(package_root(document.file))
        return files.is_harmless(candidate.module, own_name(document), document.text)
    found = definitions_of(document.tree, candidate.name)
    return len(found) == 1 and found[0].lineno < outermost(document, site.statement).lineno


_DEFINES = re.compile(
    r"^(?:def[ \t]+(?P<function>\w*pin\w*)[ \t]*\(|(?P<flag>\w*PIN\w*)[ \t]*(?::[^=\n]+)?=[^=])", re.M
)
_SENDS = re.compile(r"^def[ \t]+([^\W_]\w*)[ \t]*\(", re.M)
"""Functions at the margin that other modules may use: a name with an underscore in front is its own module's."""


def usable_guard(site: Site, candidate: Candidate) -> Guard | None:
    if candidate.module == own_name(site.document) or not is_at_hand(site, candidate):
        return None  # had this module's own been of use, it would have been found above
    try:
        name, edits = need_import(site.document, f"{candidate.module}.{candidate.name}", site.statement)
    except RefusedError:
        return None
    return Guard(f"{name}()" if candidate.called else name, True, edits)


@lru_cache(maxsize=4)
def flags_of(root: str) -> tuple[Candidate, ...]:
    """The availability flags and functions that the project's modules define, the most used constants first."""
    files = project_files(root)
    found: list[Candidate] = []
    for module in files.files if files.import_each_other else ():
        text = files.text(module)
        if _is_aside(module) or ("pin" not in text and "PIN" not in text):
            continue
        for match in _DEFINES.finditer(text):
            name, called = match["flag"] or match["function"], match["function"] is not None
            place = place_in(files, module) if is_availability_name(name) and not name.startswith("_") else None
            if place is not None and name_tells(place, name, called):
                found.append(Candidate(module, name, called, _users(root, name)))
    return tuple(sorted(found, key=lambda one: (one.called, -one.users, one.module.count("."), one.module)))


def _is_aside(module: str) -> bool:
    """Whether a module is a test, an example or a benchmark: others should not import from it."""
    return any(_ASIDE.match(part) for part in module.split("."))


_ASIDE = re.compile(r"tests?$|test_|testing$|examples?$|bench")


@lru_cache(maxsize=4)
def helpers_of(root: str) -> tuple[Candidate, ...]:
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
    place = place_in(files, module)
    found = definitions_of(place.tree, name) if place is not None else []
    if place is None or len(found) != 1 or found[0] not in place.tree.body or is_set_elsewhere(place.tree, name):
        return None
    definition = found[0]
    if not isinstance(definition, ast.FunctionDef):
        return None
    inside = place_inside(place, definition)
    return definition if pins_and_sends(definition, lambda test: implies_pinning(inside, test)) else None


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
def definition_in(text: str, name: str) -> ast.FunctionDef | None:
    """The function that `text` defines under `name` at its top level."""
    match = re.search(rf"^def[ \t]+{re.escape(name)}[ \t]*\(", text, re.M)
    if match is None:
        return None
    try:
        parsed = ast.parse(text[match.start() : _end_of_definition(text, match.end())])
    except (SyntaxError, ValueError, RecursionError):
        return None
    return next((node for node in parsed.body if isinstance(node, ast.FunctionDef)), None)


def project_guard(root: str) -> str | None:
    """The availability flag that most of the modules below `root` use, as `pin-guard` takes it."""
    found = next(iter(flags_of(root)), None)
    return None if found is None else f"{found.module}.{found.name}{'()' if found.called else ''}"


def project_helper(root: str) -> str | None:
    """The function that pins and sends which most of the modules below `root` use, as `transfer-helper` takes it."""
    found = next(iter(helpers_of(root)), None)
    return None if found is None else f"{found.module}.{found.name}"
