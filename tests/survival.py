"""What must hold for any file, whatever is in it: h2dlint neither fails nor hangs, says the same twice, and its fixes
are sound. Each function raises an AssertionError that says what did not hold.
"""

from __future__ import annotations

import difflib
import os
import re
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from io import StringIO
from types import FrameType

from h2dlint.rules import all_rules
from random_programs import compiles

from h2dlint.engine import Fixing, Job, Outcome, look_at
from h2dlint.facts.options import FactOptions
from h2dlint.facts.project import Project
from h2dlint.finding import Applicability, Finding
from h2dlint.fixing.options import FixOptions
from h2dlint.output import COPY_FORMATS, FORMATS, write_copies, write_findings
from h2dlint.report import Report
from h2dlint.source import split_lines

FAILED = ("h2dlint itself failed", "crashed")
SECONDS = 60
"""CPU time after which a file counts as a hang: all of them take less than one second."""
_LINE_WITH_END = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$")


class Hang(Exception):
    """A file took more than its seconds."""


@contextmanager
def limited(seconds: float = SECONDS) -> Iterator[None]:
    """Ends with Hang what takes longer, in CPU time; nothing is limited where there is no such timer."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def too_long(number: int, frame: FrameType | None) -> None:
        raise Hang(f"more than {seconds} s")

    outer = signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, outer)


@lru_cache(maxsize=1)
def nowhere() -> str:
    """An empty folder: no module is found from there."""
    return tempfile.mkdtemp(prefix="h2dlint-nowhere-")


@lru_cache(maxsize=1)
def codes() -> tuple[str, ...]:
    """Every rule's code."""
    return tuple(rule.meta.code for rule in all_rules())


def looked_at(data: bytes, name: str = "case.py", inventory: bool = False, fixing: Fixing | None = None) -> Outcome:
    """What is said of a file with these bytes by every rule, notes included."""
    options = FactOptions(root=nowhere())
    job = Job(
        os.path.join(nowhere(), name), name, codes(), facts=options, show_unproven=True, inventory=inventory,
        fixing=fixing, data=data,
    )  # fmt: skip
    with limited():
        return look_at(Project(options), job)


def assert_survives(data: bytes, name: str = "case.py") -> None:
    """It is checked and listed without an internal error, and what is said can be shown in every format."""
    fixing = Fixing(FixOptions(), Applicability.UNSAFE, make=False)
    checked, listed = looked_at(data, name, fixing=fixing), looked_at(data, name, inventory=True)
    for finding in (*checked.findings, *checked.unproven, *listed.findings):
        assert not any(words in finding.message for words in FAILED), finding.message
    assert_inside(checked.findings, checked.text)
    for format in FORMATS:
        write_findings(report_of(checked), format, StringIO(), color=False, show_unproven=True)
    sources = {name: listed.text} if listed.text else {}
    for format in COPY_FORMATS:
        write_copies(listed.copies, sources, format, StringIO(), color=False)


def report_of(outcome: Outcome) -> Report:
    """A report of one file."""
    sources = {outcome.path: outcome.text} if outcome.text else {}
    return Report(outcome.findings, outcome.unproven, sources, 1, 1, len(outcome.suppressed), 0.0, False)


def assert_inside(findings: Sequence[Finding], text: str) -> None:
    """Every finding lies within the text; one about bytes that are no text has nothing to lie in."""
    if not text:
        return
    lines = split_lines(text)
    for finding in findings:
        span = finding.span
        assert 1 <= span.line <= span.end_line <= len(lines), (span, len(lines))
        assert span.end_column <= len(lines[span.end_line - 1]) + 1, (span, lines[span.end_line - 1])


def assert_says_the_same_again(data: bytes) -> None:
    """A second look at the same bytes says the same."""
    first, second = (looked_at(data, fixing=Fixing(FixOptions(), Applicability.UNSAFE, make=False)) for _ in range(2))
    assert first == second
    assert looked_at(data, inventory=True) == looked_at(data, inventory=True)


def assert_fixes_hold(data: bytes) -> int:
    """With every fix made the file still compiles, has nothing left to fix, and keeps its other lines to the byte.

    Answers how many fixes there were.
    """
    fixing = Fixing(FixOptions(), Applicability.UNSAFE, make=True)
    outcome = looked_at(data, fixing=fixing)
    if outcome.change is None:
        return 0
    change = outcome.change
    assert change.before == data
    assert compiles(change.new_text), change.new_text
    assert looked_at(change.after, fixing=fixing).change is None, "a second run changes something"
    assert_keeps_the_rest(data, change.after)
    return len(change.fixed)


def assert_keeps_the_rest(before: bytes, after: bytes) -> None:
    """Only whole statements change: line ends, the byte order mark and comments on lines of their own stay."""
    old, new = _LINE_WITH_END.findall(before), _LINE_WITH_END.findall(after)
    kept = sum(block.size for block in difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks())
    assert kept > 0 or len(old) < 3
    assert before.startswith(b"\xef\xbb\xbf") == after.startswith(b"\xef\xbb\xbf")
    assert [line for line in old if line.lstrip().startswith(b"#")] == [
        line for line in new if line.lstrip().startswith(b"#")
    ]
    ends = {line[len(line.rstrip(b"\r\n")) :] for line in old} - {b""}
    assert {line[len(line.rstrip(b"\r\n")) :] for line in new} - {b""} <= ends | {b"\n"}
