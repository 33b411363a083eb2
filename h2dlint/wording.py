"""Phrases that the rules share: what the source is called, which line made it so, what to write instead."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from h2dlint.facts.copies import Cause, Copy, Direction, Hazard, Place

if TYPE_CHECKING:
    import libcst as cst

    from h2dlint.finding import Severity

SMALL_BYTES = 8192
"""Up to this size no pageable copy from host to device blocked when measured."""
LARGE_BYTES = 4 << 20
"""From this size on a fresh pinned block per call costs more than it saves."""
SHORT = 60
"""The longest piece of code, in characters, that a message quotes."""
PIN_FLAG = "behind your project's pin flag"


def is_small(copy: Copy) -> bool:
    """Whether the bytes moved are provably too few to block the host.

    Downloads block at any size, and a broadcast moves its destination's bytes, which nobody has counted. While a graph
    is captured none is too small.
    """
    if copy.direction is Direction.D2H or Cause.BROADCAST in copy.causes or copy.captured is not None:
        return False
    return copy.max_bytes is not None and copy.max_bytes <= SMALL_BYTES


def hazard_severity(hazard: Hazard) -> Severity:
    """How grave a hazard is: what the code shows is an error, what hangs on callers that are not seen a note."""
    from h2dlint.finding import Severity

    if hazard.across_calls:
        return Severity.NOTE
    return Severity.ERROR if hazard.certain else Severity.WARNING


def missed_wait(copy: Copy, hazard: Hazard) -> str:
    """What to add where something waits in between, for another stream than the copy's."""
    if hazard.missed is None:
        return ""
    return f"; the wait on {where(copy, hazard.missed)} is for another stream"


def hazard_trace(copy: Copy, hazard: Hazard) -> tuple[Place, ...]:
    """The chain of a copy with the places of its hazard."""
    return (*copy.trace, *(() if hazard.missed is None else (hazard.missed,)), hazard.place)


def quoted(text: str, otherwise: str) -> str:
    """The code in backquotes if it is one short line, else the words `otherwise`."""
    return f"`{text}`" if text and len(text) <= SHORT and "\n" not in text and "`" not in text else otherwise


def source(copy: Copy) -> str:
    """What the messages call the source."""
    return quoted(copy.source_text, "the source")


def destination(node: cst.Call | None) -> str:
    """What the messages call the receiver of `copy_`."""
    return quoted(receiver(node), "the destination")


def where(copy: Copy, place: Place) -> str:
    """`line 4`, or `other.py:4` for a place in another file."""
    return f"line {place.span.line}" if place.path == copy.path else f"{place.path}:{place.span.line}"


def allocation(copy: Copy) -> Place | None:
    """The link of the chain that gave the value its pageable memory: the last one that speaks of it, else the first."""
    return _last_that_says(copy, "pageable") or next(iter(copy.trace), None)


def because(copy: Copy) -> str:
    """` (line 4: allocates pageable memory)`: the place that decides; empty where the code shows none.

    A view that is made inside the call itself needs no place: the reader sees it.
    """
    about_layout = Cause.GAPPED in copy.causes
    view = (_last_that_says(copy, "gaps") or _last_that_says(copy, "permutes")) if about_layout else None
    if view and view.path == copy.path and copy.span.line <= view.span.line <= copy.span.end_line:
        return ""
    place = view or allocation(copy)
    return f" ({where(copy, place)}: {place.message})" if place else ""


def layout(copy: Copy) -> str:
    """The host side's layout as the reveal has it: `dense`, `permuted` or `gapped`; empty if it names none of these."""
    words = [part.split(" ")[0] for part in copy.reveal.split(" | ")]
    return next((word for word in words[2:3] if word in ("dense", "permuted", "gapped")), "")


def pin_steps(copy: Copy) -> str:
    """What to call on the source to have it dense and pinned: pinning alone keeps gaps and order."""
    kept = ("", "dense") if copy.call == "copy_" else ("", "dense", "permuted")
    fine = Cause.GAPPED not in copy.causes and layout(copy) in kept
    return ".pin_memory()" if fine else ".contiguous().pin_memory()"


def _last_that_says(copy: Copy, word: str) -> Place | None:
    return next((place for place in reversed(copy.trace) if word in place.message), None)


