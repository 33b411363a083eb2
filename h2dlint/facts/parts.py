"""Which part of its memory a view shows, as far as two of them can be told to overlap.

A part is a short text: empty for the whole, `:` for a beginning (`x[:n]`), `1:` for one without its first element
(`x[1 : n + 1]`, as offsets are filled), `=2` for what constants name (`x[2]`,
`x[4:8]`), `~i` for what variables name (`x[i]`, `x[a:b]`), `?` for some piece. A `!` in front says that the view hides
its memory: it was made of a pointer, and torch does not see whose (FACTS, "Pinning mistakes"). `*` says that even the
memory is one of several: of those in a dict, where a text follows that names the key, `*key`.
"""

from __future__ import annotations

import ast
import re

WHOLE = ""
BEGINNING = ":"
BUT_FIRST = "1:"
SOME = "?"
SEVERAL = "*"
HIDES = "!"

_NAME = re.compile(r"[A-Za-z_]\w*")


def is_one_of_several(part: str) -> bool:
    """Whether even the memory is one of several."""
    return part[:1] == SEVERAL


def of_key(text: str) -> str:
    """The memory that a dict holds under a key, as written."""
    return SEVERAL + text


def indexed(part: str, index: ast.expr) -> str:
    """The part that `view[index]` shows of a view of `part`."""
    if part[:1] == SEVERAL:
        return part
    hides = HIDES if part[:1] == HIDES else ""
    outer, inner = part.lstrip(HIDES), _of_index(index)
    if outer in (WHOLE, BEGINNING):
        return hides + (outer if inner == WHOLE else inner)
    return hides + (outer if inner in (WHOLE, BEGINNING) else SOME)


def piece(part: str) -> str:
    """Some piece of it, nobody knows which."""
    return part if part[:1] == SEVERAL else (HIDES if part[:1] == HIDES else "") + SOME


def hidden(part: str) -> str:
    """The part of a tensor that is made of the bare memory of a view."""
    return part if part[:1] in (SEVERAL, HIDES) or starts_further_in(part) is False else HIDES + part


def starts_further_in(part: str) -> bool | None:
    """Whether a part starts behind the first byte of its memory; None where it cannot be told."""
    text = part.lstrip(HIDES)
    if text in (WHOLE, BEGINNING, BUT_FIRST):
        return text == BUT_FIRST
    if text[:1] != "=":
        return None
    starts = [item.partition(":")[0].strip() for item in text[1:].split(",")]
    return any(start not in ("", "0", "...", "None") for start in starts)


def overlap(one: str, other: str) -> bool:
    """Whether two parts of one memory share elements: parts that variables name do if they are written alike."""
    one, other = one.lstrip(HIDES), other.lstrip(HIDES)
    if SEVERAL in (one[:1], other[:1]):
        return False
    if not one or not other:
        return True
    if {one, other} in ({BEGINNING, "=0"}, {BEGINNING, BUT_FIRST}):
        return True
    return one == other and one != SOME


def same_key(one: str, other: str) -> bool:
    """Whether both are what one dict holds under the same key."""
    return one == other != SEVERAL and one[:1] == SEVERAL


def is_varying(part: str) -> bool:
    """Whether variables name it."""
    return part.lstrip(HIDES)[:1] == "~"


def names_in(part: str) -> set[str]:
    """The names in a part's text."""
    return set(_NAME.findall(part))


def _of_index(index: ast.expr) -> str:
    items = index.elts if isinstance(index, ast.Tuple) else [index]
    kinds = {_kind(item) for item in items} - {WHOLE}
    if not kinds:
        return WHOLE
    if kinds == {BEGINNING}:
        return BEGINNING
    if len(items) == 1 and kinds == {BUT_FIRST}:
        return BUT_FIRST
    text = ",".join(ast.unparse(item) if _kind(item) != BEGINNING else ":" for item in items)
    return ("~" if kinds & {"~", BUT_FIRST} else "=") + text.removesuffix(",:")


def _kind(item: ast.expr) -> str:
    if isinstance(item, ast.Slice):
        if item.step is not None:
            return "~"
        if item.lower is None or (isinstance(item.lower, ast.Constant) and item.lower.value == 0):
            return WHOLE if item.upper is None else BEGINNING
        if isinstance(item.lower, ast.Constant) and item.lower.value == 1 and not _is_constant(item.upper):
            return BUT_FIRST
        bounds = [bound for bound in (item.lower, item.upper) if bound is not None]
        return "=" if all(_is_constant(bound) for bound in bounds) else "~"
    if isinstance(item, ast.Constant) and (item.value is None or item.value is Ellipsis):
        return WHOLE
    return "=" if _is_constant(item) else "~"


def _is_constant(node: ast.expr | None) -> bool:
    operand = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return isinstance(operand, ast.Constant) and type(operand.value) is int
