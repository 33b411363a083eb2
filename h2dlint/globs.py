"""Globs as regular expressions that take no longer for a pattern made to be slow: those of settings, of .gitignore.

A pattern is a row of tokens: text that stands for one character after the other, `STAR` for what stays in a folder,
`DEEP` for anything, `FOLDERS` for nothing or some folders. As a plain regular expression, `*a*a*a*a` tries every way to
share out a name, which for thirty stars no machine can. But a star need not be taken back once the text behind it has
been found at the first place where it stands, if another star follows: that one takes whatever the first could have.
For the same reason a `DEEP` with all behind it stays where it is if another one follows.

No record types here: a run with nothing to do reads .gitignore files too.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

STAR = "[^/]*"
DEEP = ".*"
FOLDERS = "(?:.*/)?"

_LAZY = {STAR: "[^/]*?", DEEP: ".*?", FOLDERS: "(?:.*?/)??"}
LONGEST = 4096
"""Paths of more characters cannot be opened, so a pattern of more names nothing."""


def tokens_of(pattern: str) -> list[str]:
    """A glob over a relative path: `*` and `?` stay in one folder, `**` does not."""
    tokens: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] == "/"):
            tokens, at = [*tokens, FOLDERS], at + 3
        elif pattern.startswith("**", at):
            tokens, at = [*tokens, DEEP], at + 2
        else:
            tokens.append({"*": STAR, "?": "[^/]"}.get(pattern[at], re.escape(pattern[at])))
            at += 1
    return tokens


def regex_of(tokens: Sequence[str], group: str = "g") -> str:
    """The regular expression for tokens, which takes at most the square of the length of a path.

    `group`: what the names of its groups begin with.
    """
    groups = (f"{group}{number}" for number in range(len(tokens)))

    def settled(text: str) -> str:
        """`text`, matched at the first place where it stands and never taken back."""
        name = next(groups)
        return f"(?=(?P<{name}>{text}))(?P={name})"

    parts = _split(_without_repeats(tokens), (DEEP, FOLDERS))
    out = ""
    for number, (deep, part) in enumerate(parts):
        last = number == len(parts) - 1
        stars = _split(part, (STAR,))
        text = "".join(
            star + "".join(plain) if (last and at == len(stars) - 1) or not star
            else settled(_LAZY[STAR] + "".join(plain))
            for at, (star, plain) in enumerate(stars)
        )  # fmt: skip
        out += deep + text if last or not deep else settled(_LAZY[deep] + text)
    return out


def _without_repeats(tokens: Iterable[str]) -> list[str]:
    out: list[str] = []
    for token in tokens:
        if not (out and token == out[-1] and token in _LAZY):
            out.append(token)
    return out


def _split(tokens: Iterable[str], at: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """The tokens in rows, each below the one of `at` that it follows; below nothing for what comes first."""
    rows: list[tuple[str, list[str]]] = [("", [])]
    for token in tokens:
        if token in at:
            rows.append((token, []))
        else:
            rows[-1][1].append(token)
    return rows


# --- .gitignore ---------------------------------------------------------------------------------------------------

_WILD = re.compile(r"[*?\[\\]")
_CLASSES = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f", "digit": "0-9",
    "graph": r"\x21-\x7e", "lower": "a-z", "print": r"\x20-\x7e", "punct": r"!-\/:-@\[-`{-~", "space": r" \t-\r",
    "upper": "A-Z", "xdigit": "0-9a-fA-F",
}  # fmt: skip


class IgnoreLines:
    """What the lines of a .gitignore file say, as git reads them (gitignore(5), and its wildmatch.c)."""

    def __init__(self, data: bytes) -> None:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
        self._names: dict[str, int] = {}
        """Names without a wildcard, which stand at any depth, with the last line that holds each."""
        self._takes_back: set[int] = set()
        sources: list[str] = []
        for number, line in enumerate(text.split("\n")):
            line = _without_trailing_spaces(line.removesuffix("\r"))
            if not line or line.startswith("#"):
                continue
            if line.startswith("!"):
                line = line[1:]
                self._takes_back.add(number)
            if "/" not in line and not _WILD.search(line):
                self._names[line] = number
                continue
            source = _ignore_regex(line, f"g{number}_")
            if source is not None:
                sources.append(f"(?P<n{number}>{source})")
        # One expression for all lines, the last ones first: what matches is what counts.
        self._wild = re.compile("|".join(reversed(sources)), re.DOTALL) if sources else None

    def says(self, path: str) -> bool | None:
        """Whether the last line that speaks of a path ignores it; None where none does.

        `path`: relative to the file's folder, with a slash at its end if it is a folder. Of what lies in an ignored
        folder nothing is said: it is for a walk not to enter it.
        """
        found = self._names.get(path.rstrip("/").rpartition("/")[2], -1)
        match = self._wild.fullmatch(path) if self._wild is not None else None
        if match is not None and match.lastgroup is not None:
            found = max(found, int(match.lastgroup[1:]))
        return None if found < 0 else found not in self._takes_back


def _without_trailing_spaces(line: str) -> str:
    bare = line.rstrip(" ")
    escaped = len(bare) < len(line) and (len(bare) - len(bare.rstrip("\\"))) % 2 == 1
    return bare + " " if escaped else bare


def _ignore_regex(pattern: str, group: str) -> str | None:
    """The expression of a line over paths as `IgnoreLines.says` gets them; None if it can match nothing.

    `group`: what the names of its groups begin with.
    """
    folder = pattern.endswith("/")
    pattern = pattern[:-1] if folder else pattern
    anchored = "/" in pattern
    tokens = _ignore_tokens(pattern.removeprefix("/"), anchored)
    if not tokens or len([token for token in tokens if token not in _LAZY]) > LONGEST:
        return None
    return regex_of([*(() if anchored else (FOLDERS,)), *tokens, "/" if folder else "/?"], group)


def _ignore_tokens(pattern: str, anchored: bool) -> list[str] | None:
    tokens: list[str] = []
    at = 0
    while at < len(pattern):
        sign = pattern[at]
        if sign == "*":
            end = at
            while pattern[end : end + 1] == "*":
                end += 1
            # git compares what stands before the first wildcard by itself, so that `**` opens the rest there too.
            opens = at == 0 or pattern[at - 1] == "/" or not _WILD.search(pattern, 0, at)
            whole = anchored and end - at > 1 and opens
            if whole and pattern[end : end + 1] == "/":
                tokens.append(FOLDERS)
                end += 1
            else:
                tokens.append(DEEP if whole and end == len(pattern) else STAR)
            at = end
        elif sign == "[":
            found = _ignore_class(pattern, at)
            if found is None:
                return None
            tokens.append(found[0])
            at = found[1]
        else:
            at += sign == "\\"
            if at == len(pattern):
                return None
            tokens.append("[^/]" if sign == "?" else re.escape(pattern[at]))
            at += 1
    return tokens


def _ignore_class(pattern: str, at: int) -> tuple[str, int] | None:
    """The expression for the class of characters that opens at `at`, and where it ends; None if it does not."""
    at += 1
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    out, first = "", True
    while pattern[at : at + 1] != "]" or first:
        first = False
        named = re.compile(r"\[:([^\]]*):\]").match(pattern, at)
        if named:
            if named[1] not in _CLASSES:
                return None
            out, at = out + _CLASSES[named[1]], named.end()
            continue
        low = _class_character(pattern, at)
        if low is None:
            return None
        at = low[1]
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("", "]"):
            high = _class_character(pattern, at + 1)
            if high is None:
                return None
            at = high[1]
            out += f"{_literal(low[0])}-{_literal(high[0])}" if low[0] <= high[0] else _literal(low[0])
        else:
            out += _literal(low[0])
    return (f"(?!/)[{'^' if negated else ''}{out}]" if out else "(?!)"), at + 1


def _class_character(pattern: str, at: int) -> tuple[str, int] | None:
    at += pattern[at : at + 1] == "\\"
    return (pattern[at], at + 1) if at < len(pattern) else None


def _literal(character: str) -> str:
    return re.escape(character) if character.isascii() else character
