"""What one run of `check` has to say: the record between the run and the outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from h2dlint.facts.copies import Span
from h2dlint.finding import Applicability, Finding

Key = tuple[Span, str]
"""What tells one finding of a file from another: its place and its code."""
FindingKey = tuple[str, Span, str]
"""Path, place and code of a finding."""


class Fixed(Struct, frozen=True):
    """A fix that was made."""

    path: str
    code: str
    title: str
    applicability: Applicability
    span: Span
    """Where the copy was when its turn came; fixes made before it may have moved it."""
    message: str
    """What was said of it."""
    into: tuple[str, ...] = ()
    """The other files that were changed for it."""


def changed_files(fixed: Iterable[Fixed]) -> set[str]:
    """The files that these fixes changed."""
    return {path for one in fixed for path in (one.into or (one.path,))}


class Report(Struct, frozen=True):
    """Every finding of a run, in stable order by path and position, and the figures of its summary."""

    findings: tuple[Finding, ...]
    """What is to be shown: neither suppressed nor a hidden note about an unproven copy."""
    unproven: tuple[Finding, ...]
    """The notes about unproven copies, listed only on request; empty in a strict run, where they are errors."""
    sources: Mapping[str, str]
    """The text of every file that has a finding, by its path as shown."""
    files_checked: int
    """Files that held something to look at and were parsed."""
    files_seen: int
    """All files found."""
    suppressed: int
    """Findings silenced by a comment."""
    seconds: float
    """Wall time of the run."""
    strict: bool
    """Whether unproven copies count as errors."""
    fixed: tuple[Fixed, ...] = ()
    """The fixes that were made, by path."""
    refusals: Mapping[FindingKey, str] = {}
    """Why a finding has no fix, where fixes were looked for."""
    changes: Mapping[str, tuple[str, str]] = {}
    """The old and the new text of every file that was fixed, by path."""
    rewritten: Mapping[str, bytes] = {}
    """The new bytes of every file that was fixed, by path."""
    accepted: int = 0
    """Known findings, which are not among them: a baseline's, or those that rest on no changed line."""
    gone: int = 0
    """Findings of the baseline that are no more."""
    seen: frozenset[str] = frozenset()
    """The absolute paths of the files that were looked for something to check."""
    dependents: int = 0
    """Files that were analysed because their facts came from the given ones."""
    read_beyond: int = 0
    """Modules that were read only for what they define, in a verbose run."""
    stale: tuple[str, ...] = ()
    """Files that have changed since the trace: what it saw there is left out."""
    untraced: bool = False
    """Whether there is a trace, and it is about other files."""
    left_alone: Mapping[str, str] = {}
    """Files that could not be written, with the reason; their findings are those of the file as it is."""

    def refusal(self, finding: Finding) -> str:
        """Why there is no fix for a finding of this report; empty where there is one, or none was looked for."""
        return self.refusals.get((finding.path, finding.span, finding.code), "")
