"""Function bodies in a text: which can be cut out before it is parsed, and where they begin and end.

They are found by what is written: a `def` whose header is plain, and what is indented below it. Where the text leaves a
doubt, the function is parsed with the rest, or the whole at once: the tree is that of `ast.parse` either way.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache

from h2dlint.facts.finder import parse_module
from h2dlint.facts.late_bodies import Body, make_late, outermost_functions

_MIN_CHARACTERS = 160
"""Shorter bodies are parsed as quickly as they are cut out."""

_PLAIN = r"[^()\"'#\\]*"
_TOKEN = r"(?:\"[^\"\\\n]*\"|'[^'\\\n]*'|#[^\n]*\n)"
_INNER = rf"\({_PLAIN}(?:(?:{_TOKEN}|\({_PLAIN}\)){_PLAIN})*\)"
_HEADER = re.compile(
    r"(?:async[ ]+)?def[ ]+\w+"
    rf"\({_PLAIN}(?:(?:{_TOKEN}|{_INNER}){_PLAIN})*\)"
    r"[ ]*(?:->[ ]*(?:[^:#\\\n\"'()]+|\"[^\"\\\n]*\"|'[^'\\\n]*'))?:[ ]*(?:#[^\n]*)?\n"
)
"""A function's header with everything that a body on lines of its own may follow. Quotes, comments and parentheses are
told apart to a depth of two; a function with more in its header is not cut out.
"""
_TRIPLE = re.compile(r"\"\"\"|'''")
_TRIPLE_DOUBLE = re.compile(r"\"\"\"")
_INTERPOLATED = frozenset("fFtT")


def parse_late(text: str) -> ast.Module | None:
    """The tree of a module's text, as `parse_module` gives it, with bodies that are parsed when they are asked for."""
    bodies = {body.line: body for body in bodies_in(text)}
    tree = parse_module(_with_placeholders(text, list(bodies.values()))) if bodies else None
    if tree is None:
        return parse_module(text)
    left = dict(bodies)
    for node in outermost_functions(tree.body):
        body = left.pop(node.lineno, None)
        if body is not None:
            make_late(node, text, body)
    return parse_module(text) if left else tree


def _with_placeholders(text: str, bodies: list[Body]) -> str:
    """The text with nothing but a placeholder in each body, at its end: what is around it may end there as well."""
    parts: list[str] = []
    at = 0
    for body in bodies:
        parts += (text[at : body.start], "\n" * (body.last_line - body.first_line), " " * (body.last_column - 1), "0")
        at = body.end
    parts.append(text[at:])
    return "".join(parts)


def bodies_in(text: str) -> Iterator[Body]:
    """The bodies that can be cut out, in order; none lies in another, and none holds a definition."""
    strings = None if any(odd in text for odd in _ODD) or _is_spaced(text) else _long_strings(text)
    if strings is None:
        return
    definitions = [(match.start(2), match.end(1) - match.start(1), match[2]) for match in _DEFINITION.finditer(text)]
    at, line, behind = 0, 1, 0
    for number, (start, indent, kind) in enumerate(definitions):
        if start < behind or kind == "class" or strings.around(start):
            continue
        begin = start - indent
        end = behind = _end_of_block(text, start, indent, strings)
        header = _HEADER.match(text, start)
        if header is None or text.endswith("\\\n", 0, begin):
            continue
        first = header.end()
        last = _last_code(text, first, end, strings)
        following = definitions[number + 1][0] if number + 1 < len(definitions) else end
        if last - first < _MIN_CHARACTERS or following < last:
            continue
        column = _column(text, last)
        if column <= indent + 1:
            continue
        line += text.count("\n", at, start)
        at = start
        first_line = line + text.count("\n", start, first)
        yield Body(line, first_line, first, last, first_line + text.count("\n", first, last), column)


_ODD = ("\t", "\f", "\r")
"""Indentation by other means, or line ends that are none."""
_SPACED = re.compile(r"\bself(?:[ \\\n]+\.|\.[ \\\n])")


def _is_spaced(text: str) -> bool:
    """Whether `self.name` may be written in an unusual way: stores are looked for in the text of late bodies."""
    return ("self ." in text or "self. " in text or "self.\n" in text or "self\\" in text) and _SPACED.search(
        text
    ) is not None


_DEFINITION = re.compile(r"\n([ ]*)(async[ ]+def|def|class)\b")


def _end_of_block(text: str, start: int, indent: int, strings: _Strings) -> int:
    """The offset of the first line behind `start` that stands no deeper than `indent`, which is that of a `def`."""
    search = _outside(indent).search
    at = start
    while (found := search(text, at)) is not None:
        at = strings.around(found.start() + 1)
        if not at:
            return found.start() + 1
    return len(text)


@lru_cache(maxsize=64)
def _outside(indent: int) -> re.Pattern[str]:
    """The start of a line that stands no deeper than so many spaces, and ends a block: no comment, and no closing
    bracket, as they are put there by some.
    """
    return re.compile(rf"\n {{0,{indent}}}[^\s#)\]}}]")


def _last_code(text: str, start: int, end: int, strings: _Strings) -> int:
    """The offset behind the last line of a block that is neither empty nor a comment; its start where there is none."""
    while end > start:
        begin = text.rfind("\n", start, end - 1) + 1 or start
        line = text[begin:end].strip()
        if line and (line[0] != "#" or strings.around(begin)):
            return begin + len(text[begin:end].rstrip("\n"))
        end = begin
    return start


def _column(text: str, end: int) -> int:
    """Where the last statement of a line ends, in bytes from its start; 0 where something may stand behind it."""
    line = text[text.rfind("\n", 0, end) + 1 : end]
    doubt = "#" in line or ";" in line or line.endswith(("\\", " "))
    return 0 if doubt else len(line) if line.isascii() else len(line.encode("utf-8", "surrogatepass"))


class _Strings:
    """Where a text has strings between three quotes."""

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        self._starts = [start for start, _ in spans]
        self._ends = [end for _, end in spans]

    def around(self, offset: int) -> int:
        """The end of the string in which an offset lies; 0 if it lies in none."""
        number = bisect_right(self._starts, offset) - 1
        return self._ends[number] if number >= 0 and self._starts[number] < offset < self._ends[number] else 0


def _long_strings(text: str) -> _Strings | None:
    """The strings between three quotes, in order, by their offsets; None where the text leaves a doubt.

    Three quotes begin such a string unless they stand in a comment or in another string. Either shows in what stands
    before them on their line.
    """
    found: list[tuple[int, int]] = []
    opened, quotes, line_from = -1, "", 0
    for match in (_TRIPLE if "'''" in text else _TRIPLE_DOUBLE).finditer(text):
        if opened >= 0:
            if match[0] != quotes:
                continue
            if match.start() < opened + 3:
                return None
            inside = text[opened + 3 : match.start()]
            if inside.endswith("\\") or "\\" + quotes[0] in inside:
                return None
            interpolated = not _INTERPOLATED.isdisjoint(text[max(opened - 2, 0) : opened])
            if interpolated and inside.count("{") != inside.count("}"):  # strings may stand in its braces
                return None
            found.append((opened, match.end()))
            opened, line_from = -1, match.end()
            continue
        begin = max(text.rfind("\n", 0, match.start()) + 1, line_from)
        before = text[begin : match.start()]
        if '"' in before or "'" in before or "#" in before or text[begin - 2 : begin] == "\\\n":
            return None
        opened, quotes = match.start(), match[0]
    return _Strings(found) if opened < 0 else None
