"""The pytest plugin: a test that asks for it fails where a copy asked to be asynchronous and was not.

    def test_step(no_fake_async):
        trainer.step(batch)

    @pytest.mark.no_fake_async(waits=True)      # any hidden wait as well: `.item()`, an index on the host, ...
    def test_decode(): ...

pytest loads this in every run, so it imports nothing but pytest: torch and the recording come with the first test that
asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from h2dlint.trace.session import Recording
    from h2dlint.trace.trace_file import Seen

NAME = "no_fake_async"
_MARKER = (
    f"{NAME}(waits=False, larger_than=0): fail where a copy asks for non_blocking and is not asynchronous; waits=True: "
    "where anything between host and device makes the host wait; larger_than: only for calls of more bytes"
)
_BLIND = pytest.StashKey[int]()
"""How many tests have asked where no accelerator was used, so that nothing could be seen."""


class NoFakeAsync:
    """What the fixture gives: settings for this test, and the exemption."""

    def __init__(self, waits: bool = False, larger_than: int = 0) -> None:
        self.waits = waits
        """Whether transfers fail the test that never asked to be asynchronous."""
        self.larger_than = larger_than
        """Bytes: calls that moved no more are let pass."""

    def allow_sync(self) -> AbstractContextManager[None]:
        """Exempts what happens in the block."""
        from h2dlint.trace import allow_sync

        return allow_sync()


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker known."""
    config.addinivalue_line("markers", _MARKER)
    config.stash[_BLIND] = 0


@pytest.fixture
def no_fake_async(request: pytest.FixtureRequest) -> NoFakeAsync:
    """Fails the test if one of its copies asks for `non_blocking` and is not asynchronous."""
    return _asked(request.node)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Watches the test itself, not its fixtures, and fails it for what it copied."""
    if item.get_closest_marker(NAME) is None and NAME not in getattr(item, "fixturenames", ()):
        return (yield)
    try:
        from h2dlint.trace import record

        recording = record()
        seen = recording.__enter__()
    except ImportError:
        pytest.fail(f"`{NAME}` needs torch: pip install 'h2dlint[torch]'", pytrace=False)
    try:
        result = yield
    finally:
        recording.__exit__(None, None, None)
    _judge(item, seen)
    return result


def _asked(item: Any) -> NoFakeAsync:
    fixture: object = getattr(item, "funcargs", {}).get(NAME)
    if isinstance(fixture, NoFakeAsync):
        return fixture
    marker = item.get_closest_marker(NAME)
    if marker is None:
        return NoFakeAsync()
    if marker.args or set(marker.kwargs) - {"waits", "larger_than"}:
        pytest.fail(f"the marker is {_MARKER.split(':')[0]}", pytrace=False)
    return NoFakeAsync(**marker.kwargs)


def _judge(item: pytest.Item, recording: Recording) -> None:
    asked = _asked(item)
    if not recording.accelerator_used:
        item.config.stash[_BLIND] += 1
        return
    found = recording.waits if asked.waits else recording.fake_async
    wrong = [one for one in found if one.largest > asked.larger_than]
    if wrong:
        pytest.fail(_message(wrong, asked.waits), pytrace=False)


def _message(wrong: list[Seen], waits: bool) -> str:
    from h2dlint.trace.remedies import remedy_for
    from h2dlint.trace.report import milliseconds, place, size

    copies = "1 copy" if len(wrong) == 1 else f"{len(wrong)} copies"
    lines = [f"{copies} made the host wait:" if waits else f"{copies} asked to be asynchronous and did not run so:"]
    for one in wrong:
        cause = f", {one.causes[0].value}" if one.causes else ""
        times = "once" if one.calls == 1 else f"{one.calls:,} times"
        lines.append(f"  {place(one)}: {one.call} {one.direction.value}, {one.verdict.value}{cause}")
        lines.append(f"      ran {times}, {size(one.largest)}, {milliseconds(one.total_ms)}")
        lines.append(f"      {remedy_for(one)}")
        if one.called_from:
            lines.append(f"      called from {one.called_from}")
    lines.append("  `with no_fake_async.allow_sync():`, or `h2dlint.trace.allow_sync()`, exempts a block.")
    return "\n".join(lines)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Says where the tests that asked could not be judged."""
    blind = config.stash.get(_BLIND, 0)
    if blind:
        tests = "1 test" if blind == 1 else f"{blind} tests"
        terminalreporter.write_line(
            f"h2dlint: {tests} with {NAME} used no accelerator, so no copy could be judged: run on a machine with a GPU"
        )
