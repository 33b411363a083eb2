"""What the analyser knows, in words: the reveal of a value, the chain of places, the ways of a conditional copy."""

from __future__ import annotations

import ast

from h2dlint.facts.copies import Direction, Place, Span, Verdict
from h2dlint.facts.domain import Array, Tag, Trail
from h2dlint.facts.layout import Form, element_bound
from h2dlint.facts.outcomes import Outcome
from h2dlint.facts.torch_api import DTYPES

MAX_PLACES = 12


def span_of(node: ast.AST, lines: list[str]) -> Span:
    """The 1-based character range of a node; ast counts columns in UTF-8 bytes."""
    line: int = getattr(node, "lineno", 1)
    end_line: int = getattr(node, "end_lineno", None) or line
    start: int = getattr(node, "col_offset", 0)
    end: int = getattr(node, "end_col_offset", None) or 0
    return Span(line, _column(lines, line, start), end_line, _column(lines, end_line, end))


def _column(lines: list[str], line: int, offset: int) -> int:
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    return offset + 1 if text.isascii() else len(text.encode()[:offset].decode(errors="ignore")) + 1


def places(trail: Trail | None, path: str, lines: list[str]) -> tuple[Place, ...]:
    """A chain as places, oldest first."""
    found: list[Place] = []
    while trail is not None and len(found) < MAX_PLACES:
        found.append(place_of(trail, path, lines))
        trail = trail.previous
    return tuple(reversed(found))


def place_of(trail: Trail, path: str, lines: list[str]) -> Place:
    """One link of a chain as a place."""
    span = span_of(trail.node, lines if trail.path == path else [])
    return Place(trail.path, span, trail.label, trail.message, trail.pinning)


def reveal(outcome: Outcome) -> str:
    """One line for the state of the deciding side: `cpu | pageable | gapped | numpy@4 -> cat@9 -> here`."""
    array = outcome.decisive
    if array is None:
        return {Direction.D2D: "device", Direction.H2H: "cpu"}.get(outcome.direction, "unknown") + " | here"
    parts = [array.device.kind or "unknown"]
    if array.device.is_cpu:
        parts.append(array.memory.value)
        parts.append(array.layout.form.value if array.layout.form is not Form.MAYBE_GAPPED else "gapped unless whole")
    links: list[str] = []
    trail = array.trail
    while trail is not None and len(links) < MAX_PLACES:
        links.append(f"{trail.label}@{getattr(trail.node, 'lineno', 0)}")
        trail = trail.previous
    return " | ".join([*parts, " -> ".join([*reversed(links), "here"])])


def max_bytes(array: Array | None) -> int | None:
    """The bytes of a tensor of constant shape and known dtype."""
    if array is None:
        return None
    count = element_bound(array.layout)
    if count is None:
        return None
    size = DTYPES.get(array.dtype or "", 8)
    return count * size


def leading_size(array: Array | None) -> int | None:
    """The size of the first axis, where it is a constant."""
    sizes = array.layout.sizes if array is not None else None
    return sizes[0] if sizes and isinstance(sizes[0], int) else None


def branch_text(tags: list[Tag], outcome: Outcome, path: str, lines: list[str]) -> tuple[str, Place | None]:
    """How one way of a conditional copy in the file `path` comes about."""
    parts: list[str] = []
    place: Place | None = None
    for tag in tags[-2:]:
        text = _tag_text(tag, path)
        if text and text not in parts:
            parts.append(text)
            here = tag.path in ("", path)
            place = Place(tag.path, span_of(tag.node, lines if here else []), tag.kind, text)
    if outcome.context and not any(tag.kind == "caller" for tag in tags):
        site = outcome.context[-1]
        text = f"called from {_line(site.node, site.path, path)}"
        parts.append(text)
        place = place or Place(site.path, span_of(site.node, lines if site.path == path else []), "caller", text)
    if not parts:
        parts.append("otherwise" if outcome.verdict is not Verdict.FAKE_ASYNC else "here")
    return ", ".join(parts), place


def _line(node: ast.AST, path: str, here: str) -> str:
    """The line of a node, with its file where that is another one."""
    line = getattr(node, "lineno", 0)
    return f"line {line}" if path in ("", here) else f"{path}:{line}"


def _tag_text(tag: Tag, path: str) -> str:
    line = _line(tag.node, tag.path, path)
    if tag.kind == "path":
        return f"when `{_short(tag.node)}` is {'true' if tag.holds else 'false'} ({line})"
    if tag.kind == "switch":
        state = "on" if tag.holds else "off"
        return f"with the pin flag {state}{' (its default)' if tag.by_default else ''} ({line})"
    if tag.kind == "caller":
        return f"for the object made on {line}"
    if tag.kind == "store":
        return f"after the assignment on {line}"
    if tag.text:
        return f"when {tag.text}" if tag.text[:3] in ("the", "non") else tag.text
    return ""


def _short(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 48 else text[:45] + "..."
