"""What tests share: a command line to call, and a folder to write a small project into."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from msgspec import Struct


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
