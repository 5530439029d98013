"""A template of thresholds switches from the scan to the deferred index when it has grown, unnoticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import tocsin
from tests.conftest import INTERPRETED
from tocsin.planning.rules import DEFERRED

MANY = DEFERRED.min_subscriptions

SQL = "SELECT SUM(shares) FROM trades WHERE price BETWEEN :lo AND :hi HAVING SUM(shares) >= :tau"
COUNT = MANY // 10 if INTERPRETED else 2 * MANY


def params(begin: int, end: int) -> pa.Table:
    """Ranges that differ in where they begin, and need the more the later they come."""
    numbers = np.arange(begin, end)
    low = numbers % 100
    return pa.table(
        {"id": [f"q{number}" for number in numbers], "lo": low, "hi": low + 30, "tau": 50 + numbers // 4}
    )


def expected(prices: np.ndarray, shares: np.ndarray) -> dict[str, int]:
    """The row that brings each query to its threshold."""
    found = {}
    for number in range(COUNT):
        low = number % 100
        reached = np.cumsum(shares * ((low <= prices) & (prices <= low + 30)))
        row = int(np.searchsorted(reached, 50 + number // 4))
        if row < len(prices):
            found[f"q{number}"] = row
    return found


def test_a_growing_template_changes_its_index(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    prices, shares = random.integers(0, 131, 600).astype(np.float64), random.integers(0, 20, 600)
    trades = pa.table({"price": prices, "shares": shares})
    engine = tocsin.Engine()
    engine.create_stream("trades", columns={"price": "double", "shares": "bigint"})
    engine.subscribe_many(SQL, params(0, 100))
    assert "index: scan:" in engine.explain("q0")
    engine.subscribe_many(SQL, params(100, COUNT))
    assert ("index: deferred:" in engine.explain(f"q{COUNT - 1}")) == (COUNT >= MANY)
    assert f"{MANY:,}" in engine.explain("q0")
    assert "30" in engine.explain("q0")
    told = []
    for begin in range(0, 600, 200):
        told += engine.publish("trades", trades.slice(begin, 200)).to_pylist()
        engine.save(tmp_path / "engine")
        before = engine
        engine = tocsin.Engine.load(tmp_path / "engine")
        last = f"q{COUNT - 1}"
        if last in engine:
            assert engine.result(last) == before.result(last)
    assert {change["subscription"]: change["seq"] for change in told} == expected(prices, shares)
    assert len(told) == len({change["subscription"] for change in told})
