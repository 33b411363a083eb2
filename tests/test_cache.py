"""Stored results: a second run reads next to nothing, says the same, and looks again at exactly what it must."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from conftest import Cli, Ran, WriteFiles, clean_environment, forked

from h2dlint.cache import session

DATABASE = ".h2dlint_cache/results.db"

PROJECT: dict[str, str] = {
    "pyproject.toml": "",
    "pkg/__init__.py": "",
    "pkg/helpers.py": "import torch\n\n\ndef buffer(n):\n    return torch.zeros(n, pin_memory=True)\n",
    "pkg/user.py": (
        "import torch\n\nfrom pkg.helpers import buffer\n\n\n"
        "def send(n):\n    return buffer(n).to('cuda', non_blocking=True)\n"
    ),
    "pkg/called.py": "def move(host):\n    return host.to('cuda', non_blocking=True)\n",
    "pkg/caller.py": (
        "import torch\n\nfrom pkg.called import move\n\n\n"
        "def step(n):\n    return move(torch.zeros(n, pin_memory=True))\n"
    ),
    "pkg/alone.py": "import torch\n\n\ndef own(n, device):\n    return torch.rand(n).to(device, non_blocking=True)\n",
    "pkg/other.py": "SIZE = 3\n",
}
"""`user` reads `helpers`, `called` hangs on `caller`, `alone` on nobody."""

CANDIDATES = {"pkg/helpers.py", "pkg/user.py", "pkg/called.py", "pkg/caller.py", "pkg/alone.py"}
"""The files that hold something to look at."""


def looked_at(ran: Ran) -> set[str]:
    """The files that a run with -v looked at again."""
    lines = [line.removeprefix("h2dlint: ") for line in ran.err.splitlines()]
    return {line for line in lines if line.endswith((".py", ".ipynb"))}


def check(cli: Cli, *options: str) -> Ran:
    """A run that tells which files it looks at."""
    ran = cli("check", "--output-format", "concise", "-v", *options)
    assert ran.status in (0, 1), ran.err
    assert "Traceback" not in ran.err
    return ran


def fresh(cli: Cli, *options: str) -> str:
    """What a run without stored results says."""
    return check(cli, "--no-cache", *options).out


@pytest.fixture
def cli(forked_cli: Cli) -> Cli:
    return forked_cli


@pytest.fixture
def project(write: WriteFiles) -> Path:
    return write(PROJECT)


# --- what a second run does ---------------------------------------------------------------------------------------


def test_the_second_run_looks_at_nothing_and_says_the_same(project: Path, cli: Cli) -> None:
    first, second = check(cli), check(cli)
    assert looked_at(first) == CANDIDATES
    assert looked_at(second) == set()
    assert second.out == first.out
    assert second.status == first.status == 1


def test_the_folder_keeps_itself_out_of_git_and_backups(project: Path, cli: Cli) -> None:
    check(cli)
    folder = project / ".h2dlint_cache"
    assert "*" in (folder / ".gitignore").read_text().splitlines()
    assert (folder / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")
    assert sorted(path.name for path in folder.iterdir()) == [".gitignore", "CACHEDIR.TAG", "results.db"]


def test_the_cache_lies_at_the_root_of_the_project_wherever_the_run_starts(project: Path, cli: Cli) -> None:
    check(cli, "pkg/alone.py")
    assert (project / DATABASE).is_file()
    assert not (project / "pkg/.h2dlint_cache").exists()


FORMATS = ("full", "concise", "json", "sarif", "github", "gitlab", "junit", "markdown")


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_the_same_with_stored_results(project: Path, cli: Cli, format: str) -> None:
    options = ("check", "--show-unproven", "--output-format", format)
    without = cli(*options, "--no-cache")
    assert cli(*options).out == without.out
    assert cli(*options).out == without.out


def test_the_inventory_is_the_same_with_stored_results(project: Path, cli: Cli) -> None:
    without = cli("copies", "--output-format", "json", "--no-cache")
    assert cli("copies", "--output-format", "json").out == without.out
    assert cli("copies", "--output-format", "json").out == without.out


# --- what changes, and what is looked at again --------------------------------------------------------------------

Change = Callable[[Path], None]


def append(name: str, text: str) -> Change:
    def change(folder: Path) -> None:
        with open(folder / name, "a") as stream:
            stream.write(text)

    return change


def rewrite(name: str, before: str, after: str) -> Change:
    def change(folder: Path) -> None:
        text = (folder / name).read_text()
        assert before in text
        (folder / name).write_text(text.replace(before, after))

    return change


def create(name: str, text: str) -> Change:
    def change(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text)

    return change


def delete(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def make_package(folder: Path) -> None:
    (folder / "pkg/helpers").mkdir()
    (folder / "pkg/helpers.py").rename(folder / "pkg/helpers/__init__.py")


CALLS_MOVE = "import torch\n\nfrom pkg.called import move\n\n\ndef late(n):\n    return move(torch.zeros(n))\n"

CHANGES: Mapping[str, tuple[Change, set[str]]] = {
    "nothing": (lambda folder: None, set()),
    "the file itself": (append("pkg/alone.py", "\n\nX = 1\n"), {"pkg/alone.py"}),
    "a helper, for good": (rewrite("pkg/helpers.py", "pin_memory=True", ""), {"pkg/user.py"}),
    "a helper, in a comment": (append("pkg/helpers.py", "# no more\n"), {"pkg/helpers.py", "pkg/user.py"}),
    "a caller": (rewrite("pkg/caller.py", ", pin_memory=True", ""), {"pkg/called.py"}),
    "a module that nobody reads": (append("pkg/other.py", "MORE = 4\n"), set()),
    "a new caller": (create("pkg/late.py", CALLS_MOVE), {"pkg/called.py"}),
    "a new module that calls nothing": (create("pkg/late.py", "X = 1\n"), set()),
    "a file that now imports the function": (append("pkg/other.py", CALLS_MOVE), {"pkg/called.py"}),
    "a caller is gone": (delete("pkg/caller.py"), {"pkg/called.py"}),
    "a helper is gone": (delete("pkg/helpers.py"), {"pkg/user.py"}),
    "the helper's module becomes a package": (
        make_package,
        {"pkg/user.py", "pkg/helpers/__init__.py"},
    ),
    "another module takes the helper's place": (
        create("pkg/helpers/__init__.py", "import torch\n\n\ndef buffer(n):\n    return torch.zeros(n)\n"),
        set(),  # a package and a module of one name: the module is found first, as before
    ),
}


@pytest.mark.parametrize(("change", "again"), CHANGES.values(), ids=CHANGES.keys())
def test_a_change_has_exactly_what_rests_on_it_looked_at_again(
    project: Path, cli: Cli, change: Change, again: set[str]
) -> None:
    check(cli)
    change(project)
    second = check(cli)
    assert looked_at(second) == again
    assert second.out == fresh(cli)
    assert looked_at(check(cli)) == set(), "and then it is known"


def test_a_module_that_was_not_there_before_is_looked_up_again(write: WriteFiles, cli: Cli) -> None:
    folder = write({name: text for name, text in PROJECT.items() if name != "pkg/helpers.py"})
    check(cli)
    (folder / "pkg/helpers.py").write_text("import torch\n\n\ndef buffer(n):\n    return torch.zeros(n)\n")
    second = check(cli)
    assert "pkg/user.py" in looked_at(second)
    assert "pkg/alone.py" not in looked_at(second)
    assert second.out == fresh(cli)


BASE = """import torch


