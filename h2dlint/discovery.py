"""Which files a run looks at: arguments, excludes, .gitignore, and a look at the bytes of each file.

No record types here: a run over a folder with nothing to do gets no further than this module.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from io import FileIO

DEFAULT_EXCLUDES = (
    ".bzr",
    ".direnv",
    ".eggs",
    ".git",
    ".h2dlint_cache",
    ".hg",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".nox",
    ".pytest_cache",
    ".pytype",
    ".ruff_cache",
    ".svn",
    ".tox",
    ".venv",
    "__pycache__",
    "__pypackages__",
    "_build",
    "build",
    "dist",
    "node_modules",
    "site-packages",
    "venv",
)
"""Names of folders that hold no code of the project's own."""

SUFFIXES = (".py", ".ipynb")
"""Files with these names hold Python."""

NON_BLOCKING = b"non_blocking"

NEEDLES = (
    NON_BLOCKING,
    b"pin_memory",
    b"h2dlint:",
    b"HTD",
    (b"parameters(", b".data.to("),
    (b"parameters(", b".data.cpu("),
)
"""What the rules of the default set look for in a file; a test holds it against their metadata."""

TORCH = (b"torch", NON_BLOCKING)
"""What a file must mention to move a tensor at all."""


class Missing(Exception):
    """A path argument that does not exist, or cannot be listed."""


# --- names and patterns -------------------------------------------------------------------------------------------


class Patterns:
    """Globs that were written in one folder: without a slash they match a name at any depth, with one a path."""

    def __init__(self, patterns: Iterable[str], folder: str) -> None:
        self._folder = folder
        self._names: set[str] = set()
        globs: list[str] = []
        for pattern in patterns:
            pattern = pattern.replace(os.sep, "/").removeprefix("./").rstrip("/")
            if "/" in pattern:
                globs.append(pattern.lstrip("/"))
            elif any(char in pattern for char in "*?"):
                globs.append(f"**/{pattern}")
            else:
                self._names.add(pattern)
        self._regex = _any_of(globs) if globs else None

    def match(self, folder: str, name: str) -> bool:
        """Whether one of the globs names the entry `name` of `folder`."""
        if name in self._names:
            return True
        if self._regex is None:
            return False
        path = os.path.relpath(os.path.join(folder, name), self._folder).replace(os.sep, "/")
        return self._regex.fullmatch(path) is not None


def _any_of(globs: Iterable[str]) -> re.Pattern[str]:
    from h2dlint.globs import regex_of, tokens_of

    sources = (regex_of(tokens_of(glob), f"g{number}_") for number, glob in enumerate(globs))
    return re.compile("|".join(sources), re.DOTALL)


def display_path(path: str) -> str:
    """`path` as users see it: relative to the working directory, forward slashes, undecodable bytes as escapes."""
    if not path:
        return "(an empty path)"
    if os.path.isabs(path):
        with suppress(ValueError):  # another drive
            path = os.path.relpath(path)
    path = os.path.normpath(path).replace(os.sep, "/")
    return path if path.isascii() else os.fsencode(path).decode("utf-8", "backslashreplace")


def absolute(path: str, folder: str = "") -> str:
    """`os.path.abspath`, in a tenth of the time for what a walk finds; `folder`: the working directory, if known."""
    if path[:1] in ("/", ".", "") or "//" in path or "/." in path or os.sep != "/":
        return os.path.abspath(path)
    return f"{folder or os.getcwd()}/{path}"


# --- .gitignore ---------------------------------------------------------------------------------------------------


class GitIgnore:
    """One .gitignore file."""

    def __init__(self, folder: str, data: bytes) -> None:
        from h2dlint.globs import IgnoreLines

        self.folder = folder
        self._lines = IgnoreLines(data)

    def says(self, path: str, is_folder: bool) -> bool | None:
        """Whether the absolute `path`, which lies under this file's folder, is ignored; None: nothing is said."""
        relative = path[len(self.folder) :].lstrip(os.sep).replace(os.sep, "/") + ("/" if is_folder else "")
        return self._lines.says(relative)


class Ignores:
    """The .gitignore files that hold for one folder, the nearest last."""

    def __init__(self, files: tuple[GitIgnore, ...] = ()) -> None:
        self._files = files

    def inside(self, folder: str, names: Iterable[str]) -> Ignores:
        """What holds in `folder`, given the names in it: its own .gitignore counts, and a repository starts afresh."""
        files = () if ".git" in names else self._files
        if ".gitignore" in names:
            files = (*files, *_read_gitignore(folder))
        return self if files is self._files else Ignores(files)

    def __bool__(self) -> bool:
        return bool(self._files)

    def ignored(self, path: str, is_folder: bool) -> bool:
        """Whether the nearest .gitignore that says something about the absolute `path` says to leave it out."""
        for file in reversed(self._files):
            ignored = file.says(path, is_folder)
            if ignored is not None:
                return ignored
        return False


