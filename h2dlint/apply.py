"""Edits into text, and text into files: merging, the diff, and writes that leave every file whole."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from msgspec import Struct

from h2dlint.finding import Edit, Fix


class NotWrittenError(Exception):
    """A file that was left alone; the text is a clause that says why."""


class Merged(Struct, frozen=True):
    """Fixes of one text, told apart by whether they can be made at once."""

    taken: tuple[int, ...]
    """The indexes of the fixes that go together."""
    waiting: tuple[int, ...]
    """Those that touch what a taken one changes: their turn comes when that is done."""
    edits: tuple[Edit, ...]
    """The edits of the taken ones, in order, each once."""


def merge(fixes: Sequence[Fix]) -> Merged:
    """Takes as many fixes as can be made at once: the one that starts first goes first.

    Two fixes may share an edit, such as an import. Two different ones at the same place do not go together.
    """
    order = sorted(range(len(fixes)), key=lambda index: (_start(fixes[index]), index))
    taken: list[int] = []
    waiting: list[int] = []
    edits: dict[Edit, None] = {}
    for index in order:
        if any(_clash(edit, other) for edit in fixes[index].edits for other in edits):
            waiting.append(index)
        else:
            taken.append(index)
            edits.update(dict.fromkeys(fixes[index].edits))
    return Merged(tuple(taken), tuple(sorted(waiting)), tuple(sorted(edits, key=_position)))


def _start(fix: Fix) -> int:
    return min((edit.start for edit in fix.edits), default=0)


def _position(edit: Edit) -> tuple[int, int]:
    return edit.start, edit.end


def _clash(edit: Edit, other: Edit) -> bool:
    if edit == other:
        return False
    if edit.start == edit.end and other.start == other.end:
        return edit.start == other.start
    return edit.start < other.end and other.start < edit.end


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits made.

    Raises ValueError for edits that overlap or lie outside the text.
    """
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits, key=_position):
        if not at <= edit.start <= edit.end <= len(text):
            raise ValueError("edits overlap, or lie outside the text")
        pieces += [text[at : edit.start], edit.replacement]
        at = edit.end
    return "".join([*pieces, text[at:]])


def unified_diff(path: str, before: str, after: str) -> str:
    """The change as a unified diff that `git apply` and `patch -p1` take; empty where there is none.

    Lines end as they do in the file.
    """
    from difflib import unified_diff as difference

    out: list[str] = []
    names = (_quoted(f"a/{path}"), _quoted(f"b/{path}"))
    for line in difference(_lines(before), _lines(after), *names, lineterm="\n"):
        out.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(out)


def _quoted(name: str) -> str:
    """A name as git writes it in a patch: in quotes, with escapes, where a line could not hold it."""
    if name.isprintable() and not any(sign in name for sign in '"\\'):
        return name
    return '"' + "".join(_ESCAPES.get(sign) or (sign if sign.isprintable() else _octal(sign)) for sign in name) + '"'


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _octal(sign: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in sign.encode("utf-8", "surrogateescape"))


def _lines(text: str) -> list[str]:
    # Newlines alone end a line in a patch: a carriage return belongs to the line.
    lines = text.split("\n")
    return [*(f"{line}\n" for line in lines[:-1]), *([lines[-1]] if lines[-1] else [])]


# --- files --------------------------------------------------------------------------------------------------------


def write_file(file: str, before: bytes, after: bytes) -> None:
    """Puts `after` in the place of `before`: all of it or nothing, whatever happens in between.

    The mode stays, and so does a symbolic link: what it points at is written.

    Raises:
        NotWrittenError: the file no longer holds `before`, or cannot be written.
    """
    target = os.path.realpath(file)
    try:
        status = os.stat(target)
        if not os.access(target, os.W_OK):
            raise NotWrittenError("it is read-only")
        _replace(target, before, after, status)
    except OSError as error:
        raise NotWrittenError(f"it cannot be written: {error.strerror or error}") from error


def write_whole(file: str, data: bytes) -> None:
    """Puts bytes into a file that may be there already, as a whole: what fails leaves the old one.

    Raises OSError.
    """
    target = os.path.realpath(file)
    if not os.path.isfile(target):  # new, or a pipe
        with open(target, "wb") as stream:
            stream.write(data)
        return
    with open(target, "r+b") as stream:  # refuses what is read-only
        before = stream.read()
    try:
        _replace(target, before, data, os.stat(target))
    except NotWrittenError as reason:
        raise OSError(None, str(reason), file) from reason


def write_files(changes: Sequence[tuple[str, bytes, bytes]]) -> None:
    """Puts new bytes into several files (file, before, after): into all of them, or into none.

    What was written before one fails is put back.

    Raises:
        NotWrittenError: as `write_file`; where there are others, with the name of the file that failed.
    """
    done: list[tuple[str, bytes, bytes]] = []
    for file, before, after in changes:
        try:
            write_file(file, before, after)
        except NotWrittenError as reason:
            for earlier, old, new in reversed(done):
                write_file(earlier, new, old)
            raise NotWrittenError(str(reason) if len(changes) == 1 else f"of {file}: {reason}") from reason
        done.append((file, before, after))


def _replace(target: str, before: bytes, after: bytes, status: os.stat_result) -> None:
    import stat
    import tempfile
    from contextlib import suppress

    folder, name = os.path.split(target)
    handle, beside = tempfile.mkstemp(prefix=f".{name}.", suffix=".h2dlint", dir=folder)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(after)
            stream.flush()
            os.fsync(stream.fileno())
        with suppress(OSError, AttributeError):  # another user's file: the group may still be kept, or nothing
            os.chown(beside, status.st_uid, status.st_gid)
        os.chmod(beside, stat.S_IMODE(status.st_mode))
        with open(target, "rb") as stream:
            if stream.read() != before:
                raise NotWrittenError("it was changed while it was looked at")
        os.replace(beside, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
