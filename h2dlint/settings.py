"""What settings may say: every key with its kind, and the file and line of whatever is wrong.

Without record types, so that a run with nothing to do can afford to read them.
"""

from __future__ import annotations

import os
import re

from h2dlint.discovery import TooLarge, display_path
from h2dlint.settings_files import SHARED, settings_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeAlias

    from h2dlint.finding import Needle

    Complaint: TypeAlias = str | None
    Kind: TypeAlias = Callable[[Any], Complaint]

EVERY_CODE = "ALL"

FAMILIES = ("HTD", "HTD1", "HTD2", "HTD3", "HTD4", "HTD9")
"""Groups of rules by what they are about; each may be selected, whether or not it has a rule yet."""

FORMATS = ("full", "concise", "json", "sarif", "github", "gitlab", "junit", "markdown")
"""How `check` can write what it found."""

BACKENDS = ("cuda", "rocm", "xpu", "npu", "hpu", "mps", "mtia", "xla")
"""Accelerators that a project may name as its own; a literal device in the code overrides it for its copy."""


class ConfigError(Exception):
    """Settings that cannot be used; the message names the file, the line and the remedy."""


# --- kinds of values: each answers what is wrong, or None ----------------------------------------------------------


def _flag(value: Any) -> Complaint:
    return None if isinstance(value, bool) else f"expected `true` or `false`, not {_shown(value)}"


def _text(value: Any) -> Complaint:
    return None if isinstance(value, str) and value else f"expected a string, not {_shown(value)}"


def _path(value: Any) -> Complaint:
    return _text(value) or ("a path cannot hold a null byte" if "\0" in value else None)


def _texts(value: Any) -> Complaint:
    if not isinstance(value, list):
        return f"expected a list of strings, not {_shown(value)}"
    return next((f"expected strings in the list, not {_shown(one)}" for one in value if not isinstance(one, str)), None)


def _codes(value: Any) -> Complaint:
    return _texts(value) or next(filter(None, map(wrong_code, dict.fromkeys(value))), None)


def _codes_by_glob(value: Any) -> Complaint:
    if not isinstance(value, dict):
        return f'expected a table such as `"tests/*" = ["HTD101"]`, not {_shown(value)}'
    return next((f"{_quoted(glob)}: {wrong}" for glob, codes in value.items() if (wrong := _codes(codes))), None)


def _names(value: Any) -> Complaint:
    return _texts(value) or next(filter(None, map(_dotted, value)), None)


def _dotted(value: Any) -> Complaint:
    complaint = _text(value)
    if complaint is None and not ("." in value and all(part.isidentifier() for part in value.split("."))):
        complaint = f"not a dotted name such as `pkg.mod.send`: {_quoted(value)}"
    return complaint


def _expression(value: Any) -> Complaint:
    complaint = _text(value)
    if complaint is None and not _is_expression(value):
        complaint = f"not an expression on one line: {_quoted(value)}"
    return complaint


def _is_expression(text: str) -> bool:
    from h2dlint.source import parse

    try:
        # In parentheses too: a comment would swallow what follows the expression where a fix writes it.
        for code in (text, f"({text})"):
            body = parse(code).body
            if len(body) != 1 or type(body[0]).__name__ != "Expr":
                return False
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return "\n" not in text and text == text.strip()


_MOST = 2**63 - 1
"""What fits into a stored result; nobody has so many of anything."""


def _at_least(least: int) -> Kind:
    def whole_number(value: Any) -> Complaint:
        fine = isinstance(value, int) and not isinstance(value, bool) and least <= value
        if fine and value > _MOST:
            return f"expected a whole number up to {_MOST}, not a larger one"
        return None if fine else f"expected a whole number from {least} on, not {_shown(value)}"

    return whole_number


def _one_of(known: tuple[str, ...]) -> Kind:
    def choice(value: Any) -> Complaint:
        if isinstance(value, str) and value in known:
            return None
        return f"cannot be {_shown(value)}{nearest(str(value), known)}"

    return choice


_LONGEST = 200


