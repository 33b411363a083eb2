"""What `--fix` does to a whole tree, and whether every change holds.

    python benchmarks/fix_tree.py TREE [FOLDER...]

A copy of TREE is fixed with `--unsafe-fixes`: all of it, or the FOLDERs, relative to TREE, which itself is left
alone. Then: every changed file compiles, a second run changes nothing, in each changed file `h2dlint copies` shows as
many doubtful copies fewer as were fixed and none that cannot be proven more, and ruff finds no undefined name, unused
import or unused variable more than before. Ends with status 1 if any of that fails.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

DOUBTFUL = ("fake-async", "conditional")
DOWNLOADS = ("HTD108", "HTD303")
"""What is done with a download that nobody asked to be asynchronous: no doubtful copy, but a finding that must go."""
RUFF = ("F401", "F821", "F841")


def main(arguments: Sequence[str]) -> int:
    """Fixes a copy of the tree and prints what held; 1 if anything did not."""
    tree, *folders = arguments
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch) / "tree"
        shutil.copytree(tree, work, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        return fix_and_prove(work, folders or ["."])


def fix_and_prove(work: Path, folders: Sequence[str]) -> int:
    """Fixes `folders` in `work`, which is changed."""
    before = check(work, folders)
    copies_before, ruff_before = copies(work, folders), ruff(work, folders)
    texts = {path: path.read_bytes() for path in work.rglob("*.py") if path.is_file()}
    start = time.perf_counter()
    fixed = check(work, folders, "--fix", "--unsafe-fixes")["fixed"]
    seconds = time.perf_counter() - start
    changed = sorted(str(path.relative_to(work)) for path, text in texts.items() if path.read_bytes() != text)
    print_what_was_fixed(before, fixed, changed, seconds)
    problems = [
        *does_not_compile(work, changed),
        *still_changes(work, folders),
        *not_cured(fixed, copies_before, copies(work, folders)),
        *still_found(fixed, before, check(work, folders)),
        *(f"ruff: {more}" for more in ruff(work, folders) - ruff_before),
    ]
    print(f"held: compile, second run, verdicts, ruff {' '.join(RUFF)}" if not problems else "FAILED:")
    for problem in problems:
        print(f"  {problem}")
    return 1 if problems else 0


def print_what_was_fixed(
    before: Mapping[str, Any], fixed: Sequence[Any], changed: Sequence[str], seconds: float
) -> None:
    """The numbers: by rewrite, and why the rest has none."""
    total = len(before["findings"])
    print(f"{total} findings, {len(fixed)} fixed in {len(changed)} files in {seconds:.1f} s")
    for (title, applicability), number in Counter((one["title"], one["applicability"]) for one in fixed).most_common():
        print(f"  {number:4} {title} ({applicability})")
    print(f"{total - len(fixed)} without a fix")
    for reason, number in Counter(one["no_fix"] for one in before["findings"] if not one["fix"]).most_common():
        print(f"  {number:4} {reason}")


# --- what must hold -----------------------------------------------------------------------------------------------


def does_not_compile(work: Path, changed: Sequence[str]) -> list[str]:
    """The changed files that Python refuses."""
    problems: list[str] = []
    for name in changed:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile((work / name).read_bytes(), name, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            problems.append(f"{name}: {error}")
    return problems


def still_changes(work: Path, folders: Sequence[str]) -> list[str]:
    """What a second run would change."""
    diff = h2dlint(work, "check", "--diff", "--unsafe-fixes", "--isolated", *folders)
    return [f"a second run would change {len(diff.splitlines())} lines"] if diff else []


def not_cured(fixed: Sequence[Any], before: Sequence[Any], after: Sequence[Any]) -> list[str]:
    """Files with more doubtful or unproven copies than their fixes leave room for."""
    made = Counter(one["path"] for one in fixed if one["code"] not in DOWNLOADS)
    problems: list[str] = []
    for path, number in made.items():
        was, now = doubtful(before, path), doubtful(after, path)
        if now > was - number:
            problems.append(f"{path}: {number} fixed, but {was} doubtful copies became {now}")
        if unproven(after, path) > unproven(before, path):
            problems.append(f"{path}: more copies cannot be proven than before")
    return problems


def still_found(fixed: Sequence[Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Files with more findings about downloads than their fixes leave room for."""
    made = Counter(one["path"] for one in fixed if one["code"] in DOWNLOADS)
    counts = [Counter(f["path"] for f in run["findings"] if f["code"] in DOWNLOADS) for run in (before, after)]
    return [
        f"{path}: {number} downloads fixed, but {counts[0][path]} findings became {counts[1][path]}"
        for path, number in made.items()
        if counts[1][path] > counts[0][path] - number
    ]


def doubtful(copies: Sequence[Any], path: str) -> int:
    """How many copies of a file are reported."""
    return sum(copy["path"] == path and copy["verdict"] in DOUBTFUL and bool(copy["codes"]) for copy in copies)


def unproven(copies: Sequence[Any], path: str) -> int:
    """How many copies of a file ask for non_blocking and cannot be proven."""
    return sum(copy["path"] == path and copy["verdict"] == "unproven" and bool(copy["codes"]) for copy in copies)


# --- tools --------------------------------------------------------------------------------------------------------


def check(work: Path, folders: Sequence[str], *options: str) -> Any:
    """A report of `h2dlint check`."""
    return json.loads(h2dlint(work, "check", "--isolated", "--output-format", "json", *options, *folders))


def copies(work: Path, folders: Sequence[str]) -> list[Any]:
    """The inventory."""
    found: list[Any] = json.loads(h2dlint(work, "copies", "--isolated", "--output-format", "json", *folders))["copies"]
    return found


def h2dlint(work: Path, *arguments: str) -> str:
    """What a command prints."""
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "h2dlint", *arguments] if sys.version_info >= (3, 11) else ["h2dlint", *arguments],
        cwd=work,
        capture_output=True,
        text=True,
    )
    if ran.returncode not in (0, 1):
        raise SystemExit(f"h2dlint failed: {ran.stderr}")
    return ran.stdout


def ruff(work: Path, folders: Sequence[str]) -> Counter[str]:
    """How often ruff says what, by file."""
    command = ["ruff", "check", "--isolated", "--select", ",".join(RUFF), "--output-format", "json", "--no-cache"]
    ran = subprocess.run(
        [sys.executable, "-m", *command, *folders], cwd=work, env=dict(os.environ), capture_output=True, text=True
    )
    return Counter(
        f"{os.path.relpath(one['filename'], work)}: {one['code']} {one['message']}" for one in json.loads(ran.stdout)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
