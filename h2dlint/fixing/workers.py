"""Code where memory must not be pinned: loader workers (no CUDA there), compiled code and graph capture."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from h2dlint.fixing.document import Document
from h2dlint.fixing.names import last_name

_COMPILES = re.compile(r"(?i)(?:^|_)(?:compiled?|jit|script|trace|export)(?:_|$)|^support_torch_compile$")
_CAPTURES = re.compile(r"(?i)(?:^|_)graph(?:_capture)?$|^capture|_capture$")
_RUN_BY_WORKERS = ("collate_fn", "worker_init_fn")
_COLLATE = re.compile(r"(?i)collat(?:e|or)")
_DATASET = re.compile(r"(?i)data_?set$|^datapipe|datapipe$")


def in_worker_code(document: Document, statement: ast.stmt) -> bool:
    """Whether `statement` runs in a worker process of a loader, is compiled, or is recorded into a graph."""
    names = _given_away(document)
    for node in document.around(statement):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if _COLLATE.search(node.name) or node.name in names or _is_compiled(node.decorator_list):
                return True
        elif isinstance(node, ast.ClassDef):
            if _is_dataset(node) or _COLLATE.search(node.name) or _is_compiled(node.decorator_list):
                return True
        elif isinstance(node, (ast.With, ast.AsyncWith)) and any(_captures(item.context_expr) for item in node.items):
            return True
    return False


def _is_dataset(node: ast.ClassDef) -> bool:
    return any(_DATASET.search(last_name(base)) for base in node.bases)


def _is_compiled(decorators: list[ast.expr]) -> bool:
    return any(_COMPILES.search(last_name(decorator)) for decorator in decorators)


def _captures(context: ast.expr) -> bool:
    return isinstance(context, ast.Call) and bool(_CAPTURES.search(last_name(context.func)))


@lru_cache(maxsize=4)
def _given_away(document: Document) -> frozenset[str]:
    """The functions of this module that are handed to a loader or to a compiler."""
    if "collate_fn" not in document.text and "worker_init_fn" not in document.text and "compile(" not in document.text:
        return frozenset()
    found: set[str] = set()
    for node in ast.walk(document.tree):
        if not isinstance(node, ast.Call):
            continue
        found.update(last_name(keyword.value) for keyword in node.keywords if keyword.arg in _RUN_BY_WORKERS)
        if _COMPILES.search(last_name(node.func)):
            found.update(last_name(argument) for argument in node.args[:1])
    return frozenset(found - {""})
