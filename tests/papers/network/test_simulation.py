"""Specs, workloads, results and pictures of the simulator, and its command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.oracles.ranges_messages import World as Table
from tocsin.cli.main import main
from tocsin.errors import ParameterError
from tocsin.papers.network import workloads
from tocsin.papers.network.simulation import runs_of, write_results
from tocsin.papers.network.specs import parse_spec, read_spec

SPEC = """\
[network]
nodes = 300
brokers = 30

[settings]
workload = "walking"
events = 60
rows = 40
subscriptions = 300
ranges = "normal"

[[figures]]
name = "9"
vary = "subscriptions"
values = [100, 300]
approaches = ["S-UN", "S-MN", "CN", "CN+", "S-CN", "DS-CN"]
measures = ["bytes", "stress"]

[[figures]]
name = "12"
plot = "cdf"
approaches = ["S-UN", "S-CN"]

[[figures]]
name = "8"
vary = "ranges"
values = ["uniform", "clustered", "correlated", "anti-correlated"]
approaches = ["Unicast", "CN-Relax", "Paint-Dense", "Paint-Sparse(1)"]
measures = ["received"]
set = { k = 3, workload = "jumping", x = "clustered" }
"""


def given(**change: Any) -> dict[str, Any]:
    figure = {"name": "1", "approaches": ["S-CN"], **change}
    return {"figures": [figure]}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "no \\[\\[figures\\]\\]"),
        ({**given(), "other": {}}, "unknown table 'other'"),
        ({**given(), "network": {"node": 5}}, "did you mean 'nodes'"),
        ({**given(), "network": {"nodes": "many"}}, "it must be a int"),
        ({**given(), "network": 5}, "must be a table"),
        ({"figures": [{"name": "1"}]}, "missing 1 required"),
        (given(approaches=["S-XN"]), "did you mean 'S-UN'|did you mean 'S-CN'|did you mean 'S-MN'"),
        (given(measures=["byte"]), "did you mean 'bytes'"),
        (given(vary="j"), "is not known"),
        (given(plot="pie"), "known are line, cdf"),
        (given(set={"k": 0}), "at least 1"),
        (given(vary="k", values=["x"]), "it must be a int"),
        (given(set={"ranges": "odd"}), "ranges 'odd'"),
        (given(set={"workload": "odd"}), "workload 'odd'"),
        (given(set={"k": True}), "it must be a int"),
    ],
)
def test_specs_that_cannot_be_run(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        parse_spec(spec, "test")


def test_points_that_are_shared_run_once(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    spec = read_spec(tmp_path / "spec.toml")
    runs = runs_of(spec)
    assert len(runs) == 2 * 6 + 4 * 4, "figure 12 asks for nothing new"
    noted: list[object] = []
    table = write_results(spec, tmp_path, noted.append)
    events = pq.read_table(tmp_path / "events.parquet")
    assert table.num_rows == len(noted) == len(runs)
    assert events.num_rows == 60 * len(runs)
    again = write_results(spec, tmp_path / "again", noted.append)
    measured = [name for name in table.column_names if "second" not in name and "server_us" not in name]
    assert table.select(measured).equals(again.select(measured)), "everything follows from the seed"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "spec.toml").write_text(SPEC)
    path, out = str(tmp_path / "spec.toml"), tmp_path / "out"
    assert main(["simulate", path, "--out", str(out), "--only", "9", "12"]) == 0
    assert sorted(each.name for each in out.iterdir()) == [
        "events.parquet", "figure-12.png", "figure-9.png", "runs.parquet"]  # fmt: skip
    assert "12 runs" in capsys.readouterr().out
    assert main(["simulate", path, "--only", "99"]) == 2
    assert "there are: 9, 12, 8" in capsys.readouterr().err
    assert main(["simulate", str(tmp_path / "none.toml")]) == 2


@pytest.mark.parametrize(
    "work",
    [
        workloads.walking(1, 50, 400, spikes=0.05, ignorable=0.3),
        workloads.jumping(1, 50, 400),
        workloads.jumping(1, 50, 400, x="clustered", spread=0.5),
    ],
    ids=["walking", "jumping", "clustered"],
)
def test_events_know_what_was_before(work: workloads.NetworkWorkload) -> None:
    now = dict(zip(work.table.slot.tolist(), work.table.y.tolist(), strict=True))
    for slot, y, old in zip(
        work.events.slot.tolist(), work.events.y.tolist(), work.old_y.tolist(), strict=True
    ):
        assert now[slot] == old
        now[slot] = y
    assert np.array_equal(work.table.x[work.events.slot], work.events.x)


def test_ignorable_events_affect_nobody() -> None:
    work = workloads.walking(2, 40, 200, spikes=0.0, ignorable=1.0)
    table = Table()
    for row in zip(*(column.tolist() for column in work.table), strict=True):
        table.put(*row)
    ends = sorted(set(work.table.x.tolist()))[:8]
    ranges = [(low, high) for low in ends for high in ends if low <= high]
    before = [table.top(low, high, 1) for low, high in ranges]
    for event in zip(*(column.tolist() for column in work.events), strict=True):
        table.put(*event)
        assert [table.top(low, high, 1) for low, high in ranges] == before


@pytest.mark.parametrize("kind", ["uniform", "clustered", "correlated", "anti-correlated"])
def test_ranges_are_ranges(kind: str) -> None:
    lo, hi = workloads.ranges(1, 500, kind)
    assert (lo <= hi).all()
    assert lo.min() >= 0
    assert hi.max() <= workloads.DOMAIN


def test_stocks_are_read(tmp_path: Path) -> None:
    rows = [
        {"op": "I", "symbol": "A", "pe": 9.0, "div_yield_pct": 1.0},
        {"op": "I", "symbol": "B", "pe": 8.0, "div_yield_pct": 40.0},
        {"op": "U", "symbol": "A", "pe": 7.0, "div_yield_pct": 3.0},
        {"op": "U", "symbol": "A", "pe": None, "div_yield_pct": 3.0},
        {"op": "D", "symbol": "B", "pe": 8.0, "div_yield_pct": 2.0},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "stocks.parquet")
    work = workloads.stocks(tmp_path / "stocks.parquet", 10)
    assert work.table.x.tolist() == [2000.0, 10_000.0]
    assert work.events.y.tolist() == [7.0]
    assert work.old_y.tolist() == [9.0]
