"""What settings may say: every key with its kind, and the file and line of whatever is wrong.

Without record types, so that a run with nothing to do can afford to read them.
"""

from __future__ import annotations

import os
import re

from h2dlint.discovery import display_path
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


def _texts(value: Any) -> Complaint:
    if not isinstance(value, list):
        return f"expected a list of strings, not {_shown(value)}"
    return next((f"expected strings in the list, not {_shown(one)}" for one in value if not isinstance(one, str)), None)


def _codes(value: Any) -> Complaint:
    return _texts(value) or next(filter(None, map(wrong_code, value)), None)


def _codes_by_glob(value: Any) -> Complaint:
    if not isinstance(value, dict):
        return f'expected a table such as `"tests/*" = ["HTD101"]`, not {_shown(value)}'
    return next((f"{glob!r}: {wrong}" for glob, codes in value.items() if (wrong := _codes(codes))), None)


def _names(value: Any) -> Complaint:
    return _texts(value) or next(filter(None, map(_dotted, value)), None)


def _dotted(value: Any) -> Complaint:
    complaint = _text(value)
    if complaint is None and not ("." in value and all(part.isidentifier() for part in value.split("."))):
        complaint = f"not a dotted name such as `pkg.mod.send`: {value!r}"
    return complaint


def _expression(value: Any) -> Complaint:
    complaint = _text(value)
    if complaint is None and not _is_expression(value):
        complaint = f"not an expression on one line: {value!r}"
    return complaint


def _is_expression(text: str) -> bool:
    import ast

    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return False
    return "\n" not in text and text == text.strip()


def _at_least(least: int) -> Kind:
    def whole_number(value: Any) -> Complaint:
        fine = isinstance(value, int) and not isinstance(value, bool) and value >= least
        return None if fine else f"expected a whole number from {least} on, not {_shown(value)}"

    return whole_number


def _one_of(known: tuple[str, ...]) -> Kind:
    def choice(value: Any) -> Complaint:
        if isinstance(value, str) and value in known:
            return None
        return f"cannot be {_shown(value)}{nearest(str(value), known)}"

    return choice


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, (str, int, float)):
        return f"`{value!r}`"
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
    "baseline": _text,
    "output-format": _one_of(FORMATS),
    "hot-functions": _names,
    "pinned-factories": _names,
    "backend": _one_of(BACKENDS),
    "root": _text,
    "max-caller-files": _at_least(0),
    "max-caller-sites": _at_least(0),
    "pin-guard": _expression,
    "transfer-helper": _dotted,
    "max-rows": _at_least(1),
    "max-pin-bytes": _at_least(0),
    "max-file-bytes": _at_least(1),
    "cache-dir": _text,
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
    return f"no rule begins with `{selector}`{nearest(selector, codes)}"


def nearest(word: str, known: Iterable[str]) -> str:
    """A clause that offers the known words which `word` may have meant; the whole list if none comes near."""
    import difflib

    known = tuple(known)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
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


def read_settings(path: str, data: bytes) -> dict[str, Any] | None:
    """The settings in a file, each of its right kind; None for a pyproject.toml without h2dlint's table.

    Any file but a pyproject.toml holds the keys at its top. Raises ConfigError for what is wrong with it.
    """
    shared = os.path.basename(path) == SHARED
    shown = display_path(path)
    try:
        text = data.decode("utf-8")
        table = _parse_toml(text)
    except ValueError as error:  # not UTF-8, or not TOML
        at = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        where, what = (f":{at[1]}", str(error)[: at.start()]) if at else ("", str(error))
        raise ConfigError(f"{shown}{where}: not TOML: {what[:1].lower()}{what[1:]}") from error
    if shared:
        tool = table.get("tool")
        found = tool.get("h2dlint") if isinstance(tool, dict) else None
        if found is not None and not isinstance(found, dict):
            raise ConfigError(f"{shown}:{line_of(text, 'tool.h2dlint')}: `h2dlint` must be a table: [tool.h2dlint]")
        if found is None:
            return None
        table = found
    for key, value in table.items():
        kind = KEYS.get(key)
        complaint = kind(value) if kind is not None else ""
        if complaint is not None:
            line = line_of(text, f"tool.h2dlint.{key}" if shared else key)
            what = f"`{key}`: {complaint}" if complaint else f"unknown key `{key}`{nearest(key, KEYS)}"
            raise ConfigError(f"{shown}:{line}: {what}")
    return table


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
    return tomllib.loads(text)
