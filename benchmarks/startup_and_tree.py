"""What h2dlint costs: (a) to start with nothing to do, (b) to check a tree, next to what parsing alone would take.

    python benchmarks/startup_and_tree.py [TREE]

(a) Wall time of `h2dlint check EMPTY_FOLDER` over that of `python -I -c pass`: the median of many alternating runs.
(b) CPU time of `h2dlint check TREE` in one process without stored results, divided by the time that `ast.parse` takes
    for the files of TREE that contain `non_blocking` or `pin_memory`. Both are measured in the same run, in turn.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

STARTS = 40
SETTINGS = """[project]
name = "configured"

[tool.h2dlint]
select = ["HTD1", "HTD2"]
ignore = ["HTD106"]
extend-exclude = ["third_party"]
pin-guard = "configured.platform.PIN_MEMORY"
"""
TREE_RUNS = 5
NEEDLES = (b"non_blocking", b"pin_memory")
H2DLINT = str(Path(sys.executable).with_name("h2dlint"))


def main(arguments: Sequence[str]) -> None:
    """Prints (a), and (b) if a tree is given."""
    print_startup()
    for tree in arguments:
        print_tree(tree)


# --- (a) ----------------------------------------------------------------------------------------------------------


def print_startup() -> None:
    """The cost of a run with nothing to do, without and with settings, in milliseconds."""
    with tempfile.TemporaryDirectory() as empty, tempfile.TemporaryDirectory() as configured:
        Path(configured, "pyproject.toml").write_text(SETTINGS)
        commands = {
            "python": [sys.executable, "-I", "-c", "pass"],
            "check EMPTY": [H2DLINT, "check", empty],
            "check CONFIGURED": [H2DLINT, "check", configured],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(STARTS):
            for name, command in commands.items():
                times[name].append(wall_milliseconds(command))
    python = times.pop("python")
    for name, taken in times.items():
        over_median, over_best = median(taken) - median(python), min(taken) - min(python)
        print(f"start-up: python {median(python):.1f} ms, h2dlint {name} {median(taken):.1f} ms")
        print(f"start-up over python: median {over_median:.1f} ms, best {over_best:.1f} ms ({STARTS} alternating runs)")


def wall_milliseconds(command: Sequence[str]) -> float:
    """How long one call of `command` takes."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1000


# --- (b) ----------------------------------------------------------------------------------------------------------


def print_tree(tree: str) -> None:
    """The cost of checking a tree, as a multiple of parsing the files that matter."""
    files = list(python_files(tree))
    sources = [data for path in files if any(needle in (data := path.read_bytes()) for needle in NEEDLES)]
    checks: list[float] = []
    parses: list[float] = []
    for _ in range(TREE_RUNS):
        checks.append(check_seconds(tree))
        parses.append(parse_seconds(sources))
    print(f"tree: {len(files):,} files, {len(sources)} with {' or '.join(needle.decode() for needle in NEEDLES)}")
    print(f"tree: ast.parse of those {min(parses):.2f} s, h2dlint check {min(checks):.2f} s (best of {TREE_RUNS})")
    print(f"tree: ratio {min(checks) / min(parses):.2f} (medians: {median(checks) / median(parses):.2f})")


def python_files(tree: str) -> list[Path]:
    """All Python files below `tree`."""
    return sorted(Path(folder) / name for folder, _, names in os.walk(tree) for name in names if name.endswith(".py"))


def check_seconds(tree: str) -> float:
    """CPU seconds of `h2dlint check` in one process, its start included."""
    command = [H2DLINT, "check", "--jobs", "1", "--no-cache", "--isolated", "--output-format", "concise", tree]
    before = getrusage(RUSAGE_CHILDREN)
    ran = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    after = getrusage(RUSAGE_CHILDREN)
    if ran.returncode not in (0, 1):
        raise SystemExit(f"h2dlint failed: {ran.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def parse_seconds(sources: Sequence[bytes]) -> float:
    """CPU seconds of `ast.parse` for all `sources`."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for source in sources:
            ast.parse(source)
    return time.process_time() - start


if __name__ == "__main__":
    main(sys.argv[1:])
