"""Which files a run looks at."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from conftest import WriteFiles

from h2dlint.checking import Options, check_paths, needles_of
from h2dlint.config import Config, Configs, Selection
from h2dlint.discovery import (
    NEEDLES,
    Missing,
    Patterns,
    display_path,
    has_needle,
    has_positional_flag,
    left_out,
    python_files,
)


def found(root: Path, *paths: str) -> list[str]:
    """What a walk over `paths` finds, relative to `root`."""
    arguments = [str(root / path) for path in paths] or [str(root)]
    return [os.path.relpath(path, root).replace(os.sep, "/") for path in python_files(arguments)]


WALKS: dict[str, tuple[dict[str, str], list[str]]] = {
    "python files only, files of a folder before its folders, sorted": (
        {"b.py": "", "a.py": "", "a.txt": "", "stub.pyi": "", "p/z.py": "", "p/q/y.py": ""},
        ["a.py", "b.py", "p/z.py", "p/q/y.py"],
    ),
    "folders that hold no code of the project's own are left out": (
        {
            "a.py": "",
            ".venv/x.py": "",
            "venv/x.py": "",
            "node_modules/x.py": "",
            "__pycache__/x.py": "",
            "build/x.py": "",
        },
        ["a.py"],
    ),
    "a .gitignore is honoured": (
        {"a.py": "", "gen/x.py": "", "b_pb2.py": "", ".gitignore": "gen/\n*_pb2.py\n"},
        ["a.py"],
    ),
    "a .gitignore can take back what it said": (
        {"gen_a.py": "", "gen_b.py": "", ".gitignore": "gen_*.py\n!gen_b.py\n"},
        ["gen_b.py"],
    ),
    "an anchored pattern speaks for its own folder only": (
        {"x.py": "", "p/x.py": "", ".gitignore": "/x.py\n"},
        ["p/x.py"],
    ),
    "a nested .gitignore adds to the one above": (
        {"x.py": "", "y.py": "", "p/x.py": "", "p/y.py": "", ".gitignore": "x.py\n", "p/.gitignore": "y.py\n"},
        ["y.py"],
    ),
    "a nested .gitignore overrules the one above": (
        {"x.py": "", "p/x.py": "", ".gitignore": "x.py\n", "p/.gitignore": "!x.py\n"},
        ["p/x.py"],
    ),
    "a repository inside another has its own rules": (
        {"x.py": "", "p/x.py": "", "p/.git/HEAD": "", ".gitignore": "x.py\n"},
        ["p/x.py"],
    ),
}


@pytest.mark.parametrize(("files", "expected"), WALKS.values(), ids=WALKS.keys())
def test_a_walk(write: WriteFiles, files: dict[str, str], expected: list[str]) -> None:
    assert found(write(files)) == expected


def test_a_gitignore_above_the_argument_counts_within_the_repository(write: WriteFiles) -> None:
    root = write({"p/a.py": "", "p/gen/x.py": "", ".gitignore": "gen\n", ".git/HEAD": ""})
    assert found(root, "p") == ["p/a.py"]


def test_a_gitignore_above_the_argument_is_nothing_to_a_folder_outside_any_repository(write: WriteFiles) -> None:
    assert found(write({"p/gen/x.py": "", ".gitignore": "gen\n"}), "p") == ["p/gen/x.py"]


def test_a_file_that_is_named_is_taken_whatever_it_is(write: WriteFiles) -> None:
    root = write({"build/x.py": "", "script": "", ".gitignore": "script\n"})
    assert found(root, "build/x.py", "script") == ["build/x.py", "script"]


def test_the_working_directory_is_walked_like_any_other(write: WriteFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write({"a.py": "", "p/b.py": "", "p/q/c.py": ""}))
    assert list(python_files(["."])) == ["a.py", "p/b.py", "p/q/c.py"]


def test_a_file_named_twice_is_taken_once(write: WriteFiles) -> None:
    assert found(write({"a.py": "", "b.py": ""}), "b.py", ".", "a.py") == ["b.py", "a.py"]


def test_a_path_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="nowhere: no such file or folder"):
        found(tmp_path, "nowhere")


def test_links_do_not_make_the_walk_go_round(write: WriteFiles) -> None:
    root = write({"p/a.py": ""})
    (root / "p" / "again").symlink_to(root)
    (root / "dangling.py").symlink_to(root / "gone.py")
    (root / "itself").symlink_to(root / "itself")
    assert found(root) == ["p/a.py"]


def test_a_file_name_that_is_no_text_survives(tmp_path: Path) -> None:
    try:
        (tmp_path / os.fsdecode(b"caf\xe9.py")).write_text("")
    except OSError:
        assert sys.platform == "darwin"  # its file systems know UTF-8 only
        return
    (name,) = found(tmp_path)
    assert os.fsencode(name) == b"caf\xe9.py"
    assert display_path(name) == "caf\\xe9.py"


GLOBS: dict[str, tuple[str, str, bool]] = {
    "a name matches at any depth": ("gen", "a/b/gen", True),
    "a name is not a part of a name": ("gen", "a/gen2", False),
    "a star stays in its folder": ("a/*.py", "a/b/c.py", False),
    "two stars do not": ("a/**/c.py", "a/b/c.py", True),
    "two stars may stand for nothing": ("a/**/c.py", "a/c.py", True),
    "a path is matched from where it was written": ("b/c.py", "a/b/c.py", False),
    "a wildcard in a name": ("*_pb2.py", "a/b/x_pb2.py", True),
    "a dot is a dot": ("a.py", "a/apy", False),
}


@pytest.mark.parametrize(("pattern", "path", "expected"), GLOBS.values(), ids=GLOBS.keys())
def test_an_exclude_glob(tmp_path: Path, pattern: str, path: str, expected: bool) -> None:
    folder, _, name = path.rpartition("/")
    assert Patterns([pattern], str(tmp_path)).match(str(tmp_path / folder), name) is expected


# --- the look at the bytes ----------------------------------------------------------------------------------------

FLAGS: dict[str, tuple[str, bool]] = {
    "cuda": ("x.cuda(None, True)", True),
    "copy_": ("x.copy_(y, True)", True),
    "copy_ with a variable": ("x.copy_(y * 2, flag)", True),
    "to with a device and a dtype": ("x.to(device, torch.float32, True)", True),
    "to with a tensor": ("x.to(other, True)", True),
    "over several lines, with comments": ("x.to(\n    device,  # a, b)\n    torch.half,\n    True,\n)", True),
    "spaces before the bracket": ("x . copy_ (y, True)", True),
    "after a nested call": ("x.copy_(f(a, b)[1, 2], True)", True),
    "to with a device": ("x.to(device)", False),
    "to with a device and a dtype alone": ("x.to(device, torch.float32)", False),
    "to with the dtype of another": ("x.to(device, self.weight.dtype)", False),
    "to with named arguments": ("x.to(device, dtype=torch.half, copy=True)", False),
    "copy_ of a call": ("x.copy_(f(a, b)[1, 2])", False),
    "a comma in a string": ("x.to('a, b')", False),
    "unpacked arguments": ("x.to(*a, **b)", False),
    "a trailing comma": ("x.copy_(y,)", False),
}


@pytest.mark.parametrize(("code", "expected"), FLAGS.values(), ids=FLAGS.keys())
def test_a_flag_without_its_name_does_not_slip_through(code: str, expected: bool) -> None:
    assert has_positional_flag(code.encode()) is expected
    assert has_needle(code.encode(), NEEDLES) is expected


WORDS = {
    "pins": ("x.pin_memory()", True),
    "fetches": ("x.cpu()", False),
    "moves the data of parameters": ("for p in m.parameters():\n    p.data = p.data.to(d)", True),
    "moves some other data": ("p.data = p.data.to(d)", False),
}


@pytest.mark.parametrize(("code", "expected"), WORDS.values(), ids=WORDS.keys())
def test_a_needle_of_several_words_wants_them_all(code: str, expected: bool) -> None:
    assert has_needle(code.encode(), NEEDLES) is expected


ABSURD = {
    "a call in a call in a call": b".to(" * 200_000,
    "balanced towers": (b".to(" * 19 + b"x, y" + b")" * 19) * 10_000,
    "calls in strings that never end": b'\'".to(" \n' * 100_000,
    "quotes and backslashes": b'.to("\\' + b'\\"' * 500_000,
    "spaces": (b".to" + b" " * 1000) * 1000,
    "dots": b". " * 1_000_000,
    "many short calls": b".to(x)" * 300_000,
    "one endless argument list": b".copy_(" + b"f()" * 300_000,
}


@pytest.mark.parametrize("data", ABSURD.values(), ids=ABSURD.keys())
def test_the_look_takes_linear_time(data: bytes) -> None:
    start = time.perf_counter()
    has_positional_flag(data)
    seconds = time.perf_counter() - start
    assert seconds < 15, "a megabyte takes a second or so; a quadratic search would take hours"


def test_the_default_needles_are_those_of_the_default_rules() -> None:
    assert set(NEEDLES) == set(needles_of(Selection().codes(Config())))


def test_a_file_without_needle_is_not_parsed(write: WriteFiles) -> None:
    root = write({"a.py": "this is no Python"})
    report = check_paths([str(root)], Configs(isolated=True), Options(), lambda done, total: None)
    assert (report.files_seen, report.files_checked, report.findings) == (1, 0, ())


# --- files that are named -----------------------------------------------------------------------------------------

LEFT_OUT: dict[str, tuple[str, bool]] = {
    "a plain file": ("a.py", False),
    "a file in an excluded folder": ("build/a.py", True),
    "far below one": ("p/build/q/r/a.py", True),
    "a folder of that name above the working directory": (os.path.abspath("a.py"), False),
    "outside of the working directory": ("../p/a.py", False),
    "an excluded name outside of it": ("../p/build", True),
    "the working directory": (".", False),
    "written in a roundabout way": ("./p/../build/./a.py", True),
}


@pytest.mark.parametrize(("path", "expected"), LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_which_named_files_the_excludes_leave_out(path: str, expected: bool) -> None:
    assert left_out(path, lambda folder, name: name == "build") is expected


def test_named_files_are_left_out_on_request_only(write: WriteFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write({"build/a.py": "", "b.py": ""}))
    assert list(python_files(["build/a.py", "b.py"])) == ["build/a.py", "b.py"]
    assert list(python_files(["build/a.py", "b.py"], named_too=True)) == ["b.py"]
