"""Notebooks: what is found in which cell, what a fix changes, and that it changes nothing else."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import Cli
from notebook_cases_format import Case, read_cases

from h2dlint.checking import Fixes, Options, check_paths
from h2dlint.config import Configs
from h2dlint.discovery import NEEDLES, has_needle
from h2dlint.notebooks.document import NotANotebookError, Notebook
from h2dlint.notebooks.module import CellModule, opened
from h2dlint.output import json as json_output

CASES = read_cases(Path(__file__).parent / "notebook_cases")
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)

MAKES = "import torch\nhost = torch.rand(100_000)"
COPIES = 'host.to("cuda", non_blocking=True)'
FIXED = 'host.pin_memory().to("cuda", non_blocking=True)'


def findings(ran: str) -> list[dict[str, Any]]:
    """The findings of a JSON report."""
    found: list[dict[str, Any]] = json.loads(ran)["findings"]
    return found


def check(path: Path, fix: bool = False) -> list[dict[str, Any]]:
    """What `h2dlint check PATH` finds, or leaves with `--fix`."""
    fixes = Fixes(make=True, write=True) if fix else None
    report = check_paths([str(path)], Configs(isolated=True), Options(fixes=fixes), lambda done, total: None)
    return findings(json_output.render(report, show_unproven=False))


def sources(path: Path) -> list[str]:
    """The sources of a notebook's cells, in order."""
    return [cell.source for cell in Notebook.read(path.read_text("utf-8")).cells]


# --- what is found, and where -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All cases as notebooks."""
    folder = tmp_path_factory.mktemp("notebooks")
    for number, case in enumerate(CASES):
        nbformat.write(case.notebook(), folder / f"n{number}.ipynb")
    return folder


