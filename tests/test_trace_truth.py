"""A trace agrees with CUDA's profiler, and the analyser with the trace: what ran on a GPU (trace_proof.py), read again.

A trace that disagreed with the hardware would refute right findings, so every disagreement is named here.
"""

from __future__ import annotations

import ast
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from truth_score import MORE_FORMS, PREAMBLE, TABLE

from h2dlint.facts.analyse import copies_of
from h2dlint.facts.project import Project

EXAMPLES = Path(__file__).parent.parent / "examples"
MEASURED: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "trace_h200.json").read_text("utf-8"))
ROWS: list[dict[str, Any]] = MEASURED["forms"]
RIGHT_AT_LEAST = 0.98

OPERATOR = "an operator waits inside, which no Python name of torch's announces"
UNSEEN = {
    "cuda-floattensor-list": "the legacy tensor types are no functions, and are not watched",
    "wait-more-legacy-class": "the legacy tensor types are no functions, and are not watched",
    **dict.fromkeys(
        (
            *("wait-repeat-interleave-device", "wait-bincount", "wait-bincount-minlength", "wait-one-hot"),
            *("wait-histc", "wait-zeros-of-gpu-size", "wait-full-of-gpu-value", "wait-arange-of-gpu"),
            *("wait-arange-of-gpu-on-device", "wait-combinations", "wait-more-full-device-scalar"),
            *("wait-more-new-full-item", "wait-more-linspace-device-scalar"),
        ),
        OPERATOR,
    ),
}
"""Forms of which a trace does not see everything that the profiler sees, with the reason."""

CONTRADICTED = {"complex-conj-up": "a conjugated view is resolved on the host"}
"""Forms that the analyser takes to be asynchronous, and the trace and the profiler do not: what an oracle is for."""


def forms() -> dict[tuple[str, str], dict[str, Any]]:
    """Every form that ran, by table and name."""
    found = {("more", row["id"]): row for row in ROWS if row["table"] == "more"}
    for table in (TABLE, MORE_FORMS):
        for form in json.loads(table.read_text("utf-8"))["forms"]:
            found[table.name, form["id"]] = form
    return found


FORMS = forms()


def of_table(name: str) -> list[dict[str, Any]]:
    """The rows of one table, without the forms that raised."""
    rows = [row for row in ROWS if row["table"] == name]
    return [row for row in rows if "raises" not in row and "raises" not in FORMS[name, row["id"]]]


def tags_of(row: dict[str, Any]) -> tuple[dict[str, int], bool]:
    """What the trace says, as a profiler would: copies by direction and memory, and whether something waited."""
    tags: Counter[str] = Counter()
    for *_, direction, _, pageable, pinned in row["seen"]:
        tags.update({f"{direction} pageable": pageable, f"{direction} pinned": pinned})
    return {tag: number for tag, number in tags.items() if number}, any(one[6] == "blocking" for one in row["seen"])


def profiled(row: dict[str, Any]) -> tuple[dict[str, int], bool]:
    """What the tables have of the same form, as the profiler said it."""
    form = FORMS[row["table"], row["id"]]
    if "profile" in form:
        return form["profile"]["copies"], form["profile"]["stream_syncs"] > 0
    crossing = [copy for copy in form["copies"] if copy["direction"] != "d2d"]
    return {f"{one['direction']} {one['host_memory']}": one["count"] for one in crossing}, form["stream_syncs"] > 0


@pytest.mark.parametrize("table", [TABLE.name, MORE_FORMS.name, "more"])
def test_a_trace_says_what_the_profiler_says(table: str) -> None:
    rows = of_table(table)
    wrong = {row["id"] for row in rows if tags_of(row) != profiled(row)}
    assert wrong == {row["id"] for row in rows} & UNSEEN.keys()
    assert 1 - len(wrong) / len(rows) >= RIGHT_AT_LEAST


def test_the_profiler_said_the_same_of_the_very_run() -> None:
    rows = [row for row in of_table(TABLE.name) if "profile" in row]
    live = {row["id"]: (row["profile"]["copies"], row["profile"]["stream_syncs"] > 0) for row in rows}
    assert len(rows) == len(of_table(TABLE.name))
    assert {row["id"] for row in rows if tags_of(row) != live[row["id"]]} <= UNSEEN.keys()


def test_nothing_is_seen_that_did_not_happen() -> None:
    for row in (row for table in (TABLE.name, MORE_FORMS.name, "more") for row in of_table(table)):
        seen, _ = tags_of(row)
        happened, _ = profiled(row)
        assert all(happened.get(tag, 0) >= number for tag, number in seen.items()), row["id"]


# The analyser, copy by copy

PROVEN = {"fake-async", "async", "blocking", "no-transfer"}


def static_verdicts(project: Project, name: str, text: str) -> dict[tuple[int, ...], str]:
    """The analyser's verdict on each call of a module, by its range."""
    copies = copies_of(project, name, text, ast.parse(text), every=True)
    return {
        (one.span.line, one.span.column, one.span.end_line, one.span.end_column): one.verdict.value for one in copies
    }


def test_the_analyser_says_of_each_copy_what_the_trace_says() -> None:
    project = Project()
    agreed: Counter[bool] = Counter()
    contradicted: set[str] = set()
    for row in (row for table in (TABLE.name, MORE_FORMS.name, "more") for row in of_table(table)):
        form = FORMS[row["table"], row["id"]]
        text = PREAMBLE + form["setup"] + form["code"]
        static = static_verdicts(project, row["id"].replace("-", "_") + ".py", text)
        ran: dict[tuple[int, ...], set[str]] = defaultdict(set)
        for line, column, end_line, end_column, _, _, verdict, _, _ in row["seen"]:
            ran[line, column, end_line, end_column].add(verdict)
        for span, verdicts in ran.items():
            said = static.get(span)
            if said in PROVEN:
                agreed[verdicts == {said}] += 1
                if verdicts != {said}:
                    contradicted.add(row["id"])
    assert contradicted == set(CONTRADICTED)
    assert agreed[True] > 1900


@pytest.mark.parametrize("program", ["training_step.py", "serving_step.py"])
def test_the_examples_ran_as_the_analyser_says(program: str) -> None:
    path = EXAMPLES / program
    text = path.read_text("utf-8")
    static = copies_of(Project(), str(path), text, ast.parse(text), every=True)
    by_name: dict[tuple[str, str], list[str]] = defaultdict(list)
    for copy in sorted(static, key=lambda one: (one.span.line, one.span.column)):
        by_name[copy.function, copy.call].append(copy.verdict.value)
    fakes = 0
    for function, call, verdict in seen_in(program, fixes=False):
        said = by_name.get((function, call), [])
        if verdict == "fake-async":
            fakes += 1
            assert set(said) & {"fake-async", "conditional"}, (function, call, said)
        elif verdict == "async":
            assert set(said) & {"async", "conditional"}, (function, call, said)
    assert fakes == {"training_step.py": 4, "serving_step.py": 7}[program]


@pytest.mark.parametrize("program", ["training_step.py", "serving_step.py"])
def test_after_the_fixes_no_copy_only_asked(program: str) -> None:
    verdicts = Counter(verdict for _, _, verdict in seen_in(program, fixes=True))
    assert verdicts["fake-async"] == 0
    assert verdicts["async"] >= 3


def seen_in(program: str, fixes: bool) -> list[tuple[str, str, str]]:
    """Function, call and verdict of everything that a trace of an example saw."""
    ran = next(one for one in MEASURED["examples"] if one["program"] == program and one["fixes"] is fixes)
    return [(one["function"], one["call"], one["verdict"]) for one in ran["copies"]]