def _quoted(value: Any) -> str:
    """A value on one line, cut if nobody would read to its end."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, (str, int, float)):
        return f"`{_quoted(value)}`"
    return {"list": "a list", "dict": "a table"}.get(type(value).__name__, f"a {type(value).__name__}")


KEYS: dict[str, Kind] = {
    "select": _codes,
    "extend-select": _codes,
    "ignore": _codes,
    "per-file-ignores": _codes_by_glob,
    "exclude": _texts,
    "extend-exclude": _texts,
    "strict": _flag,
    "strict-paths": _texts,
    "baseline": _path,
    "output-format": _one_of(FORMATS),
    "hot-functions": _names,
    "pinned-factories": _names,
    "backend": _one_of(BACKENDS),
    "root": _path,
    "max-caller-files": _at_least(0),
    "max-caller-sites": _at_least(0),
    "pin-guard": _expression,
    "transfer-helper": _dotted,
    "max-rows": _at_least(1),
    "max-pin-bytes": _at_least(0),
    "max-file-bytes": _at_least(1),
    "cache-dir": _path,
}
"""Every key, with what is wrong with a value of it; docs/configuration.md explains them."""


# --- codes --------------------------------------------------------------------------------------------------------

_CODE = re.compile(rb"\bMeta\(\s*\"(HTD[0-9]+)\"")
_BYTES = rb"""b(?:"[^"\\]*"|'[^'\\]*')"""
_TOGETHER = rb"\(\s*(?:" + _BYTES + rb"\s*,?\s*)+\)"
_NEEDLES = re.compile(rb"\bneedles\s*=\s*(\((?:\s*(?:" + _BYTES + rb"|" + _TOGETHER + rb")\s*,?)*\s*\))?")
_NEEDLE = re.compile(_TOGETHER + rb"|" + _BYTES)


def rule_codes() -> tuple[str, ...]:
    """The codes of all rules, read off the text of their files: importing them takes far longer."""
    found = {code.decode() for text in _rule_texts() for code in _CODE.findall(text)}
    if not found:  # installed in a way that has no files
        from h2dlint.rules import all_rules

        found = {rule.meta.code for rule in all_rules()}
    return tuple(sorted(found))


def rule_needles() -> tuple[Needle, ...] | None:
    """What all rules together look for in a file, opt-in ones too, read off their text; None if that cannot be seen."""
    found: dict[Needle, None] = {}
    texts = list(_rule_texts())
    for text in texts:
        for needles in _NEEDLES.finditer(text):
            if needles[1] is None:
                return None
            for needle in _NEEDLE.findall(needles[1][1:-1]):
                parts = tuple(part[2:-1] for part in re.findall(_BYTES, needle))
                found[parts if needle.startswith(b"(") else parts[0]] = None
    return tuple(found) if texts else None


def _rule_texts() -> Iterator[bytes]:
    import h2dlint

    for home in h2dlint.__path__:
        folder = os.path.join(home, "rules")
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if name.endswith(".py") and not name.startswith("_"):
                with open(os.path.join(folder, name), "rb") as file:
                    yield file.read()


def wrong_code(selector: str) -> Complaint:
    """What is wrong with a selector that is no rule's code nor the beginning of one."""
    if selector == EVERY_CODE or selector in FAMILIES:
        return None
    codes = rule_codes()
    if selector and any(code.startswith(selector) for code in codes):
        return None
    return f"no rule begins with `{_cut(selector)}`{nearest(selector, codes)}"


def _cut(word: str) -> str:
    return word if len(word) <= _LONGEST else f"{word[:_LONGEST]}..."


def nearest(word: str, known: Iterable[str]) -> str:
    """A clause that offers the known words which `word` may have meant; the whole list if none comes near."""
    import difflib

    known = tuple(known)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5) if len(word) <= _LONGEST else ()
    return f"; did you mean `{near[0]}`?" if near else f"; known are {', '.join(known)}"


# --- files --------------------------------------------------------------------------------------------------------


