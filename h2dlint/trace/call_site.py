"""Which line of whose file made a call: the innermost frame that is neither torch's nor h2dlint's.

Frames of the standard library, and of code without a file, are passed over as well as long as a frame further out has
one: nobody can mend `threading.py`. Packages count as the user's: who traces a program that serves with vllm wants
vllm's line, and `called_from` has the line of the program itself that led there.
"""

from __future__ import annotations

import ast
import os
import sys
from types import CodeType, FrameType

from msgspec import Struct

from h2dlint.facts.copies import Span
from h2dlint.source import split_lines

_MINE, _LIBRARY, _HIDDEN = 0, 1, 2
_COMPILED = "torchinductor_"
"""In the path of every file that torch.compile writes."""


class Site(Struct, frozen=True):
    """A place in a program, as the interpreter knows it."""

    file: str
    """As the code names it: absolute for what was imported."""
    function: str
    line: int
    end_line: int | None = None
    column: int | None = None
    """Bytes from the start of the line, counted from 0; None where this Python keeps no columns (before 3.11)."""
    end_column: int | None = None
    called_from: str = ""
    """`path:line` of the innermost frame in the working directory, where that is another one."""


class Sites:
    """Finds the places of calls, and remembers what it found about code that it has seen."""

    def __init__(self) -> None:
        self._kinds: dict[int, tuple[CodeType, int]] = {}
        self._hidden = tuple(_folder(name) for name in ("torch", "h2dlint") if name in sys.modules)
        self._library = os.path.dirname(os.__file__) + os.sep
        self._packages = tuple(self._library + name + os.sep for name in ("site-packages", "dist-packages"))
        self._here = os.getcwd() + os.sep

    def frame_of(self, frame: FrameType) -> FrameType:
        """The frame whose line is to be named for a call that `frame` made."""
        kinds = self._kinds
        found: FrameType | None = frame
        second: FrameType | None = None
        while found is not None:
            code = found.f_code
            known = kinds.get(id(code))
            if known is None:
                known = kinds[id(code)] = (code, self._kind(code))  # held, so that the number stays its own
            if known[1] == _MINE:
                return found
            if second is None and known[1] == _LIBRARY:
                second = found
            found = found.f_back
        return second or frame

    def site(self, frame: FrameType) -> Site:
        """The place that a frame is at."""
        code = frame.f_code
        function = getattr(code, "co_qualname", code.co_name)
        line, end_line, column, end_column = position(frame)
        return Site(
            code.co_filename, function, line or 0, end_line, column, end_column, called_from=self._called_from(frame)
        )

    def _kind(self, code: CodeType) -> int:
        file = code.co_filename
        if file.startswith(self._hidden) or _COMPILED in file:
            return _HIDDEN
        if file.startswith("<"):
            return _LIBRARY
        return _LIBRARY if file.startswith(self._library) and not file.startswith(self._packages) else _MINE

    def _called_from(self, frame: FrameType) -> str:
        if self._is_here(frame.f_code.co_filename):
            return ""
        outer = frame.f_back
        while outer is not None and not self._is_here(outer.f_code.co_filename):
            outer = outer.f_back
        if outer is None:
            return ""
        return f"{os.path.relpath(outer.f_code.co_filename, self._here).replace(os.sep, '/')}:{outer.f_lineno}"

    def _is_here(self, file: str) -> bool:
        path = os.path.abspath(file)
        return path.startswith(self._here) and not path.startswith((*self._packages, *self._hidden))


def position(frame: FrameType) -> tuple[int | None, int | None, int | None, int | None]:
    """Line, end line, column and end column of what a frame is executing; the line alone before Python 3.11."""
    positions = getattr(frame.f_code, "co_positions", None)
    if positions is None or frame.f_lasti < 0:
        return frame.f_lineno, None, None, None
    for number, (line, end_line, column, end_column) in enumerate(positions()):
        if number == frame.f_lasti // 2:
            return line, end_line, column, end_column
    return frame.f_lineno, None, None, None


def _folder(module: str) -> str:
    return os.path.dirname(os.path.abspath(sys.modules[module].__file__ or "")) + os.sep


# --- from the interpreter's positions to those of the source ------------------------------------------------------


class Calls:
    """The calls and subscripts of one file, to find the one that a `Site` means.

    The interpreter gives a method call that spans lines the place of the method's name. Its end is always that of the
    call, and that is what is looked for first. Before Python 3.11 there is only a line: the call by that name whose
    method's name stands there, or the one on the line; where there are several, none is found.
    """

    def __init__(self, text: str, tree: ast.Module) -> None:
        self._lines = split_lines(text)
        self._spans: list[tuple[Span, str, int]] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                called = node.func
                name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
                name_line = called.end_lineno if isinstance(called, ast.Attribute) else called.lineno
                self._spans.append((self._span(node), name, name_line or node.lineno))
            elif isinstance(node, ast.Subscript):
                name = "__setitem__" if isinstance(node.ctx, ast.Store) else "__getitem__"
                self._spans.append((self._span(node), name, node.lineno))

    def find(self, site: Site, name: str) -> Span | None:
        """The range of the call or subscript at a site: 1-based, columns in characters, the end exclusive."""
        if site.end_line is not None and site.end_column is not None:
            ends = site.end_line, self._character(site.end_line, site.end_column)
            found = [one for one in self._spans if (one[0].end_line, one[0].end_column) == ends]
        else:
            found = [one for one in self._spans if one[1] == name and one[2] == site.line]
            found = found or [one for one in self._spans if one[0].line <= site.line <= one[0].end_line]
            if len(found) > 1:
                return None
        by_name = [one for one in found if one[1] == name] or found
        return min(by_name, key=lambda one: (one[2] != site.line, one[0].line, one[0].column))[0] if by_name else None

    def _span(self, node: ast.expr) -> Span:
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return Span(
            node.lineno,
            self._character(node.lineno, node.col_offset),
            end_line,
            self._character(end_line, end_column),
        )

    def _character(self, line: int, offset: int) -> int:
        text = self._lines[line - 1] if line <= len(self._lines) else ""
        return offset + 1 if text.isascii() else len(text.encode()[:offset].decode(errors="replace")) + 1
