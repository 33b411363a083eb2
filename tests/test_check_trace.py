"""`h2dlint check --trace`: what ran comes first, what is refuted is said, what was not found is listed (HTD191)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli, Ran, WriteFiles

from h2dlint.facts.copies import Cause, Direction, Verdict
from h2dlint.trace.recorder import digest_of
from h2dlint.trace.trace_file import Process, Seen, Trace
from h2dlint.trace.trace_file import write as write_trace

CODE = """\
import torch


def open_to_callers(x, d):
    return x.to(d, non_blocking=True)


def fake(d):
    y = torch.rand(20000)
    return y.to(
        d, non_blocking=True)


def asynchronous():
    return torch.rand(20000, pin_memory=True).to("cuda", non_blocking=True)


def hidden(g):
    return g.cuda()[[1, 2]]


def by_keyword(x, options):
    return x.to("cuda", **options)
"""
SPANS = {
    "open_to_callers": (5, 12, 5, 38),
    "fake": (10, 12, 11, 30),
    "asynchronous": (15, 12, 15, 76),
    "hidden": (19, 12, 19, 28),
    "by_keyword": (23, 12, 23, 35),
}


def ran(function: str, verdict: Verdict, **more: Any) -> Seen:
    """That the copy in a function ran, twice."""
    line, column, end_line, end_column = SPANS[function]
    facts: dict[str, Any] = {
        "path": "a.py",
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
        "function": function,
        "call": "to",
        "direction": Direction.H2D,
        "verdict": verdict,
        "asked": True,
        "pinned": False,
        "dense": True,
        "calls": 2,
        "copies": 2,
        "pageable": 2,
        "bytes": 1 << 20,
        "largest": 1 << 19,
        "total_ms": 12.5,
        "worst_ms": 8.0,
        "causes": (Cause.PAGEABLE,) if verdict is Verdict.FAKE_ASYNC else (),
    }
    return Seen(**{**facts, **more})


class Checked:
    """Checks `a.py` against a trace of what ran."""

    def __init__(self, cli: Cli, folder: Path) -> None:
        self._cli = cli
        self._folder = folder

    def __call__(self, *seen: Seen, options: tuple[str, ...] = (), code: str = "") -> Ran:
        """`h2dlint check a.py --trace trace.json OPTIONS...`; `code`: what the file holds by then."""
        trace = Trace(1, "h2dlint trace", 1.0, (Process(1, ("a",), "3.11", "2.11"),), self._digests(), seen)
        write_trace(trace, str(self._folder / "trace.json"))
        if code:
            (self._folder / "a.py").write_text(code, "utf-8")
        return self._cli("check", "a.py", "--trace", "trace.json", *options)

    def findings(self, *seen: Seen, options: tuple[str, ...] = (), code: str = "") -> list[dict[str, Any]]:
        """The same as records."""
        out = self(*seen, options=("--output-format", "json", *options), code=code).out
        found: list[dict[str, Any]] = json.loads(out)["findings"]
        return found

    def _digests(self) -> dict[str, str]:
        return {"a.py": digest_of(str(self._folder / "a.py"))}


@pytest.fixture
def checked(cli: Cli, write: WriteFiles) -> Checked:
    return Checked(cli, write({"a.py": CODE}))


def test_a_finding_that_ran_has_calls_and_milliseconds(checked: Checked) -> None:
    (found,) = checked.findings(ran("fake", Verdict.FAKE_ASYNC))
    assert (found["code"], found["severity"]) == ("HTD101", "error")
    assert found["observed"] == {
        "verdict": "fake-async",
        "calls": 2,
        "total_ms": 12.5,
        "worst_ms": 8.0,
        "largest_bytes": 1 << 19,
        "refuted": False,
    }


def test_without_a_trace_nothing_is_said_of_one(checked: Checked, cli: Cli) -> None:
    checked()
    (found,) = json.loads(cli("check", "a.py", "--output-format", "json").out)["findings"]
    assert "observed" not in found
    assert (found,) == tuple(checked.findings())


def test_what_ran_and_was_not_found_is_htd191(checked: Checked) -> None:
    first, second = checked.findings(ran("open_to_callers", Verdict.FAKE_ASYNC))
    assert (first["code"], first["severity"], first["line"]) == ("HTD191", "error", 5)
    assert first["message"] == (
        "this copy asked to be asynchronous, and ran through pageable memory; the code alone does not show it: "
        "where `x` lies cannot be followed"
    )
    assert first["help"].startswith("pin the source")
    assert (second["code"], "observed" in second) == ("HTD101", False)


def test_a_call_that_hides_its_flag_is_found_as_well(checked: Checked) -> None:
    found = checked.findings(ran("by_keyword", Verdict.FAKE_ASYNC))
    assert [(one["code"], one["line"]) for one in found] == [("HTD191", 23), ("HTD101", 10)]


def test_small_uploads_are_notes(checked: Checked) -> None:
    small = ran("open_to_callers", Verdict.FAKE_ASYNC, largest=64, bytes=128)
    assert [one["severity"] for one in checked.findings(small) if one["code"] == "HTD191"] == ["note"]
    download = ran("open_to_callers", Verdict.FAKE_ASYNC, largest=64, direction=Direction.D2H)
    assert [one["severity"] for one in checked.findings(download) if one["code"] == "HTD191"] == ["error"]


def test_a_copy_that_is_taken_for_asynchronous_is_to_be_reported(checked: Checked) -> None:
    first, _ = checked.findings(ran("asynchronous", Verdict.FAKE_ASYNC))
    assert first["code"] == "HTD191"
    assert first["message"].endswith("the code was taken to be async: please report it")


def test_a_finding_that_ran_asynchronously_is_refuted(checked: Checked) -> None:
    run = checked(ran("fake", Verdict.ASYNC), options=("--output-format", "full"))
    assert run.status == 0
    assert "note[HTD101] pageable-source: refuted by the trace, where it was asynchronous; please report it" in run.out
    assert "= seen: ran 2 times as async: 12.5 ms in all, 8.0 ms at worst" in run.out
    assert "= fake-async: rand@9 -> here" in run.out  # the chain, to be reported
    assert "1 refuted" in run.out


def test_a_finding_that_ran_both_ways_is_not(checked: Checked) -> None:
    (found,) = checked.findings(ran("fake", Verdict.ASYNC), ran("fake", Verdict.FAKE_ASYNC))
    assert (found["severity"], found["observed"]["verdict"]) == ("error", "fake-async")


def test_a_machine_without_an_accelerator_refutes_nothing(checked: Checked) -> None:
    run = checked(ran("fake", Verdict.NO_TRANSFER, direction=Direction.H2H))
    assert "[ran 2 times, and moved nothing]" in run.out
    assert run.status == 1


def test_what_cost_most_comes_first_and_the_refuted_last(cli: Cli, write: WriteFiles) -> None:
    body = "".join(f"def f{n}(d):\n    return torch.rand(20000).to(d, non_blocking=True)\n\n\n" for n in range(4))
    checked = Checked(cli, write({"a.py": f"import torch\n\n\n{body}"}))

    def at(line: int, verdict: Verdict, total: float) -> Seen:
        return ran("fake", verdict, line=line, end_line=line, column=12, end_column=54, total_ms=total)

    found = checked.findings(
        at(5, Verdict.ASYNC, 99.0), at(13, Verdict.FAKE_ASYNC, 1.0), at(17, Verdict.FAKE_ASYNC, 70.0)
    )
    assert [one["line"] for one in found] == [17, 13, 9, 5]


def test_hidden_waits_are_marked_where_their_rules_run(checked: Checked) -> None:
    wait = ran("hidden", Verdict.BLOCKING, call="__getitem__", asked=False)
    found = checked.findings(wait, options=("--select", "HTD2"))
    assert [(one["code"], one["observed"]["verdict"]) for one in found] == [("HTD202", "blocking")]


def test_a_file_that_changed_since_is_said_and_left_out(checked: Checked) -> None:
    run = checked(ran("open_to_callers", Verdict.FAKE_ASYNC), code=f"# more\n{CODE}")
    assert "h2dlint: a.py has changed since the trace: what ran there is left out" in run.err
    assert "HTD191" not in run.out and "ran 2 times" not in run.out


def test_a_trace_of_other_files_is_said(checked: Checked, cli: Cli, write: WriteFiles) -> None:
    checked(ran("fake", Verdict.FAKE_ASYNC))
    write({"b.py": CODE})
    run = cli("check", "b.py", "--trace", "trace.json")
    assert "none of these files is in trace.json: check from the folder in which the trace was made" in run.err
    assert "none of these files" not in checked(ran("fake", Verdict.FAKE_ASYNC)).err


def test_what_is_allowed_is_not_reported(checked: Checked) -> None:
    assert "HTD191" not in checked(ran("open_to_callers", Verdict.FAKE_ASYNC, allowed=True)).out


def test_a_line_that_is_only_known_by_its_number_is_not_matched(checked: Checked) -> None:
    assert "ran 2 times" not in checked(ran("fake", Verdict.FAKE_ASYNC, exact=False)).out


def test_a_comment_silences_it_and_is_not_called_idle_without_a_trace(cli: Cli, write: WriteFiles) -> None:
    silenced = CODE.replace("x.to(d, non_blocking=True)", "x.to(d, non_blocking=True)  # h2dlint: ignore[HTD191] known")
    checked = Checked(cli, write({"a.py": silenced}))
    run = checked(ran("open_to_callers", Verdict.FAKE_ASYNC))
    assert "HTD191" not in run.out and "1 suppressed" in run.out
    assert "HTD901" not in cli("check", "a.py").out


def test_a_baseline_knows_it(checked: Checked, cli: Cli) -> None:
    checked(ran("open_to_callers", Verdict.FAKE_ASYNC))
    cli("check", "a.py", "--trace", "trace.json", "--write-baseline", "known.json")
    run = checked(ran("open_to_callers", Verdict.FAKE_ASYNC), options=("--baseline", "known.json"))
    assert (run.status, "2 known" in run.out) == (0, True)


def test_a_strict_run_tells_it_once(checked: Checked) -> None:
    found = checked.findings(ran("open_to_callers", Verdict.FAKE_ASYNC), options=("--strict",))
    assert [one["code"] for one in found if one["line"] == 5] == ["HTD191"]


FORMATS = {
    "concise": "[ran 2 times as fake-async: 12.5 ms in all, 8.0 ms at worst]",
    "full": "= seen: ran 2 times as fake-async: 12.5 ms in all, 8.0 ms at worst",
    "json": '"total_ms": 12.5',
    "sarif": '"total_ms": 12.5',
    "github": "%0Aran 2 times as fake-async",
    "gitlab": "- ran 2 times as fake-async",
    "junit": "ran 2 times as fake-async",
    "markdown": "(ran 2 times as fake-async",
}


@pytest.mark.parametrize(("format", "text"), FORMATS.items())
def test_every_format_has_what_ran_first(checked: Checked, format: str, text: str) -> None:
    out = checked(ran("open_to_callers", Verdict.FAKE_ASYNC), options=("--output-format", format)).out
    results = out[out.index('"results"') :] if format == "sarif" else out
    assert text in out
    assert results.index("HTD191") < results.index("HTD101")


WRONG = {
    "no such file": (("--trace", "no.json"), "no.json cannot be read"),
    "no trace": (("--trace", "a.py"), "a.py is not a trace"),
    "with fixes": (("--trace", "trace.json", "--fix"), "look first, and change them then"),
    "with comments": (("--trace", "trace.json", "--add-ignore"), "look first, and change them then"),
}


@pytest.mark.parametrize(("options", "message"), WRONG.values(), ids=WRONG.keys())
def test_wrong_use_is_told(checked: Checked, cli: Cli, options: tuple[str, ...], message: str) -> None:
    checked()
    run = cli("check", "a.py", *options)
    assert (run.status, message in run.err) == (2, True)
