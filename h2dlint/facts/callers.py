"""Where a copy hangs on what a function is given: who calls it, in this module and in others."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache

from msgspec.structs import replace

from h2dlint.facts.attributes import decorator_names
from h2dlint.facts.domain import Tag
from h2dlint.facts.merge import deciding, innermost
from h2dlint.facts.modules import ModuleInfo, Unit
from h2dlint.facts.outcomes import Outcome
from h2dlint.facts.project import Project
from h2dlint.facts.round_trips import NodePlace, place_of


def seen_from_here(project: Project, module: ModuleInfo) -> list[Outcome]:
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
        if outcome.is_copy and outcome.unsettled and outcome.root is not None:
            found.extend(
                replace(outcome, root=call.root, root_file=call.root_file, context=(*call.context, *outcome.context))
                for call in project.uninformed.get(outcome.root, ())
                if counts(call.root_file, call.root)
            )
    return [*found, *_from_unseen_callers(project, module, found)]


def _from_unseen_callers(project: Project, module: ModuleInfo, found: list[Outcome]) -> Iterator[Outcome]:
    """A way for the calls of a method that were not looked at, where only those that give a keyword were."""
    for unit in module.units:
        roots = project.asked_by_keyword.get(unit.node)
        if roots is None:
            continue
        seen = {place_of(one.node) for one in found if one.root in roots and one.is_copy and unit.node in one.entered()}
        tag = Tag("note", unit.node, path=module.path, text=f"where another caller of `{unit.node.name}` decides")
        for one in found:
            if one.root is unit.node and one.is_copy and one.unsettled and place_of(one.node) in seen:
                yield replace(one, root=None, tags=(*one.tags, tag))


_CALLS_UP = 2
"""How many calls up a value is followed: who calls, who calls that one, and so on."""


def ask_callers(project: Project, module: ModuleInfo, asked: dict[ast.Call, None]) -> None:
    """Where a copy hangs on a parameter, look at the functions that call its function, in this module and in others."""
    done: set[Unit] = set()
    for _ in range(_CALLS_UP):
        waiting = {
            unit: places
            for unit, places in open_units(project, module, asked).items()
            if unit not in done and hangs_on_parameters(unit, places)
        }
        for unit in waiting:
            project.run_callers(module, called_as(unit), {unit.node})
        for unit, places in open_units(project, module, asked).items() if waiting else ():
            if unit in waiting and may_be_called_elsewhere(unit) and hangs_on_parameters(unit, places):
                project.run_callers_elsewhere(module, unit, called_as(unit))
        done.update(waiting)


def open_units(project: Project, module: ModuleInfo, asked: dict[ast.Call, None]) -> dict[Unit, list[ast.expr]]:
    """The functions of this module whose parameters may leave a copy open, with the calls in them that lead there."""
    at: dict[NodePlace, list[Outcome]] = defaultdict(list)
    for outcome in seen_from_here(project, module):
        if outcome.is_copy:
            at[place_of(outcome.node)].append(outcome)
    found: dict[Unit, list[ast.expr]] = defaultdict(list)
    for node in asked:
        outcomes = deciding(at[place_of(node)])
        own = innermost(module, node)
        if not outcomes and own is not None:
            found[own].append(node)
        for outcome in outcomes:
            unit = module.unit_of_node.get(outcome.root) if outcome.unsettled and outcome.root is not None else None
            if unit is not None:
                inside = outcome.context[0].node if outcome.context else outcome.node
                found[unit].append(inside if isinstance(inside, ast.expr) else node)
    return found


def called_as(unit: Unit) -> str:
    """What a function is called by: a constructor by its class."""
    return unit.owner.name if unit.owner is not None and unit.node.name == "__init__" else unit.node.name


_CALLED_BY_TORCH = frozenset({"forward", "backward", "main", "setup"})
"""Names that say nothing of who is called, or are called through something else."""


def may_be_called_elsewhere(unit: Unit) -> bool:
    """Whether calls in other files can be found by the function's name."""
    name = called_as(unit)
    return unit.parent is None and not name.startswith("__") and name not in _CALLED_BY_TORCH


def hangs_on_parameters(unit: Unit, places: list[ast.expr]) -> bool:
    """Whether what callers pass may decide what happens at these places of the function."""
    reached = names_behind(unit.node, places)
    gathered = [one for one in (unit.node.args.vararg, unit.node.args.kwarg) if one is not None]  # `*rows`, `**fields`
    return any(one.arg in reached and not is_plain(one) for one in (*parameters_of(unit), *gathered))


def parameters_of(unit: Unit) -> list[ast.arg]:
    """The parameters of a function, without the object that a method belongs to."""
    arguments = unit.node.args
    bound = unit.owner is not None and "staticmethod" not in decorator_names(unit.node)
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs][bound:]


_PLAIN = frozenset({"int", "float", "str", "bool", "torch.device", "torch.dtype"})


def is_plain(parameter: ast.arg) -> bool:
    """Whether a parameter is a number, a text or a device: it says nothing of a tensor's memory."""
    annotation = ast.unparse(parameter.annotation) if parameter.annotation is not None else ""
    return annotation in _PLAIN or parameter.arg in ("device", "dtype")


def names_behind(function: ast.AST, places: Iterable[ast.AST]) -> set[str]:
    """The variables that some expressions of a function are made of, over all its assignments."""
    made_of = _made_of(function)
    found: set[str] = set()
    waiting = {name for place in places for name in _names_in(place)}
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= made_of.get(name, set()) - found
    return found


@lru_cache(maxsize=64)
def _made_of(function: ast.AST) -> dict[str, set[str]]:
    """The variables in what a function gives each of its variables."""
    made_of: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(function):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.NamedExpr, ast.comprehension)):
            source = node.iter if isinstance(node, (ast.For, ast.comprehension)) else node.value
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in [name for one in targets for name in _names_in(one)]:
                made_of[target] |= _names_in(source) if source is not None else set()
    return made_of


def _names_in(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
