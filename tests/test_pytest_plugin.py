"""`no_fake_async`: a test fails for the copies that it makes, and for nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch  # noqa: F401  (pytester forgets what is imported in a test, and torch must not be imported twice)

from h2dlint.trace import compilers, hooks, session, tensors  # noqa: F401  (the same)

pytest_plugins = ["pytester"]

CONFTEST = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import pretend_machine
pretend_machine.pretend()
"""
HEAD = """
import h2dlint.trace
import pytest
import torch

def send(n=5000):
    return torch.ones(n).to("meta", non_blocking=True)

def wait():
    return torch.ones(3).to("meta")
"""


@pytest.fixture
def accelerator(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs tests against the pretended accelerator, in this process."""
    monkeypatch.setattr(tensors, "this_machine", tensors.this_machine)  # put back afterwards
    pytester.makeconftest(CONFTEST)


def run(pytester: pytest.Pytester, text: str) -> pytest.RunResult:
    pytester.makepyfile(HEAD + text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others load much at the end of a run
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "h2dlint.pytest_plugin", "-W", "error")


FAIL = {
    "the fixture": "def test_it(no_fake_async):\n    send()\n",
    "the marker": "@pytest.mark.no_fake_async\ndef test_it():\n    send()\n",
    "the marker on a class": "@pytest.mark.no_fake_async\nclass TestIt:\n    def test_it(self):\n        send()\n",
    "the marker on a module": "pytestmark = pytest.mark.no_fake_async\ndef test_it():\n    send()\n",
    "a small copy": "def test_it(no_fake_async):\n    send(1)\n",
    "a wait, if asked": "@pytest.mark.no_fake_async(waits=True)\ndef test_it():\n    wait()\n",
    "a wait, if asked in the test": "def test_it(no_fake_async):\n    no_fake_async.waits = True\n    wait()\n",
    "a thread": "import threading\ndef test_it(no_fake_async):\n"
    "    one = threading.Thread(target=send)\n    one.start()\n    one.join()\n",
    "beside what is allowed": "def test_it(no_fake_async):\n"
    "    with no_fake_async.allow_sync():\n        send()\n    send()\n",
    "a marker with a mistake": "@pytest.mark.no_fake_async(wait=True)\ndef test_it():\n    pass\n",
}
PASS = {
    "pinned memory": "import pretend_machine\ndef test_it(no_fake_async):\n"
    "    pretend_machine.pinned(3).to('meta', non_blocking=True)\n",
    "a wait that nobody asked about": "def test_it(no_fake_async):\n    wait()\n",
    "a test that did not ask": "def test_it():\n    send()\n",
    "a copy in a fixture": "@pytest.fixture\ndef batch():\n    return send()\n"
    "def test_it(batch, no_fake_async):\n    assert batch.shape == (5000,)\n",
    "what is allowed": "def test_it(no_fake_async):\n    with no_fake_async.allow_sync():\n        send()\n",
    "what is allowed anywhere": "def test_it(no_fake_async):\n    with h2dlint.trace.allow_sync():\n        send()\n",
    "small copies, if so wished": "@pytest.mark.no_fake_async(larger_than=8192)\ndef test_it():\n    send(9)\n",
}


@pytest.mark.usefixtures("accelerator")
@pytest.mark.parametrize("text", FAIL.values(), ids=FAIL.keys())
def test_it_fails(pytester: pytest.Pytester, text: str) -> None:
    run(pytester, text).assert_outcomes(failed=1)


@pytest.mark.usefixtures("accelerator")
@pytest.mark.parametrize("text", PASS.values(), ids=PASS.keys())
def test_it_passes(pytester: pytest.Pytester, text: str) -> None:
    run(pytester, text).assert_outcomes(passed=1)


@pytest.mark.usefixtures("accelerator")
def test_the_message_has_the_line_and_the_remedy(pytester: pytest.Pytester) -> None:
    ran = run(pytester, "def test_it(no_fake_async):\n    for _ in range(3):\n        send()\n")
    ran.stdout.fnmatch_lines(
        [
            "1 copy asked to be asynchronous and did not run so:",
            "  test_the_message_has_the_line_and_the_remedy.py:6: to h2d, fake-async, pageable",
            "      ran 3 times, 20 KiB, * ms",
            "      pin the source: `.pin_memory()` before the copy, or allocate it pinned",
            "*`with no_fake_async.allow_sync():`, or `h2dlint.trace.allow_sync()`, exempts a block.",
        ]
    )


@pytest.mark.usefixtures("accelerator")
def test_the_tests_own_failure_comes_first(pytester: pytest.Pytester) -> None:
    ran = run(pytester, "def test_it(no_fake_async):\n    send()\n    assert 1 == 2\n")
    ran.stdout.fnmatch_lines(["*assert 1 == 2"])
    ran.stdout.no_fnmatch_line("*asked to be asynchronous*")


def test_without_an_accelerator_it_says_so(pytester: pytest.Pytester) -> None:
    ran = run(pytester, "def test_it(no_fake_async):\n    torch.ones(3).to('cpu', non_blocking=True)\n")
    ran.assert_outcomes(passed=1)
    ran.stdout.fnmatch_lines(["h2dlint: 1 test with no_fake_async used no accelerator, so no copy could be judged*"])


def test_the_plugin_is_known_to_pytest_and_loads_nothing() -> None:
    # pytest loads it in every run of every project in this environment.
    code = (
        "import pytest, sys, importlib.metadata as m\n"
        "before = set(sys.modules)\n"
        "print([one.value for one in m.entry_points(group='pytest11') if one.name == 'h2dlint'])\n"
        "import h2dlint.pytest_plugin\n"
        "ours = [name for name in set(sys.modules) - before if name.split('.')[0] in ('h2dlint', 'torch', 'msgspec')]\n"
        "print(sorted(ours))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "['h2dlint.pytest_plugin']\n['h2dlint', 'h2dlint.pytest_plugin']\n"
