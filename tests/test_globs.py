"""Globs and .gitignore lines: what they name, and that none takes long, whatever it is."""

from __future__ import annotations

import random
import re
import subprocess
import time
from pathlib import Path

import pytest
from conftest import Cli, WriteFiles

from h2dlint.globs import DEEP, FOLDERS, STAR, IgnoreLines, regex_of, tokens_of


def test_the_expression_for_a_glob_says_what_the_plain_one_says() -> None:
    chance = random.Random(0)
    pieces = [["a"], ["b"], ["/"], [STAR], [STAR], [DEEP], ["[^/]"], ["/", FOLDERS]]
    for _ in range(4000):
        tokens = [token for _ in range(chance.randint(1, 9)) for token in chance.choice(pieces)]
        plain, quick = (re.compile(text, re.DOTALL) for text in ("".join(tokens), regex_of(tokens)))
        for _ in range(3):
            path = "".join(chance.choice("aab/") for _ in range(chance.randint(0, 9)))
            assert bool(plain.fullmatch(path)) is bool(quick.fullmatch(path)), (tokens, path)


SLOW = {
    "stars in a name": ("*a" * 100 + "b", "a" * 255),
    "stars in every folder": ("**/" + "*a*a*a*a*b/**/" * 9, "/".join(["a" * 200] * 9)),
    "folders": ("a/**/" * 60 + "b", "a/" * 200),
    "anything": ("**a" * 60 + "b", "a" * 4000),
}


@pytest.mark.parametrize(("pattern", "path"), SLOW.values(), ids=SLOW.keys())
def test_no_glob_takes_long(pattern: str, path: str) -> None:
    start = time.process_time()
    assert not re.compile(regex_of(tokens_of(pattern)), re.DOTALL).fullmatch(path)
    assert not IgnoreLines(pattern.encode()).says(path)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("seed", range(3))
def test_gitignore_lines_mean_what_git_takes_them_for(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for _ in range(15):
        lines = [line(chance) for _ in range(chance.randint(1, 3))]
        (tmp_path / ".gitignore").write_bytes("\n".join(lines).encode())
        paths = ["/".join(name(chance) for _ in range(chance.randint(1, 4))) for _ in range(60)]
        asked = subprocess.run(
            ["git", "-C", str(tmp_path), "check-ignore", "--no-index", "-z", "--stdin"],
            input="\0".join(paths).encode(), capture_output=True,
        )  # fmt: skip
        ignore = IgnoreLines((tmp_path / ".gitignore").read_bytes())
        ours = {path for path in paths if left_out(ignore, path)}
        assert ours == set(asked.stdout.decode().split("\0")) - {""}, lines


def left_out(ignore: IgnoreLines, path: str) -> bool:
    """As a walk leaves it out: by itself or by a folder around it."""
    parts = path.split("/")
    folders = ("/".join(parts[:count]) + "/" for count in range(1, len(parts)))
    return any(ignore.says(folder) for folder in folders) or bool(ignore.says(path))


PIECES = ("a", "b", "c", ".", "*", "*", "?", "/", "/", "[ab]", "[!a]", "[a-c]", "[]a]", "\\a", "-", "!", "[[:alpha:]]",
          "[b-]", "**/", "/**", "\\ ")  # fmt: skip


def line(chance: random.Random) -> str:
    body = "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 6)))
    ends = ("", "", "/", "  ", "\r")
    return ("!" if chance.random() < 0.2 else "") + ("/" if chance.random() < 0.2 else "") + body + chance.choice(ends)


def name(chance: random.Random) -> str:
    text = "".join(chance.choice("abc.-]!") for _ in range(chance.randint(1, 3)))
    return "a" if text in (".", "..") else text


LINES: dict[str, tuple[bytes, str, bool | None]] = {
    "a byte order mark is none of the pattern": (b"\xef\xbb\xbfx.py\n", "x.py", True),
    "a form feed ends no line": (b"y\x0cx.py\n", "x.py", None),
    "nor does a carriage return inside it": (b"y\rx.py\n", "x.py", None),
    "one before the newline is none of it": (b"x.py\r\n", "x.py", True),
    "nor does U+2028": ("y\u2028x.py\n".encode(), "x.py", None),
    "a backslash at the end names nothing": (b"x.py\\\n", "x.py", None),
    "an exclamation mark alone names nothing": (b"!\n", "x.py", None),
    "a class that is not closed names nothing": (b"[x.py\n", "[x.py", None),
    "a class that does not exist names nothing": (b"[[:klingon:]].py\n", "x.py", None),
    "a line longer than any path": (b"a" * 5_000_000 + b"?\n", "a", None),
    "stars without end are one": (b"*" * 50_000 + b"\n", "x.py", True),
    "bytes that are no text": (bytes(range(256)) * 9, "x.py", None),
    "a folder": (b"gen/\n", "p/gen/", True),
    "a file that is called like the folder": (b"gen/\n", "p/gen", None),
}


@pytest.mark.parametrize(("data", "path", "expected"), LINES.values(), ids=LINES.keys())
def test_a_line_of_a_gitignore(data: bytes, path: str, expected: bool | None) -> None:
    assert IgnoreLines(data).says(path) is expected


@pytest.mark.parametrize(
    "data", [b"x.py\\\n!\n[]\n[!]\n", bytes(range(256)) * 9, b"*a" * 40 + b"b\n", b"\xff\xfe.py\n"]
)
def test_no_gitignore_ends_a_run_or_hides_a_file(write: WriteFiles, forked_cli: Cli, data: bytes) -> None:
    copy = "import torch\n\nx = torch.rand(99999).to('cuda', non_blocking=True)\n"
    root = write({"fine.py": copy, f"{'a' * 200}.py": copy, ".git/HEAD": ""})
    (root / ".gitignore").write_bytes(data)
    ran = forked_cli("check", "--no-cache", "-j1")
    assert (ran.status, ran.out.count("HTD101"), ran.err) == (1, 2, "")


def test_a_folder_for_a_gitignore_is_no_trouble(write: WriteFiles, forked_cli: Cli) -> None:
    write({"a.py": "x.cuda(non_blocking=True)\n", ".gitignore/x": ""})
    assert forked_cli("check", "--no-cache").status == 0
