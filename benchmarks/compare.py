"""What h2dlint costs beside other tools, all measured in turn in one run on one machine.

    python benchmarks/compare.py                                  what it costs to start with nothing to do
    python benchmarks/compare.py TREE...                          and to check trees, beside parsing and a byte scan
    python benchmarks/compare.py --tools FOLDER --install TREE    and beside semgrep, TorchFix, Fixit and ruff

FOLDER holds a virtual environment for each of the other tools, under its name; --install makes those that are missing.
Best of --runs for everything that takes less than ten seconds, one run for the rest. Columns:

wall, CPU   seconds, with the start of the process
lines/s     lines of the tree (for a sample: of its files) by wall time
peak        the largest process, in MiB
x parse     CPU time as a multiple of `ast.parse` of the files that contain `non_blocking` or `pin_memory`

TorchFix and Fixit get 100 files, spread evenly over the tree; their lines per second are of those.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from msgspec import Struct

STARTS = 40
SETTINGS = """[project]
name = "configured"

[tool.h2dlint]
select = ["HTD1", "HTD2"]
ignore = ["HTD106"]
extend-exclude = ["third_party"]
pin-guard = "configured.platform.PIN_MEMORY"
"""
NEEDLES = (b"non_blocking", b"pin_memory")
TORCH = (b"torch",)
TOOLS = {"ruff": "ruff", "semgrep": "semgrep", "torchfix": "torchfix", "fixit": "fixit"}
"""Name of the command -> what pip installs."""
SEMGREP_RULE = """rules:
  - id: asks-to-be-asynchronous
    languages: [python]
    severity: INFO
    message: names non_blocking
    pattern: $F(..., non_blocking=$V, ...)
"""
SCAN = """import sys
for name in open(sys.argv[1]).read().split("\\n"):
    with open(name, "rb", buffering=0) as file:
        data = file.read()
    b"non_blocking" in data or b"pin_memory" in data
"""
PARSE = """import ast, gc, sys, warnings
warnings.simplefilter("ignore")
gc.disable()
for name in open(sys.argv[1]).read().split("\\n"):
    with open(name, "rb", buffering=0) as file:
        data = file.read()
    try:
        ast.parse(data)
    except (SyntaxError, ValueError):
        pass
"""
SAMPLE = 100
LONG = 10.0
"""Seconds from which on one run is enough."""
H2DLINT = str(Path(sys.executable).with_name("h2dlint"))
FINE = (0, 1)
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Cost(Struct, frozen=True):
    """What one run of a command took."""

    wall: float
    """Seconds."""
    cpu: float
    """Seconds of the process and of all that it started."""
    peak: float
    """Memory of the largest of these processes, in MiB."""
    lines: int = 0
    """Lines looked at."""


class Tree(Struct, frozen=True):
    """The Python files of a folder, and what they contain."""

    root: str
    files: Sequence[str]
    lines: int
    candidates: Sequence[str]
    """The files that may hold what the default rules look for."""
    about_torch: Sequence[str]
    largest: str
    """The largest of the candidates."""
    sample: Sequence[str]
    """Files for the tools that take too long for a tree."""
    sample_lines: int


def main(arguments: Sequence[str]) -> None:
    """Prints what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*", metavar="TREE")
    parser.add_argument("--tools", metavar="FOLDER", help="where the other tools are, a virtual environment for each")
    parser.add_argument("--install", action="store_true", help="make the environments that are missing")
    parser.add_argument("--runs", type=int, default=3, help="how often what is short is run (3)")
    options = parser.parse_args(arguments)
    commands = tools_in(options.tools, options.install) if options.tools else {}
    print(f"Python {sys.version.split()[0]}, {CORES} cores, load {os.getloadavg()[0]:.1f}")
    print_startup()
    costs = {root: print_tree(tree_of(root), commands, options.runs) for root in options.trees}
    if len(costs) > 1:
        print_growth(costs)


# --- start-up -----------------------------------------------------------------------------------------------------


def print_startup() -> None:
    """The wall time of a run with nothing to do over that of `python -I -c pass`, without and with settings."""
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
                times[name].append(run(command).wall * 1000)
    python = times.pop("python")
    for name, taken in times.items():
        over_median, over_best = median(taken) - median(python), min(taken) - min(python)
        print(f"start-up: python {median(python):.1f} ms, h2dlint {name} {median(taken):.1f} ms")
        print(f"start-up over python: median {over_median:.1f} ms, best {over_best:.1f} ms ({STARTS} alternating runs)")


# --- a tree -------------------------------------------------------------------------------------------------------