def _read_gitignore(folder: str) -> list[GitIgnore]:
    try:
        return [GitIgnore(folder, read_regular(os.path.join(folder, ".gitignore")))]
    except OSError:
        return []


def ignores_above(folder: str) -> Ignores:
    """The .gitignore files from the top of the repository that holds `folder` down to it, without its own.

    A folder outside any repository inherits none.
    """
    above: list[str] = []
    current = folder = os.path.abspath(folder)
    while not os.path.exists(os.path.join(current, ".git")):
        parent = os.path.dirname(current)
        if parent == current:
            return Ignores()
        above.append(parent)
        current = parent
    ignores = Ignores()
    for parent in reversed(above):
        if os.path.exists(os.path.join(parent, ".gitignore")):
            ignores = ignores.inside(parent, (".gitignore",))
    return ignores


# --- the walk -----------------------------------------------------------------------------------------------------


def python_files(
    paths: Sequence[str], excluded: Callable[[str, str], bool] | None = None, named_too: bool = False
) -> Iterator[str]:
    """Every Python file under `paths`, each once, in sorted order within each argument.

    A file named as an argument is taken whatever its name is. `excluded(folder, name)` decides about everything found
    by walking, and with `named_too` about the arguments; the default leaves out `DEFAULT_EXCLUDES`.

    Raises:
        Missing: an argument does not exist.
    """
    excluded = excluded or _excluded_by_default
    for path in paths:
        if not os.path.exists(path):
            raise Missing(
                f"{display_path(path)}: no such file or folder; `h2dlint check --show-files` lists what there is"
            )
    seen: set[str] = set()
    here = os.getcwd()
    for path in paths:
        if named_too and left_out(path, excluded):
            continue
        for file in _walk(path, excluded) if os.path.isdir(path) else (path,):
            key = absolute(file, here)
            if key not in seen:
                seen.add(key)
                yield file


def left_out(path: str, excluded: Callable[[str, str], bool]) -> bool:
    """Whether a walk from the working directory would leave `path` out, itself or with a folder around it.

    Of a path outside of it only the last part counts.
    """
    folder, name = os.path.split(os.path.relpath(path))
    parts = [name] if folder.startswith(os.pardir) or name == os.pardir else [*folder.split(os.sep), name]
    at = folder if len(parts) == 1 else os.curdir
    for part in parts:
        if part not in ("", os.curdir) and excluded(at or os.curdir, part):
            return True
        at = part if at in ("", os.curdir) else os.path.join(at, part)
    return False


def _excluded_by_default(folder: str, name: str) -> bool:
    return name in DEFAULT_EXCLUDES


def _walk(root: str, excluded: Callable[[str, str], bool]) -> Iterator[str]:
    # Folders are entered once each, by what they are on disk, so that links cannot make the walk go round.
    entered: set[tuple[int, int]] = set()
    absolute = os.path.abspath(root)
    waiting = [(root, ignores_above(root))]
    while waiting:
        folder, ignores = waiting.pop()
        try:
            status = os.stat(folder)
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue  # not ours to read, or gone since
        if (status.st_dev, status.st_ino) in entered and status.st_ino:
            continue
        entered.add((status.st_dev, status.st_ino))
        here = os.path.join(absolute, os.path.relpath(folder, root)) if folder != root else absolute
        ignores = ignores.inside(here, {entry.name for entry in entries})
        folders: list[str] = []
        inside = os.path.join(here, "")
        for entry in entries:
            path = entry.name if folder == os.curdir else entry.path
            is_folder = _is_folder(entry)
            if not is_folder and not entry.name.endswith(SUFFIXES):
                continue
            if excluded(folder, entry.name) or (ignores and ignores.ignored(inside + entry.name, is_folder)):
                continue
            if is_folder:
                folders.append(path)
            elif _is_file(entry):
                yield path
        waiting += [(path, ignores) for path in reversed(folders)]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


# --- the look at the bytes ----------------------------------------------------------------------------------------

_TRANSFER = re.compile(rb"\.\s*(copy_|cuda|to|xpu|npu|hpu|mtia|type)\s*\(")
_TOKEN = re.compile(
    rb"[][(){},]"
    rb"|#[^\n]*"
    rb"|\"(?:[^\"\\\n]|\\.)*\"?"
    rb"|'(?:[^'\\\n]|\\.)*'?"
    rb"|(?<![=!<>:])=(?!=)",
    re.DOTALL,
)
_ONE_PLAIN_ARGUMENT = re.compile(rb"[^][(){},#\"']{0,100}[)]")
_DTYPE = re.compile(rb"\W*(?:[\w.]*dtype\w*|torch\.\w+|None|[\w.]*(?:half|float|double|bool|u?int)\w*)\W*")
_MOST_BYTES = 4096
_MOST_LOOKS = 4


