"""What users read. The pictures are the contract: `full` for people, `concise` for pipes, `json` for programs."""

from __future__ import annotations

import io
import json
import re
from textwrap import dedent
from typing import Any

import pytest
from h2dlint.rules import all_rules
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from h2dlint.facts.copies import Cause, Copy, Direction, Place, Span, Verdict
from h2dlint.finding import Applicability, Edit, Finding, Fix, Severity
from h2dlint.output import render_rule, write_copies, write_findings
from h2dlint.output.frame import Mark, frame
from h2dlint.regions import Lines
from h2dlint.report import Report

ESCAPE = re.compile("\x1b\\[[0-9;]*m|\x1b\\]8;[^\x1b]*\x1b\\\\")

STEP = dedent(
    """\
    import torch

    class Positions:
        def __init__(self, cap):
            self.host = torch.zeros(3, cap + 1, pin_memory=True)

        def upload(self, n):
            x = self.host[:, :n]
            return x.to("cuda", non_blocking=True)
    """
)


def place(line: int, column: int, end_column: int, label: str, message: str, path: str = "step.py") -> Place:
    """A place on one line."""
    return Place(path, Span(line, column, line, end_column), label, message)


GAPPED = Finding(
    code="HTD103",
    name="gapped-source",
    severity=Severity.ERROR,
    path="step.py",
    span=Span(9, 16, 9, 47),
    message="`x` leaves gaps: the copy can stall the host",
    help="write `x.contiguous().pin_memory()`",
    verdict=Verdict.FAKE_ASYNC,
    trace=(
        place(5, 21, 61, "zeros", "`zeros` allocates it pinned"),
        place(8, 13, 29, "slice", "this view leaves gaps between its elements"),
    ),
)
UNPROVEN = replace(
    GAPPED, code="HTD190", name="unproven-copy", severity=Severity.NOTE, verdict=Verdict.UNPROVEN, trace=()
)


def report(*findings: Finding, **changes: Any) -> Report:
    """A run that found `findings`, all of them in the one source."""
    blank = Report(
        findings=findings,
        unproven=(),
        sources={"step.py": STEP},
        files_checked=2,
        files_seen=3,
        suppressed=0,
        seconds=0.5,
        strict=False,
    )
    return replace(blank, **changes)


def shown(run: Report, format: str = "full", color: bool = False, show_unproven: bool = False) -> str:
    """The whole output."""
    stream = io.StringIO()
    write_findings(run, format, stream, color, show_unproven)
    return stream.getvalue()


def picture(source: str, finding: Finding) -> str:
    """The output for one finding in `source`, without the closing line."""
    return shown(report(finding, sources={"step.py": source})).rsplit("\n\n", 1)[0] + "\n"


# full


def test_a_finding_with_its_places_in_one_frame() -> None:
    assert picture(STEP, GAPPED) == dedent(
        """\
        error[HTD103] gapped-source: `x` leaves gaps: the copy can stall the host
         --> step.py:9:16
          |
        5 |         self.host = torch.zeros(3, cap + 1, pin_memory=True)
          |                     ---------------------------------------- `zeros` allocates it pinned
        ...
        8 |         x = self.host[:, :n]
          |             ---------------- this view leaves gaps between its elements
        9 |         return x.to("cuda", non_blocking=True)
          |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ not asynchronous
          |
          = help: write `x.contiguous().pin_memory()`
          = fake-async: zeros@5 -> slice@8 -> here
        """
    )


def test_places_in_other_files_are_listed_below_the_frame() -> None:
    finding = replace(GAPPED, trace=(place(12, 5, 9, "zeros", "`zeros` allocates pageable memory", "pool.py"),))
    assert picture(STEP, finding).splitlines()[5:] == [
        "  |",
        " ::: pool.py:12: `zeros` allocates pageable memory",
        "  = help: write `x.contiguous().pin_memory()`",
        "  = fake-async: zeros@pool.py:12 -> here",
    ]


