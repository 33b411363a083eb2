"""Suppressing comments that silence nothing: the findings of HTD901, each with the edit that takes it out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from h2dlint.facts.copies import Span
from h2dlint.finding import Applicability, Edit, Finding, Fix, Meta
from h2dlint.regions import Lines
from h2dlint.suppress import Sorted, Suppression

UNUSED = "HTD901"
_SPEAKS_OF_FILES = "HTD902"
"""A file that this could be reported of has no comments that could be read."""


def unused(
    meta: Meta, path: str, text: str, sorted_out: Sorted, ran: Collection[str], known: Collection[str]
) -> Iterator[Finding]:
    """A finding for each comment that names codes for nothing.

    A rule that did not run (not in `ran`) may have had something to say, so its code counts as used; a code that no
    rule has (not in `known`) never does.
    """
    if not sorted_out.suppressions:
        return
    lines = Lines.of(text)
    used = {(comment, code) for comment, code in sorted_out.used}
    for comment in sorted_out.suppressions:
        if UNUSED in comment.codes:
            continue
        if comment.own and not comment.codes:
            yield _not_understood(meta, path, comment)
            continue
        idle = [
            code
            for code in dict.fromkeys(comment.codes)
            if (comment, code) not in used and _is_ours(comment, code) and (code in ran or code not in known)
        ]
        if idle and not any(
            UNUSED in other.codes and other.first <= comment.line <= other.last for other in sorted_out.suppressions
        ):
            yield _finding(meta, path, lines, comment, idle, known)


def _is_ours(comment: Suppression, code: str) -> bool:
    return code != _SPEAKS_OF_FILES and (comment.own or code.startswith("HTD"))


def _finding(
    meta: Meta, path: str, lines: Lines, comment: Suppression, idle: Sequence[str], known: Collection[str]
) -> Finding:
    strangers = [code for code in idle if code not in known]
    unneeded = [code for code in idle if code in known]
    reasons = []
    if unneeded:
        reasons.append(f"there is no {' or '.join(unneeded)} {_where(comment)} to silence")
    if strangers:
        reasons.append(f"no rule is called {' or '.join(strangers)}")
    edit = removal(lines, comment, idle)
    whole = all(code in idle for code in comment.codes)
    title = "Remove the comment" if whole else f"Remove {', '.join(idle)} from the comment"
    fix = Fix(title, Applicability.SAFE, (edit,), _hash(lines.text))
    return _does_nothing(
        meta, path, comment, "; ".join(reasons), "remove it with --fix, so that it cannot hide the next finding", fix
    )


def _not_understood(meta: Meta, path: str, comment: Suppression) -> Finding:
    """Somebody meant to silence something: what, only they know, so there is no fix."""
    forms = "write `# h2dlint: ignore[HTD101] reason`, or `# h2dlint: file-ignore[HTD101] reason` for the whole file"
    return _does_nothing(meta, path, comment, "it names no rule in a form that h2dlint reads", forms, None)


def _does_nothing(meta: Meta, path: str, comment: Suppression, why: str, remedy: str, fix: Fix | None) -> Finding:
    column = comment.column + comment.clause[0]
    return Finding(
        code=meta.code,
        name=meta.name,
        severity=meta.severity,
        path=path,
        span=Span(comment.line, column, comment.line, column + comment.clause[1] - comment.clause[0]),
        message=f"this comment does nothing: {why}",
        help=remedy,
        verdict=None,
        fix=fix,
    )


def _where(comment: Suppression) -> str:
    if comment.first == 1 and comment.last > comment.line + 1_000_000:
        return "in this file"
    return "in this statement"


def _hash(text: str) -> str:
    from h2dlint.fixing.document import hash_of

    return hash_of(text)


def removal(lines: Lines, comment: Suppression, idle: Collection[str]) -> Edit:
    """The edit that takes the codes out of the comment, with the comment, and its line, where nothing is left."""
    line_start = lines.starts[comment.line - 1]
    start = line_start + comment.column - 1
    end = start + len(comment.comment)
    left = [code for code in comment.codes if code not in idle]
    text = comment.comment
    if left:
        first, last = comment.listed
        return Edit(start + first, start + last, ", ".join(left))
    first, last = comment.clause
    rest = f"{text[:first].rstrip()}  {text[last:].strip()}".strip()
    if rest.strip("# \t"):
        return Edit(start, end, rest if rest.startswith("#") else f"# {rest}")
    before = lines.text[line_start:start]
    if before.strip():
        return Edit(line_start + len(before.rstrip()), end, "")
    return Edit(line_start, line_start + len(lines.line(comment.line)), "")
