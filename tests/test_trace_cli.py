"""`h2dlint trace`: the program runs as it would alone, in all of its processes, and the report says what waited."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, Ran, WriteFiles, clean_environment
from msgspec.structs import replace
from pretend_machine import PROGRAM

from h2dlint.facts.copies import Cause, Direction, Verdict
from h2dlint.trace.call_site import Site
from h2dlint.trace.recorder import Count, Outcome, Part, Tally, digest_of, trace_of
from h2dlint.trace.run_program import BOOTSTRAP, FOLDER
from h2dlint.trace.trace_file import Process, Seen, Trace, read
from h2dlint.trace.trace_file import write as write_trace

TESTS = str(Path(__file__).parent)

SEND = f"""{PROGRAM}import sys
import torch


def send(n):
    return torch.ones(n).to("meta", non_blocking=True)


"""
"""Torch takes its time to be imported: what does not need it is tested without."""


def trace(cli: Cli, *arguments: str) -> Ran:
    """`h2dlint trace ARGUMENTS...` where programs find the pretended accelerator."""
    return cli("trace", *arguments, env={"PYTHONPATH": TESTS})


def seen(folder: Path) -> list[tuple[str, int, str, int]]:
    return [(one.path, one.line, one.verdict.value, one.calls) for one in read(str(folder / "trace.json")).copies]


def test_a_script_is_run_and_its_copies_are_told(cli: Cli, write: WriteFiles) -> None:
    folder = write({"a.py": f"{SEND}send(5000)\nsend(5000)\ntorch.ones(3).to('nonsense')\n"})
    ran = trace(cli, "a.py")
    assert (ran.status, ran.out) == (1, "")
    # The error is the user's own: no frame of the hooks.
    head = ran.err[: ran.err.index("RuntimeError")]
    assert "a.py" in head and "hooks.py" not in head and "original(" not in head
    assert "a.py:7  to h2d" in ran.err
    assert "pin the source" in ran.err
    assert "fake-async" in ran.err and "(2 calls in 1 line)" in ran.err
    assert "Not seen: copies that C++ code makes" in ran.err
    assert seen(folder) == [("a.py", 7, "fake-async", 2)]


STARTS = """
import multiprocessing, os, subprocess, threading
from concurrent.futures import ThreadPoolExecutor

if __name__ == "__main__" and sys.argv[1:] == ["last"]:
    send(6)
elif __name__ == "__main__":
    thread = threading.Thread(target=send, args=(1,))
    thread.start()
    thread.join()
    with ThreadPoolExecutor() as pool:
        list(pool.map(send, [2]))
    for number, how in ((3, "fork"), (4, "spawn")):
        process = multiprocessing.get_context(how).Process(target=send, args=(number,))
        process.start()
        process.join()
    child = os.fork()
    if not child:
        send(5)
        sys.exit()
    os.waitpid(child, 0)
    subprocess.run([sys.executable, __file__, "last"], check=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_what_the_program_starts_is_seen(cli: Cli, write: WriteFiles) -> None:
    folder = write({"a.py": SEND + STARTS})
    ran = trace(cli, "a.py")
    assert ran.status == 0, ran.err
    (found,) = read(str(folder / "trace.json")).copies
    sizes = range(1, 7)  # a thread, a pool, a fork, a spawned process, a bare fork, a command
    assert (found.line, found.calls, found.bytes) == (7, len(sizes), 4 * sum(sizes))


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_program_leaves_what_it_did(cli: Cli, write: WriteFiles) -> None:
    folder = write({"a.py": f"{SEND}import os, signal\nsend(3)\nos.kill(os.getpid(), signal.SIGKILL)\n"})
    ran = trace(cli, "a.py")
    assert ran.status == 128 + signal.SIGKILL
    assert seen(folder) == [("a.py", 7, "fake-async", 1)]


# The program is not disturbed

SHOW = "import sys\nprint(__name__, sys.argv[1:], sys.stdin.read(), sys.path[0] == HERE)\nsys.exit(7)\n"


@pytest.mark.parametrize(
    "command",
    [
        ["a.py", "x", "--top", "-m"],
        ["--", "a.py", "x", "--top", "-m"],
        ["--top", "3", "--", sys.executable, "a.py", "x", "--top", "-m"],
        ["--top=3", sys.executable, "-m", "a", "x", "--top", "-m"],
        ["--color", "never", "-m", "a", "x", "--top", "-m"],
        ["--", "-m", "a", "x", "--top", "-m"],
    ],
)
def test_a_program_gets_its_own_arguments_stdin_and_status(write: WriteFiles, command: list[str]) -> None:
    folder = write({"a.py": f"import os\nHERE = os.path.dirname(os.path.abspath(__file__))\n{SHOW}"})
    ran = subprocess.run(
        [sys.executable, "-m", "h2dlint", "trace", *command],
        cwd=folder,
        env=clean_environment(),
        input="typed",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ran.returncode, ran.stdout) == (7, "__main__ ['x', '--top', '-m'] typed True\n")
    assert "No process of the program imported torch" in ran.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_are_the_programs(write: WriteFiles, number: int) -> None:
    text = f"signal.signal({int(number)}, lambda *_: sys.exit(3))\nprint('ready', flush=True)\ntime.sleep(60)\n"
    folder = write({"a.py": f"import signal, sys, time\n{text}"})
    with subprocess.Popen(
        [sys.executable, "-m", "h2dlint", "trace", "a.py"],
        cwd=folder,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as program:
        assert program.stdout is not None and program.stdout.readline() == b"ready\n"
        if number == signal.SIGINT:
            os.killpg(program.pid, number)  # as a terminal does
        else:
            program.send_signal(number)
        program.communicate(timeout=60)
    assert program.returncode == 3


def test_a_sitecustomize_of_the_environment_still_runs(cli: Cli, write: WriteFiles) -> None:
    folder = write({"own/sitecustomize.py": "print('own')\n", "a.py": "import sitecustomize\nprint('program')\n"})
    ran = cli("trace", "a.py", env={"PYTHONPATH": str(folder / "own")})
    assert ran.out == "own\nown\nprogram\n"  # h2dlint's own Python has one as well


def test_a_python_without_h2dlint_is_told(cli: Cli, write: WriteFiles) -> None:
    folder = write({"a.py": "print('fine')\n"})
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "bare")], check=True)
    ran = cli("trace", "--", str(folder / "bare" / "bin" / "python"), "a.py", env={"PYTHONPATH": ""})
    assert (ran.status, ran.out) == (0, "fine\n")
    assert "h2dlint cannot be imported by" in ran.err