def size_remark(copy: Copy) -> str:
    """What to add to a message about a copy that is too small to hurt, or that fails because a graph is captured."""
    if copy.captured is not None:
        return (
            f"; and a graph is captured here ({where(copy, copy.captured)}): torch refuses copies from memory that is "
            "not pinned and dense there"
        )
    if not is_small(copy):
        return ""
    return f"; it is small, at most {copy.max_bytes:,} bytes: copies of up to 8 KiB block when hundreds are in flight"


def pinned_call(copy: Copy, node: cst.Call | None) -> str:
    """The copy with its source made dense and pinned, as code: the whole call when short, else its head."""
    text, steps = copy.source_text, pin_steps(copy)
    if not quoted(text, ""):
        return f"`{steps}` on the source"
    pinned = primary(text) + steps
    whole = _with_source(copy, node, pinned)
    return f"`{whole}`" if whole and len(whole) <= SHORT + 20 else f"`{pinned}`"


def pinned_download(copy: Copy) -> str:
    """One copy from the device into pinned memory, as code."""
    text = copy.source_text if quoted(copy.source_text, "") else "source"
    return f'torch.empty_like({text}, device="cpu", pin_memory=True).copy_({text})'


def pin_help(copy: Copy, node: cst.Call | None) -> str:
    """The one line that tells how to pin the source."""
    if copy.captured is not None:
        return (
            "fill a pinned buffer before the capture and keep it as long as the graph: each replay reads that memory "
            "again; or copy into the static tensor before each replay, outside of the graph"
        )
    if copy.max_bytes is not None and copy.max_bytes >= LARGE_BYTES:
        return (
            f"up to {copy.max_bytes / (1 << 20):,.0f} MiB a call: keep one pinned buffer, fill and send only the "
            "part in use, and wait on an event before filling it again"
        )
    advice = f"write {pinned_call(copy, node)}, {PIN_FLAG}"
    if pin_steps(copy) != ".pin_memory()":
        return f"{advice}; `.pin_memory()` alone keeps the {'order' if layout(copy) == 'permuted' else 'gaps'}"
    place = allocation(copy)
    if place and _takes_pin_memory(place) and copy.source_text.isidentifier() and place.path == copy.path:
        return f"{advice}; or pass that flag as `pin_memory=` on line {place.span.line}, which saves a host copy"
    return advice


def receiver(node: cst.Call | None) -> str:
    """The code in front of the method's dot; empty where there is none."""
    if node is None:
        return ""
    import libcst

    return _code(node.func.value) if isinstance(node.func, libcst.Attribute) else ""


def primary(text: str) -> str:
    """The expression in a form that a method call can follow."""
    try:
        expression = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return f"({text})"
    follows = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.List, ast.ListComp)
    whole = isinstance(expression, follows) or (text.startswith("(") and isinstance(expression, ast.Tuple))
    return text if whole else f"({text})"


def _with_source(copy: Copy, node: cst.Call | None, replacement: str) -> str:
    """The call with its source replaced; empty where the source is not in its usual place."""
    head, arguments = receiver(node), _arguments(node)
    if copy.call == "copy_" and arguments and _same(arguments[0], copy.source_text):
        return f"{head}.copy_({', '.join([replacement, *arguments[1:]])})"
    if copy.call != "copy_" and _same(head, copy.source_text):
        return f"{replacement}.{copy.call}({', '.join(arguments)})"
    return ""


def _same(one: str, other: str) -> bool:
    return "".join(one.split()) == "".join(other.split())


def _arguments(node: cst.Call | None) -> list[str]:
    return [] if node is None else [_code(argument).rstrip(", ") for argument in node.args]


def _code(node: cst.CSTNode) -> str:
    import libcst

    return " ".join(libcst.Module([]).code_for_node(node).split())


def _takes_pin_memory(place: Place) -> bool:
    from h2dlint.facts.torch_api import FACTORIES, Effect

    row = FACTORIES.get(place.label)
    if row is None or place.label in ("as_tensor", "asarray"):
        return False
    return row.effect in (Effect.FACTORY, Effect.LIKE) or place.label == "tensor"
