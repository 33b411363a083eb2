"""One file to its copies: interpret what holds a transfer, merge the ways, and say what could not be followed."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections import defaultdict

import msgspec

from h2dlint.facts.copies import Copy
from h2dlint.facts.merge import deciding, innermost, merged
from h2dlint.facts.modules import ModuleInfo, Unit, child_statements, holds
from h2dlint.facts.outcomes import Outcome
from h2dlint.facts.project import Project
from h2dlint.facts.torch_api import TRANSFER_METHODS

_ASKABLE = frozenset({"to", "copy_", "type", *TRANSFER_METHODS})


def copies_of(project: Project, path: str, text: str, tree: ast.Module, every: bool = False) -> list[Copy]:
    """The copies of one file, in source order.

    `every`: also the proven transfers that never asked to be asynchronous. Raises RecursionError on absurdly deep code.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # Python's line ends; `splitlines` would find more
    module = project.module(path, text, tree)
    asked, perhaps = _asking_calls(module)
    lines_asked = sorted(node.lineno for node in (*asked, *perhaps))
    project.sought.update(unit.node for unit in module.units if holds(unit.node, lines_asked))
    if every:
        project.sought.update(unit.node for unit in module.units)
    project.run_module(module)
    for unit in module.units:
        if unit.node in project.sought:
            project.run_unit(module, unit)
    project.settle(module)
    _ask_callers(project, module, asked)
    at: dict[_Place, list[Outcome]] = defaultdict(list)
    for outcome in _seen_from_here(project, module):
        at[_place(outcome.node)].append(outcome)
    nodes = {_place(node): node for node in asked}
    lines = text.split("\n")
    found = [
        merged(nodes.get(place) or at[place][0].node, at[place], module, lines)
        for place in {**nodes, **at}
        if every or place in nodes or any(outcome.asked for outcome in at[place])
    ]
    return sorted(found, key=lambda copy: (copy.span.line, copy.span.column, copy.span.end_line, copy.span.end_column))


def _asking_calls(module: ModuleInfo) -> tuple[dict[ast.Call, None], list[ast.Call]]:
    """Calls that name non_blocking or give it by position, and those whose `**options` may hold it.

    Only statements on whose lines one can stand are walked.
    """
    found: list[ast.Call] = []
    lines = sorted({module.line_at(match.start()) for match in _CANDIDATE.finditer(module.text)})
    _collect_asking(module.tree.body, lines, found)
    return {node: None for node in found if _names_flag(node, module)}, [
        node for node in found if not _names_flag(node, module)
    ]


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
            if isinstance(node, ast.Call) and (_may_name_flag(node) or _has_options(node)):
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


def _names_flag(node: ast.Call, module: ModuleInfo) -> bool:
    """Whether the call names non_blocking. A function of an imported module, `init.copy_(a, b)`, is no method."""
    if any(keyword.arg == "non_blocking" for keyword in node.keywords):
        return True
    receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
    imported = isinstance(receiver, ast.Name) and receiver.id in module.imports
    return _may_name_flag(node) and not imported


def _may_name_flag(node: ast.Call) -> bool:
    if any(keyword.arg == "non_blocking" for keyword in node.keywords):
        return True
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in _ASKABLE:
        return False
    if node.func.attr == "to":
        return len(node.args) >= 3 or (
            len(node.args) == 2 and isinstance(node.args[1], ast.Constant) and isinstance(node.args[1].value, bool)
        )
    return len(node.args) == 2 and node.func.attr != "type"


def _seen_from_here(project: Project, module: ModuleInfo) -> list[Outcome]:
    """What functions of this module led to, and those of others that were looked at because they call them: which
    other modules were looked at before must make no difference.

    If one of them imports this one, it was read before, as another tree; the roots are those of this tree.
    """
    roots = {None, *(unit.node for unit in module.units)}
    asked = project.asked_roots.get(module.file, set())

    def counts(file: str, root: ast.AST | None) -> bool:
        return root in (roots if file == module.file else asked)

    found = [outcome for outcome in project.outcomes.get(module.file, ()) if counts(outcome.root_file, outcome.root)]
    for outcome in list(found):
        if outcome.unsettled and outcome.root is not None:
            found.extend(
                msgspec.structs.replace(
                    outcome, root=call.root, root_file=call.root_file, context=(*call.context, *outcome.context)
                )
                for call in project.uninformed.get(outcome.root, ())
                if counts(call.root_file, call.root)
            )
    return found


