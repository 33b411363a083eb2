"""One file to its copies: interpret what holds a transfer, merge the ways, and say what could not be followed."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections import defaultdict

from h2dlint.facts.copies import Branch, Cause, Copy, Direction, Place, Span, Verdict
from h2dlint.facts.describe import branch_text, leading_size, max_bytes, places, reveal, span_of
from h2dlint.facts.domain import Tag
from h2dlint.facts.layout import Form
from h2dlint.facts.modules import ModuleInfo, Unit, child_statements
from h2dlint.facts.outcomes import Outcome
from h2dlint.facts.project import Project
from h2dlint.facts.torch_api import TRANSFER_METHODS

_ASKABLE = frozenset({"to", "copy_", "type", *TRANSFER_METHODS})


def copies_of(project: Project, path: str, text: str, tree: ast.Module, every: bool = False) -> list[Copy]:
    """The copies of one file, in source order.

    `every`: also the proven transfers that never asked to be asynchronous. Raises RecursionError on absurdly deep code.
    """
    module = project.module(path, text, tree)
    asked, perhaps = _asking_calls(module)
    project.outcomes = []
    project.sought.update(
        unit.node for unit in module.units if any(unit.covers(node.lineno) for node in (*asked, *perhaps))
    )
    project.run_module(module)
    for unit in module.units:
        if every or unit.node in project.sought:
            project.run_unit(module, unit)
    project.settle(module)
    _ask_callers(project, module, asked)
    by_node: dict[ast.AST, list[Outcome]] = defaultdict(list)
    for outcome in project.outcomes:
        if outcome.module == module.path:
            by_node[outcome.node].append(outcome)
    for node in asked:
        by_node.setdefault(node, [])
    lines = text.splitlines()
    found = [
        _merged(node, outcomes, module, lines)
        for node, outcomes in by_node.items()
        if every or node in asked or any(outcome.asked for outcome in outcomes)
    ]
    return sorted(found, key=lambda copy: (copy.span.line, copy.span.column, copy.span.end_line, copy.span.end_column))


def _asking_calls(module: ModuleInfo) -> tuple[dict[ast.Call, None], list[ast.Call]]:
    """Calls that name non_blocking or give it by position, and those whose `**options` may hold it.

    Only statements on whose lines one can stand are walked.
    """
    found: list[ast.Call] = []
    lines = sorted({module.line_at(match.start()) for match in _CANDIDATE.finditer(module.text)})
    _collect_asking(module.tree.body, lines, found)
    return {node: None for node in found if _names_flag(node)}, [node for node in found if not _names_flag(node)]


_CANDIDATE = re.compile(r"non_blocking|\.(?:" + "|".join(sorted(_ASKABLE)) + r")\s*\(")


def _collect_asking(body: list[ast.stmt], lines: list[int], found: list[ast.Call]) -> None:
    for statement in body:
        position = bisect_left(lines, _first_line(statement))
        if position == len(lines) or lines[position] > (statement.end_lineno or statement.lineno):
            continue
        inner = list(child_statements(statement))
        if inner:
            _collect_asking(inner, lines, found)
        inside = set(map(id, inner))
        stack: list[ast.AST] = [child for child in ast.iter_child_nodes(statement) if id(child) not in inside]
        while stack:
            node = stack.pop()
            if isinstance(node, ast.stmt):
                continue
            if isinstance(node, ast.Call) and (_names_flag(node) or _has_options(node)):
                found.append(node)
            stack.extend(ast.iter_child_nodes(node))


def _has_options(node: ast.Call) -> bool:
    return (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in _ASKABLE
        and any(keyword.arg is None for keyword in node.keywords)
    )


def _first_line(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", None)
    return min(decorators[0].lineno, statement.lineno) if decorators else statement.lineno


def _names_flag(node: ast.Call) -> bool:
    if any(keyword.arg == "non_blocking" for keyword in node.keywords):
        return True
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in _ASKABLE:
        return False
    if node.func.attr == "to":
        return len(node.args) >= 3 or (
            len(node.args) == 2 and isinstance(node.args[1], ast.Constant) and isinstance(node.args[1].value, bool)
        )
    return len(node.args) == 2 and node.func.attr != "type"


def _ask_callers(project: Project, module: ModuleInfo, asked: dict[ast.Call, None]) -> None:
    """Where a copy hangs on a parameter, look at the functions of this module that call its function."""
    open_units: dict[Unit, None] = {}
    settled: dict[ast.AST, bool] = {}
    for outcome in project.outcomes:
        if not outcome.context:
            settled[outcome.node] = settled.get(outcome.node, True) and outcome.verdict is not Verdict.UNPROVEN
    for node in asked:
        if not settled.get(node, False):
            unit = _innermost(module, node)
            if unit is not None:
                open_units[unit] = None
    for unit in list(open_units):
        name = unit.owner.name if unit.owner is not None and unit.node.name == "__init__" else unit.node.name
        project.run_callers(module, name, {unit.node})


def _innermost(module: ModuleInfo, node: ast.expr) -> Unit | None:
    best: Unit | None = None
    for unit in module.units:
        if unit.covers(node.lineno) and (best is None or unit.node.lineno >= best.node.lineno):
            best = unit
    return best


# Merging the ways


def _merged(node: ast.AST, outcomes: list[Outcome], module: ModuleInfo, lines: list[str]) -> Copy:
    """One record of everything that was seen of a copy."""
    chosen = _deciding(outcomes)
    unit = _innermost(module, node)  # type: ignore[arg-type]
    function = unit.qualname if unit is not None else "<module>"
    span = span_of(node, lines)
    if not chosen:
        return Copy(
            module.path,
            span,
            function,
            _last_name(node),
            True,
            Direction.UNKNOWN,
            Verdict.UNPROVEN,
            (),
            "unreached | here",
            (),
            unproven="this call was not reached by the analysis",
        )
    verdict = _verdict(chosen)
    shown = (
        next((outcome for outcome in chosen if outcome.verdict is Verdict.FAKE_ASYNC), None)
        if verdict in (Verdict.FAKE_ASYNC, Verdict.CONDITIONAL)
        else None
    )
    shown = shown or next((outcome for outcome in chosen if outcome.verdict is verdict), chosen[0])
    causes = tuple(
        sorted(
            {cause for outcome in chosen if outcome.verdict is Verdict.FAKE_ASYNC for cause in outcome.causes},
            key=list(Cause).index,
        )
    )
    branches = _branches(chosen, lines) if verdict is Verdict.CONDITIONAL else ()
    if verdict is Verdict.CONDITIONAL and any(tag.kind == "switch" for outcome in chosen for tag in outcome.tags):
        causes = (*causes, Cause.CONFIG)
    array = shown.decisive
    operand = shown.operand
    text = ast.unparse(operand) if operand is not None else ""
    return Copy(
        module.path,
        span,
        function,
        shown.call,
        shown.asked,
        _direction(chosen, shown),
        verdict,
        causes if verdict in (Verdict.FAKE_ASYNC, Verdict.CONDITIONAL) else (),
        reveal(shown),
        places(array.trail if array is not None else None, module.path, lines),
        branches,
        from_numpy=array is not None and array.from_numpy,
        index_built=array is not None and array.index_built and array.device.is_cpu,
        max_bytes=max_bytes(array),
        source_text=text if len(text) <= 80 else "",
        unproven=shown.why if verdict is Verdict.UNPROVEN else "",
        to_accelerator=all(outcome.to_accelerator for outcome in chosen if outcome.verdict is Verdict.FAKE_ASYNC),
        layout=array.layout.form.value if array is not None else "",
        rows=leading_size(array),
    )


def _deciding(outcomes: list[Outcome]) -> list[Outcome]:
    """The function on its own where that proves something; else its callers, where they are seen."""
    telling = [outcome for outcome in outcomes if not _says_nothing(outcome)]
    outcomes = telling or outcomes
    own = [outcome for outcome in outcomes if not outcome.context]
    called = [outcome for outcome in outcomes if outcome.context]
    if own and not any(outcome.verdict is Verdict.UNPROVEN for outcome in own):
        return own
    if called:
        proven = [outcome for outcome in own if outcome.verdict is not Verdict.UNPROVEN]
        return [*called, *proven]
    return own


def _says_nothing(outcome: Outcome) -> bool:
    """A way on which the tensor stays on the host or is empty: whoever asks for non_blocking means the other ways."""
    if outcome.verdict is not Verdict.NO_TRANSFER:
        return False
    return outcome.direction is Direction.H2H or (
        outcome.decisive is not None and outcome.decisive.layout.form is Form.EMPTY
    )


def _verdict(outcomes: list[Outcome]) -> Verdict:
    found = {outcome.verdict for outcome in outcomes}
    if len(found) == 1:
        return found.pop()
    if Verdict.FAKE_ASYNC in found:
        return Verdict.CONDITIONAL
    if Verdict.UNPROVEN in found:
        return Verdict.UNPROVEN
    for verdict in (Verdict.ASYNC, Verdict.BLOCKING):
        if verdict in found:
            return verdict
    return Verdict.NO_TRANSFER


def _direction(outcomes: list[Outcome], shown: Outcome) -> Direction:
    return shown.direction


def _branches(outcomes: list[Outcome], lines: list[str]) -> tuple[Branch, ...]:
    """One entry per way that differs, fake ones first."""
    found: dict[tuple[bool | None, str], Branch] = {}
    common = set.intersection(*({id(tag) for tag in outcome.tags} for outcome in outcomes)) if outcomes else set()
    for outcome in outcomes:
        fake = True if outcome.verdict is Verdict.FAKE_ASYNC else None if outcome.verdict is Verdict.UNPROVEN else False
        telling = [tag for tag in outcome.tags if id(tag) not in common]
        text, place = branch_text(telling, outcome, lines)
        by_default = all(tag.by_default for tag in telling)
        real = place if any(_is_way(tag) for tag in telling) or outcome.context else None
        found.setdefault((fake, text), Branch(fake, text, by_default, real))
    order = {True: 0, None: 1, False: 2}
    return tuple(sorted(found.values(), key=lambda branch: order[branch.fake]))


def _is_way(tag: Tag) -> bool:
    return tag.kind in ("path", "caller", "store", "case")


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        func = node.func
        return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else "call"
    return "__getitem__"


__all__ = ["Place", "Span", "copies_of"]
