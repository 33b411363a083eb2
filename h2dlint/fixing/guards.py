"""The project's own words for "memory can be pinned here" and "pin this and send it": found by what they are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from h2dlint.finding import Edit
from h2dlint.fixing.availability import ANY_AVAILABLE
from h2dlint.fixing.imports import need_import, own_name
from h2dlint.fixing.module_flags import known_flag
from h2dlint.fixing.names import bound_in, dotted_name
from h2dlint.fixing.project_files import package_root, project_files
from h2dlint.fixing.project_flags import Guard, Helper, definition_in, flags_of, helpers_of, is_at_hand, usable_guard
from h2dlint.fixing.site import RefusedError

if TYPE_CHECKING:
    from h2dlint.fixing.site import Site

_AVAILABLE = {
    "cuda": "torch.cuda.is_available",
    "rocm": "torch.cuda.is_available",  # where ROCm's devices are called cuda
    "xpu": "torch.xpu.is_available",
}
"""Torch's own test by backend; `torch.npu` and its like are there only with their extension installed."""


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
    for candidate in flags_of(package_root(site.document.file)):
        found = usable_guard(site, candidate)
        if found is not None:
            return found
    available = _AVAILABLE.get(site.options.backend, ANY_AVAILABLE)
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
        definition = definition_in(files.text(module), name)
        if definition is None and module == own_name(site.document):
            definition = definition_in(site.text, name)
        if _is_inside(site, module, name):
            return None
        _must_exist(site, site.options.helper, "transfer-helper")
        written, edits = need_import(site.document, site.options.helper, site.statement)
        return Helper(written, edits, definition)
    for candidate in helpers_of(files.root):
        if candidate.module != own_name(site.document) and not files.import_each_other:
            continue
        if _is_inside(site, candidate.module, candidate.name) or not is_at_hand(site, candidate):
            continue
        try:
            written, edits = need_import(site.document, f"{candidate.module}.{candidate.name}", site.statement)
        except RefusedError:
            continue
        return Helper(written, edits, definition_in(files.text(candidate.module), candidate.name))
    return None


def _is_inside(site: Site, module: str, name: str) -> bool:
    around = [node.name for node in site.document.around(site.call) if isinstance(node, ast.FunctionDef)]
    return name in around and module == own_name(site.document)


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
