"""Holds findings against a trace: which of them ran and waited, which are refuted, and what ran and was not found.

Neither torch nor the traced program is needed: a trace is a file (h2dlint/trace/trace_file.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from h2dlint.facts.copies import Copy, Direction, Span, Verdict
from h2dlint.finding import Finding, Meta, Observed, Severity
from h2dlint.trace.moves import NEVER_WAITED
from h2dlint.trace.remedies import remedy_for
from h2dlint.trace.trace_file import Seen, Trace

UNPROVEN = "HTD190"
_FOUND = (Verdict.FAKE_ASYNC, Verdict.CONDITIONAL)


class Observations(Struct, frozen=True):
    """What a trace saw, by file."""

    digests: dict[str, str]
    """Of each file that ran, by absolute path, the digest of the bytes that ran."""
    seen: dict[str, tuple[Seen, ...]]

    def in_file(self, file: str) -> tuple[Seen, ...]:
        """What was seen in a file, by its absolute path."""
        return self.seen.get(file, ())

    def is_stale(self, file: str, data: bytes) -> bool:
        """Whether other bytes ran than the file holds now."""
        from h2dlint.trace.recorder import digest_of_bytes

        return file in self.digests and self.digests[file] != digest_of_bytes(data)


def observations_of(trace: Trace) -> Observations:
    """A trace by absolute paths: its own are relative to the working directory."""
    seen: dict[str, list[Seen]] = {}
    for one in trace.copies:
        if one.exact:
            seen.setdefault(os.path.abspath(one.path), []).append(one)
    digests = {os.path.abspath(path): digest for path, digest in trace.files.items()}
    return Observations(digests, {path: tuple(ones) for path, ones in seen.items()})


def held_against(
    findings: Iterable[Finding], path: str, copies: Sequence[Copy], seen: Sequence[Seen], meta: Meta
) -> list[Finding]:
    """The findings of one file, marked with what was seen at their places, and those that only the trace shows.

    `meta`: that of the rule for the latter.
    """
    at = _by_place(seen)
    unfound = list(_unfound(at, path, copies, meta))
    places = {finding.span for finding in unfound}
    told = [one for one in findings if one.code != UNPROVEN or one.span not in places]
    return [*(_marked(one, at[one.span]) if one.span in at else one for one in told), *unfound]


def _by_place(seen: Iterable[Seen]) -> dict[Span, list[Seen]]:
    at: dict[Span, list[Seen]] = {}
    for one in seen:
        at.setdefault(Span(one.line, one.column, one.end_line, one.end_column), []).append(one)
    return at


def _marked(finding: Finding, seen: Sequence[Seen]) -> Finding:
    observed = _observed(finding, seen)
    if not observed.refuted:
        return msgspec.structs.replace(finding, observed=observed)
    return msgspec.structs.replace(
        finding,
        severity=Severity.NOTE,
        message=f"refuted by the trace, where it was asynchronous; please report it. Said was: {finding.message}",
        observed=observed,
    )


_GRAVITY = (Verdict.FAKE_ASYNC, Verdict.BLOCKING, Verdict.UNPROVEN, Verdict.ASYNC, Verdict.NO_TRANSFER)


def _observed(finding: Finding, seen: Sequence[Seen]) -> Observed:
    verdict = min((one.verdict for one in seen), key=_GRAVITY.index)
    # A pitfall's finding has the verdict of no copy that asks: only what claims a wait can be refuted.
    claims_wait = finding.verdict is Verdict.FAKE_ASYNC
    counted = [one for one in seen if one.verdict is verdict]
    return Observed(
        verdict=verdict,
        calls=sum(one.calls for one in counted),
        total_ms=round(sum(one.total_ms for one in counted), 4),
        worst_ms=max(one.worst_ms for one in counted),
        largest=max(one.largest for one in counted),
        refuted=claims_wait and verdict is Verdict.ASYNC,
    )


def _unfound(at: dict[Span, list[Seen]], path: str, copies: Sequence[Copy], meta: Meta) -> Iterator[Finding]:
    by_place = {copy.span: copy for copy in copies if not copy.pitfall}
    for span, seen in at.items():
        fake = [one for one in seen if one.verdict is Verdict.FAKE_ASYNC and not one.allowed]
        copy = by_place.get(span)
        if not fake or (copy is not None and copy.verdict in _FOUND):
            continue
        first = fake[0]
        small = all(one.direction is Direction.H2D and one.largest <= NEVER_WAITED for one in fake)
        finding = Finding(
            code=meta.code,
            name=meta.name,
            severity=Severity.NOTE if small else meta.severity,
            path=path,
            span=span,
            message=f"this copy asked to be asynchronous, and ran through {_memory(first)}; {_unproven(copy)}",
            help=remedy_for(first),
            verdict=Verdict.FAKE_ASYNC,
            trace=copy.trace if copy is not None else (),
            function=copy.function if copy is not None else first.function,
        )
        yield msgspec.structs.replace(finding, observed=_observed(finding, fake))


def _memory(seen: Seen) -> str:
    cause = seen.causes[0].value if seen.causes else "pageable"
    return {"pageable": "pageable memory"}.get(cause, f"a pageable temporary, since its host side is {cause}")


def _unproven(copy: Copy | None) -> str:
    if copy is None:
        return "the code shows no such copy there"
    if copy.verdict is Verdict.UNPROVEN:
        return f"the code alone does not show it: {copy.unproven or 'where the memory comes from is not in sight'}"
    return f"the code was taken to be {copy.verdict.value}: please report it"
