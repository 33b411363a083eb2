"""`check --fix` and its family: exit statuses, what is written, what is shown, what stays as it was."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Cli, WriteFiles

from h2dlint.config import ConfigError, Configs
from h2dlint.fixing import FixOptions

INDEX = "import torch\n\nx = torch.arange(99999).to('cuda', non_blocking=True)\n"
INDEX_FIXED = "import torch\n\nx = torch.arange(99999, device='cuda')\n"
UNFIXABLE = """import torch
from torch.utils.data import Dataset


class Noise(Dataset):
    def __getitem__(self, index):
        return torch.rand(99999).to("cuda", non_blocking=True)
"""
"""A loader's worker must not pin."""
FINE = "import torch\n\nx = torch.rand(99999, pin_memory=True).to('cuda', non_blocking=True)\n"
NOTHING = "import os\n"

DIFF = """--- a/a.py
+++ b/a.py
@@ -1,3 +1,3 @@
 import torch
{}
-x = torch.arange(99999).to('cuda', non_blocking=True)
+x = torch.arange(99999, device='cuda')
""".format(" ")

STATUSES: dict[str, tuple[str, tuple[str, ...], int]] = {
    "nothing to fix": (FINE, ("--fix",), 0),
    "nothing to look at": (NOTHING, ("--fix",), 0),
    "all fixed": (INDEX, ("--fix",), 0),
    "all fixed, and that is to be told": (INDEX, ("--fix", "--exit-non-zero-on-fix"), 1),
    "nothing fixed, and that is to be told": (FINE, ("--fix", "--exit-non-zero-on-fix"), 0),
    "fixable, but not asked to": (INDEX, (), 1),
    "unsafe ones shown, not made": (INDEX, ("--unsafe-fixes",), 1),
    "a diff": (INDEX, ("--diff",), 1),
    "no diff": (FINE, ("--diff",), 0),
    "a diff, and zero asked for": (INDEX, ("--diff", "--exit-zero"), 0),
    "fix only": (INDEX, ("--fix-only",), 0),
    "fix only, and that is to be told": (INDEX, ("--fix-only", "--exit-non-zero-on-fix"), 1),
}


@pytest.mark.parametrize(("code", "options", "status"), STATUSES.values(), ids=STATUSES.keys())
def test_exit_status(write: WriteFiles, cli: Cli, code: str, options: tuple[str, ...], status: int) -> None:
    write({"a.py": code})
    ran = cli("check", *options)
    assert ran.status == status, ran.out + ran.err


def test_what_cannot_be_fixed_is_reported_and_fails(write: WriteFiles, cli: Cli) -> None:
    folder = write({"a.py": INDEX, "b.py": UNFIXABLE})
    ran = cli("check", "--fix", "--output-format", "json")
    report = json.loads(ran.out)
    assert (ran.status, [finding["path"] for finding in report["findings"]]) == (1, ["b.py"])
    assert report["summary"]["fixed"] == 1
    assert (folder / "a.py").read_text() == INDEX_FIXED
    assert cli("check", "--fix-only").status == 0


def test_a_second_run_changes_nothing(write: WriteFiles, cli: Cli) -> None:
    folder = write({"a.py": INDEX})
    assert "Fixed 1 finding in 1 file" in cli("check", "--fix").out
    before = (folder / "a.py").stat().st_mtime_ns
    assert "Fixed" not in cli("check", "--fix").out
    assert (folder / "a.py").stat().st_mtime_ns == before
    assert cli("check", "--diff").out == ""


def test_a_diff_writes_nothing(write: WriteFiles, cli: Cli) -> None:
    folder = write({"a.py": INDEX})
    ran = cli("check", "--diff")
    assert (ran.out, ran.err) == (DIFF, "h2dlint: Would fix 1 finding in 1 file\n")
    assert (folder / "a.py").read_text() == INDEX


def test_a_diff_can_be_colored_and_filed(write: WriteFiles, cli: Cli) -> None:
    folder = write({"a.py": INDEX})
    assert "\x1b[32m+x = torch.arange" in cli("check", "--diff", "--color", "always").out
    assert cli("check", "--diff", "--output-file", "out.patch").out == ""
    assert (folder / "out.patch").read_text() == DIFF


