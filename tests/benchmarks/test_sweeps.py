"""Growth and papers: points are told apart, worlds go on, rows and sweeps belong together."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest
from benchmarks import __main__ as command
from benchmarks.growth import measure
from benchmarks.growth_parts.curves import FAMILIES, SWITCHES, Family, Point, points, switches
from benchmarks.paper_parts import matching, thresholds, windows
from benchmarks.report.papers import ROWS


@pytest.mark.parametrize("quick", [False, True])
def test_every_point_has_a_name_of_its_own(quick: bool) -> None:
    names = [point.case for point in [*points(quick), *switches(quick)]]
    assert len(set(names)) == len(names)


def test_curves_reach_as_far_as_was_asked() -> None:
    reached: dict[str, int] = {}
    for point in points(quick=False):
        reached[point.knob] = max(reached.get(point.knob, 0), point.value)
    assert reached == {
        "subscriptions": 5_000_000,
        "rows": 1_000_000,
        "k": 100,
        "dimensions": 8,
        "batch": 1_000_000,
    }
    assert max(point.settings.subscriptions for point in points(quick=True)) == 100_000


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_world_is_measured_with_all_who_take_part(family: Family) -> None:
    small = replace(family.middle, subscriptions=200, rows=300, k=3, batch=20)
    switch = SWITCHES.get(family.name)
    tiny = replace(family, middle=small, engine=None if switch is None else switch.engine)
    found = measure(Point(tiny, "subscriptions", 200), {"when": "now"})
    subjects = ["index"] + ["scan"] * (family.scan is not None) + ["engine"] * (switch is not None)
    assert [record.subject for record in found] == subjects
    for record in found:
        assert len(record.figures) == 5
        assert record.median > 0
        assert record.bytes_each


def test_the_engine_takes_the_index_from_there_on() -> None:
    # Views are taken from the first subscription on, and there is nothing before it.
    for name, switch in ((name, switch) for name, switch in SWITCHES.items() if switch.many > 1):
        family = next(family for family in FAMILIES if family.name == name)
        told = []
        for count in (switch.many - 1, switch.many):
            settings = replace(family.middle, subscriptions=count, rows=300, k=3, batch=20)
            told.append(switch.engine(settings).index.explain())
        assert told[0].split(":")[0] != told[1].split(":")[0], told


@pytest.mark.parametrize("quick", [False, True])
def test_every_sweep_has_a_row_and_every_row_a_sweep(quick: bool) -> None:
    made = [*thresholds.sweeps(quick), *windows.sweeps(quick), *matching.sweeps(quick)]
    rows = tomllib.loads(ROWS.read_text())["row"]
    assert {(sweep.paper, sweep.item) for sweep in made} == {(row["paper"], row["item"]) for row in rows}
    names = [sweep.case(value) for sweep in made for value in sweep.values]
    assert len(set(names)) == len(names)


def test_programs_are_the_files_with_a_main() -> None:
    listed = command.programs()
    assert {"choices", "growth", "papers", "thresholds", "ranges", "windows", "matching"} <= set(listed)
    assert "machine" not in listed
