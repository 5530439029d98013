"""Joins that would change by very many pairs: counted before any pair is built, and ended if asked for."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pytest

from tocsin import Engine
from tocsin.engine.pair_bound import PairBound

JOIN = "SELECT a.k, b.k AS other FROM a JOIN b ON a.x = b.x"
#: So many rows of one value on each side make pairs that would not fit the memory.
MANY = 20_000


@pytest.fixture
def engine() -> Engine:
    made = Engine()
    for name in ("a", "b"):
        made.create_table(name, key="k", columns={"k": "string", "x": "double", "y": "double"})
    return made


def rows(count: int, x: float = 1.0, y: float = 0.0) -> pa.Table:
    return pa.table({"k": [f"{n}" for n in range(count)], "x": np.full(count, x), "y": np.full(count, y)})


class Judge:
    """Ends the joins that change by more than so many pairs, and remembers what it heard."""

    def __init__(self, most: int) -> None:
        self.heard: list[dict[str, int]] = []
        self._most = most
        self.bound = PairBound(most, self.choose)

    def choose(self, counts: Mapping[str, int]) -> Iterable[str]:
        self.heard.append(dict(counts))
        return [sid for sid, count in counts.items() if count > self._most]


def test_an_answer_is_counted_without_its_pairs(engine: Engine) -> None:
    engine.subscribe(JOIN, id="all")
    engine.subscribe(JOIN + " WHERE a.y > 0 AND b.y > 0", id="none")
    engine.publish("a", rows(MANY))
    judge = Judge(10)
    engine.publish("b", rows(10), pairs=judge.bound)
    assert judge.heard == [{"all": 10 * MANY}]
    engine.subscribe(JOIN, id="all")
    engine.publish("a", rows(10))
    assert engine.size("all") == engine.result("all").num_rows == 10 * MANY
    assert engine.size("none") == engine.result("none").num_rows == 0


def test_rows_that_would_change_too_many_pairs_are_taken_at_a_bounded_cost(engine: Engine) -> None:
    engine.subscribe(JOIN, id="large")
    engine.subscribe(JOIN + " WHERE b.y > 5", id="small")
    engine.subscribe("SELECT k FROM b WHERE y > 5", id="rows")
    engine.publish("a", rows(MANY))
    judge = Judge(1000)
    # What is compiled and imported on the way is no part of what is measured.
    engine.publish("b", rows(1), pairs=Judge(10**9).bound)
    tracemalloc.start()
    try:
        told = engine.publish("b", rows(MANY), pairs=judge.bound)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert told.num_rows == 0
    assert judge.heard == [{"large": MANY * (MANY - 1)}]
    assert peak < 4 * MANY * 1000, "a few columns of the rows, not of the pairs"
    assert "large" not in engine
    assert engine.size("small") == 0
    told = engine.publish("b", [{"k": "one", "x": 1.0, "y": 9.0}], pairs=Judge(10 * MANY).bound)
    assert told.column("subscription").to_pylist() == ["small"] * MANY + ["rows"]
    assert engine.counts("b")["rows"] == MANY + 2


def test_what_is_ended_leaves_nothing_behind(engine: Engine) -> None:
    engine.subscribe(JOIN, id="large")
    engine.publish("a", rows(100))
    judge = Judge(1000)
    assert engine.publish("b", rows(100), pairs=judge.bound).num_rows == 0
    assert len(engine) == 0
    engine.subscribe(JOIN, id="large")
    assert engine.size("large") == 10_000
    keys = [f"{n}" for n in range(99)]
    assert engine.delete("b", keys, pairs=Judge(10_000).bound).num_rows == 9_900
    assert engine.delete("b", ["99"], pairs=Judge(99).bound).num_rows == 0
    assert len(engine) == 0


def test_without_a_bound_every_pair_is_told(engine: Engine) -> None:
    engine.subscribe(JOIN, id="large")
    engine.publish("a", rows(300))
    assert engine.publish("b", rows(300)).num_rows == 90_000


def test_few_pairs_are_not_asked_about(engine: Engine) -> None:
    engine.subscribe(JOIN, id="join")
    engine.publish("a", rows(30))
    judge = Judge(900)
    assert engine.publish("b", rows(30), each=True, pairs=judge.bound).num_rows == 900
    assert judge.heard == []


def test_sizes_of_all_kinds(engine: Engine) -> None:
    statements = [
        "SELECT k FROM a ORDER BY x LIMIT 3",
        "SELECT k FROM a WHERE x > 0",
        "SELECT DISTINCT x FROM a",
        "SELECT MIN(x) FROM a",
        "SELECT COUNT(*) FROM a WHERE x > 5",
        JOIN,
    ]
    engine.publish("a", rows(5))
    engine.publish("b", rows(2))
    ids = [engine.subscribe(sql) for sql in statements]
    assert [engine.size(sid) for sid in ids] == [engine.result(sid).num_rows for sid in ids]
