"""Comments that silence findings."""

from __future__ import annotations

import textwrap

import pytest

from h2dlint.facts.copies import Span
from h2dlint.finding import Finding, Severity
from h2dlint.suppress import sort_out, suppressions_in


def finding(line: int, code: str = "HTD101", end_line: int | None = None) -> Finding:
    return Finding(code, "a-rule", Severity.ERROR, "a.py", Span(line, 1, end_line or line, 9), "message", "help", None)


SILENT: dict[str, tuple[str, Finding]] = {
    "at the end of the line": ("x.to(d)  # h2dlint: ignore[HTD101]", finding(1)),
    "with a reason": ("x.to(d)  # h2dlint: ignore[HTD101] runs once", finding(1)),
    "several codes": ("x.to(d)  # h2dlint: ignore[HTD201, HTD101]", finding(1)),
    "in lower case": ("x.to(d)  # h2dlint: ignore[htd101]", finding(1)),
    "behind another comment": ("x.to(d)  # type: ignore  # h2dlint: ignore[HTD101]", finding(1)),
    "on the last line of the statement": ("f(\n  x.to(d),\n  2,\n)  # h2dlint: ignore[HTD101]", finding(2)),
    "on the first line of the statement": ("f(  # h2dlint: ignore[HTD101]\n  x.to(d),\n)", finding(2)),
    "alone inside the statement": ("f(\n  # h2dlint: ignore[HTD101]\n  1,\n  x.to(d),\n)", finding(4)),
    "alone on the line before": ("# h2dlint: ignore[HTD101]\nx.to(d)", finding(2)),
    "alone before a statement of several lines": ("# h2dlint: ignore[HTD101]\nf(\n  x.to(d),\n)", finding(3)),
    "alone, and another comment between": ("# h2dlint: ignore[HTD101]\n# another\nx.to(d)", finding(3)),
    "in the header of a compound statement": ("if (\n  x.to(d)\n):  # h2dlint: ignore[HTD101]\n  pass", finding(2)),
    "alone before an elif": ("if a:\n  pass\n# h2dlint: ignore[HTD101]\nelif x.to(d):\n  pass", finding(4)),
    "in a comprehension": ("y = [\n  x.to(d)  # h2dlint: ignore[HTD101]\n  for x in xs\n]", finding(2)),
    "before a decorator's line": ("# h2dlint: ignore[HTD101]\n@f(x.to(d))\ndef g():\n  pass", finding(2)),
    "for the whole file": ("# h2dlint: file-ignore[HTD101] generated\n\n\nx.to(d)", finding(4)),
    "for the whole file, at its end": ("x.to(d)\n# h2dlint: file-ignore[HTD101]", finding(1)),
    "noqa with the code": ("x.to(d)  # noqa: HTD101", finding(1)),
    "noqa among other linters' codes": ("x.to(d)  # NOQA:E501,HTD101", finding(1)),
    "noqa with spaces for commas": ("x.to(d)  # noqa: E501 HTD101", finding(1)),
    "noqa on another line of the statement": ("f(\n  x.to(d),\n)  # noqa: HTD101", finding(2)),
    "after Windows newlines": ("y = 1\r\nx.to(d)  # h2dlint: ignore[HTD101]\r\n", finding(2)),
    "after a form feed": ("y = 1\n\x0c\nx.to(d)  # h2dlint: ignore[HTD101]\n", finding(3)),
}

LOUD: dict[str, tuple[str, Finding]] = {
    "another code": ("x.to(d)  # h2dlint: ignore[HTD102]", finding(1)),
    "no code": ("x.to(d)  # h2dlint: ignore", finding(1)),
    "empty brackets": ("x.to(d)  # h2dlint: ignore[]", finding(1)),
    "noqa without a code": ("x.to(d)  # noqa", finding(1)),
    "noqa for another linter": ("x.to(d)  # noqa: E501", finding(1)),
    "noqa alone on the line before": ("# noqa: HTD101\nx.to(d)", finding(2)),
    "on the statement before": ("y = 1  # h2dlint: ignore[HTD101]\nx.to(d)", finding(2)),
    "in the header of the block": ("if a:  # h2dlint: ignore[HTD101]\n  x.to(d)", finding(2)),
    "alone before the block": ("# h2dlint: ignore[HTD101]\nif a:\n  x.to(d)", finding(3)),
    "in a string": ("y = '# h2dlint: ignore[HTD101]'; x.to(d)", finding(1)),
}


@pytest.mark.parametrize(("code", "reported"), SILENT.values(), ids=SILENT.keys())
def test_a_comment_that_silences(code: str, reported: Finding) -> None:
    result = sort_out([reported], code.encode(), code)
    assert (result.kept, result.suppressed) == ((), (reported,))
    assert [code for _, code in result.used] == ["HTD101"]


@pytest.mark.parametrize(("code", "reported"), LOUD.values(), ids=LOUD.keys())
def test_a_comment_that_does_not(code: str, reported: Finding) -> None:
    result = sort_out([reported], code.encode(), code)
    assert (result.kept, result.suppressed, result.used) == ((reported,), (), ())


def test_which_comments_silenced_something_is_known() -> None:
    code = textwrap.dedent("""\
        x.to(d)  # h2dlint: ignore[HTD101, HTD102] once, at start
        y = 1  # h2dlint: ignore[HTD103]
    """)
    result = sort_out([finding(1)], code.encode(), code)
    assert [(comment.line, code) for comment, code in result.used] == [(1, "HTD101")]
    assert [(comment.line, comment.codes, comment.reason) for comment in result.suppressions] == [
        (1, ("HTD101", "HTD102"), "once, at start"),
        (2, ("HTD103",), ""),
    ]


def test_nothing_is_tokenized_without_a_mark_in_the_bytes() -> None:
    assert suppressions_in(b"x = 1", "x = 1  # h2dlint: ignore[HTD101]") == ()
