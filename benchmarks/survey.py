"""Does h2dlint survive whole trees? Packages x files x lines, with internal errors, time-outs and CPU time.

    python benchmarks/survey.py [--seconds N] [--runs check,all,copies,every] [STDLIB | TREE]...

STDLIB stands for the standard library of this Python, with its test suite. For each tree:

check   `h2dlint check`, the default rules
all     `h2dlint check --select ALL`, the opt-in rules too
copies  `h2dlint copies`
every   every file, also those without a word of tensors, by all rules, with notes and fixes, and its inventory

An internal error is a traceback, a status of 2 or more, or a file of which h2dlint says that it failed on it; a
time-out is a file that takes more than N CPU seconds (60), or a whole run that takes an hour. Files that are no Python,
or too deep for Python's own parser, are told apart as refused. Each problem and each refused file is printed. Ends
with status 1 if there is an error or a time-out.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from types import FrameType
from typing import Any

from msgspec import Struct

RUNS = ("check", "all", "copies", "every")
COMMANDS = {
    "check": ("check",),
    "all": ("check", "--select", "ALL"),
    "copies": ("copies",),
}
H2DLINT = str(Path(sys.executable).with_name("h2dlint"))
WHOLE_RUN = 3600
"""Seconds that one command may take."""
FILES_A_PROCESS = 100
"""How many files one process looks at in `every`: each keeps what it has read."""
FAILED = ("h2dlint itself failed", "crashed")
"""What is said of a file that h2dlint could not handle, as against one that is no Python."""


class Result(Struct, frozen=True):
    """What one run over one tree came to."""

    cpu: float
    """Seconds, of the command and its children."""
    errors: tuple[str, ...] = ()
    timeouts: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """What was said of files that are no Python, or deeper than Python's parser goes."""
    longest: tuple[float, str] = (0.0, "")
    """The file that took most CPU seconds, where that was measured."""
    peak: float = 0.0
    """MiB of the largest process."""


