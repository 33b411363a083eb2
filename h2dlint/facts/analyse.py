"""One file to its copies: interpret what holds a transfer, merge the ways, and say what could not be followed."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from msgspec.structs import replace

from h2dlint.facts.callers import ask_callers, called_as, seen_from_here
from h2dlint.facts.copies import Copy, Follows, Pitfall, Place, Verdict
from h2dlint.facts.describe import span_of
from h2dlint.facts.hidden_waits import hangs_on_its_callers, units_that_may_wait
from h2dlint.facts.keyword_callers import ask_callers_by_keyword
from h2dlint.facts.merge import hazards_in, merged
from h2dlint.facts.mirrors import unused_mirrors
from h2dlint.facts.mistakes import PINS, mistakes
from h2dlint.facts.modules import ModuleInfo, Unit, holds
from h2dlint.facts.outcomes import Outcome, Sighting
from h2dlint.facts.picking import filling_picked, handed_pointers
from h2dlint.facts.placement import capture_around
from h2dlint.facts.project import Project
from h2dlint.facts.round_trips import NodePlace, RoundTrips, place_of, round_trips, second_copies, sent_again
from h2dlint.facts.sightings import ask_who_waits, sightings_from_here, told_once
from h2dlint.facts.torch_api import TRANSFER_METHODS
from h2dlint.facts.walking import expressions_on

_ASKABLE = frozenset({"to", "copy_", "type", *TRANSFER_METHODS})


def copies_of(
    project: Project,
    path: str,
    text: str,
    tree: ast.Module,
    every: bool = False,
    pitfalls: Collection[Pitfall] = (),
) -> list[Copy]:
    """The copies of one file, in source order.

    `every`: also the proven transfers that never asked to be asynchronous. `pitfalls`: also the mistakes of these
    kinds, as records that are no entries of the inventory. Raises RecursionError on absurdly deep code.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # Python's line ends; `splitlines` would find more
    module = project.module(path, text, tree)
    asked, perhaps = _asking_calls(module)
    trips = round_trips(module, asked)
    pinning = _units_that_pin(module) if not PINS.isdisjoint(pitfalls) else []
    project.sought.update(unit.node for unit in pinning)
    project.sought.update(_units_of_note(module, [*asked, *perhaps, *trips.downs], pitfalls, every))
    waiting = list(units_that_may_wait(module, pitfalls))
    _run(project, module, asked, pinning, waiting)
    seen = _Seen(project, module)
    records = _records(module, seen, asked, every)
    for place, follows in _what_follows(module, seen, trips, records).items():
        if place in records or not every:
            copy = records.get(place) or merged(seen.at[place][0].node, seen.at[place], module, module.lines)
            shown = copy.verdict if copy.verdict is not Verdict.NO_TRANSFER else Verdict.UNPROVEN
            records[place] = replace(copy, follows=follows, verdict=shown)
    found = list(records.values())
    if pitfalls:
        found = told_once([*found, *mistakes(module, pitfalls, seen.pitfalls, seen.copies)])
    if Pitfall.MIRROR_UNUSED in pitfalls:
        found += unused_mirrors(project, module)
    return sorted(found, key=lambda copy: (copy.span.line, copy.span.column, copy.span.end_line, copy.span.end_column))


def _units_of_note(
    module: ModuleInfo, calls: list[ast.Call], pitfalls: Collection[Pitfall], every: bool
) -> Iterator[ast.AST]:
    """The functions worth a full look: those that hold one of the calls, or may hold a mistake that is looked for."""
    if every:
        yield from (unit.node for unit in module.units)
        return
    unasked = [*filling_picked(module.text), *handed_pointers(module.text)]
    lines = sorted([*(call.lineno for call in calls), *map(module.line_at, unasked)])
    yield from (unit.node for unit in module.units if holds(unit.node, lines))
    yield from _pinning_units(module)
    if Pitfall.MOVE_DISCARDED in pitfalls:
        yield from (unit.node for unit in _units_at(_moves(module.text), module))


def _run(
    project: Project, module: ModuleInfo, asked: dict[ast.Call, None], pinning: list[Unit], waiting: list[Unit]
) -> None:
    """Interpret what is worth it, and then who calls what stays open.

    `waiting`: functions that may hold a hidden wait. They are not followed so deep, since there are many.
    """
    project.run_module(module)
    also = set(waiting)
    for unit in module.units:
        if unit.node in project.sought or unit in also:
            project.run_unit(module, unit)
    project.settle(module)
    ask_callers(project, module, asked)
    ask_callers_by_keyword(project, module, asked)
    ask_who_waits(project, module, asked)
    for unit in [*pinning, *filter(hangs_on_its_callers, waiting)]:
        project.run_callers(module, called_as(unit), {unit.node})


class _Seen:
    """What the interpretation of a module left behind, sorted."""

    def __init__(self, project: Project, module: ModuleInfo) -> None:
        self.at: dict[NodePlace, list[Outcome]] = defaultdict(list)
        """What copies do, by place."""
        self.copies: list[Outcome] = []
        self.pins: list[Outcome] = []
        self.pitfalls: list[Outcome] = []
        self.hazards: dict[NodePlace, list[Sighting]] = defaultdict(list)
        for outcome in seen_from_here(project, module):
            if outcome.pitfall is not None:
                self.pitfalls.append(outcome)
            elif outcome.pinned_by is not None:
                self.pins.append(outcome)
            else:
                self.copies.append(outcome)
                self.at[place_of(outcome.node)].append(outcome)
        for sighting in sightings_from_here(project, module):
            self.hazards[place_of(sighting.node)].append(sighting)