@pytest.fixture(scope="module")
def reported(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What `check` finds in each notebook."""
    found: dict[str, list[dict[str, Any]]] = {}
    for finding in check(folder):
        found.setdefault(Path(finding["path"]).name, []).append(finding)
    return found


@pytest.fixture(scope="module")
def fixed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same folder after `--fix`."""
    fixed = tmp_path_factory.mktemp("fixed")
    for path in folder.iterdir():
        (fixed / path.name).write_bytes(path.read_bytes())
    check(fixed, fix=True)
    return fixed


@each_case
def test_findings_say_cell_and_line(case: Case, reported: dict[str, list[dict[str, Any]]], folder: Path) -> None:
    name = f"n{CASES.index(case)}.ipynb"
    got = [(one["cell"]["number"], one["cell"]["line"], one["severity"], one["code"]) for one in reported.get(name, [])]
    assert got == case.claims()


@each_case
def test_lines_and_columns_are_those_of_the_file(
    case: Case, reported: dict[str, list[dict[str, Any]]], folder: Path
) -> None:
    name = f"n{CASES.index(case)}.ipynb"
    lines = (folder / name).read_text("utf-8").split("\n")
    for one in reported.get(name, []):
        cell = one["cell"]
        source = case.cells[cell["number"] - 1][1].split("\n")[cell["line"] - 1]
        if one["code"] == "HTD902" or cell["line"] != cell["end_line"]:
            continue
        shown = source[cell["column"] - 1 : cell["end_column"] - 1]
        raw = lines[one["line"] - 1][one["column"] - 1 : one["end_column"] - 1]
        assert json.loads(f'"{raw}"') == shown
        assert "non_blocking" in shown


@each_case
def test_fixes_change_the_sources_of_their_cells_and_no_other_byte(case: Case, folder: Path, fixed: Path) -> None:
    name = f"n{CASES.index(case)}.ipynb"
    before, after = (folder / name).read_bytes(), (fixed / name).read_bytes()
    notebook = nbformat.read(fixed / name, 4)
    nbformat.validate(notebook)
    if case.fixed:
        assert tuple(cell.source for cell in notebook.cells if cell.cell_type == "code") == case.fixed
    for old, new in zip(json.loads(before)["cells"], json.loads(after)["cells"], strict=True):
        assert {**old, "source": None} == {**new, "source": None}
    assert other_lines(before) == other_lines(after)


def test_a_second_run_changes_nothing(fixed: Path) -> None:
    before = {path: path.read_bytes() for path in fixed.iterdir()}
    check(fixed, fix=True)
    assert {path: path.read_bytes() for path in fixed.iterdir()} == before


def other_lines(data: bytes) -> list[bytes]:
    """The lines of a notebook's file that are no lines of a source."""
    return [line for line in data.split(b"\n") if not line.startswith(b'    "')]


def test_there_are_cases() -> None:
    assert len(CASES) >= 20
    assert all(case.claims() for case in CASES if case.fixed)


# --- every shape that a notebook comes in -------------------------------------------------------------------------


def version_4(*cells: Any, **metadata: Any) -> dict[str, Any]:
    """A notebook of code cells with these sources."""
    code: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    return {
        "cells": [{**code, "source": cell} for cell in cells],
        "metadata": metadata,
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def version_3(*cells: Any, language: str = "python") -> dict[str, Any]:
    """The same in the format before."""
    code = {"cell_type": "code", "collapsed": False, "language": language, "metadata": {}, "outputs": []}
    return {
        "metadata": {"name": ""},
        "nbformat": 3,
        "nbformat_minor": 0,
        "worksheets": [{"cells": [{**code, "input": cell} for cell in cells], "metadata": {}}],
    }


def dumped(notebook: dict[str, Any], **style: Any) -> str:
    return json.dumps(notebook, **{"indent": 1, "ensure_ascii": False, **style})


SHAPES: dict[str, str] = {
    "a string a line": dumped(version_4(["import torch\n", "host = torch.rand(100_000)"], [COPIES])),
    "one string": dumped(version_4(MAKES, COPIES)),
    "strings that are no lines": dumped(version_4([MAKES[:9], MAKES[9:]], [COPIES[:9], COPIES[9:]])),
    "a newline at the end of each cell": dumped(version_4([*MAKES.splitlines(True), "\n"], [COPIES + "\n"])),
    "empty cells between": dumped(version_4("", MAKES, [], [""], COPIES, "")),
    "nbformat 3": dumped(version_3(MAKES.splitlines(True), [COPIES])),
    "four spaces": dumped(version_4(MAKES.splitlines(True), [COPIES]), indent=4),
    "tabs": dumped(version_4(MAKES.splitlines(True), [COPIES]), indent="\t"),
    "one line": dumped(version_4(MAKES.splitlines(True), [COPIES]), indent=None),
    "one line without spaces": dumped(version_4(MAKES.splitlines(True), [COPIES]), indent=None, separators=(",", ":")),
    "carriage returns in the file": dumped(version_4(MAKES.splitlines(True), [COPIES])).replace("\n", "\r\n"),
    "carriage returns in the cells": dumped(version_4(MAKES.replace("\n", "\r\n"), f"a = 1\r\n{COPIES}\r\n")),
    "a newline at the end of the file": dumped(version_4(MAKES, COPIES)) + "\n",
    "letters as they are": dumped(version_4(f"# Grüße, 世界, 😀\n{MAKES}", f"s = '😀'; {COPIES}")),
    "letters escaped": dumped(version_4(f"# Grüße, 世界, 😀\n{MAKES}", f"s = '😀'; {COPIES}"), ensure_ascii=True),
    "quotes, tabs and backslashes": dumped(version_4(f'x = "\\t\\"{{}}"\n{MAKES}', f"if 1:\n\ts = '\\\\'; {COPIES}")),
    "keys in another order": dumped(version_4(MAKES, COPIES), sort_keys=True),
    "no metadata at all": dumped({"cells": version_4(MAKES, COPIES)["cells"], "nbformat": 4, "nbformat_minor": 2}),
    "a kernel that says python": dumped(version_4(MAKES, COPIES, language_info={"name": "python", "version": "3.12"})),
    "the mark of h2dlint in a cell": dumped(version_4(f"#%h2dlint cell 2\n{MAKES}", f"#%h2dlint line 0\n{COPIES}")),
}


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES.keys())
def test_a_notebook_of_any_shape_is_read_and_fixed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "n.ipynb"
    path.write_bytes(text.encode())
    (found,) = check(path)
    cell = Notebook.read(text).cell(found["cell"]["number"])
    assert (found["code"], COPIES in cell.source) == ("HTD101", True)
    assert check(path, fix=True) == []
    after = path.read_bytes().decode()
    changed = {cell.number: cell.source.replace(COPIES, FIXED)}
    assert [one.source for one in Notebook.read(after).cells] == [
        changed.get(one.number, one.source) for one in Notebook.read(text).cells
    ]
    assert cell.value[0] <= same_start(text, after)
    assert len(text) - same_start(text[::-1], after[::-1]) <= cell.value[1], "only the source of that cell changed"


def same_start(one: str, other: str) -> int:
    """How much of both texts is the same from their start on."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def test_a_byte_order_mark_stays(tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    path.write_bytes(b"\xef\xbb\xbf" + dumped(version_4(MAKES, COPIES)).encode())
    assert check(path, fix=True) == []
    assert path.read_bytes() == b"\xef\xbb\xbf" + dumped(version_4(MAKES, FIXED)).encode()


def test_huge_outputs_stay_as_they_are(tmp_path: Path) -> None:
    notebook = version_4(MAKES, COPIES)
    picture = "iVBORw0KGgo" + "A/+b" * 2_000_000
    notebook["cells"][0]["outputs"] = [{"output_type": "display_data", "metadata": {}, "data": {"image/png": picture}}]
    text = dumped(notebook).replace('"outputs": []', '"outputs":   [ ]')
    (tmp_path / "n.ipynb").write_text(text, "utf-8")
    assert check(tmp_path, fix=True) == []
    assert (tmp_path / "n.ipynb").read_text("utf-8") == text.replace(json.dumps(COPIES), json.dumps(FIXED))


QUIET: dict[str, dict[str, Any]] = {
    "a Julia kernel": version_4(MAKES, COPIES, kernelspec={"name": "julia-1.9", "language": "julia"}),
    "an R kernel": version_4(MAKES, COPIES, language_info={"name": "R"}),
    "a cell of nbformat 3 in another language": version_3(MAKES, COPIES, language="ruby"),
    "no code cells": {"cells": [{"cell_type": "markdown", "metadata": {}, "source": [MAKES, COPIES]}]},
    "a source of the wrong kind": {"cells": [{"cell_type": "code", "source": 7, "note": COPIES}, {"source": None}, 8]},
    "no cells in the list": {"cells": [], "metadata": {"note": "non_blocking"}},
}


@pytest.mark.parametrize("notebook", QUIET.values(), ids=QUIET.keys())
def test_what_is_no_python_is_passed_over(tmp_path: Path, notebook: dict[str, Any]) -> None:
    (tmp_path / "n.ipynb").write_text(json.dumps(notebook), "utf-8")
    assert check(tmp_path) == []


def test_a_cell_that_vs_code_runs_in_another_language_is_passed_over(tmp_path: Path) -> None:
    notebook = version_4(MAKES, COPIES)
    notebook["cells"][1]["metadata"] = {"vscode": {"languageId": "javascript"}}
    (tmp_path / "n.ipynb").write_text(json.dumps(notebook), "utf-8")
    assert check(tmp_path) == []


BAD: dict[str, tuple[bytes, int, str]] = {
    "no JSON": (b'{\n "cells": [\n  non_blocking\n', 3, "not a notebook: no JSON (Expecting value)"),
    "cut off": (dumped(version_4(MAKES, COPIES)).encode()[:-9], 0, "not a notebook: no JSON ("),
    "two documents": (b'{"cells": []}\n{"non_blocking": 1}', 2, "not a notebook: no JSON (Extra data)"),
    "a list": (b'["non_blocking"]', 1, "not a notebook: its JSON is no object"),
    "no cells": (b'{"metadata": {"a": "non_blocking"}}', 1, "not a notebook: it has no cells"),
    "cells that are no list": (b'{"cells": {"a": "non_blocking"}}', 1, "not a notebook: it has no cells"),
    "a Python file": (b"import torch\nx.to('cuda', non_blocking=True)\n", 1, "not a notebook: no JSON ("),
    "not UTF-8": (b'{"cells":\n ["non_blocking \xff"]}', 2, "not a notebook: not UTF-8 (byte 0xff)"),
    "100,000 brackets": (b'{"cells": ' + b"[" * 100_000 + b'"non_blocking', 1, "not a notebook: "),
}


@pytest.mark.parametrize(("data", "line", "message"), BAD.values(), ids=BAD.keys())
def test_what_is_no_notebook_is_reported_and_the_others_are_checked(
    tmp_path: Path, data: bytes, line: int, message: str
) -> None:
    (tmp_path / "a.ipynb").write_bytes(data)
    (tmp_path / "b.ipynb").write_text(dumped(version_4(MAKES, COPIES)), "utf-8")
    bad, good = check(tmp_path)
    assert (Path(bad["path"]).name, bad["code"], good["code"]) == ("a.ipynb", "HTD902", "HTD101")
    assert bad["message"].startswith(f"this file was not analysed: {message}")
    assert bad["line"] == line or not line


@pytest.mark.parametrize("format", ["concise", "full"])
def test_what_is_no_notebook_is_shown_without_a_cell(tmp_path: Path, cli: Cli, format: str) -> None:
    (tmp_path / "a.ipynb").write_bytes(BAD["no cells"][0])
    ran = cli("check", "--output-format", format)
    assert (ran.status, ran.err) == (1, "")
    assert "a.ipynb:1:1" in ran.out
    assert "this file was not analysed: not a notebook: it has no cells" in " ".join(ran.out.split())


def test_a_cell_with_null_bytes_or_half_a_letter_costs_that_cell_only(tmp_path: Path) -> None:
    cells = (MAKES, f"'\0'; {COPIES}", f"'\ud800'; {COPIES}", COPIES)
    (tmp_path / "n.ipynb").write_text(dumped(version_4(*cells), ensure_ascii=True), "utf-8")
    # Both mention `host`, so what it is afterwards is unknown.
    assert [(one["code"], one["cell"]["number"]) for one in check(tmp_path, fix=True)] == [("HTD902", 2), ("HTD902", 3)]


def test_a_number_that_python_refuses_costs_nothing(tmp_path: Path) -> None:
    text = dumped(version_4(MAKES, COPIES))
    (tmp_path / "n.ipynb").write_text(f'{{"x": {"9" * 5000},{text.strip()[1:]}', "utf-8")
    assert [one["code"] for one in check(tmp_path, fix=True)] == []
    assert json.loads((tmp_path / "n.ipynb").read_text("utf-8"), parse_int=float)["x"] == float("inf")


def test_a_folder_of_checkpoints_is_left_out(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / ".ipynb_checkpoints").mkdir()
    (tmp_path / ".ipynb_checkpoints" / "n-checkpoint.ipynb").write_text(dumped(version_4(MAKES, COPIES)), "utf-8")
    assert cli("check").out.startswith("All clear: nothing to report in 0 files")


POSITIONAL: dict[str, Callable[..., str]] = {
    "a list": lambda *lines: json.dumps(lines),
    "a string": lambda *lines: json.dumps("".join(lines)),
}


@pytest.mark.parametrize("source", POSITIONAL.values(), ids=POSITIONAL.keys())
def test_a_flag_without_its_name_is_seen_in_escaped_code(source: Callable[..., str]) -> None:
    def needs_a_look(*lines: str) -> bool:
        return has_needle(f'{{"cells": [{{"source": {source(*lines)}}}]}}'.encode(), NEEDLES, "n.ipynb")

    assert needs_a_look('x.to("cuda", None, True)\n', "y")
    assert needs_a_look("x.to(\n", '    "cuda",\n', "    None,\n", "    True,\n", ")")
    assert needs_a_look("x.copy_(y, True)")
    assert not needs_a_look('x.to("cuda")\n', "x.copy_(y)")


# --- how it is shown ----------------------------------------------------------------------------------------------


@pytest.fixture
def shown(tmp_path: Path) -> Path:
    """A notebook whose copy lies in another cell than its allocation."""
    path = tmp_path / "n.ipynb"
    path.write_text(dumped(version_4(MAKES, f"%time\n{COPIES}\n")), "utf-8")
    return path


def test_one_line_a_finding(shown: Path, cli: Cli) -> None:
    assert cli("check").out.splitlines()[0] == (
        "n.ipynb:cell 2:2:1: HTD101 error `host` is pageable, so this copy can stall the host "
        "(cell 1, line 2: `rand` allocates pageable memory)"
    )


def test_the_frame_is_that_of_the_cell(shown: Path, cli: Cli) -> None:
    out = cli("check", "--output-format", "full", env={"COLUMNS": "120"}).out
    for line in (
        " --> n.ipynb:cell 2:2:1",
        '2 | host.to("cuda", non_blocking=True)',
        " ::: n.ipynb:cell 1:2: `rand` allocates pageable memory",
        '2 - host.to("cuda", non_blocking=True)',
        '2 + host.pin_memory().to("cuda", non_blocking=True)',
        "  = fake-async: rand@cell 1:2 -> here",
    ):
        assert line in out.splitlines()


def test_the_diff_is_one_of_the_file(shown: Path, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "fix.patch").write_text(cli("check", "--diff").out, "utf-8")
    subprocess.run(["git", "apply", "fix.patch"], cwd=tmp_path, check=True)
    assert sources(shown) == [MAKES, f"%time\n{FIXED}\n"]


def test_the_edits_of_the_json_report_are_edits_of_the_file(shown: Path, cli: Cli) -> None:
    (found,) = findings(cli("check", "--output-format", "json").out)
    text = shown.read_text("utf-8")
    for edit in reversed(found["fix"]["edits"]):
        text = text[: edit["start"]] + edit["replacement"] + text[edit["end"] :]
    assert [cell.source for cell in Notebook.read(text).cells] == [MAKES, f"%time\n{FIXED}\n"]


def test_the_inventory_says_cell_and_line(shown: Path, cli: Cli) -> None:
    assert cli("copies").out == "n.ipynb:cell 2:2:1: to h2d fake-async cpu | pageable | dense | rand@cell 1:2 -> here\n"
    assert "n.ipynb:cell 2\n" in cli("copies", "--output-format", "full").out
    (copy,) = json.loads(cli("copies", "--output-format", "json").out)["copies"]
    assert (copy["path"], copy["cell"]["number"], copy["cell"]["line"]) == ("n.ipynb", 2, 2)


# --- the way to a module and back ---------------------------------------------------------------------------------


@each_case
def test_an_unchanged_module_gives_the_same_cells(case: Case) -> None:
    module = opened(nbformat.writes(case.notebook()).encode())
    back = module.sources(module.text)
    assert back is not None
    assert back == {number: case.cells[number - 1][1] for number in back}
    assert module.notebook.edits(back) == ()


def test_a_module_that_lost_a_cell_or_a_stand_in_is_refused() -> None:
    module = CellModule.of(Notebook.read(json.dumps(version_4("%time\nx = 1", "y = 2", "%%bash\nls"))))
    lines = module.text.splitlines(True)
    assert module.sources(module.text) is not None
    for number, line in enumerate(lines):
        if module.mark in line:
            assert module.sources("".join(lines[:number] + lines[number + 1 :])) is None
    assert module.sources("".join([*lines, "z = 3\n"])) is None, "what is no Python is not written to"


def test_places_in_a_source_lead_to_the_file_and_back() -> None:
    source = "a = 'é\\n\t\"'  # 世界 😀\n\nb = 2"
    for style in ({"ensure_ascii": True}, {"ensure_ascii": False}):
        for value in (source, source.splitlines(True), [source[:5], source[5:]]):
            notebook = Notebook.read(dumped(version_4("", value), **style))
            cell = notebook.cell(2)
            for at in range(len(source)):
                found = notebook.position_of(notebook.offset_of(cell, at))
                assert found is not None
                assert (found[0].number, found[1]) == (2, at)


def test_nothing_else_is_a_notebook() -> None:
    with pytest.raises(NotANotebookError, match="no cells"):
        Notebook.read("{}")