def test_a_call_over_several_lines_is_held_by_a_margin() -> None:
    source = "y = torch.cat(\n    xs,\n).to(\n    device,\n    non_blocking=True,\n)\n"
    finding = replace(GAPPED, span=Span(1, 5, 6, 2), trace=(Place("step.py", Span(1, 5, 3, 2), "cat", "fresh"),))
    assert picture(source, finding).splitlines()[2:11] == [
        "  |",
        "1 | / y = torch.cat(",
        "  | |     ---------- fresh",
        "2 | |     xs,",
        "3 | | ).to(",
        "4 | |     device,",
        "5 | |     non_blocking=True,",
        "6 | | )",
        "  | |_^ not asynchronous",
    ]


def test_a_very_long_call_shows_its_head_and_tail() -> None:
    source = "y = f(\n" + "".join(f"    a{number},\n" for number in range(30)) + ")\n"
    lines = picture(source, replace(GAPPED, span=Span(1, 5, 32, 2), trace=())).splitlines()
    assert lines[2:11] == [
        "   |",
        " 1 | / y = f(",
        " 2 | |     a0,",
        " 3 | |     a1,",
        "...  |",
        "31 | |     a29,",
        "32 | | )",
        "   | |_^ not asynchronous",
        "   |",
    ]


def test_two_marks_on_one_line_have_a_row_each() -> None:
    source = 'y = torch.zeros(4).to("cuda", non_blocking=True)\n'
    finding = replace(GAPPED, span=Span(1, 5, 1, 49), trace=(place(1, 5, 19, "zeros", "pageable"),))
    assert picture(source, finding).splitlines()[3:6] == [
        '1 | y = torch.zeros(4).to("cuda", non_blocking=True)',
        "  |     -------------- pageable",
        "  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ not asynchronous",
    ]


def test_tabs_and_wide_characters_keep_the_underline_in_place() -> None:
    source = '\ty = "日本", x.to(d)\n'
    finding = replace(GAPPED, span=Span(1, 12, 1, 19), trace=())
    assert picture(source, finding).splitlines()[3:5] == [
        '1 |     y = "日本", x.to(d)',
        "  |                 ^^^^^^^ not asynchronous",
    ]


def test_a_long_line_is_cut_around_the_copy() -> None:
    source = "y = [" + "0, " * 60 + "x.to(d)" + ", 0" * 60 + "]\n"
    start = source.index("x.to") + 1
    line, marks = picture(source, replace(GAPPED, span=Span(1, start, 1, start + 7), trace=())).splitlines()[3:5]
    assert line.startswith("1 | …")
    assert line.endswith("…")
    assert cell_len(line) <= 120
    assert line[marks.index("^") :].startswith("x.to(d)")


def test_a_label_that_does_not_fit_beside_its_underline_goes_below() -> None:
    source = "y = " + "x" * 90 + ".to(d)\n"
    finding = replace(
        GAPPED, span=Span(1, 5, 1, 101), trace=(place(1, 5, 95, "zeros", "allocated without a pin here"),)
    )
    assert picture(source, finding).splitlines()[4:6] == [
        "  |     " + "-" * 90,
        "  |     allocated without a pin here",
    ]


def test_nothing_in_names_or_source_reaches_the_terminal_as_a_command() -> None:
    evil = "\x1b[31m\x07\u202e"
    finding = replace(GAPPED, path=f"{evil}.py", message=f"`{evil}`", help=evil, span=Span(1, 1, 1, 3), trace=())
    run = report(finding, sources={finding.path: f"x{evil}\n"})
    for format in ("full", "concise"):
        text = shown(run, format)
        assert not set(evil) - set("[31m") & set(text)
    assert "␛[31m␇" in shown(run)


def test_a_file_that_was_not_analysed_needs_no_source() -> None:
    finding = Finding(
        "HTD902", "file-not-analysed", Severity.ERROR, "a.py", Span(3, 1, 3, 1), "not analysed", "mend it", None
    )
    assert picture(STEP, finding) == dedent(
        """\
        error[HTD902] file-not-analysed: not analysed
         --> a.py:3:1
          = help: mend it
        """
    )


def test_colors_change_nothing_but_colors() -> None:
    run = report(GAPPED, UNPROVEN)
    colored = shown(run, color=True)
    assert "\x1b[" in colored
    assert ESCAPE.sub("", colored) == shown(run)


