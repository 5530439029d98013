"""A template over ranges finds its boxes in a tree when it has grown, and nobody notices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.conftest import INTERPRETED
from tocsin.indexes.ranges.steps.bounds import TREE_MIN_BOXES

COUNT = TREE_MIN_BOXES // 20 if INTERPRETED else TREE_MIN_BOXES + 100


def params(begin: int, end: int) -> pa.Table:
    """Ranges that differ in where they begin and end."""
    numbers = np.arange(begin, end)
    low = numbers % 90
    return pa.table({"id": [f"q{number}" for number in numbers], "lo": low, "hi": low + numbers % 13})


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT COUNT(*) AS a FROM t WHERE x BETWEEN :lo AND :hi", len),
        ("SELECT SUM(y) AS a FROM t WHERE x BETWEEN :lo AND :hi", lambda y: y.sum() if len(y) else None),
        (
            "SELECT MAX(y) AS a FROM t WHERE x BETWEEN :lo AND :hi AND z <= :hi",
            lambda y: y.max() if len(y) else None,
        ),
    ],
)
def test_a_growing_template_finds_its_boxes_in_a_tree(tmp_path: Path, sql: str, answer: object) -> None:
    assert callable(answer)
    random = np.random.default_rng(2)
    engine = tocsin.Engine()
    engine.create_table("t", key="k", columns={"k": "int", "x": "double", "z": "double", "y": "double"})
    engine.subscribe_many(sql, params(0, 50))
    assert "tests every box" in engine.explain("q0")
    engine.subscribe_many(sql, params(50, COUNT))
    assert ("finds boxes in a tree" in engine.explain("q0")) == (COUNT >= TREE_MIN_BOXES)
    assert f"a tree from {TREE_MIN_BOXES} on" in engine.explain("q0")
    held: dict[str, float | None] = {f"q{number}": 0.0 if "COUNT" in sql else None for number in range(COUNT)}
    rows = {"k": np.arange(60), "x": np.zeros(60), "z": np.zeros(60), "y": np.zeros(60)}
    for _ in range(3):
        rows |= {name: random.integers(0, 100, 60).astype(np.float64) for name in "xzy"}
        told = engine.publish("t", pa.table(rows)).to_pydict()
        held.update(zip(told["subscription"], told["score"], strict=True))
        engine.save(tmp_path / "engine")
        engine = tocsin.Engine.load(tmp_path / "engine")
    for number in range(0, COUNT, 7):
        low, high = number % 90, number % 90 + number % 13
        inside = (low <= rows["x"]) & (rows["x"] <= high)
        if " z " in sql:
            inside &= rows["z"] <= high
        expected = answer(rows["y"][inside])
        assert held[f"q{number}"] == expected
        assert engine.result(f"q{number}").to_pydict() == {"a": [expected]}
