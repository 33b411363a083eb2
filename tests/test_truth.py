"""The analyser agrees with the hardware: 295 small forms that ran under a GPU's profiler."""

from __future__ import annotations

import pytest
from truth_score import Judged, judge_table

RIGHT_AT_LEAST = 286


@pytest.fixture(scope="module")
def judged() -> list[Judged]:
    """Every form of the table that the measurement can judge, with the analyser's answer."""
    return judge_table()


def test_nearly_every_form_is_judged_as_the_gpu_did(judged: list[Judged]) -> None:
    wrong = [form for form in judged if not form.right]
    right = len(judged) - len(wrong)
    listing = "\n\n".join(str(form) for form in wrong)
    assert right >= RIGHT_AT_LEAST, f"{right} of {len(judged)} forms right; wrong are:\n\n{listing}"


def test_no_copy_that_ran_from_pinned_memory_is_called_fake(judged: list[Judged]) -> None:
    slandered = [form for form in judged if form.expected == "async" and "fake-async" in form.got]
    assert not slandered, "\n\n".join(str(form) for form in slandered)


def test_the_table_is_judged_almost_whole(judged: list[Judged]) -> None:
    assert len(judged) >= RIGHT_AT_LEAST
