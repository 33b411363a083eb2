"""Hazards of one file's copies, as functions of that file led to them, and who may wait for what a function leaves in
flight.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from msgspec.structs import replace

from h2dlint.facts.callers import called_as
from h2dlint.facts.copies import Copy, HazardKind, Pitfall, Span
from h2dlint.facts.merge import innermost
from h2dlint.facts.modules import ModuleInfo
from h2dlint.facts.outcomes import Sighting
from h2dlint.facts.project import Project
from h2dlint.facts.round_trips import place_of


def sightings_from_here(project: Project, module: ModuleInfo) -> list[Sighting]:
    """What functions of this module were seen to do wrong, without what a caller waits for."""
    roots = {None, *(unit.node for unit in module.units)}
    return [
        one
        for one in project.sightings.get(module.file, ())
        if one.root_file == module.file
        and one.root in roots
        and one.other.node not in project.excused
        and not (one.across_calls and one.node in project.excused)
    ]


def ask_who_waits(project: Project, module: ModuleInfo, asked: dict[ast.Call, None]) -> None:
    """Where a function leaves a copy in flight, look at the functions of this module that call it, even again."""
    sightings = sightings_from_here(project, module)
    left = {place_of(one.node) for one in sightings if one.across_calls or one.other.label == "numpy"}
    left |= {place_of(node) for node in asked if node in project.handed_on}
    units = dict.fromkeys(innermost(module, node) for node in asked if place_of(node) in left)
    for unit in units:
        if unit is not None:
            project.run_callers(module, called_as(unit), {unit.node}, anew=True)


def told_once(found: Iterable[Copy]) -> list[Copy]:
    """The records, where a copy of `x.pin_memory()` is not also told to be rewritten: the pin is no snapshot, which is
    said there with what to write instead.
    """
    records = list(found)
    pins = [one for one in records if one.pitfall is Pitfall.PIN_NO_SNAPSHOT]
    return [_without_rewrite(one) if any(_is_sent(pin, one) for pin in pins) else one for one in records]


def _is_sent(pin: Copy, copy: Copy) -> bool:
    """Whether a copy holds the pin, and what is sure of the copy is sure of the pin."""
    sure = any(one.kind is HazardKind.REWRITTEN and one.certain for one in copy.hazards)
    return _holds(copy.span, pin.span) and pin.certain >= sure


def _without_rewrite(copy: Copy) -> Copy:
    return replace(copy, hazards=tuple(one for one in copy.hazards if one.kind is not HazardKind.REWRITTEN))


def _holds(outer: Span, inner: Span) -> bool:
    return (outer.line, outer.column) <= (inner.line, inner.column) and (inner.end_line, inner.end_column) <= (
        outer.end_line,
        outer.end_column,
    )
