"""Comments that silence findings, and which of them did.

`# h2dlint: ignore[HTD101] reason` counts for the statement it stands in, or, alone on its line, for the next one.
`# h2dlint: file-ignore[HTD201] reason` counts for the whole file, and `# noqa: HTD101` for the statement it stands in.
Each names its codes: there is no form that silences everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from h2dlint.finding import Finding

_MARK = re.compile(rb"h2dlint:|noqa\s*:[^\n]*HTD", re.IGNORECASE)
_IGNORE = re.compile(r"#\s*h2dlint:\s*(?P<scope>file-)?ignore\s*\[(?P<codes>[^\]]*)\][ \t]*(?P<reason>[^#]*)")
_NOQA = re.compile(r"#\s*noqa\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[\s,]+[A-Z]+[0-9]+)*)", re.IGNORECASE)


class Suppression(Struct, frozen=True):
    """One comment that silences some codes on some lines."""

    line: int
    """Where the comment stands."""
    codes: tuple[str, ...]
    reason: str
    first: int
    last: int
    """The lines that it speaks for, both included."""
    own: bool
    """Written for h2dlint alone; a noqa comment may serve other linters."""

    def covers(self, finding: Finding) -> bool:
        """Whether this comment names the finding's code and speaks for a line of it."""
        return finding.code in self.codes and self.first <= finding.span.end_line and finding.span.line <= self.last


class Sorted(Struct, frozen=True):
    """The findings of one file, told apart by its comments."""

    kept: tuple[Finding, ...]
    suppressed: tuple[Finding, ...]
    used: tuple[tuple[Suppression, str], ...]
    """Every comment that silenced something, with the code."""
    suppressions: tuple[Suppression, ...]
    """All comments of the file, used or not."""


def sort_out(findings: Iterable[Finding], data: bytes, text: str) -> Sorted:
    """Splits the findings of one file, whose bytes are `data`, into kept and suppressed ones."""
    suppressions = suppressions_in(data, text)
    kept: list[Finding] = []
    suppressed: list[Finding] = []
    used: dict[tuple[Suppression, str], None] = {}
    for finding in findings:
        silencers = [suppression for suppression in suppressions if suppression.covers(finding)]
        used.update({(suppression, finding.code): None for suppression in silencers})
        (suppressed if silencers else kept).append(finding)
    return Sorted(tuple(kept), tuple(suppressed), tuple(used), suppressions)


def suppressions_in(data: bytes, text: str) -> tuple[Suppression, ...]:
    """Every suppressing comment in a file, by line. Nothing is tokenized unless the bytes hint at one."""
    if not _MARK.search(data):
        return ()
    found: list[Suppression] = []
    for comment in _comments(text):
        found += _read_comment(comment)
    return tuple(found)


class _Comment(Struct, frozen=True):
    text: str
    line: int
    alone: bool
    """Nothing but the comment on its line, outside any statement."""
    first: int
    last: int
    """The statement it stands in, or, if alone, the next one."""


def _comments(text: str) -> Iterator[_Comment]:
    """The comments of `text`, each with its logical line: a simple statement, or the header of a compound one."""
    import io
    import tokenize

    layout = (tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    waiting: list[tuple[str, int, bool]] = []
    first = 0  # 0 between two logical lines
    try:
        # Universal newlines, so that lines are counted as the parser counts them.
        for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
            if token.type == tokenize.COMMENT:
                waiting.append((token.string, token.start[0], first == 0))
            elif token.type == tokenize.NEWLINE:
                last = token.start[0]
                yield from (_Comment(string, line, alone, first or last, last) for string, line, alone in waiting)
                waiting, first = [], 0
            elif first == 0 and token.type not in layout:
                first = token.start[0]
    except (tokenize.TokenError, SyntaxError):
        pass  # the parser has accepted the file: what is left holds no comment that could matter
    yield from (_Comment(string, line, alone, line, line) for string, line, alone in waiting)


def _read_comment(comment: _Comment) -> Iterator[Suppression]:
    for match in _IGNORE.finditer(comment.text):
        whole_file = match["scope"] is not None
        yield Suppression(
            line=comment.line,
            codes=_codes(match["codes"]),
            reason=match["reason"].strip(),
            first=1 if whole_file else comment.first,
            last=_EVERY_LINE if whole_file else comment.last,
            own=True,
        )
    if comment.alone:
        return
    for match in _NOQA.finditer(comment.text):
        yield Suppression(comment.line, _codes(match["codes"]), "", comment.first, comment.last, own=False)


_EVERY_LINE = 1 << 62


def _codes(text: str) -> tuple[str, ...]:
    return tuple(code.upper() for code in re.split(r"[\s,]+", text.strip()) if code)