class Base:
    def make(self, n):
        return torch.rand(n)

    def step(self, n, device):
        return self.make(n).to(device, non_blocking=True)
"""
DERIVED = """import torch

from pkg.base import Base


class Derived(Base):
    def make(self, n):
        return torch.empty(n, pin_memory=True)
"""


def test_a_subclass_that_overrides_a_method_is_noticed(write: WriteFiles, cli: Cli) -> None:
    folder = write({**PROJECT, "pkg/base.py": BASE})
    assert "pkg/base.py:9:16: HTD101" in check(cli).out
    (folder / "pkg/derived.py").write_text(DERIVED)
    second = check(cli)
    assert looked_at(second) == {"pkg/base.py", "pkg/derived.py"}
    assert "pkg/base.py:9:16: HTD106" in second.out
    (folder / "pkg/derived.py").write_text(DERIVED.replace("def make", "def other"))
    third = check(cli)
    assert "pkg/base.py" in looked_at(third)
    assert third.out == fresh(cli)
    assert "pkg/base.py:9:16: HTD101" in third.out


EMBED = """
class Model:
    def embed(self, ids, *, mask=None):
        return mask.to(ids.device, non_blocking=True)
"""
GIVES_A_MASK = """
import torch


def step(model, ids):
    model.embed(ids, mask=torch.zeros(8, dtype=torch.bool))
