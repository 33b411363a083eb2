"""Findings that are known and not to be reported, and by what a finding is known while lines move.

A finding's fingerprint is its rule, its path, the function it stands in, and the normalised text of the copy.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from h2dlint.finding import Finding, Severity
from h2dlint.notebooks import is_notebook
from h2dlint.regions import Lines

Identity = tuple[str, str, str]
"""Code, function and normalised text: a fingerprint within its file."""


class Accepted(Struct, frozen=True):
    """So many findings of one file with this fingerprint are not reported."""

    code: str
    function: str
    text: str
    count: int = 1

    @property
    def identity(self) -> Identity:
        """What the findings meant have in common."""
        return self.code, self.function, self.text


def identities(findings: Sequence[Finding], text: str) -> list[Identity]:
    """The identity of each finding of a file whose text is `text`.

    A notebook's text may be its file, or the module that its cells are: a copy has one identity in both.
    """
    if text.startswith("{") and any(is_notebook(finding.path) for finding in findings):
        return [_identity_in_cell(finding, text) for finding in findings]
    lines = Lines.of(text)
    return [(finding.code, finding.function, _normalised(_piece(finding, lines))) for finding in findings]


def _identity_in_cell(finding: Finding, file_text: str) -> Identity:
    from h2dlint.notebooks.view import CellView

    cells = CellView({finding.path: file_text})
    inside = cells.finding(finding)
    return finding.code, finding.function, _normalised(_piece(inside, Lines.of(cells.source(inside.path) or "")))


def hashes(findings: Sequence[Finding], text: str) -> list[str]:
    """A stable fingerprint for each finding of a file: 64 hexadecimal digits, the same wherever its lines are."""
    from hashlib import sha256

    seen: Counter[Identity] = Counter()
    found: list[str] = []
    for finding, identity in zip(findings, identities(findings, text), strict=True):
        parts = (finding.path, *identity, str(seen[identity]))
        seen[identity] += 1
        found.append(sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest())
    return found


def counted(findings: Sequence[Finding], text: str) -> list[Accepted]:
    """What to accept so that these findings of a file are not reported again. Notes never need that."""
    grave = [finding for finding in findings if finding.severity is not Severity.NOTE]
    return [Accepted(*identity, count) for identity, count in sorted(Counter(identities(grave, text)).items())]


class Sifted(Struct, frozen=True):
    """The findings of a file, told apart by what is accepted."""

    kept: tuple[Finding, ...]
    taken: tuple[Accepted, ...]
    """What accepting took away."""


def sift(findings: Sequence[Finding], accepted: Iterable[Accepted], text: str) -> Sifted:
    """Takes out what is accepted: of several findings that look the same the first ones."""
    left: Counter[Identity] = Counter()
    for one in accepted:
        left[one.identity] += one.count
    if not left:
        return Sifted(tuple(findings), ())
    kept: list[Finding] = []
    taken: Counter[Identity] = Counter()
    for finding, identity in zip(findings, identities(findings, text), strict=True):
        if left[identity] > taken[identity]:
            taken[identity] += 1
        else:
            kept.append(finding)
    return Sifted(tuple(kept), tuple(Accepted(*identity, count) for identity, count in taken.items()))


def _piece(finding: Finding, lines: Lines) -> str:
    if not 1 <= finding.span.line <= finding.span.end_line <= len(lines.starts):
        return ""
    start, end = lines.span_offsets(finding.span)
    return lines.text[start:end]


def _normalised(piece: str) -> str:
    """The text as Python's own printer would write it, so that a formatter changes nothing."""
    try:
        return ast.unparse(ast.parse(f"({piece}\n)", mode="eval"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return " ".join(piece.split())
