"""Bytes to text and tree, or to the reason why not."""

from __future__ import annotations

import codecs

import pytest

from h2dlint.source import load, split_lines

GOOD: dict[str, tuple[bytes, str, str]] = {
    "UTF-8 is the default": ("x = 'ü'".encode(), "x = 'ü'", "utf-8"),
    "a byte order mark is no part of the text": (codecs.BOM_UTF8 + b"x = 1", "x = 1", "utf-8-sig"),
    "a declared encoding": (b"# coding: latin-1\nx = '\xe9'", "# coding: latin-1\nx = 'é'", "iso-8859-1"),
    "declared in the second line": (
        b"#!/usr/bin/python\n# -*- coding: cp1252 -*-\nx = '\x80'",
        "#!/usr/bin/python\n# -*- coding: cp1252 -*-\nx = '€'",
        "cp1252",
    ),
    "a declaration in the third line is none": (
        "\n\n# coding: latin-1\nx = 'é'".encode(),
        "\n\n# coding: latin-1\nx = 'é'",
        "utf-8",
    ),
    "Windows newlines are kept": (b"x = 1\r\ny = 2\r\n", "x = 1\r\ny = 2\r\n", "utf-8"),
    "an empty file": (b"", "", "utf-8"),
}


@pytest.mark.parametrize(("data", "text", "encoding"), GOOD.values(), ids=GOOD.keys())
def test_a_file_that_can_be_read(data: bytes, text: str, encoding: str) -> None:
    source = load("a.py", data)
    assert (source.text, source.encoding, source.problem) == (text, encoding, None)
    assert source.tree is not None


BAD: dict[str, tuple[bytes, int, str]] = {
    "a syntax error": (b"x = 1\ndef f(:\n", 2, "syntax error: "),
    "bad indentation": (b"if x:\npass\n", 2, "syntax error: expected an indented block"),
    "a null byte": (b"x = 1\n\ny = '\0'\n", 3, "syntax error: null byte in the source"),
    "not UTF-8": (b"x = 1\ny = '\xe9'\n", 2, "not utf-8: byte 0xe9"),
    "not the declared encoding": (b"# coding: ascii\n\ny = '\xe9'\n", 3, "not ascii: byte 0xe9"),
    "an encoding that does not exist": (b"# coding: klingon\n", 1, "syntax error: unknown encoding: klingon"),
    "an encoding that is no text": (b"# coding: rot13\nx = 1\n", 1, ""),
    "a byte order mark and another encoding": (codecs.BOM_UTF8 + b"# coding: latin-1\n", 1, "syntax error: "),
    "UTF-16": ("x = 1\n".encode("utf-16"), 1, "syntax error: null byte in the source"),
    "5,000 brackets": (b"x = " + b"(" * 5000 + b")" * 5000, 1, "syntax error: too many nested parentheses"),
    "a sum of 20,000 terms": (b"x = " + b"+".join([b"1"] * 20_000), 1, "nested too deeply to be parsed"),
    "100,000 signs": (b"x = " + b"-" * 100_000 + b"1", 1, "nested too deeply to be parsed"),
    "100,000 attributes": (b"x = a" + b".a" * 100_000, 1, "nested too deeply to be parsed"),
}


@pytest.mark.parametrize(("data", "line", "message"), BAD.values(), ids=BAD.keys())
def test_a_file_that_cannot_be_read(data: bytes, line: int, message: str) -> None:
    source = load("a.py", data)
    assert source.tree is None
    assert source.problem is not None
    assert source.problem.line == line
    assert source.problem.message.startswith(message)


def test_parsing_is_silent_about_the_code_it_reads() -> None:
    assert load("a.py", b"x = '\\d'\nassert (1, 2)\nx is 1\n").problem is None


def test_only_what_ends_a_line_in_python_ends_a_line() -> None:
    assert split_lines("a\r\nb\rc\nd\x0ce\u2028f") == ["a", "b", "c", "d\x0ce\u2028f"]