def test_a_wrapped_help_keeps_its_color() -> None:
    text = shown(report(replace(GAPPED, help="word " * 60)), color=True)
    wrapped = [line for line in text.splitlines() if line.lstrip("\x1b[32m ").startswith("word")]
    assert len(wrapped) == 2
    assert all(line.startswith("\x1b[32m") for line in wrapped)


@settings(max_examples=150, deadline=None)
@given(
    source=st.text(st.sampled_from("ab \t\n\r\x0b\x0c\x1b日é\u0301\u200b\ud800\U0001f600(.)"), max_size=400),
    line=st.integers(1, 30),
    column=st.integers(1, 200),
    height=st.integers(0, 12),
    length=st.integers(0, 200),
    width=st.integers(40, 120),
    label=st.text("word ", max_size=90),
)
def test_every_frame_keeps_its_width_and_is_harmless(
    source: str, line: int, column: int, height: int, length: int, width: int, label: str
) -> None:
    span = Span(line, column, line + height, (column if height == 0 else 1) + length)
    for row in frame(Lines.of(source), [Mark(span, label, True), Mark(Span(1, 1, 1, 4), "place", False)], width):
        text = "".join(piece for piece, _ in row)
        longest_word = max(map(len, label.split(" ")))
        assert cell_len(text) <= max(width, longest_word + 20)
        assert text.isprintable()


# The closing line


@pytest.mark.parametrize(
    ("run", "line"),
    [
        pytest.param(report(), "All clear: nothing to report in 3 files (2 analysed)", id="nothing found"),
        pytest.param(report(files_seen=1), "All clear: nothing to report in 1 file (2 analysed)", id="one file"),
        pytest.param(report(GAPPED), "Found 1 error in 3 files (2 analysed)", id="one error"),
        pytest.param(
            report(GAPPED, GAPPED, UNPROVEN), "Found 2 errors, 1 note in 3 files (2 analysed)", id="errors and a note"
        ),
        pytest.param(
            report(suppressed=4), "All clear: nothing to report in 3 files (2 analysed) · 4 suppressed", id="suppressed"
        ),
        pytest.param(
            report(unproven=(UNPROVEN,) * 12, files_seen=1200),
            "All clear: nothing to report in 1,200 files (2 analysed) · "
            "12 copies stayed unproven (--show-unproven lists them)",
            id="unproven copies",
        ),
        pytest.param(
            report(replace(GAPPED, fix=Fix("pin it", Applicability.SAFE, (), ""))),
            "Found 1 error in 3 files (2 analysed) · 1 fixable with --fix",
            id="something to fix",
        ),
    ],
)
def test_the_closing_line_when(run: Report, line: str) -> None:
    assert shown(run).splitlines()[-1] == line
    assert shown(run, "concise").splitlines()[-1] == line


def test_unproven_copies_are_listed_on_request() -> None:
    run = report(GAPPED, unproven=(UNPROVEN,))
    assert "HTD190" not in shown(run)
    listed = shown(run, show_unproven=True)
    assert "note[HTD190]" in listed
    assert listed.splitlines()[-1] == "Found 1 error, 1 note in 3 files (2 analysed)"


# concise


def test_concise_is_one_line_a_finding() -> None:
    assert shown(report(GAPPED), "concise") == (
        "step.py:9:16: HTD103 error `x` leaves gaps: the copy can stall the host\n"
        "Found 1 error in 3 files (2 analysed)\n"
    )


def test_a_stream_that_cannot_say_it_gets_escapes() -> None:
    data = io.BytesIO()
    stream = io.TextIOWrapper(data, encoding="ascii")
    write_findings(report(replace(GAPPED, path="größe\udcff.py"), suppressed=1), "concise", stream, False, False)
    stream.flush()
    assert data.getvalue().startswith(b"gr\\xf6\\xdfe\\xff.py:9:16: ")


# json


