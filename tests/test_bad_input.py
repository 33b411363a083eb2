"""Whatever a file holds, the run goes on: that file is reported, the others are checked, without a traceback."""

from __future__ import annotations

import ast
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import Cli, WriteFiles

from h2dlint import run as running
from h2dlint.config import Config, Selection
from h2dlint.engine import Job, Outcome, look_at
from h2dlint.room import with_room

CALL = b"x.to('cuda', non_blocking=True)\n"
FINE = "import torch\n\nx = torch.rand(99999).to('cuda', non_blocking=True)\n"

BAD: dict[str, tuple[bytes, int]] = {
    "a syntax error": (CALL + b"def f(:\n", 2),
    "Python 2": (CALL + b"print 'hello'\n", 2),
    "a null byte": (CALL + b"\n\0\n", 3),
    "not UTF-8": (CALL + b"'\xff'\n", 2),
    "an encoding that does not exist": (b"# coding: klingon\n" + CALL, 1),
    "5,000 brackets": (CALL + b"y = " + b"(" * 5000 + b")" * 5000, 2),
    "an elif chain of 20,000": (CALL + b"if a: pass\n" + b"elif b: pass\n" * 20_000, 1),
    "no text at all": (bytes(range(256)) + CALL, 1),
}


@pytest.mark.parametrize(("data", "line"), BAD.values(), ids=BAD.keys())
def test_a_bad_file_is_reported_and_the_others_are_checked(write: WriteFiles, cli: Cli, data: bytes, line: int) -> None:
    root = write({"fine.py": FINE})
    (root / "bad.py").write_bytes(data)
    ran = cli("check", "--output-format", "json")
    found = [(one["path"], one["code"], one["line"], one["severity"]) for one in json.loads(ran.out)["findings"]]
    assert ("bad.py", "HTD902", line, "error") in found
    assert [one[:2] for one in found] == [("bad.py", "HTD902"), ("fine.py", "HTD101")]
    assert ran.status == 1
    assert "Traceback" not in ran.err


DEEP: dict[str, str] = {
    "a copy in a sum of 900 terms": "y = " + " + ".join(["torch.rand(9).to('cuda', non_blocking=True)"] * 900),
    "a copy below 150 brackets": "y = " + "[" * 150 + "torch.rand(9).to('cuda', non_blocking=True)" + "]" * 150,
    "a copy behind 800 attributes": "y = torch.rand(9).to('cuda', non_blocking=True)" + ".T" * 800,
    "a copy in 90 nested blocks": "".join(f"{' ' * depth}if a:\n" for depth in range(90))
    + " " * 90
    + "y = torch.rand(9).to('cuda', non_blocking=True)",
    "an elif chain of 900": "if a:\n  pass\n" + "elif b:\n  torch.rand(9).to('cuda', non_blocking=True)\n" * 900,
}


@pytest.mark.parametrize("code", DEEP.values(), ids=DEEP.keys())
def test_deep_code_neither_crashes_nor_passes_in_silence(write: WriteFiles, cli: Cli, code: str) -> None:
    write({"deep.py": f"import torch\n{code}\n"})
    ran = cli("check", "--output-format", "json")
    findings = json.loads(ran.out)["findings"]
    assert {one["path"] for one in findings} == {"deep.py"}
    assert ran.status in (0, 1)
    assert ran.err == ""


STAGE = """class Stage{number}:
    def __init__(self, other: "Stage{after}"):
        self.other = other
        if other:
            with torch.no_grad():
                for _ in range(3):
                    if self.other.table is not None:
                        self.table = [one for one in [self.other.table[0]]]


"""


def _chain(length: int) -> str:
    code = "import torch\n\n\n"
    code += "".join(STAGE.format(number=number, after=number + 1) for number in range(length))
    code += f"class Stage{length}:\n    def __init__(self, n):\n        self.table = [torch.rand(n)]\n\n\n"
    code += "class Top:\n    def __init__(self, first: Stage0):\n        self.first = first\n\n"
    code += "    def send(self):\n        return self.first.table[0].to('cuda', non_blocking=True)\n"
    return code


def test_a_long_chain_of_objects_is_followed_to_its_end(write: WriteFiles, cli: Cli) -> None:
    write({"chain.py": _chain(60)})
    findings = json.loads(cli("check", "--output-format", "json").out)["findings"]
    assert [one["code"] for one in findings] == ["HTD101"]


