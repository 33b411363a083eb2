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

_NOQA_MARK = re.compile(rb"noqa\s*:[^\n]*htd")
_IGNORE = re.compile(r"#\s*h2dlint:\s*(?P<scope>file-)?ignore\s*\[(?P<codes>[^\]]*)\][ \t]*(?P<reason>[^#]*)")
_ADDRESSED = re.compile(r"#\s*h2dlint:[^#]*")
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
    column: int = 1
    """Where the comment starts on its line: characters, from 1."""
    comment: str = ""
    """The whole comment, of which this may be a part."""
    clause: tuple[int, int] = (0, 0)
    """The characters of the comment that are this part, its reason included."""
    listed: tuple[int, int] = (0, 0)
    """The characters of the comment that list the codes."""

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


def may_hold_suppressions(data: bytes) -> bool:
    """Whether the bytes of a file hint at a suppressing comment."""
    data = data.lower()
    return b"h2dlint:" in data or (b"htd" in data and _NOQA_MARK.search(data) is not None)


def suppressions_in(data: bytes, text: str) -> tuple[Suppression, ...]:
    """Every suppressing comment in a file, by line. Nothing is tokenized unless the bytes hint at one."""
    if not may_hold_suppressions(data):
        return ()
    return tuple(
        found
        for logical in logical_lines(text)
        for comment in logical.comments
        for found in _read_comment(comment, logical)
    )


class Comment(Struct, frozen=True):
    """One comment as the tokenizer sees it."""

    text: str
    line: int
    column: int
    """Characters, from 1."""
    alone: bool
    """Nothing but the comment on its line, outside any statement."""


class LogicalLine(Struct, frozen=True):
    """A simple statement or the header of a compound one, with the comments in and before it."""

    first: int
    last: int
    """Its lines, both included; 0 for what follows the last statement."""
    comments: tuple[Comment, ...]


def logical_lines(text: str) -> Iterator[LogicalLine]:
    """The logical lines of `text`, in order; the comments behind the last one come by themselves."""
    import io
    import tokenize

    layout = (tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    waiting: list[Comment] = []
    first = 0  # 0 between two logical lines
    try:
        # Universal newlines, so that lines are counted as the parser counts them.
        for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
            if token.type == tokenize.COMMENT:
                waiting.append(Comment(token.string, token.start[0], token.start[1] + 1, first == 0))
            elif token.type == tokenize.NEWLINE:
                last = token.start[0]
                yield LogicalLine(first or last, last, tuple(waiting))
                waiting, first = [], 0
            elif first == 0 and token.type not in layout:
                first = token.start[0]
    except (tokenize.TokenError, SyntaxError):
        pass  # the parser has accepted the file: what is left holds no comment that could matter
    if waiting:
        yield LogicalLine(0, 0, tuple(waiting))


def _read_comment(comment: Comment, logical: LogicalLine) -> Iterator[Suppression]:
    first, last = (logical.first, logical.last) if logical.last else (comment.line, comment.line)
    addressed = _ADDRESSED.search(comment.text)
    if addressed is not None and _IGNORE.search(comment.text) is None:  # meant for h2dlint, and not understood
        line, clause = comment.line, addressed.span()
        yield Suppression(line, (), "", line, line, True, comment.column, comment.text, clause)
    for match in _IGNORE.finditer(comment.text):
        whole_file = match["scope"] is not None
        yield Suppression(
            line=comment.line,
            codes=_codes(match["codes"]),
            reason=match["reason"].strip(),
            first=1 if whole_file else first,
            last=_EVERY_LINE if whole_file else last,
            own=True,
            column=comment.column,
            comment=comment.text,
            clause=match.span(),
            listed=match.span("codes"),
        )
    if comment.alone:
        return
    for match in _NOQA.finditer(comment.text):
        codes = _codes(match["codes"])
        place = (comment.column, comment.text, match.span(), match.span("codes"))
        yield Suppression(comment.line, codes, "", first, last, False, *place)


_EVERY_LINE = 1 << 62


def _codes(text: str) -> tuple[str, ...]:
    return tuple(code.upper() for code in re.split(r"[\s,]+", text.strip()) if code)