def settings_in(folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The file in `folder` whose settings hold there, and what it says; nothing where there is none.

    Raises ConfigError for a file that cannot be used.
    """
    try:
        for path, data in settings_files(folder):
            table = read_settings(path, data)
            if table is not None:
                yield path, table
                return
    except OSError as error:
        shown = display_path(error.filename)
        raise ConfigError(f"{shown}: cannot be read: {error.strerror}; `--isolated` goes without it") from error
    except TooLarge as error:
        raise ConfigError(f"{_too_large(error)}; `--isolated` goes without it") from error


def _too_large(error: TooLarge) -> str:
    return f"{display_path(error.path)}: too large for settings: more than {error.most:,} bytes"


def read_settings(path: str, data: bytes) -> dict[str, Any] | None:
    """The settings in a file, each of its right kind; None for a pyproject.toml without h2dlint's table.

    Any file but a pyproject.toml holds the keys at its top. Raises ConfigError for what is wrong with it.
    """
    shared = os.path.basename(path) == SHARED
    shown = display_path(path)
    try:
        text = data.decode("utf-8-sig")
        table = _parse_toml(text)
    except (ValueError, RecursionError) as error:
        line, what = _why_not_toml(error, data)
        raise ConfigError(f"{shown}{f':{line}' if line else ''}: not TOML: {what}") from error
    if shared:
        tool = table.get("tool")
        found = tool.get("h2dlint") if isinstance(tool, dict) else None
        if found is not None and not isinstance(found, dict):
            raise ConfigError(f"{shown}:{line_of(text, 'tool.h2dlint')}: `h2dlint` must be a table: [tool.h2dlint]")
        if found is None:
            return None
        table = found
    elif "tool" in table:
        raise ConfigError(f"{shown}:{line_of(text, 'tool')}: the keys stand at the top here, without [tool.h2dlint]")
    for key, value in table.items():
        kind = KEYS.get(key)
        complaint = kind(value) if kind is not None else ""
        if complaint is not None:
            line = line_of(text, f"tool.h2dlint.{key}" if shared else key)
            what = f"`{key}`: {complaint}" if complaint else f"unknown key `{_cut(key)}`{nearest(key, KEYS)}"
            raise ConfigError(f"{shown}:{line}: {what}")
    return table


_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_MANY_PARTS = re.compile(r"(?<![\w-])(?:(?:[\w-]+|\"[^\"\n]*\"|'[^'\n]*')[ \t]*\.[ \t]*){200}")


def _why_not_toml(error: ValueError | RecursionError, data: bytes) -> tuple[int, str]:
    """The line to blame, 0 where none is known, and what is wrong there."""
    if isinstance(error, RecursionError):
        return 0, "nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return data.count(b"\n", 0, error.start) + 1, f"not UTF-8: byte 0x{data[error.start]:02x}"
    what = str(error)
    if "integer string conversion" in what:
        number = re.search(rb"\d{4000}", data)
        return (data.count(b"\n", 0, number.start()) + 1 if number else 0), "a number of thousands of digits"
    at = _PLACE.search(what)
    if at:
        what = what[: at.start()]
    return (int(at[1]) if at[1] else data.count(b"\n") + 1) if at else 0, f"{what[:1].lower()}{_cut(what[1:])}"


_HEADER = re.compile(r"\s*\[{1,2}\s*([^\]]+?)\s*\]")
_ENTRY = re.compile(r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*=")


def line_of(text: str, dotted: str) -> int:
    """The 1-based line on which a TOML file first says something of the key `dotted`; 1 if that cannot be seen."""
    section = ""
    for number, line in enumerate(text.split("\n"), 1):
        header, entry = _HEADER.match(line), _ENTRY.match(line)
        if header:
            here = section = re.sub(r"[\s\"']", "", header[1])
        elif entry:
            here = f"{section}.".lstrip(".") + re.sub(r"[\s\"']", "", entry[1])
        else:
            continue
        if here == dotted or here.startswith(f"{dotted}."):
            return number
    return 1


def _parse_toml(text: str) -> dict[str, Any]:
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    many = _MANY_PARTS.search(text)
    if many:  # the time for a key is the square of its parts
        line = text.count("\n", 0, many.start()) + 1
        raise ValueError(f"a name of hundreds of parts (at line {line}, column 1)")
    return tomllib.loads(text)
