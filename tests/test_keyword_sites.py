"""Which calls of a text give a parameter a value by its keyword, and which methods take it."""

from __future__ import annotations

import pytest

from h2dlint.facts.keyword_sites import passes, takes

GIVEN = {
    "a call": "model.embed(ids, mask=torch.zeros(4))",
    "the last of several lines": "model.embed(\n    ids,\n    mask=first(\n        4),\n)",
    "after a text with a parenthesis": "model.embed(')', mask=made)",
    "after a comment with one": "model.embed(ids,  # first :)\n    mask=made)",
    "after a call in the arguments": "model.embed(pick(ids, 3), mask=made)",
    "a variable of that name": "def step(ids):\n    mask = made()\n    model.embed(ids, mask=mask)",
    "one of several that are assigned": "def step(ids, mask):\n    ids, mask = made()\n    model.embed(ids, mask=mask)",
    "part of a parameter of that name": "def step(ids, mask):\n    model.embed(ids, mask=mask[0])",
}
NOT_GIVEN = {
    "no keyword": "model.embed(ids, mask)",
    "another method": "model.pick(ids, mask=made)",
    "a longer name": "model.embed(ids, no_mask=made)",
    "another word in front": "model.re_embed(ids, mask=made)",
    "a comparison": "model.embed(ids, mask == made)",
    "a call in the arguments": "model.embed(pick(ids, mask=made))",
    "a text": "model.embed(ids, 'mask=made')",
    "the call after it": "model.embed(ids)\nother.pick(mask=made)",
    "the caller's own parameter": "def step(ids, mask=None):\n    model.embed(ids, mask=mask)",
    "the method that it overrides": "def embed(self, ids):\n    super().embed(ids, mask=made)",
    "a list of arguments without an end": "model.embed(ids, mask=",
}


@pytest.mark.parametrize("name", GIVEN)
def test_the_keyword_is_given(name: str) -> None:
    assert passes(GIVEN[name].encode(), "embed", "mask")


@pytest.mark.parametrize("name", NOT_GIVEN)
def test_the_keyword_is_not_given(name: str) -> None:
    assert not passes(NOT_GIVEN[name].encode(), "embed", "mask")


DEFINITION = b"""
class Model:
    def embed(
        self, ids, *, mask: dict[str, int] | None = (None),
    ) -> int:
        return last
"""


def test_a_method_takes_what_its_parameters_name() -> None:
    assert takes(DEFINITION, "embed", "mask")
    assert not takes(DEFINITION, "embed", "last")
    assert not takes(DEFINITION, "embedded", "mask")
