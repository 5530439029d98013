"""Top-k subscriptions in classes by their k: short and long lists side by side, against the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings

from tests.conftest import examples
from tests.indexes.preferences.machine import PreferenceMachine
from tests.indexes.ranges.test_machines import TopKMachine
from tests.indexes.ranges.test_regions import TopKRegionMachine
from tests.indexes.ranges.test_tiles import SwitchMachine
from tests.planning.indexes import topk_of_range
from tocsin.indexes.contract import ABSENT, RowDelta, RowIndex
from tocsin.indexes.preferences import CandidateLists
from tocsin.indexes.preferences.long_lists.index import LongLists
from tocsin.indexes.ranges import TopKBoxTree
from tocsin.kernels.programs import Program, program
from tocsin.planning.limit_classes import ByLimit, LimitClass

COLUMN = program([("column", 0)])


def long_lists(dimensions: int, *, descending: bool, region: str | None = None) -> LongLists:
    return LongLists(dimensions, COLUMN, region=region, descending=descending, newest_first=False, capacity=2)


class RangeMachine(SwitchMachine):
    """One range: two classes with tiles, and long lists."""

    def new_index(self) -> Any:
        descending = self.descending
        return ByLimit(
            topk_of_range(descending=descending, capacity=2, min_subscriptions=2),
            [
                LimitClass(1, lambda: topk_of_range(descending=descending, capacity=2, min_subscriptions=2)),
                LimitClass(3, lambda: long_lists(1, descending=descending)),
            ],
        )


class BoxMachine(TopKMachine):
    def new_index(self) -> Any:
        dimensions, descending = self.dimensions[0], self.descending
        scan = TopKBoxTree(dimensions, descending=descending, capacity=2)
        return ByLimit(scan, [LimitClass(2, lambda: long_lists(dimensions, descending=descending))])


class RegionMachine(TopKRegionMachine):
    def new_index(self) -> Any:
        dimensions, descending, kind = self.dimensions[0], self.descending, self.kind
        scan = TopKBoxTree(dimensions, region=kind, descending=descending, capacity=2, trees=self.trees)
        return ByLimit(
            scan, [LimitClass(1, lambda: long_lists(dimensions, region=kind, descending=descending))]
        )


class ViewsMachine(PreferenceMachine):
    def make(
        self, dimensions: int, scorer: Program, *, descending: bool, newest_first: bool, capacity: int
    ) -> RowIndex:
        ranked: dict[str, Any] = {
            "descending": descending, "newest_first": newest_first, "capacity": capacity
        }  # fmt: skip
        views = CandidateLists(dimensions, scorer, cells=4 * capacity, **ranked)
        return ByLimit(views, [LimitClass(2, lambda: LongLists(dimensions, scorer, **ranked))])


_settings = settings(max_examples=examples(30), stateful_step_count=12)
TestRange = RangeMachine.TestCase
TestRange.settings = _settings
TestBox = BoxMachine.TestCase
TestBox.settings = _settings
TestRegion = RegionMachine.TestCase
TestRegion.settings = _settings
TestViews = ViewsMachine.TestCase
TestViews.settings = _settings


def rows_of(count: int) -> RowDelta:
    numbers = np.arange(count)
    return RowDelta.inserting(numbers, numbers, np.column_stack((numbers % 7.0, -numbers.astype(np.float64))))


def ranges(*k: int) -> dict[str, np.ndarray]:
    count = len(k)
    return {"lo": np.zeros((count, 1)), "hi": np.full((count, 1), 9.0), "k": np.array(k, np.int32)}


def classes() -> ByLimit:
    others = [LimitClass(64, lambda: long_lists(1, descending=False), "long-lists")]
    return ByLimit(topk_of_range(descending=False), others)


def test_a_class_that_nobody_is_in_has_no_index() -> None:
    index = classes()
    index.apply(rows_of(100))
    index.register(np.array([0, 1], np.int32), ranges(5, 1000))
    assert index.explain().startswith("k to 64: trees: ")
    assert "; k above 64: long-lists: 1 top-k lists" in index.explain()
    index.terminate(np.array([1], np.int32))
    assert "long" not in index.explain()
    index.register(np.array([1], np.int32), ranges(1000))
    assert len(index.result(np.array([1], np.int32)).row) == 100


def test_answers_of_several_classes_come_in_the_order_asked() -> None:
    index = classes()
    index.apply(rows_of(80))
    index.register(np.array([0, 1, 2], np.int32), ranges(2, 70, 1))
    asked = np.array([2, 1, 0], np.int32)
    found = index.result(asked)
    assert found.subscription.tolist() == [2] + [1] * 70 + [0] * 2
    assert found.row[:2].tolist() == [79, 79]


def test_memory_is_for_the_rows_there_are_not_for_k() -> None:
    index = long_lists(1, descending=False)
    index.apply(rows_of(100))
    index.register(np.array([0], np.int32), ranges(2**31 - 1))
    assert len(index._nodes.key) <= 256


def test_a_list_keeps_at_most_twice_its_k_and_is_filled_up_again() -> None:
    index = long_lists(1, descending=False)
    index.apply(rows_of(1000))
    index.register(np.array([0], np.int32), ranges(10))
    index.check_invariants()
    for last in range(999, 900, -1):
        gone = rows_of(1000)
        mine = slice(last, last + 1)
        delta = RowDelta(
            seq=np.zeros(1, np.int64),
            step=np.zeros(1, np.int32),
            row=gone.row[mine],
            born_before=gone.born_after[mine],
            born_after=np.full(1, ABSENT, np.int64),
            before=gone.after[mine],
            after=gone.before[mine],
            touched=np.zeros(1, np.bool_),
        )
        changes = index.apply(delta)
        assert changes.row.tolist() == [last, last - 10]
        index.check_invariants()
