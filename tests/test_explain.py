"""`copies --explain PATH:LINE` tells every way to a copy, file by file, and what could not be followed."""

from __future__ import annotations

import pytest
from conftest import Cli, WriteFiles

UPLOAD = "def upload(values, device):\n    return values.to(device, non_blocking=True)\n"
USE = (
    "import torch\n\nfrom pkg.upload import upload\n\n\ndef step(n):\n    upload(torch.rand(n), 'cuda')\n\n\n"
    "def other(values):\n    upload(values, 'cuda')\n"
)
PROJECT = {"pyproject.toml": "", "pkg/__init__.py": "", "pkg/upload.py": UPLOAD, "pkg/use.py": USE}

EXPECTED = """\
pkg/upload.py:2:12: `to` in `upload` is conditional
  way 1: the function on its own (does not count: what callers pass is known, or no program goes this way)
    unknown | here: unproven
    not followed: where `values` lies cannot be followed
  way 2: called from pkg/use.py:7
    pkg/use.py:7: `rand` allocates pageable memory
    cpu | pageable | dense | rand@7 -> here: fake-async
  way 3: called from pkg/use.py:11
    unknown | here: unproven
    not followed: where `values` lies cannot be followed
  read for it: pkg/use.py
"""


def test_every_way_is_told_with_its_files(write: WriteFiles, cli: Cli) -> None:
    write(PROJECT)
    ran = cli("copies", "--explain", "pkg/upload.py:2")
    assert (ran.status, ran.out) == (0, EXPECTED)


def test_an_assumed_destination_is_said(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": "import torch\n\n\ndef f(d):\n    return torch.rand(9).to(d, non_blocking=True)\n"})
    out = cli("copies", "--explain", "a.py:5").out
    assert "    assumed: the destination is an accelerator, since the copy asks for non_blocking\n" in out
    assert out.endswith("  read for it: no other file\n")


@pytest.mark.parametrize(
    ("copy", "unknown"),
    [
        ("rows.copy_(x, non_blocking=True)", "where `x` lies"),
        ("rows.copy_(torch.zeros(9, device='cuda'), non_blocking=True)", "where `rows` lies"),
        ("rows.copy_(torch.zeros(9).to(x, non_blocking=True), non_blocking=True)", "where `rows` lies"),
        ("torch.zeros(9, device='cuda').copy_(x, non_blocking=True)", "where `x` lies"),
        ("torch.zeros(9).copy_(x, non_blocking=True)", "where `x` lies"),
        ("x.to('cuda', non_blocking=True)", "where `x` lies"),
    ],
)
def test_the_side_that_is_not_known_is_named(write: WriteFiles, cli: Cli, copy: str, unknown: str) -> None:
    write({"a.py": f"import torch\n\n\ndef f(rows, x):\n    {copy}\n"})
    notes = [
        line
        for line in cli("check", "--show-unproven", "--output-format", "concise").out.splitlines()
        if "HTD190" in line
    ]
    assert [note.partition("asynchronous: ")[2] for note in notes] == [f"{unknown} cannot be followed"]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("a.py", "`--explain` wants PATH:LINE, such as src/worker.py:120, not a.py"),
        ("a.py:1", "a.py:1: no copy between host and device is known on this line"),
        ("b.py:1", "b.py cannot be read: No such file or directory"),
    ],
    ids=["no line", "a line without a copy", "no file"],
)
def test_a_place_without_a_copy_is_said_plainly(write: WriteFiles, cli: Cli, place: str, message: str) -> None:
    write({"a.py": "import torch\n"})
    ran = cli("copies", "--explain", place)
    assert ran.status != 0
    assert message in ran.err
