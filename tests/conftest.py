"""What tests share: a command line to call, and a folder to write a small project into."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

import pytest
from h2dlint.rules import all_rules
from msgspec import Struct

from h2dlint.cli import exit_code


class Ran(Struct, frozen=True):
    """How one call of the command line ended."""

    status: int
    out: str
    err: str


Cli = Callable[..., Ran]
WriteFiles = Callable[[Mapping[str, str]], Path]


def clean_environment() -> dict[str, str]:
    """The environment without what would change colors."""
    return {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Runs `h2dlint ARGUMENTS...` in a process of its own, in the test's folder."""

    def call(*arguments: str, env: Mapping[str, str] | None = None) -> Ran:
        ran = subprocess.run(
            [sys.executable, "-m", "h2dlint", *arguments],
            cwd=tmp_path,
            env={**clean_environment(), **(env or {})},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
        )
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    return call


@pytest.fixture
def write(tmp_path: Path) -> WriteFiles:
    """Writes files, given as relative path and text, into the test's folder."""

    def write_files(files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    return write_files


@pytest.fixture
def forked_cli(tmp_path: Path) -> Cli:
    """Runs `h2dlint ARGUMENTS...` in a fork of this process, which has everything loaded, in the test's folder."""
    for module in ("libcst", "h2dlint.commands", "h2dlint.cache.session", "h2dlint.facts.analyse", "h2dlint.repair"):
        import_module(module)
    all_rules()

    def call(*arguments: str, env: Mapping[str, str] | None = None) -> Ran:
        return forked(tmp_path, arguments)

    return call


def forked(folder: Path, arguments: tuple[str, ...]) -> Ran:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            status = 70
            try:
                os.chdir(folder)
                for stream, number in ((out, 1), (err, 2)):
                    os.dup2(stream.fileno(), number)
                sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
                sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
                status = exit_code(list(arguments))
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        return Ran(os.waitstatus_to_exitcode(status), out.read().decode(), err.read().decode())
