"""Which rule speaks for a copy that is not what it looks like, or goes wrong because it is: one code a copy, decided in
one place.
"""

from __future__ import annotations

from h2dlint import wording
from h2dlint.facts.copies import Cause, Copy, Direction, Hazard, HazardKind, Next, Verdict

LOADER = "DataLoader"
"""What a loader is called in a chain."""

_HAZARDS = {
    HazardKind.REWRITTEN: "HTD401",
    HazardKind.READ_EARLY: "HTD402",
    HazardKind.ALIAS_DROPPED: "HTD404",
}


def code_of(copy: Copy) -> str | None:
    """The code of the rule that reports `copy`; None where there is nothing to say."""
    if hazard_of(copy, HazardKind.INTO_TEMPORARY):  # whatever memory it fills, nobody sees it
        return "HTD403"
    if copy.verdict is Verdict.FAKE_ASYNC:
        return "HTD107" if copy.direction is Direction.D2H else _upload_code(copy)
    if copy.verdict is Verdict.CONDITIONAL:
        return _slice_code(copy) if copy.causes == (Cause.GAPPED,) else "HTD106"
    for kind, code in _HAZARDS.items():
        if hazard_of(copy, kind):
            return code
    if copy.follows is not None:
        return "HTD303" if copy.follows.what is Next.PINNED else "HTD108"
    return "HTD190" if copy.verdict is Verdict.UNPROVEN and copy.asked else None


def hazard_of(copy: Copy, kind: HazardKind) -> Hazard | None:
    """What goes wrong with `copy` in this way."""
    return next((hazard for hazard in copy.hazards if hazard.kind is kind), None)


def _slice_code(copy: Copy) -> str:
    """Gaps are the only doubt: the rule about them speaks, as a warning."""
    return "HTD107" if copy.direction is Direction.D2H else _gaps_code(copy)


def _gaps_code(copy: Copy) -> str:
    """Who pinned what has gaps meant to cure them, and must hear that it does not."""
    return "HTD301" if copy.kept_gaps is not None else "HTD103"


def _left_by_loader(copy: Copy) -> bool:
    """Whether a loader decides about the memory, and nothing that was made of its batch afterwards."""
    place = wording.allocation(copy)
    return place is not None and place.label == LOADER


def _upload_code(copy: Copy) -> str:
    """What is worth saying most: no copy at all, then the causes that pinning alone does not cure."""
    if copy.index_built and Cause.PAGEABLE in copy.causes:  # pinned memory is a buffer, whatever it starts with
        return "HTD201"
    if Cause.GAPPED in copy.causes:
        return _gaps_code(copy)
    if Cause.BROADCAST in copy.causes:
        return "HTD104"
    if copy.lost_pin is not None and not _left_by_loader(copy):
        return "HTD305"
    if _left_by_loader(copy):
        return "HTD105"
    return "HTD102" if copy.from_numpy else "HTD101"
