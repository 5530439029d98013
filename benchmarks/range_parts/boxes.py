"""Changes of COUNT, SUM, DISTINCT, joins and boxes: found in a tree, beside testing every box."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.types import Floats, Ints
from tocsin.indexes.contract import ABSENT, RowDelta
from tocsin.indexes.ranges import BoxTotals, MinMaxBoxTree, RangeDistinct, RangeJoin, RangeTotals, TopKBoxTree
from tocsin.indexes.ranges.steps.bounds import TREE_SETTINGS, TreeSettings

ROWS = 10_000
VALUES = 100
#: Rows that are changed one by one, and rows of a batch.
SINGLE = 300
BATCH = 1000
#: The part of all rows that a subscription holds, on average.
PART = 0.001

#: No tree, or one of a single leaf: every box is tested.
SCAN = TreeSettings(min_boxes=1 << 60, leaf=1 << 60)


@dataclass(frozen=True)
class Kind:
    """What is asked for, over how many ranges, and what a row has besides."""

    name: str
    dimensions: int
    make: Callable[[TreeSettings], Any]
    #: whether a row that changes moves, or only gets other values
    is_moved: bool = False
    has_codes: bool = False
    is_join: bool = False


KINDS = (
    Kind("COUNT, 1 range", 1, lambda trees: RangeTotals(1, function="count", trees=trees), is_moved=True),
    Kind("SUM, 1 range", 1, lambda trees: RangeTotals(1, function="sum", trees=trees)),
    Kind("DISTINCT, 1 range", 1, lambda trees: RangeDistinct(1, trees=trees), has_codes=True),
    Kind("join, 1 + 1 ranges", 2, lambda trees: RangeJoin(1, 1, trees=trees), is_join=True),
    Kind("top-10, 2 ranges", 2, lambda trees: TopKBoxTree(2, descending=False, trees=trees)),
    Kind("MAX, 2 ranges", 2, lambda trees: MinMaxBoxTree(2, descending=True, trees=trees)),
    Kind("SUM, 2 ranges", 2, lambda trees: BoxTotals(2, function="sum", trees=trees)),
    Kind("DISTINCT, 2 ranges", 2, lambda trees: RangeDistinct(2, trees=trees), has_codes=True),
    Kind("top-10, 3 ranges", 3, lambda trees: TopKBoxTree(3, descending=False, trees=trees)),
)


@dataclass
class Cost:
    """What one kind took at one size: by the tree, and by testing every box."""

    kind: str
    subscriptions: int
    #: microseconds a row, of rows one by one and of a batch; changes told
    single_us: float
    scan_single_us: float
    batch_us: float
    scan_batch_us: float
    single_changes: float
    batch_changes: int

    def record(self) -> dict[str, object]:
        """One line of the results."""
        return {"what": "boxes", **self.__dict__}


class World:
    """A table (of a join, the left one), and what happens to it."""

    def __init__(self, kind: Kind, subscriptions: int) -> None:
        self.kind = kind
        self.random = np.random.default_rng(11)
        width = PART ** (1 / kind.dimensions)
        lo = self.random.random((subscriptions, kind.dimensions)) * (1 - width)
        hi = lo + 2 * width * self.random.random(lo.shape)
        self.values = {"lo": lo, "hi": hi, "k": np.full(subscriptions, 10, np.int32)}
        self.slots: Ints = np.arange(subscriptions, dtype=np.int32)
        self.now = self.rows(ROWS)
        self.other = self.rows(ROWS)
        parts = [self.random.permutation(ROWS) for _ in range(2)]
        self.steps = [(part, self.rows(len(part))) for part in (parts[0][:SINGLE], parts[1][:BATCH])]
        self.warm = parts[0][-SINGLE:], self.rows(SINGLE)

    def rows(self, count: int) -> Floats:
        codes = self.random.integers(0, VALUES, (count, 1)).astype(np.float64)
        if self.kind.is_join:
            # About ten partners a row.
            codes = self.random.integers(0, ROWS // 10, (count, 1)).astype(np.float64)
            return np.concatenate((self.random.random((count, 1)), codes), axis=1)
        x = self.random.random((count, self.kind.dimensions))
        y = np.concatenate((codes, -codes), axis=1) if self.kind.has_codes else self.random.random((count, 1))
        return np.concatenate((x, y), axis=1)

    def play(self, trees: TreeSettings) -> tuple[float, float, int, int]:
        """Seconds for the single rows and for the batch, and the changes of each."""
        index = self.kind.make(trees)
        index.register(self.slots, self.values)
        now = self.now.copy()
        nothing = np.full(now.shape, np.nan)
        self._apply(index, _delta(np.arange(ROWS), nothing, now, each=False, are_new=True))
        if self.kind.is_join:
            index.apply(_delta(np.arange(ROWS), nothing, self.other, each=False, are_new=True), 1)
        took, told = [], []
        for (rows, drawn), each in ((self.warm, True), (self.steps[0], True), (self.steps[1], False)):
            after = drawn.copy()
            if not self.kind.is_moved:
                after[:, : self.kind.dimensions] = now[rows, : self.kind.dimensions]
            if self.kind.is_join:
                after = np.concatenate((drawn[:, :1], now[rows, 1:]), axis=1)
            delta = _delta(rows, now[rows], after, each=each, are_new=False)
            now[rows] = after
            gc.collect()
            start = time.process_time()
            changes = self._apply(index, delta)
            took.append(time.process_time() - start)
            told.append(len(changes.step))
        return took[1], took[2], told[1], told[2]

    def _apply(self, index: Any, delta: RowDelta) -> ChangeSet:
        changes: ChangeSet = index.apply(delta, 0) if self.kind.is_join else index.apply(delta)
        return changes


def measure_boxes(subscriptions: int) -> list[Cost]:
    """All kinds, by the tree and by testing every box, on the same rows; the changes must be as many."""
    costs = []
    for kind in KINDS:
        world = World(kind, subscriptions)
        single, batch, n_single, n_batch = world.play(TREE_SETTINGS)
        scan_single, scan_batch, *same = world.play(SCAN)
        assert same == [n_single, n_batch]
        costs.append(
            Cost(
                kind=kind.name,
                subscriptions=subscriptions,
                single_us=round(1e6 * single / SINGLE, 1),
                scan_single_us=round(1e6 * scan_single / SINGLE, 1),
                batch_us=round(1e6 * batch / BATCH, 1),
                scan_batch_us=round(1e6 * scan_batch / BATCH, 1),
                single_changes=n_single / SINGLE,
                batch_changes=n_batch,
            )
        )
    return costs


def box_table(costs: list[Cost]) -> Table:
    """What was measured, to print."""
    table = Table(title="microseconds a row: a tree over boxes, beside testing each", title_justify="left")
    for heading in (
        "what",
        "subscriptions",
        "changes",
        "tree",
        "every box",
        "times",
        "batch",
        "every box",
        "times",
    ):
        table.add_column(heading, justify="right")
    for cost in costs:
        table.add_row(
            cost.kind,
            f"{cost.subscriptions:,}",
            f"{cost.single_changes:,.0f}",
            f"{cost.single_us:,.1f}",
            f"{cost.scan_single_us:,.1f}",
            f"{cost.scan_single_us / cost.single_us:,.1f}",
            f"{cost.batch_us:,.1f}",
            f"{cost.scan_batch_us:,.1f}",
            f"{cost.scan_batch_us / cost.batch_us:,.1f}",
        )
    return table


def _delta(rows: np.ndarray, before: Floats, after: Floats, *, each: bool, are_new: bool) -> RowDelta:
    count = len(rows)
    born = rows.astype(np.int64)
    return RowDelta(
        seq=np.arange(count if each else 1, dtype=np.int64),
        step=np.arange(count, dtype=np.int32) if each else np.zeros(count, np.int32),
        row=rows.astype(np.int32),
        born_before=np.full(count, ABSENT, np.int64) if are_new else born,
        born_after=born,
        before=before,
        after=after,
        touched=np.zeros(count, np.bool_),
    )