_Place = tuple[int, int, int, int]


def _place(node: ast.expr) -> _Place:
    """What a call is known by: its node is another one where an importing module had the file read before."""
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


_CALLS_UP = 3
"""How many calls up a value is followed: who calls, who calls that one, and so on."""


def _ask_callers(project: Project, module: ModuleInfo, asked: dict[ast.Call, None]) -> None:
    """Where a copy hangs on a parameter, look at the functions that call its function, in this module and in others."""
    done: set[Unit] = set()
    for _ in range(_CALLS_UP):
        waiting = [unit for unit in _open_units(project, module, asked) if unit not in done]
        if not waiting:
            break
        for unit in waiting:
            project.run_callers(module, _called_as(unit), {unit.node})
        for unit, places in _open_units(project, module, asked).items():
            if unit in waiting and _may_be_called_elsewhere(unit, places):
                project.run_callers_elsewhere(module, unit, _called_as(unit))
        done.update(waiting)


def _open_units(project: Project, module: ModuleInfo, asked: dict[ast.Call, None]) -> dict[Unit, list[ast.expr]]:
    """The functions of this module whose parameters may leave a copy open, with the calls in them that lead there."""
    at: dict[_Place, list[Outcome]] = defaultdict(list)
    for outcome in _seen_from_here(project, module):
        at[_place(outcome.node)].append(outcome)
    found: dict[Unit, list[ast.expr]] = defaultdict(list)
    for node in asked:
        outcomes = deciding(at[_place(node)])
        own = innermost(module, node)
        if not outcomes and own is not None:
            found[own].append(node)
        for outcome in outcomes:
            unit = module.unit_of_node.get(outcome.root) if outcome.unsettled and outcome.root is not None else None
            if unit is not None:
                inside = outcome.context[0].node if outcome.context else outcome.node
                found[unit].append(inside if isinstance(inside, ast.expr) else node)
    return found


def _called_as(unit: Unit) -> str:
    return unit.owner.name if unit.owner is not None and unit.node.name == "__init__" else unit.node.name


_CALLED_BY_TORCH = frozenset({"forward", "backward", "main", "setup"})
"""Names that say nothing of who is called, or are called through something else."""


def _may_be_called_elsewhere(unit: Unit, places: list[ast.expr]) -> bool:
    """Whether what callers in other modules pass may decide what happens at these places of the function."""
    name = _called_as(unit)
    if unit.parent is not None or name.startswith("__") or name in _CALLED_BY_TORCH:
        return False
    reached = _names_behind(unit.node, places)
    return any(parameter.arg in reached and not _is_plain(parameter) for parameter in _parameters(unit))


def _parameters(unit: Unit) -> list[ast.arg]:
    arguments = unit.node.args
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs][unit.owner is not None :]


_PLAIN = frozenset({"int", "float", "str", "bool", "torch.device", "torch.dtype"})


def _is_plain(parameter: ast.arg) -> bool:
    """Whether a parameter is a number, a text or a device: it says nothing of a tensor's memory."""
    annotation = ast.unparse(parameter.annotation) if parameter.annotation is not None else ""
    return annotation in _PLAIN or parameter.arg in ("device", "dtype")


def _names_behind(function: ast.AST, places: list[ast.expr]) -> set[str]:
    """The variables that some expressions of a function are made of, over all its assignments."""
    made_of: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(function):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.NamedExpr, ast.comprehension)):
            source = node.iter if isinstance(node, (ast.For, ast.comprehension)) else node.value
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in [name for one in targets for name in _names_in(one)]:
                made_of[target] |= _names_in(source) if source is not None else set()
    found: set[str] = set()
    waiting = {name for place in places for name in _names_in(place)}
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= made_of[name] - found
    return found


def _names_in(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
