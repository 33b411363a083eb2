"""The formats that other programs read: held to their schemas, and proof against what a file may be called or hold."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from conftest import Cli, WriteFiles
from h2dlint.rules import all_rules
from jsonschema import Draft4Validator
from msgspec.structs import replace
from test_output import GAPPED, STEP, UNPROVEN, place, report

from h2dlint.finding import Applicability, Edit, Finding, Fix, Severity
from h2dlint.fixing.document import hash_of
from h2dlint.output import write_findings, write_statistics
from h2dlint.output.markdown import code_of, text_of
from h2dlint.report import Fixed, Report

SCHEMA = json.loads((Path(__file__).parent / "data" / "sarif-2.1.0-rtm.5.json").read_text("utf-8"))

NASTY = "a/%0A::error::b,c:d|`e`<f>&\"'\x1b[31m\n::set-output.py"
"""A file name that would like to be a command, a table cell, a tag and a colour."""
HOSTILE = replace(
    GAPPED,
    path=NASTY,
    message="`x|y` is\r\n::error::pageable <script> @team [a](b) ]]> \x00\ufffe",
    help="do `this`\n## not that",
    trace=(place(5, 21, 61, "zeros", "made\n::warning::here", NASTY),),
)


def shown(run: Report, format: str, show_unproven: bool = False) -> str:
    stream = io.StringIO()
    write_findings(run, format, stream, False, show_unproven)
    return stream.getvalue()


def sarif(run: Report, show_unproven: bool = False) -> dict[str, Any]:
    """The only run of a SARIF log that its schema has accepted."""
    log = json.loads(shown(run, "sarif", show_unproven))
    Draft4Validator(SCHEMA).validate(log)
    (one,) = log["runs"]
    return dict(one)


# --- SARIF --------------------------------------------------------------------------------------------------------


def test_an_empty_run_is_valid_sarif_with_every_rule() -> None:
    run = sarif(report())
    driver = run["tool"]["driver"]
    assert run["results"] == []
    assert [rule["id"] for rule in driver["rules"]] == [rule.meta.code for rule in all_rules()]
    assert all(rule["help"]["markdown"] and rule["helpUri"].endswith(rule["id"]) for rule in driver["rules"])


def test_a_finding_in_sarif() -> None:
    (result,) = sarif(report(replace(GAPPED, function="Positions.upload")))["results"]
    assert (result["ruleId"], result["level"]) == ("HTD103", "error")
    (location,) = result["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "step.py", "uriBaseId": "SRCROOT"},
        "region": {"startLine": 9, "startColumn": 16, "endLine": 9, "endColumn": 47},
    }
    assert location["logicalLocations"][0]["fullyQualifiedName"] == "Positions.upload"
    assert [one["physicalLocation"]["region"]["startLine"] for one in result["relatedLocations"]] == [5, 8]
    ((flow,),) = [one["threadFlows"] for one in result["codeFlows"]]
    lines = [one["location"]["physicalLocation"]["region"]["startLine"] for one in flow["locations"]]
    assert lines == [5, 8, 9], "the chain ends at the copy"


def test_a_fix_in_sarif_says_what_to_replace() -> None:
    start = STEP.index("pin_memory=True")
    edits = (Edit(start, start + len("pin_memory=True"), "pin_memory=PIN"), Edit(0, 0, "import os\n"))
    fix = Fix("Use the flag", Applicability.SAFE, edits, hash_of(STEP))
    (result,) = sarif(report(replace(GAPPED, fix=fix)))["results"]
    ((change,),) = [one["artifactChanges"] for one in result["fixes"]]
    assert [(one["deletedRegion"], one["insertedContent"]["text"]) for one in change["replacements"]] == [
        ({"startLine": 5, "startColumn": 45, "endLine": 5, "endColumn": 60}, "pin_memory=PIN"),
        ({"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 1}, "import os\n"),
    ]
    stale = replace(fix, content_hash="of another text")
    assert "fixes" not in sarif(report(replace(GAPPED, fix=stale)))["results"][0]


def test_sarif_tells_equal_findings_apart_and_knows_them_again() -> None:
    def prints(run: Report) -> list[str]:
        return [one["partialFingerprints"]["h2dlint/v1"] for one in sarif(run)["results"]]

    lower = replace(GAPPED, span=replace(GAPPED.span, line=11, end_line=11))
    twice = STEP + "\n        return x.to('cuda', non_blocking=True)\n"
    one, other = prints(report(GAPPED, lower, sources={"step.py": twice}))
    assert one != other
    moved = replace(GAPPED, span=replace(GAPPED.span, line=10, end_line=10))
    assert prints(report(moved, sources={"step.py": "\n" + STEP})) == [one]


def test_a_whole_run_is_valid_sarif(write: WriteFiles, cli: Cli) -> None:
    examples = Path(__file__).parent.parent / "examples"
    write({file.name: file.read_text("utf-8") for file in examples.glob("*.py")})
    write({"broken größe.py": "non_blocking = (\n"})
    ran = cli("check", "--output-format", "sarif", "--output-file", "out.sarif", "--show-unproven")
    assert (ran.status, ran.out) == (1, "")
    log = json.loads((write({}) / "out.sarif").read_text("utf-8"))
    Draft4Validator(SCHEMA).validate(log)
    results = log["runs"][0]["results"]
    assert len({one["partialFingerprints"]["h2dlint/v1"] for one in results}) == len(results) >= 13
    assert any("fixes" in one for one in results)
    assert str(write({})) not in json.dumps(log)


# --- what files may be called -------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["sarif", "gitlab"])
def test_json_formats_survive_anything(format: str) -> None:
    text = shown(report(HOSTILE, UNPROVEN), format)
    assert text.isascii()
    if format == "sarif":
        (result, _) = sarif(report(HOSTILE, UNPROVEN))["results"]
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert (unquote(uri), "\n" in uri) == (NASTY, False)


def test_a_github_command_stays_one_line() -> None:
    command, closing, end = shown(report(HOSTILE), "github").split("\n")
    assert (closing.split(" in ")[0], end) == ("Found 1 error", "")
    head, _, body = command.partition("::error ")[2].partition("::")
    properties = dict(one.split("=", 1) for one in head.split(","))
    assert list(properties) == ["file", "line", "endLine", "col", "endColumn", "title"]
    assert not re.search(r"[\r\n\x1b]", command)
    assert properties["title"] == "HTD103 gapped-source"
    assert body.count("%0A") == 2, "only the breaks between message, chain and help are left"


def test_a_github_command_of_each_severity() -> None:
    note, warning = replace(GAPPED, severity=Severity.NOTE), replace(GAPPED, severity=Severity.WARNING, trace=())
    text = shown(report(note, warning, GAPPED), "github")
    assert re.findall("^::(\\w+) ", text, re.MULTILINE) == ["notice", "warning", "error"]
    assert (
        "::warning file=step.py,line=9,endLine=9,col=16,endColumn=47,title=HTD103 gapped-source::"
        "`x` leaves gaps: the copy can stall the host%0Awrite `x.contiguous().pin_memory()`\n"
    ) in text


def test_gitlab_entries() -> None:
    entries = json.loads(shown(report(GAPPED, replace(GAPPED, severity=Severity.WARNING)), "gitlab"))
    assert [entry["severity"] for entry in entries] == ["major", "minor"]
    assert entries[0]["location"] == {"path": "step.py", "lines": {"begin": 9, "end": 9}}
    assert all(re.fullmatch("[0-9a-f]{64}", entry["fingerprint"]) for entry in entries)
    assert len({entry["fingerprint"] for entry in entries}) == 2
    for entry in entries:
        assert {"description", "check_name", "fingerprint", "severity", "location"} <= set(entry)


def test_junit_is_xml_whatever_it_holds() -> None:
    note = replace(GAPPED, severity=Severity.NOTE)
    root = ElementTree.fromstring(shown(report(HOSTILE, note), "junit"))
    (suite,) = root
    assert (root.tag, suite.get("tests"), suite.get("failures")) == ("testsuites", "2", "1")
    failed, passed = suite
    failure = failed.find("failure")
    assert failure is not None
    assert failure.get("type") == "error"
    assert "]]>" in (failure.text or "")
    assert passed.find("failure") is None


def test_junit_of_nothing_is_a_pass() -> None:
    (suite,) = ElementTree.fromstring(shown(report(), "junit"))
    assert (suite.get("tests"), suite.get("failures"), len(suite)) == ("1", "0", 1)


def test_markdown_obeys_nothing_that_it_holds() -> None:
    text = shown(report(HOSTILE), "markdown")
    outside = re.sub(r"(`+).*?\1", "", text)
    assert not re.search(r"(?<!\\)<(?!/?(?:details|summary)>)", outside)
    assert not re.search(r"(?<!\\)@", outside)
    assert "\n::" not in text
    assert "\n## not" not in text
    (row,) = [line for line in text.splitlines() if "::error::pageable" in line and line.startswith("|")]
    assert len(re.findall(r"(?<!\\)\|", row)) == 4, "a pipe starts no new cell"


def test_markdown_tells_what_was_changed_and_what_needs_a_person() -> None:
    fix = Fix("Copy from a pinned snapshot", Applicability.SAFE, (), "")
    other = replace(GAPPED, code="HTD101", name="pageable-source", span=replace(GAPPED.span, line=12, end_line=12))
    run = report(
        replace(GAPPED, fix=fix),
        other,
        fixed=(Fixed("a|b.py", "HTD201", "Count on the device", Applicability.SAFE, GAPPED.span, "why"),),
        refusals={("step.py", other.span, "HTD101"): "a loader's worker must not pin"},
    )
    text = shown(run, "markdown")
    assert "`h2dlint check --fix` can do it: Copy from a pinned snapshot." in text
    assert "Needs a person: a loader's worker must not pin." in text
    assert "| `a\\|b.py` | [HTD201](" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`x` is <b>", "`x` is \\<b\\>"),
        ("a ` b", "a \\` b"),
        ("*a* _b_ #c", "\\*a\\* \\_b\\_ \\#c"),
    ],
)
def test_markdown_text(text: str, expected: str) -> None:
    assert text_of(text) == expected


def test_markdown_code_may_hold_backticks() -> None:
    assert code_of("a`b") == "``a`b``"
    assert code_of("`") == "`` ` ``"


# --- counts -------------------------------------------------------------------------------------------------------


def test_statistics() -> None:
    fix = Fix("pin it", Applicability.SAFE, (), "")
    other: Finding = replace(GAPPED, code="HTD101", name="pageable-source", fix=fix, hot=True)
    run = report(GAPPED, other, other)
    stream = io.StringIO()
    write_statistics(run, "concise", stream, False)
    assert stream.getvalue() == "2  HTD101  pageable-source  (2 fixable, 2 hot)\n1  HTD103  gapped-source\n"
    stream = io.StringIO()
    write_statistics(run, "json", stream, False)
    assert [(row["code"], row["count"], row["fixable"]) for row in json.loads(stream.getvalue())] == [
        ("HTD101", 2, 2),
        ("HTD103", 1, 0),
    ]


def test_statistics_of_a_run(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": "import torch\n\nx = torch.rand(99999).to('cuda', non_blocking=True)\n"})
    ran = cli("check", "--statistics")
    assert (ran.status, ran.out) == (1, "1  HTD101  pageable-source\n")
