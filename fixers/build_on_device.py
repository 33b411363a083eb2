"""Build an index where it is needed, so that there is nothing to copy.

Before:

    ids = torch.arange(n).unsqueeze(0)
    ids = ids.to(device, non_blocking=True)

After:

    ids = torch.arange(n, device=device).unsqueeze(0)

Every factory of the chain gets `device=` and the transfer goes. Where the device is known only further down, as in
`cos, sin = self.rope(n)` and then `ids.to(cos.device)`, that statement and what it reads move above the first factory.

Safe where integers and booleans are counted, placed, compared or chosen: those come out the same on every device. Left
alone: random numbers, floating-point ranges and arithmetic (other values), any chain whose elements the host reads in
between, and a destination that is not shown to be a device, or that may be None for `.cuda(...)`. Unsafe where a
number that is computed with, a start or a step is not shown to be an int; and where a statement moves that calls
something whose body is not in sight, or reads from an object that what it passes reads too: it then runs earlier.

Does not pay where a chain of many small operations runs on the device only to make a few bytes.
"""

from __future__ import annotations

import ast
import re

from h2dlint.fixers._chain import Chain, NotExactError
from h2dlint.fixers._destination import is_device_call, is_for_factory
from h2dlint.fixers._hoist import CannotMoveError, Hoist, Lines
from h2dlint.fixers._scope import Scope, block_of, is_pure, position, scope_of
from h2dlint.fixers._text import drop_call, with_keyword
from h2dlint.fixers._transfer import Transfer, device_text, transfer_of

from h2dlint.facts.copies import Cause, Direction
from h2dlint.finding import Applicability, Edit, Fix
from h2dlint.fixing import Refusal, Site
from h2dlint.fixing.names import last_name

TITLE = "Build the index on the device"
ORDER = 10

_DRY_LAYOUTS = ("dense", "permuted")
_ABOUT_THE_COPY = re.compile(r"(?i)non.?blocking|host|\bcpu\b|pinned|stage|transfer|\bcop(?:y|ies|ied)\b|h2d|\bmove")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)


def fix(site: Site) -> Fix | Refusal | None:
    """Give the factories `device=` and drop the transfer."""
    copy = site.copy
    if copy.direction is not Direction.H2D or Cause.PAGEABLE not in copy.causes or copy.from_numpy:
        return None
    transfer = transfer_of(site)
    if transfer is None or transfer.into is not None or transfer.device is None or not transfer.plain:
        return None
    try:
        return _Rewrite(site, transfer, transfer.device).fix()
    except (NotExactError, CannotMoveError) as reason:
        return Refusal(f"the device cannot build it as it is: {reason}") if copy.index_built else None


