"""Floors: what is met, short, below, or not measured; and which rivals count."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.instrument.floors import (
    BELOW,
    MET,
    MISSING,
    SHORT,
    Floor,
    Verdict,
    judge,
    read_floors,
)
from benchmarks.instrument.records import Record

from tests.benchmarks.samples import LATER, record

GOAL = Floor("Sample", "sample", "a case", "engine", floor=5.0, goal=10.0, rival="rival")


def floor(**more: Any) -> Floor:
    return replace(GOAL, **more)


def state(floor: Floor, *records: Record) -> str:
    return judge([floor], records, 0.25)[0].state


@pytest.mark.parametrize(("rival", "expected"), [(100.0, MET), (70.0, SHORT), (40.0, BELOW)])
def test_a_ratio_is_held_against_floor_and_wish(rival: float, expected: str) -> None:
    assert state(floor(), record("engine", 10.0), record("rival", rival)) == expected


def test_what_has_no_rival_is_not_measured() -> None:
    assert state(floor(), record("engine", 10.0)) == MISSING


def test_both_sides_are_of_one_run() -> None:
    # The rival of the later run is missing, so the earlier run counts.
    known = [record("engine", 10.0), record("rival", 100.0), record("engine", 90.0, when=LATER)]
    assert state(floor(), *known) == MET
    assert state(floor(), *known, record("rival", 100.0, when=LATER)) == BELOW


def test_a_rival_on_another_case() -> None:
    best = floor(subject="engine", rival="engine", rival_case="all", floor=2.0, goal=2.5)
    assert state(best, record("engine", 10.0), record("engine", 30.0, case="all")) == MET


def test_the_worst_is_the_worst_repeat_against_the_best() -> None:
    verdict = judge(
        [floor()], [record("engine", 8.0, 10.0, 20.0), record("rival", 90.0, 100.0, 110.0)], 0.25
    )[0]
    assert verdict.ratio == 10.0
    assert verdict.worst == 4.5


@pytest.mark.parametrize(
    ("taken", "reference_ms", "expected"),
    [(14.0, 0.25, True), (16.0, 0.25, False), (16.0, 0.5, True), (14.0, None, True), (16.0, None, False)],
)
def test_a_slow_rival_does_not_count_unless_the_machine_was_slow(
    taken: float, reference_ms: float | None, expected: bool
) -> None:
    assert verdict_of(record("rival", taken, reference_ms=reference_ms)).counts is expected


def test_a_rate_counts_from_below() -> None:
    assert verdict_of(record("rival", 7.0, unit="events/s")).counts
    assert not verdict_of(record("rival", 6.0, unit="events/s")).counts


def test_the_pace_of_a_rival_is_beside_its_figure() -> None:
    assert verdict_of(record("rival", 4.0)).pace == 2.5
    assert verdict_of(record("rival", 4.0, reference_ms=0.125)).pace == 1.25
    assert verdict_of(record("rival", 4.0, unit="events/s")).pace == 0.4
    assert judge([floor()], [record("engine", 1.0), record("rival", 4.0)], 0.25)[0].pace is None


def verdict_of(rival: Record) -> Verdict:
    """Of a rival that takes 10, or does 10 a second, if it is well built."""
    own = replace(rival, subject="engine")
    return judge([floor(rival_figure=10.0)], [own, rival], 0.25)[0]


def test_limits_stand_in_place_of_a_rival() -> None:
    cost = floor(rival=None, limit=0.5, floor=0.5, goal=1.0)
    assert state(cost, record("engine", 0.4)) == MET
    assert state(cost, record("engine", 0.6)) == SHORT
    assert state(cost, record("engine", 2.0)) == BELOW
    rate = floor(rival=None, limit=100.0, floor=0.5, goal=1.0)
    assert state(rate, record("engine", 120.0, unit="events/s")) == MET
    held = floor(rival=None, limit=150.0, floor=1.0, goal=1.0, measure="bytes_each")
    assert state(held, record("engine", 1.0, bytes_each=38.0)) == MET
    assert state(held, record("engine", 1.0, bytes_each=151.0)) == BELOW


def test_the_floors_of_the_project_can_be_read_and_are_no_more_than_their_goals() -> None:
    reference, floors = read_floors()
    assert reference > 0
    assert len(floors) > 30
    for each in floors:
        assert each.goal is None or each.floor <= each.goal, each.name
        assert (each.rival is None) != (each.limit is None), each.name


def test_a_misspelt_field_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "floors.toml"
    path.write_text('reference_scan_ms = 0.25\n[[floor]]\npart = "Sample"\nprogramm = "x"\n')
    with pytest.raises(TypeError, match="programm"):
        read_floors(path)