"""
ANOTHER_TAKER = """
class Words:
    def embed(self, ids, mask=None):
        return ids
"""


def test_a_caller_that_gives_a_keyword_and_another_class_that_takes_it_are_noticed(write: WriteFiles, cli: Cli) -> None:
    callers = {f"pkg/text{n}.py": "def run(model, ids):\n    return model.embed(ids)\n" for n in range(6)}
    folder = write({**PROJECT, **callers, "pkg/embed.py": EMBED})
    assert "pkg/embed.py:4:16" not in check(cli).out
    (folder / "pkg/step.py").write_text(GIVES_A_MASK)
    second = check(cli)
    assert "pkg/embed.py" in looked_at(second)
    assert "pkg/embed.py:4:16: HTD106" in second.out
    (folder / "pkg/words.py").write_text(ANOTHER_TAKER)
    third = check(cli)
    assert third.out == fresh(cli)
    assert "pkg/embed.py:4:16" not in third.out
    (folder / "pkg/words.py").unlink()
    (folder / "pkg/step.py").write_text(GIVES_A_MASK.replace("bool)", "bool, pin_memory=True)"))
    fourth = check(cli)
    assert fourth.out == fresh(cli)
    assert "pkg/embed.py:4:16" not in fourth.out


def test_a_package_that_appears_around_the_files_is_noticed(write: WriteFiles, cli: Cli) -> None:
    files = {name: text for name, text in PROJECT.items() if not name.endswith("__init__.py")}
    folder = write(files)
    check(cli)
    (folder / "pkg/__init__.py").write_text("")
    assert check(cli).out == fresh(cli)


def test_a_reverted_edit_is_known(project: Path, cli: Cli) -> None:
    first = check(cli)
    before = (project / "pkg/alone.py").read_bytes()
    append("pkg/alone.py", "\n\nX = 1\n")(project)
    check(cli)
    (project / "pkg/alone.py").write_bytes(before)
    third = check(cli)
    assert looked_at(third) == set()
    assert third.out == first.out


def test_a_touched_file_is_known(project: Path, cli: Cli) -> None:
    check(cli)
    for path in project.rglob("*.py"):
        os.utime(path)
    assert looked_at(check(cli)) == set()


def test_the_same_size_and_time_do_not_hide_an_edit(project: Path, cli: Cli) -> None:
    path = project / "pkg/helpers.py"
    check(cli)
    status = path.stat()
    path.write_text(path.read_text().replace("pin_memory=True", "pin_memory=None"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size
    second = check(cli)
    assert "pkg/user.py" in looked_at(second)
    assert second.out == fresh(cli)


def test_many_quick_edits_are_all_seen(project: Path, cli: Cli) -> None:
    path = project / "pkg/helpers.py"
    for pinned in ("None", "True", "None"):
        path.write_text(f"import torch\n\n\ndef buffer(n):\n    return torch.zeros(n, pin_memory={pinned})\n")
        assert check(cli).out == fresh(cli)


def test_a_project_that_is_moved_keeps_its_results(project: Path, cli: Cli, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    for name in ("pkg", "pyproject.toml"):
        shutil.move(project / name, inner / name)
    first = run_in(inner)
    moved = tmp_path / "elsewhere"
    inner.rename(moved)
    second = run_in(moved)
    assert looked_at(first) == CANDIDATES
    assert looked_at(second) == set()
    assert second.out == first.out
    assert run_in(moved, "--no-cache").out == second.out


def run_in(folder: Path, *options: str) -> Ran:
    return forked(folder, ("check", "--output-format", "concise", "-v", *options))


def test_paths_are_shown_from_where_the_run_starts(project: Path, cli: Cli) -> None:
    check(cli)
    ran = run_in(project / "pkg", "alone.py")
    assert ran.out.startswith("alone.py:5:")


# --- settings, options, versions ----------------------------------------------------------------------------------

ANOTHER: Mapping[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "other rules": ({}, ("--select", "HTD102")),
    "everything strict": ({}, ("--strict",)),
    "a rule is ignored": ({"h2dlint.toml": "ignore = ['HTD101']\n"}, ()),
    "codes for some files": ({"h2dlint.toml": "[per-file-ignores]\n'pkg/alone.py' = ['HTD101']\n"}, ()),
    "a pinned factory": ({"h2dlint.toml": "pinned-factories = ['torch.rand']\n"}, ()),
    "another backend": ({"h2dlint.toml": "backend = 'rocm'\n"}, ()),
    "no callers": ({"h2dlint.toml": "max-caller-files = 0\n"}, ()),
}


@pytest.mark.parametrize(("files", "options"), ANOTHER.values(), ids=ANOTHER.keys())
def test_settings_and_options_are_part_of_what_is_known(
    project: Path, cli: Cli, write: WriteFiles, files: dict[str, str], options: tuple[str, ...]
) -> None:
    check(cli)
    write(files)
    assert check(cli, *options).out == fresh(cli, *options)


def test_a_baseline_holds_with_stored_results(project: Path, cli: Cli) -> None:
    check(cli)
    assert cli("check", "--write-baseline", "known.json").status == 0
    for _ in range(2):
        assert check(cli, "--baseline", "known.json").out == fresh(cli, "--baseline", "known.json")


def test_fixes_are_made_and_known(project: Path, cli: Cli) -> None:
    check(cli)
    fixed = cli("check", "--fix", "--output-format", "concise")
    assert "fixed" in fixed.out.lower()
    assert "pin_memory" in (project / "pkg/alone.py").read_text()
    again = check(cli, "--fix")
    assert again.out == fresh(cli)
    assert looked_at(check(cli, "--fix")) == set()
    assert check(cli).out == fresh(cli)


def test_a_fix_is_shown_as_the_project_is_now(project: Path, cli: Cli) -> None:
    """What a fixer writes hangs on the flags and helpers of other modules."""
    show = ("check", "--output-format", "full", "pkg/alone.py")
    before = cli(*show).out
    (project / "pkg/platform.py").write_text("import torch\n\nPIN_MEMORY = torch.cuda.is_available()\n")
    after = cli(*show).out
    assert after == cli(*show, "--no-cache").out
    assert after != before


def test_changes_since_a_revision_hold_with_stored_results(project: Path, cli: Cli) -> None:
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "commit", "-qm", "all")
    for edit in ("\n\nX = 1\n", "\n\ndef more(n):\n    return torch.zeros(n).to('cuda', non_blocking=True)\n"):
        append("pkg/alone.py", edit)(project)
        for _ in range(2):
            assert check(cli, "--since", "HEAD").out == fresh(cli, "--since", "HEAD")
    git(project, "commit", "-qam", "more")
    assert check(cli, "--since", "HEAD").out == fresh(cli, "--since", "HEAD")


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def test_another_branch_and_back(project: Path, cli: Cli) -> None:
    git(project, "init", "-q", "-b", "main")
    git(project, "add", ".")
    git(project, "commit", "-qm", "all")
    first = check(cli)
    git(project, "checkout", "-qb", "side")
    for change, _ in (CHANGES["a helper, for good"], CHANGES["a new caller"], CHANGES["the file itself"]):
        change(project)
    git(project, "add", ".")
    git(project, "commit", "-qm", "side")
    assert check(cli).out == fresh(cli)
    git(project, "checkout", "-q", "main")
    assert check(cli).out == first.out == fresh(cli)


def test_affected_files_are_the_same_with_stored_results(project: Path, cli: Cli) -> None:
    for _ in range(2):
        options = ("--affected", "pkg/helpers.py")
        assert check(cli, *options).out == fresh(cli, *options)


def test_stdin_is_looked_at_as_it_is(project: Path, cli: Cli) -> None:
    check(cli)
    command = [sys.executable, "-m", "h2dlint", "check", "-", "--stdin-filename", "pkg/alone.py"]
    text = PROJECT["pkg/alone.py"].replace("torch.rand(n)", "torch.rand(n, pin_memory=True)")
    for _ in range(2):
        ran = subprocess.run(command, cwd=project, input=text, capture_output=True, text=True, timeout=60)
        assert ran.stdout.startswith("All clear"), ran.stdout
    assert check(cli).out == fresh(cli)


# --- a cache that is broken, foreign, locked or not to be written ---------------------------------------------------


def corrupt(file: Path) -> None:
    data = bytearray(file.read_bytes())
    for at in range(100, len(data), 97):
        data[at] ^= 0x55
    file.write_bytes(bytes(data))


def replace_with(data: bytes) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        file.write_bytes(data)

    return change


def foreign(file: Path) -> None:
    file.unlink()
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE precious (thing TEXT)")
        connection.execute("INSERT INTO precious VALUES ('keep me')")
    connection.close()


def swapped(file: Path) -> None:
    """Every outcome under another one's key."""
    connection = sqlite3.connect(file)
    rows = connection.execute("SELECT key, outcome, grounds FROM results").fetchall()
    for (key, _, _), (_, outcome, grounds) in zip(rows, rows[1:] + rows[:1], strict=True):
        connection.execute("UPDATE results SET outcome = ?, grounds = ? WHERE key = ?", (outcome, grounds, key))
    connection.commit()
    connection.close()


