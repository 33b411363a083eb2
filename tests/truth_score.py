"""Hold the analyser's verdicts against the hardware table: each form ran on a GPU, under its profiler.

A form's setup and code become one module. What the GPU saw says what the verdict of the copy must be: an asked copy
from or into pageable memory is fake-async, an asked copy with pinned memory alone is async, a synchronising copy that
never asked is blocking, and where no byte crossed the bus there is no transfer (or no record at all).
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

from msgspec import Struct

from h2dlint.facts.analyse import copies_of
from h2dlint.facts.copies import Copy
from h2dlint.facts.project import Project
from h2dlint.probe.stored_forms import stored_tables

TABLE, MORE_FORMS = stored_tables()
PREAMBLE = 'import numpy as np\nimport torch\n\ndevice = torch.device("cuda")\n'


class Judged(Struct, frozen=True):
    """One form: what the GPU says and what the analyser says."""

    id: str
    expected: str
    got: frozenset[str]
    code: str

    @property
    def right(self) -> bool:
        """Whether the analyser says this verdict and no other."""
        return self.got == {self.expected}

    def __str__(self) -> str:
        return f"{self.id}: {self.expected} measured, got {', '.join(sorted(self.got))}\n{self.code}"


def expected_verdict(form: dict[str, Any]) -> str | None:
    """The verdict that the measurement demands; None for a form that cannot be judged (it raised, or shows nothing)."""
    if "raises" in form:
        return None
    crossing = [copy for copy in form["copies"] if copy["direction"] != "d2d"]
    waited = form["stream_syncs"] > 0
    if not crossing:
        return "no-transfer"
    if _asked(form) and not waited:
        return "fake-async" if any(copy["host_memory"] == "pageable" for copy in crossing) else "async"
    return "blocking" if waited else None


def judge_table(table: Path = TABLE) -> list[Judged]:
    """All forms of a table that can be judged, in the table's order."""
    project = Project()
    forms = json.loads(table.read_text("utf-8"))["forms"]
    return [_judge(project, form, verdict) for form in forms if (verdict := expected_verdict(form))]


def _asked(form: dict[str, Any]) -> bool:
    # `, True)` is the positional spelling; a keyword in the setup belongs to a helper or a dict of arguments.
    return "non_blocking" in form["code"] + form["setup"] or ", True)" in form["code"]


def _judge(project: Project, form: dict[str, Any], verdict: str) -> Judged:
    head = PREAMBLE + form["setup"]
    text = head + form["code"]
    copies = copies_of(project, form["id"].replace("-", "_") + ".py", text, ast.parse(text), every=True)
    if not _setup_holds_the_copy(form["setup"]):
        copies = _from_line(copies, head.count("\n") + 1)
    moving = frozenset(copy.verdict.value for copy in copies) - {"no-transfer"}
    return Judged(form["id"], verdict, moving or frozenset({"no-transfer"}), text)


def _setup_holds_the_copy(setup: str) -> bool:
    return "non_blocking" in setup and ("def " in setup or "lambda" in setup)


def _from_line(copies: list[Copy], line: int) -> list[Copy]:
    return [copy for copy in copies if copy.span.end_line >= line]
