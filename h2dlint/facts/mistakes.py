"""Which of the noted pitfalls are worth a word: one record each, beside the copies and in the same form."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from msgspec.structs import replace

from h2dlint.facts.around import around, function_around, may_be_caught, text_of
from h2dlint.facts.copies import Copy, Direction, Pinning, Pitfall, Place, Verdict
from h2dlint.facts.describe import span_of
from h2dlint.facts.merge import innermost, merged
from h2dlint.facts.modules import ModuleInfo
from h2dlint.facts.outcomes import Outcome
from h2dlint.facts.placement import misplaced_pins
from h2dlint.facts.rewrites import rewrite_after

WAITS = frozenset({Pitfall.HOST_INDEX, Pitfall.HOST_DATA, Pitfall.HOST_VALUE})
PLACEMENT = frozenset({Pitfall.PIN_IN_WORKER, Pitfall.PIN_IN_CAPTURE, Pitfall.PIN_COMPILED})
PINS = frozenset(Pitfall) - WAITS - {Pitfall.MIRROR_UNUSED, Pitfall.PIN_SEEN}
"""Those for which functions that mention pin_memory must be looked at."""

_DISCARDED = (Pitfall.PIN_DISCARDED, Pitfall.MOVE_DISCARDED)
_RAISES = (Pitfall.PIN_ON_DEVICE, Pitfall.PIN_FOR_DEVICE, Pitfall.PIN_UNDER_DEVICE)
_MEASURES = re.compile(r"perf_counter|time\.time\(|monotonic\(|elapsed_time|synchronize\(|timeit|profile|bench")


def mistakes(
    module: ModuleInfo, wanted: Collection[Pitfall], noted: Iterable[Outcome], copies: Iterable[Outcome]
) -> list[Copy]:
    """The records of one file for the pitfalls that somebody asks for.

    `noted`: the outcomes that are pitfalls; `copies`: those that are copies.
    """
    groups: dict[object, list[Outcome]] = defaultdict(list)
    for outcome in _whichever_way(module, noted):
        if outcome.pitfall in wanted:
            groups[outcome.pitfall, span_of(outcome.node, module.lines)].append(outcome)
    copied = list(copies)
    told = _told_by_copies(copied)
    found = [copy for group in groups.values() for copy in _record(module, group, told)]
    if not PLACEMENT.isdisjoint(wanted) and "pin_memory" in module.text:
        found += [copy for copy in _placed(module) if copy.pitfall in wanted]
    return _together(module, found, copied)


def _whichever_way(module: ModuleInfo, noted: Iterable[Outcome]) -> Iterator[Outcome]:
    """The pitfalls without those that a pin has on one way only: for one item of a loop, in one round."""
    ways: dict[object, list[Outcome]] = defaultdict(list)
    for outcome in noted:
        if outcome.call == "pin_memory":
            ways[span_of(outcome.node, module.lines), tuple(map(id, outcome.context))].append(outcome)
        else:
            yield outcome
    for group in ways.values():
        if len({outcome.pitfall for outcome in group}) == 1:
            yield from group


def _told_by_copies(copies: list[Outcome]) -> set[tuple[int, int]]:
    """The pins that keep gaps and have a copy in sight: the copy's verdict speaks for them."""
    told: set[tuple[int, int]] = set()
    for outcome in copies:
        trail = outcome.decisive.trail if outcome.decisive is not None else None
        while trail is not None:
            if trail.pinning is Pinning.KEPT_GAPS:
                told.add((getattr(trail.node, "lineno", 0), getattr(trail.node, "col_offset", 0)))
            trail = trail.previous
    return told


def _record(module: ModuleInfo, group: list[Outcome], told: set[tuple[int, int]]) -> Iterator[Copy]:
    own = [outcome for outcome in group if not outcome.context] or group
    shown = next((outcome for outcome in own if outcome.certain), own[0])
    node, pitfall = shown.node, shown.pitfall
    path = around(module.tree, node)
    if pitfall is Pitfall.PIN_KEEPS_GAPS and (node.lineno, node.col_offset) in told:
        return
    if pitfall in (*_RAISES, *_DISCARDED) and may_be_caught(path, node):
        return
    if pitfall in _DISCARDED and _MEASURES.search(text_of(module.lines, function_around(path) or module.tree)):
        return
    copy = replace(
        merged(node, [shown], module, module.lines),
        pitfall=pitfall,
        certain=shown.certain,
        unproven=shown.why,
        call=shown.call,
        related=tuple(_callers(module, shown)),
    )
    if pitfall is Pitfall.PIN_NO_SNAPSHOT:
        rewrite = rewrite_after(module, node) if isinstance(node, ast.Call) else None
        if rewrite is None:
            return
        place = _place(module, rewrite.node, "write", "writes it again")
        copy = replace(copy, certain=rewrite.certain, related=(place,))
    yield copy


def _callers(module: ModuleInfo, outcome: Outcome) -> Iterator[Place]:
    """Where the call came from that makes it so."""
    if outcome.context:
        site = outcome.context[0]
        lines = module.lines if site.path == module.path else []
        yield Place(site.path, span_of(site.node, lines), "caller", "called from here")


def _placed(module: ModuleInfo) -> Iterator[Copy]:
    for pin in misplaced_pins(module):
        unit = innermost(module, pin.node)
        yield Copy(
            path=module.path,
            span=span_of(pin.node, module.lines),
            function=unit.qualname if unit is not None else "<module>",
            call="pin_memory",
            asked=False,
            direction=Direction.H2H,
            verdict=Verdict.NO_TRANSFER,
            causes=(),
            reveal="",
            trace=(),
            pitfall=pin.pitfall,
            certain=pin.certain,
            source_text=_receiver(pin.node),
            related=() if pin.because is None else (_place(module, pin.because, "because", ""),),
        )


def _receiver(node: ast.Call) -> str:
    text = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    return text if len(text) <= 80 else ""


def _place(module: ModuleInfo, node: ast.AST, label: str, message: str) -> Place:
    return Place(module.path, span_of(node, module.lines), label, message)


def _together(module: ModuleInfo, found: list[Copy], copies: list[Outcome]) -> list[Copy]:
    """Each hidden wait with the other waits of its function: curing one moves the wait to the next."""
    waits: dict[str, set[int]] = defaultdict(set)
    for copy in found:
        if copy.pitfall in WAITS:
            waits[copy.function].add(copy.span.line)
    for outcome in copies:
        if outcome.verdict is Verdict.BLOCKING and waits:
            unit = innermost(module, outcome.node)
            waits[unit.qualname if unit is not None else "<module>"].add(outcome.line)
    return [
        replace(copy, related=tuple(_others(module, copy, waits[copy.function]))) if copy.pitfall in WAITS else copy
        for copy in found
    ]


def _others(module: ModuleInfo, copy: Copy, lines: set[int]) -> Iterator[Place]:
    for line in sorted(lines - {copy.span.line}):
        node = ast.Pass(lineno=line, col_offset=0, end_lineno=line, end_col_offset=0)
        yield _place(module, node, "wait", "waits too")
