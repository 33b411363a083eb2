"""The libcst side: parse the smallest piece of source around a copy, find the copy's node, hand both to the rules.

Facts come from `ast`; libcst costs ten times as much, so it sees only the statements that hold something to report.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from h2dlint.facts.copies import Copy, Span
from h2dlint.facts.modules import child_statements
from h2dlint.finding import Finding

if TYPE_CHECKING:
    import libcst as cst

    from h2dlint.rules import Rule

MAX_DEPTH = 200
"""Deeper expressions are not given to libcst: its native parser would crash on absurd ones instead of raising."""

_NEWLINE = re.compile(r"\r\n|\r|\n")


class Region(Struct, frozen=True):
    """A piece of source that libcst can parse by itself."""

    root: ast.stmt | ast.expr
    """The simple statement, or the expression in the header of a compound one."""
    start: int
    """The first character's offset in the file's text."""
    end: int
    """The offset behind the last character."""


class Lines(Struct, frozen=True):
    """Where the lines of a text start, to go between ast positions (lines, UTF-8 bytes) and characters."""

    text: str
    starts: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> Lines:
        """The lines of `text` as Python's own parser counts them (form feeds do not end a line)."""
        return cls(text, (0, *(match.end() for match in _NEWLINE.finditer(text))))

    def line(self, number: int) -> str:
        """The 1-based line, with its newline; empty behind the last one."""
        if not 1 <= number <= len(self.starts):
            return ""
        end = self.starts[number] if number < len(self.starts) else len(self.text)
        return self.text[self.starts[number - 1] : end]

    def offset(self, line: int, byte_column: int) -> int:
        """The character offset of an ast position."""
        text = self.line(line)
        if not text.isascii():
            byte_column = len(text.encode("utf-8", "surrogatepass")[:byte_column].decode("utf-8", "ignore"))
        return self.starts[line - 1] + byte_column

    def offsets(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        """The characters [start, end) of an ast node."""
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self.offset(node.lineno, node.col_offset), self.offset(end_line, end_column)

    def span_offsets(self, span: Span) -> tuple[int, int]:
        """The characters [start, end) of a span."""
        return self.starts[span.line - 1] + span.column - 1, self.starts[span.end_line - 1] + span.end_column - 1


def visit(source_text: str, tree: ast.Module, copies: Sequence[Copy], rules: Sequence[Rule]) -> list[Finding]:
    """Everything that `rules` have to say about `copies`, by position.

    A rule decides on the facts alone; the node serves its wording. So the facts are asked first, and only a copy that
    some rule reports costs a libcst parse. Where libcst cannot help (absurd nesting, syntax it does not know yet), the
    finding comes without its node.
    """
    findings: list[Finding] = []
    wanted: list[tuple[Copy, list[Rule]]] = []
    for copy in copies:
        speaking: list[Rule] = []
        for rule in rules:
            plain = list(rule.check(copy, None))
            if not plain:
                continue
            if rule.meta.nodes:
                speaking.append(rule)
            else:
                findings += plain
        if speaking:
            wanted.append((copy, speaking))
    if wanted:
        findings += _visit_regions(source_text, tree, wanted)
    return sorted(findings, key=lambda f: (f.span.line, f.span.column, f.code))


def region_of(tree: ast.Module, lines: Lines, span: Span) -> Region | None:
    """The simple statement around `span`, or the expression in a compound one's header; None where nothing holds it."""
    start, end = lines.span_offsets(span)
    around: ast.AST = tree
    while True:
        inner = _child_around(around, lines, start, end)
        if inner is None:
            return None
        if _stands_alone(inner):
            first, last = lines.offsets(inner)
            return Region(inner, first, last)
        around = inner


def parse_region(text: str, region: Region) -> cst.Module | None:
    """The region as a libcst module of its own; None where libcst cannot or must not parse it.

    A header expression is wrapped in parentheses, since it may hold newlines.
    """
    piece = text[region.start : region.end]
    if nesting(region.root) > MAX_DEPTH:
        return None
    import libcst

    try:
        return libcst.parse_module(f"({piece})" if isinstance(region.root, ast.expr) else piece)
    except (libcst.ParserSyntaxError, RecursionError):
        return None


def nodes_in_order(module: cst.Module, kinds: frozenset[str]) -> Iterator[cst.CSTNode]:
    """The nodes of the named types, outer before inner and left before right, in one walk."""
    import libcst

    found: list[cst.CSTNode] = []

    class Collector(libcst.CSTVisitor):
        def on_visit(self, node: cst.CSTNode) -> bool:
            if type(node).__name__ in kinds:
                found.append(node)
            return True

    module.visit(Collector())
    return iter(found)


def find_node(module: cst.Module, region: Region, lines: Lines, span: Span) -> cst.CSTNode | None:
    """The libcst node of the call or subscript at `span`; None where the two trees disagree.

    Both trees hold the same calls in the same source order, so the copy's node is the one of the same number.
    """
    return _find_nodes(module, region, lines, [span])[0]


def nesting(root: ast.AST) -> int:
    """How deep libcst's tree of `root` may be: the ast's depth, with each link of an `and` or `or` chain counted.

    The ast keeps such a chain flat, libcst nests it.
    """
    depth = 0
    level: list[ast.AST] = [root]
    while level:
        depth += max(len(node.values) if isinstance(node, ast.BoolOp) else 1 for node in level)
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


def _simple_statement(tree: ast.Module, lines: Lines, span: Span) -> Region | None:
    """The region of the statement without a block that holds `span`; None for one in a compound statement's header.

    By lines alone as long as it goes: `region_of` looks at every expression on its way down.
    """
    start, end = lines.span_offsets(span)
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        statement = waiting.pop()
        if not statement.lineno <= span.line <= (statement.end_lineno or statement.lineno):
            continue
        if _stands_alone(statement):
            first, last = lines.offsets(statement)
            if first <= start and end <= last:
                return Region(statement, first, last)
        else:
            waiting.extend(child_statements(statement))
    return None


def _child_around(node: ast.AST, lines: Lines, start: int, end: int) -> ast.stmt | ast.expr | None:
    """The statement or expression nearest below `node` that holds [start, end)."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.stmt, ast.expr)):  # arguments, handlers, with items: look through them
            inner = _child_around(child, lines, start, end)
            if inner is not None:
                return inner
            continue
        decorators = getattr(child, "decorator_list", [])
        first, last = lines.offsets(child)
        if decorators:
            first = lines.offsets(decorators[0])[0]
        if first <= start and end <= last:
            return child
    return None


def _stands_alone(node: ast.stmt | ast.expr) -> bool:
    """Whether the node's own text is a module: a statement without a block, or an expression that is not starred."""
    if isinstance(node, ast.stmt):
        return not hasattr(node, "body") and not isinstance(node, ast.Match)
    return not isinstance(node, ast.Starred)


def _visit_regions(text: str, tree: ast.Module, wanted: Iterable[tuple[Copy, list[Rule]]]) -> Iterator[Finding]:
    """The findings of copies that are worth a parse; copies in one statement share it."""
    lines = Lines.of(text)
    regions: dict[int, Region] = {}
    inside: dict[int, list[tuple[Copy, list[Rule]]]] = {}
    for copy, rules in wanted:
        region = _simple_statement(tree, lines, copy.span) or region_of(tree, lines, copy.span)
        if region is None:
            yield from _ask(copy, None, rules)
            continue
        regions[region.start] = region
        inside.setdefault(region.start, []).append((copy, rules))
    for start, region in regions.items():
        group = inside[start]
        for node, (copy, rules) in zip(
            _nodes_of(text, region, lines, [copy.span for copy, _ in group]), group, strict=True
        ):
            yield from _ask(copy, node, rules)


def _ask(copy: Copy, node: cst.CSTNode | None, rules: Iterable[Rule]) -> Iterator[Finding]:
    for rule in rules:
        yield from rule.check(copy, node if type(node).__name__ in rule.meta.nodes else None)


def _nodes_of(text: str, region: Region, lines: Lines, spans: list[Span]) -> list[cst.CSTNode | None]:
    module = parse_region(text, region)
    if module is None:
        return [None] * len(spans)
    try:
        return _find_nodes(module, region, lines, spans)
    except RecursionError:  # libcst's Python side recurses a few frames per level
        return [None] * len(spans)


def _find_nodes(module: cst.Module, region: Region, lines: Lines, spans: list[Span]) -> list[cst.CSTNode | None]:
    kinds = frozenset({"Call", "Subscript"})
    mine = sorted(
        (node for node in ast.walk(region.root) if isinstance(node, (ast.Call, ast.Subscript))),
        key=lambda node: (node.lineno, node.col_offset, -(node.end_lineno or 0), -(node.end_col_offset or 0)),
    )
    theirs = list(nodes_in_order(module, kinds))
    if [type(node).__name__ for node in mine] != [type(node).__name__ for node in theirs]:
        return [None] * len(spans)
    at = {lines.offsets(here): there for here, there in zip(mine, theirs, strict=True)}
    return [_confirmed(module, at.get(lines.span_offsets(span)), lines, span) for span in spans]


def _confirmed(module: cst.Module, node: cst.CSTNode | None, lines: Lines, span: Span) -> cst.CSTNode | None:
    """The node if it reads as the source at `span` does (positions inside f-strings are off before Python 3.12)."""
    if node is None:
        return None
    start, end = lines.span_offsets(span)
    return node if lines.text[start:end] in module.code_for_node(node) else None
