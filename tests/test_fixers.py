"""Every fixer against its literate cases, and the proof that no fix changes a value.

A case (`fixer_cases/*.md`) has a title, the expected answer and the code before; where there is a fix, the code after;
and where both can be run, inputs for them.
"""

from __future__ import annotations

import ast
import fnmatch
import json
import re
from pathlib import Path

import pytest
import torch
from fixer_cases_format import Case, read_cases
from fixer_checks import all_fixed, answer_of, described_answer, sites_in
from fixer_proof import SIZES, described, keeps_strides, may_wait, run, run_behind_work, run_stood_in, traffic
from h2dlint.fixers import all_fixers
from hypothesis import given, settings
from hypothesis import strategies as st

from h2dlint.fixing import Refusal

CASES = read_cases()
FIXED = [case for case in CASES if case.after]
RUN = [case for case in FIXED if case.inputs]
ANYWHERE = [case for case in RUN if '"cuda"' not in case.before and ".cuda()" not in case.before]
"""Those that a machine without an accelerator can run as they are."""
DATA = Path(__file__).parent / "data" / "fixers_h200.json"


DOCS = Path(__file__).parents[1] / "docs"


def titles(cases: list[Case]) -> list[str]:
    return [case.title for case in cases]


@pytest.mark.parametrize("case", CASES, ids=titles(CASES))
def test_the_first_answer_is_the_expected_one(case: Case, tmp_path: Path) -> None:
    site = sites_in(tmp_path, case.before)[0]
    name, refuses, pattern = case.expected.partition(" refuses: ")
    if refuses:
        refused = answer_of(name, site)
        assert isinstance(refused, Refusal)
        assert fnmatch.fnmatchcase(refused.reason, pattern)
    elif case.expected.startswith("not "):
        assert not described_answer(site).startswith(case.expected.removeprefix("not "))
    else:
        assert fnmatch.fnmatchcase(described_answer(site), case.expected)


@pytest.mark.parametrize("case", FIXED, ids=titles(FIXED))
def test_the_fixed_code_reads_as_expected(case: Case, tmp_path: Path) -> None:
    assert all_fixed(tmp_path, case.before) == case.after


@pytest.mark.parametrize("case", FIXED, ids=titles(FIXED))
def test_nothing_is_left_to_report(case: Case, tmp_path: Path) -> None:
    ast.parse(case.after)
    assert sites_in(tmp_path, case.after) == []


def test_each_fixer_has_a_case() -> None:
    assert {fixer.name for fixer in all_fixers()} <= {case.fixer for case in CASES}


def test_titles_and_orders_are_distinct() -> None:
    fixers = all_fixers()
    assert len({fixer.title for fixer in fixers}) == len({fixer.order for fixer in fixers}) == len(fixers)


def test_the_guide_has_a_chapter_on_each_fixer_best_first() -> None:
    chapters = re.findall("^## (.+)$", (DOCS / "fixing.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert [title for title in chapters if title in {fixer.title for fixer in all_fixers()}] == [
        fixer.title for fixer in all_fixers()
    ]


def test_the_guide_tells_what_the_gpu_said() -> None:
    cases = json.loads(DATA.read_text(encoding="utf-8"))["cases"]
    slow = sum(row["before"]["pageable"] > 0 for row in cases)
    guide = " ".join((DOCS / "fixing.md").read_text(encoding="utf-8").split())
    assert f"Of the {len(cases)} cases" in guide
    assert f"{slow} had pageable copies" in guide


@pytest.mark.parametrize("case", RUN, ids=titles(RUN))
@given(sizes=st.tuples(st.integers(0, 9), st.integers(0, 9)), dtype_name=st.sampled_from(["int64", "int32", "float32"]))
@settings(max_examples=25, deadline=None)
def test_the_fix_changes_no_value(case: Case, sizes: tuple[int, int], dtype_name: str) -> None:
    """With an accelerator stood in for on the CPU: values, dtypes, shapes and strides."""
    dtype = getattr(torch, dtype_name)
    before, after = (run_stood_in(code, case, sizes, dtype) for code in (case.before, case.after))
    strides = keeps_strides(case)
    assert described(after, strides) == described(before, strides)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has an accelerator")
@pytest.mark.parametrize("case", ANYWHERE, ids=titles(ANYWHERE))
@given(sizes=st.tuples(st.integers(0, 9), st.integers(0, 9)))
@settings(max_examples=10, deadline=None)
def test_without_an_accelerator_the_fixed_code_runs_as_before(case: Case, sizes: tuple[int, int]) -> None:
    """There a transfer gives the tensor itself, with the strides that it has."""
    before, after = (run(code, case, sizes, torch.int64, "cpu") for code in (case.before, case.after))
    assert described(after, strides=False) == described(before, strides=False)


def test_what_the_gpu_said_is_kept() -> None:
    """The outcome of `fixer_proof.py` on one H200: for every case the CPU's values, and nothing pageable left."""
    kept = {row["case"]: row for row in json.loads(DATA.read_text(encoding="utf-8"))["cases"]}
    assert set(titles(RUN)) <= set(kept)
    for row in kept.values():
        assert row["after"]["right"]
        assert row["after"]["pageable"] == 0
        assert row["after"]["waits"] == 0 or may_wait(row["fixer"])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("case", RUN, ids=titles(RUN))
def test_on_a_gpu_only_pinned_copies_are_left_and_nobody_waits(case: Case) -> None:
    after = traffic(case.after, case, SIZES, torch.int64)
    assert after.pageable == 0
    assert after.waits == 0 or may_wait(case.fixer)
    outcome = run_behind_work(case.after, case, SIZES, torch.int64)
    right = run_stood_in(case.before, case, SIZES, torch.int64)
    assert described(outcome, keeps_strides(case)) == described(right, keeps_strides(case))