def as_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


BROKEN: Mapping[str, Callable[[Path], None]] = {
    "bytes here and there": corrupt,
    "cut off": lambda file: os.truncate(file, 5000),
    "empty": replace_with(b""),
    "no database at all": replace_with(b"import torch\n" * 999),
    "of another program": foreign,
    "outcomes under wrong keys": swapped,
    "a folder": as_folder,
}


@pytest.mark.parametrize("spoil", BROKEN.values(), ids=BROKEN.keys())
def test_a_spoilt_cache_is_ignored(project: Path, cli: Cli, spoil: Callable[[Path], None]) -> None:
    first = check(cli)
    spoil(project / DATABASE)
    second = check(cli)
    assert second.out == first.out
    assert looked_at(second) == CANDIDATES
    assert check(cli).out == first.out


def test_a_damaged_cache_starts_afresh(project: Path, cli: Cli) -> None:
    check(cli)
    (project / DATABASE).write_bytes(b"no database " * 999)
    assert "cache is damaged" in check(cli).err
    assert looked_at(check(cli)) == set()


def test_the_database_of_another_program_is_left_alone(project: Path, cli: Cli) -> None:
    check(cli)
    foreign(project / DATABASE)
    before = (project / DATABASE).read_bytes()
    assert "another program" in check(cli).err
    assert (project / DATABASE).read_bytes() == before


