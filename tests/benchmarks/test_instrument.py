"""Records, repeats, memory, fits, and numbers as people read them."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from benchmarks.instrument.comparing import changes
from benchmarks.instrument.fits import crossing, fit
from benchmarks.instrument.memory import peak_mb, peaks_mb
from benchmarks.instrument.records import Record
from benchmarks.instrument.repeats import interleave, little_garbage
from benchmarks.instrument.words import number, spread, table

from tests.benchmarks.samples import FIRST, LATER, record


def test_a_record_comes_back_from_its_line() -> None:
    made = record("engine", 3.0, 1.0, 2.0, sizes={"subscriptions": 5}, build_s=0.5, seed=7)
    again = Record.of_json(made.to_json())
    assert again == made
    assert again.median == 2.0
    assert again.spread == (1.0, 3.0)


def test_more_is_better_of_rates_and_worse_of_costs() -> None:
    assert record("a", 2.0).times(record("b", 10.0)) == 5.0
    assert record("a", 10.0, unit="events/s").times(record("b", 2.0, unit="events/s")) == 5.0


def test_repeats_take_turns_and_the_first_round_does_not_count() -> None:
    order = []
    clock = iter(range(1000))

    def work(name: str) -> int:
        order.append(name)
        return 2

    found = interleave({"a": lambda: work("a"), "b": lambda: work("b")}, 3, lambda: float(next(clock)))
    assert order == ["a", "b"] * 4
    # A tick of the clock, two units.
    assert found == {"a": [0.5] * 3, "b": [0.5] * 3}


def test_short_work_is_done_several_times_a_repeat() -> None:
    calls = []
    clock = iter(np.arange(0, 100, 0.001).tolist())

    def work() -> int:
        calls.append(1)
        return 1

    found = interleave({"a": work}, 2, lambda: next(clock), least_s=0.01)
    assert len(calls) == 2 + 2 * 10
    assert len(found["a"]) == 2


def test_a_power_is_found_again() -> None:
    sizes = [10.0, 100.0, 1000.0]
    found = fit(sizes, [3 * size**0.5 for size in sizes])
    assert found is not None
    assert found.exponent == pytest.approx(0.5)
    assert found.factor == pytest.approx(3.0)
    assert found.off == pytest.approx(1.0)
    assert found.at(400) == pytest.approx(60.0)


def test_one_size_has_no_exponent() -> None:
    assert fit([5.0, 5.0], [1.0, 2.0]) is None


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([1.0, 1.0, 1.0], [2.0, 20.0, 200.0], 10.0),
        ([10.0, 10.0, 10.0], [1.0, 10.0, 100.0], 100.0),
        ([9.0, 9.0, 9.0], [1.0, 2.0, 3.0], None),
    ],
)
def test_where_curves_cross(ours: list[float], theirs: list[float], expected: float | None) -> None:
    found = crossing([10.0, 100.0, 1000.0], ours, theirs)
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (2726.3, "2,730"), (125.28, "125"), (0.04094, "0.0409"), (7.0, "7"), (12.34, "12.3"),
     (None, ""), (1_234_567, "1,230,000"), (99.96, "100")],
)  # fmt: skip
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_a_spread_is_told_where_there_is_one() -> None:
    assert spread(record("a", 5.0)) == "5"
    assert spread(record("a", 1.0, 2.0, 4.0)) == "2 (1 to 4)"


def test_a_table_keeps_its_columns() -> None:
    assert table(("a", "b"), [("x|y", "1")]).splitlines() == ["| a | b |", "| --- | ---: |", "| x\\|y | 1 |"]


def test_changes_tell_the_worst_first_and_what_is_beyond_the_spread() -> None:
    before = [record("a", 1.0, 2.0), record("b", 10.0, 11.0), record("gone", 1.0)]
    now = [
        record("a", 1.5, 2.5, when=LATER),
        record("b", 20.0, 21.0, when=LATER, scan_ms=1.2),
        record("new", 1.0, when=LATER),
    ]
    found = changes(now, before)
    assert [change.now.subject for change in found] == ["b", "a"]
    assert [change.is_beyond for change in found] == [True, False]
    assert found[0].times == pytest.approx(10.5 / 20.5)
    assert found[0].machine_times == pytest.approx(0.5)


def test_a_record_is_no_change_of_itself() -> None:
    same = [record("a", 1.0, when=FIRST)]
    assert changes(same, same) == []


@pytest.mark.slow
def test_peak_memory_is_what_the_work_adds() -> None:
    held = peak_mb("tests.benchmarks.hoarding:hold", 64)
    assert held is None or 60 < held < 90


def test_work_that_fails_has_no_peak() -> None:
    assert peak_mb("tests.benchmarks.hoarding:fail") is None


@pytest.mark.slow
def test_each_piece_of_work_has_a_peak_of_its_own() -> None:
    large, small = peaks_mb("tests.benchmarks.hoarding:hold", [[64], [8]])
    assert large is None or small is None or large > small + 40


def test_what_was_there_is_not_looked_through() -> None:
    with little_garbage():
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0
