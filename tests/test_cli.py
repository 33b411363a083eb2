"""The command line: exit statuses, options, settings, and what goes where."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Cli, WriteFiles

from h2dlint import __version__
from h2dlint.commands import wants_color
from h2dlint.config import Config, ConfigError, Configs, Selection

FAKE = "import torch\n\nx = torch.rand(99999).to('cuda', non_blocking=True)\n"
SMALL = "import torch\n\nx = torch.rand(9).to('cuda', non_blocking=True)\n"
UNKNOWN = "def f(x):\n    return x.to('cuda', non_blocking=True)\n"
FINE = "import torch\n\nx = torch.rand(99999, pin_memory=True).to('cuda', non_blocking=True)\n"


def codes(out: str) -> list[str]:
    """The codes in a JSON report, in its order."""
    return [finding["code"] for finding in json.loads(out)["findings"]]


STATUSES: dict[str, tuple[str, tuple[str, ...], int]] = {
    "nothing to report": (FINE, (), 0),
    "an error": (FAKE, (), 1),
    "an error, and zero asked for": (FAKE, ("--exit-zero",), 0),
    "a note": (SMALL, (), 0),
    "an unproven copy": (UNKNOWN, (), 0),
    "an unproven copy, listed": (UNKNOWN, ("--show-unproven",), 0),
    "an unproven copy in a strict run": (UNKNOWN, ("--strict",), 1),
    "an error that is ignored": (FAKE, ("--ignore", "HTD101"), 0),
    "an error that is silenced": (FAKE.rstrip() + "  # h2dlint: ignore[HTD101]\n", (), 0),
    "an option that does not exist": (FINE, ("--nonsense",), 2),
    "a rule that does not exist": (FINE, ("--select", "HTD999"), 2),
    "a path that does not exist": (FINE, ("nowhere",), 2),
    "a format that does not exist": (FINE, ("--output-format", "xml"), 2),
    "a file that cannot be written": (FAKE, ("--output-file", "nowhere/out"), 2),
    "no cache": (FAKE, ("--no-cache",), 1),
}


@pytest.mark.parametrize(("code", "options", "status"), STATUSES.values(), ids=STATUSES.keys())
def test_exit_status(write: WriteFiles, cli: Cli, code: str, options: tuple[str, ...], status: int) -> None:
    write({"a.py": code})
    ran = cli("check", *options)
    assert ran.status == status, ran.out + ran.err
    assert bool(ran.err) == (status == 2), "findings go to stdout, everything else to stderr"
    assert "Traceback" not in ran.err


SELECTIONS: dict[str, tuple[Config, Selection, set[str]]] = {
    "a prefix": (
        Config(),
        Selection(select=("HTD10",)),
        {"HTD101", "HTD102", "HTD103", "HTD104", "HTD105", "HTD106", "HTD107", "HTD108"},
    ),
    "all but some": (Config(), Selection(select=("HTD1",), ignore=("HTD10",)), {"HTD191"}),
    "the longer selector decides": (Config(), Selection(select=("HTD101",), ignore=("HTD1", "HTD2")), {"HTD101"}),
    "of two equals, to ignore": (Config(), Selection(select=("HTD101",), ignore=("HTD101",)), set()),
    "settings select": (Config(select=("HTD101",)), Selection(), {"HTD101"}),
    "settings select, options add": (
        Config(select=("HTD101",)),
        Selection(extend_select=("HTD201",)),
        {"HTD101", "HTD201"},
    ),
    "options select, settings do not matter": (
        Config(select=("HTD101",), ignore=("HTD201",)),
        Selection(select=("HTD201",)),
        {"HTD201"},
    ),
    "settings and options ignore": (
        Config(select=("HTD101", "HTD102", "HTD103"), ignore=("HTD101",)),
        Selection(ignore=("HTD102",)),
        {"HTD103"},
    ),
    "nothing named": (Config(), Selection(select=("HTD902",)), set()),
}


@pytest.mark.parametrize(("config", "selection", "expected"), SELECTIONS.values(), ids=SELECTIONS.keys())
def test_which_rules_run(config: Config, selection: Selection, expected: set[str]) -> None:
    always = {"HTD190", "HTD902"}
    assert set(selection.codes(config)) - always == expected


def test_what_is_not_proven_or_not_analysed_is_only_ignored_by_name() -> None:
    assert {"HTD190", "HTD902"} <= set(Selection(select=("HTD101",)).codes(Config()))
    assert "HTD190" not in Selection(ignore=("HTD190",)).codes(Config())


def test_codes_in_lists_and_in_lower_case(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": FAKE})
    ran = cli("check", "--select", "htd2,htd101", "--select", "HTD103", "--output-format", "json")
    assert codes(ran.out) == ["HTD101"]


def test_an_unknown_rule_is_met_with_the_nearest(cli: Cli) -> None:
    assert "no rule begins with `HTD10X`; did you mean `HTD1" in cli("check", "--select", "HTD10X").err


# --- settings -----------------------------------------------------------------------------------------------------

BAD_SETTINGS: dict[str, tuple[str, str, str]] = {
    "an unknown key": ("h2dlint.toml", "selct = []", "h2dlint.toml:1: unknown key `selct`; did you mean `select`?"),
    "a key nothing like any": ("h2dlint.toml", "zzz = 1", "h2dlint.toml:1: unknown key `zzz`; known are select, "),
    "a key in the wrong style": (
        "pyproject.toml",
        "[tool.h2dlint]\nextend_select = []",
        "pyproject.toml:2: unknown key `extend_select`; did you mean `extend-select`?",
    ),
    "a value of the wrong kind": (
        "h2dlint.toml",
        "strict = 'yes'",
        "h2dlint.toml:1: `strict`: expected `true` or `false`, not `'yes'`",
    ),
    "a word for a list": (
        "h2dlint.toml",
        "select = 'HTD101'",
        "h2dlint.toml:1: `select`: expected a list of strings, not `'HTD101'`",
    ),
    "an unknown format": (
        "h2dlint.toml",
        "output-format = 'xml'",
        "h2dlint.toml:1: `output-format`: cannot be `'xml'`",
    ),
    "an unknown rule": (
        "h2dlint.toml",
        "ignore = ['HTD555']",
        "h2dlint.toml:1: `ignore`: no rule begins with `HTD555`",
    ),
    "no TOML": ("h2dlint.toml", "select = [", "h2dlint.toml:1: not TOML: "),
}


@pytest.mark.parametrize(("name", "text", "message"), BAD_SETTINGS.values(), ids=BAD_SETTINGS.keys())
def test_bad_settings_end_the_run(write: WriteFiles, cli: Cli, name: str, text: str, message: str) -> None:
    write({"a.py": FAKE, name: text})
    ran = cli("check")
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err
    assert cli("check", "--isolated").status == 1


def test_the_nearest_settings_hold(write: WriteFiles) -> None:
    root = write(
        {
            "pyproject.toml": "[tool.h2dlint]\nselect = ['HTD1']\n",
            "p/pyproject.toml": "[project]\nname = 'says nothing'\n",
            "q/pyproject.toml": "[tool.h2dlint]\nstrict = true\n",
            "q/h2dlint.toml": "ignore = ['HTD201']\n",
            "q/r/x.py": "",
        }
    )
    configs = Configs()
    assert configs.for_folder(str(root / "p")) == configs.for_folder(str(root))
    assert configs.for_folder(str(root)).select == ("HTD1",)
    nearest = configs.for_folder(str(root / "q" / "r"))
    assert (nearest.select, nearest.strict, nearest.ignore) == (None, False, ("HTD201",))
    assert nearest.folder == str(root / "q")


def test_a_folder_without_settings_has_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "h2dlint.toml").write_text("")
    assert Configs().for_folder(str(tmp_path)).select is None
    with pytest.raises(ConfigError, match="unknown key"):
        (tmp_path / "p").mkdir()
        (tmp_path / "p" / "h2dlint.toml").write_text("x = 1")
        Configs().for_folder(str(tmp_path / "p"))


def test_settings_count_for_the_files_below_them(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": FAKE, "p/a.py": FAKE, "p/h2dlint.toml": "ignore = ['HTD101']", "q/a.py": UNKNOWN})
    write({"q/h2dlint.toml": "strict = true"})
    ran = cli("check", "--output-format", "json")
    assert [(one["path"], one["code"]) for one in json.loads(ran.out)["findings"]] == [
        ("a.py", "HTD101"),
        ("q/a.py", "HTD190"),
    ]


EXCLUDES: dict[str, tuple[str, tuple[str, ...], list[str]]] = {
    "by default": ("", (), ["a.py", "gen/a.py", "p/a.py", "p/q/a.py"]),
    "exclude stands in for the defaults": ("exclude = ['gen']", (), ["a.py", "build/a.py", "p/a.py", "p/q/a.py"]),
    "extend-exclude adds": ("extend-exclude = ['p/q']", (), ["a.py", "gen/a.py", "p/a.py"]),
    "a glob": ("extend-exclude = ['**/a.py']", (), []),
    "an option adds": ("extend-exclude = ['gen']", ("--exclude", "p/*.py"), ["a.py", "p/q/a.py"]),
}


@pytest.mark.parametrize(("settings", "options", "expected"), EXCLUDES.values(), ids=EXCLUDES.keys())
def test_excludes(write: WriteFiles, cli: Cli, settings: str, options: tuple[str, ...], expected: list[str]) -> None:
    write({f"{folder}a.py": FAKE for folder in ("", "gen/", "build/", "p/", "p/q/")})
    write({"h2dlint.toml": settings})
    ran = cli("check", "--output-format", "json", *options)
    assert [one["path"] for one in json.loads(ran.out)["findings"]] == expected


# --- what goes where ----------------------------------------------------------------------------------------------


def test_concise_is_for_pipes_unless_the_settings_say_otherwise(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": FAKE})
    assert cli("check").out.startswith("a.py:3:5: HTD101 error ")
    write({"h2dlint.toml": "output-format = 'json'"})
    assert codes(cli("check").out) == ["HTD101"]
    assert cli("check", "--output-format", "concise").out.startswith("a.py:3:5: ")


def test_full_shows_the_place(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": FAKE})
    assert "x = torch.rand(99999).to('cuda', non_blocking=True)" in cli("check", "--output-format", "full").out


def test_an_output_file_takes_it_all(write: WriteFiles, cli: Cli) -> None:
    root = write({"a.py": FAKE})
    ran = cli("check", "--output-format", "json", "--output-file", "out.json")
    assert (ran.status, ran.out) == (1, "")
    assert codes((root / "out.json").read_text()) == ["HTD101"]


def test_quiet_says_nothing_about_nothing(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": FINE})
    assert cli("check", "-q").out == ""
    write({"a.py": FAKE})
    assert "HTD101" in cli("check", "-q").out


def test_verbose_tells_on_stderr_what_is_looked_at(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": FAKE, "b.py": ""})
    read = "h2dlint: modules read beyond these, for what they define: 0\n"
    assert cli("check", "-v").err == f"h2dlint: 1 of 2 files to look at\nh2dlint: a.py\n{read}"


@pytest.mark.parametrize("processes", ["1", "2"])
def test_verbose_tells_how_many_modules_were_read_beyond(write: WriteFiles, cli: Cli, processes: str) -> None:
    send = "from make import made\n\n\ndef send(count):\n    return made(count).cuda(non_blocking=True)\n"
    helper = "import torch\n\n\ndef made(count):\n    return torch.rand(count)\n"
    write({f"send{number}.py": send for number in range(9)} | {"make.py": helper, "other.py": helper})
    for command in ("check", "copies"):
        ran = cli(command, "--exclude", "make.py", "--exclude", "other.py", "-v", "-j", processes)
        assert ran.err.splitlines()[-1] == "h2dlint: modules read beyond these, for what they define: 1"


def test_unproven_copies_are_counted_and_listed_on_request(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": UNKNOWN})
    assert "1 copy stayed unproven" in cli("check").out
    assert codes(cli("check", "--output-format", "json").out) == []
    assert codes(cli("check", "--output-format", "json", "--show-unproven").out) == ["HTD190"]
    assert codes(cli("check", "--output-format", "json", "--strict").out) == ["HTD190"]


COLORS: dict[str, tuple[str, dict[str, str], bool]] = {
    "a pipe": ("auto", {}, False),
    "a pipe, forced": ("auto", {"FORCE_COLOR": "1"}, True),
    "forbidden beats forced": ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    "the option beats the environment": ("always", {"NO_COLOR": "1"}, True),
    "never": ("never", {"FORCE_COLOR": "1"}, False),
}


@pytest.mark.parametrize(("option", "env", "colored"), COLORS.values(), ids=COLORS.keys())
def test_colors(write: WriteFiles, cli: Cli, option: str, env: dict[str, str], colored: bool) -> None:
    write({"a.py": FAKE})
    for format in ("concise", "full"):
        ran = cli("check", "--color", option, "--output-format", format, env=env)
        assert ("\x1b[" in ran.out) is colored


def test_a_terminal_gets_colors_unless_it_is_dumb(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_color("auto", Terminal())  # type: ignore[arg-type]
    monkeypatch.setenv("TERM", "dumb")
    assert not wants_color("auto", Terminal())  # type: ignore[arg-type]


# --- the other commands -------------------------------------------------------------------------------------------


def test_copies_lists_every_copy_and_ends_with_0(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": FAKE, "b.py": UNKNOWN, "c.py": FINE})
    ran = cli("copies", "--output-format", "json")
    listed = [(one["path"], one["line"], one["verdict"]) for one in json.loads(ran.out)["copies"]]
    assert ran.status == 0
    assert listed == [("a.py", 3, "fake-async"), ("b.py", 2, "unproven"), ("c.py", 3, "async")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end_that_python_knows_is_one(tmp_path: Path, cli: Cli, end: str) -> None:
    text = "import torch\n\n\ndef f(d):\n    s = '\x0c\u2028'\n    return torch.rand(99999).to(d, non_blocking=True)\n"
    (tmp_path / "a.py").write_bytes(text.replace("\n", end).encode())
    found = json.loads(cli("check", str(tmp_path), "--output-format", "json").out)["findings"]
    assert [(one["code"], one["line"], one["column"]) for one in found] == [("HTD101", 6, 12)]


def test_a_pipe_among_the_files_is_not_waited_for(write: WriteFiles, cli: Cli) -> None:
    folder = write({"a.py": FAKE.replace("'cuda'", "d").replace("x = ", "def f(d):\n    return ")})
    os.mkfifo(folder / "p.py")
    assert cli("check", "-j1", "--diff").status == 1


def test_a_file_that_another_imports_is_listed_once_and_the_same(write: WriteFiles, cli: Cli) -> None:
    shared = (
        "import torch\n\n\ndef unrelated(n):\n    return n + 1\n\n\n"
        "class Buffers:\n    host = None\n\n    def fill(self, n):\n        self.host = torch.zeros(n, 9)\n"
        "        return self.host.to('cuda', non_blocking=True)\n"
    )
    user = "from shared import Buffers\n\n\ndef step(b: Buffers):\n    return b.host.to('cuda', non_blocking=True)\n"
    write({"pyproject.toml": "", "shared.py": shared, "a.py": user, "z.py": user})
    alone = json.loads(cli("copies", "shared.py", "--output-format", "json").out)["copies"]
    beside = json.loads(cli("copies", "-j1", "--output-format", "json").out)["copies"]
    assert [one for one in beside if one["path"] == "shared.py"] == alone
    assert len(alone) == 1


@pytest.mark.parametrize("format", ["full", "concise", "json"])
def test_copies_of_nothing(cli: Cli, format: str) -> None:
    ran = cli("copies", "--output-format", format)
    assert (ran.status, ran.err) == (0, "")


def test_a_rule_is_explained(cli: Cli) -> None:
    assert "pageable-source" in cli("rule", "HTD101").out
    assert cli("rule", "htd101").out == cli("rule", "pageable-source").out == cli("rule", "HTD101").out
    assert json.loads(cli("rule", "HTD101", "--output-format", "json").out)["code"] == "HTD101"


def test_all_rules_are_explained(cli: Cli) -> None:
    rules = json.loads(cli("rule", "--all", "--output-format", "json").out)
    assert "HTD101" in [rule["code"] for rule in rules]
    assert [rule["code"] for rule in rules] == sorted(rule["code"] for rule in rules)


@pytest.mark.parametrize("arguments", [("rule",), ("rule", "HTD101", "--all"), ("rule", "HTD10X"), ("nonsense",)])
def test_wrong_usage(cli: Cli, arguments: tuple[str, ...]) -> None:
    ran = cli(*arguments)
    assert (ran.status, ran.out) == (2, "")
    assert "Usage: h2dlint" in ran.err


def test_version(cli: Cli) -> None:
    assert cli("--version").out == f"h2dlint {__version__}\n"


# --- leaving early ------------------------------------------------------------------------------------------------


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "h2dlint", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_heed_interrupts,
    )


def _heed_interrupts() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so would what the tests start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_reader_that_leaves_is_no_error(write: WriteFiles) -> None:
    with start(write({"a.py": FAKE}), "check", "--output-format", "concise") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize("processes", ["1", "4"])
def test_an_interrupted_run_ends_quietly(write: WriteFiles, processes: str) -> None:
    folder = write({f"{number}.py": FAKE * 3000 for number in range(40)})
    before = time.perf_counter()
    start(folder, "--version").communicate()
    process = start(folder, "check", "-j", processes)
    time.sleep(max(1.5, 6 * (time.perf_counter() - before)))  # on a busy machine it starts that much later
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, b"")
    assert out == b""
