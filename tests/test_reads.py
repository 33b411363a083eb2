"""What a loop reads: a name that no turn reads may change without another turn seeing it."""

from __future__ import annotations

import ast

import pytest

from h2dlint.facts.reads import read_in

FILLED_ONLY = {
    "appended": "found.append(item)",
    "stored by key": "found[item.key] = item",
    "stored deeper": "found[item.key][0] = item",
    "appended to an entry": "found.setdefault(item.key, []).append(item)",
    "added to an entry": "found[item.key].add(item)",
    "rebound": "found = item",
}
READ = {
    "indexed": "last = found[-1]",
    "iterated": "other = [one for one in found]",
    "tested": "if found:\n        item.go()",
    "handed on": "go(found)",
    "handed on while filled": "found.append(found)",
    "its index": "other[found] = item",
    "its attribute": "item.go(found.size)",
    "its method": "found.sort()",
    "used in a nested function": "hooks.append(lambda: found)",
}


def _reads(body: str, name: str) -> bool:
    (loop,) = ast.parse(f"for item in items:\n    {body}\n").body
    return not read_in(loop).isdisjoint([name])


@pytest.mark.parametrize("body", FILLED_ONLY.values(), ids=FILLED_ONLY.keys())
def test_what_is_only_filled_is_not_read(body: str) -> None:
    assert not _reads(body, "found")
    assert not _reads(body.replace("found", "self.found"), "self.found")


@pytest.mark.parametrize("body", READ.values(), ids=READ.keys())
def test_what_is_looked_at_is_read(body: str) -> None:
    assert _reads(body, "found")
    assert _reads(body.replace("found", "self.found"), "self.found")


def test_a_method_may_read_any_attribute_of_its_object() -> None:
    assert _reads("self.found.append(item)\n    self.go()", "self.found")
    assert _reads("thing.part.go()", "thing.part.size")
    assert not _reads("self.found.append(item)\n    other.go()", "self.found")
