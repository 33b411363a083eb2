"""What a trace saw at the place of a finding, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from h2dlint.facts.copies import Verdict
from h2dlint.finding import Finding, Observed

WAITED = (Verdict.FAKE_ASYNC, Verdict.BLOCKING)


def clause(observed: Observed) -> str:
    """`ran 60 times as fake-async: 293 ms in all, 5.1 ms at worst`."""
    times = "once" if observed.calls == 1 else f"{observed.calls:,} times"
    if observed.verdict is Verdict.NO_TRANSFER:
        return f"ran {times}, and moved nothing"
    spent = f"{_ms(observed.total_ms)} in all, {_ms(observed.worst_ms)} at worst"
    return f"ran {times} as {observed.verdict.value}: {_ms(observed.total_ms) if observed.calls == 1 else spent}"


def as_data(observed: Observed) -> dict[str, Any]:
    """The same for programs."""
    return {
        "verdict": observed.verdict.value,
        "calls": observed.calls,
        "total_ms": observed.total_ms,
        "worst_ms": observed.worst_ms,
        "largest_bytes": observed.largest,
        "refuted": observed.refuted,
    }


def rank(finding: Finding) -> float:
    """Sorts what was seen to wait first, the costliest at the top, and what is refuted last."""
    observed = finding.observed
    if observed is None:
        return 0.0
    if observed.refuted:
        return 1.0
    return -observed.total_ms if observed.verdict in WAITED else 0.0


def parts(findings: Sequence[Finding]) -> Iterator[str]:
    """What the closing line says of a trace; nothing where there was none."""
    waited = [one.observed for one in findings if one.observed and one.observed.verdict in WAITED]
    if waited:
        yield f"{len(waited):,} seen to wait ({_ms(sum(one.total_ms for one in waited))})"
    refuted = sum(one.observed is not None and one.observed.refuted for one in findings)
    if refuted:
        yield f"{refuted:,} refuted"


def _ms(value: float) -> str:
    if value >= 1000:
        return f"{value / 1000:,.2f} s"
    return f"{value:.0f} ms" if value >= 100 else f"{value:.2g} ms" if value < 1 else f"{value:.1f} ms"