def test_the_json_contract_of_check() -> None:
    fix = Fix("pin it", Applicability.UNSAFE, (Edit(3, 5, "y"),), "abc")
    assert json.loads(shown(report(replace(GAPPED, fix=fix), unproven=(UNPROVEN,)), "json")) == {
        "version": 1,
        "findings": [
            {
                "code": "HTD103",
                "name": "gapped-source",
                "severity": "error",
                "path": "step.py",
                "line": 9,
                "column": 16,
                "end_line": 9,
                "end_column": 47,
                "message": "`x` leaves gaps: the copy can stall the host",
                "help": "write `x.contiguous().pin_memory()`",
                "verdict": "fake-async",
                "trace": [
                    {"path": "step.py", "line": 5, "message": "`zeros` allocates it pinned"},
                    {"path": "step.py", "line": 8, "message": "this view leaves gaps between its elements"},
                ],
                "fix": {
                    "applicability": "unsafe",
                    "title": "pin it",
                    "edits": [{"start": 3, "end": 5, "replacement": "y"}],
                    "content_hash": "abc",
                },
                "no_fix": None,
                "function": None,
                "hot": False,
            }
        ],
        "fixed": [],
        "summary": {
            "errors": 1,
            "warnings": 0,
            "notes": 0,
            "unproven": 1,
            "suppressed": 0,
            "known": 0,
            "fixable": 1,
            "fixed": 0,
            "files_seen": 3,
            "files_checked": 2,
        },
    }


def test_json_does_not_depend_on_the_time_or_on_the_order_of_findings() -> None:
    other = replace(GAPPED, span=Span(2, 1, 2, 5))
    assert shown(report(GAPPED, other), "json") == shown(report(other, GAPPED, seconds=9.0), "json")


# copies

COPIES = [
    Copy(
        path="step.py",
        span=Span(9, 16, 9, 47),
        function="Positions.upload",
        call="to",
        asked=True,
        direction=Direction.H2D,
        verdict=Verdict.FAKE_ASYNC,
        causes=(Cause.GAPPED,),
        reveal="cpu | pinned | gapped | zeros@5 -> slice@8 -> here",
        trace=GAPPED.trace,
        source_text="x",
    ),
    Copy(
        path="sync.py",
        span=Span(120, 5, 120, 17),
        function="f",
        call="__getitem__",
        asked=False,
        direction=Direction.D2H,
        verdict=Verdict.BLOCKING,
        causes=(),
        reveal="cuda | here",
        trace=(),
    ),
]


def inventory(format: str, color: bool = False) -> str:
    """The whole output of `copies`."""
    stream = io.StringIO()
    write_copies(COPIES, {}, format, stream, color)
    return stream.getvalue()


def test_the_inventory_is_a_table_a_file() -> None:
    assert inventory("full") == dedent(
        """\
        step.py
             9  fake-async   h2d      to           cpu | pinned | gapped | zeros@5 -> slice@8 -> here

        sync.py
           120  blocking     d2h      __getitem__  cuda | here

        2 copies in 2 files · 1 fake-async · 1 blocking
        """
    )
    assert ESCAPE.sub("", inventory("full", color=True)) == inventory("full")


def test_the_inventory_is_one_line_a_copy() -> None:
    assert inventory("concise") == (
        "step.py:9:16: to h2d fake-async cpu | pinned | gapped | zeros@5 -> slice@8 -> here\n"
        "sync.py:120:5: __getitem__ d2h blocking cuda | here\n"
    )


def test_the_json_contract_of_copies() -> None:
    first, second = json.loads(inventory("json"))["copies"]
    assert first == {
        "path": "step.py",
        "line": 9,
        "column": 16,
        "end_line": 9,
        "end_column": 47,
        "call": "to",
        "direction": "h2d",
        "verdict": "fake-async",
        "causes": ["gapped"],
        "reveal": "cpu | pinned | gapped | zeros@5 -> slice@8 -> here",
        "trace": [
            {"path": "step.py", "line": 5, "message": "`zeros` allocates it pinned"},
            {"path": "step.py", "line": 8, "message": "this view leaves gaps between its elements"},
        ],
        "codes": ["HTD103"],
    }
    assert second["codes"] == []


# rule


def test_a_rule_page_is_text_or_json() -> None:
    rule = all_rules()[0]
    assert render_rule(rule, "text").startswith("# pageable-source (HTD101)\n\nerror, since 0.1\n\n")
    page = json.loads(render_rule(rule, "json"))
    assert page["code"] == "HTD101"
    assert page["url"].endswith("/HTD101")
    assert page["page"] == rule.page


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown output format 'xml': expected one of full, concise, json"):
        shown(report(), "xml")
