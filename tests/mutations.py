"""Valid files, damaged at random: what an editor, a bad merge or a broken disk may leave."""

from __future__ import annotations

import codecs
import random
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

HERE = Path(__file__).parent
_TOKEN = re.compile(rb"\w+|[^\w\s]|\s+")
_PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
STRANGE = (
    b"\0", b"\xff", b"\xfe\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\f", b"\v", b"\x1c", b"\x85", b"\r",
    "\u2028".encode(), "\u202e".encode(), "ﬁ".encode(), "é".encode(), "\U0001f600".encode(), b"\x1b[31m", b"\t",
    b"\\", b"\\\n",
    b"'''", b'"""', b"(", b")", b"[" * 250, b"{", b"#", b"\\\r\n", b";", b"  ", b"\n\n", b"#\xff", b"f'{", b"~" * 2000,
    b"lambda:", b"non_blocking=True", b" if a else " * 90, b".T" * 500, b"-" * 1200, b"await ", b"async ",
    b"match x:\n",
)  # fmt: skip
COOKIES = (
    b"# coding: latin-1\n", b"# -*- coding: utf-16 -*-\n", b"# coding: klingon\n",
    b"#!/usr/bin/python\n# coding=cp1252\n",
    b"# coding: utf-7\n", b"# coding: rot13\n", b"# coding: utf-8-sig\n", b"# coding: shift_jis\n",
    b"# vim: coding: ascii\n",
    b"# coding: hex\n", b"# coding: undefined\n", b"# coding: punycode\n", b"# coding: unicode_escape\n",
    b"# coding: idna\n",
)  # fmt: skip


@lru_cache(maxsize=1)
def valid_files() -> tuple[bytes, ...]:
    """Files to start from: the examples, the cases of the tests, and tests themselves."""
    found = [path.read_bytes() for path in sorted((HERE.parent / "examples").glob("*.py"))]
    found += [path.read_bytes() for path in sorted((HERE / "fixer_cases").rglob("*.py"))]
    for page in sorted((HERE / "mdtest").glob("*.md")):
        blocks = [match.group(1).encode() for match in _PYTHON.finditer(page.read_text(encoding="utf-8"))]
        found += blocks[::4]
    return tuple(found)


def mutated(random: random.Random, data: bytes) -> bytes:
    """The bytes after one to four accidents."""
    for _ in range(random.randrange(1, 5)):
        data = ACCIDENTS[random.randrange(len(ACCIDENTS))](random, data)
    return data


def _deleted_tokens(random: random.Random, data: bytes) -> bytes:
    tokens = _TOKEN.findall(data)
    for _ in range(random.randrange(1, 6)):
        if tokens:
            at = random.randrange(len(tokens))
            del tokens[at : at + random.randrange(1, 4)]
    return b"".join(tokens)


def _swapped_tokens(random: random.Random, data: bytes) -> bytes:
    tokens = _TOKEN.findall(data)
    for _ in range(random.randrange(1, 6)):
        if tokens:
            one, other = random.randrange(len(tokens)), random.randrange(len(tokens))
            tokens[one], tokens[other] = tokens[other], tokens[one]
    return b"".join(tokens)


def _random_bytes(random: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.randrange(1, 8)):
        if changed:
            changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _strange(random: random.Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + STRANGE[random.randrange(len(STRANGE))] + data[at:]


def _truncated(random: random.Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] if random.randrange(3) else data[at:]


def _line_ends(random: random.Random, data: bytes) -> bytes:
    ends = (b"\n", b"\r\n", b"\r")
    mixed = random.randrange(2)
    end = ends[random.randrange(3)]
    lines = re.split(rb"\r\n|\r|\n", data)
    return b"".join(line + (ends[random.randrange(3)] if mixed else end) for line in lines)


def _marked(random: random.Random, data: bytes) -> bytes:
    return (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF8 * 2, codecs.BOM_UTF32_BE)[random.randrange(4)] + data


def _declared(random: random.Random, data: bytes) -> bytes:
    return COOKIES[random.randrange(len(COOKIES))] + data


def _encoded(random: random.Random, data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode(
        ("utf-16", "utf-32", "utf-7", "cp037")[random.randrange(4)], "replace"
    )


def _lines(random: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    at = random.randrange(len(lines))
    kind = random.randrange(4)
    if kind == 0:
        lines.insert(at, lines[random.randrange(len(lines))])
    elif kind == 1:
        lines[at] = b" " * random.randrange(9) + lines[at].lstrip(b" ")
    elif kind == 2:
        lines[at] = lines[at].rstrip(b"\r\n")
    else:
        lines[at] = lines[at] * random.randrange(2, 40)
    return b"".join(lines)


def _spliced(random: random.Random, data: bytes) -> bytes:
    files = valid_files()
    other = files[random.randrange(len(files))]
    start = random.randrange(len(other) + 1)
    at = random.randrange(len(data) + 1)
    return data[:at] + other[start : start + random.randrange(400)] + data[at:]


ACCIDENTS: Sequence[Callable[[random.Random, bytes], bytes]] = (
    _deleted_tokens, _deleted_tokens, _swapped_tokens, _random_bytes, _strange, _strange, _truncated, _line_ends,
    _marked,
    _declared, _encoded, _lines, _lines, _spliced,
)  # fmt: skip
