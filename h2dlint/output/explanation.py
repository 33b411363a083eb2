"""One copy explained: its verdict, and each way to it with its calls, conditions and chain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from h2dlint.facts.copies import Verdict
from h2dlint.facts.explain import Explanation, Way
from h2dlint.output.terminal import harmless


def render(explanations: Sequence[Explanation]) -> str:
    """Plain text, a block for each copy."""
    return "\n".join(harmless(line) for one in explanations for line in _lines(one)) + "\n"


def _lines(explanation: Explanation) -> Iterator[str]:
    copy = explanation.copy
    yield f"{copy.path}:{copy.span.line}:{copy.span.column}: `{copy.call}` in `{copy.function}` is {copy.verdict.value}"
    for number, way in enumerate(explanation.ways, 1):
        yield from _way(number, way)
    if not explanation.ways:
        yield "  no way through the code leads here, as far as it is followed"
    yield f"  read for it: {', '.join(explanation.read) or 'no other file'}"


def _way(number: int, way: Way) -> Iterator[str]:
    route = f"called from {', then '.join(way.calls)}" if way.calls else "the function on its own"
    aside = "" if way.counts else " (does not count: what callers pass is known, or no program goes this way)"
    yield f"  way {number}: {route}{aside}"
    if way.when:
        yield f"    {way.when}"
    for place in way.chain:
        yield f"    {place.path}:{place.span.line}: {place.message}"
    yield f"    {way.reveal}: {way.verdict.value}"
    if way.verdict is Verdict.UNPROVEN and way.unfollowed:
        yield f"    not followed: {way.unfollowed}"
    if way.assumed:
        yield f"    assumed: {way.assumed}"
