"""Everything that was seen of one copy, as one record: a verdict, its chain, and the ways of a conditional one."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import lru_cache

from msgspec.structs import replace

from h2dlint.facts.copies import Branch, Cause, Copy, Direction, Hazard, HazardKind, Pinning, Place, Verdict
from h2dlint.facts.describe import branch_text, leading_size, max_bytes, place_of, places, reveal, span_of
from h2dlint.facts.domain import ACCELERATOR_NAMES, NO_ITEM, Array, Memory, Tag
from h2dlint.facts.frame import key_of
from h2dlint.facts.layout import Form
from h2dlint.facts.modules import ModuleInfo, Unit
from h2dlint.facts.outcomes import Outcome, Sighting

_FAKE_FIRST = {True: 0, None: 1, False: 2}


def innermost(module: ModuleInfo, node: ast.expr) -> Unit | None:
    """The function that a node stands in."""
    best: Unit | None = None
    for unit in module.units:
        if unit.covers(node.lineno) and (best is None or unit.node.lineno >= best.node.lineno):
            best = unit
    return best


def hazards_in(sightings: Iterable[Sighting], module: ModuleInfo, lines: list[str]) -> tuple[Hazard, ...]:
    """What was seen to go wrong with one copy: one hazard a kind, the most certain way first."""
    found: dict[HazardKind, Hazard] = {}
    for one in sorted(sightings, key=lambda one: (one.across_calls, not one.certain)):
        if one.kind not in found:
            (place,) = places(one.other, module.path, lines)
            missed = None if one.missed is None else places(one.missed, module.path, lines)[0]
            found[one.kind] = Hazard(one.kind, place, one.certain, one.across_calls, missed)
    return tuple(found.values())


def merged(
    node: ast.expr, outcomes: list[Outcome], module: ModuleInfo, lines: list[str], hazards: tuple[Hazard, ...] = ()
) -> Copy:
    """The record of a copy, given what it does on each way that was seen."""
    unit = innermost(module, node)
    function = unit.qualname if unit is not None else "<module>"
    chosen = deciding(outcomes)
    if not chosen:
        return _unreached(node, function, module, lines, hazards)
    verdict = _verdict(chosen)
    shown = _shown(chosen, verdict)
    array = shown.decisive
    text = ast.unparse(shown.operand) if shown.operand is not None else ""
    fakes = [outcome for outcome in chosen if outcome.verdict is Verdict.FAKE_ASYNC]
    reported = fakes or (chosen if hazards else [])
    return Copy(
        path=module.path,
        span=span_of(node, lines),
        function=function,
        call=shown.call,
        asked=shown.asked,
        direction=shown.direction,
        verdict=verdict,
        causes=_causes(chosen, fakes, verdict),
        reveal=reveal(shown),
        trace=places(array.trail if array is not None else None, module.path, lines),
        branches=_branches(chosen, module.path, lines) if verdict is Verdict.CONDITIONAL else (),
        from_numpy=array is not None and array.from_numpy,
        index_built=bool(fakes) and all(_is_index_built(outcome) for outcome in fakes),
        max_bytes=None if _seen_from_a_caller(shown) else max_bytes(array),
        source_text=text if len(text) <= 80 else "",
        unproven=shown.why if verdict is Verdict.UNPROVEN else "",
        to_accelerator=bool(reported)
        and all(outcome.to_accelerator for outcome in reported)
        and not any(map(_stays_on_host, outcomes)),
        layout=array.layout.form.value if array is not None else "",
        rows=leading_size(array),
        dtype=(array.dtype or "") if array is not None and not _seen_from_a_caller(shown) else "",
        lost_pin=_lost_pin(array, module.path, lines),
        kept_gaps=_last_with(Pinning.KEPT_GAPS, array, module.path, lines),
        hazards=hazards,
    )


def _lost_pin(array: Array | None, path: str, lines: list[str]) -> Place | None:
    """Where the pin went that the tensor had before; None where the memory is not known to be pageable."""
    pageable = array is not None and array.memory is Memory.PAGEABLE
    return _last_with(Pinning.LOST, array, path, lines) if pageable else None


def _last_with(pinning: Pinning, array: Array | None, path: str, lines: list[str]) -> Place | None:
    """The newest link of a value's chain that did this to a pin."""
    trail = array.trail if array is not None else None
    while trail is not None and trail.pinning is not pinning:
        trail = trail.previous
    return None if trail is None else place_of(trail, path, lines)


def _is_closed(node: ast.expr, module: ModuleInfo) -> bool:
    """Whether a call stands where no way leads on a machine with an accelerator, in a branch for the CPU, and sends to
    the very device that is the CPU there. What comes from a device to it is another matter.
    """
    around = [device for first, last, device in module.closed if first <= node.lineno <= last]
    return "" in around or (bool(around) and _target_of(node) in around)