def _records(module: ModuleInfo, seen: _Seen, asked: dict[ast.Call, None], every: bool) -> dict[NodePlace, Copy]:
    """A record for each call that asks, for each with a hazard, and, if `every`, for each proven transfer."""
    nodes = {place_of(node): node for node in asked}
    lines = module.lines
    found: dict[NodePlace, Copy] = {}
    for place in [*{**nodes, **seen.at, **({} if every else seen.hazards)}]:
        outcomes, hazards = seen.at[place], seen.hazards[place]
        told = is_shown(outcomes) if every else bool(hazards)
        if place in nodes or told or any(outcome.asked for outcome in outcomes):
            node = nodes.get(place) or (outcomes or hazards)[0].node
            copy = merged(node, outcomes, module, lines, hazards_in(hazards, module, lines))
            context = capture_around(module, node) if copy.verdict is Verdict.FAKE_ASYNC else None
            if context is not None:
                begins = Place(module.path, span_of(context, lines), "graph", "a graph is captured here")
                copy = replace(copy, captured=begins)
            found[place] = copy
    return found


def _what_follows(
    module: ModuleInfo, seen: _Seen, trips: RoundTrips, records: dict[NodePlace, Copy]
) -> dict[NodePlace, Follows]:
    """What is done with the results of downloads that nobody asked to be asynchronous."""
    fetched = {
        place: any(outcome.verdict is Verdict.BLOCKING for outcome in outcomes)
        for place, outcomes in seen.at.items()
        if any(outcome.fetches for outcome in outcomes)
    }
    return {
        **sent_again(trips, fetched, records.values(), module.path, module.lines),
        **second_copies(trips, seen.pins, fetched, module.path, module.lines),
    }


def _asking_calls(module: ModuleInfo) -> tuple[dict[ast.Call, None], list[ast.Call]]:
    """Calls that name non_blocking or give it by position, and those whose `**options` may hold it.

    Only statements on whose lines one can stand are walked.
    """
    found = [
        node
        for node in expressions_on(module.tree.body, module.lines_with(_NAMED, _CANDIDATE))
        if isinstance(node, ast.Call) and (_may_name_flag(node) or _has_options(node))
    ]
    return {node: None for node in found if _names_flag(node, module)}, [
        node for node in found if not _names_flag(node, module)
    ]


# Two patterns, each with its own beginning: a search for either of two takes four times as long.
_NAMED = re.compile("non_blocking")
_CANDIDATE = re.compile(
    r"\.(?:" + "|".join(sorted(_ASKABLE)) + r")\s*\((?![^()\[\]{},*#\"'\\]{0,200}\))",
)
"""A transfer with more than one plain argument."""


def _has_options(node: ast.Call) -> bool:
    return (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in _ASKABLE
        and any(keyword.arg is None for keyword in node.keywords)
    )


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


_PIN_CALLS = re.compile(r"\.pin_memory\s*\(")
_FETCHES = re.compile(r"\.cpu\s*\(|\.to\s*\([^()]*cpu")


def _pinning_units(module: ModuleInfo) -> Iterator[ast.AST]:
    """The functions that pin something and fetch something: it may be the same."""
    lines = module.lines_with(_PIN_CALLS)
    for unit in module.units:
        if lines and holds(unit.node, lines):
            text = "\n".join(module.lines[unit.node.lineno - 1 : unit.node.end_lineno])
            if _FETCHES.search(text):
                yield unit.node


_PINS = re.compile(r"\.pin_memory\(")
_PINNING_FACTORIES = re.compile(
    r"pin_memory(?<!\wpin_memory)\s*=(?!=)\s*(?!False\b|None\b|pin_memory\b|self\.|\w+\.pin_memory\b)"
)
"""A flag that may be certain, not one that is only handed on."""
_FOR_A_DEVICE = re.compile(r"device\s*=\s*(?![\"']cpu)|_like\(|\.new_|DataLoader\(")
_DEFAULT_DEVICE = re.compile(r"with\s+(?:torch\.)?device\(|set_default_device\(")
_MOVES = re.compile(r"\.(?:to|cuda|xpu|npu)\(")
_ONLY_A_NAME = re.compile(r"[ \t]+[A-Za-z_][\w.]*")
_NEAR = 200
"""Characters around `pin_memory=` in which its call names a device, if it does."""


def _units_that_pin(module: ModuleInfo) -> list[Unit]:
    """The functions whose pins are worth a look: pinning calls, and factories that may pin for a device."""
    if "pin_memory" not in module.text:
        return []
    matches = list(_PINS.finditer(module.text))
    factories = list(_PINNING_FACTORIES.finditer(module.text))
    anywhere = bool(factories) and _DEFAULT_DEVICE.search(module.text) is not None
    for match in factories:
        if anywhere or _FOR_A_DEVICE.search(module.text, max(match.start() - _NEAR, 0), match.end() + _NEAR):
            matches.append(match)
    return _units_at(matches, module)


def _moves(text: str) -> Iterator[re.Match[str]]:
    """The moves with which a line inside another statement begins: nothing stands before the tensor."""
    for match in _MOVES.finditer(text):
        if _ONLY_A_NAME.fullmatch(text, text.rfind("\n", 0, match.start()) + 1, match.start()):
            yield match


def _units_at(matches: Iterable[re.Match[str]], module: ModuleInfo) -> list[Unit]:
    lines = sorted({module.line_at(match.start()) for match in matches})
    return [unit for unit in module.units if holds(unit.node, lines)]


def is_shown(outcomes: list[Outcome]) -> bool:
    """Whether anything is known of a transfer: one that may lead to the host, or find the tensor there, is not."""
    return any(outcome.verdict is not Verdict.NO_TRANSFER or not outcome.fetches for outcome in outcomes)
