"""What one run of `check` has to say: the record between the run and the outputs."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from h2dlint.finding import Finding


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
