"""How the literate tests in `mdtest/` are written and read.

A heading names the case, the ``python`` block below it is the module, comments in the block claim what h2dlint says:

    # error: HTD101            an error of that code covers this line (`HTD101|HTD201`: one of them; `HTD1*`: a glob)
    # warning: HTD106          the same with severity warning; `# note: ...` with severity note
    # finding: HTD302          an error or a warning
    # maybe: HTD106            allowed here at any severity, not required
    # verdict: async           the copies on this line have this verdict (several: separated by commas)
    # revealed: cpu | pinned   a copy on this line has a reveal that contains this text, or matches this glob

Blocks of files called `opt-in-*.md` are checked with `--extend-select HTD2`, the others with the default rules.

A line without a claim says that there is no error and no warning. Claims may share a line: `# error: A  # verdict: B`.
"""

from __future__ import annotations

import io
import re
import tokenize
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

FINDING_KINDS = ("error", "warning", "note", "finding", "maybe")
VERDICTS = ("fake-async", "async", "conditional", "blocking", "no-transfer", "unproven")

_CLAIM = re.compile(r"^\s*(error|warning|note|finding|maybe|verdict|revealed):\s*(.+?)\s*$")
_CODES = re.compile(r"^HTD[0-9*?]{1,3}(\|HTD[0-9*?]{1,3})*$")
_HEADING = re.compile(r"^(#{1,4})\s+(.+?)\s*$")

# What a finding of these codes implies about the copy on its line, so that most lines need one claim only.
_IMPLIED = {
    "HTD101": "fake-async",
    "HTD102": "fake-async",
    "HTD103": "fake-async",
    "HTD104": "fake-async",
    "HTD105": "fake-async",
    "HTD106": "conditional",
    "HTD107": "fake-async",
}


class FormatError(ValueError):
    """A literate test that cannot be read: the message names the file, the line and what is wrong."""


class Claim(Struct, frozen=True):
    """One claim about one line of a block (`line` is 1-based within the block)."""

    kind: str
    line: int
    text: str

    def allows(self, code: str, severity: str) -> bool:
        """Whether a finding of this code and severity is what the claim speaks of."""
        if self.kind not in FINDING_KINDS or not any(fnmatchcase(code, glob) for glob in self.text.split("|")):
            return False
        return {"finding": severity != "note", "maybe": True}.get(self.kind, self.kind == severity)

    def verdicts(self) -> frozenset[str]:
        """The verdicts that a `verdict` claim names."""
        return frozenset(word.strip() for word in self.text.split(","))

    def implied_verdict(self) -> str | None:
        """The verdict that follows from a claimed finding, if all its codes agree on one."""
        if self.kind not in FINDING_KINDS or self.kind == "maybe":
            return None
        implied = {_IMPLIED.get(code) for code in self.text.split("|")}
        return implied.pop() if len(implied) == 1 else None

    def matches_reveal(self, reveal: str) -> bool:
        """Whether `reveal` contains the claimed text or matches it as a glob."""
        return self.text in reveal or fnmatchcase(reveal, self.text)


class Block(Struct, frozen=True):
    """One case: a small module and what is claimed about its lines."""

    name: str
    """Unique over all files: `views-and-layout/a-column-slice-has-gaps`."""
    source: str
    """The Markdown file's name and line, for messages."""
    code: str
    claims: tuple[Claim, ...]

    @property
    def module(self) -> str:
        """A file name for the block that Python can import."""
        return re.sub(r"\W", "_", self.name) + ".py"

    @property
    def opt_in(self) -> bool:
        """Whether the block is about rules that run only when they are selected."""
        return self.name.startswith("opt-in-")

    def claims_within(self, first: int, last: int) -> list[Claim]:
        """The claims on the lines from `first` to `last`, both included."""
        return [claim for claim in self.claims if first <= claim.line <= last]


def read_blocks(folder: Path) -> list[Block]:
    """All blocks of all Markdown files of a folder, in reading order. Raises FormatError."""
    blocks = [block for path in sorted(folder.glob("*.md")) for block in parse(path.read_text("utf-8"), path.stem)]
    names = [block.name for block in blocks]
    for name in names:
        if names.count(name) > 1:
            raise FormatError(f"two cases are called {name}")
    return blocks


def parse(text: str, stem: str) -> list[Block]:
    """The blocks of one Markdown file called `stem`. Raises FormatError on a malformed block or claim."""
    blocks: list[Block] = []
    heading = ""
    code: list[str] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if code is None:
            if match := _HEADING.match(line):
                heading = match[2]
            elif line.rstrip() == "```python":
                code = []
        elif line.rstrip() == "```":
            start = number - len(code)
            blocks.append(_block(stem, heading, f"{stem}.md:{start}", "\n".join(code) + "\n"))
            code = None
        else:
            code.append(line)
    if code is not None:
        raise FormatError(f"{stem}.md: the last block is not closed")
    return blocks


def _block(stem: str, heading: str, source: str, code: str) -> Block:
    if not heading:
        raise FormatError(f"{source}: a block without a heading")
    slug = re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")
    return Block(f"{stem}/{slug}", source, code, claims_in(code, source))


def claims_in(code: str, source: str) -> tuple[Claim, ...]:
    """What the comments of a module claim; `source` is its place, for messages. Raises FormatError."""
    claims: list[Claim] = []
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            for part in token.string.split("#")[1:]:
                if match := _CLAIM.match(part):
                    claims.append(_checked(Claim(match[1], token.start[0], match[2]), source))
    return tuple(claims)


def _checked(claim: Claim, source: str) -> Claim:
    if claim.kind in FINDING_KINDS and not _CODES.match(claim.text):
        raise FormatError(f"{source}: line {claim.line}: {claim.text!r} names no rule code")
    if claim.kind == "verdict" and not claim.verdicts() <= set(VERDICTS):
        raise FormatError(f"{source}: line {claim.line}: {claim.text!r} is no verdict")
    return claim
