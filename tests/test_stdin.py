"""What an editor pipes through: `h2dlint check - --stdin-filename FILE`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import WriteFiles, clean_environment

FAKE = b"import torch\n\nx = torch.rand(99999).to('cuda', non_blocking=True)\n"
FIXED = FAKE.replace(b"(99999)", b"(99999, pin_memory=True)")
BROKEN = b"x.to('cuda', non_blocking=True\n"


def piped(folder: Path, data: bytes, *options: str) -> tuple[int, bytes, str]:
    """Status, stdout and stderr of `h2dlint check - OPTIONS...` with `data` on its stdin."""
    command = [sys.executable, "-m", "h2dlint", "check", "-", *options]
    ran = subprocess.run(command, cwd=folder, env=clean_environment(), input=data, capture_output=True, timeout=60)
    return ran.returncode, ran.stdout, ran.stderr.decode()


def test_findings_go_to_stdout_and_carry_the_given_name(tmp_path: Path) -> None:
    status, out, err = piped(tmp_path, FAKE, "--stdin-filename", "src/step.py")
    assert (status, err) == (1, "")
    assert out.startswith(b"src/step.py:3:5: HTD101 error ")
    assert piped(tmp_path, FAKE)[1].startswith(b"-:3:5: HTD101 error ")


def test_with_fix_the_text_goes_to_stdout_and_the_rest_to_stderr(tmp_path: Path) -> None:
    status, out, err = piped(tmp_path, FAKE, "--fix")
    assert (status, out) == (0, FIXED)
    assert err.startswith("Fixed 1 finding in 1 file")
    assert piped(tmp_path, FAKE, "--fix-only")[1] == FIXED


UNCHANGED: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", 0),
    "nothing to look at": (b"x = 1\n", 0),
    "nothing to fix": (FIXED, 0),
    "not Python": (BROKEN, 1),
    "not text": (b"\xff\x00 non_blocking", 1),
    "no newline at the end": (b"x = 1", 0),
}


@pytest.mark.parametrize(("data", "status"), UNCHANGED.values(), ids=UNCHANGED.keys())
def test_what_cannot_be_fixed_comes_out_as_it_went_in(tmp_path: Path, data: bytes, status: int) -> None:
    assert piped(tmp_path, data, "--fix")[:2] == (status, data)


def test_encoding_and_line_ends_stay(tmp_path: Path) -> None:
    def latin(data: bytes) -> bytes:
        return ("# coding: latin-1\n# é\n".encode("latin-1") + data).replace(b"\n", b"\r\n")

    assert piped(tmp_path, latin(FAKE), "--fix")[1] == latin(FIXED)


def test_no_file_is_read_or_written(write: WriteFiles) -> None:
    folder = write({"a.py": "x = 1\n"})
    assert piped(folder, FAKE, "--fix", "--stdin-filename", "a.py")[1] == FIXED
    assert (folder / "a.py").read_text() == "x = 1\n"


def test_diff_shows_the_change(tmp_path: Path) -> None:
    status, out, _ = piped(tmp_path, FAKE, "--diff", "--stdin-filename", "a.py")
    assert status == 1
    assert out.startswith(b"--- a/a.py\n+++ b/a.py\n")


def test_settings_and_imports_are_those_of_the_named_file(write: WriteFiles) -> None:
    code = b"from shared import make\n\n\ndef f(d):\n    return make(9999).to(d, non_blocking=True)\n"
    folder = write(
        {
            "p/pyproject.toml": "[tool.h2dlint]\nignore = ['HTD201']\n",
            "p/shared.py": "import torch\n\n\ndef make(n):\n    return torch.rand(n)\n",
        }
    )
    assert b"HTD101" in piped(folder, code, "--stdin-filename", "p/a.py")[1]
    write({"p/pyproject.toml": "[tool.h2dlint]\nignore = ['HTD101']\n"})
    assert b"HTD101" not in piped(folder, code, "--stdin-filename", "p/a.py")[1]


def test_a_notebook_is_told_by_its_name(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "source": FAKE.decode()}
    data = json.dumps({"cells": [cell]}).encode()
    status, out, _ = piped(tmp_path, data, "--fix", "--stdin-filename", "n.ipynb")
    assert (status, json.loads(out)) == (0, {"cells": [{**cell, "source": FIXED.decode()}]})


def test_an_excluded_file_comes_out_as_it_went_in_if_excludes_are_forced(write: WriteFiles) -> None:
    folder = write({"h2dlint.toml": "extend-exclude = ['gen']"})
    assert piped(folder, FAKE, "--fix", "--stdin-filename", "gen/a.py")[1] == FIXED
    assert piped(folder, FAKE, "--fix", "--stdin-filename", "gen/a.py", "--force-exclude")[:2] == (0, FAKE)


@pytest.mark.parametrize("options", [("a.py",), ("-", "a.py")])
def test_nothing_goes_with_stdin(write: WriteFiles, options: tuple[str, ...]) -> None:
    status, out, err = piped(write({"a.py": ""}), FAKE, *options)
    assert (status, out) == (2, b"")
    assert "`-` reads one file from stdin: give no other path with it" in err


def test_a_name_for_nothing_is_refused(write: WriteFiles) -> None:
    command = [sys.executable, "-m", "h2dlint", "check", "a.py", "--stdin-filename", "b.py"]
    ran = subprocess.run(command, cwd=write({"a.py": ""}), capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "give `-` as the only path" in ran.stderr
