"""The analyser agrees with the hardware on forms it was not written against: some 2,100, each run on a GPU.

They go systematically through what the first table does not: indexing arithmetic, views, `out=`, casts, layouts, numpy,
containers, classes, control flow, modules, loaders, default devices, and the waits that no `non_blocking` announces.
"""

from __future__ import annotations

import pytest
from truth_score import MORE_FORMS, Judged, judge_table

SHARE_RIGHT_AT_LEAST = 0.93


@pytest.fixture(scope="module")
def judged() -> list[Judged]:
    """Every form of the second table that the measurement can judge, with the analyser's answer."""
    return judge_table(MORE_FORMS)


def test_no_copy_that_ran_from_pinned_memory_is_called_fake(judged: list[Judged]) -> None:
    slandered = [form for form in judged if form.expected == "async" and "fake-async" in form.got]
    assert not slandered, f"{len(slandered)} pinned copies are called fake:\n\n{_listing(slandered)}"


def test_most_forms_are_judged_as_the_gpu_did(judged: list[Judged]) -> None:
    wrong = [form for form in judged if not form.right]
    share = 1 - len(wrong) / len(judged)
    assert share >= SHARE_RIGHT_AT_LEAST, f"{share:.3f} of the forms right; wrong are:\n\n{_listing(wrong)}"


def test_every_form_has_a_name_of_its_own(judged: list[Judged]) -> None:
    assert len({form.id for form in judged}) == len(judged)


def _listing(forms: list[Judged]) -> str:
    return "\n\n".join(str(form) for form in forms)