class _Rewrite:
    """One chain, its transfer and the device."""

    def __init__(self, site: Site, transfer: Transfer, device: ast.expr) -> None:
        self.site = site
        self.scope: Scope = scope_of(site)
        self.transfer = transfer
        if not is_for_factory(site, transfer):
            raise NotExactError(_why_not(site, device))
        self.device = device
        self.chain = Chain(site, self.scope, transfer.source, site.copy.index_built)
        self.rebound = self._rebound()
        self.check_reads()
        self.check_places()

    def _rebound(self) -> str | None:
        """The name that holds the transferred value afterwards, where it is a name of the chain."""
        statement = self.site.statement
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and statement.value is self.site.call:
            target = statement.targets[0]
            if isinstance(target, ast.Name) and target.id in self.chain.names:
                return target.id
        return None

    def check_reads(self) -> None:
        """The host must not read what the device builds."""
        for read in self.chain.host_reads(self.site.statement, self.rebound):
            raise NotExactError(f"`{read.id}` is read on the host on line {read.lineno}")
        for outer in self.site.document.around(self.site.call):
            if isinstance(outer, _COMPREHENSIONS) and self.chain.names:
                raise NotExactError("the transfer runs once per element")
            if isinstance(outer, ast.stmt):
                break

    def check_places(self) -> None:
        """All of the chain must stand before the transfer, in its block or deeper: then every way leads past it."""
        block = block_of(self.site, self.site.statement)
        inside = {node for statement in block for node in ast.walk(statement)}
        for statement in self.chain.statements:
            if statement not in inside or position(statement) > position(self.site.statement):
                raise NotExactError(f"line {statement.lineno} takes part whether or not there is a transfer")

    def fix(self) -> Fix:
        """The finished rewrite."""
        anchor = self._anchor()
        hoist = Hoist(self.site, self.scope, self.device, anchor, set(self.chain.names))
        if not is_pure(self.device) and not self._is_device_call():
            raise CannotMoveError("the device is the result of a call")
        lines = Lines(self.site)
        edits = self._moves(hoist, lines, anchor)
        drops = self.rebound is not None and self._is_whole() and self._is_same_value()
        if drops:
            lines.take(self.site.statement, comments=self._comment_is_stale())
        edits += lines.edits()
        edits += self._rewritten(skip=self.site.statement if drops else None)
        safe = hoist.changes_nothing and self.chain.is_exact(self.transfer.dtype)
        return self.site.fix(TITLE, Applicability.SAFE if safe else Applicability.UNSAFE, edits)

    def _is_device_call(self) -> bool:
        device = self.device
        if not isinstance(device, ast.Call) or not is_device_call(self.site, device):
            return False
        return all(map(is_pure, (*device.args, *(keyword.value for keyword in device.keywords))))

    def _anchor(self) -> ast.stmt:
        """The first statement of the transfer's block that holds a factory, or the list that it fills."""
        block = block_of(self.site, self.site.statement)
        holders = {self.site.statement_of(factory) for factory in self.chain.factories}
        first = next(item for item in block if any(node in holders for node in ast.walk(item)))
        place = block.index(first)
        while place and block[place - 1] in self.chain.statements:
            place -= 1
        return block[place]

    def _is_whole(self) -> bool:
        return isinstance(self.transfer.source, ast.Name) and self.transfer.source.id == self.rebound

    def _is_same_value(self) -> bool:
        """Whether the transfer does nothing besides: no cast, and no gaps that it would close."""
        return self.transfer.dtype is None and self.site.copy.layout in _DRY_LAYOUTS

    def _comment_is_stale(self) -> bool:
        """Whether the comment above the transfer is about the transfer."""
        number, lines = self.site.statement.lineno - 1, self.site.document.lines
        text = ""
        while lines.line(number).strip().startswith("#"):
            text = lines.line(number) + text
            number -= 1
        return bool(_ABOUT_THE_COPY.search(text))

    def _moves(self, hoist: Hoist, lines: Lines, anchor: ast.stmt) -> list[Edit]:
        """The statements that the device needs, above the chain."""
        if not hoist.moved:
            return []
        pieces: list[str] = []
        behind = 0
        for statement in hoist.moved:
            if isinstance(statement, ast.For):
                pieces.append(self._own_loop(statement, hoist, lines))
                continue
            first, last = lines.take(statement, comments=True)
            joined = behind and self._only_blank(behind, first)
            pieces.append(lines.text(behind + 1 if joined else first, last))
            behind = last
        number = anchor.lineno
        while self.site.document.lines.line(number - 1).strip().startswith("#"):
            number -= 1
        text = "".join(pieces)
        gap = self.site.document.newline if text.count("\n") > 1 else ""
        start = self.site.document.lines.starts[number - 1]
        return [Edit(start, start, text + gap)]

    def _own_loop(self, loop: ast.For, hoist: Hoist, lines: Lines) -> str:
        """The part of a loop that comes first now, in a loop of its own, behind what it starts from."""
        parts = [part for part in hoist.split if part in loop.body]
        header_end = loop.body[0].lineno - 1
        text = lines.text(loop.lineno, header_end)
        for part in parts:
            text += lines.text(*lines.take(part, comments=True))
        return text + self.site.document.newline

    def _only_blank(self, last: int, first: int) -> bool:
        line = self.site.document.lines.line
        return all(not line(number).strip() for number in range(last + 1, first))

    def _rewritten(self, skip: ast.stmt | None) -> list[Edit]:
        """The factories on the device, and the transfer as what it moved."""
        device = device_text(self.site, self.device)
        by_statement: dict[ast.stmt, list[Edit]] = {}
        for factory in self.chain.factories:
            edit = with_keyword(self.site, factory, "device", device)
            by_statement.setdefault(self.site.statement_of(factory), []).append(edit)
        if skip is None:
            edit = drop_call(self.site, self.site.call, self._besides())
            by_statement.setdefault(self.site.statement, []).append(edit)
        return [self.site.refitted(edits, statement) for statement, edits in by_statement.items()]

    def _besides(self) -> str:
        """What the transfer did besides moving: a cast, or closing gaps."""
        if self.transfer.dtype is not None:
            return f".to({self.site.source(self.transfer.dtype)})"
        return "" if self.site.copy.layout in _DRY_LAYOUTS else ".clone()"


def _why_not(site: Site, device: ast.expr) -> str:
    if last_name(site.call.func) == "to":
        return "the destination is not shown to be a device"
    return f"where `{ast.unparse(device)}` is None it would stay on the host"
