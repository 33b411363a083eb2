"""What `h2dlint probe` prints, writes and draws."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import jsonschema
import msgspec
import pytest
from fake_gpu import FakeGpu
from rich.console import Console
from test_probe_measurements import MACHINE

from h2dlint.probe.charts import COLORS, draw_all, spaced
from h2dlint.probe.command import encoded
from h2dlint.probe.forms_table import DOWNLOADS, PINNING, POSITION_IDS, SLICES, STEPS, UPLOADS, waiting_forms
from h2dlint.probe.machine import link_text, smi_values
from h2dlint.probe.measurements import MEASUREMENTS
from h2dlint.probe.report import plain, show_comparison, show_results, value_cell
from h2dlint.probe.results import Answer, LeftOut, Results
from h2dlint.probe.run import run_all
from h2dlint.probe.spread import spread_of
from h2dlint.probe.stored_forms import SeenCopy
from h2dlint.probe.truth import Comparison, Difference, Seen
from h2dlint.probe.units import ms_text, short_size, size_text, value_text


@pytest.fixture(scope="module")
def results() -> Results:
    """A whole run on a GPU that only counts."""
    return run_all(FakeGpu(), MACHINE, MEASUREMENTS, lambda what, done: None)


def printed(results: Results, width: int = 120) -> str:
    stream = io.StringIO()
    show_results(results, Console(file=stream, width=width))
    return stream.getvalue()


# --- figures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "long", "short"),
    [
        (256, "256 bytes", "256"),
        (1024, "1 KiB", "1K"),
        (65_536, "64 KiB", "64K"),
        (65_537, "65,537 bytes", "64K"),
        (2_098_176, "2049 KiB", "2M"),
        (2 << 20, "2 MiB", "2M"),
        (256 << 20, "256 MiB", "256M"),
    ],
)
def test_sizes_are_written_for_people(size: int, long: str, short: str) -> None:
    assert (size_text(size), short_size(size)) == (long, short)


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(0.0162, "0.016"), (0.9, "0.900"), (4.8, "4.80"), (20.04, "20.0"), (335.2, "335")]
)
def test_milliseconds_have_three_digits(milliseconds: float, text: str) -> None:
    assert ms_text(milliseconds) == text


def test_one_of_something_is_no_plural() -> None:
    assert value_text(1, "copies") == "1 copy"
    assert value_text(1021, "copies") == "1,021 copies"
    assert value_text(1.0, "ratio") == "1.00"
    assert value_text(4.8, "ms") == "4.80 ms"


def test_a_range_is_shown_where_the_runs_differ() -> None:
    assert value_cell(spread_of([5.0, 5.1, 5.2]), "ms") == "5.10"
    assert value_cell(spread_of([4.0, 5.0, 7.0]), "ms") == "5.00\n4.00-7.00"
    assert value_cell(spread_of([0.01, 0.02, 0.03]), "ms") == "0.020"


# --- the table ----------------------------------------------------------------------------------------------------


def test_every_measurement_has_its_table(results: Results) -> None:
    text = printed(results)
    assert text.startswith("A GPU that counts · driver 1.0 · CUDA 13.0 · torch 2.11.0 · PCIe gen 5 x16")
    for measured in results.measurements:
        assert plain(measured.title) in text


def test_what_holds_for_several_tables_is_told_once(results: Results) -> None:
    text = printed(results)
    assert text.count("First loop begins with") == 1
    assert text.count("As above.") == 2


def test_code_in_brackets_is_not_taken_for_markup(results: Results) -> None:
    text = printed(results)
    assert "gpu[cpu_index] = gpu_value" in text
    assert "gpu[array]" in text


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_line_is_wider_than_the_terminal(results: Results, width: int) -> None:
    assert max(map(len, printed(results, width).splitlines())) <= width


@pytest.mark.parametrize("width", [72, 80, 100, 120])
def test_every_form_is_named_at_any_width(results: Results, width: int) -> None:
    text = printed(results, width)
    for measured in results.measurements:
        for point in measured.points:
            assert plain(point.label) in text, measured.name


def test_the_figures_stand_beside_those_of_the_rules(results: Results) -> None:
    line = next(line for line in printed(results).splitlines() if "copies of 1 MiB that fit" in line)
    assert line.split()[-4:] == ["2", "copies", "2", "copies"]


def test_what_is_not_there_and_what_is_only_a_bound(results: Results) -> None:
    measured = results.measurements[0]
    none = Answer("x", "no such thing", "bytes", None, rules=1024)
    bound = Answer("y", "as far as was looked", "copies", 3000, at_least=True)
    text = printed(msgspec.structs.replace(results, measurements=(replaced(measured, (none, bound)),)))
    assert "no such thing" in text and "none" in text
    assert "at least 3,000 copies" in text


def replaced(measured: object, answers: tuple[Answer, ...]) -> object:
    return msgspec.structs.replace(measured, answers=answers)  # type: ignore[type-var]


def test_a_form_that_behaves_otherwise_stands_out(results: Results) -> None:
    waits = next(one for one in results.measurements if one.name == "waits")
    first = msgspec.structs.replace(waits.points[0], waits=False)
    changed = msgspec.structs.replace(waits, points=(first, *waits.points[1:]))
    text = printed(msgspec.structs.replace(results, measurements=(changed,)))
    assert "does not wait (the rules: waits)" in text
    assert text.count("(the rules") == 1


def test_what_was_left_out_is_told(results: Results) -> None:
    left = msgspec.structs.replace(results, left_out=(LeftOut("pin-cost", "CUDA error: out of memory"),))
    assert "left out: pin-cost: CUDA error: out of memory" in printed(left)


def comparison(*differences: Difference) -> Comparison:
    return Comparison(MACHINE, "NVIDIA H200 · torch 2.11.0", 12.0, 10, 10 - len(differences), differences)


def test_a_comparison_says_what_was_and_what_is() -> None:
    was, now = Seen((SeenCopy("h2d", "pageable", 1),)), Seen((SeenCopy("h2d", "pinned", 1),))
    stream = io.StringIO()
    difference = Difference("gapped-slice", "x = pinned[:, :3]\ny = x.cuda()", was, now, "memory")
    show_comparison(comparison(difference), Console(file=stream, width=100))
    text = stream.getvalue()
    assert "gapped-slice  (memory)\n    x = pinned[:, :3]\n    y = x.cuda()\n" in text
    assert "stored: h2d from pageable\n  here:   h2d from pinned" in text
    assert "10 forms, 9 as stored, 1 differs" in text


def test_a_comparison_without_differences_is_one_line() -> None:
    stream = io.StringIO()
    show_comparison(comparison(), Console(file=stream, width=100))
    assert "10 forms, all as stored · 12 s" in stream.getvalue()


# --- JSON ---------------------------------------------------------------------------------------------------------


def test_the_json_holds_what_its_schema_says(results: Results) -> None:
    for found in (results, comparison(Difference("a", "x", Seen(), Seen(raises="TypeError"), "raises"))):
        jsonschema.validate(json.loads(encoded(found)), msgspec.json.schema(type(found)))


def test_the_json_can_be_read_back(results: Results) -> None:
    assert msgspec.json.decode(encoded(results), type=Results) == results


def test_the_keys_of_the_json_are_a_contract(results: Results) -> None:
    found = json.loads(encoded(results))
    assert found["version"] == 1
    assert set(found) == {"version", "machine", "seconds", "measurements", "left_out"}
    assert set(found["machine"]) == {"gpu", "driver", "cuda", "torch", "link", "reads_pageable", "host", "python"}
    assert set(found["measurements"][0]) >= {"name", "title", "note", "axis", "unit", "points", "answers"}
    point = found["measurements"][0]["points"][0]
    assert set(point) >= {"form", "label", "kind", "x", "value", "at_least"}
    assert set(point["value"]) == {"median", "low", "high", "runs"}
    answer = found["measurements"][0]["answers"][0]
    assert set(answer) == {"name", "text", "unit", "value", "at_least", "rules"}


# --- plots --------------------------------------------------------------------------------------------------------


def test_every_measurement_is_drawn_and_the_same_each_time(results: Results, tmp_path: Path) -> None:
    drawn = [draw_all(results, tmp_path), draw_all(only(results, "single-copy"), tmp_path / "again")]
    names = {path.name for path in drawn[0]}
    assert names == {f"{one.name}.{ending}" for one in results.measurements for ending in ("png", "svg")}
    for path in drawn[1]:
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name
    svg = (tmp_path / "single-copy.svg").read_text()
    ElementTree.fromstring(svg)
    assert "One copy behind 40 ms of work" in svg  # as text, not as outlines
    assert (tmp_path / "single-copy.png").read_bytes().startswith(b"\x89PNG")


def only(results: Results, name: str) -> Results:
    return msgspec.structs.replace(results, measurements=tuple(m for m in results.measurements if m.name == name))


def test_a_run_without_points_draws_nothing(results: Results, tmp_path: Path) -> None:
    empty = msgspec.structs.replace(results.measurements[0], points=())
    assert draw_all(msgspec.structs.replace(results, measurements=(empty,)), tmp_path) == []


def test_labels_of_an_axis_keep_their_distance() -> None:
    assert spaced([1024.0, 8192.0, 12288.0, 16384.0, 1048576.0]) == [1024.0, 8192.0, 16384.0, 1048576.0]
    assert spaced([5.0, 10.0, 20.0]) == [5.0, 10.0, 20.0]


def test_every_kind_of_memory_has_a_color() -> None:
    tables = (UPLOADS, STEPS, SLICES, POSITION_IDS, DOWNLOADS, PINNING)
    kinds = {template.kind for table in tables for template in table.values()}
    assert kinds | {form.kind for form, _ in waiting_forms()} | {"first"} <= set(COLORS)


# --- the machine --------------------------------------------------------------------------------------------------

ASKED = ("driver_version", "pcie.link.gen.max", "pcie.link.width.max")


def test_what_nvidia_smi_knows_is_taken() -> None:
    known = smi_values(ASKED, "580.159.04, 5, 16")
    assert known == {"driver_version": "580.159.04", "pcie.link.gen.max": "5", "pcie.link.width.max": "16"}
    assert link_text(known, "") == "PCIe gen 5 x16"


def test_what_nvidia_smi_does_not_know_is_left_out() -> None:
    known = smi_values(ASKED, "580.159.04, [N/A], [Not Supported]")
    assert known == {"driver_version": "580.159.04"}
    assert link_text(known, "") is None
    assert smi_values(ASKED, "No devices were found") == {}


def test_a_chip_to_chip_link_is_named() -> None:
    assert link_text({}, "GPU 0: GH200\n\t C2C Link 0: 44.712 GB/s") == "NVLink-C2C"
