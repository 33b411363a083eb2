"""Where the host waits, whatever happens, for a copy from the device."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from h2dlint.fixers._scope import binds, block_of, parameters, scope_of, statements
from h2dlint.fixers._torch_names import torch_if_imported

from h2dlint.facts.torch_api import ACCELERATOR_MODULES
from h2dlint.fixing import Site
from h2dlint.fixing.imports import absolute_name
from h2dlint.fixing.names import dotted_name, last_name

_KIND = "|".join(sorted(ACCELERATOR_MODULES))
_WAIT = re.compile(rf"torch\.(?:{_KIND}|accelerator)\.synchronize")
_CURRENT_STREAM = re.compile(rf"torch\.(?:{_KIND}|accelerator)\.current_stream")
_STREAM_CONTEXT = re.compile(rf"torch\.(?:(?:{_KIND})\.stream|(?:{_KIND})\.StreamContext)")
_EVENT = re.compile(rf"torch\.(?:(?:{_KIND})\.)?Event")
_EVENT_NAME = re.compile(r"(?i)event")
_JUMPS = (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await, ast.Assert)


def wait_behind(site: Site) -> ast.stmt | None:
    """The first statement behind the copy, in its own block, that makes the host wait for it; None where the block may
    be left before.
    """
    block = block_of(site, site.statement)
    between: list[ast.stmt] = []
    for statement in block[block.index(site.statement) + 1 :]:
        if _is_wait(site, statement, between):
            others = [one for one in between if not _is_record(one)]
            return None if others and (_may_be_left(site) or _jumps(others)) else statement
        between.append(statement)
    return None


def _jumps(between: Sequence[ast.stmt]) -> bool:
    return any(isinstance(node, _JUMPS) for statement in between for node in ast.walk(statement))


def _may_be_left(site: Site) -> bool:
    """Whether an error before the wait could be caught in this function."""
    for node in site.document.around(site.statement):
        if node is site.function:
            return False
        if isinstance(node, (ast.Try, ast.AsyncWith)):
            return True
        if isinstance(node, ast.With) and not all(_is_of_torch(site, item.context_expr) for item in node.items):
            return True
    return False


def _is_wait(site: Site, statement: ast.stmt, between: Sequence[ast.stmt]) -> bool:
    """Whether a statement lets the host wait for the device, for the copy's stream, or for an event behind the copy."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "synchronize":
        return False
    if _WAIT.fullmatch(_absolute(site, call.func)):
        return True
    waited = call.func.value
    return (_is_event(site, waited) and _is_recorded(site, waited, between)) or _is_own_stream(site, waited)


def _is_own_stream(site: Site, node: ast.expr) -> bool:
    """Whether a stream is the one that the copy is put on."""
    if "set_stream" in site.text:
        return False
    if isinstance(node, ast.Call):
        return bool(_CURRENT_STREAM.fullmatch(_absolute(site, node.func)))
    around = _streams_around(site)
    if around:
        return ast.unparse(node) == ast.unparse(around[0])
    made = _made(site, node)
    return isinstance(made, ast.Call) and bool(_CURRENT_STREAM.fullmatch(_absolute(site, made.func)))


def _streams_around(site: Site) -> list[ast.expr]:
    """The streams of the `with` statements around the copy, from the inside out."""
    found: list[ast.expr] = []
    for node in site.document.around(site.statement):
        for item in reversed(node.items) if isinstance(node, ast.With) else ():
            context = item.context_expr
            if isinstance(context, ast.Call) and context.args and _is_stream_context(site, context):
                found.append(context.args[0])
    return found


def _is_stream_context(site: Site, call: ast.Call) -> bool:
    return bool(_STREAM_CONTEXT.fullmatch(_absolute(site, call.func)))


def _is_event(site: Site, node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return bool(_EVENT_NAME.search(node.attr))
    made = _made(site, node)
    recorded = isinstance(made, ast.Call) and last_name(made.func) == "record_event"
    return recorded or (isinstance(made, ast.Call) and bool(_EVENT.fullmatch(_absolute(site, made.func))))


def _is_recorded(site: Site, event: ast.expr, between: Sequence[ast.stmt]) -> bool:
    """Whether an event is recorded behind the copy, on the stream that the copy is put on."""
    return "set_stream" not in site.text and any(_records(site, event, statement) for statement in between)


def _records(site: Site, event: ast.expr, statement: ast.stmt) -> bool:
    """`event.record()`, `event = stream.record_event()`."""
    call = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    if isinstance(statement, ast.Assign):
        given = len(statement.targets) == 1 and ast.unparse(statement.targets[0]) == ast.unparse(event)
        return given and call.func.attr == "record_event" and _is_own_stream(site, call.func.value)
    streams = [*call.args, *(keyword.value for keyword in call.keywords)]
    own = call.func.attr == "record" and ast.unparse(call.func.value) == ast.unparse(event)
    return own and all(_is_own_stream(site, one) for one in streams)


def _is_record(statement: ast.stmt) -> bool:
    """`event.record()`."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Attribute)
        and statement.value.func.attr == "record"
        and not isinstance(statement.value.func.value, ast.Call)
    )


def _made(site: Site, node: ast.expr) -> ast.expr | None:
    """What the function gives to a name, once."""
    scope = scope_of(site)
    if not isinstance(node, ast.Name) or node.id in parameters(scope):
        return None
    found = [statement for statement in statements(scope) if node.id in binds(statement)]
    plain = [one for one in found if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)]
    return plain[0].value if len(found) == len(plain) == 1 else None


def _absolute(site: Site, node: ast.expr) -> str:
    """What a dotted name stands for; empty where the function gives its first part a meaning of its own."""
    dotted = dotted_name(node)
    scope = scope_of(site)
    head = dotted.partition(".")[0]
    if head in parameters(scope) or (site.function is not None and head in binds(site.function) and head != "torch"):
        return ""
    return absolute_name(site.document, dotted, site.statement) if dotted else ""


def _is_of_torch(site: Site, node: ast.expr) -> bool:
    name = dotted_name(node.func) if isinstance(node, ast.Call) else ""
    return name.partition(".")[0] in (torch_if_imported(site), "np", "numpy")
