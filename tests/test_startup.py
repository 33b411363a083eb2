"""A run with nothing to do must cost next to nothing: what is not imported then, and when the heavy parts are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import WriteFiles, clean_environment

NOT_FOR_NOTHING = {
    *("asyncio", "concurrent.futures", "dataclasses", "difflib", "inspect", "json", "logging", "multiprocessing"),
    *("subprocess", "tomllib", "typing"),
    *("click", "libcst", "libcst.codemod", "libcst.matchers", "msgspec", "numpy", "rich", "torch"),
    *("h2dlint.facts", "h2dlint.rules", "h2dlint.output"),
}

NEVER_FOR_CHECK = {"libcst.matchers", "libcst.codemod", "torch", "numpy", "asyncio"}

ENTRY = (
    "import sys; from h2dlint.cli import exit_code; code = exit_code(sys.argv[1:]); print(*sys.modules); print(code)"
)


def modules_after(folder: Path, *arguments: str) -> set[str]:
    """The modules that are loaded when `h2dlint ARGUMENTS...`, called in `folder`, has ended with status 0."""
    ran = subprocess.run(
        [sys.executable, "-c", ENTRY, *arguments],
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    *_, modules, code = ran.stdout.splitlines()
    assert code == "0", ran.stdout + ran.stderr
    return set(modules.split())


NOTHING: dict[str, dict[str, str]] = {
    "an empty folder": {},
    "files that copy nothing": {"a.py": "import torch\nx = torch.rand(3)\n", "p/b.py": "", "notes.txt": "non_blocking"},
    "a project of another kind": {"a.py": "", "pyproject.toml": "[project]\nname = 'a'\n"},
}


@pytest.mark.parametrize("files", NOTHING.values(), ids=NOTHING.keys())
def test_nothing_to_do_loads_nothing(write: WriteFiles, files: dict[str, str]) -> None:
    loaded = modules_after(write(files), "check")
    assert sorted(loaded & NOT_FOR_NOTHING) == []


SETTINGS: dict[str, dict[str, str]] = {
    "in a file of their own": {"h2dlint.toml": "extend-exclude = ['gen']\nignore = ['HTD106']\nmax-rows = 4\n"},
    "in pyproject.toml": {"pyproject.toml": "[tool.h2dlint]\nhot-functions = ['a.step']\nbackend = 'rocm'\n"},
    "for one folder": {"p/h2dlint.toml": "strict = true\n"},
    "for some rules": {"h2dlint.toml": "select = ['HTD1']\nstrict-paths = ['p/*']\noutput-format = 'concise'\n"},
    "with a baseline of other files": {
        "h2dlint.toml": "baseline = 'known.json'\nexclude = ['old.py']\n",
        "known.json": '{"version": 1, "findings": [{"path": "old.py"}]}',
        "old.py": "",
    },
}


@pytest.mark.parametrize("files", SETTINGS.values(), ids=SETTINGS.keys())
def test_settings_and_nothing_to_do_load_little(write: WriteFiles, files: dict[str, str]) -> None:
    left_out = "non_blocking = 1\n" if "gen" in str(files) else ""
    loaded = modules_after(write({"a.py": "", "p/b.py": "", "gen/c.py": left_out, **files}), "check")
    assert sorted(loaded & NOT_FOR_NOTHING - {"typing", "tomllib", "inspect", "dataclasses", "json"}) == []
    assert "h2dlint.commands" not in loaded


@pytest.mark.parametrize(
    "settings",
    [
        "strict = 3",
        "nonsense = 1",
        "ignore = ['HTD555']",
        "output-format = 'json'",
        "exclude = []",
        "baseline = 'nowhere.json'",
        "baseline = 'broken.json'",
        "baseline = 'known.json'",
    ],
)
def test_settings_that_matter_are_left_to_the_command_line(write: WriteFiles, settings: str) -> None:
    folder = write({"a.py": "", "build/b.py": "non_blocking = 1\n", "h2dlint.toml": f"{settings}\n"})
    entry = '{"path": "a.py", "code": "HTD101", "function": "f", "text": "x"}'
    write({"broken.json": "{", "known.json": f'{{"version": 1, "findings": [{entry}]}}'})
    command = [sys.executable, "-X", "importtime", "-m", "h2dlint", "check"]
    assert "h2dlint.commands" in subprocess.run(command, cwd=folder, capture_output=True, text=True).stderr


def test_what_reads_patterns_is_loaded_for_a_gitignore_alone(write: WriteFiles) -> None:
    assert "h2dlint.globs" not in modules_after(write({"a.py": ""}), "check")
    assert "h2dlint.globs" in modules_after(write({".gitignore": "x\n"}), "check")


def test_tomllib_is_loaded_for_settings_alone(write: WriteFiles) -> None:
    folder = write({"a.py": ""})
    assert "tomllib" not in modules_after(folder, "check", "--select", "HTD101")
    write({"h2dlint.toml": "strict = true\n"})
    assert {"tomllib", "tomli"} & modules_after(folder, "check")


def test_options_do_not_load_the_analysis(write: WriteFiles) -> None:
    loaded = modules_after(write({"a.py": ""}), "check", "--select", "HTD101", "--output-format", "json")
    assert (
        sorted(loaded & {"libcst", "rich", "h2dlint.globs", "concurrent.futures", "multiprocessing", *NEVER_FOR_CHECK})
        == []
    )


def test_a_file_with_nothing_to_report_does_not_load_libcst(write: WriteFiles) -> None:
    code = "import torch\n\ndef f(x):\n    return x.to('cuda', non_blocking=True)\n"
    loaded = modules_after(write({"a.py": code}), "check")
    assert "h2dlint.facts.analyse" in loaded
    assert sorted(loaded & {"libcst", "rich", "concurrent.futures", *NEVER_FOR_CHECK}) == []


def test_a_finding_loads_libcst_but_not_its_slow_parts(write: WriteFiles) -> None:
    code = "import torch\n\nx = torch.rand(99999).to('cuda', non_blocking=True)\n"
    loaded = modules_after(write({"a.py": code}), "check", "--exit-zero")
    assert "libcst" in loaded
    assert sorted(loaded & NEVER_FOR_CHECK) == []


def test_both_ways_to_say_that_all_is_clear_say_the_same(write: WriteFiles) -> None:
    folder = write({"a.py": "", "b.py": ""})

    def said(*arguments: str) -> str:
        command = [sys.executable, "-m", "h2dlint", "check", *arguments]
        return subprocess.run(command, cwd=folder, env=clean_environment(), capture_output=True, text=True).stdout

    assert said() == said("--output-format", "concise") == "All clear: nothing to report in 2 files (0 analysed)\n"
    assert (
        said("a.py")
        == said("--output-format", "concise", "a.py")
        == "All clear: nothing to report in 1 file (0 analysed)\n"
    )
    write({"h2dlint.toml": "extend-exclude = ['b.*']\n", "p/c.py": "", "p/h2dlint.toml": "exclude = ['*.py']\n"})
    assert said() == said("--output-format", "concise") == "All clear: nothing to report in 1 file (0 analysed)\n"
    everything = "All clear: nothing to report in 3 files (0 analysed)\n"
    assert said("--isolated") == said("--isolated", "--output-format", "concise") == everything
