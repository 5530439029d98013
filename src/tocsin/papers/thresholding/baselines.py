"""Baselines of distributed tracking: index the boxes, find those that hold a row, and count in each.

Each of them updates every query that a row counts for, however much that query is missing. They are static
structures, packed as tightly as possible and made dynamic by the logarithmic method, which is faster than
inserting box by box.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tocsin.arrays.types import Bools, Floats, Longs
from tocsin.papers.thresholding.baselines_kernels import (
    FAN_SHIFT,
    Intervals,
    RectangleTree,
    Tallies,
    count_in_intervals,
    count_in_rectangles,
    find_centres,
)
from tocsin.papers.thresholding.logarithmic_method import LogarithmicMethod, QueryBoxes, StaticLevel
from tocsin.papers.thresholding.maturities import N_ROWS, MaturityRows
from tocsin.papers.thresholding.nested_trees import build_nested_trees


class IntervalLevel:
    """Interval trees on the last axis, under segment trees on the axes before it."""

    def __init__(self, boxes: QueryBoxes) -> None:
        pairs = build_nested_trees(boxes.low, boxes.high)
        self._nested = pairs.nested
        self._tallies = _tallies(boxes)
        self._trees = np.empty(pairs.max_trees, np.int32)
        query = np.repeat(np.arange(len(boxes.tau), dtype=np.int32), np.diff(pairs.pair_begin))
        node = np.empty(len(query), np.int64)
        find_centres(pairs.nested.tree_begin, pairs.pair_tree, pairs.pair_first, pairs.pair_last, node)
        by_first = np.lexsort((pairs.pair_first, node))
        by_last = np.lexsort((-pairs.pair_last, node))
        list_begin = np.searchsorted(node[by_first], np.arange(len(pairs.nested.bound) + 1))
        self._lists = Intervals(
            list_begin,
            pairs.pair_first[by_first],
            query[by_first],
            pairs.pair_last[by_last],
            query[by_last],
        )

    def count(self, values: Floats, weights: Longs, cursor: Longs, out: MaturityRows) -> int:
        """Count a batch from the cursor on. Cost: log(queries) ** axes, and all hits, an event."""
        return count_in_intervals(
            self._nested, self._lists, self._tallies, values, weights, self._trees, cursor, out
        )

    def drop(self, queries: Longs) -> None:
        """Stop reporting queries. Cost: constant each."""
        self._tallies.is_gone[queries] = True

    def reached(self, queries: Longs) -> Longs:
        """The weight that live queries have counted. Cost: constant each."""
        reached: Longs = self._tallies.target[queries] - self._tallies.left[queries]
        return reached

    def check(self, is_living: Bools) -> None:
        """Assert that all columns agree. For tests."""
        _check_tallies(self._tallies, is_living)
        lists, begin = self._lists, self._lists.list_begin
        assert begin[0] == 0
        assert begin[-1] == len(lists.first) == len(lists.last)
        for first, last in pairwise(begin.tolist()):
            assert (np.diff(lists.first[first:last]) >= 0).all()
            assert (np.diff(lists.last[first:last]) <= 0).all()
            assert sorted(lists.first_query[first:last]) == sorted(lists.last_query[first:last])


class RectangleLevel:
    """A packed R-tree."""

    def __init__(self, boxes: QueryBoxes) -> None:
        order = _tile_order(boxes.low, boxes.high)
        #: int64 (queries,): place of each query among the tree's boxes.
        self._place = np.empty(len(order), np.int64)
        self._place[order] = np.arange(len(order))
        #: int32 (queries,): the inverse.
        self._order = order.astype(np.int32)
        self._tallies = _tallies(boxes.rows(order))
        self._tree = _pack(boxes.low[order], boxes.high[order])
        n_levels = len(self._tree.level_begin) - 1
        self._stack = np.empty(n_levels << FAN_SHIFT, np.int64)

    def count(self, values: Floats, weights: Longs, cursor: Longs, out: MaturityRows) -> int:
        """Count a batch from the cursor on. Cost: all hits an event, at worst all boxes."""
        first = int(cursor[N_ROWS])
        status = count_in_rectangles(self._tree, self._tallies, values, weights, self._stack, cursor, out)
        found = slice(first, int(cursor[N_ROWS]))
        out.query[found] = self._order[out.query[found]]
        return status

    def drop(self, queries: Longs) -> None:
        """Stop reporting queries. Cost: constant each."""
        self._tallies.is_gone[self._place[queries]] = True

    def reached(self, queries: Longs) -> Longs:
        """The weight that live queries have counted. Cost: constant each."""
        places = self._place[queries]
        reached: Longs = self._tallies.target[places] - self._tallies.left[places]
        return reached

    def check(self, is_living: Bools) -> None:
        """Assert that each rectangle bounds those under it. For tests."""
        _check_tallies(self._tallies, is_living[self._order])
        begin = self._tree.level_begin.tolist()
        for level in range(1, len(begin) - 1):
            below = np.arange(begin[level - 1], begin[level])
            above = begin[level] + (np.arange(len(below)) >> FAN_SHIFT)
            assert above[-1] == begin[level + 1] - 1
            assert (self._tree.low[above] <= self._tree.low[below]).all()
            assert (self._tree.high[above] >= self._tree.high[below]).all()


class IntervalTree(LogarithmicMethod):
    """The stabbing baseline in one dimension."""

    def _build_level(self, boxes: QueryBoxes) -> StaticLevel:
        return IntervalLevel(boxes)

    def explain(self) -> str:
        """One line: how it works."""
        return f"{sum(self._n_living)} ranges; each row counts in all it stabs"


class SegmentIntervalTree(LogarithmicMethod):
    """The stabbing baseline in two dimensions and more: an interval tree at each node of a segment tree."""

    def _build_level(self, boxes: QueryBoxes) -> StaticLevel:
        return IntervalLevel(boxes)

    def explain(self) -> str:
        """One line: how it works."""
        return f"{sum(self._n_living)} boxes of {self._dimensions} ranges; each row counts in all it stabs"


class RTree(LogarithmicMethod):
    """The practical stabbing baseline, in any number of dimensions."""

    def _build_level(self, boxes: QueryBoxes) -> StaticLevel:
        return RectangleLevel(boxes)

    def explain(self) -> str:
        """One line: how it works."""
        return (
            f"packed, {sum(self._n_living)} boxes of {self._dimensions} ranges; "
            "each row counts in all it stabs"
        )


def _tallies(boxes: QueryBoxes) -> Tallies:
    target = np.maximum(boxes.tau, 1)
    count = len(target)
    return Tallies(
        left=target - boxes.reached,
        target=target,
        is_gone=np.zeros(count, np.bool_),
        is_repeating=boxes.is_repeating,
        due=np.empty(count, np.int32),
    )


def _check_tallies(tallies: Tallies, is_living: Bools) -> None:
    assert (tallies.is_gone == ~is_living).all()
    assert (tallies.left >= 1).all()
    assert (tallies.left[is_living] <= tallies.target[is_living]).all()


def _tile_order(low: Floats, high: Floats) -> Longs:
    """Sort-tile-recursive: slabs along the first axis, each cut along the next, and so on."""
    n_boxes, n_axes = low.shape
    # Halved first: the sum of two large numbers may overflow. Unbounded ranges lie in the middle.
    centre = np.nan_to_num(low / 2 + high / 2, nan=0.0, posinf=np.inf, neginf=-np.inf)
    n_leaves = max(n_boxes >> FAN_SHIFT, 1)
    tile = np.zeros(n_boxes, np.int64)
    order = np.arange(n_boxes)
    for axis in range(n_axes):
        order = np.lexsort((centre[:, axis], tile))
        slabs = round(n_leaves ** ((n_axes - axis - 1) / n_axes)) << FAN_SHIFT
        tile[order] = np.arange(n_boxes) // max(slabs, 1)
    return order


def _pack(low: Floats, high: Floats) -> RectangleTree:
    """Bound runs of rectangles until one run is left."""
    lows, highs = [low], [high]
    while len(lows[-1]) > 1 << FAN_SHIFT:
        starts = np.arange(0, len(lows[-1]), 1 << FAN_SHIFT)
        lows.append(np.minimum.reduceat(lows[-1], starts))
        highs.append(np.maximum.reduceat(highs[-1], starts))
    level_begin = np.cumsum([0, *(len(level) for level in lows)])
    return RectangleTree(np.concatenate(lows), np.concatenate(highs), level_begin)
