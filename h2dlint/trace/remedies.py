"""What to write instead, for what a trace has seen. Short: `h2dlint check` shows the rewrite for the line."""

from __future__ import annotations

from h2dlint.facts.copies import Cause, Direction, Verdict
from h2dlint.trace.moves import NEVER_WAITED
from h2dlint.trace.trace_file import Seen

_FAKE = {
    (Direction.H2D, Cause.PAGEABLE): "pin the source: `.pin_memory()` before the copy, or allocate it pinned",
    (Direction.H2D, Cause.GAPPED): "the pinned source is not dense: one copy a row, or `.contiguous().pin_memory()`",
    (Direction.H2D, Cause.BROADCAST): "send the small tensor, and spread it on the device",
    (Direction.D2H, Cause.PAGEABLE): "allocate the destination pinned, and synchronize before the host reads it",
    (Direction.D2H, Cause.GAPPED): "copy into a dense pinned buffer, and write it on from there",
    (Direction.D2H, Cause.BROADCAST): "copy into a dense pinned buffer, and write it on from there",
}
_NUMBER = "keep the value on the device, or fetch it once in many steps"
_INDEX = "keep the index on the device"
_FETCH = 'fetch it with `.to("cpu", non_blocking=True)`, and wait on an event before the host reads it'
_WAITS = {
    ("item", Direction.D2H): _NUMBER,
    ("tolist", Direction.D2H): _FETCH,
    ("__bool__", Direction.D2H): "branch on the device with `torch.where`, or fetch the answer once in many steps",
    ("__getitem__", Direction.H2D): _INDEX,
    ("__getitem__", Direction.D2H): "index with a Python number, or use `torch.where` instead of a mask",
    ("__setitem__", Direction.D2H): _FETCH,
    ("index_put_", Direction.H2D): _INDEX,
    ("nonzero", Direction.D2H): "use `torch.where`, or `torch.nonzero_static` with a known size",
    ("masked_select", Direction.D2H): "use `torch.where` instead of a mask",
    ("load_state_dict", Direction.H2D): "once, at start-up, it does no harm",
    ("__repr__", Direction.D2H): "do not print device tensors on a hot path",
}
_MADE = ("tensor", "as_tensor", "asarray", "new_tensor")


def remedy_for(seen: Seen) -> str:
    """One line; empty where nothing is wrong."""
    if seen.verdict is Verdict.FAKE_ASYNC:
        advice = _FAKE[seen.direction, seen.causes[0] if seen.causes else Cause.PAGEABLE]
        small = seen.direction is Direction.H2D and seen.largest <= NEVER_WAITED
        return f"{advice}; at 8 KiB and less it never waited when measured" if small else advice
    if seen.verdict is not Verdict.BLOCKING:
        return ""
    found = _WAITS.get((seen.call, seen.direction))
    if found:
        return found
    if seen.call in _MADE:
        return "make it on the device, or pinned on the host and send it with `non_blocking=True`"
    if seen.call == "__setitem__":
        return "one number: `.fill_()` on the place; a tensor: send it first, pinned and with `non_blocking=True`"
    if seen.direction is Direction.D2H:
        return _NUMBER if seen.call.startswith("__") or seen.call == "is_nonzero" else _FETCH
    if seen.pinned and seen.dense:
        return "pass `non_blocking=True`: the source is pinned already"
    return "pin the source, and pass `non_blocking=True`"