def main(arguments: Sequence[str]) -> int:
    """Prints the table; 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*", default=["STDLIB"], metavar="TREE")
    parser.add_argument("--seconds", type=float, default=60, help="CPU seconds that one file may take")
    parser.add_argument("--runs", default=",".join(RUNS), help="which of " + ", ".join(RUNS))
    options = parser.parse_args(arguments)
    runs = [name for name in RUNS if name in options.runs.split(",")]
    print(
        "| tree | files | lines | " + " | ".join(f"{name}: CPU s, MiB" for name in runs) + " | refused | slowest file |"
    )
    print("|---|---|---|" + "---|" * (len(runs) + 2))
    bad = 0
    for tree in options.trees:
        root = sysconfig.get_path("stdlib") if tree == "STDLIB" else tree
        files = python_files(root)
        results = {name: survey(name, root, files, options.seconds) for name in runs}
        print(row(tree, root, files, results), flush=True)
        for one in dict.fromkeys(one for result in results.values() for one in result.refused):
            print(f"    refused: {one}", file=sys.stderr, flush=True)
        for name, result in results.items():
            for problem in (*result.errors, *(f"time-out: {one}" for one in result.timeouts)):
                bad += 1
                print(f"    {name}: {problem}", file=sys.stderr, flush=True)
    print(f"{bad} errors and time-outs", file=sys.stderr)
    return 1 if bad else 0


def row(tree: str, root: str, files: Sequence[str], results: dict[str, Result]) -> str:
    """A line of the table."""
    lines = sum(Path(root, file).read_bytes().count(b"\n") for file in files)
    seconds = " | ".join(f"{result.cpu:.1f}, {result.peak:.0f}" for result in results.values())
    longest = max(result.longest for result in results.values())
    name = "the standard library" if tree == "STDLIB" else Path(tree).name
    slowest = f"{longest[0]:.1f} s: {longest[1]}" if longest[1] else ""
    refused = max(len(result.refused) for result in results.values())
    return f"| {name} | {len(files):,} | {lines:,} | {seconds} | {refused} | {slowest} |"


def python_files(root: str) -> list[str]:
    """All Python files below `root`, relative to it; of the standard library, without what is installed besides."""
    found: list[str] = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in ("site-packages", "__pycache__"))
        found += [os.path.relpath(os.path.join(folder, name), root) for name in sorted(names) if name.endswith(".py")]
    return found


def survey(name: str, root: str, files: Sequence[str], seconds: float) -> Result:
    """One run over one tree."""
    return every_file(root, files, seconds) if name == "every" else command(COMMANDS[name], root)


# --- the command line ---------------------------------------------------------------------------------------------


def command(arguments: Sequence[str], root: str) -> Result:
    """What a run of the command line says; it is the process that may not fail."""
    call = [H2DLINT, *arguments, "--isolated", "--no-cache", "--jobs", "1", "-v", "--output-format", "json"]
    with TemporaryFile() as out, TemporaryFile() as err:
        process = subprocess.Popen([*call, "--exclude", "site-packages", "."], cwd=root, stdout=out, stderr=err)
        timer = Timer(WHOLE_RUN, process.kill)
        timer.start()
        _, status, used = os.wait4(process.pid, 0)
        over = not timer.is_alive()
        timer.cancel()
        texts = [stream.read().decode() for stream in (out, err) if stream.seek(0) == 0]
    said_out, said_err = texts
    code = process.returncode = os.waitstatus_to_exitcode(status)
    cpu, peak = used.ru_utime + used.ru_stime, mebibytes(used)
    if over:
        return Result(cpu, timeouts=("the whole run",), peak=peak)
    if code not in (0, 1) or "Traceback" in said_err:
        return Result(cpu, errors=(f"status {code}: {said_err[-2000:]}",), peak=peak)
    said = [one["path"] + ": " + one["message"] for one in json.loads(said_out).get("findings", ()) if told(one)]
    said += [line for line in said_err.splitlines() if "this file was not analysed" in line]
    failed = tuple(one for one in said if any(words in one for words in FAILED))
    return Result(cpu, errors=failed, refused=tuple(one for one in said if one not in failed), peak=peak)


def told(finding: Any) -> bool:
    """Whether a finding says that its file was not analysed."""
    return bool(finding["code"] == "HTD902")


# --- every file ---------------------------------------------------------------------------------------------------


def every_file(root: str, files: Sequence[str], seconds: float) -> Result:
    """Every file by every rule, whatever its bytes say, in processes that look at a hundred each."""
    batches = [files[start : start + FILES_A_PROCESS] for start in range(0, len(files), FILES_A_PROCESS)]
    results: list[Result] = []
    for batch in batches:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            try:
                results.append(pool.submit(look_at_files, root, list(batch), seconds).result())
            except Exception as error:  # a process that died says nothing more
                results.append(Result(0.0, errors=(f"between {batch[0]} and {batch[-1]}: {error!r}",)))
    return Result(
        cpu=sum(result.cpu for result in results),
        errors=tuple(error for result in results for error in result.errors),
        timeouts=tuple(one for result in results for one in result.timeouts),
        refused=tuple(one for result in results for one in result.refused),
        longest=max((result.longest for result in results), default=(0.0, "")),
        peak=max((result.peak for result in results), default=0.0),
    )


class TooLong(BaseException):
    """A file used up its seconds."""


def too_long(number: int, frame: FrameType | None) -> None:
    """The answer to the timer."""
    raise TooLong


def look_at_files(root: str, files: Sequence[str], seconds: float) -> Result:
    """What comes of each of the files, in this process."""
    from h2dlint.rules import all_rules

    from h2dlint.engine import Fixing, Job, look_at
    from h2dlint.facts.options import FactOptions
    from h2dlint.facts.project import Project
    from h2dlint.finding import Applicability
    from h2dlint.fixing.options import FixOptions

    os.chdir(root)
    signal.signal(signal.SIGPROF, too_long)
    project = Project(FactOptions())
    codes = tuple(rule.meta.code for rule in all_rules())
    fixing = Fixing(FixOptions(), Applicability.UNSAFE, make=True)
    errors: list[str] = []
    timeouts: list[str] = []
    refused: dict[str, None] = {}
    longest = (0.0, "")
    for file in files:
        start = cpu_seconds()
        jobs = [
            Job(file, file, codes, show_unproven=True, verbose=True, fixing=fixing),
            Job(file, file, codes, inventory=True, verbose=True),
        ]
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            for job in jobs:
                for finding in look_at(project, job).findings:
                    if finding.code == "HTD902":
                        failed = any(words in finding.message for words in FAILED)
                        refused[f"{file}: {finding.message}"] = None
                        errors += [f"{file}: {finding.message}"] if failed else []
        except TooLong:
            timeouts.append(file)
        except BaseException as error:
            errors.append(f"{file}: {error!r}")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        longest = max(longest, (cpu_seconds() - start, file))
    peak = mebibytes(resource.getrusage(resource.RUSAGE_SELF))
    return Result(cpu_seconds(), tuple(errors), tuple(timeouts), tuple(refused), longest, peak)


def cpu_seconds() -> float:
    """CPU time of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def mebibytes(used: resource.struct_rusage) -> float:
    """The most memory that a process had."""
    return used.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
