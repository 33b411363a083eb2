"""`h2dlint probe --truth`: how two runs of the same forms are compared, and what is stored."""

from __future__ import annotations

import pytest

from h2dlint.probe.stored_forms import SeenCopy, StoredForm, read_table, stored_tables
from h2dlint.probe.truth import Event, Seen, compare, copy_kind, kind_of_difference, marks_of, seen_between, stored

UP_PAGEABLE = SeenCopy("h2d", "pageable", 1)
UP_PINNED = SeenCopy("h2d", "pinned", 1)
DOWN_PINNED = SeenCopy("d2h", "pinned", 1)


def test_the_stored_tables_can_be_read_and_name_each_form_once() -> None:
    tables = [read_table(path) for path in stored_tables()]
    ids = [form.id for table in tables for form in table.forms]
    assert len(ids) == len(set(ids)) == 2401
    assert {table.gpu for table in tables} == {"NVIDIA H200"}


def test_every_stored_form_is_a_program() -> None:
    for path in stored_tables():
        for form in read_table(path).forms:
            compile(form.setup, form.id, "exec")
            compile(form.code, form.id, "exec")


NAMES = {
    "Memcpy HtoD (Pageable -> Device)": ("h2d", "pageable"),
    "Memcpy HtoD (Pinned -> Device)": ("h2d", "pinned"),
    "Memcpy DtoH (Device -> Pageable)": ("d2h", "pageable"),
    "Memcpy DtoH (Device -> Pinned)": ("d2h", "pinned"),
    "Memcpy DtoD (Device -> Device)": ("d2d", None),
    "cudaMemcpyAsync": None,
    "Memset (Device)": None,
    "aten::copy_": None,
}


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_is_known_by_its_name_in_the_profile(name: str) -> None:
    assert copy_kind(name) == NAMES[name]


def test_what_happens_between_two_moments_is_counted() -> None:
    events = [
        Event("Memcpy HtoD (Pageable -> Device)", 5, 6, on_device=True),
        Event("cudaMemcpyAsync", 11, 12),
        Event("Memcpy HtoD (Pinned -> Device)", 13, 14, on_device=True),
        Event("Memcpy HtoD (Pinned -> Device)", 15, 16, on_device=True),
        Event("cudaStreamSynchronize", 17, 18),
        Event("cudaDeviceSynchronize", 19, 20),
        Event("cudaStreamSynchronize", 25, 26),
    ]
    assert seen_between(events, 10, 21) == Seen((SeenCopy("h2d", "pinned", 2),), 1)


def test_a_mark_on_the_host_is_not_taken_for_its_shadow_on_the_device() -> None:
    """The profiler shows a mark a second time, as the span of what the GPU did in it: waits of the host lie outside."""
    host, device = Event("form 3", 10, 90), Event("form 3", 40, 50, on_device=True)
    assert marks_of([host, device], "form ") == marks_of([device, host], "form ") == {"3": host}


DIFFERENCES = {
    "the same": (Seen((UP_PINNED,)), Seen((UP_PINNED,)), ""),
    "other memory": (Seen((UP_PAGEABLE,)), Seen((UP_PINNED,)), "memory"),
    "a wait that was not there": (Seen((UP_PINNED,)), Seen((UP_PINNED,), 1), "waits"),
    "a wait that is gone": (Seen((UP_PAGEABLE,), 1), Seen((UP_PAGEABLE,)), "waits"),
    "no copy any more": (Seen((UP_PAGEABLE,)), Seen(), "copies"),
    "another direction": (Seen((UP_PINNED,)), Seen((DOWN_PINNED,)), "copies"),
    "it raises now": (Seen((UP_PINNED,)), Seen(raises="RuntimeError"), "raises"),
    "it raises something else": (Seen(raises="TypeError"), Seen(raises="RuntimeError"), "raises"),
    "it raises as before": (Seen(raises="TypeError"), Seen(raises="TypeError"), ""),
    "more waits of one form": (Seen((DOWN_PINNED,), 21), Seen((DOWN_PINNED,), 22), ""),
    "more copies of one kind": (
        Seen((SeenCopy("d2h", "pinned", 20),), 1),
        Seen((SeenCopy("d2h", "pinned", 21),), 1),
        "",
    ),
}


@pytest.mark.parametrize("case", DIFFERENCES)
def test_two_runs_of_a_form(case: str) -> None:
    before, after, kind = DIFFERENCES[case]
    assert kind_of_difference(before, after) == kind


def test_a_comparison_lists_what_differs_in_the_order_of_the_forms() -> None:
    forms = [
        StoredForm("a", "x = 1\n", "y = x\n", (UP_PAGEABLE,)),
        StoredForm("b", "", "y = 2\n", (UP_PINNED,), 1),
        StoredForm("c", "", "y = 3\n", raises="TypeError"),
        StoredForm("not run here", "", "y = 4\n"),
    ]
    here = {"c": Seen(), "b": Seen((UP_PINNED,), 1), "a": Seen((UP_PINNED,))}
    found = compare(forms, here)
    assert [(one.id, one.kind) for one in found] == [("a", "memory"), ("c", "raises")]
    assert found[0].code == "x = 1\ny = x"
    assert found[0].stored == stored(forms[0])


def test_what_a_form_did_is_told_in_words() -> None:
    assert Seen((UP_PAGEABLE,), 1).words == "h2d from pageable, waits"
    assert (
        Seen((SeenCopy("d2h", "pinned", 2), SeenCopy("d2d", None, 1)), 3).words
        == "2 x d2h into pinned, d2d, waits 3 times"
    )
    assert Seen().words == "no copy, no wait"
    assert Seen(raises="RuntimeError").words == "raises RuntimeError"
