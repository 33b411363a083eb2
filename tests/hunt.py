"""A hunt for files that h2dlint does not survive, for as long as one likes.

    python hunt.py [--seed N] [--seconds N] [--count N] [--keep FOLDER] [programs | mutations | fixes]...

programs    modules made at random: no failure, no hang, the same twice
mutations   valid files damaged at random: the same, and damaged notebooks and settings
fixes       both, with every fix made: still compiles, a second run changes nothing, the rest stays to the byte

Each kind runs for so many seconds (60), or so many cases. Each case has a number, which makes it again: a failure is
printed with it, and its file is kept in FOLDER. Ends with status 1 if anything failed.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from mutations import mutated, valid_files
from random_programs import module_text
from survival import assert_fixes_hold, assert_says_the_same_again, assert_survives


def program(random: random.Random) -> bytes:
    """A module made at random."""
    return module_text(random, random.choice((10, 30, 60, 150))).encode()


def damaged(random: random.Random) -> bytes:
    """A valid file, or a module made at random, damaged."""
    files = valid_files()
    data = files[random.randrange(len(files))] if random.randrange(3) else program(random)
    return mutated(random, data)


def either(random: random.Random) -> bytes:
    """Something to fix: a valid file, sometimes damaged, or a module made at random."""
    files = valid_files()
    data = files[random.randrange(len(files))] if random.randrange(2) else program(random)
    return mutated(random, data) if random.randrange(2) else data


def try_program(data: bytes) -> None:
    """What must hold for a module."""
    assert_survives(data)
    assert_says_the_same_again(data)


def try_fixes(data: bytes) -> None:
    """What must hold for its fixes."""
    assert_fixes_hold(data)


KINDS: dict[str, tuple[Callable[[random.Random], bytes], Callable[[bytes], None]]] = {
    "programs": (program, try_program),
    "mutations": (damaged, assert_survives),
    "fixes": (either, try_fixes),
}


def main(arguments: Sequence[str]) -> int:
    """Hunts, and prints the counts; 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=list(KINDS), metavar="KIND")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first case")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--count", type=int, default=sys.maxsize)
    parser.add_argument("--keep", type=Path, help="where the files go that were not survived")
    options = parser.parse_args(arguments)
    failures = sum(hunt(kind, options) for kind in options.kinds)
    return 1 if failures else 0


def hunt(kind: str, options: argparse.Namespace) -> int:
    """How many kinds of failures there were."""
    make, hold = KINDS[kind]
    seen: Counter[str] = Counter()
    start = time.monotonic()
    cases = lines = 0
    longest = 0.0
    while cases < options.count and time.monotonic() - start < options.seconds:
        number = options.seed + cases
        data = make(random.Random(f"{kind} {number}"))
        cases += 1
        lines += data.count(b"\n")
        began = time.process_time()
        try:
            hold(data)
        except Exception as error:
            what = f"{type(error).__name__}: {str(error)[:200]}"
            like = re.sub(r"\d+|'[^']*'", "N", what)
            seen[like] += 1
            if seen[like] == 1:
                print(f"{kind} {number}: {what}", flush=True)
                traceback.print_exc(limit=-2)
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / f"{kind}-{number}.py").write_bytes(data)
        longest = max(longest, time.process_time() - began)
    seconds = time.monotonic() - start
    print(f"{kind}: {cases:,} cases, {lines:,} lines, {sum(seen.values())} failures of {len(seen)} kinds, ", end="")
    print(f"{seconds:.0f} s, the longest {longest:.1f} s", flush=True)
    return len(seen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
