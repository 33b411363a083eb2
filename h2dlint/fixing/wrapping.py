"""Breaks a statement that no longer fits as black and ruff format do.

From the right: the last bracket is opened first; a chain of two or more calls goes into parentheses, and is broken at
its dots if that does not suffice; what still does not fit stands one piece a line, with a trailing comma.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize

from msgspec import Struct

_OPENERS = "([{"
_CLOSERS = ")]}"
_TAB = 4


class _Room(Struct, frozen=True):
    unit: str
    limit: int
    newline: str


def wrapped(text: str, indent: str, unit: str, limit: int, newline: str) -> str:
    """The statement in lines of at most `limit` characters where that can be had.

    `text` starts behind `indent`, which is not part of it. Text that fits, or holds comments or strings over several
    lines, stays as it is.
    """
    if all(_width(line) <= limit for line in (indent + text).splitlines()):
        return text
    return _broken_anew(text, indent, _Room(unit, limit, newline)) or text


def rewrapped(old: str, text: str, indent: str, unit: str, limit: int, newline: str) -> str:
    """The statement in the place of `old`: broken anew where `old` is broken as this module does it.

    Otherwise it keeps the lines that it has, unless one is too long.
    """
    room = _Room(unit, limit, newline)
    if "\n" in old and _broken_anew(old, indent, room) == old:
        return _broken_anew(text, indent, room) or text
    return wrapped(text, indent, unit, limit, newline)


MOST_CHARACTERS = 20_000
"""Nobody reads a longer statement, however it is broken."""


def _broken_anew(text: str, indent: str, room: _Room) -> str | None:
    if len(text) > MOST_CHARACTERS:
        return None
    joined = joined_line(text)
    if joined is None:
        return None
    broken = room.newline.join(_statement(_without_parentheses(joined), indent, room))[len(indent) :]
    return broken if _same(broken, text) else None


def _same(one: str, other: str) -> bool:
    try:
        return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))
    except (SyntaxError, ValueError):
        return False


def joined_line(text: str) -> str | None:
    """The statement on one line, without trailing commas; None where a comment or a long string forbids it."""
    if "\n" not in text and "\r" not in text:
        return text
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text, newline=None).readline))
    except (tokenize.TokenError, SyntaxError):
        return None
    if any(
        token.type == tokenize.COMMENT or token.start[0] != token.end[0] for token in tokens if token.string.strip()
    ):
        return None
    out = ""
    previous: tokenize.TokenInfo | None = None
    for token in tokens:
        if not token.string.strip():
            continue
        if previous is not None:
            out = _glued(out, previous, token)
        out += token.string
        previous = token
    return out if _same(out, text) else None


def _glued(out: str, previous: tokenize.TokenInfo, token: tokenize.TokenInfo) -> str:
    """`out` with what belongs between two tokens: what was there on one line, nothing or a space over a line break."""
    if previous.end[0] == token.start[0]:
        return out + previous.line[previous.end[1] : token.start[1]]
    if token.string in _CLOSERS and previous.string == ",":
        before = out.rstrip()[:-1]
        return out if re.search(r"\([^(),]*$", before) and _is_tuple_end(out) else before
    if previous.string in _OPENERS or token.string in _CLOSERS or token.string == ".":
        return out
    return out + " "


def _is_tuple_end(out: str) -> bool:
    """Whether the comma at the end of `out` makes a tuple of one: its bracket opens behind nothing callable."""
    depth = 0
    for at in range(len(out) - 1, -1, -1):
        if out[at] in _CLOSERS:
            depth += 1
        elif out[at] in _OPENERS:
            if depth == 0:
                return out[at] == "(" and not re.search(r"[\w\])]$", out[:at])
            depth -= 1
    return False


# --- one logical line into several ---------------------------------------------------------------------------------


def _statement(text: str, indent: str, room: _Room) -> list[str]:
    if _width(indent + text) <= room.limit:
        return [indent + text]
    head, value = _head_and_value(text)
    pieces = _pieces(value) if head else [value]
    if len(pieces) > 1 and not _ends_in_a_call(head, value, pieces, indent, room):
        inner = indent + room.unit
        return [f"{indent}{head}(", *_each(value, pieces, inner, room), f"{indent})"]
    return _opened(text, indent, room)


def _opened(text: str, indent: str, room: _Room, spare: int = 0) -> list[str]:
    """The text with its last bracket that has something in it opened; earlier ones if its head is too long.

    `spare` characters are left free at the end of the last line.
    """
    if _width(indent + text) + spare <= room.limit:
        return [indent + text]
    pairs = [(start, end) for start, end in _pairs(text) if text[start + 1 : end].strip()]
    for start, end in reversed(pairs):
        head, body, tail = text[: start + 1], text[start + 1 : end], text[end:]
        if _width(indent + head) <= room.limit and _width(indent + tail) + spare <= room.limit:
            return [indent + head, *_inside(body, indent + room.unit, room), indent + tail]
    for start, end in reversed(pairs):
        head, body, tail = text[: start + 1], text[start + 1 : end], text[end + 1 :]
        if _width(indent + head) <= room.limit and tail:
            first, *rest = _opened(tail, indent, room, spare)
            closing = indent + text[end] + first[len(indent) :]
            return [indent + head, *_inside(body, indent + room.unit, room), closing, *rest]
    return [indent + text]


def _ends_in_a_call(head: str, value: str, pieces: list[str], indent: str, room: _Room) -> bool:
    """Whether the value is two operands of which the second ends in brackets that can be opened.

    Formatters then open those instead of putting parentheses around it all.
    """
    pairs = _pairs(value)
    if len(pieces) != 2 or pieces[1].startswith((".", "if ", "for ", "else ")) or not pairs:
        return False
    start, end = pairs[-1]
    if end != len(value) - 1 or not value[start + 1 : end].strip():
        return False
    return len(pairs) > 1 or _width(indent + head + value[: start + 1]) <= room.limit


def _inside(body: str, indent: str, room: _Room) -> list[str]:
    """What stands in brackets, on one line if it fits, else a piece a line."""
    body = body.strip()
    if _width(indent + body) <= room.limit:
        return [indent + body]
    parts = _split(body, ",")
    if len(parts) == 1:
        pieces = _pieces(body)
        return _each(body, pieces, indent, room) if len(pieces) > 1 else _opened(body, indent, room)
    lines: list[str] = []
    for part in parts:
        *rest, end = _opened(part, indent, room, spare=1)
        lines += [*rest, f"{end},"]
    return lines


def _each(whole: str, pieces: list[str], indent: str, room: _Room) -> list[str]:
    if _width(indent + whole) <= room.limit:
        return [indent + whole]
    return [line for piece in pieces for line in _opened(piece, indent, room)]


_LOOSE = (
    r" (?:if|else|for|async for) ",
    r" or ",
    r" and ",
    r" (?:[<>]=?|==|!=|not in|in|is not|is) ",
    r" [-+] ",
    r" (?:[*/@%]|//) ",
)
"""What an expression is broken before, the loosest bond first."""


def _pieces(text: str) -> list[str]:
    """The parts of an expression at its loosest operator, or the calls of a chain of several; else the whole."""
    inside = {at for at, _, hidden in _characters(text) if hidden}
    deep = {at for start, end in _pairs(text) for at in range(start, end)}
    for operator in _LOOSE:
        cuts = [match.start() + 1 for match in re.finditer(operator, text)]
        cuts = [at for at in cuts if at not in inside and at not in deep]
        if cuts:
            return [text[start:end].strip() for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    chain = _chain(text)
    return chain if len(chain) > 2 else [text]


def _without_parentheses(text: str) -> str:
    """The statement on one line without parentheses around its value: those were needed for several lines alone."""
    span = _value_span(text)
    if span is None:
        return text
    start, end = span
    while text[:start].endswith("(") and text[end:].startswith(")"):
        text = text[: start - 1] + text[start:end] + text[end + 1 :]
        start, end = start - 1, end - 1
    return text


def _head_and_value(text: str) -> tuple[str, str]:
    """`x = ` and its value, `return ` and its value; an empty head for any other statement."""
    span = _value_span(text)
    return ("", text) if span is None or span[1] != len(text) else (text[: span[0]], text[span[0] :])


def _value_span(text: str) -> tuple[int, int] | None:
    """Where the value of an assignment or a return stands; None for any other statement."""
    try:
        statement = ast.parse(text).body[0]
    except (SyntaxError, ValueError, IndexError):
        return None
    value = getattr(statement, "value", None)
    if not isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return)) or value is None:
        return None
    data = text.encode()
    return len(data[: value.col_offset].decode()), len(data[: value.end_col_offset].decode())


def _chain(text: str) -> list[str]:
    """`a.b(c)`, `.d(e)`, `.f(g)`: the calls of a chain, cut before each dot that follows a bracket."""
    cuts = [0]
    depth = 0
    for at, character, inside in _characters(text):
        if inside:
            continue
        if character in _OPENERS:
            depth += 1
        elif character in _CLOSERS:
            depth -= 1
        elif depth == 0 and character == "." and text[at - 1 : at] in (")", "]"):
            cuts.append(at)
        elif depth == 0 and not (character.isalnum() or character in "._"):
            return [text]  # an operator: no mere chain
    return [text[start:end] for start, end in zip(cuts, [*cuts[1:], len(text)], strict=True)]


def _pairs(text: str) -> list[tuple[int, int]]:
    """The outermost brackets, from left to right."""
    found: list[tuple[int, int]] = []
    depth = start = 0
    for at, character, inside in _characters(text):
        if inside:
            continue
        if character in _OPENERS:
            start = at if depth == 0 else start
            depth += 1
        elif character in _CLOSERS:
            depth -= 1
            if depth == 0:
                found.append((start, at))
    return found


def _split(text: str, separator: str) -> list[str]:
    """The pieces between separators outside brackets and strings, stripped; an empty last one is left out."""
    pieces: list[str] = []
    depth = start = 0
    for at, character, inside in _characters(text):
        if inside:
            continue
        if character in _OPENERS:
            depth += 1
        elif character in _CLOSERS:
            depth -= 1
        elif character == separator and depth == 0:
            pieces.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*pieces, last] if last else pieces


_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")


def _characters(text: str) -> list[tuple[int, str, bool]]:
    """Each character with its offset and whether it lies in a string."""
    inside: set[int] = set()
    for match in _STRING.finditer(text):
        inside.update(range(match.start(), match.end()))
    return [(at, character, at in inside) for at, character in enumerate(text)]


def _width(line: str) -> int:
    return len(line.expandtabs(_TAB))
