"""The measurements of `h2dlint probe`, held against a GPU that only counts: they find the figures that were put in."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fake_gpu import FakeGpu, Staging

from h2dlint.probe import (
    downloads,
    in_flight,
    pin_cost,
    queue_depth,
    row_counts,
    serving_loop,
    single_copy,
    waiting_forms,
)
from h2dlint.probe.bench import Bench, held_once
from h2dlint.probe.forms_table import UPLOADS, Form
from h2dlint.probe.gpu import Gpu
from h2dlint.probe.measurements import MEASUREMENTS, Measurement
from h2dlint.probe.results import Answer, Machine, Measured
from h2dlint.probe.run import run_all
from h2dlint.probe.search import boundary, first_that
from h2dlint.probe.spread import spread_of

KIB = 1024
NEVER = float("inf")
MACHINE = Machine("A GPU that counts", "1.0", "13.0", "2.11.0", "PCIe gen 5 x16", False, "x86_64 Linux", "3.12.3")


def answers(measured: Measured) -> dict[str, Answer]:
    return {answer.name: answer for answer in measured.answers}


def medians(measured: Measured, form: str) -> dict[float | None, float]:
    return {point.x: point.value.median for point in measured.points if point.form == form}


# --- the search ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("edge", [1, 1000, 1024, 65_536, 65_537, 2_097_152, (4 << 20) - 1])
@pytest.mark.parametrize("step", [1, 512, 1024])
def test_a_boundary_is_narrowed_to_the_step(edge: int, step: int) -> None:
    below, above = boundary(lambda size: size > edge, 0, 4 << 20, step)
    assert below <= edge < above
    assert above - below <= step


def test_a_boundary_takes_few_trials() -> None:
    tried: list[int] = []

    def holds(size: int) -> bool:
        tried.append(size)
        return size > 1_234_567

    boundary(holds, 1 << 20, 2 << 20, 1024)
    assert len(tried) <= 10
    assert len(set(tried)) == len(tried)


def test_the_first_size_for_which_it_holds() -> None:
    assert first_that(lambda size: size > 8, [1, 8, 16, 32]) == 2
    assert first_that(lambda size: size > 8, [1, 8]) is None


def test_a_spread_keeps_the_median_and_both_ends() -> None:
    spread = spread_of([3.0, 1.0, 2.0])
    assert (spread.median, spread.low, spread.high, spread.runs) == (2.0, 1.0, 3.0, 3)
    assert spread.wide
    assert not spread_of([1.0, 1.05]).wide
    with pytest.raises(ValueError, match="no values"):
        spread_of([])


# --- one copy -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [512 * KIB, 1000 * KIB, 2 << 20, 8 << 20])
def test_the_single_copy_threshold_is_found_wherever_it_lies(threshold: int) -> None:
    measured = single_copy.measure(Bench(FakeGpu(Staging(threshold=threshold))))
    found = answers(measured)["single_copy_up_to"]
    assert found.value is not None
    assert threshold - single_copy.STEP < found.value <= threshold
    assert not found.at_least


def test_a_machine_on_which_no_single_copy_waits_is_said_to_be_one() -> None:
    everything = Staging(threshold=NEVER, shared_up_to=1 << 40, pool=NEVER)
    found = answers(single_copy.measure(Bench(FakeGpu(everything))))["single_copy_up_to"]
    assert (found.value, found.at_least) == (single_copy.SIZES[-1], True)


def test_a_machine_on_which_every_pageable_copy_waits_has_no_threshold() -> None:
    found = answers(single_copy.measure(Bench(FakeGpu(Staging(threshold=0)))))["single_copy_up_to"]
    assert (found.value, found.at_least) == (None, False)


def test_a_pinned_copy_holds_nobody_at_any_size() -> None:
    assert max(medians(single_copy.measure(Bench(FakeGpu())), "pinned").values()) < 0.1


# --- copies in flight ---------------------------------------------------------------------------------------------


def test_how_many_copies_fit_in_flight() -> None:
    measured = in_flight.measure(Bench(FakeGpu()))
    found = {name: answer.value for name, answer in answers(measured).items()}
    assert found == {
        "in_flight_8192": 508,
        "in_flight_65536": 63,
        "in_flight_1048576": 2,
        "in_flight_pinned": 1021,
        "few_fit_above": 64 * KIB,
    }
    assert medians(measured, "pageable")[1024] == 1021


def test_where_no_copy_waits_the_figures_are_lower_bounds() -> None:
    endless = Staging(threshold=NEVER, shared_up_to=1 << 40, pool=NEVER, launches=1 << 40)
    measured = in_flight.measure(Bench(FakeGpu(endless)))
    assert all(point.at_least for point in measured.points)
    assert answers(measured)["in_flight_8192"].at_least
    assert answers(measured)["few_fit_above"].value is None


def test_counting_stops_before_the_queue_runs_dry() -> None:
    """Behind an empty queue nothing waits: a host that issues slowly would count copies that were never in flight."""
    gpu = FakeGpu(Staging(threshold=NEVER, shared_up_to=1 << 40, pool=NEVER, launches=1 << 40))
    issue = gpu.prepare(UPLOADS["pageable"].of("pageable", 1 << 20))
    found = in_flight.fits(gpu, issue, queued=10, limit=3000)
    assert found.at_least
    assert 0 < found.copies < 100


# --- the others ---------------------------------------------------------------------------------------------------


def test_a_copy_that_waits_costs_what_is_queued() -> None:
    measured = queue_depth.measure(Bench(FakeGpu()))
    assert answers(measured)["blocked_per_queued"].value == pytest.approx(1.0, abs=0.05)
    assert medians(measured, "pageable")[160.0] == pytest.approx(160, rel=0.01)
    assert max(medians(measured, "pinned").values()) < 0.1


def test_the_first_pin_of_a_size_is_told_from_the_later_ones() -> None:
    measured = pin_cost.measure(Bench(FakeGpu()))
    first, cached = medians(measured, "pin-first"), medians(measured, "pin-cached")
    assert all(first[size] > 5 * cached[size] for size in first)
    assert answers(measured)["pin-first_268435456"].value == first[float(1 << 28)]


def test_sizes_for_which_there_is_no_room_are_left_out() -> None:
    measured = pin_cost.measure(Bench(FakeGpu(memory=1 << 30)))
    assert max(point.x or 0 for point in measured.points) == 16 << 20
    assert "pin-first_268435456" not in answers(measured)


def test_rows_are_compared_by_their_number() -> None:
    measured = row_counts.measure(Bench(FakeGpu()))
    assert {point.form for point in measured.points} == {"gapped", "rows", "gathered", "whole", "pageable"}
    gapped = medians(measured, "gapped")
    assert gapped[8] < 1 < 80 < gapped[16]
    assert measured.gpu_done == 100


@pytest.mark.parametrize(
    "measure", [serving_loop.measure_tensors, serving_loop.measure_slices, serving_loop.measure_ids]
)
def test_in_a_loop_pageable_copies_end_the_lead_of_the_host(measure: Callable[[Bench], Measured]) -> None:
    measured = measure(Bench(FakeGpu()))
    assert measured.gpu_done == 300
    largest = max((point.x or 0 for point in measured.points), default=0)
    held = {point.kind: point.value.median for point in measured.points if (point.x or 0) == largest}
    waiting = max(value for kind, value in held.items() if kind in ("pageable", "gapped"))
    free = [value for kind, value in held.items() if kind in ("pinned", "rows", "device")]
    assert waiting > 250
    assert max(free) < 10


def test_the_first_loop_of_snapshots_starts_without_cached_blocks() -> None:
    measured = serving_loop.measure_tensors(Bench(FakeGpu()))
    first, later = medians(measured, "snapshot-first"), medians(measured, "snapshot")
    assert all(first[size] > later[size] for size in later)


def test_every_form_that_waits_is_told_from_one_that_does_not() -> None:
    measured = waiting_forms.measure(Bench(FakeGpu()))
    assert all(point.waits == point.said for point in measured.points)
    assert answers(measured)["waits_as_said"].value == len(measured.points)


def test_a_form_that_behaves_otherwise_is_counted() -> None:
    class Newer(FakeGpu):
        def prepare(self, form: Form) -> Callable[[], object]:
            return (lambda: None) if form.code == "gpu.tolist()" else super().prepare(form)

    measured = waiting_forms.measure(Bench(Newer()))
    assert [point.form for point in measured.points if point.waits != point.said] == ["gpu.tolist()"]
    assert answers(measured)["waits_as_said"].value == len(measured.points) - 1


def test_downloads_into_pageable_memory_wait_at_any_size() -> None:
    measured = downloads.measure(Bench(FakeGpu()))
    waiting = {point.form for point in measured.points if point.waits}
    assert waiting == {"into-pageable", "into-gapped", "cpu"}
    assert answers(measured)["download_waits_from"].value == 256


# --- the whole ----------------------------------------------------------------------------------------------------


def test_a_whole_run() -> None:
    gpu, told = FakeGpu(), [0.0]
    results = run_all(gpu, MACHINE, MEASUREMENTS, lambda what, done: told.append(done))
    assert [one.name for one in results.measurements] == [one.name for one in MEASUREMENTS]
    assert not results.left_out
    assert gpu.calibrated == len(MEASUREMENTS)  # clocks change: each measurement has its own
    assert told == sorted(told)
    assert told[-1] == pytest.approx(sum(one.seconds for one in MEASUREMENTS))


@pytest.mark.parametrize("one", [MEASUREMENTS[0], MEASUREMENTS[1]], ids=lambda one: one.name)
def test_a_second_run_gives_the_same_figures(one: Measurement) -> None:
    first, second = (one.measure(Bench(FakeGpu())) for _ in range(2))
    assert [point.value for point in first.points] == [point.value for point in second.points]
    assert first.answers == second.answers


def test_a_measurement_that_fails_costs_itself_alone() -> None:
    def broken(bench: Bench) -> Measured:
        bench.held(Form("x", "x", "pageable", "broken", "pass"), 1.0)
        raise AssertionError

    around = [MEASUREMENTS[2], Measurement("broken", 1.0, broken), MEASUREMENTS[3]]
    results = run_all(FakeGpu(), MACHINE, around, lambda what, done: None)
    assert [one.name for one in results.measurements] == ["queue-depth", "pin-cost"]
    assert [(one.name, one.reason) for one in results.left_out] == [("broken", "CUDA error: out of memory")]


def test_a_trial_begins_and_ends_with_an_idle_gpu() -> None:
    gpu: Gpu = FakeGpu()
    gpu.work(1000)
    took = held_once(gpu, gpu.prepare(UPLOADS["pageable"].of("pageable", 8 << 20)), 40)
    assert took == pytest.approx(40, abs=1)
