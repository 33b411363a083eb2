"""What IPython adds to Python: magics, shell lines and questions, put out of the parser's sight line for line.

    %matplotlib inline       pass  <mark> 0
    files = !ls              files = get_ipython()  <mark> 1
    %time y = step(x)        y = get_ipython()  <mark> 2
    tensor.to?               pass  <mark> 3

What such a line gives a name is unknown from there on. The syntax is that of IPython's `TransformerManager`
(ipython.readthedocs.io, "Python vs IPython").
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct

from h2dlint.source import parse

UNKNOWN = "get_ipython()"
"""An expression of which nothing is known."""

PYTHON_CELLS = frozenset({"capture", "debug", "memit", "prun", "time", "timeit"})
"""Cell magics whose body is Python that sees the notebook's names."""
OWN_SCOPE = frozenset({"memit", "timeit"})
"""Those whose body runs as a function: the names that it binds are gone afterwards."""
RUNS_CODE = frozenset({"pylab", "reset", "run", "store"})
"""Line magics that may bind any name."""

_CELL_MAGIC = re.compile(r"\s*%%(\w[\w.:-]*)")
_AT_START = re.compile(
    r"[ \t]*(?:[!?]|%{1,2}\w|[/,;][A-Za-z_]"
    r"|(?:cat|cd|conda|cp|ls|mamba|mkdir|mv|pip|rm|uv)[ \t]+[^\s=(.,\[)\]:])"
)
_ASSIGNED = re.compile(r"(?P<lead>[ \t]*(?P<names>[A-Za-z_][\w.,* \t\[\]'\"]*?)[ \t]*)=[ \t]*(?:!|%[A-Za-z_])")
_QUESTION = re.compile(r"[^#'\"]*[\w\])*]\?{1,2}[ \t]*;?[ \t]*$")
_LEXEME = re.compile(
    r"(?P<triple>\"\"\"|''')"
    r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?)"
    r"|(?P<comment>#[^\r\n]*)"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])"
    r"|(?P<joined>\\(?:\r\n|\r|\n))"
    r"|(?P<end>\r\n|\r|\n)",
    re.DOTALL,
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


class Hidden(Struct, frozen=True):
    """A line that the parser must not see."""

    line: int
    """Counted from 0 within the cell."""
    names: tuple[str, ...]
    """What it may bind; `RUNS_CODE` magics bind `*`."""
    targets: str
    """The left-hand side of an assignment, as written."""
    joined: bool = False
    """A backslash joins it to the line before."""


def cell_magic(source: str) -> str | None:
    """The name of the magic that a whole cell is given to."""
    match = _CELL_MAGIC.match(source)
    return match[1] if match else None


def hidden_lines(source: str) -> Iterator[Hidden]:
    """The lines of a cell that are IPython's; none in a cell that is Python as it is."""
    if _is_python(source):
        return
    line = at = 0
    while at < len(source):
        end = _line_end(source, at)
        text = source[at:end]
        if _AT_START.match(text) or _ASSIGNED.match(text):
            last = _joined_end(source, at)
            whole = source[at:last]
            yield _hidden(line, whole)
            for more in range(1, _newlines(whole)):
                yield Hidden(line + more, (), "", joined=True)
        elif _QUESTION.match(text.rstrip("\r\n")):
            last = end
            yield Hidden(line, (), "")
        else:
            last = _statement_end(source, at)
        line += max(_newlines(source[at:last]), 1)
        at = last


def without(text: str, hidden: Hidden, mark: str, known: Collection[str]) -> str:
    """A hidden line's stand-in; `known` are the names of the notebook, which `*` stands for."""
    body = text.rstrip("\r\n")
    indent, newline = body[: len(body) - len(body.lstrip(" \t"))], text[len(body) :]
    if hidden.joined:
        return f"{mark}{newline}"
    names = sorted(known) if hidden.names == ("*",) else hidden.names
    targets = hidden.targets or " = ".join(names)
    return f"{indent}{f'{targets} = {UNKNOWN}' if targets else 'pass'}  {mark}{newline}"


def names_in(text: str) -> set[str]:
    """Everything in a text that looks like a name."""
    return {name for name in _IDENTIFIER.findall(text) if not keyword.iskeyword(name)}


def bound_names(trees: Iterable[ast.AST]) -> set[str]:
    """The names that code binds, other than by imports."""
    found: set[str] = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.add(node.name)
    return found


def _hidden(line: int, text: str) -> Hidden:
    assigned = _ASSIGNED.match(text)
    if assigned and not _AT_START.match(text):
        return Hidden(line, (), assigned["names"].strip())
    magic = re.match(r"[ \t]*%{1,2}(\w+)[ \t]*(.*)", text, re.DOTALL)
    if not magic:
        return Hidden(line, (), "")
    if magic[1] in RUNS_CODE:
        return Hidden(line, ("*",), "")
    if magic[1] in OWN_SCOPE or magic[1] not in PYTHON_CELLS:
        return Hidden(line, (), "")
    code = magic[2].strip()
    names = bound_names([parse(code)]) if _is_python(code) else names_in(code)
    return Hidden(line, tuple(sorted(names)), "")


def _is_python(source: str) -> bool:
    try:
        parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _statement_end(source: str, at: int) -> int:
    """Where the logical line that starts at `at` ends: brackets and strings may span lines."""
    depth = 0
    while (lexeme := _LEXEME.search(source, at)) is not None:
        at = lexeme.end()
        kind = lexeme.lastgroup
        if kind == "triple":
            at = _closing(source, at, lexeme.group())
        elif kind == "open":
            depth += 1
        elif kind == "close":
            depth = max(depth - 1, 0)
        elif kind == "end" and not depth:
            return at
    return len(source)


def _closing(source: str, at: int, quotes: str) -> int:
    match = re.compile(rf"(?:\\.|(?!{quotes}).)*{quotes}", re.DOTALL).match(source, at)
    return match.end() if match else len(source)


def _line_end(source: str, at: int) -> int:
    match = re.compile(r"\r\n|\r|\n").search(source, at)
    return match.end() if match else len(source)


def _joined_end(source: str, at: int) -> int:
    """The end of a line together with those that backslashes join to it."""
    end = _line_end(source, at)
    while end < len(source) and source[at:end].rstrip("\r\n").endswith("\\"):
        at, end = end, _line_end(source, end)
    return end


def _newlines(text: str) -> int:
    """How many lines a text has, the last one counted whether it ends or not."""
    ends = len(re.findall(r"\r\n|\r|\n", text))
    return ends if text.endswith(("\n", "\r")) else ends + 1