def tree_of(root: str) -> Tree:
    """What there is below `root`."""
    paths = sorted(Path(folder, name) for folder, _, names in os.walk(root) for name in names if name.endswith(".py"))
    sizes: dict[str, int] = {}
    lines: dict[str, int] = {}
    found: dict[tuple[bytes, ...], list[str]] = {NEEDLES: [], TORCH: []}
    for path in paths:
        data = path.read_bytes()
        file = str(path.relative_to(root))
        sizes[file], lines[file] = len(data), data.count(b"\n")
        for needles, files in found.items():
            if any(needle in data for needle in needles):
                files.append(file)
    files = list(sizes)
    sample = files[:: max(1, len(files) // SAMPLE)][:SAMPLE]
    return Tree(
        root=os.path.abspath(root),
        files=files,
        lines=sum(lines.values()),
        candidates=found[NEEDLES],
        about_torch=found[TORCH],
        largest=max(found[NEEDLES] or files, key=sizes.__getitem__),
        sample=sample,
        sample_lines=sum(lines[file] for file in sample),
    )


def print_tree(tree: Tree, commands: Mapping[str, str], runs: int) -> dict[str, Cost]:
    """Measures everything over one tree, prints it as a table with the ratios, and returns it."""
    print(f"\n{Path(tree.root).name}: {len(tree.files):,} files, {tree.lines:,} lines; {len(tree.candidates)} name")
    print(f"{' or '.join(needle.decode() for needle in NEEDLES)}, {len(tree.about_torch)} torch\n")
    costs: dict[str, Cost] = {}
    with tempfile.TemporaryDirectory() as scratch:
        costs["a byte scan of all files"] = best(over_files(SCAN, tree.files, scratch), tree, runs)
        costs["ast.parse of the candidates"] = best(over_files(PARSE, tree.candidates, scratch), tree, runs)
        costs["ast.parse of all about torch"] = best(over_files(PARSE, tree.about_torch, scratch), tree, runs)
        costs.update(costs_of_h2dlint(tree, runs))
        for name, (command, lines) in other_commands(tree, commands, scratch).items():
            costs[name] = best(command, tree, runs, lines)
    parse = costs["ast.parse of the candidates"].cpu
    print("| what | wall s | CPU s | lines/s | peak MiB | x parse |")
    print("|---|---|---|---|---|---|")
    for name, cost in costs.items():
        rate = f"{cost.lines / cost.wall:,.0f}"
        print(f"| {name} | {cost.wall:.2f} | {cost.cpu:.2f} | {rate} | {cost.peak:.0f} | {cost.cpu / parse:.1f} |")
    print_ratios(costs)
    return costs


def costs_of_h2dlint(tree: Tree, runs: int) -> dict[str, Cost]:
    """h2dlint without stored results, in one process and in several, and with them, where it knows how to store."""
    check = [H2DLINT, "check", "--isolated", "--output-format", "concise"]
    cold = [*check, "--no-cache", "--jobs"]
    costs = {
        "h2dlint, 1 process": best([*cold, "1", "."], tree, runs),
        f"h2dlint, {CORES} processes": best([*cold, str(CORES), "."], tree, runs),
        "h2dlint --select ALL, 1 process": best([*cold, "1", "--select", "ALL", "."], tree, runs),
        "h2dlint copies, 1 process": best([H2DLINT, "copies", "--isolated", "--no-cache", "-j1", "."], tree, runs),
    }
    if stores_results():
        with tempfile.TemporaryDirectory() as scratch:  # results are stored beside what is checked
            copy = os.path.join(scratch, Path(tree.root).name)
            shutil.copytree(tree.root, copy, symlinks=True, ignore=shutil.ignore_patterns(".git", ".h2dlint_cache"))
            run([*check, "."], copy)
            costs["h2dlint, nothing changed"] = best([*check, "."], tree, runs, cwd=copy)
            changed: list[Cost] = []
            for number in range(runs):
                with open(os.path.join(copy, tree.largest), "a") as file:
                    file.write(f"# {number}\n")
                changed.append(run([*check, "."], copy))
            costs["h2dlint, largest candidate changed"] = shortest(changed, tree.lines)
    return costs


def stores_results() -> bool:
    """Whether this h2dlint keeps results from run to run."""
    ran = subprocess.run([H2DLINT, "check", "--help"], capture_output=True, text=True)
    return "--clear-cache" in ran.stdout


def other_commands(tree: Tree, commands: Mapping[str, str], scratch: str) -> dict[str, tuple[list[str], int]]:
    """The other tools' command lines over the tree, or over a sample of it, with the lines that they look at."""
    rule = Path(scratch, "rule.yaml")
    rule.write_text(SEMGREP_RULE)
    found: dict[str, tuple[list[str], int]] = {}
    if "ruff" in commands:
        ruff = [commands["ruff"], "check", "--isolated", "--no-cache", "--select", "F", "--quiet", "."]
        found["ruff F, all cores"] = ruff, tree.lines
    if "semgrep" in commands:
        semgrep = [commands["semgrep"], "scan", "--config", str(rule), "--metrics", "off", "--disable-version-check"]
        semgrep += ["--no-git-ignore", "--quiet", "--max-target-bytes", "0", "--include", "*.py"]
        found["semgrep, its pattern only, 1 process"] = [*semgrep, "--jobs", "1", "."], tree.lines
        found[f"semgrep, its pattern only, {CORES} processes"] = [*semgrep, "--jobs", str(CORES), "."], tree.lines
    if "torchfix" in commands:
        found[f"TorchFix, {len(tree.sample)} files"] = [commands["torchfix"], *tree.sample], tree.sample_lines
    if "fixit" in commands:
        found[f"Fixit, {len(tree.sample)} files"] = [commands["fixit"], "lint", *tree.sample], tree.sample_lines
    return found


def print_ratios(costs: Mapping[str, Cost]) -> None:
    """What h2dlint promises, as ratios within this run."""
    one, several = costs["h2dlint, 1 process"], costs[f"h2dlint, {CORES} processes"]
    scan, start = costs["a byte scan of all files"], run([H2DLINT, "--version"])
    print()
    print(f"- cold over ast.parse of the candidates: {one.cpu / costs['ast.parse of the candidates'].cpu:.2f} (CPU)")
    print(f"- {CORES} processes over one: {several.wall / one.wall:.2f} (wall)")
    every = costs["h2dlint --select ALL, 1 process"]
    print(
        f"- every rule over ast.parse of all about torch: {every.cpu / costs['ast.parse of all about torch'].cpu:.2f}"
    )
    warm, changed = costs.get("h2dlint, nothing changed"), costs.get("h2dlint, largest candidate changed")
    if warm and changed:
        print(f"- warm over byte scan and start: {warm.wall / (scan.wall + start.wall):.2f} (wall)")
        print(f"- one changed file over nothing changed: {changed.wall - warm.wall:+.2f} s")
    for name, cost in costs.items():
        if name.startswith(("TorchFix", "Fixit")):
            ratio = (one.lines / one.wall) / (cost.lines / cost.wall)
            print(f"- lines per second over those of {name}: {ratio:.0f}")
        elif name.startswith(("semgrep", "ruff")):
            print(f"- cold, {CORES} processes, over {name}: {several.wall / cost.wall:.2f} (wall)")


def print_growth(costs: Mapping[str, Mapping[str, Cost]]) -> None:
    """How the cost grows with the lines."""
    print("\n| tree | lines | cold CPU s | lines per CPU s | peak MiB | x parse |")
    print("|---|---|---|---|---|---|")
    for root, measured in sorted(costs.items(), key=lambda item: item[1]["h2dlint, 1 process"].lines):
        cold, parse = measured["h2dlint, 1 process"], measured["ast.parse of the candidates"]
        print(
            f"| {Path(root).name} | {cold.lines:,} | {cold.cpu:.2f} | {cold.lines / cold.cpu:,.0f} "
            f"| {cold.peak:.0f} | {cold.cpu / parse.cpu:.1f} |"
        )


# --- measuring ----------------------------------------------------------------------------------------------------


def best(command: Sequence[str], tree: Tree, runs: int, lines: int | None = None, cwd: str = "") -> Cost:
    """The least that a command took, in `runs` runs unless one is long."""
    costs = [run(command, cwd or tree.root)]
    while len(costs) < runs and costs[0].wall < LONG:
        costs.append(run(command, cwd or tree.root))
    return shortest(costs, tree.lines if lines is None else lines)


def shortest(costs: Sequence[Cost], lines: int) -> Cost:
    """The least of each kind."""
    return Cost(
        wall=min(cost.wall for cost in costs),
        cpu=min(cost.cpu for cost in costs),
        peak=min(cost.peak for cost in costs),
        lines=lines,
    )


def run(command: Sequence[str], cwd: str | None = None) -> Cost:
    """One run. Its memory is that of the largest process: the kernel counts each for itself."""
    with tempfile.TemporaryFile("w+") as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in FINE and "fixit" not in command[0]:  # Fixit's status is a set of bits
            errors.seek(0)
            raise SystemExit(f"{' '.join(command)[:200]} ended with {process.returncode}: {errors.read()[-2000:]}")
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1024))


def over_files(program: str, files: Sequence[str], scratch: str) -> list[str]:
    """A process that runs a small program over files."""
    handle, name = tempfile.mkstemp(dir=scratch, text=True)
    with os.fdopen(handle, "w") as file:
        file.write("\n".join(files))
    return [sys.executable, "-I", "-c", program, name]


# --- other tools --------------------------------------------------------------------------------------------------


def tools_in(folder: str, install: bool) -> dict[str, str]:
    """The commands of the other tools; those that are missing are named on stderr, or installed."""
    found: dict[str, str] = {}
    for name, package in TOOLS.items():
        command = Path(folder, name, "bin", name).absolute()
        if install and not command.exists():
            subprocess.run([sys.executable, "-m", "venv", command.parent.parent], check=True)
            subprocess.run([command.with_name("python"), "-m", "pip", "install", "--quiet", package], check=True)
        if command.exists():
            found[name] = str(command)
        else:
            print(f"{name} is not in {folder}: left out", file=sys.stderr)
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
