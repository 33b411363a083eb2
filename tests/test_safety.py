"""The promises of SECURITY.md, by their numbers; those about the cache are in test_cache.py."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
import xml.dom.minidom
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import Cli, WriteFiles, clean_environment

from h2dlint.apply import NotWrittenError, unified_diff, write_file

FAKE = "import torch\n\n\ndef send(n, device):\n    return torch.rand(n).to(device, non_blocking=True)\n"
FORMATS = ("full", "concise", "json", "sarif", "github", "gitlab", "junit", "markdown")
FOR_PEOPLE = ("full", "concise", "github", "markdown")

# --- 1, 2 and 4: what is run, opened and read ------------------------------------------------------------------------

TRIPWIRE = "import os\nopen(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'RUN'), 'w').close()\n"

HOSTILE: Mapping[str, str] = {
    "pyproject.toml": "[tool.h2dlint]\npin-guard = \"__import__('os').system('touch RUN') or pkg.PIN\"\n",
    "setup.py": TRIPWIRE,
    "conftest.py": TRIPWIRE,
    "sitecustomize.py": TRIPWIRE,
    **{f"{name}.py": TRIPWIRE for name in ("torch", "numpy", "click", "msgspec", "libcst", "rich", "json")},
    "pkg/__init__.py": TRIPWIRE + FAKE,
    "pkg/user.py": "from pkg import send\nimport torch\n" + TRIPWIRE + FAKE,
    "pkg/plugin.py": "# -*- coding: pkg.codec -*-\n" + FAKE,
    "book.ipynb": json.dumps(
        {
            "cells": [
                {"cell_type": "code", "metadata": {}, "outputs": [], "source": f"!touch RUN\n{TRIPWIRE}\n{FAKE}"},
                {"cell_type": "code", "metadata": {}, "outputs": [], "source": "%run setup.py\n%%bash\ntouch RUN\n"},
            ],
            "metadata": {},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    ),
}

WATCHED = (
    "import sys\n"
    "def hook(event, args):\n"
    "    if event.startswith(('socket.', 'subprocess.', 'os.system', 'os.exec', 'os.posix_spawn', 'pickle.find_class',"
    " 'ctypes.', 'webbrowser.', 'urllib.')):\n"
    "        print('WATCHED', event, args, file=sys.stderr)\n"
    "from h2dlint.cli import exit_code\n"
    "import multiprocessing.context, multiprocessing.connection\n"
    "sys.addaudithook(hook)\n"
    "sys.exit(exit_code(sys.argv[1:]))\n"
)


@pytest.mark.parametrize("options", [("--diff",), ("--fix", "--unsafe-fixes"), ("--affected",), ("--add-ignore",)])
def test_nothing_of_the_checked_code_is_run_and_nobody_is_called(write: WriteFiles, options: tuple[str, ...]) -> None:
    folder = write(HOSTILE)
    for _ in range(2):  # the second time with what is stored
        ran = subprocess.run(
            [sys.executable, "-P" if sys.version_info >= (3, 11) else "-I", "-c", WATCHED, "check", ".", *options],
            cwd=folder,
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert ran.returncode in (0, 1), ran.stderr
        assert "WATCHED" not in ran.stderr
    assert not list(folder.rglob("RUN"))


def test_python_m_takes_no_library_from_the_folder(write: WriteFiles, cli: Cli) -> None:
    folder = write({"click.py": TRIPWIRE, "msgspec.py": TRIPWIRE, "a.py": FAKE})
    assert cli("check").status == 1
    assert not (folder / "RUN").exists()


def test_a_monitor_that_the_repository_configures_is_not_started(write: WriteFiles, cli: Cli) -> None:
    folder = write({"a.py": FAKE, "b.py": "", "run.sh": "#!/bin/sh\ntouch RUN\n"})
    (folder / "run.sh").chmod(0o755)
    for command in (
        ["init", "-q"],
        ["add", "a.py"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"],
    ):
        subprocess.run(["git", *command], cwd=folder, check=True)
    config = folder / ".git/config"
    config.write_text(config.read_text() + f"[core]\nfsmonitor = {folder}/run.sh\n[diff]\nexternal = {folder}/run.sh\n")
    assert cli("check", "--since", "HEAD").status == 0
    assert not list(folder.rglob("RUN"))


# --- 3, 5 to 8: what is written --------------------------------------------------------------------------------------


def test_only_the_cache_is_written_by_a_check(write: WriteFiles, forked_cli: Cli) -> None:
    folder = write({"pyproject.toml": "", "a.py": FAKE, "sub/b.py": FAKE})
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    forked_cli("check")
    forked_cli("copies")
    after = {path for path in folder.rglob("*") if path.is_file() and ".h2dlint_cache" not in path.parts}
    assert after == set(before)
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"old")
    monkeypatch.setattr(os, step, full_disk)
    with pytest.raises(NotWrittenError, match="cannot be written: No space left on device"):
        write_file(str(file), b"old", b"new")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_real_full_disk_leaves_the_old_file(tmp_path: Path, cli: Cli) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        (disk / "a.py").write_text(FAKE + "# " + "x" * 30_000 + "\n")
        before = (disk / "a.py").read_bytes()
        (disk / "filler").write_bytes(b"x" * 20_000)
        ran = cli("check", "disk", "--fix", "--output-format", "concise", "--no-cache")
        assert "disk/a.py was left alone: it cannot be written: No space left on device" in ran.err
        assert ran.status == 1
        assert (disk / "a.py").read_bytes() == before
        assert sorted(path.name for path in disk.iterdir()) == ["a.py", "filler"]
        assert cli("check", "disk", "--output-format", "concise").out == ran.out  # its cache has no room either
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"somebody else's")
    with pytest.raises(NotWrittenError, match="changed while it was looked at"):
        write_file(str(file), b"old", b"new")
    assert file.read_bytes() == b"somebody else's"


def test_a_file_that_vanished_meanwhile_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(NotWrittenError, match="cannot be written"):
        write_file(str(tmp_path / "gone.py"), b"old", b"new")
    assert list(tmp_path.iterdir()) == []


def test_mode_and_link_stay(write: WriteFiles, cli: Cli) -> None:
    folder = write({"real/a.py": FAKE})
    (folder / "real/a.py").chmod(0o640)
    (folder / "link.py").symlink_to("real/a.py")
    assert cli("check", "link.py", "--fix").status == 0
    assert (folder / "link.py").is_symlink()
    assert "pin_memory" in (folder / "real/a.py").read_text()
    assert stat.S_IMODE((folder / "real/a.py").stat().st_mode) == 0o640


# --- 9 and 10: what may lie in a folder ------------------------------------------------------------------------------


def test_odd_things_in_a_tree_are_passed_over(write: WriteFiles, forked_cli: Cli) -> None:
    folder = write({"pyproject.toml": "", "pkg/__init__.py": "", "pkg/a.py": FAKE, "pkg/b.py": "from pkg import a\n"})
    (folder / "pkg/loop").symlink_to(folder, target_is_directory=True)
    (folder / "pkg/self").symlink_to("self")
    (folder / "pkg/gone.py").symlink_to("nowhere.py")
    os.mkfifo(folder / "pkg/pipe.py")
    (folder / "pkg/device.py").symlink_to("/dev/zero")
    (folder / "pkg/folder.py").mkdir()
    for format in FORMATS:
        ran = forked_cli("check", "--output-format", format)
        assert (ran.status, ran.err) == (1, "")
    assert forked_cli("check", "--output-format", "concise").out.splitlines()[-1].startswith("Found 1 error in 3 files")


@pytest.mark.skipif(os.geteuid() == 0, reason="whoever is root may read everything")
def test_folders_that_cannot_be_read_are_passed_over(write: WriteFiles, cli: Cli) -> None:
    folder = write({"a.py": FAKE, "secret/b.py": FAKE})
    (folder / "secret").chmod(0)
    try:
        assert cli("check").status == 1
    finally:
        (folder / "secret").chmod(0o755)


LARGE = 5_000_001


def test_a_large_file_is_skipped_with_a_note(write: WriteFiles, cli: Cli) -> None:
    folder = write({"a.py": ""})
    with open(folder / "generated.py", "wb") as stream:
        stream.write(FAKE.encode())
        stream.truncate(60_000_000)
    for _ in range(2):
        ran = cli("check", "--output-format", "concise")
        assert ran.status == 0
        assert ran.out.startswith(
            "generated.py:1:1: HTD902 note this file was not analysed: it has 60.0 MB, and `max-file-bytes` lets 5.0 MB"
        )


def test_the_settings_say_what_is_large(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": FAKE, "h2dlint.toml": "max-file-bytes = 10\n"})
    ran = cli("check", "--output-format", "concise")
    assert ran.status == 0
    assert "HTD902 note" in ran.out


def test_a_very_long_line_is_no_trouble(write: WriteFiles, forked_cli: Cli) -> None:
    items = ", ".join(["torch.rand(n).to(device, non_blocking=True)"] * 20)
    write({"a.py": f"import torch\n\n\ndef send(n, device):\n    return [{items}, '{'x' * 1_000_000}']\n"})
    for format in FORMATS:
        start = time.monotonic()
        ran = forked_cli("check", "--output-format", format)
        assert (ran.status, ran.err) == (1, "")
        assert time.monotonic() - start < 60
        if format in FOR_PEOPLE:
            assert len(ran.out) < 200_000


# --- 11 and 12: names and source in the output -----------------------------------------------------------------------

ESCAPE = "\x1b]0;owned\x07\x1b[2J"
NAMES: Mapping[str, bytes] = {
    "spaces": b"a name with spaces.py",
    "a newline": b"one\ntwo.py",
    "a newline and a command": b"x\n::error file=b.py::owned.py",
    "a command": b"::add-mask::owned.py",
    "escapes": b"\x1b[31mred\x1b[0m.py",
    "no UTF-8": b"caf\xe9.py",
    "reordered": "\u202eyp.neerg".encode() + b".py",
    "markup": b"<script>|`x`|&[a](b).py",
    "percent": b"%0A::error::%25.py",
    "quotes": b"a'b\"c\\d.py",
    "a carriage return": b"one\rtwo.py",
}


def has_controls(text: str) -> bool:
    return any(ord(sign) < 32 and sign != "\n" for sign in text) or "\u202e" in text or "\x7f" in text


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_any_file_name_is_harmless_in_every_format(tmp_path: Path, forked_cli: Cli, name: bytes) -> None:
    path = os.fsencode(tmp_path) + b"/" + name
    with open(path, "w") as stream:
        stream.write(FAKE)
    for format in FORMATS:
        for verbose in ((), ("-v",)):
            ran = forked_cli("check", "--output-format", format, *verbose)
            assert ran.status == 1, ran.err
            assert "Traceback" not in ran.err
            assert not has_controls(ran.out) or format in ("json", "sarif", "gitlab")
            assert not has_controls(ran.err)
            assert_no_commands(ran.out, format)
            assert_well_formed(ran.out, format)
    assert not has_controls(forked_cli("check", "--show-files").out)


def assert_no_commands(out: str, format: str) -> None:
    for line in out.splitlines():
        command = line.lstrip().startswith(("::", "##[")) and not line.lstrip().startswith(":::")
        assert not command or (format == "github" and line.startswith("::error file="))
    if format == "github":
        assert sum(line.startswith("::") for line in out.splitlines()) == 1


def assert_well_formed(out: str, format: str) -> None:
    if format in ("json", "sarif", "gitlab"):
        assert out.isascii()
        json.loads(out)
    if format == "junit":
        xml.dom.minidom.parseString(out.encode())


SOURCES: Mapping[str, str] = {
    "escapes": f"    return torch.load('{ESCAPE}').to(device, non_blocking=True)  # {ESCAPE}\n",
    "commands": "    return torch.load('''\n::error::owned\n##[error]owned\n''').to(device, non_blocking=True)\n",
    "links": "    return torch.load('[click](http://evil.example)').to(device, non_blocking=True)\n",
    "html": "    return torch.load('</details><img src=x onerror=alert(1)>').to(device, non_blocking=True)\n",
    "reordered": "    return torch.load('\u202e\u2066 harmless \u2069').to(device, non_blocking=True)\n",
}


@pytest.mark.parametrize("line", SOURCES.values(), ids=SOURCES.keys())
def test_any_source_is_harmless_in_every_format(write: WriteFiles, forked_cli: Cli, line: str) -> None:
    write({"a.py": f"import torch\n\n\ndef send(device):\n{line}"})
    for format in FORMATS:
        ran = forked_cli("check", "--output-format", format, "--strict")
        assert ran.status == 1, ran.out
        assert not has_controls(ran.out) or format in ("json", "sarif", "gitlab")
        assert_no_commands(ran.out, format)
        assert_well_formed(ran.out, format)
        if format == "sarif":
            assert "[click](http" not in ran.out
        if format == "markdown":
            words = re.sub("`+[^`]*`+", "", ran.out)
            assert re.search(r"(?<!\\)<img|[^\\]\]\(http://evil", words) is None
    patch = forked_cli("check", "--diff", "--unsafe-fixes", "--color", "always").out
    assert not has_controls(PAINT.sub("", patch))


PAINT = re.compile("\x1b\\[[0-9]*m")


def test_a_patch_quotes_names_as_git_does(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    for name in ("tab\there.py", "new\nline.py", 'quo"te.py', "back\\slash.py", "plain name.py"):
        (tmp_path / name).write_text("old\n")
        patch = unified_diff(name, "old\n", "new\n")
        assert len([line for line in patch.split("\n") if line.startswith(("--- ", "+++ "))]) == 2
        subprocess.run(["git", "apply"], cwd=tmp_path, input=patch, text=True, check=True)
        assert (tmp_path / name).read_text() == "new\n"


# --- workers ---------------------------------------------------------------------------------------------------------

MANY: Mapping[str, str] = {f"{number:02}.py": FAKE * 3 for number in range(24)}


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_every_way_to_start_processes_says_the_same(write: WriteFiles, cli: Cli, method: str) -> None:
    write(MANY)
    options = ("check", "--output-format", "concise", "--no-cache")
    one = cli(*options, "-j", "1")
    many = cli(*options, "-j", "3", env={"H2DLINT_START_METHOD": method})
    assert (many.status, many.err) == (1, "")
    assert many.out == one.out


def started(folder: Path, *arguments: str, env: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "h2dlint", "check", "--output-format", "concise", *arguments],
        cwd=folder,
        env={**clean_environment(), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_heed_interrupts,
    )


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def children_of(process: int) -> list[int]:
    try:
        tasks = Path(f"/proc/{process}/task/{process}/children").read_text()
    except OSError:
        return []
    return [int(number) for number in tasks.split()]


def workers_of(process: subprocess.Popen[str], least: int) -> list[int]:
    """The workers of a run, when all are there. With `spawn` there is one more child, which tracks resources."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        found = [
            child
            for child in children_of(process.pid)
            if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes()
        ]
        if len(found) >= least:
            return found
        time.sleep(0.02)
    raise AssertionError("the run had no workers")


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")
HEAVY: Mapping[str, str] = {f"{number:02}.py": FAKE * 100 for number in range(40)}


