"""Who holds an event: the engine, and what a user would take instead, each as its users tune it.

Every matcher is built from a task, and answers the pairs (event, subscription) of a batch in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from intervaltree import Interval
from intervaltree import IntervalTree as Tree
from rtree.index import Index, Property

import tocsin
from benchmarks.choice_parts.scanning import NumpyScan, parts_of
from benchmarks.choice_parts.tasks import Task
from tocsin.arrays.strings import StringInterner
from tocsin.arrays.types import Floats
from tocsin.indexes.contract import MatchIndex
from tocsin.indexes.matching import Events, IdOrder
from tocsin.planning import STREAM, make_index
from tocsin.planning.questions import MATCHING, Question

#: Of each pair an event's place in the batch, and a subscription's number, which may be text.
Pairs: TypeAlias = tuple[np.ndarray, np.ndarray | pa.ChunkedArray]


class Matcher(Protocol):
    """What is asked of a rival."""

    def match(self, events: Events, table: Floats) -> Pairs:
        """All pairs of a batch, in any order."""


class TocsinIndex:
    """The engine's own index, without the engine around it."""

    def __init__(self, task: Task) -> None:
        self._ids = id_order(task.count)
        question: Question[MatchIndex] = Question(MATCHING, STREAM)
        self._index = make_index(question)
        self._index.register(np.arange(task.count, dtype=np.int32), task.subscriptions)

    def match(self, events: Events, table: Floats) -> Pairs:
        found = self._index.apply(events, None, self._ids)
        return found.step, found.subscription


class TocsinPublish:
    """`engine.publish`: rows as Arrow in, changes with the ids of subscriptions out."""

    def __init__(self, task: Task) -> None:
        self._engine = tocsin.Engine()
        self._engine.create_stream("events")
        predicates = {
            "id": np.repeat(np.arange(task.count), task.ranges).astype(str),
            "attribute": np.char.add("a", task.attribute.ravel().astype(str)),
            "operator": np.full(task.attribute.size, "BETWEEN"),
            "value": task.low.ravel(),
            "high": task.high.ravel(),
        }
        self._engine.subscribe_predicates("events", pa.table(predicates))
        self._published = 0

    def match(self, events: Events, table: Floats) -> Pairs:
        rows = pa.table({f"a{place}": table[:, place] for place in range(table.shape[1])})
        changes = self._engine.publish("events", rows)
        seq = changes.column("seq").to_numpy() - self._published
        self._published += len(table)
        return seq, changes.column("subscription")


class PolarsJoin:
    """`join_where` on the first range, whose two inequalities it sorts for; the other ranges by `filter`.

    Subscriptions are apart by their first attribute: a join has no use for those of another. Where a further
    range is always of one attribute, that is a column, else it is looked up.
    """

    def __init__(self, task: Task) -> None:
        self._parts = [(attribute, pl.DataFrame(columns).lazy()) for attribute, columns in parts_of(task)]
        self._others = others_of(task)
        self._dimensions = task.dimensions

    def match(self, events: Events, table: Floats) -> Pairs:
        columns = {f"x{place}": table[:, place] for place in range(table.shape[1])}
        rows = pl.LazyFrame({"event": np.arange(len(table)), **columns})
        flat = pl.Series(table.ravel())
        found = [self._join(attribute, part, rows, flat) for attribute, part in self._parts]
        pairs = pl.concat(pl.collect_all(found, engine="streaming"))
        return pairs["event"].to_numpy(), pairs["id"].to_numpy()

    def _join(self, attribute: int, part: pl.LazyFrame, rows: pl.LazyFrame, flat: pl.Series) -> pl.LazyFrame:
        x = pl.col(f"x{attribute}")
        pairs = rows.join_where(part, x >= pl.col("lo0"), x <= pl.col("hi0"))
        for other, fixed in self._others.items():
            place = pl.col("event") * self._dimensions + pl.col(f"a{other}")
            value = pl.lit(flat).gather(place) if fixed is None else pl.col(f"x{fixed}")
            pairs = pairs.filter(value.is_between(pl.col(f"lo{other}"), pl.col(f"hi{other}")))
        return pairs.select("event", "id")


