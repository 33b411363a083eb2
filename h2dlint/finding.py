"""What a rule reports and what a fix is made of. Every output format and every fixer speaks these types."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from h2dlint.facts.copies import Copy, Pitfall, Place, Span, Verdict

DOCS_URL = "https://h2dlint.readthedocs.io/rules"


Needle: TypeAlias = bytes | tuple[bytes, ...]


class Severity(str, Enum):
    """Errors and warnings fail a run, notes do not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Applicability(str, Enum):
    """Safe: same values, and never raises where the original did not. Everything else is unsafe."""

    SAFE = "safe"
    UNSAFE = "unsafe"


class Edit(Struct, frozen=True):
    """Replace the characters [start, end) of the file's text."""

    start: int
    end: int
    replacement: str


class FileEdits(Struct, frozen=True):
    """The part of a rewrite that goes into another file than the finding's."""

    path: str
    """As shown to users."""
    edits: tuple[Edit, ...]
    content_hash: str
    """Of the text that the edits are for."""


class Fix(Struct, frozen=True):
    """A rewrite, bound to the text it was computed from by that text's hash."""

    title: str
    applicability: Applicability
    edits: tuple[Edit, ...]
    """What changes in the finding's own file; nothing where all of it is elsewhere."""
    content_hash: str
    elsewhere: tuple[FileEdits, ...] = ()
    """What changes in other files, together with the edits here or not at all."""


class Observed(Struct, frozen=True):
    """What a trace saw at the place of a finding."""

    verdict: Verdict
    """The gravest that the copy came to."""
    calls: int
    """How often it came to that."""
    total_ms: float
    """Time that the host spent in these calls."""
    worst_ms: float
    largest: int
    """Bytes of the largest call."""
    refuted: bool = False
    """Whether the finding says that the copy waits, and it never did."""


class Finding(Struct, frozen=True):
    """One report: where, what happens, why here, what to write instead."""

    code: str
    name: str
    severity: Severity
    path: str
    span: Span
    message: str
    help: str
    verdict: Verdict | None
    trace: tuple[Place, ...] = ()
    fix: Fix | None = None
    function: str = ""
    """Dotted name of the enclosing function inside its module; empty where there is none to name."""
    hot: bool = False
    """Whether that is one of the project's `hot-functions`."""
    observed: Observed | None = None
    """What a trace saw there, if one was given and saw it."""


class Meta(Struct, frozen=True):
    """What a rule is called and what a file must contain to be worth parsing for it."""

    code: str
    name: str
    severity: Severity
    since: str
    needles: tuple[Needle, ...] = ()
    """A file without any of these has nothing for this rule: a byte string, or several that must all be there."""
    default: bool = True
    """Whether the rule runs without being selected. One that does not is opt-in: inside `strict-paths` it runs all the
    same, and what it finds there is an error."""
    nodes: tuple[str, ...] = ("Call",)
    """The libcst node types that the rule looks at, by class name."""
    pitfalls: tuple[Pitfall, ...] = ()
    """The mistakes beside a copy's verdict that the rule reports; they are looked for when it runs."""

    def finding(
        self,
        copy: Copy,
        message: str,
        *,
        help: str,
        severity: Severity | None = None,
        trace: Iterable[Place] | None = None,
    ) -> Finding:
        """A finding of this rule at `copy`, with the copy's own chain unless another is given."""
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity or self.severity,
            path=copy.path,
            span=copy.span,
            message=message,
            help=help,
            verdict=copy.verdict,
            trace=copy.trace if trace is None else tuple(trace),
            function=copy.function,
        )
