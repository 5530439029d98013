"""Which sums reach their threshold: the engine's index, and what a user would take instead.

Rivals have the easier task: they tell who has reached its threshold by the end of a batch, not at which
element, and nobody is taken out when it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from intervaltree import Interval
from intervaltree import IntervalTree as Tree

from benchmarks.choice_parts.postgres import Postgres
from benchmarks.threshold_parts.workloads import Workload
from tocsin.arrays.types import Floats, Longs
from tocsin.indexes.contract import ThresholdIndex
from tocsin.planning import STREAM, make_index
from tocsin.planning.questions import THRESHOLDS, Question


class Counter(Protocol):
    """What is asked of a rival."""

    def count(self, values: Floats, weights: Longs) -> None:
        """Take a batch of elements, and note who has reached its threshold."""

    def reached(self) -> Longs:
        """What each query has by now, to hold rivals against each other."""


class Sums:
    """Sums by query, and who has enough: what every rival does with what it found."""

    def __init__(self, work: Workload) -> None:
        self._tau = work.tau
        self._sum = np.zeros(len(work.tau), np.int64)
        self.matured: Longs = np.zeros(0, np.int64)

    def add(self, slots: Longs | slice, sums: Longs) -> None:
        self._sum[slots] += sums
        self.matured = np.flatnonzero(self._sum >= self._tau)

    def reached(self) -> Longs:
        return self._sum


class Tocsin:
    """The engine's index, as the engine has it."""

    def __init__(self, work: Workload) -> None:
        question: Question[ThresholdIndex] = Question(THRESHOLDS, STREAM, work.dimensions)
        self._index = make_index(question)
        self._slots = np.arange(len(work.tau), dtype=np.int32)
        repeat = np.zeros(len(work.tau), np.bool_)
        values = {"lo": work.low, "hi": work.high, "tau": work.tau, "repeat": repeat}
        self._index.register(self._slots, values)

    def count(self, values: Floats, weights: Longs) -> None:
        self._index.apply(values, weights)

    def reached(self) -> Longs:
        return self._index.progress(self._slots)[0]


class NumpyScan(Sums):
    """Two comparisons over all ranges, an element at a time."""

    def __init__(self, work: Workload) -> None:
        super().__init__(work)
        self._low, self._high = work.low[:, 0].copy(), work.high[:, 0].copy()

    def count(self, values: Floats, weights: Longs) -> None:
        sums = np.zeros(len(self._low), np.int64)
        for value, weight in zip(values[:, 0].tolist(), weights.tolist(), strict=True):
            sums += weight * ((self._low <= value) & (value <= self._high))
        self.add(slice(None), sums)


class NumpySums(Sums):
    """What a thoughtful user of NumPy does: sort the batch, sum it up, look up the ends of all ranges."""

    def __init__(self, work: Workload) -> None:
        super().__init__(work)
        # Looking up bounds in their order reads the sorted batch from left to right.
        self._order = np.argsort(work.low[:, 0], kind="stable")
        self._low, self._high = work.low[self._order, 0], work.high[self._order, 0]

    def count(self, values: Floats, weights: Longs) -> None:
        order = np.argsort(values[:, 0], kind="stable")
        sorted_values, sums = values[order, 0], np.concatenate(([0], np.cumsum(weights[order])))
        after = np.searchsorted(sorted_values, self._high, "right")
        before = np.searchsorted(sorted_values, self._low, "left")
        self.add(self._order, sums[after] - sums[before])


class PolarsJoin(Sums):
    """`join_where` and a sum by query."""

    def __init__(self, work: Workload) -> None:
        super().__init__(work)
        columns = {"id": np.arange(len(work.tau)), "lo": work.low[:, 0], "hi": work.high[:, 0]}
        self._queries = pl.LazyFrame(columns)

    def count(self, values: Floats, weights: Longs) -> None:
        rows = pl.LazyFrame({"x": values[:, 0], "w": weights})
        inside = rows.join_where(self._queries, pl.col("x") >= pl.col("lo"), pl.col("x") <= pl.col("hi"))
        sums = inside.group_by("id").agg(pl.col("w").sum()).collect(engine="streaming")
        self.add(sums["id"].to_numpy(), sums["w"].to_numpy())


class DuckJoin(Sums):
    """A range join and a sum by query."""

    def __init__(self, work: Workload) -> None:
        super().__init__(work)
        self._connection = duckdb.connect()
        self._connection.execute("SET merge_join_threshold = 5; SET enable_progress_bar = false")
        columns = {"id": np.arange(len(work.tau)), "lo": work.low[:, 0], "hi": work.high[:, 0]}
        self._connection.register("given", pa.table(columns))
        self._connection.execute("CREATE TABLE s AS SELECT * FROM given")

    def count(self, values: Floats, weights: Longs) -> None:
        self._connection.register("e", pa.table({"x": values[:, 0], "w": weights}))
        sql = "SELECT id, SUM(w)::BIGINT AS w FROM e JOIN s ON s.lo <= e.x AND s.hi >= e.x GROUP BY id"
        sums = self._connection.execute(sql).fetchnumpy()
        self.add(np.asarray(sums["id"]), np.asarray(sums["w"]))


class IntervalTree(Sums):
    """The package `intervaltree`, and one addition for each range found."""

    def __init__(self, work: Workload) -> None:
        super().__init__(work)
        high = np.nextafter(work.high[:, 0], np.inf).tolist()
        ranges = zip(work.low[:, 0].tolist(), high, range(len(high)), strict=True)
        self._tree = Tree(Interval(*each) for each in ranges)

    def count(self, values: Floats, weights: Longs) -> None:
        sums = np.zeros(len(self._tau), np.int64)
        for value, weight in zip(values[:, 0].tolist(), weights.tolist(), strict=True):
            sums[[each.data for each in self._tree.at(value)]] += weight
        self.add(slice(None), sums)


class PostgresJoin(Sums):
    """A join by GiST and a sum by query, all on the server."""

    def __init__(self, work: Workload, address: str) -> None:
        super().__init__(work)
        self._server = Postgres(address)
        run = self._server.run
        run("CREATE UNLOGGED TABLE raw (id int, lo float8, hi float8)")
        self._server.load("raw", [np.arange(len(work.tau)), work.low[:, 0], work.high[:, 0]])
        run("CREATE UNLOGGED TABLE s AS SELECT id, span(lo, hi, '[]') AS r FROM raw")
        run("DROP TABLE raw")
        run("CREATE INDEX ON s USING gist (r)")
        run("VACUUM ANALYZE s")
        run("CREATE TEMP TABLE e (x float8, w bigint)")
        # Sums of many queries are made by hash: to sort all pairs would take longer.
        run("SET enable_sort = off")

    def count(self, values: Floats, weights: Longs) -> None:
        self._server.run("TRUNCATE e")
        self._server.load("e", [values[:, 0], weights])
        sql = "SELECT id, SUM(w)::bigint FROM e JOIN s ON s.r @> e.x GROUP BY id"
        found = np.array(self._server.connection.execute(sql, binary=True).fetchall(), np.int64)
        found = found.reshape(-1, 2)
        self.add(found[:, 0], found[:, 1])

    def close(self) -> None:
        self._server.close()


COUNTERS: dict[str, Callable[[Workload], Counter]] = {
    "Tocsin, the index": Tocsin,
    "NumPy scan": NumpyScan,
    "NumPy, sorted batch": NumpySums,
    "Polars join_where": PolarsJoin,
    "DuckDB range join": DuckJoin,
    "intervaltree": IntervalTree,
}
