"""What a terminal does to text: width, encodings, and characters that would take it over."""

from __future__ import annotations

import re
import unicodedata
from typing import TextIO

WIDEST = 120
"""Lines of prose are no longer than this, on however wide a screen; also the width where there is no terminal."""
NARROWEST = 40


def width_of(stream: TextIO) -> int:
    """How many cells a line on `stream` may take."""
    if not stream.isatty():
        return WIDEST
    import shutil

    return max(NARROWEST, min(WIDEST, shutil.get_terminal_size().columns))


def emit(stream: TextIO, text: str) -> None:
    """Writes `text`; what the stream's encoding cannot say is written as an escape instead of failing."""
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    stream.write(text)


def harmless(text: str) -> str:
    """The text with every character that moves the cursor, changes colors or reorders the line made visible."""
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def harmless_line(line: str) -> str:
    """The same for a line of a patch, where tabs stay."""
    return "\t".join(map(harmless, line.split("\t")))


_COMMAND = re.compile(r"^([ \t]*)(?=::[^:]|##\[)", re.MULTILINE)


def no_commands(text: str) -> str:
    """The text without lines that a CI runner would take for a command of its own, such as `::add-mask::`."""
    return _COMMAND.sub(r"\1\\", text)


def _shown(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)  # the control pictures: one cell each
    if code == 0x7F:
        return "\u2421"
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    # Controls, bidirectional and invisible format characters, lone surrogates, line and paragraph separators.
    return "\ufffd" if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") else character