def test_the_recording_waits_for_torch(write: WriteFiles) -> None:
    folder = write({"a.py": "import sys\nprint(*sys.modules)\n"})
    env = {**clean_environment(), "PYTHONPATH": BOOTSTRAP, FOLDER: str(folder)}
    ran = subprocess.run([sys.executable, "a.py"], cwd=folder, env=env, capture_output=True, text=True, check=True)
    assert not {"torch", "msgspec", "click", "rich"} & set(ran.stdout.split())


# What it says


def copy(line: int, total: float, verdict: Verdict = Verdict.FAKE_ASYNC, **more: Any) -> Seen:
    facts: dict[str, Any] = {
        "path": "a.py",
        "line": line,
        "column": 1,
        "end_line": line,
        "end_column": 9,
        "function": "f",
        "call": "to",
        "direction": Direction.H2D,
        "verdict": verdict,
        "asked": True,
        "pinned": False,
        "dense": True,
        "calls": 2,
        "copies": 2,
        "pageable": 2,
        "bytes": 1 << 20,
        "largest": 1 << 19,
        "total_ms": total,
        "worst_ms": total,
        "causes": (Cause.PAGEABLE,) if verdict is Verdict.FAKE_ASYNC else (),
    }
    return Seen(**{**facts, **more})


RUN = Trace(
    version=1,
    tool="h2dlint trace",
    seconds=2.5,
    processes=(Process(1, ("python", "a.py"), "3.11", "2.11.0", "NVIDIA H200"),),
    files={"a.py": "0"},
    copies=(
        copy(3, 1293.0),
        copy(9, 12.5, Verdict.BLOCKING, call="item", direction=Direction.D2H),
        copy(4, 7.0, Verdict.BLOCKING, allowed=True),
        copy(5, 0.01, Verdict.ASYNC, pinned=True),
    ),
)


def test_a_trace_that_was_written_is_read(tmp_path: Path) -> None:
    write_trace(RUN, str(tmp_path / "trace.json"))
    assert read(str(tmp_path / "trace.json")) == RUN


def test_the_report_has_the_costliest_first(cli: Cli, tmp_path: Path) -> None:
    write_trace(RUN, str(tmp_path / "trace.json"))
    ran = cli("trace", "--read", "trace.json")
    assert ran.status == 0
    assert ran.out.index("1.29 s") < ran.out.index("a.py:3  to h2d") < ran.out.index("a.py:9  item d2h")
    assert "a.py:5" not in ran.out and "a.py:4" not in ran.out
    assert "keep the value on the device" in ran.out
    assert "fake-async 1.29 s (2 calls in 1 line) · blocking 12.5 ms" in ran.out
    assert "allowed: 2 calls" in ran.out
    assert "Run: 2.5 s, 1 process, NVIDIA H200, torch 2.11.0." in ran.out
    assert all(len(line) <= 120 for line in ran.out.splitlines())
    assert "1 more with --top 2." in cli("trace", "--read", "trace.json", "--top", "1").out


