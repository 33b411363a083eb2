"""Where a method is called in too many files to look at all: those that give the deciding parameter by its keyword."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from h2dlint.facts.callers import (
    called_as,
    hangs_on_parameters,
    is_plain,
    may_be_called_elsewhere,
    names_behind,
    open_units,
    parameters_of,
    seen_from_here,
)
from h2dlint.facts.modules import ModuleInfo, Unit
from h2dlint.facts.project import Project
from h2dlint.facts.running import MAX_CALLERS

_MOVES = frozenset({"to", "cuda"})


def ask_callers_by_keyword(project: Project, module: ModuleInfo, asked: dict[ast.Call, None]) -> None:
    """Where a copy still hangs on a parameter of a method that many files call, look at those that give it by keyword.

    Such a call may be one of the method, and other calls may give something else: a way is kept for them (callers.py).
    """
    for unit, places in open_units(project, module, asked).items():
        if unit.owner is None or not may_be_called_elsewhere(unit) or not hangs_on_parameters(unit, places):
            continue
        if project.is_called_widely(module, called_as(unit)):
            _ask(project, module, unit, _deciding(unit, places))


def _deciding(unit: Unit, places: list[ast.expr]) -> list[str]:
    """The parameters that decide what happens at these places, and that a call may name."""
    reached = names_behind(unit.node, [part for place in places for part in _moved(place)])
    by_position = {parameter.arg for parameter in unit.node.args.posonlyargs}
    named = [one for one in parameters_of(unit) if one.arg in reached and one.arg not in by_position]
    return [one.arg for one in named if not is_plain(one)]


def _moved(place: ast.expr) -> list[ast.expr]:
    """What a copy moves, or what a call that leads to one is given: where a copy goes to does not decide."""
    if not isinstance(place, ast.Call) or not isinstance(place.func, ast.Attribute):
        return [place]
    if place.func.attr in _MOVES:
        return [place.func.value]
    return [place.func.value, *place.args[:1]] if place.func.attr == "copy_" else [place]


def _ask(project: Project, module: ModuleInfo, unit: Unit, keywords: list[str]) -> None:
    """Look at the functions that name one of the keywords, and, where these hand on what they are given, at who calls
    them.
    """
    found = project.callers_by_keyword(module, unit, keywords)
    if found is None:
        return
    sought, callers = found
    for other, caller in callers:
        project.run_for_method(sought, other, caller)
        if _is_open(project, module, caller) and _hands_on(caller, sought.name, keywords):
            for above, further in _callers_of(project, other, caller):
                project.run_for_method(sought, above, further)


def _is_open(project: Project, module: ModuleInfo, caller: Unit) -> bool:
    """Whether a copy is seen from this caller, and it does not settle what it does."""
    return any(one.root is caller.node and one.is_copy and one.unsettled for one in seen_from_here(project, module))


def _hands_on(caller: Unit, method: str, keywords: list[str]) -> bool:
    """Whether what a function gives the keywords is made of its own parameters."""
    given = [
        keyword.value
        for node in ast.walk(caller.node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method
        for keyword in node.keywords
        if keyword.arg in keywords
    ]
    return hangs_on_parameters(caller, given)


def _callers_of(project: Project, module: ModuleInfo, unit: Unit) -> Iterator[tuple[ModuleInfo, Unit]]:
    """The functions that call one, of its own module and of others."""
    if not may_be_called_elsewhere(unit):
        return
    name = called_as(unit)
    yield from ((module, one) for one in module.units_calling(name)[:MAX_CALLERS] if one is not unit)
    yield from project.callers_elsewhere(module, name, project.options.max_caller_files)
