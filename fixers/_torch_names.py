"""What a module calls torch, and functions of torch that it imports by name: `from torch import arange`."""

from __future__ import annotations

import ast

from h2dlint.fixing import RefusedError, Site
from h2dlint.fixing.imports import absolute_name


def torch_if_imported(site: Site) -> str:
    """The module's name for torch; empty where it imports functions of torch alone."""
    try:
        return site.torch_name()
    except RefusedError:
        return ""


def imported_function(site: Site, node: ast.expr) -> str:
    """The function of torch that a plain name stands for, by torch's own name; empty for anything else."""
    if not isinstance(node, ast.Name) or _is_bound_besides(site.tree, node.id):
        return ""
    module, _, name = absolute_name(site.document, node.id, site.statement).rpartition(".")
    return name if module == "torch" else ""


def _is_bound_besides(tree: ast.Module, name: str) -> bool:
    """Whether anything in the file but an import binds the name."""
    return any(
        (isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.arg) and node.arg == name)
        or (isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == name)
        for node in ast.walk(tree)
    )
