"""The stalls that h2dlint exists for, end to end: finding, rewrite, same values, and the wrong turn not taken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from fixer_cases_format import SCENARIOS, Case, read_cases
from fixer_checks import all_fixed, described_answer, sites_in
from fixer_proof import described, run_stood_in
from h2dlint.rules import codes_for
from hypothesis import given, settings
from hypothesis import strategies as st

CASES = read_cases(SCENARIOS)
TITLES = [case.title for case in CASES]
scenarios = pytest.mark.parametrize("case", CASES, ids=TITLES)


@scenarios
def test_the_stall_is_found_with_its_chain(case: Case, tmp_path: Path) -> None:
    copy = sites_in(tmp_path, case.before)[0].copy
    assert codes_for(copy) == [case.finding]
    assert copy.trace


@scenarios
def test_the_rewrite_is_the_right_one(case: Case, tmp_path: Path) -> None:
    assert described_answer(sites_in(tmp_path, case.before)[0]) == case.expected
    assert all_fixed(tmp_path, case.before) == case.after
    assert sites_in(tmp_path, case.after) == []


@scenarios
def test_the_wrong_turn_is_not_taken(case: Case) -> None:
    added = set(case.after.splitlines()) - set(case.before.splitlines())
    assert not any(re.search(case.wrong_turn, line) for line in added)


@scenarios
@given(sizes=st.tuples(st.integers(0, 9), st.integers(0, 9)))
@settings(max_examples=25, deadline=None)
def test_the_rewrite_changes_no_value(case: Case, sizes: tuple[int, int]) -> None:
    before, after = (run_stood_in(code, case, sizes, torch.int64) for code in (case.before, case.after))
    assert described(after) == described(before)


def test_the_table_in_the_guide_has_a_row_for_each() -> None:
    table = (Path(__file__).parents[2] / "docs" / "scenarios.md").read_text(encoding="utf-8")
    rows = {
        match[1]: match[2] for match in re.finditer(r"^\| (\d+b?\. .+?) \| .+? \| (HTD\d+) \|", table, re.MULTILINE)
    }
    assert rows == {case.title: case.finding for case in CASES}
