"""How each index is driven by the contract suite: what its subscriptions are, and what happens to it.

A new index joins the suite by one entry in `WORKLOADS`. Values are few, so that ties and hits are common.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from tests.oracles.members import MemberRow, State, delta_of
from tests.planning.indexes import aggregate_index, matching, minmax_of_range, thresholds, topk_of_range
from tocsin.arrays.changes import LEAVE
from tocsin.arrays.strings import StringInterner
from tocsin.arrays.types import Bools
from tocsin.engine.conversion.events import events_from_rows
from tocsin.indexes.contract import RowIndex
from tocsin.indexes.filters.index import FilterIndex
from tocsin.indexes.matching import AccessIndex, IdOrder, MatchScan, PredicateColumns
from tocsin.indexes.preferences import CandidateLists
from tocsin.indexes.preferences.long_lists.index import LongLists
from tocsin.indexes.ranges import (
    MinMaxTiles,
    RangeDistinct,
    RangeJoin,
    TopKBoxTree,
    TopKTiles,
)
from tocsin.indexes.ranges.steps.bounds import TREE_SETTINGS, TreeSettings
from tocsin.indexes.thresholds import DeferredThresholds, ThresholdScan
from tocsin.kernels.programs import program
from tocsin.papers.be_star_tree import BEStarTree, BETree, CountingIndex, KIndex, TreeOptions
from tocsin.papers.sliding_windows import (
    MatrixRecompute,
    PreferenceScan,
    SkybandMonitoring,
    ThresholdSortedLists,
    TopKMonitoring,
)
from tocsin.papers.thresholding.baselines import IntervalTree, RTree, SegmentIntervalTree
from tocsin.papers.thresholding.tracking import EndpointTrees
from tocsin.planning.adaptive import SwitchPoint
from tocsin.planning.limit_classes import ByLimit, LimitClass
from tocsin.planning.rules import ACCESS, DEFERRED

#: A capacity to an empty index. Rooms differ in what `register` and `apply` take.
Make: TypeAlias = Callable[[int], Any]

NAN, INF = math.nan, math.inf
LEAVES_OF_TWO = TreeOptions(leaf=2)
NUMBERS = (-INF, -1.0, -0.0, 0.0, 1.0, 2.0, INF, NAN)
BOUNDS = (-INF, -1.0, -0.0, 0.0, 1.0, 2.0, INF)
TEXTS = ("", "a", "abcdef", "abcdefg", "é")
#: Subscription slots that the suite uses.
SLOTS = 8
#: How an answer is ordered: by rank, by the rows' age, by the values' code, or it is one value.
BY_RANK, BY_AGE, BY_CODE, ONE_VALUE = "rank", "age", "code", "value"


class Change(NamedTuple):
    """One row of a `ChangeSet`."""

    step: int
    subscription: int
    op: int
    row: int
    other: int
    score: float
    rank: int


class Source(Protocol):
    """What happens: steps, of a kind that only the workload understands."""

    def steps(self, random: Random, count: int) -> list[Any]:
        """The next steps, which go together into one batch."""

    def fill_and_empty(self, random: Random) -> list[Any]:
        """One step that inserts many rows, and one that removes them; for a stream, a few events."""


class Workload(ABC):
    """Everything that the suite must know about one index."""

    make: Make
    #: whether the index keeps the rows of a source, and so its subscriptions' answers
    has_rows = False
    #: whether the engine may hand `apply` what it cannot write to
    takes_read_only = True
    #: rounds of coming and going that it takes at least until what is wasted is compacted
    least_rounds = 0

    @property
    def folder(self) -> str:
        """The folder of the indexes that this one is of."""
        index = self.make(2)
        for part in ("_first", "current"):
            index = getattr(index, part, index)
        return type(index).__module__.split(".")[2]

    @abstractmethod
    def values(self, random: Random, count: int) -> Any:
        """What `register` takes for `count` subscriptions."""

    @abstractmethod
    def source(self) -> Source:
        """A source at its beginning."""

    @abstractmethod
    def batch(self, steps: Sequence[Any]) -> tuple[Any, ...]:
        """What `apply` takes for these steps."""

    def net(self, steps: list[Any]) -> list[Any]:
        """The same in as few steps as there can be."""
        return steps

    def is_ending(self, values: Any, count: int) -> Bools:
        """Which of `count` subscriptions the engine ends at their first change."""
        return np.zeros(count, np.bool_)

    def place(self, step: Any, change: Change, answer: list[Change]) -> tuple[Any, ...]:
        """Where a change stands within its step; `answer` is what its subscription held before."""
        return (change.subscription, change.op, change.rank)


class RowStep(NamedTuple):
    """What the tables of a row index held before and after one step, which changed one of them."""

    side: int
    before: tuple[State, ...]
    after: tuple[State, ...]


@dataclass(frozen=True)
class RowWorkload(Workload):
    """An index over the rows of a table or a window; with two entries in `dimensions`, of two tables."""

    make: Make
    order: str
    #: of the box, by table
    dimensions: tuple[int, ...] = (1,)
    #: the columns of a row after those of the box
    extra: Callable[[Random], tuple[float, ...]] = lambda random: (random.choice(NUMBERS),)
    n_theta: int = 0
    #: whether rows leave in the order in which they arrived
    is_window: bool = False
    has_rows = True

    def values(self, random: Random, count: int) -> Mapping[str, np.ndarray]:
        def numbers(*shape: int) -> np.ndarray:
            return np.array([random.choice(BOUNDS) for _ in range(math.prod(shape))]).reshape(shape) + 0.0

        box = (count, sum(self.dimensions))
        return {
            "lo": np.minimum(numbers(*box), numbers(*box)),
            "hi": np.maximum(numbers(*box), 0.0),
            "k": np.array([random.choice((1, 2, 3, 50)) for _ in range(count)], np.int32),
            "theta": np.array([float(random.randint(-1, 2)) for _ in range(count * self.n_theta)]).reshape(
                count, self.n_theta
            ),
            "region": numbers(count, 3),
            "score_lo": np.minimum(numbers(count), 0.0),
            "score_hi": np.maximum(numbers(count), 1.0),
        }

    def source(self) -> Source:
        return WindowSource(self) if self.is_window else RowSource(self)

    def batch(self, steps: Sequence[RowStep]) -> tuple[Any, ...]:
        side = steps[0].side if steps else 0
        n_columns = self.dimensions[side] + len(self.extra(Random(0)))
        delta = delta_of([(step.before[side], step.after[side]) for step in steps], n_columns)
        return (delta,) if len(self.dimensions) == 1 else (delta, side)

    def net(self, steps: list[RowStep]) -> list[RowStep]:
        return [RowStep(steps[0].side, steps[0].before, steps[-1].after)] if steps else []

    def place(self, step: RowStep, change: Change, answer: list[Change]) -> tuple[Any, ...]:
        start = (change.subscription, change.op, change.rank)
        if self.order == BY_AGE:
            tables = step.before if change.op == LEAVE else step.after
            rows = (change.row, change.other)[: len(tables)]
            return (*start, *(table[row].born for table, row in zip(tables, rows, strict=True)))
        if self.order == BY_CODE:
            return (*start, change.row)
        if self.order == BY_RANK and change.op == LEAVE:
            return (*start, [held.row for held in answer].index(change.row))
        return start


class RowSource:
    """Tables whose rows come, change and go."""

    def __init__(self, workload: RowWorkload) -> None:
        self._workload = workload
        self._tables: tuple[State, ...] = ({},) * len(workload.dimensions)
        self._born = 0

    def steps(self, random: Random, count: int) -> list[RowStep]:
        side = random.randrange(len(self._tables))
        return [self._step(random, side) for _ in range(count)]

    def fill_and_empty(self, random: Random) -> list[RowStep]:
        side = random.randrange(len(self._tables))
        rows = {slot: self._row(random, side) for slot in range(24)}
        empty = self._move(side, {})
        return [empty, self._move(side, rows), self._move(side, {})]

    def _step(self, random: Random, side: int) -> RowStep:
        table = dict(self._tables[side])
        for slot in random.sample(range(6), random.randint(0, 3)):
            row, what = table.get(slot), random.choice(("put", "put", "touch", "delete", "again"))
            if row is None or what == "again":
                table[slot] = self._row(random, side)
            elif what == "delete":
                del table[slot]
            elif what == "touch":
                table[slot] = row._replace(version=row.version + 1)
            else:
                table[slot] = row._replace(values=self._row(random, side).values)
        return self._move(side, table)

    def _row(self, random: Random, side: int) -> MemberRow:
        self._born += 1
        box = tuple(random.choice(NUMBERS) for _ in range(self._workload.dimensions[side]))
        return MemberRow(self._born, box + self._workload.extra(random))

    def _move(self, side: int, table: State) -> RowStep:
        before = self._tables
        self._tables = (*before[:side], table, *before[side + 1 :])
        return RowStep(side, before, self._tables)


class WindowSource(RowSource):
    """A window, whose oldest rows leave first."""

    def _step(self, random: Random, side: int) -> RowStep:
        table = dict(self._tables[side])
        for slot in sorted(table, key=lambda slot: table[slot].born)[: random.randint(0, 2)]:
            del table[slot]
        free = [slot for slot in range(6) if slot not in table]
        for slot in random.sample(free, min(len(free), random.randint(0, 3))):
            table[slot] = self._row(random, side)
        return self._move(side, table)


class EventSource:
    """Events one after the other, each of them a step."""

    def __init__(self, event: Callable[[Random], Any]) -> None:
        self._event = event

    def steps(self, random: Random, count: int) -> list[Any]:
        return [self._event(random) for _ in range(count)]

    def fill_and_empty(self, random: Random) -> list[Any]:
        return self.steps(random, 6)


@dataclass(frozen=True)
class ThresholdWorkload(Workload):
    """An index of thresholds; a step is a point and a weight."""

    make: Make
    dimensions: int = 1

    def values(self, random: Random, count: int) -> Mapping[str, np.ndarray]:
        numbers = [random.choice(BOUNDS) for _ in range(2 * count * self.dimensions)]
        ends = np.array(numbers).reshape(2, count, self.dimensions)
        return {
            "lo": ends.min(axis=0),
            "hi": ends.max(axis=0),
            "tau": np.array([random.choice((1, 2, 5, 20)) for _ in range(count)], np.int64),
            "repeat": np.array([random.random() < 0.5 for _ in range(count)], np.bool_),
        }

    def source(self) -> Source:
        return EventSource(self._event)

    def batch(self, steps: Sequence[tuple[tuple[float, ...], int]]) -> tuple[Any, ...]:
        points = np.array([point for point, _ in steps], np.float64).reshape(len(steps), self.dimensions)
        return points, np.array([weight for _, weight in steps], np.int64)

    def is_ending(self, values: Mapping[str, np.ndarray], count: int) -> Bools:
        return ~values["repeat"]

    def _event(self, random: Random) -> tuple[tuple[float, ...], int]:
        point = tuple(random.choice(NUMBERS) for _ in range(self.dimensions))
        return point, random.choice((0, 1, 2, 3, 30))


@dataclass(frozen=True)
class MatchWorkload(Workload):
    """An index of boolean expressions; a step is a sparse row."""

    make: Make
    top: int | None = None
    least_rounds: int = 0
    # Events are read into fresh columns by the indexes themselves, and ids are the engine's own.
    takes_read_only = False

    def values(self, random: Random, count: int) -> list[PredicateColumns]:
        return [self._predicate(random, count) for _ in range(random.randint(0, 3))]

    def source(self) -> Source:
        return EventSource(self._event)

    def batch(self, steps: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
        return events_from_rows(steps), self.top, _ids()

    def place(self, step: Any, change: Change, answer: list[Change]) -> tuple[Any, ...]:
        """The best of an event are told by rank."""
        return (change.subscription, change.op) if self.top is None else (change.rank,)

    def _predicate(self, random: Random, count: int) -> PredicateColumns:
        operator = random.choice(("<", "=", "<>", ">=", "BETWEEN", "IN", "NOT IN"))
        width = 2 if operator in ("BETWEEN", "IN", "NOT IN") else 1
        weight = np.array([random.choice((0.1, 0.2, 0.3, 1.0)) for _ in range(count)])
        operands: tuple[Any, ...]
        if random.random() < 0.5:
            operands = tuple(np.array(random.choices(BOUNDS, k=count)) + 0.0 for _ in range(width))
        else:
            operands = tuple(pa.array(random.choices(TEXTS, k=count), pa.string()) for _ in range(width))
        return PredicateColumns(random.choice("ab"), operator, operands, weight)

    def _event(self, random: Random) -> dict[str, Any]:
        event: dict[str, Any] = {"_weights": {"a": random.choice((0.5, 2.0))}}
        for name in random.sample("abc", random.randint(0, 3)):
            event[name] = random.choice((*NUMBERS, *TEXTS, (-1.0, 1.0), True))
        return event


def _ids() -> IdOrder:
    """Ids whose order is not that of the slots."""
    names = StringInterner()
    owner = np.array([names.add([f"id{5 * slot % SLOTS}"])[0][0] for slot in range(SLOTS)], np.int32)
    return IdOrder(names.columns.heap, names.columns.starts, names.columns.lengths, owner)


def _code(random: Random) -> tuple[float, ...]:
    """A value as a small whole number, NaN for NULL, and the value itself."""
    code = random.choice((0.0, 1.0, 2.0, NAN))
    return code, -10.0 * code


#: Trees over boxes from two of them on, with one a leaf and two in the tail.
TINY = TreeSettings(min_boxes=2, leaf=1, tail=2)

_SUM = program([("column", 0), ("theta", 0), ("multiply", 0), ("column", 1), ("add", 0)])


def _two_columns(random: Random) -> tuple[float, ...]:
    return random.choice(NUMBERS), random.choice(NUMBERS)


def _three_columns(random: Random) -> tuple[float, ...]:
    return (*_two_columns(random), random.choice(NUMBERS))


def _long_lists(capacity: int) -> LongLists:
    score = program([("column", 0)])
    return LongLists(1, score, descending=False, newest_first=False, capacity=capacity)


def _aggregate(
    function: str, dimensions: int, trees: TreeSettings = TREE_SETTINGS, region: str | None = None
) -> RowWorkload:
    def make(capacity: int) -> RowIndex:
        return aggregate_index(dimensions, function=function, region=region, capacity=capacity, trees=trees)

    if region is None:
        return RowWorkload(make, ONE_VALUE, (dimensions,))
    return RowWorkload(make, ONE_VALUE, (dimensions,), _three_columns)


def _preference(
    kind: Callable[..., RowIndex],
    *,
    newest_first: bool,
    descending: bool,
    dimensions: int,
    is_window: bool = False,
    **more: int,
) -> RowWorkload:
    def make(capacity: int) -> RowIndex:
        return kind(
            dimensions, _SUM, descending=descending, newest_first=newest_first, capacity=capacity, **more
        )

    return RowWorkload(make, BY_RANK, (dimensions,), _two_columns, n_theta=1, is_window=is_window)


WORKLOADS: dict[str, Workload] = {
    "top-k": RowWorkload(lambda capacity: TopKBoxTree(1, descending=False, capacity=capacity), BY_RANK),
    "top-k descending": RowWorkload(
        lambda capacity: TopKBoxTree(2, descending=True, capacity=capacity), BY_RANK, (2,)
    ),
    "top-k by tiles": RowWorkload(lambda capacity: TopKTiles(descending=True, capacity=capacity), BY_RANK),
    "top-k by tiles, long steps": RowWorkload(
        lambda capacity: TopKTiles(descending=False, capacity=capacity, log_capacity=2), BY_RANK
    ),
    "top-k by scan or tiles": RowWorkload(
        lambda capacity: topk_of_range(descending=False, capacity=capacity, min_subscriptions=4), BY_RANK
    ),
    "long top-k lists": RowWorkload(_long_lists, BY_RANK),
    "top-k by classes of k": RowWorkload(
        lambda capacity: ByLimit(
            topk_of_range(descending=False, capacity=capacity, min_subscriptions=4),
            [LimitClass(1, lambda: _long_lists(capacity))],
        ),
        BY_RANK,
    ),
    "min by scan or tiles": RowWorkload(
        lambda capacity: minmax_of_range(descending=False, capacity=capacity, min_subscriptions=2), ONE_VALUE
    ),
    "min by tiles": RowWorkload(lambda capacity: MinMaxTiles(descending=False, capacity=capacity), ONE_VALUE),
    "top-k of boxes by tree": RowWorkload(
        lambda capacity: TopKBoxTree(2, descending=False, capacity=capacity, trees=TINY), BY_RANK, (2,)
    ),
    "min": _aggregate("min", 1),
    "max by tree": _aggregate("max", 2, TINY),
    "count by tree": _aggregate("count", 1, TINY),
    "sum by tree": _aggregate("sum", 1, TINY),
    "avg of boxes by tree": _aggregate("avg", 2, TINY),
    "max": _aggregate("max", 2),
    "count": _aggregate("count", 1),
    "sum": _aggregate("sum", 2),
    "avg": _aggregate("avg", 0),
    "distinct": RowWorkload(lambda capacity: RangeDistinct(1, capacity=capacity), BY_CODE, extra=_code),
    "distinct by tree": RowWorkload(
        lambda capacity: RangeDistinct(2, capacity=capacity, trees=TINY), BY_CODE, (2,), extra=_code
    ),
    "top-k of disks": RowWorkload(
        lambda capacity: TopKBoxTree(1, region="disk", descending=True, capacity=capacity),
        BY_RANK,
        extra=_three_columns,
    ),
    "top-k of half-planes by tree": RowWorkload(
        lambda capacity: TopKBoxTree(0, region="half-plane", descending=False, capacity=capacity, trees=TINY),
        BY_RANK,
        (0,),
        _three_columns,
    ),
    "max of half-planes": _aggregate("max", 1, TREE_SETTINGS, "half-plane"),
    "sum of disks by tree": _aggregate("sum", 0, TINY, "disk"),
    "distinct of disks by tree": RowWorkload(
        lambda capacity: RangeDistinct(0, capacity=capacity, region="disk", trees=TINY),
        BY_CODE,
        (0,),
        lambda random: (*_two_columns(random), *_code(random)),
    ),
    "join": RowWorkload(
        lambda capacity: RangeJoin(1, 1, capacity=capacity),
        BY_AGE,
        (1, 1),
        lambda random: (random.choice((-0.0, 0.0, 1.0, NAN)),),
    ),
    "live rows": RowWorkload(
        lambda capacity: FilterIndex(2, None, capacity), BY_AGE, (2,), lambda random: ()
    ),
    "score threshold": RowWorkload(
        lambda capacity: FilterIndex(1, _SUM, capacity), BY_AGE, extra=_two_columns, n_theta=1
    ),
    "preference, newest first": _preference(PreferenceScan, newest_first=True, descending=True, dimensions=0),
    "preference, oldest first": _preference(
        PreferenceScan, newest_first=False, descending=False, dimensions=1
    ),
    "preference by views": _preference(
        CandidateLists, newest_first=True, descending=True, dimensions=1, cells=8
    ),
    "preference by views, oldest first": _preference(
        CandidateLists, newest_first=False, descending=False, dimensions=0, cells=8
    ),
    "threshold scan": ThresholdWorkload(lambda capacity: ThresholdScan(1, 1, capacity)),
    "threshold scan 2-d": ThresholdWorkload(lambda capacity: ThresholdScan(2, 100, capacity), 2),
    "lazy thresholds": ThresholdWorkload(lambda capacity: DeferredThresholds(1, 1, capacity)),
    "lazy thresholds 2-d": ThresholdWorkload(lambda capacity: DeferredThresholds(2, 100, capacity), 2),
    "adaptive thresholds": ThresholdWorkload(
        lambda capacity: thresholds(1, 1, capacity, DEFERRED._replace(min_subscriptions=5))
    ),
    "endpoint trees": ThresholdWorkload(lambda capacity: EndpointTrees(1, 1, capacity)),
    "interval tree": ThresholdWorkload(lambda capacity: IntervalTree(1, 1, capacity)),
    "segment-interval tree": ThresholdWorkload(lambda capacity: SegmentIntervalTree(2, 1, capacity), 2),
    "R-tree": ThresholdWorkload(lambda capacity: RTree(2, 1, capacity), 2),
    "match scan": MatchWorkload(lambda capacity: MatchScan(capacity)),
    "match scan, best two": MatchWorkload(lambda capacity: MatchScan(capacity), top=2),
    "access predicates": MatchWorkload(lambda capacity: AccessIndex(capacity, tail=2)),
    "access predicates, best two": MatchWorkload(lambda capacity: AccessIndex(capacity, tail=2), top=2),
    "lone ranges": MatchWorkload(lambda capacity: AccessIndex(capacity, tail=2, min_single=1)),
    "lone ranges, best two": MatchWorkload(
        lambda capacity: AccessIndex(capacity, tail=2, min_single=1), top=2
    ),
    "adaptive matching": MatchWorkload(
        lambda capacity: matching(capacity, ACCESS._replace(min_subscriptions=5))
    ),
    "adaptive matching, by work": MatchWorkload(
        lambda capacity: matching(capacity, SwitchPoint(min_subscriptions=50, min_pairs=12, pairs_from=2))
    ),
    "TMA": _preference(TopKMonitoring, newest_first=True, descending=True, dimensions=0, cells=8),
    "SMA": _preference(
        SkybandMonitoring, newest_first=True, descending=False, dimensions=1, is_window=True, cells=8
    ),
    "TSL": _preference(ThresholdSortedLists, newest_first=True, descending=True, dimensions=1),
    "recomputing": _preference(MatrixRecompute, newest_first=False, descending=True, dimensions=0),
    "BE*-Tree": MatchWorkload(lambda capacity: BEStarTree(capacity, options=LEAVES_OF_TWO), least_rounds=100),
    "BE*-Tree, best two": MatchWorkload(
        lambda capacity: BEStarTree(capacity, options=LEAVES_OF_TWO), top=2, least_rounds=100
    ),
    "BE-Tree": MatchWorkload(lambda capacity: BETree(capacity, options=LEAVES_OF_TWO), least_rounds=100),
    "k-index": MatchWorkload(lambda capacity: KIndex(capacity)),
    "counting index, best two": MatchWorkload(lambda capacity: CountingIndex(capacity), top=2),
}
