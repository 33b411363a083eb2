"""The forms that `h2dlint probe` times: each is a program, and the analyser says of it what the probe takes it for."""

from __future__ import annotations

import ast

import pytest

from h2dlint.facts.analyse import copies_of
from h2dlint.facts.project import Project
from h2dlint.probe.forms_table import (
    DOWNLOADS,
    PINNING,
    POSITION_IDS,
    SLICES,
    STEPS,
    UPLOADS,
    Form,
    Template,
    waiting_forms,
)
from h2dlint.probe.stored_forms import PREAMBLE

TABLES = {
    "upload": UPLOADS,
    "step": STEPS,
    "slice": SLICES,
    "ids": POSITION_IDS,
    "download": DOWNLOADS,
    "pinning": PINNING,
}
TEMPLATES = {f"{table}-{name}": (name, one) for table, forms in TABLES.items() for name, one in forms.items()}
WAITS = {form.code: (form, waits) for form, waits in waiting_forms()}


def verdicts(form: Form) -> set[str]:
    """What the analyser says of the copies of a form's code, its setup being another matter."""
    head = PREAMBLE + form.setup
    text = f"{head}{form.code}\n"
    copies = copies_of(Project(), "form.py", text, ast.parse(text), every=True)
    return {copy.verdict.value for copy in copies if copy.span.line > head.count("\n")} - {"no-transfer"}


def filled(name: str, template: Template) -> Form:
    return template.of(name, size=32 << 10, rows=3, copies=6)


@pytest.mark.parametrize("one", TEMPLATES)
def test_a_form_is_a_program_with_its_sizes_filled_in(one: str) -> None:
    form = filled(*TEMPLATES[one])
    compile(form.setup, one, "exec")
    compile(form.code, one, "exec")
    assert "{size}" not in form.setup + form.code and "{rows}" not in form.setup + form.code


EXPECTED = {
    "upload-pageable": {"fake-async"},
    "upload-pinned": {"async"},
    "step-pageable": {"fake-async"},
    "step-snapshot": {"async"},
    "step-resident": {"async"},
    "slice-gapped": {"fake-async"},
    "slice-rows": {"async"},
    "slice-gathered": {"async"},
    "slice-whole": {"async"},
    "slice-pageable": {"fake-async"},
    "ids-host": {"fake-async"},
    "ids-pinned": {"async"},
    "ids-device": set(),
    "download-into-pageable": {"fake-async"},
    "download-into-gapped": {"fake-async"},
    "download-into-pinned": {"async"},
    "download-to-cpu": {"async"},
    "download-cpu": {"blocking"},
    "pinning-pin": set(),
    "pinning-clone": set(),
}


@pytest.mark.parametrize("one", TEMPLATES)
def test_the_analyser_judges_a_form_as_its_kind_says(one: str) -> None:
    assert verdicts(filled(*TEMPLATES[one])) == EXPECTED[one]


@pytest.mark.parametrize("code", WAITS)
def test_what_is_said_to_wait_is_what_the_analyser_says(code: str) -> None:
    form, waits = WAITS[code]
    assert ("blocking" in verdicts(form)) == waits
