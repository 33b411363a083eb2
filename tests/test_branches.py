"""How the ways of a conditional copy are told apart: by what not all of them have in common, and no more than that."""

from __future__ import annotations

import ast

from h2dlint.facts.analyse import copies_of
from h2dlint.facts.copies import Branch
from h2dlint.facts.project import Project


def branches(text: str) -> list[tuple[bool | None, str]]:
    """The ways of the one copy of a text."""
    (copy,) = copies_of(Project(), "send.py", text, ast.parse(text))
    return [_told(branch) for branch in copy.branches]


def _told(branch: Branch) -> tuple[bool | None, str]:
    return branch.fake, branch.text


THROUGH_ONE_CALL = """
import torch


def send(values, device):
    return values.to(device, non_blocking=True)


def upload(values, device):
    return send(values, device)


def first(count, device):
    upload(torch.rand(count), device)


def second(count, device):
    upload(torch.rand(count, pin_memory=True), device)
"""


def test_the_call_is_named_that_not_all_ways_go_through() -> None:
    assert branches(THROUGH_ONE_CALL) == [(True, "called from line 14"), (False, "called from line 18")]


UNDER_A_TEST = """
import torch


def make(count, small):
    values = torch.zeros(count)
    if small:
        return [], values
    return [values[:2]], values


def send(values, device):
    return values.to(device, non_blocking=True)


def first(count, small, device):
    kept, values = make(count, small)
    send(values, device)


def second(count, device):
    send(torch.rand(count, pin_memory=True), device)
"""


def test_conditions_that_change_nothing_are_left_out() -> None:
    assert branches(UNDER_A_TEST) == [(True, "called from line 18"), (False, "called from line 22")]