def test_what_was_found_out_deep_down_is_there_for_the_next_file(
    write: WriteFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = "from chain import Top\n\n\ndef send(top: Top):\n    return top.first.table[0].cuda(non_blocking=True)\n"
    monkeypatch.chdir(write({}))
    jobs = jobs_in(Path.cwd(), ["chain.py", "user.py"])
    write({"chain.py": _chain(60), "user.py": user})
    running._memory_for.cache_clear()
    outcomes = []
    steps = []
    for job in jobs:
        outcomes.append(running.work(job))
        steps.append(running._memory(job).project.spent.steps)
    assert running._memory(jobs[0]).project.needs_room
    assert [len(one.findings) for one in outcomes] == [1, 1]
    assert steps[1] < steps[0] / 10
    running._memory_for.cache_clear()


DEEPER: dict[str, str] = {
    "a sum of 20,000 terms": "y = " + "+".join(["1"] * 20_000),
    "an elif chain of 3,000": "if a:\n  pass\n" + "elif b:\n  c\n" * 3000,
    "10,000 attributes": "y = a" + ".a" * 10_000,
    "a conditional of 2,000": "y = " + "a if b else " * 2000 + "c",
}


@pytest.mark.parametrize("code", DEEPER.values(), ids=DEEPER.keys())
def test_what_is_deeper_than_python_goes_by_default_costs_no_finding(write: WriteFiles, cli: Cli, code: str) -> None:
    write({"deep.py": f"{FINE}{code}\n", "fine.py": FINE})
    ran = cli("check", "--output-format", "json")
    findings = {(one["path"], one["code"]) for one in json.loads(ran.out)["findings"]}
    try:
        with_room(lambda: ast.parse(code))
        assert findings == {("deep.py", "HTD101"), ("fine.py", "HTD101")}
    except RecursionError:  # from Python 3.12 on the parser has limits that no stack extends
        assert findings == {("deep.py", "HTD902"), ("fine.py", "HTD101")}
    assert ran.err == ""


def test_a_deep_file_changes_nothing_for_those_that_import_it_or_come_after_it(write: WriteFiles, cli: Cli) -> None:
    helper = "import torch\n\ndef host():\n    return torch.rand(99999)\n"
    user = "from deep import host\n\nx = host().to('cuda', non_blocking=True)\n"
    write({"deep.py": helper + DEEPER["an elif chain of 3,000"], "a.py": user + FINE, "z.py": user + FINE})

    def found(*paths: str) -> list[str]:
        lines = cli("check", *paths, "--show-unproven", "--output-format", "concise").out.splitlines()
        return [line for line in lines if line.startswith(("a.py", "z.py"))]

    assert found("a.py", "deep.py", "z.py") == [*found("a.py"), *found("z.py")]
    assert len(found("z.py")) == 2


@pytest.mark.parametrize(
    ("data", "hinted"),
    [(CALL + b"type 1 = 2\n", True), (CALL + b"\0\n", False), (b"# coding: klingon\n" + CALL, False)],
    ids=["words that no grammar has yet", "a null byte", "an encoding that does not exist"],
)
def test_who_may_use_newer_syntax_is_told_which_python_reads_it(
    write: WriteFiles, cli: Cli, data: bytes, hinted: bool
) -> None:
    (write({}) / "a.py").write_bytes(data)
    out = cli("check", "--output-format", "full").out
    assert (f"newer syntax than Python {sys.version_info[0]}.{sys.version_info[1]} has" in out) is hinted


def test_a_file_that_cannot_be_opened_is_reported(write: WriteFiles, cli: Cli) -> None:
    root = write({"fine.py": ""})
    os.mkfifo(root / "fifo.py")  # found by a walk, it is no file; named, it cannot be read before somebody writes
    (root / "gone.py").symlink_to(root / "nowhere.py")
    ran = cli("check", ".")
    assert (ran.status, ran.out) == (0, "All clear: nothing to report in 1 file (0 analysed)\n")


def test_the_inventory_tells_of_bad_files_on_stderr(write: WriteFiles, cli: Cli) -> None:
    write({"bad.py": "import torch\ndef f(:\n"})
    ran = cli("copies", "--output-format", "json")
    assert (ran.status, json.loads(ran.out)["copies"]) == (0, [])
    assert ran.err.startswith("bad.py:2: this file was not analysed: syntax error: ")


def test_a_finding_of_bad_input_can_be_ignored(write: WriteFiles, cli: Cli) -> None:
    write({"bad.py": "x.to(d, non_blocking=True)\ndef f(:\n"})
    assert cli("check", "--ignore", "HTD902").status == 0


# --- one file, one crash ------------------------------------------------------------------------------------------


def jobs_in(folder: Path, names: Sequence[str]) -> list[Job]:
    codes = Selection().codes(Config())
    for name in names:
        (folder / name).write_text("pass\n")
    return [Job(str(folder / name), name, codes) for name in names]


def test_a_worker_that_dies_costs_only_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die_on_some(project: object, job: Job) -> Outcome:
        if "deadly" in job.path:
            os._exit(139)
        return Outcome(job.path, text="done")

    monkeypatch.setattr(running, "look_at", die_on_some)
    names = [f"{number:02}{'-deadly' if number in (3, 4, 17) else ''}.py" for number in range(20)]
    outcomes = running.run(jobs_in(tmp_path, names), processes=2)
    assert [outcome.path for outcome in outcomes] == names
    for outcome in outcomes:
        if "deadly" in outcome.path:
            (finding,) = outcome.findings
            assert (finding.code, finding.message) == (
                "HTD902",
                "this file was not analysed: the process that analysed it died with status 139",
            )
            assert "-j 1" in finding.help
        else:
            assert outcome.text == "done"


def test_a_worker_that_is_done_helps_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dawdle(project: object, job: Job) -> Outcome:
        if job.path < "20.py":
            time.sleep(0.02)
        return Outcome(job.path, text=str(os.getpid()))

    monkeypatch.setattr(running, "look_at", dawdle)
    outcomes = running.run(jobs_in(tmp_path, [f"{number:02}.py" for number in range(40)]), processes=2)
    assert len({outcome.text for outcome in outcomes[:20]}) == 2


def test_an_error_of_h2dlint_itself_costs_only_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr("h2dlint.engine._copies", fail)
    (job,) = jobs_in(tmp_path, ["a.py"])
    (finding,) = look_at(running._memory(job).project, job).findings
    assert finding.code == "HTD902"
    assert "KeyError: 'oops'" in finding.message


def test_the_result_does_not_depend_on_how_much_is_remembered(
    write: WriteFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = "import torch\n\ndef made(n):\n    return torch.zeros(n{})\n\n"
    helper += "def send(x):\n    return x.cuda(non_blocking=True)\n"
    user = "import torch\nfrom h{} import made, send\n\nx = made(99999).to('cuda', non_blocking=True)\nsend(made(9))\n"
    files = {f"h{number}.py": helper.format(", pin_memory=True" * (number % 2)) for number in range(4)}
    files |= {f"u{number}.py": user.format(number % 4) for number in range(8)}
    monkeypatch.chdir(write({}))
    jobs = jobs_in(Path.cwd(), sorted(files))
    write(files)
    outcomes: list[list[Outcome]] = []
    monkeypatch.setattr(running, "JOBS_BY_THE_COUNT", 1)
    for most in (running.MOST_BLOCKS, 0):
        running._memory_for.cache_clear()
        monkeypatch.setattr(running, "MOST_BLOCKS", most)
        projects = set()
        outcomes.append([])
        for job in jobs:
            projects.add(running._memory(job).project)
            outcomes[-1].append(running.work(job))
        assert (len(projects) > 1) is (most == 0)
    running._memory_for.cache_clear()
    assert outcomes[0] == outcomes[1]
    assert sum(len(outcome.findings) for outcome in outcomes[0]) > 3


def test_the_result_does_not_depend_on_the_number_of_processes(write: WriteFiles, cli: Cli) -> None:
    write({f"{number:02}.py": FINE for number in range(12)})
    one = cli("check", "-j", "1", "--output-format", "concise")
    many = cli("check", "-j", "4", "--output-format", "concise")
    assert one.status == many.status == 1
    assert one.out == many.out
    assert len(one.out.splitlines()) == 13