@needs_proc
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_ctrl_c_stops_all_processes_at_once(write: WriteFiles, method: str) -> None:
    run = started(write(HEAVY), "-j", "3", "--no-cache", env={"H2DLINT_START_METHOD": method})
    workers = workers_of(run, 3)
    time.sleep(0.3)
    start = time.monotonic()
    for process in (run.pid, *workers):  # a terminal sends it to all
        os.kill(process, signal.SIGINT)
    out, err = run.communicate(timeout=30)
    assert (run.returncode, out, err) == (130, "", "")
    assert time.monotonic() - start < 10
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


@needs_proc
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_that_is_killed_costs_nothing_but_another_try(write: WriteFiles, cli: Cli, method: str) -> None:
    folder = write(MANY)
    expected = cli("check", "--output-format", "concise", "--no-cache", "-j", "1").out
    run = started(folder, "-j", "3", "--no-cache", env={"H2DLINT_START_METHOD": method})
    for worker in workers_of(run, 3)[:2]:
        os.kill(worker, signal.SIGKILL)
    out, err = run.communicate(timeout=120)
    assert (out, err) == (expected, "")


@needs_proc
def test_workers_end_when_the_run_is_killed(write: WriteFiles) -> None:
    run = started(write(HEAVY), "-j", "3", "--no-cache", env={})
    workers = workers_of(run, 3)
    run.kill()
    run.communicate()
    deadline = time.monotonic() + 60
    while any(is_alive(worker) for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
