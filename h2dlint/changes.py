"""Which lines of the working tree changed since a git revision, and which findings rest on one of them."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from h2dlint.facts.copies import Span
from h2dlint.settings import ConfigError

if TYPE_CHECKING:
    from h2dlint.finding import Finding

_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class FileChanges(Struct, frozen=True):
    """What changed in one file, in its lines of now."""

    added: tuple[tuple[int, int], ...] = ()
    """First and last lines of what is new or was rewritten."""
    removed: tuple[int, ...] = ()
    """Lines behind which something was taken out; 0 for the top."""

    def touch(self, first: int, last: int) -> bool:
        """Whether one of the lines is new, or next to something that was taken out."""
        return any(start <= last and first <= end for start, end in self.added) or any(
            first - 1 <= line <= last for line in self.removed
        )


EVERYTHING = FileChanges(((1, 1 << 62),))


class Changes(Struct, frozen=True):
    """What changed, by real path: git knows no symbolic links on the way to its files."""

    files: Mapping[str, FileChanges]

    def touch(self, path: str) -> bool:
        """Whether anything changed in a file."""
        return os.path.realpath(path) in self.files

    def concern(self, finding: Finding, tree: ast.Module) -> bool:
        """Whether a line of the finding's copy or of its chain changed, or lines above it in its function went."""
        places = [(finding.path, finding.span), *((place.path, place.span) for place in finding.trace)]
        if any(self._touch(path, span) for path, span in places):
            return True
        changes = self.files.get(os.path.realpath(finding.path))
        if changes is None or not changes.removed:
            return False
        start = _start_of_function(tree, finding.span.line)
        return any(start <= line < finding.span.line for line in changes.removed)

    def _touch(self, path: str, span: Span) -> bool:
        changes = self.files.get(os.path.realpath(path))
        return changes is not None and changes.touch(span.line, span.end_line)


def _start_of_function(tree: ast.Module, line: int) -> int:
    start = 1
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno <= line <= (node.end_lineno or 0):
            start = max(start, node.lineno)
    return start


def changes_since(revision: str) -> Changes:
    """What changed in the repository around the working directory since `revision`, files that git does not know yet
    included.

    Raises ConfigError where there is no git, no repository or no such revision.
    """
    if revision.startswith("-"):
        raise ConfigError(f"`--since {revision}`: not a revision")
    top = os.fsdecode(_git("rev-parse", "--show-toplevel").rstrip(b"\n"))
    commit = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", name=revision)
    difference = _git(
        *("-c", "core.quotepath=off", "diff", "--unified=0", "--no-color", "--no-ext-diff", "--no-textconv"),
        *("--src-prefix=a/", "--dst-prefix=b/", commit.decode().strip(), "--"),
        folder=top,
    )
    files = {os.path.realpath(os.path.join(top, path)): changes for path, changes in _parsed(difference).items()}
    for path in _git("ls-files", "--others", "--exclude-standard", "-z", folder=top).split(b"\0"):
        if path:
            files[os.path.realpath(os.path.join(top, os.fsdecode(path)))] = EVERYTHING
    return Changes(files)


def _git(*arguments: str, folder: str | None = None, name: str = "") -> bytes:
    import subprocess

    try:
        ran = subprocess.run(["git", "-c", "core.fsmonitor=false", *arguments], cwd=folder, capture_output=True)
    except OSError as error:
        raise ConfigError(f"`--since` asks git, which cannot be run: {error.strerror}") from error
    if ran.returncode == 0:
        return ran.stdout
    if name:
        raise ConfigError(
            f"git knows no revision `{name}`; fetch it (a shallow clone lacks it), or see `git branch -a`"
        )
    said = ran.stderr.decode("utf-8", "replace").strip().removeprefix("fatal: ").splitlines()
    raise ConfigError(f"`--since` asks git, which says: {said[0] if said else 'nothing'}; `--baseline` needs no git")


def _parsed(difference: bytes) -> dict[str, FileChanges]:
    """The files of a diff without context, by their path in the repository."""
    added: dict[str, list[tuple[int, int]]] = {}
    removed: dict[str, list[int]] = {}
    path, skip = "", 0
    for line in difference.split(b"\n"):
        if skip and line[:1] in (b"-", b"+", b"\\"):
            skip -= line[:1] != b"\\"
            continue
        hunk = _HUNK.match(line)
        if hunk:
            gone, count = (1 if number is None else int(number) for number in (hunk[1], hunk[3]))
            skip, start = gone + count, int(hunk[2])
            if count:
                added.setdefault(path, []).append((start, start + count - 1))
            else:
                removed.setdefault(path, []).append(start)
        elif line.startswith(b"+++ "):
            path = _path_of(line[4:])
    return {path: FileChanges(tuple(added.get(path, ())), tuple(removed.get(path, ()))) for path in {*added, *removed}}


def _path_of(name: bytes) -> str:
    """The path in a `+++` line: `b/x.py`, or in quotes with escapes, or followed by a tab where it holds a space."""
    name = name.rstrip(b"\t\r")
    if name.startswith(b'"') and name.endswith(b'"'):
        name = name[1:-1].decode("unicode_escape").encode("latin-1", "replace")
    return os.fsdecode(name.removeprefix(b"b/"))
