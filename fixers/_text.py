"""Pieces of source text and edits inside a statement: receivers, arguments, wrappers."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from itertools import pairwise

from h2dlint.finding import Edit
from h2dlint.fixing import Site

_PRIMARY = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.List, ast.ListComp)


def receiver_end(site: Site, call: ast.Call) -> int:
    """Where what stands before a method's dot ends, with the parentheses around it."""
    assert isinstance(call.func, ast.Attribute)
    _, inner = site.document.lines.offsets(call.func.value)
    _, stop = site.document.lines.offsets(call.func)
    between = site.text[inner : stop - len(call.func.attr)]
    closing = re.match(r"(?:\s|#[^\n]*\n|\))*\)", between)
    return inner + (closing.end() if closing else 0)


def drop_call(site: Site, call: ast.Call, instead: str = "") -> Edit:
    """Leave only the receiver of a method call, with other calls instead if wanted: `.clone()`."""
    _, stop = site.document.lines.offsets(call)
    return Edit(receiver_end(site, call), stop, instead)


def after_receiver(site: Site, call: ast.Call, text: str) -> Edit:
    """Put more calls between a receiver and the method's dot: `.pin_memory()`."""
    stop = receiver_end(site, call)
    return Edit(stop, stop, text)


def with_keyword(site: Site, call: ast.Call, name: str, value: str) -> Edit:
    """Give a call a keyword argument, or another value for it."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return site.replace(keyword.value, value)
    return site.add_keyword(call, name, value)


def appended(site: Site, node: ast.expr, text: str) -> list[Edit]:
    """Put calls behind an expression that stands as an argument or alone."""
    start, stop = site.document.lines.offsets(node)
    if isinstance(node, _PRIMARY):
        return [Edit(stop, stop, text)]
    return [Edit(start, start, "("), Edit(stop, stop, f"){text}")]


def rewritten(site: Site, edits: Sequence[Edit]) -> Edit:
    """One edit of the copy's whole statement, laid out anew: joined where it fits on a line, wrapped where it does not.

    Its layout stays where that means something: comments, a trailing comma, strings over several lines.
    """
    whole = site.refitted(edits)
    if "\n" not in site.source(site.statement):
        return whole
    flat = joined(whole.replacement) if "\n" in whole.replacement else whole.replacement
    if flat is None or whole.start != site.document.lines.offsets(site.statement)[0]:
        return whole
    return Edit(whole.start, whole.end, site.fitted(_without_parentheses(flat)))


def _without_parentheses(line: str) -> str:
    """A statement without the parentheses that only held its value's lines together: `x = (...)`, `return (...)`."""
    match = re.fullmatch(r"((?:return|[^()=]+ =) )\((.*)\)", line)
    if match is None:
        return line
    bare = match.group(1) + match.group(2)
    try:
        same = ast.dump(ast.parse(bare)) == ast.dump(ast.parse(line))
    except SyntaxError:  # a return outside of a function parses, so only unbalanced pairs get here
        return line
    return bare if same else line


def assigned(site: Site, name: str, node: ast.expr) -> str:
    """`name = EXPRESSION` as a statement in front of the copy's, its lines relative to that one's indentation."""
    text = site.source(node)
    flat = joined(text) if "\n" in text else text
    if flat is None and not text.endswith((")", "]", "}")):
        flat = ast.unparse(node)
    return relative(site, f"{name} = {text}" if flat is None else site.fitted(f"{name} = {flat}"))


def relative(site: Site, text: str) -> str:
    """Lines of a statement that stands like the copy's, without that one's indentation."""
    return text.replace(f"\n{site.document.indent_of(site.statement)}", "\n")


def joined(text: str) -> str | None:
    """A statement on one line; None where its line breaks mean something."""
    if "\n" not in text:
        return None
    import io
    import tokenize

    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, IndentationError):
        return None
    for here, after in pairwise(tokens):
        if here.type == tokenize.COMMENT or (here.type == tokenize.STRING and "\n" in here.string):
            return None
        if here.string == "," and after.type == tokenize.NL:
            closing = next((token for token in tokens[tokens.index(after) :] if token.type != tokenize.NL), None)
            if closing is not None and closing.string in (")", "]", "}"):
                return None
    flat = re.sub(r"\s*\n\s*(?=\.[A-Za-z_])", "", text)
    flat = re.sub(r"\s*\n\s*", " ", flat)
    return re.sub(r"([(\[{]) | (?=[)\]}])", lambda found: found.group(1) or "", flat)


def one_line(site: Site, node: ast.expr) -> str:
    """The text of an expression, on one line where its own layout spans several."""
    text = site.source(node)
    return text if "\n" not in text else ast.unparse(node)


def primary(site: Site, node: ast.expr) -> str:
    """The text of an expression in a form that `.method()` can follow."""
    text = one_line(site, node)
    return text if isinstance(node, _PRIMARY) else f"({text})"
