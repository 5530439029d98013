"""The report from sample records: sections, who wins, exponents, papers, pictures."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from benchmarks.instrument.floors import Floor, judge
from benchmarks.report import choosing, growing, style
from benchmarks.report.papers import NETWORK, PAGES, ROWS, TITLES, ours, page_rows
from benchmarks.report.sections import goals_section, headline, measured_section, statements_section
from matplotlib.figure import Figure

from tests.benchmarks.samples import LATER, growth, record


@pytest.fixture(autouse=True)
def _pictures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def save(figure: Figure, name: str) -> str:
        return style.save(figure, name, tmp_path / "benchmarks")

    monkeypatch.setattr(choosing, "save", save)
    monkeypatch.setattr(growing, "save", save)


def test_a_rival_that_wins_is_named_and_advised() -> None:
    sizes = {"subscriptions": 10, "batch": 5}
    case = "ranges, 10 subscriptions, batches of 5"
    known = [
        record("Tocsin, the index", 2.0, case=case, sizes=sizes, build_s=0.1),
        record("Tocsin, publish", 4.0, case=case, sizes=sizes, build_s=0.1),
        record("Polars join_where", 3.0, case=case, sizes=sizes, build_s=0.1),
        record("NumPy scan", 50.0, case=case, sizes=sizes, build_s=0.0),
    ]
    text = choosing.choices_section(known)
    assert f"Polars join_where is 1.33 times as fast as Tocsin, publish: {case}." in text
    assert "NumPy scan is" not in text
    assert "| Polars join_where | both events and subscriptions exist as tables" in text
    assert "| NumPy scan | 50 | 25 |" in text


def test_without_results_the_page_says_how_to_get_them() -> None:
    assert "python -m benchmarks choices" in choosing.choices_section([])
    assert "python -m benchmarks growth" in growing.growth_section([])
    assert "python -m benchmarks engine" in statements_section([])


def test_exponents_memory_and_the_switch(tmp_path: Path) -> None:
    few = "thresholds, few, batches of 1"
    known = [
        *growth("thresholds", "subscriptions", {1000: 1.0, 10_000: 2.0, 100_000: 4.0}),
        *growth("thresholds", "subscriptions", {1000: 1.0, 10_000: 10.0}, "scan"),
        *growth("thresholds", "batch", {1: 8.0, 10: 1.0}),
        *growth(few, "subscriptions", {64: 5.0, 1024: 5.0, 16_384: 5.0}),
        *growth(few, "subscriptions", {64: 1.0, 1024: 10.0, 16_384: 100.0}, "scan"),
        *growth(few, "subscriptions", {64: 1.1, 1024: 10.0, 16_384: 6.0}, "engine"),
    ]
    text = growing.growth_section(known)
    assert "| thresholds | 0.30 |  |  |  | -0.90 |" in text
    assert "| thresholds | 100,000 | 100 | 0.1 |" in text
    # The engine scans up to 4,096: at 1,024 it takes twice as long as it might.
    assert "| thresholds, batches of 1 | 444 | 4,096 | 2 at 1,024 |" in text
    names = sorted(path.name for path in (tmp_path / "benchmarks").iterdir())
    assert names == [
        "growth-batch.svg",
        "growth-memory.svg",
        "growth-subscriptions.svg",
        "growth-switch.svg",
    ]


def test_the_same_figures_give_the_same_picture(tmp_path: Path) -> None:
    known = growth("thresholds", "subscriptions", {1000: 1.0, 10_000: 2.0})
    path = tmp_path / "benchmarks" / "growth-subscriptions.svg"
    growing.growth_section(known)
    first = path.read_bytes()
    growing.growth_section(known)
    assert path.read_bytes() == first
    assert b"<text" in first


def test_a_goal_is_told_with_what_is_short() -> None:
    asked = Floor(
        "Sample", "sample", "a case", "engine", floor=5.0, goal=10.0, rival="rival", rival_figure=60.0
    )
    limit = Floor("Sample", "sample", "a case", "engine", floor=1.0, goal=1.0, limit=20.0)
    verdicts = judge([asked, limit], [record("engine", 10.0), record("rival", 70.0)], 0.25)
    text = goals_section(verdicts)
    assert "| engine: a case | rival | 0.857 | 7 | 10 | 5 | short of the goal |" in text
    assert "| engine: a case | limit 20 |  | 10 | 20 | 20 | met |" in text
    assert headline(verdicts, []).startswith("Of 2 goals, 1 are reached, 1 are not.")


def test_a_goal_beside_a_rival_faster_than_its_figure() -> None:
    asked = Floor(
        "Sample", "sample", "a case", "engine", floor=5.0, goal=10.0, rival="rival", rival_figure=140.0
    )
    verdicts = judge([asked], [record("engine", 10.0), record("rival", 70.0)], 0.25)
    assert "| 7 | 10 | 5 | short of the goal; beside the rival's figure 14 |" in goals_section(verdicts)
    assert headline(verdicts, []).startswith(
        "Of 1 goals, 0 are reached, 1 are not (1 of these only because the rival is faster"
    )


def test_the_first_table_has_the_largest_case_and_rivals_of_its_run() -> None:
    known = [
        record("engine, batches of 10,000", 0.1, program="thresholds", case="static 1-d, 100,000 queries"),
        record("engine, batches of 10,000", 0.05, program="thresholds", case="static 1-d, 1,000,000 queries"),
        record("interval tree, sampled", 100.0, program="thresholds", case="static 1-d, 1,000,000 queries"),
        record("scan, sampled", 9.0, program="thresholds", case="static 1-d, 1,000,000 queries", when=LATER),
    ]
    text = headline([], known)
    assert "| static 1-d, 1,000,000 queries | 0.05 µs an event | interval tree: 2,000 |" in text
    assert "100,000 queries" not in text.replace("1,000,000 queries", "")


def test_a_rival_that_does_not_count_is_no_success() -> None:
    asked = Floor(
        "Sample", "sample", "a case", "engine", floor=5.0, goal=5.0, rival="rival", rival_figure=10.0
    )
    verdicts = judge([asked], [record("engine", 10.0), record("rival", 70.0)], 0.25)
    assert "met, but the rival does not count; beside the rival's figure" in goals_section(verdicts)
    assert "0 are reached, 0 are not, and 1 stand against a rival that is too slow to count" in headline(
        verdicts, []
    )


def test_statements_stand_beside_the_scan() -> None:
    sizes = {"kind": "top-k", "subscriptions": 10, "batch": 1}
    case = "top-k, 10 subscriptions, batches of 1"
    known = [
        record("engine", 50.0, case=case, sizes=sizes, unit="events/s"),
        record("NumPy scan", 100.0, case=case, sizes=sizes, unit="events/s"),
    ]
    text = statements_section(known)
    assert "| top-k | 50 (0.5) |" in text
    assert "0 of 1" in text


def test_machines_and_runs_are_written_down() -> None:
    runs = [record("thresholds", 60.0, program="runs", case="thresholds, quick", unit="s", peak_mb=500.0)]
    text = measured_section([record("a", 1.0)], runs)
    assert "| sample | 2026-01-01 10:00:00 | a machine | 2 | 0.5 | 0.6 |" in text
    assert "| thresholds, quick | 60 | 500 |" in text


def test_a_row_of_a_paper_tells_its_sweep_and_what_it_names() -> None:
    row = {
        "paper": "windows",
        "item": "Figure 15",
        "also": [["sample", "a case", "engine"], ["sample", "x", "y"]],
    }
    sizes = {"paper": "windows", "item": "Figure 15", "part": "IND", "knob": "d"}
    points = [
        record("SMA", cost, program="papers", case=f"d {d}", unit="ms a cycle", sizes={**sizes, "value": d})
        for d, cost in ((4, 2.0), (2, 1.0))
    ]
    text = ours(row, {"papers": points, "sample": [record("engine", 0.5)]})
    assert text == "IND, d 2, 4: SMA 1, 2 ms a cycle. a case: engine 0.5 µs an event"
    assert ours(row, {}) == "not measured"


def test_every_figure_and_table_of_the_papers_has_a_row() -> None:
    rows = tomllib.loads(ROWS.read_text())["row"]
    have = {(row["paper"], row["item"]) for row in rows}
    asked = {("thresholds", f"Figure {number}") for number in range(3, 9)}
    asked |= {("windows", f"Figure {number}") for number in range(14, 22)} | {("windows", "Table 2")}
    asked |= {("matching", f"Figure {number}") for number in range(6, 10)}
    asked |= {("matching", "Table II(a)"), ("matching", "Table II(b)")}
    assert asked <= have
    assert {row["paper"] for row in rows} == set(TITLES)
    page = NETWORK.read_text()
    told = " ".join(row[0] for heading in PAGES.values() for row in page_rows(page, heading))
    for name in ("6:", "7:", "8:", "9:", "10:", "11:", "12:", "13:", "4:", "5(a)", "Table 2", "Table 3"):
        assert name in told, name
    for name in ("Table I:", "Table II:", "Table III", "Table IV", "Table V:", "Table VI"):
        assert name in told, name
