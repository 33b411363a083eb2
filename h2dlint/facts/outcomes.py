"""What one copy does on one way through the program; analyse.py merges them into a Copy."""

from __future__ import annotations

import ast

from msgspec import Struct

from h2dlint.facts.copies import Cause, Direction, Verdict
from h2dlint.facts.domain import Array, Tag


class Outcome(Struct, frozen=True, eq=False):
    """One way of one transfer."""

    node: ast.expr
    call: str
    verdict: Verdict
    direction: Direction
    asked: bool
    causes: tuple[Cause, ...] = ()
    decisive: Array | None = None
    """The host side whose memory and layout decide."""
    operand: ast.AST | None = None
    tags: tuple[Tag, ...] = ()
    context: tuple[ast.AST, ...] = ()
    module: str = ""
    why: str = ""
    open: bool = False
    """Hangs on what a caller passes: the length of a slice, the value of a flag."""
    root: ast.AST | None = None
    """The function that was looked at when this was seen."""
    root_file: str = ""
    """The file of that function's module."""
    to_accelerator: bool = False
    """The destination is shown to be an accelerator, not just assumed."""

    @property
    def line(self) -> int:
        """Where the call begins."""
        line: int = getattr(self.node, "lineno", 0)
        return line
