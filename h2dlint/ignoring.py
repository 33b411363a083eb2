"""`--add-ignore`: writes a suppressing comment for every finding of a file."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from h2dlint.apply import apply_edits
from h2dlint.finding import Edit, Finding
from h2dlint.regions import Lines
from h2dlint.source import load, parse
from h2dlint.suppress import Comment, LogicalLine, Suppression, logical_lines, suppressions_in

WIDEST = 120
"""Where a line would grow longer than this, the comment goes on a line of its own before the statement."""


def encoded_with_ignores(data: bytes, findings: Sequence[Finding], reason: str) -> bytes:
    """The bytes of a file with a comment at each statement that holds one of the findings.

    Raises ValueError, with a clause that says why, where anything but comments would change.
    """
    source = load("", data)
    if source.tree is None or source.text.encode(source.encoding, "surrogatepass") != data:
        raise ValueError("its bytes cannot be made from its text again")
    text = with_ignores(source.text, findings, reason)
    if ast.dump(parse(text)) != ast.dump(source.tree):
        raise ValueError("a comment would change what it says")
    return text.encode(source.encoding)


def with_ignores(text: str, findings: Sequence[Finding], reason: str) -> str:
    """The text with a comment at each statement that holds one of the findings."""
    logical = [line for line in logical_lines(text) if line.last]
    wanted: dict[int, dict[str, None]] = {}
    for finding in findings:
        for index, line in enumerate(logical):
            if line.first <= finding.span.line <= line.last:
                wanted.setdefault(index, {})[finding.code] = None
                break
    lines = Lines.of(text)
    known = suppressions_in(text.encode("utf-8", "surrogatepass"), text)
    edits = [_edit(lines, logical[index], tuple(codes), reason, known) for index, codes in wanted.items()]
    return apply_edits(text, edits)


def _edit(
    lines: Lines, logical: LogicalLine, codes: tuple[str, ...], reason: str, known: Sequence[Suppression]
) -> Edit:
    own = [one for one in known if one.own and (one.first, one.last) == (logical.first, logical.last)]
    if own:  # one comment for a statement is enough
        first, last = own[0].listed
        start = lines.starts[own[0].line - 1] + own[0].column - 1
        return Edit(start + first, start + last, ", ".join(dict.fromkeys((*own[0].codes, *codes))))
    # A reason is free text on one line: a `#` in it would end it.
    words = " ".join(reason.replace("#", "").split())
    comment = f"# h2dlint: ignore[{', '.join(codes)}]" + (f" {words}" if words else "")
    raw = lines.line(logical.last)
    body = raw.rstrip("\r\n")
    behind = body.rstrip()
    if len(behind) + 2 + len(comment) <= WIDEST or _ends_in(logical, logical.last):
        start = lines.starts[logical.last - 1]
        return Edit(start + len(behind), start + len(body), f"  {comment}")
    head = lines.line(logical.first)
    indent = head[: len(head) - len(head.lstrip(" \t\x0c"))]
    end = head[len(head.rstrip("\r\n")) :] or "\n"
    at = lines.starts[logical.first - 1]
    return Edit(at, at, f"{indent}{comment}{end}")


def _ends_in(logical: LogicalLine, line: int) -> Comment | None:
    return next((comment for comment in logical.comments if comment.line == line), None)