def test_a_folder_that_holds_something_else_is_left_alone(project: Path, cli: Cli) -> None:
    folder = project / ".h2dlint_cache"
    folder.mkdir()
    (folder / "diary.txt").write_text("dear diary")
    ran = check(cli)
    assert "holds something else" in ran.err
    assert [path.name for path in folder.iterdir()] == ["diary.txt"]
    assert cli("check", "--clear-cache").status == 2
    assert (folder / "diary.txt").exists()


def test_links_are_not_followed_to_other_places(project: Path, cli: Cli, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (project / ".h2dlint_cache").symlink_to(victim, target_is_directory=True)
    assert "symbolic link" in check(cli).err
    assert list(victim.iterdir()) == []


def test_a_locked_cache_is_not_waited_for_long(project: Path, cli: Cli) -> None:
    first = check(cli)
    connection = sqlite3.connect(project / DATABASE, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    start = time.monotonic()
    second = check(cli)
    assert time.monotonic() - start < 30
    connection.execute("ROLLBACK")
    connection.close()
    assert second.out == first.out
    assert "locked" in second.err


def test_a_run_that_is_killed_leaves_a_cache_that_works(project: Path, cli: Cli) -> None:
    first = check(cli)
    command = [sys.executable, "-m", "h2dlint", "check", "--select", "HTD1"]
    for delay in (0.15, 0.3, 0.45, 0.6, 0.9):
        append("pkg/alone.py", "# one more line\n")(project)
        run = subprocess.Popen(command, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        run.kill()
        run.wait()
        assert check(cli).out == fresh(cli)
    assert first.status == 1


def test_several_runs_at_once(project: Path, cli: Cli) -> None:
    command = [sys.executable, "-m", "h2dlint", "check", "--output-format", "concise"]
    expected = fresh(cli)
    for _ in range(2):
        runs = [
            subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(4)
        ]
        for run in runs:
            out, err = run.communicate(timeout=120)
            assert (out, err) == (expected, "")
    assert looked_at(check(cli)) == set()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="whoever is root may write everywhere")
def test_a_folder_that_cannot_be_written_is_no_trouble(project: Path, cli: Cli) -> None:
    (project).chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        ran = check(cli)
    finally:
        project.chmod(stat.S_IRWXU)
    assert "cannot be made" in ran.err
    assert not (project / ".h2dlint_cache").exists()


# --- what goes again ----------------------------------------------------------------------------------------------


def stored(project: Path) -> tuple[int, int]:
    """How many results there are, and how many of the answers that they rest on."""
    with closing(sqlite3.connect(project / DATABASE)) as database:
        return tuple(
            database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in ("results", "answers")
        )


def test_results_that_no_run_used_for_30_days_go_and_what_they_rest_on(project: Path, cli: Cli) -> None:
    check(cli)
    results, answers = stored(project)
    with closing(sqlite3.connect(project / DATABASE)) as database, database:
        database.execute("UPDATE results SET used = used - 31 * 24 * 3600")
    for name in ("user", "called", "caller"):
        (project / "pkg" / f"{name}.py").unlink()
    before = fresh(cli)
    (project / "pkg/alone.py").write_text(PROJECT["pkg/alone.py"] + "\n")
    ran = check(cli)
    assert ran.out.splitlines()[0] == before.splitlines()[0]
    left = stored(project)
    assert (left[0] < results, left[1] < answers) == (True, True)
    assert looked_at(check(cli)) == set()


def test_results_that_are_used_stay(project: Path, cli: Cli) -> None:
    check(cli)
    with closing(sqlite3.connect(project / DATABASE)) as database, database:
        database.execute("UPDATE results SET used = used - 29 * 24 * 3600")
    (project / "pkg/other.py").write_text("import torch\n\nx = torch.rand(9).cuda(non_blocking=True)\n")
    assert "pkg/other.py" in looked_at(check(cli))
    assert looked_at(check(cli)) == set()
    assert stored(project)[0] == len(CANDIDATES) + 1


def test_the_older_half_goes_when_there_is_too_much(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (project / f"pkg/m{number:02}.py").write_text(PROJECT["pkg/alone.py"])
    check(cli)
    results, _ = stored(project)
    monkeypatch.setattr(session, "MOST_BYTES", 1)
    (project / "pkg/alone.py").write_text(PROJECT["pkg/alone.py"] + "\n")
    expected = fresh(cli)
    assert check(cli).out == expected
    assert stored(project)[0] <= results // 2 + 1
    monkeypatch.undo()
    assert check(cli).out == expected
    assert looked_at(check(cli)) == set()


# --- the options --------------------------------------------------------------------------------------------------


def test_no_cache_reads_and_writes_none(project: Path, cli: Cli) -> None:
    assert looked_at(check(cli, "--no-cache")) == CANDIDATES
    assert not (project / ".h2dlint_cache").exists()
    check(cli)
    before = (project / DATABASE).read_bytes()
    assert looked_at(check(cli, "--no-cache")) == CANDIDATES
    assert (project / DATABASE).read_bytes() == before


def test_clear_cache_removes_the_folder(project: Path, cli: Cli) -> None:
    check(cli)
    cleared = cli("check", "--clear-cache")
    assert (cleared.status, cleared.err) == (0, "Removed .h2dlint_cache\n")
    assert not (project / ".h2dlint_cache").exists()
    again = cli("check", "--clear-cache")
    assert (again.status, again.err) == (0, "Nothing to remove: there is no .h2dlint_cache\n")


def test_the_settings_name_another_folder(project: Path, cli: Cli) -> None:
    (project / "h2dlint.toml").write_text("cache-dir = 'kept/h2dlint'\n")
    (project / "kept").mkdir()
    check(cli)
    assert (project / "kept/h2dlint/results.db").is_file()
    assert not (project / ".h2dlint_cache").exists()
    assert looked_at(check(cli)) == set()
    assert cli("check", "--clear-cache").err == "Removed kept/h2dlint\n"


def test_a_warm_run_loads_no_analyser(project: Path, cli: Cli) -> None:
    check(cli)
    entry = (
        "import sys; from h2dlint.cli import exit_code; code = exit_code(sys.argv[1:]);"
        "print(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", entry, "check", "--output-format", "concise"]
    ran = subprocess.run(command, cwd=project, env=clean_environment(), capture_output=True, text=True, check=True)
    loaded = set(ran.stderr.split())
    heavy = {"libcst", "rich", "pickle", "multiprocessing", "h2dlint.facts.project", "h2dlint.facts.domain", "torch"}
    assert loaded & heavy == set()
