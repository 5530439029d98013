"""The indexes that find boxes in a tree, against the oracle: the machines of the scans, over tiny trees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import INTERPRETED, examples
from tests.indexes.ranges.test_machines import (
    AggregateMachine,
    DistinctMachine,
    JoinMachine,
    TopKMachine,
)
from tests.planning.indexes import aggregate_index
from tocsin.arrays.types import Floats, Longs
from tocsin.indexes.contract import RowIndex
from tocsin.indexes.ranges import RangeDistinct, RangeJoin, TopKBoxTree
from tocsin.indexes.ranges.steps.bounds import RangeBounds, TreeSettings
from tocsin.indexes.ranges.structures.box_tree_kernels import find_boxes, move_top
from tocsin.kernels.sort import LARGEST_DIGIT, sort_values

#: A tree from two boxes on, with one box a leaf and two in the tail; more than three images are a long step.
TINY = TreeSettings(min_boxes=2, leaf=1, tail=2, longest=3)


class TopKTreeMachine(TopKMachine):
    def new_index(self) -> TopKBoxTree:
        return TopKBoxTree(self.dimensions[0], descending=self.descending, capacity=2, trees=TINY)


class AggregateTreeMachine(AggregateMachine):
    def new_index(self) -> RowIndex:
        return aggregate_index(self.dimensions[0], function=self.function, capacity=2, trees=TINY)


class DistinctTreeMachine(DistinctMachine):
    def new_index(self) -> RangeDistinct:
        return RangeDistinct(self.dimensions[0], capacity=2, trees=TINY)


class JoinTreeMachine(JoinMachine):
    def new_index(self) -> RangeJoin:
        left, right = self.dimensions
        return RangeJoin(left, right, capacity=2, trees=TINY)


_settings = settings(max_examples=examples(40), stateful_step_count=12)

TestTopKTree = TopKTreeMachine.TestCase
TestTopKTree.settings = _settings
TestAggregateTree = AggregateTreeMachine.TestCase
TestAggregateTree.settings = _settings
TestDistinctTree = DistinctTreeMachine.TestCase
TestDistinctTree.settings = _settings
TestJoinTree = JoinTreeMachine.TestCase
TestJoinTree.settings = _settings


def draw_boxes(random: np.random.Generator, count: int, width: int) -> tuple[Floats, Floats]:
    """Boxes over few values; some are empty, some have no bound on a side."""
    lo = random.integers(0, 12, (count, width)).astype(np.float64)
    hi = lo + random.integers(-1, 6, (count, width))
    lo[random.random((count, width)) < 0.1] = -np.inf
    hi[random.random((count, width)) < 0.1] = np.inf
    return lo, hi


def found_in(bounds: RangeBounds, rows: Floats) -> list[int]:
    """Slots of the boxes that hold a row, by the tree."""
    out: Longs = np.empty(len(bounds.boxes.affected), np.int64)
    tree = bounds.tree._replace(listed=np.empty(len(rows), np.int64))
    count = find_boxes(tree, rows, 0, len(rows), out)
    out[:count] = tree.slot[out[:count]]
    found = out[:count].copy()
    sort_values(out, count, 0, bounds.top, tree.spare, tree.begin)
    assert out[:count].tolist() == sorted(found.tolist())
    return [int(slot) for slot in out[:count]]


@pytest.mark.parametrize("width", [1, 2, 3])
@given(seed=st.integers(0, 999))
@settings(max_examples=examples(10))
def test_the_tree_finds_the_boxes_that_hold_a_row(seed: int, width: int) -> None:
    random = np.random.default_rng(seed)
    bounds = RangeBounds(width, 2, trees=TreeSettings(min_boxes=1, leaf=2, tail=20))
    count = 60 if INTERPRETED else 400
    lo, hi = draw_boxes(random, count, width)
    slots = random.permutation(3 * count)[:count].astype(np.int32)
    there: dict[int, int] = {}
    for part in np.array_split(np.arange(count), 9):
        bounds.put(slots[part], lo[part], hi[part])
        there.update(zip(slots[part].tolist(), part.tolist(), strict=True))
        gone = random.choice(sorted(there), len(part) // 3, replace=False).astype(np.int32)
        bounds.clear(gone)
        for slot in gone.tolist():
            del there[slot]
        bounds.check_invariants()
        for n_rows in (1, 3, 40):
            rows = random.integers(-1, 15, (n_rows, width)).astype(np.float64)
            expected = [
                slot
                for slot, box in sorted(there.items())
                if ((lo[box] <= rows) & (rows <= hi[box])).all(axis=1).any()
            ]
            assert found_in(bounds, rows) == expected
    assert "in a tree" in bounds.explain()
    bounds.clear(np.array(sorted(there), np.int32))
    assert "every box" in bounds.explain()
    bounds.check_invariants()


def test_a_tail_grows_one_box_at_a_time() -> None:
    trees = TreeSettings(min_boxes=2, leaf=4, tail=1)
    bounds = RangeBounds(1, 16, trees=trees)
    bounds.put(np.arange(1000, dtype=np.int32), np.zeros((1000, 1)), np.ones((1000, 1)))
    # With so many boxes, the tail may have more than `tail`.
    for slot in range(1000, 1030):
        bounds.put(np.array([slot], np.int32), np.zeros((1, 1)), np.ones((1, 1)))
        bounds.check_invariants()


@given(seed=st.integers(0, 999))
@settings(max_examples=examples(10))
def test_a_bound_may_move(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = 100
    bounds = RangeBounds(2, 2, split=1, trees=TreeSettings(min_boxes=4, leaf=3, tail=20))
    lo, hi = draw_boxes(random, count, 1)
    bounds.put(np.arange(count - 9, dtype=np.int32), lo[:-9], hi[:-9])
    bounds.put(np.arange(count - 9, count, dtype=np.int32), lo[-9:], hi[-9:])
    for _ in range(300):
        slot, bar = int(random.integers(0, count)), float(random.choice([-1.0, 0.0, 3.0, np.inf]))
        if lo[slot] <= hi[slot]:
            bounds.boxes.hi[1, slot] = bar
            move_top(bounds.tree, slot, bar)
    bounds.check_invariants()
    row = np.array([[5.0, 2.0]])
    inside = (lo[:, 0] <= 5.0) & (hi[:, 0] >= 5.0) & (bounds.boxes.hi[1, :count] >= 2.0)
    assert found_in(bounds, row) == np.flatnonzero(inside).tolist()


@pytest.mark.parametrize("shift", [0, 32])
def test_many_values_are_sorted(shift: int) -> None:
    random = np.random.default_rng(3)
    count = 100 if INTERPRETED else 6000
    spare, begin = np.empty(count, np.int64), np.empty(LARGEST_DIGIT + 1, np.int64)
    for size in (0, 1, 24, 25, count):
        values: Longs = (random.integers(0, count, size) << shift) + np.arange(size) * (shift > 0)
        expected = np.sort(values).tolist()
        sort_values(values, size, shift, count, spare, begin)
        assert values.tolist() == expected
