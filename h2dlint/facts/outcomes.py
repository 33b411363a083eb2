"""What one copy does on one way through the program; analyse.py merges them into a Copy."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from h2dlint.facts.copies import Cause, Direction, HazardKind, Pitfall, Verdict
from h2dlint.facts.domain import Array, Tag, Trail


class CallSite(Struct, frozen=True, eq=False):
    """A call that led to where something was seen."""

    path: str
    node: ast.AST
    function: ast.AST | None = None
    """The function that the call stands in."""


class Uninformed(Struct, frozen=True, eq=False):
    """A call whose arguments tell no more than the called function assumes on its own."""

    root: ast.AST | None
    """The function that was looked at when it was seen."""
    root_file: str
    context: tuple[CallSite, ...]
    """The calls that led there, with itself."""


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
    context: tuple[CallSite, ...] = ()
    """The calls that led here, outermost first; none where the function was looked at on its own."""
    module: str = ""
    why: str = ""
    open: bool = False
    """Hangs on what a caller passes: the length of a slice, the value of a flag."""
    root: ast.AST | None = None
    """The function that was looked at when this was seen."""
    root_file: str = ""
    """The file of that function's module."""
    function: ast.AST | None = None
    """The function that the copy stands in."""
    to_accelerator: bool = False
    """The destination is shown to be an accelerator, not just assumed."""
    fetches: bool = False
    """Brings a tensor to the host, or finds it there, without being asked to be asynchronous: into pageable memory."""
    pinned_by: ast.AST | None = None
    """The call that copies what was fetched here once more, into pinned memory; such an outcome says nothing else."""
    pitfall: Pitfall | None = None
    """A mistake beside the copies, not a copy."""
    certain: bool = True
    """For a pitfall: whether it is proven on this way."""

    @property
    def is_copy(self) -> bool:
        """Whether it is about a copy, not about a mistake beside one or about what is pinned."""
        return self.pitfall is None and self.pinned_by is None

    @property
    def unsettled(self) -> bool:
        """Whether a caller's arguments could still decide it."""
        return self.open or self.verdict is Verdict.UNPROVEN

    def entered(self) -> Iterator[ast.AST | None]:
        """The functions that were called on this way, from the root on, which was not."""
        if self.context:
            yield from (site.function for site in self.context[1:])
            yield self.function

    @property
    def line(self) -> int:
        """Where the call begins."""
        line: int = getattr(self.node, "lineno", 0)
        return line


class Sighting(Struct, frozen=True, eq=False):
    """A hazard of one copy, seen on one way."""

    node: ast.expr
    """The copy."""
    file: str
    """The file that it stands in."""
    kind: HazardKind
    other: Trail
    """The other half: a write, a read."""
    certain: bool
    across_calls: bool
    root: ast.AST | None
    root_file: str
    missed: Trail | None = None
    """A wait in between that was for another stream."""
