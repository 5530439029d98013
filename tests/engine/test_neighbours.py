"""Neighbours: one tenant's heaviest legal statement must not make another one's publishes slow.

Two engines take the same rows in turn: one with light subscriptions alone, one with a heavy one beside them.
Only the ratio of their medians is looked at, so that a slow or a busy machine makes no difference.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tocsin

#: How many times as long a publish may take beside a heavy subscription, which is told of it too.
MOST = 4.0
#: The heaviest LIMIT.
HEAVY = 1_000_000
PUBLISHES = 31

COLUMNS = {"id": "bigint", "x": "double", "y": "double", "z": "double"}
Rows = Callable[[np.random.Generator, int], pa.Table]


def rows_from(random: np.random.Generator, ids: Any) -> pa.Table:
    count = len(ids)
    values = {name: random.random(count) for name in ("x", "y", "z")}
    return pa.table({"id": np.asarray(ids, np.int64), **values})


def table_of(n_rows: int) -> tocsin.Engine:
    engine = tocsin.Engine()
    engine.create_table("t", key="id", columns=COLUMNS)
    engine.publish("t", rows_from(np.random.default_rng(1), range(n_rows)))
    return engine


def window_of(n_rows: int) -> tocsin.Engine:
    engine = tocsin.Engine()
    engine.create_stream("t", columns=COLUMNS, window=f"{n_rows} rows")
    engine.publish("t", rows_from(np.random.default_rng(1), range(n_rows)))
    return engine


def inserted(n_rows: int) -> Rows:
    return lambda random, number: rows_from(random, [n_rows + number])


def updated(n_rows: int) -> Rows:
    return lambda random, number: rows_from(random, [int(random.integers(n_rows))])


def deleted(n_rows: int) -> Rows:
    # The same row is not drawn twice.
    return lambda random, number: pa.table({"id": [7 * number % n_rows], "_op": ["delete"]})


def subscribe(engine: tocsin.Engine, sql: str, limit: int, count: int) -> None:
    """`count` subscriptions to narrow ranges; one alone is to all rows."""
    random = np.random.default_rng(2)
    lo = np.array([-1.0]) if count == 1 else random.random(count)
    params = {"lo": lo, "hi": lo + (3.0 if count == 1 else 0.02), "a": 1.0 + random.random(count)}
    given = {name: column for name, column in params.items() if f":{name}" in sql}
    if given:
        engine.subscribe_many(f"{sql} LIMIT {limit}", given)
    else:
        engine.subscribe(f"{sql} LIMIT {limit}")


def medians(engines: list[tocsin.Engine], rows: Rows) -> list[float]:
    """Seconds of a publish of one row to each engine; all take the same rows, in turn."""
    random = np.random.default_rng(3)
    taken: list[list[float]] = [[] for _ in engines]
    gc.collect()
    gc.disable()
    try:
        for number in range(PUBLISHES + 3):
            batch = rows(random, number)
            for engine, times in zip(engines, taken, strict=True):
                begin = time.perf_counter()
                engine.publish("t", batch)
                times.append(time.perf_counter() - begin)
    finally:
        gc.enable()
    # The first ones compile kernels, and read what nothing has read yet.
    return [float(np.median(times[3:])) for times in taken]


STATEMENTS = {
    "range": "SELECT id, y FROM t WHERE x BETWEEN :lo AND :hi ORDER BY y",
    "everything": "SELECT id, y FROM t ORDER BY y",
    "box": "SELECT id, y FROM t WHERE x BETWEEN :lo AND :hi AND z > -1 ORDER BY y DESC",
    "disk": "SELECT id, y FROM t WHERE x >= :lo AND DISTANCE(x, z, 0.5, 0.5) <= 9 ORDER BY y",
    "score": "SELECT id, y FROM t WHERE x BETWEEN :lo AND :hi ORDER BY :a * y + z",
}


@pytest.mark.parametrize("shape", STATEMENTS)
@pytest.mark.parametrize("publish", [inserted, updated, deleted])
def test_a_huge_limit_over_a_table_costs_its_neighbours_nothing(
    shape: str, publish: Callable[[int], Rows]
) -> None:
    n_rows = 400_000 if shape == "score" else 100_000
    alone, beside = table_of(n_rows), table_of(n_rows)
    for engine in (alone, beside):
        subscribe(engine, STATEMENTS[shape], 5, 1 if shape == "everything" else 100)
    subscribe(beside, STATEMENTS[shape], HEAVY, 1)
    light, heavy = medians([alone, beside], publish(n_rows))
    assert heavy < MOST * light


@pytest.mark.parametrize("limit", [1000, HEAVY])
def test_a_large_limit_among_many_short_lists_costs_them_nothing(limit: int) -> None:
    n_rows = 20_000
    alone, beside = table_of(n_rows), table_of(n_rows)
    for engine in (alone, beside):
        subscribe(engine, STATEMENTS["range"], 5, 5000)
    subscribe(beside, STATEMENTS["range"], limit, 1)
    light, heavy = medians([alone, beside], updated(n_rows))
    assert heavy < MOST * light


def test_a_huge_limit_over_a_window_costs_its_neighbours_nothing() -> None:
    n_rows = 400_000
    alone, beside = window_of(n_rows), window_of(n_rows)
    for engine in (alone, beside):
        subscribe(engine, STATEMENTS["score"], 5, 100)
    subscribe(beside, STATEMENTS["score"], HEAVY, 1)
    light, heavy = medians([alone, beside], inserted(n_rows))
    assert heavy < MOST * light


@pytest.mark.parametrize("shape", ["range", "everything", "score"])
def test_a_list_of_all_rows_costs_what_a_row_changes(shape: str) -> None:
    few, many = 4_000, 512_000
    engines = [table_of(few), table_of(many)]
    for engine, limit in zip(engines, (few, many), strict=True):
        subscribe(engine, STATEMENTS[shape], limit, 1)
    # A row that both have, and that keeps its place among all.
    short, long = medians(engines, updated(few))
    assert long < MOST * short
