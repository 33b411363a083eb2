"""Which call of a file a frame is at, whatever Python keeps of it."""

from __future__ import annotations

import functools
import sys
from types import FrameType

import pytest

from h2dlint.facts.copies import Span
from h2dlint.source import load
from h2dlint.trace.call_site import Calls, Site, Sites


class Tensor:
    """Notes the frame that calls it, as the hooks do."""

    def __init__(self) -> None:
        self.sites: list[Site] = []
        self._note = Sites()

    def to(self, *arguments: object, **keywords: object) -> Tensor:
        return self._noted(sys._getframe(1))

    cuda = to

    def __getitem__(self, key: object) -> Tensor:
        return self._noted(sys._getframe(1))

    def __setitem__(self, key: object, value: object) -> None:
        self._noted(sys._getframe(1))

    def _noted(self, frame: FrameType) -> Tensor:
        self.sites.append(self._note.site(frame))
        return self


PLACES: dict[str, tuple[str, str, tuple[int, int, int, int]]] = {
    "one line": ("y = x.to(1)\n", "to", (1, 5, 1, 12)),
    "several lines": ("y = x.to(\n    1,\n)\n", "to", (1, 5, 3, 2)),
    "a method on a line of its own": ("y = (\n    x\n    .to(\n        1)\n)\n", "to", (2, 5, 4, 11)),
    "an attribute before it": ("class O: pass\no = O()\no.x = x\ny = o.x.to(1)\n", "to", (4, 5, 4, 14)),
    "behind wide characters": ('y = ("äöü", x.to(1))\n', "to", (1, 13, 1, 20)),
    "an item": ("y = x[\n    1\n]\n", "__getitem__", (1, 5, 3, 2)),
    "an item that is set": ("x[1,\n  2] = 3\n", "__setitem__", (1, 1, 2, 5)),
    "a comprehension": ("y = [x.to(i) for i in (1,)]\n", "to", (1, 6, 1, 13)),
    "a function of the user's": ("def f(t):\n    return t.to(1)\n\n\nf(x)\n", "to", (2, 12, 2, 19)),
    "by another name": ("go = x.to\ngo(1)\n", "to", (2, 1, 2, 6)),
    "behind a byte order mark": ("\ufeffy = x.to(1)\n", "to", (1, 5, 1, 12)),
}


@pytest.mark.parametrize(("text", "name", "expected"), PLACES.values(), ids=PLACES.keys())
def test_a_frame_leads_to_its_call(text: str, name: str, expected: tuple[int, int, int, int]) -> None:
    (site,), calls = ran(text)
    assert calls.find(site, name) == Span(*expected)


def test_two_calls_on_a_line_are_told_apart() -> None:
    sites, calls = ran("y = x.to(1).to(2)\n")
    spans = [calls.find(site, "to") for site in sites]
    # Before 3.11 there is only the line, and a guess would put one's cost on the other.
    assert spans == ([Span(1, 5, 1, 12), Span(1, 5, 1, 18)] if sys.version_info >= (3, 11) else [None, None])


@pytest.mark.parametrize(("text", "name", "expected"), PLACES.values(), ids=PLACES.keys())
def test_without_columns_the_name_and_its_line_lead_there(
    text: str, name: str, expected: tuple[int, int, int, int]
) -> None:
    (site,), calls = ran(text)
    line_only = Site(site.file, site.function, site.line)
    assert calls.find(line_only, name) == Span(*expected)


def test_code_that_is_not_in_the_file_is_not_found() -> None:
    _, calls = ran("y = x.to(1)\n")
    assert calls.find(Site("a.py", "f", 9, 9, 0, 3), "to") is None


class Box:
    """Lets a function of the standard library call one of ours."""

    @functools.cached_property
    def frame(self) -> FrameType:
        """The frame of `functools` that asks for this value."""
        return sys._getframe(1)


def test_frames_of_the_library_are_passed_over() -> None:
    # A thread of a pool, a decorator, a context manager: nothing in these files is the user's to mend.
    library = Box().frame
    assert library.f_code.co_filename == functools.__file__
    assert Sites().frame_of(library).f_code.co_name == "test_frames_of_the_library_are_passed_over"


def ran(text: str) -> tuple[list[Site], Calls]:
    """Where a text calls `x`, and the calls in it."""
    x = Tensor()
    source = load("snippet.py", text.encode())
    assert source.tree is not None
    exec(compile(source.text, "snippet.py", "exec"), {"x": x})
    return x.sites, Calls(source.text, source.tree)
