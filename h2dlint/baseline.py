"""The file of known findings: a project that has two hundred of them hears of the next one only."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from h2dlint.accepted import Accepted, counted
from h2dlint.discovery import TooLarge, display_path, read_bytes, read_regular
from h2dlint.finding import Finding
from h2dlint.settings import ConfigError

VERSION = 1
MOST_BYTES = 256_000_000
"""Of a larger file nobody knows what it says."""
MOST_FINDINGS = 2**31
"""How many findings like one may be known."""


class Baseline(Struct, frozen=True):
    """What one baseline file holds."""

    file: str
    """Absolute."""
    entries: Mapping[str, tuple[Accepted, ...]]
    """By the absolute path of the file that they are about."""

    def of(self, file: str) -> tuple[Accepted, ...]:
        """What is known of a file."""
        return self.entries.get(os.path.abspath(file), ())


def read(file: str, regular: bool = False) -> Baseline:
    """The baseline in a file. Raises ConfigError, with the way out, for one that cannot be used.

    `regular`: no pipe and no device, which only a user may name.
    """
    import json

    shown = display_path(file)
    again = f"write it with `h2dlint check --write-baseline {shown}`"
    try:
        data = json.loads((read_regular if regular else read_bytes)(file, MOST_BYTES).decode("utf-8-sig"))
    except FileNotFoundError as error:
        raise ConfigError(f"{shown}: no such baseline; {again}") from error
    except OSError as error:
        raise ConfigError(f"{shown}: {error.strerror}") from error
    except TooLarge as error:
        raise ConfigError(f"{shown}: not a baseline (more than {error.most:,} bytes); {again}") from error
    except RecursionError as error:
        raise ConfigError(f"{shown}: not a baseline (nested too deeply); {again}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{shown}: not a baseline (not UTF-8); {again}") from error
    except ValueError as error:
        raise ConfigError(f"{shown}: not a baseline ({error}); {again}") from error
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise ConfigError(f"{shown}: not a baseline of this version of h2dlint; {again}")
    if not isinstance(data.get("findings"), list):
        raise ConfigError(f"{shown}: not a baseline (`findings` is no list); {again}")
    folder = os.path.dirname(os.path.abspath(file))
    entries: dict[str, list[Accepted]] = {}
    for entry in data["findings"]:
        path, accepted = _entry(entry, shown, again)
        entries.setdefault(os.path.normpath(os.path.join(folder, path)), []).append(accepted)
    return Baseline(os.path.abspath(file), {path: tuple(found) for path, found in entries.items()})


def _entry(entry: Any, shown: str, again: str) -> tuple[str, Accepted]:
    try:
        path, code, function, text = (entry[name] for name in ("path", "code", "function", "text"))
        count = entry.get("count", 1)
        texts = all(isinstance(one, str) for one in (path, code, function, text)) and path and "\0" not in path
        if texts and type(count) is int and 0 < count < MOST_FINDINGS:
            return path, Accepted(code, function, text, count)
    except (KeyError, TypeError, AttributeError):
        pass
    what = repr(entry)
    what = what if len(what) <= _LONGEST else f"{what[:_LONGEST]}..."
    raise ConfigError(f"{shown}: not a baseline's entry: {what}; {again}")


_LONGEST = 300


def write(
    file: str, findings: Sequence[Finding], sources: Mapping[str, str], seen: Collection[str], old: Baseline | None
) -> int:
    """Writes what is found now; answers how many findings the file then holds.

    `seen` are the absolute paths of the files that were looked at: what `old` says of others that still exist stays.
    Raises ConfigError where it cannot be written.
    """
    import json

    from h2dlint.apply import write_whole

    file = os.path.abspath(file)
    entries: dict[str, Iterable[Accepted]] = {}
    if old is not None:
        entries = {path: one for path, one in old.entries.items() if path not in seen and os.path.exists(path)}
    by_path: dict[str, list[Finding]] = {}
    for finding in findings:
        by_path.setdefault(finding.path, []).append(finding)
    for path, found in by_path.items():
        entries[os.path.abspath(path)] = counted(found, sources.get(path, ""))
    folder = os.path.dirname(file)
    rows = [
        {"path": os.path.relpath(path, folder).replace(os.sep, "/"), **_row(one)}
        for path, accepted in sorted(entries.items())
        for one in accepted
    ]
    body = ",\n".join(f"    {json.dumps(row)}" for row in rows)
    text = f'{{\n  "version": {VERSION},\n  "findings": [\n{body}\n  ]\n}}\n' if rows else _EMPTY
    try:
        write_whole(file, text.encode("utf-8", "surrogatepass"))
    except OSError as error:
        raise ConfigError(f"{display_path(file)}: cannot be written: {error.strerror}") from error
    return sum(one.count for accepted in entries.values() for one in accepted)


_EMPTY = f'{{\n  "version": {VERSION},\n  "findings": []\n}}\n'


def _row(accepted: Accepted) -> dict[str, Any]:
    row: dict[str, Any] = {"code": accepted.code, "function": accepted.function, "text": accepted.text}
    return row if accepted.count == 1 else {**row, "count": accepted.count}


def gone(
    baseline: Baseline, seen: Collection[str], taken: Mapping[str, Sequence[Accepted]], codes: Collection[str]
) -> int:
    """How many findings of a baseline are no more, among files that were looked at or have been removed.

    `taken` is what was found of it, by absolute path; a rule outside `codes` did not run, so nothing is said of it.
    """
    number = 0
    for path, entries in baseline.entries.items():
        if path not in seen and os.path.exists(path):
            continue
        known = sum(one.count for one in entries if one.code in codes)
        number += max(0, known - sum(one.count for one in taken.get(path, ()) if one.code in codes))
    return number
