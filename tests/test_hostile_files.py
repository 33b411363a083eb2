"""Settings, baselines and traces of any content: a message that names the file, or findings; never a traceback, never
a hang, and never fewer files checked in silence."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, Ran, WriteFiles
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from h2dlint.baseline import read as read_baseline
from h2dlint.baseline import write as write_baseline
from h2dlint.config import Config
from h2dlint.settings import KEYS, ConfigError, read_settings
from h2dlint.trace import trace_file

COPY = "torch.rand(99999).to('cuda', non_blocking=True)"
FILES = {"a.py": f"import torch\n\nx = {COPY}\n", "p/b.py": f"import torch\n\nx = {COPY}\n"}
SAMPLE = settings(
    max_examples=200, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def holds(ran: Ran, file: str, found: int = 2) -> None:
    """Refused with the file's name, or both files were checked."""
    assert "Traceback" not in ran.err
    if ran.status == 2:
        assert ran.out == ""
        assert file in ran.err.splitlines()[0]
        assert len(ran.err) < 3000
    else:
        assert (ran.status, ran.out.count("HTD101")) == (1, found), ran


# --- settings -----------------------------------------------------------------------------------------------------

SETTINGS: dict[str, tuple[bytes, str]] = {
    "a byte order mark": (b"\xef\xbb\xbfstrict = true\n", ""),
    "not UTF-8": (b"strict = true\n# \xff\n", "h2dlint.toml:2: not TOML: not UTF-8: byte 0xff"),
    "UTF-16": ("strict = true\n".encode("utf-16"), "h2dlint.toml:1: not TOML: not UTF-8"),
    "a null byte": (b"strict = true\0\n", "h2dlint.toml:1: not TOML"),
    "lists in lists": (b"select = " + b"[" * 100_000, "h2dlint.toml: not TOML: nested too deeply"),
    "tables in tables": (b"a = " + b"{a=" * 5000 + b"1" + b"}" * 5000, "h2dlint.toml: not TOML: nested too deeply"),
    "a key of 50,000 parts": (b"x = 1\n" + b".".join([b"a"] * 50_000) + b" = 1", "h2dlint.toml:2: not TOML: a name of"),
    "a table of 50,000 parts": (b"[" + b".".join([b'"a"'] * 50_000) + b"]", "h2dlint.toml:1: not TOML: a name of"),
    "a word of 100,000 letters": (b"'" + b"a" * 100_000 + b"' = 1", "h2dlint.toml:1: unknown key `aaa"),
    "a code of 100,000 letters": (b"select = ['" + b"H" * 100_000 + b"']", "h2dlint.toml:1: `select`: no rule begins"),
    "100,000 dashes": (b"pin-guard = '" + b"-" * 100_000 + b"a'", "h2dlint.toml:1: `pin-guard`: not an expression"),
    "an endless sum": (b"pin-guard = '" + b"a+" * 100_000 + b"a'", "h2dlint.toml:1: `pin-guard`: not an expression"),
    "an expression with a comment": (b"pin-guard = 'a # b'", "h2dlint.toml:1: `pin-guard`: not an expression"),
    "two expressions": (b"pin-guard = 'a; b'", "h2dlint.toml:1: `pin-guard`: not an expression"),
    "a code 50,000 times": (b"extend-select = [" + b"'HTD101'," * 50_000 + b"]", ""),
    "a number of 5,000 digits": (b"max-rows = " + b"9" * 5000, "h2dlint.toml"),
    "a number that no machine counts": (
        b"\nmax-caller-files = " + b"9" * 20,
        "h2dlint.toml:2: `max-caller-files`: exp",
    ),
    "infinitely many": (b"max-rows = inf", "h2dlint.toml:1: `max-rows`: expected a whole number"),
    "a root with a null byte": (b'root = "a\\u0000"', "h2dlint.toml:1: `root`: a path cannot hold a null byte"),
    "a cache with one": (b'cache-dir = "a\\u0000"', "h2dlint.toml:1: `cache-dir`: a path cannot"),
    "a baseline with one": (b'baseline = "a\\u0000"', "h2dlint.toml:1: `baseline`: a path cannot"),
    "a baseline without end": (b'baseline = "/dev/zero"', "dev/zero: is no regular file"),
    "a baseline that is a folder": (b'baseline = "p"', "p: is a folder"),
    "a cache that is a file": (b'cache-dir = "a.py"', ""),
    "a root that is nowhere": (b'root = "../../../../../../nowhere"', ""),
    "a glob that explodes": (b'exclude = ["' + b"*a" * 40 + b'b", "' + b"**/" * 40 + b'x/y"]', ""),
    "globs that name nothing": (b'exclude = ["", "/", "..", "./", "a\\nb", "a\\u0000"]', ""),
    "a key twice": (b"strict = true\n\nstrict = false", "h2dlint.toml:3: not TOML"),
    "a table twice": (b"[per-file-ignores]\n[per-file-ignores]", "h2dlint.toml:2: not TOML"),
    "two million bytes": (b"# " + b"x" * 2_000_000, "h2dlint.toml: too large for settings: more than 1,000,000 bytes"),
}


