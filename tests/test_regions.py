"""The libcst side: whatever statement holds a copy, the rules get the copy's own node."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from h2dlint.rules import Rule

from h2dlint.facts.copies import Cause, Copy, Direction, Span, Verdict
from h2dlint.finding import Finding, Meta, Severity
from h2dlint.regions import MAX_DEPTH, Lines, find_node, nesting, parse_region, region_of, visit

COPY = "x.to(d, non_blocking=True)"

STATEMENTS = {
    "an assignment": f"y = {COPY}",
    "an augmented assignment": f"y += {COPY}",
    "an annotated assignment": f"y: list[int] = {COPY}",
    "an expression": COPY,
    "the second of two on a line": f"a(); {COPY}; b()",
    "a return": f"def f():\n    return {COPY}",
    "a yield": f"def f():\n    z = yield {COPY}",
    "an await": f"async def f():\n    await g({COPY})",
    "an assert": f"assert {COPY}, g()",
    "a raise": f"raise A({COPY}) from b",
    "a delete": f"del c[{COPY}]",
    "the test of an if": f"if {COPY}:\n    pass",
    "the test of an elif": f"if a():\n    pass\nelif {COPY}:\n    pass",
    "an else block": f"if a():\n    pass\nelse:\n    {COPY}",
    "a one-line if": f"if a(): {COPY}",
    "a while": f"while {COPY}:\n    pass",
    "a for over a bare tuple": f"for i in *a, {COPY}:\n    pass",
    "an async for": f"async def f():\n    async for i in {COPY}:\n        pass",
    "a with": f"with a() as b, {COPY} as c:\n    pass",
    "a with in parentheses": f"with (\n    a() as b,\n    {COPY} as c,\n):\n    pass",
    "an except": f"try:\n    pass\nexcept g({COPY}):\n    pass",
    "a finally": f"try:\n    pass\nfinally:\n    {COPY}",
    "the subject of a match": f"match a, {COPY}:\n    case _:\n        pass",
    "the guard of a case": f"match a:\n    case 1 if {COPY}:\n        pass",
    "the body of a case": f"match a:\n    case 1:\n        {COPY}",
    "a decorator": f"@a\n@g({COPY})\ndef f():\n    pass",
    "a class decorator": f"@g({COPY})\nclass A:\n    pass",
    "a base class": f"class A(g({COPY}), metaclass=M):\n    pass",
    "starred base classes": f"class A(*{COPY}):\n    pass",
    "a default argument": f"def f(a, b={COPY}):\n    pass",
    "a keyword-only default": f"def f(*, b={COPY}):\n    pass",
    "a default of a lambda": f"g = lambda a=({COPY}): a()",
    "the body of a lambda": f"g = lambda a: {COPY}",
    "an annotation": f"def f(a: g({COPY})) -> None:\n    pass",
    "a list comprehension": f"y = [{COPY} for x in g() if x.ok()]",
    "the condition of a comprehension": f"y = {{k(): v() for k, v in a.items() if {COPY}}}",
    "an f-string": f"y = f'{{a()}} {{{COPY}}}'",
    "a ternary, in source order": f"y = a() if {COPY} else b()",
    "keywords before starred arguments": f"g(a=b(), *{COPY}, **c())",
    "a dict, keys and values mixed": f"y = {{a(): b(), c(): {COPY}}}",
    "a walrus": f"if (y := {COPY}) is not None:\n    pass",
    "a chain of calls behind it": f"y = {COPY}.view(-1)[0].sum()",
    "arguments that are calls": f"y = a().b(c(), {COPY}, e())",
    "parentheses around it": f"y = (({COPY}))",
    "a subscript around it": f"y = a[b()][{COPY}]",
    "a line behind wide characters": f'y = "日本語", {COPY}',
    "an indent of tabs": f"def f():\n\tif a():\n\t\treturn {COPY}",
    "a backslash in front of it": f"y = a() + \\\n    {COPY}",
    "Windows line ends": f"if a():\r\n    y = (\r\n        {COPY}\r\n    )\r\n",
    "a form feed in front of it": f"\x0cy = {COPY}",
}


def span_of(text: str, piece: str) -> Span:
    """The span of the only `piece`, which has no newline, in `text`."""
    assert text.count(piece) == 1
    lines = Lines.of(text)
    start = text.index(piece)
    line = max(number for number, first in enumerate(lines.starts, 1) if first <= start)
    column = start - lines.starts[line - 1] + 1
    return Span(line, column, line, column + len(piece))


def code_at(text: str, piece: str) -> str | None:
    """What the node that is found for `piece` reads like."""
    import libcst

    tree, lines, span = ast.parse(text), Lines.of(text), span_of(text, piece)
    region = region_of(tree, lines, span)
    assert region is not None
    module = parse_region(text, region)
    assert module is not None
    node = find_node(module, region, lines, span)
    return None if node is None else libcst.Module([]).code_for_node(node)


@pytest.mark.parametrize("text", STATEMENTS.values(), ids=STATEMENTS.keys())
def test_the_node_of_a_copy_is_found_in(text: str) -> None:
    found = code_at(text, COPY)
    assert found is not None
    assert found.strip("() \r\n") == COPY.strip("()")


def test_a_copy_over_several_lines() -> None:
    text = "def f():\n    y = x.to(\n        d,\n        non_blocking=True,\n    )\n"
    lines, span = Lines.of(text), Span(2, 9, 5, 6)
    region = region_of(ast.parse(text), lines, span)
    assert region is not None
    module = parse_region(text, region)
    assert module is not None
    assert find_node(module, region, lines, span) is not None


def test_the_second_of_two_equal_copies_is_told_from_the_first() -> None:
    text = f"y = ({COPY}, a(), {COPY})"
    lines = Lines.of(text)
    spans = [Span(1, start + 1, 1, start + 1 + len(COPY)) for start in (text.index(COPY), text.rindex(COPY))]
    region = region_of(ast.parse(text), lines, spans[0])
    assert region is not None
    module = parse_region(text, region)
    assert module is not None
    first, second = (find_node(module, region, lines, span) for span in spans)
    assert first is not None
    assert second is not None
    assert first is not second


def test_a_subscript_that_copies() -> None:
    assert code_at("y = a[b()] + gpu[index][0]", "gpu[index]") == "gpu[index]"


def test_the_region_is_the_statement_alone() -> None:
    text = f"a()\nif b():\n    c()\n    y = {COPY}\nd()\n"
    region = region_of(ast.parse(text), Lines.of(text), span_of(text, COPY))
    assert region is not None
    assert text[region.start : region.end] == f"y = {COPY}"


def test_the_region_of_a_header_is_its_expression() -> None:
    text = f"while a() and {COPY}:\n    b()\n"
    region = region_of(ast.parse(text), Lines.of(text), span_of(text, COPY))
    assert region is not None
    assert text[region.start : region.end] == f"a() and {COPY}"


def note_rule(seen: list[Any]) -> Rule:
    """A rule that reports every fake copy and keeps the nodes that it gets."""
    meta = Meta("HTD000", "any-copy", Severity.NOTE, since="0")

    def check(copy: Copy, node: Any) -> Iterator[Finding]:
        seen.append(node)
        if copy.verdict is Verdict.FAKE_ASYNC:
            yield meta.finding(copy, "a copy", help="")

    return Rule(meta, "", "", "", check)


def copy_at(span: Span, verdict: Verdict = Verdict.FAKE_ASYNC) -> Copy:
    causes = (Cause.PAGEABLE,)
    return Copy("a.py", span, "<module>", "to", True, Direction.H2D, verdict, causes, "", ())


ABSURD = {
    "a sum of 800 terms": " + ".join(["a", *["b"] * 800, COPY]),
    "a chain of 20,000 ands": " and ".join(["a", *["b"] * 20_000, COPY]),
    "20,000 adjacent strings": f"f({COPY}, " + "'' " * 20_000 + ")",
    "90 nested brackets": "[" * 90 + COPY + "]" * 90,
}


@pytest.mark.parametrize("text", ABSURD.values(), ids=ABSURD.keys())
def test_a_finding_comes_out_of(text: str) -> None:
    copy = copy_at(span_of(text, COPY))
    assert [finding.span for finding in visit(text, ast.parse(text), [copy], [note_rule([])])] == [copy.span]


def test_nesting_counts_what_libcst_nests() -> None:
    flat = ast.parse(" or ".join("abcdefgh" * 30), mode="eval").body
    deep = ast.parse("+".join("abcdefgh"), mode="eval").body
    assert nesting(flat) > MAX_DEPTH
    assert 8 <= nesting(deep) <= 16


def test_copies_of_one_statement_come_out_in_order() -> None:
    text = f"y = [{COPY}, z.to(d, non_blocking=True)]"
    second = span_of(text, "z.to(d, non_blocking=True)")
    seen: list[Any] = []
    findings = visit(text, ast.parse(text), [copy_at(second), copy_at(span_of(text, COPY))], [note_rule(seen)])
    assert [finding.span.column for finding in findings] == [6, second.column]
    assert sum(node is not None for node in seen) == 2


def test_a_copy_outside_every_statement_is_still_reported() -> None:
    text = "y = 1\n\n# nothing here but a comment\n"
    copy = copy_at(Span(3, 3, 3, 10))
    assert len(visit(text, ast.parse(text), [copy], [note_rule([])])) == 1


def test_libcst_is_not_imported_where_no_rule_speaks() -> None:
    code = (
        "import ast, sys\n"
        "from h2dlint.facts.copies import Copy, Direction, Span, Verdict\n"
        "from h2dlint.regions import visit\n"
        "from h2dlint.rules import all_rules\n"
        "text = 'y = x.to(d, non_blocking=True)'\n"
        "def copy(verdict):\n"
        "    return Copy('a.py', Span(1, 5, 1, 31), '', 'to', True, Direction.H2D, verdict, (), '', ())\n"
        "quiet = [copy(Verdict.ASYNC), copy(Verdict.UNPROVEN), copy(Verdict.NO_TRANSFER)]\n"
        "findings = visit(text, ast.parse(text), quiet, all_rules())\n"
        "print([finding.code for finding in findings], 'libcst' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['HTD190'] False\n"


def test_only_the_plain_visitor_of_libcst_is_used() -> None:
    code = (
        "import sys, test_regions\n"
        "test_regions.code_at('y = x.to(d)', 'x.to(d)')\n"
        "print(sorted(m for m in ('libcst.matchers', 'libcst.codemod') if m in sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    assert done.stdout == "[]\n"