def test_fix_only_says_what_was_done_and_no_more(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": INDEX, "b.py": UNFIXABLE})
    ran = cli("check", "--fix-only")
    assert (ran.out, ran.err) == ("", "h2dlint: Fixed 1 finding in 1 file\n")


def test_a_silenced_finding_is_not_fixed(write: WriteFiles, cli: Cli) -> None:
    code = INDEX.rstrip() + "  # h2dlint: ignore[HTD201] wanted\n"
    folder = write({"a.py": code})
    assert cli("check", "--fix").status == 0
    assert (folder / "a.py").read_text() == code


def test_only_selected_rules_fix(write: WriteFiles, cli: Cli) -> None:
    folder = write({"a.py": INDEX})
    cli("check", "--fix", "--select", "HTD101")
    assert (folder / "a.py").read_text() == INDEX


# --- files --------------------------------------------------------------------------------------------------------

BYTES: dict[str, tuple[bytes, bytes]] = {
    "Windows line ends": (
        INDEX.replace("\n", "\r\n").encode(),
        INDEX_FIXED.replace("\n", "\r\n").encode(),
    ),
    "a byte order mark": (INDEX.encode("utf-8-sig"), INDEX_FIXED.encode("utf-8-sig")),
    "another encoding": (
        f"# coding: latin-1\n# caf\u00e9\n{INDEX}".encode("latin-1"),
        f"# coding: latin-1\n# caf\u00e9\n{INDEX_FIXED}".encode("latin-1"),
    ),
    "wide characters in front": (
        INDEX.replace("x = ", "y = '\u65e5\u672c', (").replace("True)", "True))").encode(),
        INDEX_FIXED.replace("x = ", "y = '\u65e5\u672c', (").replace("'cuda')", "'cuda'))").encode(),
    ),
    "no newline at the end": (INDEX.rstrip().encode(), INDEX_FIXED.rstrip().encode()),
    "mixed line ends": (
        INDEX.replace("\n\n", "\r\n\n").encode(),
        INDEX_FIXED.replace("\n\n", "\r\n\n").encode(),
    ),
    "tabs": (
        b"import torch\n\nif True:\n\tx = torch.arange(9999).to('cuda', non_blocking=True)\n",
        b"import torch\n\nif True:\n\tx = torch.arange(9999, device='cuda')\n",
    ),
    "a form feed": (INDEX.replace("\nx", "\n\x0c\nx").encode(), INDEX_FIXED.replace("\nx", "\n\x0c\nx").encode()),
    "comments": (
        INDEX.replace("\nx", "\n# why\nx").replace("True)", "True)  # how").encode(),
        INDEX_FIXED.replace("\nx", "\n# why\nx").replace("'cuda')", "'cuda')  # how").encode(),
    ),
}


@pytest.mark.parametrize(("before", "after"), BYTES.values(), ids=BYTES.keys())
def test_what_is_not_fixed_keeps_its_bytes(tmp_path: Path, cli: Cli, before: bytes, after: bytes) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(before)
    ran = cli("check", "--fix")
    assert (ran.status, file.read_bytes()) == (0, after), ran.out + ran.err


def test_mode_and_links_stay(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "p").mkdir()
    real = tmp_path / "p" / "real.txt"
    real.write_text(INDEX)
    real.chmod(0o755)
    (tmp_path / "a.py").symlink_to(real)
    assert cli("check", "--fix").status == 0
    assert (tmp_path / "a.py").is_symlink()
    assert (real.read_text(), stat.S_IMODE(real.stat().st_mode)) == (INDEX_FIXED, 0o755)


def test_many_files_in_several_processes(write: WriteFiles, cli: Cli) -> None:
    folder = write({f"p/{number}.py": INDEX for number in range(20)})
    assert "Fixed 20 findings in 20 files" in cli("check", "--fix", "-j", "2").out
    assert {file.read_text() for file in folder.glob("p/*.py")} == {INDEX_FIXED}


@pytest.mark.parametrize("seconds", [0.3, 0.8, 1.3])
def test_an_interrupted_run_leaves_every_file_whole(write: WriteFiles, seconds: float) -> None:
    folder = write({f"{number}.py": INDEX + "# more\n" * 2000 for number in range(60)})
    process = subprocess.Popen(
        [sys.executable, "-m", "h2dlint", "check", "--fix"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (0, 130, -signal.SIGINT), err
    whole = {INDEX + "# more\n" * 2000, INDEX_FIXED + "# more\n" * 2000}
    assert {file.read_text() for file in folder.glob("*.py")} <= whole
    there = set(os.listdir(folder)) - {".h2dlint_cache"}
    assert there == {f"{number}.py" for number in range(60)}


def test_a_file_that_changes_in_between_is_left_alone(write: WriteFiles) -> None:
    code = (
        "import sys\n"
        "import h2dlint.apply as apply\n"
        "write = apply.write_file\n"
        "def meddle(file, before, after):\n"
        "    with open(file, 'a') as stream:\n"
        "        stream.write('# mine\\n')\n"
        "    write(file, before, after)\n"
        "apply.write_file = meddle\n"
        "from h2dlint.cli import exit_code\n"
        "sys.exit(exit_code(['check', '--fix', '--output-format', 'concise']))\n"
    )
    folder = write({"p/a.py": INDEX})
    ran = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 1
    assert ran.stderr == "h2dlint: p/a.py was left alone: it was changed while it was looked at\n"
    assert ran.stdout.startswith("p/a.py:3:5: HTD201 error")
    assert "Fixed" not in ran.stdout
    assert (folder / "p/a.py").read_text() == INDEX + "# mine\n"


# --- what is shown ------------------------------------------------------------------------------------------------


def test_full_shows_the_change_under_the_finding(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": INDEX})
    out = cli("check", "--output-format", "full").out
    assert "= fix (--fix): " in out
    assert "3 - x = torch.arange(99999).to('cuda', non_blocking=True)" in out
    assert "3 + x = torch.arange(99999, device='cuda')" in out
    assert "1 fixable with --fix" in out


def test_full_says_why_there_is_no_fix(write: WriteFiles, cli: Cli) -> None:
    write({"b.py": UNFIXABLE})
    assert "= no fix: " in cli("check", "--output-format", "full").out


def test_json_has_the_edits(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": INDEX, "b.py": UNFIXABLE})
    first, second = json.loads(cli("check", "--output-format", "json").out)["findings"]
    text = INDEX
    for edit in sorted(first["fix"]["edits"], key=lambda edit: -int(edit["start"])):
        text = text[: edit["start"]] + edit["replacement"] + text[edit["end"] :]
    assert (text, first["fix"]["applicability"], first["no_fix"]) == (INDEX_FIXED, "safe", None)
    assert second["fix"] is None
    assert second["no_fix"]


# --- settings -----------------------------------------------------------------------------------------------------


def test_settings_about_fixes(write: WriteFiles) -> None:
    text = "pin-guard = 'pkg.mod.PIN()'\ntransfer-helper = 'pkg.mod.send'\nmax-rows = 3\nmax-pin-bytes = 4096\n"
    folder = write({"h2dlint.toml": text})
    assert Configs().for_folder(str(folder)).fix_options() == FixOptions("pkg.mod.PIN()", "pkg.mod.send", 3, 4096)
    assert Configs(isolated=True).for_folder(str(folder)).fix_options() == FixOptions()


BAD_SETTINGS = {
    "a guard that is no expression": ("pin-guard = 'if x'", "`pin-guard`: not an expression"),
    "a guard over two lines": ('pin-guard = "f(\\n)"', "`pin-guard`: not an expression"),
    "a helper that is no dotted name": ("transfer-helper = 'send'", "`transfer-helper`: not a dotted name"),
    "no rows": ("max-rows = 0", "`max-rows`: expected a whole number from 1 on"),
    "less than nothing": ("max-pin-bytes = -1", "`max-pin-bytes`: expected a whole number from 0 on"),
}


@pytest.mark.parametrize(("text", "message"), BAD_SETTINGS.values(), ids=BAD_SETTINGS.keys())
def test_bad_settings_about_fixes(write: WriteFiles, text: str, message: str) -> None:
    folder = write({"h2dlint.toml": text})
    with pytest.raises(ConfigError, match=message.replace("(", "[(]")):
        Configs().for_folder(str(folder))