def _target_of(node: ast.expr) -> str | None:
    """The name of the device that a `.to` is given."""
    if not isinstance(node, ast.Call) or _last_name(node) != "to":
        return None
    named = next((keyword.value for keyword in node.keywords if keyword.arg == "device"), None)
    return key_of(named or (node.args[0] if node.args else node.func))


def _unreached(
    node: ast.expr, function: str, module: ModuleInfo, lines: list[str], hazards: tuple[Hazard, ...]
) -> Copy:
    """A call that no way through the code leads to, as far as it is followed, or that moves nothing as such."""
    never_asks = (
        bool(hazards)
        or _is_closed(node, module)
        or (
            isinstance(node, ast.Call)
            and any(
                keyword.arg == "non_blocking" and isinstance(keyword.value, ast.Constant) and not keyword.value.value
                for keyword in node.keywords
            )
        )
    )
    return Copy(
        path=module.path,
        span=span_of(node, lines),
        function=function,
        call=_last_name(node),
        asked=not never_asks,
        direction=Direction.UNKNOWN,
        verdict=Verdict.NO_TRANSFER if never_asks else Verdict.UNPROVEN,
        causes=(),
        reveal="unreached | here",
        trace=(),
        unproven="" if never_asks else "this call was not reached by the analysis",
        hazards=hazards,
    )


def _seen_from_a_caller(outcome: Outcome) -> bool:
    """Whether what is known came with one call: another call may pass something larger."""
    return bool(outcome.context) or any(tag.kind == "caller" for tag in outcome.tags)


def _is_index_built(outcome: Outcome) -> bool:
    array = outcome.decisive
    return array is not None and array.index_built and array.device.is_cpu


def deciding(outcomes: list[Outcome]) -> list[Outcome]:
    """The function on its own where that proves something; else its callers, where they are seen, and theirs."""
    outcomes = [outcome for outcome in outcomes if not _contradicts_itself(outcome)] or outcomes
    outcomes = [outcome for outcome in outcomes if not _is_elsewhere(outcome)] or outcomes
    outcomes = [outcome for outcome in outcomes if not _says_nothing(outcome)] or outcomes
    outcomes = [outcome for outcome in outcomes if not _runs_on_host(outcome)] or outcomes
    own = [outcome for outcome in outcomes if not outcome.context]
    if own and not any(outcome.unsettled for outcome in own):
        return own
    called = {function for outcome in outcomes for function in outcome.entered()}
    return [outcome for outcome in outcomes if not (outcome.unsettled and outcome.root in called)] or own


def _says_nothing(outcome: Outcome) -> bool:
    """A way on which the tensor stays on the host or is empty, or there is none: whoever asks for non_blocking means
    the other ways.
    """
    if outcome.verdict is not Verdict.NO_TRANSFER:
        return outcome.why == NO_ITEM.why
    empty = outcome.decisive is not None and outcome.decisive.layout.form is Form.EMPTY
    return outcome.direction is Direction.H2H or empty


def _is_elsewhere(outcome: Outcome) -> bool:
    """A way through a branch for another accelerator, or past the one for the accelerator that the copy names."""
    machines = {tag.machine for tag in outcome.tags if tag.machine}
    if not machines:
        return False
    named = _named_machine(outcome.node)
    return f"-{named}" in machines or any(machine[0] != "-" and machine != named for machine in machines)


def _named_machine(node: ast.AST) -> str:
    """The accelerator that a copy names itself: `.to("npu")`, `.xpu()`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ACCELERATOR_NAMES:
        return node.func.attr
    texts = (
        inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
    )
    return next((kind for kind in (text.partition(":")[0] for text in texts) if kind in ACCELERATOR_NAMES), "")


def _stays_on_host(outcome: Outcome) -> bool:
    """A way on which there may be no accelerator: what it sends stays where it is."""
    return outcome.direction is Direction.H2H and not _contradicts_itself(outcome)


@lru_cache(maxsize=4096)
def _form_of(node: ast.AST) -> tuple[str, bool]:
    """What makes two tests the same, and whether this one says it the other way round: `not x`, `x is not None`."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        form, reverse = _form_of(node.operand)
        return form, not reverse
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _POSITIVE:
        op = _POSITIVE[type(node.ops[0])]()
        return ast.dump(ast.Compare(node.left, [op], node.comparators)), True
    return ast.dump(node), False


_POSITIVE: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.NotEq: ast.Eq, ast.IsNot: ast.Is, ast.NotIn: ast.In}


def _runs_on_host(outcome: Outcome) -> bool:
    """A way taken because another tensor than the copy's was found on the host: then the program may well run there."""
    if outcome.verdict is not Verdict.FAKE_ASYNC:
        return False
    found = [_found_on_host(tag.node, tag.holds) for tag in outcome.tags if tag.kind == "path"]
    tested = [one for one in found if one is not None]
    own = set(map(ast.unparse, _operands(outcome.node))) if tested else set()
    return any(ast.unparse(one) not in own for one in tested)