def test_without_an_accelerator_it_says_what_it_cannot_see(cli: Cli, tmp_path: Path) -> None:
    process = Process(1, ("python", "a.py"), "3.11", "2.13.0+cpu")
    nothing = copy(3, 0.0, Verdict.NO_TRANSFER, direction=Direction.H2H, calls=1)
    write_trace(replace(RUN, processes=(process,), copies=(nothing,)), str(tmp_path / "trace.json"))
    said = " ".join(cli("trace", "--read", "trace.json").out.split())
    assert "No accelerator was used: every tensor stayed on the host" in said
    assert "1 call in 1 line asked for non_blocking and moved nothing" in said


def test_a_file_that_changes_meanwhile_is_not_guessed_at(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("x.to('cuda')\n", "utf-8")
    outcome = Outcome("to", Direction.H2D, Verdict.BLOCKING, (), False, False, True, False)
    count = Count(Site(str(file), "<module>", 1, 1, 0, 12), outcome, Tally(calls=1))
    part = Part(RUN.processes[0], (count,), {str(file): digest_of(str(file))})
    assert [(one.end_column, one.exact) for one in trace_of([part], 1.0, str(tmp_path)).copies] == [(13, True)]
    file.write_text("# more\nx.to('cuda')\n", "utf-8")
    assert [(one.end_column, one.exact) for one in trace_of([part], 1.0, str(tmp_path)).copies] == [(1, False)]


def test_the_json_report_has_the_remedies(cli: Cli, tmp_path: Path) -> None:
    write_trace(RUN, str(tmp_path / "trace.json"))
    report: dict[str, Any] = json.loads(cli("trace", "--read", "trace.json", "--output-format", "json").out)
    assert (report["version"], report["accelerators"]) == (1, ["NVIDIA H200"])
    assert report["totals"]["fake-async"] == {"calls": 2, "total_ms": 1293.0}
    assert [(one["line"], one["remedy"] != "") for one in report["top"]] == [(3, True), (9, True)]


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_chart_is_drawn(cli: Cli, tmp_path: Path, kind: str, start: bytes) -> None:
    write_trace(RUN, str(tmp_path / "trace.json"))
    ran = cli("trace", "--read", "trace.json", "--chart", f"c.{kind}")
    assert (ran.status, ran.out.splitlines()[-1]) == (0, f"Chart: c.{kind}")
    assert (tmp_path / f"c.{kind}").read_bytes().startswith(start)


WRONG: dict[str, tuple[list[str], str]] = {
    "nothing": ([], "name a program"),
    "both": (["--read", "x.json", "a.py"], "name a program"),
    "no such trace": (["--read", "x.json"], "x.json cannot be read: No such file"),
    "no trace at all": (["--read", "other.json"], "other.json is not a trace of `h2dlint trace`"),
    "a newer trace": (["--read", "newer.json"], "newer.json is a trace of version 9; this h2dlint reads version 1"),
    "a damaged trace": (["--read", "damaged.json"], "damaged.json is damaged"),
    "no such program": (["--", "no-such-program"], "`no-such-program` cannot be started: No such file"),
    "another tool's file": (["--out", "other.json", "a.py"], "it is left alone; name another file with --out"),
    "a chart of no kind": (["--chart", "c.bmp", "a.py"], "a chart is written as .png, .svg, .pdf, not as c.bmp"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG.keys())
def test_wrong_use_is_told_before_anything_runs(
    cli: Cli, write: WriteFiles, arguments: list[str], message: str
) -> None:
    folder = write(
        {
            "a.py": "open('ran', 'w')\n",
            "other.json": '{"traceEvents": []}',
            "newer.json": '{"tool": "h2dlint trace", "version": 9}',
            "damaged.json": '{"tool": "h2dlint trace", "version": 1, "copies": 3}',
        }
    )
    ran = cli("trace", *arguments)
    assert ran.status == 2
    assert message in ran.err
    assert not (folder / "ran").exists()


def test_a_chart_without_matplotlib_is_told(cli: Cli, write: WriteFiles) -> None:
    folder = write({"a.py": "open('ran', 'w')\n", "no/matplotlib.py": "raise ImportError\n"})
    ran = cli("trace", "--chart", "c.png", "a.py", env={"PYTHONPATH": str(folder / "no")})
    assert ran.status == 2
    assert "a chart needs matplotlib: pip install 'h2dlint[torch]'" in ran.err
    assert not (folder / "ran").exists()
