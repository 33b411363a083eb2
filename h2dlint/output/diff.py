"""A change as a diff: whole files as a patch, and one fix as a few lines under its finding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from h2dlint.apply import apply_edits, unified_diff
from h2dlint.finding import Fix
from h2dlint.notebooks.view import Changed
from h2dlint.output.terminal import harmless_line
from h2dlint.regions import Lines

_COLORS = {"+": "32", "-": "31", "@": "36"}
MOST_LINES = 24
"""A longer change is shown by its beginning."""


def render(changes: Mapping[str, tuple[str, str]], color: bool, shown: bool = False) -> str:
    """The old and new text of each file as a unified diff, by path.

    `shown`: for somebody to look at, so that nothing in it may take over the terminal; otherwise it can be applied.
    """
    patch = "".join(unified_diff(path, old, new) for path, (old, new) in sorted(changes.items()))
    if shown:
        patch = "\n".join(harmless_line(line.rstrip("\r")) for line in patch.split("\n"))
    if not color:
        return patch
    return "".join(f"{_colored(line)}\n" for line in patch.split("\n")[:-1])


def _colored(line: str) -> str:
    if line.startswith(("--- ", "+++ ")):
        return f"\x1b[1m{line}\x1b[0m"
    code = _COLORS.get(line[:1])
    return f"\x1b[{code}m{line}\x1b[0m" if code else line


class Row(Struct, frozen=True):
    """One line of a small diff."""

    sign: str
    """`-` goes, `+` comes; empty where lines between two changes are left out."""
    number: int
    """The line's number in the old text for `-`, in the new one for `+`."""
    text: str


def rows_of(fix: Fix, lines: Lines) -> list[Row]:
    """What a fix takes out and puts in, without the lines around it; `lines` is the text it was made for."""
    return _shortened(_rows_between(lines.text, apply_edits(lines.text, fix.edits)))


def rows_in_cells(changed: Sequence[Changed]) -> list[Row]:
    """The same for the cells of a notebook, each under its number where there are several."""
    rows: list[Row] = []
    for cell in changed:
        if len(changed) > 1:
            rows.append(Row("", 0, f"cell {cell.cell}:"))
        rows += _rows_between(cell.before, cell.after)
    return _shortened(rows)


def _rows_between(before: str, after: str) -> list[Row]:
    rows: list[Row] = []
    for group in _changed(before, after):
        if rows:
            rows.append(Row("", 0, "..."))
        rows += group
    return rows


def _shortened(rows: list[Row]) -> list[Row]:
    if len(rows) > MOST_LINES:
        return [*rows[:MOST_LINES], Row("", 0, f"... {len(rows) - MOST_LINES} lines more")]
    return rows


def _changed(before: str, after: str) -> Iterator[list[Row]]:
    from difflib import SequenceMatcher

    old, new = before.splitlines(), after.splitlines()
    head = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), None)
    if head is None:
        head = min(len(old), len(new))
    # Only what lies between the first and the last difference is compared: files are long, fixes are short.
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    matcher = SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if kind != "equal":
            gone = [Row("-", head + at + 1, old[head + at]) for at in range(old_from, old_to)]
            come = [Row("+", head + at + 1, new[head + at]) for at in range(new_from, new_to)]
            yield [*gone, *come]