def _operands(node: ast.AST) -> list[ast.expr]:
    """What a copy moves: the receiver and the arguments of its call."""
    if not isinstance(node, ast.Call):
        return []
    return [*([node.func.value] if isinstance(node.func, ast.Attribute) else []), *node.args]


def _found_on_host(test: ast.AST, holds: bool) -> ast.expr | None:
    """The tensor that a test finds on the host: `x.is_cuda` that is false, `x.device.type == "cpu"` that is true."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _found_on_host(test.operand, not holds)
    if isinstance(test, ast.Attribute) and test.attr in ("is_cuda", "is_cpu"):
        return test.value if (test.attr == "is_cpu") == holds else None
    if not (isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Eq, ast.NotEq))):
        return None
    left, right = test.left, test.comparators[0]
    named = isinstance(left, ast.Attribute) and left.attr == "type" and isinstance(right, ast.Constant)
    if not named or not isinstance(left, ast.Attribute) or not isinstance(right, ast.Constant):
        return None
    says_host = (right.value == "cpu") == (isinstance(test.ops[0], ast.Eq) == holds)
    is_tensor = isinstance(left.value, ast.Attribute) and left.value.attr == "device"
    return left.value.value if says_host and is_tensor and isinstance(left.value, ast.Attribute) else None


def _contradicts_itself(outcome: Outcome) -> bool:
    """A way on which one test came out both true and false: no program takes it."""
    seen: dict[str, bool] = {}
    for tag in outcome.tags:
        if tag.kind != "path":
            continue
        form, reverse = _form_of(tag.node)
        if seen.setdefault(form, tag.holds is not reverse) is not (tag.holds is not reverse):
            return True
    return False


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


def _shown(outcomes: list[Outcome], verdict: Verdict) -> Outcome:
    """The way whose chain the record tells: a fake one of a conditional copy."""
    wanted = Verdict.FAKE_ASYNC if verdict is Verdict.CONDITIONAL else verdict
    return next((outcome for outcome in outcomes if outcome.verdict is wanted), outcomes[0])


def _causes(outcomes: list[Outcome], fakes: list[Outcome], verdict: Verdict) -> tuple[Cause, ...]:
    if verdict not in (Verdict.FAKE_ASYNC, Verdict.CONDITIONAL):
        return ()
    found = {cause for outcome in fakes for cause in outcome.causes}
    if verdict is Verdict.CONDITIONAL and any(tag.kind == "switch" for outcome in outcomes for tag in outcome.tags):
        found.add(Cause.CONFIG)
    return tuple(sorted(found, key=list(Cause).index))


def _branches(outcomes: list[Outcome], path: str, lines: list[str]) -> tuple[Branch, ...]:
    """One entry per way that differs, fake ones first."""
    found: dict[tuple[bool | None, str], Branch] = {}
    common = set.intersection(*({_tag_key(tag) for tag in outcome.tags} for outcome in outcomes))
    shared = set.intersection(*({id(site.node) for site in outcome.context} for outcome in outcomes))
    for outcome in _widest(outcomes):
        context = tuple(site for site in outcome.context if id(site.node) not in shared)
        outcome = replace(outcome, context=context or outcome.context)
        fake = True if outcome.verdict is Verdict.FAKE_ASYNC else None if outcome.verdict is Verdict.UNPROVEN else False
        telling = [tag for tag in outcome.tags if _tag_key(tag) not in common]
        text, place = branch_text(telling, outcome, path, lines)
        by_default = all(tag.by_default for tag in telling)
        real = place if any(tag.kind != "switch" for tag in telling) or outcome.context else None
        found.setdefault((fake, text), Branch(fake, text, by_default, real))
    return tuple(sorted(found.values(), key=lambda branch: _FAKE_FIRST[branch.fake]))


def _widest(outcomes: list[Outcome]) -> list[Outcome]:
    """Without the ways that do what another one does which the same calls lead to, under fewer conditions."""
    keys = [{_tag_key(tag) for tag in outcome.tags} for outcome in outcomes]
    calls = [[id(site.node) for site in outcome.context] for outcome in outcomes]

    def is_narrower(one: int, other: int) -> bool:
        same = outcomes[one].verdict is outcomes[other].verdict and calls[one] == calls[other]
        return same and keys[other] < keys[one]

    places = range(len(outcomes))
    return [outcomes[one] for one in places if not any(is_narrower(one, other) for other in places)]


def _tag_key(tag: Tag) -> tuple[str, int, bool, str]:
    return (tag.kind, id(tag.node), tag.holds, tag.text)


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        func = node.func
        return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else "call"
    return "__getitem__"