def has_positional_flag(data: bytes) -> bool:
    """Whether a transfer in `data` seems to pass non_blocking without its name: `.cuda(None, True)`, `.copy_(x, True)`.

    May say yes where there is none, which costs a parse. Linear in the size of `data`: a call stretched or nested
    beyond all reason counts as a yes.
    """
    left = _MOST_LOOKS * len(data)
    for call in _TRANSFER.finditer(data):
        if _ONE_PLAIN_ARGUMENT.match(data, call.end()):
            continue
        arguments, end = _positional_arguments(data, call.end())
        left -= end - call.end()
        if arguments is None or left < 0 or _names_flag(call.group(1), arguments):
            return True
    return False


def _names_flag(method: bytes, arguments: list[bytes]) -> bool:
    if method != b"to":
        return len(arguments) >= 2
    return len(arguments) >= 3 or (len(arguments) == 2 and not _DTYPE.fullmatch(arguments[1]))


def _positional_arguments(data: bytes, start: int) -> tuple[list[bytes] | None, int]:
    """The text of the arguments without a name of the call that opens before `start`, and where they end.

    None for a call too long to follow.
    """
    depth = 0
    begin = start
    positional = True
    found: list[bytes] = []
    for token in _TOKEN.finditer(data, start):
        text = token.group()
        if token.start() > start + _MOST_BYTES:
            return None, token.start()
        if text in (b"(", b"[", b"{"):
            depth += 1
        elif text in (b")", b"]", b"}") and depth:
            depth -= 1
        elif depth:
            continue
        elif text == b"=":
            positional = False
        elif text in (b",", b")"):
            argument = data[begin : token.start()].strip()
            if positional and argument and not argument.startswith(b"*"):
                found.append(argument)
            begin, positional = token.end(), True
            if text == b")":
                return found, token.end()
    return found, len(data)


def has_needle(data: bytes, needles: Sequence[bytes | tuple[bytes, ...]], path: str = "") -> bool:
    """Whether a file with these bytes can hold anything for rules with these needles, of a tuple with all in it.

    Who looks for the name of the flag also wants the calls that pass it without its name, and those that go wrong with
    or without it. `path` tells a notebook, where quotes are escaped.
    """
    for needle in needles:
        if needle in data if isinstance(needle, bytes) else all(part in data for part in needle):
            return True
    if NON_BLOCKING not in needles:
        return False
    text = data.replace(b'\\"', b"'") if path.endswith(".ipynb") else data
    return has_positional_flag(text) or _may_go_wrong_unasked(text)


def _may_go_wrong_unasked(data: bytes) -> bool:
    fills, hands = b"].copy_(" in data, b".data_ptr()" in data
    if not fills and not hands:
        return False
    from h2dlint.facts.picking import filling_picked, handed_pointers

    text = data.decode("latin-1")
    return (fills and bool(filling_picked(text, evident=True))) or (hands and bool(handed_pointers(text)))


MAX_FILE_BYTES = 5_000_000
"""Larger files are data or generated: parsing them takes gigabytes. The default of `max-file-bytes`."""

NOTEBOOK_BYTES = 10
"""A notebook may be so many times as large: most of it are results."""


class TooLarge(Exception):
    """A file that is not read, because of its size."""

    def __init__(self, size: int, most: int, path: str = "") -> None:
        super().__init__(size)
        self.path = path
        self.size = size
        self.most = most


def most_bytes(path: str, most: int = MAX_FILE_BYTES) -> int:
    """How many bytes a file may have to be read, where Python files may have `most`."""
    return most * NOTEBOOK_BYTES if path.endswith(".ipynb") else most


def read_regular(path: str, most: int | None = None) -> bytes:
    """`read_bytes` of what is a file: a pipe or a device that lies where one is expected may have no end."""
    if not os.path.isfile(path) and os.path.exists(path):
        import errno

        number = errno.EISDIR if os.path.isdir(path) else errno.EINVAL
        raise OSError(number, "is a folder" if number == errno.EISDIR else "is no regular file", path)
    return read_bytes(path, most)


def read_bytes(path: str, most: int | None = None) -> bytes:
    """The bytes of a file. Raises OSError as `open` does, and TooLarge where there are more than `most`."""
    with open(path, "rb", buffering=0) as file:
        if most is not None:
            size = os.fstat(file.fileno()).st_size
            if size > most:
                raise TooLarge(size, most, path)
            return _read_up_to(file, most, path)
        return file.read()


def _read_up_to(file: FileIO, most: int, path: str) -> bytes:
    # What a pipe or a device will give is not known before.
    parts: list[bytes] = []
    left = most + 1
    while left > 0 and (part := file.read(min(left, 1 << 24))):
        parts.append(part)
        left -= len(part)
    if left <= 0:
        raise TooLarge(most + 1, most, path)
    return parts[0] if len(parts) == 1 else b"".join(parts)
