"""Copy from a pinned snapshot of the source, made for this one copy.

Before:

    self.gpu[:n].copy_(self.cpu[:n], non_blocking=True)

After:

    src = self.cpu[:n]
    if PIN_MEMORY:
        src = src.pin_memory()
    self.gpu[:n].copy_(src, non_blocking=True)

`.pin_memory()` comes last, behind `.contiguous()` where the source leaves gaps, since pinning keeps gaps. A buffer that
lives on is never pinned itself: the next step would rewrite it while this step's copy is queued. Where the source may
be pinned already, `.pin_memory()` would be that very buffer and no snapshot, so the copy is a real one:
`torch.empty_like(src, pin_memory=PIN_MEMORY).copy_(src)`.

Safe: the same values arrive, and nothing is pinned where the guard says that it cannot be.

Does not pay above `max-pin-bytes` (8 MiB by default), nor for a single copy with nothing queued before it: the snapshot
is one more host copy. Behind queued work it is what keeps the host running.
"""

from __future__ import annotations

import ast

from h2dlint.fixers._pin import guard_at, obstacle, pin_applicability
from h2dlint.fixers._scope import block_of, scope_of, unused_name
from h2dlint.fixers._snapshot import can_precede, can_rebind, is_short, needs_dense
from h2dlint.fixers._text import (
    after_receiver,
    appended,
    assigned,
    one_line,
    primary,
    receiver_end,
    relative,
    rewritten,
)
from h2dlint.fixers._transfer import Transfer, transfer_of

from h2dlint.facts.copies import Cause, Direction, Verdict
from h2dlint.finding import Applicability, Edit, Fix
from h2dlint.fixing import Guard, Refusal, Site
from h2dlint.fixing.names import last_name

TITLE = "Copy from a pinned snapshot"
ORDER = 50

NO_PLACE = "the source would have to be evaluated before the statement it stands in"


def fix(site: Site) -> Fix | Refusal | None:
    """Pin what is copied, for this copy."""
    transfer = transfer_of(site)
    if site.copy.direction is not Direction.H2D or transfer is None:
        return None
    if Cause.BROADCAST in site.copy.causes:
        return None
    real = site.copy.verdict is Verdict.CONDITIONAL and Cause.CONFIG in site.copy.causes
    return _spread(transfer) or obstacle(site) or Snapshot(site, transfer, TITLE, pin_applicability(site), real).fix()


def _spread(transfer: Transfer) -> Refusal | None:
    source = transfer.source
    if isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) and source.func.attr == "expand":
        return Refusal("pinning an expanded view would send every repetition over the bus: expand on the device")
    return None


class Snapshot:
    """A rewrite that sends a pinned copy of the source; `real`: where the source may be pinned already."""

    def __init__(self, site: Site, transfer: Transfer, title: str, applicability: Applicability, real: bool) -> None:
        self.site = site
        self.title = title
        self.applicability = applicability
        self.transfer = transfer
        self.source = transfer.source
        self.guard: Guard = guard_at(site, site.statement)
        self.real = real
        self.dense = ".contiguous()" if needs_dense(site, transfer) else ""

    def fix(self) -> Fix | Refusal:
        """The rewrite, in the form that fits where the copy stands."""
        if self.dense and isinstance(self.source, ast.Call) and last_name(self.source.func) == "pin_memory":
            return self._done([rewritten(self.site, [after_receiver(self.site, self.source, self.dense)])])
        if not self.guard.needed and not self.real:
            return self._done([rewritten(self.site, self._appended(f"{self.dense}.pin_memory()"))])
        if can_rebind(self.site, self.source) and can_precede(self.site, self.source):
            lines = self._lines(self.site.source(self.source))
            return self._done([self._beside_another(lines) or self.site.insert_before(self.site.statement, lines)])
        if can_precede(self.site, self.source):
            return self._named()
        if is_short(self.site, self.source) and not self.real:
            return self._inline()
        return Refusal(NO_PLACE)

    def _beside_another(self, lines: list[str]) -> Edit | None:
        """The pin in a block right above that pins something else under the same flag; None where there is none."""
        block = block_of(self.site, self.site.statement)
        place = block.index(self.site.statement)
        above = block[place - 1] if place else None
        if len(lines) != 2 or not isinstance(above, ast.If) or above.orelse:
            return None
        pins = all(isinstance(one, ast.Assign) and last_name(one.value) == "pin_memory" for one in above.body)
        if not pins or ast.unparse(above.test) != self.guard.expression:
            return None
        return self.site.insert_after(above.body[-1], [lines[1].strip()])

    def _appended(self, text: str) -> list[Edit]:
        if self.transfer.into is None:
            return [after_receiver(self.site, self.site.call, text)]
        return appended(self.site, self.source, text)

    def _lines(self, name: str) -> list[str]:
        """The statements that make `name` hold the snapshot."""
        if self.real:
            return [self._copied(name, name)]
        unit = self.site.document.indent_unit
        return [f"if {self.guard.expression}:", f"{unit}{name} = {name}{self.dense}.pin_memory()"]

    def _copied(self, name: str, source: str) -> str:
        """The statement that makes `name` hold a pinned copy of what `source` holds, pinned or not."""
        torch = self.site.torch_name()
        flag = self.guard.expression if self.guard.needed else "True"
        text = f"{name} = {torch}.empty_like({source}, pin_memory={flag}).copy_({source})"
        return relative(self.site, self.site.fitted(text))

    def _named(self) -> Fix:
        """The source under a name of its own."""
        name = unused_name(scope_of(self.site), "src", "staged")
        if isinstance(self.source, ast.Name) and not self.real:
            text = self.site.source(self.source)
            pinned = f"{name} = {text}{self.dense}.pin_memory() if {self.guard.expression} else {text}"
            lines = [relative(self.site, self.site.fitted(pinned))]
        elif isinstance(self.source, ast.Name):
            lines = [self._copied(name, self.site.source(self.source))]
        else:
            lines = [assigned(self.site, name, self.source), *self._lines(name)]
        edits = [self.site.insert_before(self.site.statement, lines), rewritten(self.site, [self._renamed(name)])]
        return self._done(edits)

    def _renamed(self, name: str) -> Edit:
        if self.transfer.into is not None:
            return self.site.replace(self.source, name)
        start, _ = self.site.document.lines.offsets(self.site.call)
        return Edit(start, receiver_end(self.site, self.site.call), name)

    def _inline(self) -> Fix:
        """Both ways in one expression, where no statement can stand in front."""
        text = one_line(self.site, self.source)
        pinned = f"{primary(self.site, self.source)}{self.dense}.pin_memory() if {self.guard.expression} else {text}"
        if self.transfer.into is not None:
            return self._done([rewritten(self.site, [self.site.replace(self.source, pinned)])])
        start, _ = self.site.document.lines.offsets(self.site.call)
        stop = receiver_end(self.site, self.site.call)
        return self._done([rewritten(self.site, [Edit(start, stop, f"({pinned})")])])

    def _done(self, edits: list[Edit]) -> Fix:
        return self.site.fix(self.title, self.applicability, [*edits, *self.guard.edits])