class DuckJoin:
    """A range join on the first range (its planner takes IEJoin); the other ranges as for Polars."""

    def __init__(self, task: Task) -> None:
        self._connection = duckdb.connect()
        # Below so many rows its planner compares all pairs, which is slower here.
        self._connection.execute("SET merge_join_threshold = 5; SET enable_progress_bar = false")
        self._queries = []
        self._others = others_of(task)
        tests = "".join(
            f" AND {f'e.v[s.a{other} + 1]' if fixed is None else f'e.x{fixed}'} "
            f"BETWEEN s.lo{other} AND s.hi{other}"
            for other, fixed in self._others.items()
        )
        for attribute, columns in parts_of(task):
            self._connection.register("part", pa.table(columns))
            self._connection.execute(f"CREATE TABLE s{attribute} AS SELECT * FROM part")
            x = f"e.x{attribute}"
            self._queries.append(
                f"SELECT e.event, s.id FROM e JOIN s{attribute} s ON s.lo0 <= {x} AND s.hi0 >= {x}{tests}"
            )

    def match(self, events: Events, table: Floats) -> Pairs:
        columns = {f"x{place}": pa.array(table[:, place]) for place in range(table.shape[1])}
        if None in self._others.values():
            columns["v"] = pa.FixedSizeListArray.from_arrays(pa.array(table.ravel()), table.shape[1])
        self._connection.register("e", pa.table({"event": pa.array(np.arange(len(table))), **columns}))
        pairs = self._connection.execute(" UNION ALL ".join(self._queries)).fetchnumpy()
        return np.asarray(pairs["event"]), np.asarray(pairs["id"])


class IntervalTree:
    """The package `intervaltree`, built at once. Its ranges are half open: they end at the next double."""

    def __init__(self, task: Task) -> None:
        high = np.nextafter(task.high[:, 0], np.inf)
        ranges = zip(task.low[:, 0].tolist(), high.tolist(), range(task.count), strict=True)
        self._tree = Tree(Interval(*each) for each in ranges)

    def match(self, events: Events, table: Floats) -> Pairs:
        found = [self._tree.at(value) for value in table[:, 0].tolist()]
        slots = np.fromiter((each.data for hits in found for each in hits), np.int64)
        return np.repeat(np.arange(len(table)), [len(hits) for hits in found]), slots


class RTree:
    """The package `rtree`: packed from arrays, asked for a batch at once; one for each set of attributes."""

    def __init__(self, task: Task) -> None:
        self._trees = []
        shapes, place = np.unique(task.attribute, axis=0, return_inverse=True)
        for number, asked in enumerate(shapes):
            mine = np.flatnonzero(place == number)
            low, high = _flat(task.low[mine]), _flat(task.high[mine])
            # Its default of 100 a node is for disks.
            properties = Property(dimension=low.shape[1], leaf_capacity=32, index_capacity=32)
            tree = Index((mine.astype(np.int64), low, high), properties=properties, interleaved=False)
            self._trees.append((asked, tree))

    def match(self, events: Events, table: Floats) -> Pairs:
        place, slots = [], []
        for asked, tree in self._trees:
            values = _flat(table[:, asked])
            found, counts = tree.intersection_v(values, values)
            slots.append(found)
            place.append(np.repeat(np.arange(len(table)), counts.astype(np.int64)))
        return np.concatenate(place), np.concatenate(slots)


MATCHERS: dict[str, Callable[[Task], Matcher]] = {
    "Tocsin, the index": TocsinIndex,
    "Tocsin, publish": TocsinPublish,
    "NumPy scan": NumpyScan,
    "Polars join_where": PolarsJoin,
    "DuckDB range join": DuckJoin,
    "rtree": RTree,
    "intervaltree": IntervalTree,
}


def numbers_of(subscriptions: np.ndarray | pa.ChunkedArray) -> np.ndarray:
    """Numbers that a matcher answered, if as text."""
    return np.asarray(subscriptions).astype(np.int64)


def others_of(task: Task) -> dict[int, int | None]:
    """Of each range but the first the attribute, if it is the same for all."""
    found: dict[int, int | None] = {}
    for other in range(1, task.ranges):
        asked = np.unique(task.attribute[:, other])
        found[other] = int(asked[0]) if len(asked) == 1 else None
    return found


def id_order(count: int) -> IdOrder:
    """Ids of subscriptions by slot, which decide between equal scores."""
    names = StringInterner()
    owner, _ = names.add(pa.array([f"s{number:08d}" for number in range(count)]))
    columns = names.columns
    return IdOrder(columns.heap, columns.starts, columns.lengths, owner.astype(np.int32))


def _flat(columns: Floats) -> Floats:
    """As rtree takes them: it has no trees of one dimension."""
    one = np.zeros((len(columns), 2 - columns.shape[1])) if columns.shape[1] < 2 else columns[:, :0]
    return np.ascontiguousarray(np.concatenate((columns, one), axis=1))