@pytest.mark.parametrize(("data", "message"), SETTINGS.values(), ids=SETTINGS.keys())
def test_settings_of_any_content(write: WriteFiles, forked_cli: Cli, data: bytes, message: str) -> None:
    (write(FILES) / "h2dlint.toml").write_bytes(data)
    ran = forked_cli("check", "-j1")
    holds(ran, message)
    assert (ran.status == 2) is bool(message)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.sampled_from(["a.b", "HTD1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def as_toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {as_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return "2020-01-01" if value is None else json.dumps(value)


@SAMPLE
@given(st.dictionaries(st.sampled_from([*KEYS, "x"]), VALUES, max_size=3))
def test_settings_of_any_type_are_read_or_refused(table: dict[str, Any]) -> None:
    text = "".join(f"{key} = {as_toml(value)}\n" for key, value in table.items())
    try:
        read = read_settings("h2dlint.toml", text.encode("utf-8", "surrogatepass"))
    except ConfigError as error:
        assert str(error).startswith("h2dlint.toml:")
    else:
        assert read is not None
        assert set(read) <= set(KEYS)


@SAMPLE
@given(st.binary(max_size=60))
def test_settings_of_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        read_settings("h2dlint.toml", data)
    except ConfigError as error:
        assert str(error).startswith("h2dlint.toml")


def test_what_is_named_need_not_be_a_regular_file_but_ends(write: WriteFiles, cli: Cli) -> None:
    write(FILES)
    assert "too large for settings" in cli("check", "--config", "/dev/zero").err
    assert Config().max_file_bytes > 0
    if os.path.exists("/dev/stdin"):
        assert cli("check", "--config", "/dev/null", "--no-cache").out.count("HTD101") == 2


# --- baselines ----------------------------------------------------------------------------------------------------

ENTRY = {"path": "a.py", "code": "HTD101", "function": "<module>", "text": COPY}


def baseline(*entries: Any, **more: Any) -> bytes:
    return json.dumps({"version": 1, "findings": list(entries), **more}).encode()


BASELINES: dict[str, tuple[bytes, int]] = {
    "one entry": (baseline(ENTRY), 1),
    "the same twice": (baseline(ENTRY, ENTRY), 1),
    "a byte order mark": (b"\xef\xbb\xbf" + baseline(ENTRY), 1),
    "keys that nobody knows": (baseline({**ENTRY, "x": [1]}, x=1), 1),
    "a code that there is not": (baseline({**ENTRY, "code": "HTD999"}), 2),
    "a path outside": (baseline({**ENTRY, "path": "/etc/passwd"}, {**ENTRY, "path": "../" * 5000}), 2),
    "a path that is too long": (baseline({**ENTRY, "path": "a" * 10_000}), 2),
    "half a letter": (baseline({**ENTRY, "path": "\ud800", "text": "\udc80"}), 2),
    "nothing": (b"", -1),
    "cut": (baseline(ENTRY)[:-20], -1),
    "UTF-16": (baseline(ENTRY).decode().encode("utf-16"), -1),
    "not UTF-8": (b"\xff", -1),
    "lists in lists": (b"[" * 100_000, -1),
    "objects in objects": (b'{"a":' * 100_000, -1),
    "lists in the entries": (b'{"version":1,"findings":' + b"[" * 100_000 + b"]" * 100_000 + b"}", -1),
    "a version that is no number": (baseline(version=[]), -1),
    "a version to come": (baseline(version=2), -1),
    "no list": (baseline(findings=3), -1),
    "null": (baseline(findings=None), -1),
    "a table": (baseline(findings={"a": 1}), -1),
    "an entry that is null": (baseline(None), -1),
    "a path that is a number": (baseline({**ENTRY, "path": 3}), -1),
    "a path with a null byte": (baseline({**ENTRY, "path": "a\0"}), -1),
    "an empty path": (baseline({**ENTRY, "path": ""}), -1),
    "fewer than none": (baseline({**ENTRY, "count": -1}), -1),
    "more than anybody has": (baseline({**ENTRY, "count": 10**30}), -1),
    "a count that is no number": (baseline({**ENTRY, "count": math.nan}), -1),
    "a count that is a truth": (baseline({**ENTRY, "count": True}), -1),
    "a huge entry": (baseline({"x": "y" * 1_000_000}), -1),
    "another tool's": (b'{"results": {}, "version": "1.4.0"}', -1),
}


@pytest.mark.parametrize(("data", "left"), BASELINES.values(), ids=BASELINES.keys())
@pytest.mark.parametrize("options", [("--baseline", "known.json"), (), ("--write-baseline", "known.json")])
def test_baselines_of_any_content(
    write: WriteFiles, forked_cli: Cli, data: bytes, left: int, options: tuple[str, ...]
) -> None:
    root = write({**FILES, **({} if options else {"h2dlint.toml": "baseline = 'known.json'\n"})})
    (root / "known.json").write_bytes(data)
    ran = forked_cli("check", "--no-cache", "-j1", *options)
    if "--write-baseline" in options:
        assert ran.status == (2 if left < 0 else 0), ran
        assert "Traceback" not in ran.err
        assert left >= 0 or (root / "known.json").read_bytes() == data
        return
    holds(ran, "known.json", left)
    assert (ran.status == 2) is (left < 0)
    nothing = write({"a.py": "", "p/b.py": ""})
    assert "Traceback" not in forked_cli("check", "--no-cache", str(nothing), *options).err


# --- traces -------------------------------------------------------------------------------------------------------

SEEN: dict[str, Any] = {
    "path": "a.py", "line": 3, "column": 5, "end_line": 3, "end_column": 52, "function": "", "call": "to",
    "direction": "h2d", "verdict": "fake-async", "asked": True, "pinned": False, "dense": True, "calls": 1, "copies": 1,
    "pageable": 1, "bytes": 399_996, "largest": 399_996, "total_ms": 1.0, "worst_ms": 1.0,
}  # fmt: skip


def trace(*copies: Mapping[str, Any], **more: Any) -> bytes:
    whole = {"version": 1, "tool": "h2dlint trace", "seconds": 1.0, "processes": [], "files": {}}
    return json.dumps({**whole, "copies": copies or [SEEN], **more}).encode()


TRACES: dict[str, bytes] = {
    "as it is": trace(),
    "nothing": b"",
    "cut": trace()[:-30],
    "a byte order mark": b"\xef\xbb\xbf" + trace(),
    "not UTF-8": trace().replace(b'"a.py"', b'"a\xff.py"'),
    "objects in objects": b'{"a":' * 100_000,
    "lists in something else": trace()[:-1] + b', "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a version that is no number": trace(version="1"),
    "a version that no machine counts": trace(version=10**30),
    "another tool's": b'{"traceEvents": []}',
    "a line below 1": trace({**SEEN, "line": -3}),
    "a line that does not exist": trace({**SEEN, "line": 10**9, "end_line": 10**9, "function": "f"}),
    "a line that no machine counts": trace({**SEEN, "line": 10**30}),
    "an end before its start": trace({**SEEN, "line": 3, "end_line": 2, "function": "f"}),
    "columns outside": trace({**SEEN, "column": -5, "end_column": 10**9}),
    "a line and a half": trace({**SEEN, "line": 1.5}),
    "milliseconds that are no number": trace({**SEEN, "total_ms": math.nan}),
    "endless milliseconds": trace().replace(b'"total_ms": 1.0', b'"total_ms": 1e999'),
    "fewer than no calls": trace({**SEEN, "calls": -1, "total_ms": -1.0}),
    "a cause that there is not": trace({**SEEN, "causes": ["x"]}),
    "a path with a null byte": trace({**SEEN, "path": "a\0.py"}, files={"a\0.py": "x"}),
    "half a letter": trace().replace(b'"a.py"', b'"\\ud800"'),
    "a path with escapes": trace({**SEEN, "path": "a\x1b[31m\n::error::.py"}),
    "an empty path": trace({**SEEN, "path": ""}),
    "names with escapes": trace({**SEEN, "function": "\x1b[31m\n::error::", "call": "\x1b[2J", "end_column": 9}),
    "a call 10,000 times": trace(*[SEEN] * 10_000),
}


@pytest.mark.parametrize("data", TRACES.values(), ids=TRACES.keys())
def test_traces_of_any_content(write: WriteFiles, forked_cli: Cli, data: bytes) -> None:
    (write(FILES) / "t.json").write_bytes(data)
    for format in ("concise", "full", "json", "sarif", "github"):
        ran = forked_cli("check", "--no-cache", "-j1", "--trace", "t.json", "--output-format", format)
        assert ran.status in (1, 2)
        assert "Traceback" not in ran.err
        assert "\x1b" not in ran.out + ran.err
        assert not any(line.startswith("::error::") for line in ran.out.splitlines())
        assert ran.status == 1 or "t.json" in ran.err
    for format in ("full", "json"):
        ran = forked_cli("trace", "--read", "t.json", "--output-format", format)
        assert ran.status in (0, 2)
        assert "Traceback" not in ran.err
        assert "\x1b" not in ran.out + ran.err


def test_a_trace_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_file, "MOST_BYTES", 1000)
    with pytest.raises(trace_file.TraceError, match="too large for a trace"):
        trace_file.read("/dev/zero")


# --- command lines ------------------------------------------------------------------------------------------------

LINES: dict[str, tuple[tuple[str, ...], str]] = {
    "an empty path": (("check", ""), "(an empty path): no such file or folder"),
    "no line": (("copies", "--explain", "a.py:"), "`--explain` wants PATH:LINE"),
    "a line of 5,000 digits": (("copies", "--explain", f"a.py:{'9' * 5000}"), "`--explain` wants PATH:LINE"),
    "a line in another script": (("copies", "--explain", "a.py:\u00b2"), "`--explain` wants PATH:LINE"),
    "an explanation of what has no end": (("copies", "--explain", "/dev/zero:1"), "bytes are not looked at"),
    "settings without end": (("check", "--config", "/dev/zero", "a.py"), "too large for settings"),
    "a full disk": (("check", "--output-file", "/dev/full"), "/dev/full': No space left on device"),
    "a full disk for a summary": (("check", "--summary-file", "/dev/full"), "/dev/full': No space left on device"),
}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full disk to offer")
@pytest.mark.parametrize(("arguments", "message"), LINES.values(), ids=LINES.keys())
def test_what_cannot_be_done_is_told(
    write: WriteFiles, forked_cli: Cli, arguments: tuple[str, ...], message: str
) -> None:
    write(FILES)
    ran = forked_cli(*arguments)
    assert (ran.status, message in ran.err, "Traceback" in ran.err) == (2, True, False), ran


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full disk to offer")
@pytest.mark.parametrize("arguments", [("check", "a.py"), ("check", "fine.py"), ("check", "--diff"), ("rule", "--all")])
def test_output_that_cannot_be_written_is_an_error_and_no_finding(
    write: WriteFiles, arguments: tuple[str, ...]
) -> None:
    folder = write({**FILES, "fine.py": ""})
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "h2dlint", *arguments]
        ran = subprocess.run(command, cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (ran.returncode, ran.stderr.splitlines()[-1]) == (
        2,
        "h2dlint: the output cannot be written: No space left on device",
    )


def test_a_baseline_that_cannot_be_written_stays_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "known.json"
    file.write_bytes(baseline(ENTRY))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match=r"known\.json: cannot be written: No space left on device"):
        write_baseline(str(file), (), {}, {str(tmp_path / "a.py")}, read_baseline(str(file)))
    assert file.read_bytes() == baseline(ENTRY)
    assert os.listdir(tmp_path) == ["known.json"]
