"""Particular cases of the ranges room's scans, and what is promised of their kernels."""

from __future__ import annotations

import importlib
import math
import random
from typing import Any

import numpy as np
import pytest

from tests.conftest import INTERPRETED
from tests.indexes.ranges.test_machines import Entry, build_delta, read_changes
from tests.oracles.ranges import IndexChange, RangeRow, aggregate, value_changes
from tests.planning.indexes import aggregate_index
from tocsin.arrays.changes import ChangeSet
from tocsin.indexes.ranges import RangeDistinct, RangeJoin, TopKBoxTree
from tocsin.indexes.ranges.steps.bounds import TreeSettings

NAN = math.nan
ONE = np.zeros(1, np.int32)


def everywhere(dimensions: int, k: int = 2) -> dict[str, np.ndarray]:
    return {
        "lo": np.full((1, dimensions), -math.inf),
        "hi": np.full((1, dimensions), math.inf),
        "k": np.full(1, k, np.int32),
    }


def step(*entries: tuple[int, RangeRow | None, RangeRow | None], touched: bool = False) -> Any:
    width = next(len(row.values) for _, before, after in entries for row in (before, after) if row)
    return build_delta([Entry(0, *entry, touched) for entry in entries], 1, width)


def changes_of(changes: ChangeSet) -> list[IndexChange]:
    return [change for _, _, change in read_changes(changes)]


def test_a_later_row_of_the_same_value_is_no_change_until_the_first_is_gone() -> None:
    index = aggregate_index(0, function="max", capacity=2)
    index.register(ONE, everywhere(0))
    first, second = RangeRow(0, (7.0,)), RangeRow(1, (7.0,))
    assert changes_of(index.apply(step((3, None, first)))) == [("value", 3, -1, 7.0, 0)]
    assert not index.apply(step((1, None, second)))
    assert changes_of(index.apply(step((3, first, None)))) == [("value", 1, -1, 7.0, 0)]
    (gone,) = changes_of(index.apply(step((1, second, None))))
    assert gone[:3] == ("value", -1, -1)
    assert math.isnan(gone.score)


def test_a_row_that_only_moves_in_rank_makes_no_change() -> None:
    index = TopKBoxTree(0, descending=False, capacity=2)
    index.register(ONE, everywhere(0, k=3))
    index.apply(step((0, None, RangeRow(0, (1.0,))), (1, None, RangeRow(1, (2.0,)))))
    assert changes_of(index.apply(step((2, None, RangeRow(2, (0.0,)))))) == [("enter", 2, -1, 0.0, 1)]


def test_a_touched_row_is_told_even_if_its_score_stays() -> None:
    index = TopKBoxTree(0, descending=True, capacity=2)
    index.register(ONE, everywhere(0))
    row = RangeRow(0, (1.0,))
    index.apply(step((0, None, row)))
    assert not index.apply(step((0, row, row)))
    assert changes_of(index.apply(step((0, row, row), touched=True))) == [("update", 0, -1, 1.0, 1)]


def test_sums_do_not_drift() -> None:
    index = aggregate_index(0, function="sum", capacity=2)
    index.register(ONE, everywhere(0))
    index.apply(step((0, None, RangeRow(0, (0.1,)))))
    huge = RangeRow(1, (1e308,))
    index.apply(step((1, None, huge)))
    assert changes_of(index.apply(step((1, huge, None)))) == [("value", -1, -1, 0.1, 0)]


@pytest.mark.parametrize("function", ["sum", "avg"])
@pytest.mark.parametrize("seed", range(3))
def test_sums_over_many_rows(function: str, seed: int) -> None:
    """Enough rows for several blocks, and values that cancel by three hundred decimal places."""
    source = random.Random(seed)
    index = aggregate_index(1, function=function, capacity=2)
    rows: dict[int, RangeRow] = {}
    boxes = [sorted((source.uniform(-1, 11), source.uniform(-1, 11))) for _ in range(12)] + [[3.0, 2.0]]
    slots = np.arange(len(boxes), dtype=np.int32)
    bounds = np.array(boxes)
    index.register(slots, {"lo": bounds[:, :1].copy(), "hi": bounds[:, 1:].copy()})
    answers = [aggregate(rows, [(lo, hi)], function) for lo, hi in boxes]
    for _ in range(4):
        entries = []
        for slot in source.sample(range(300), 150):
            values = (float(source.randrange(11)), source.choice([1e300, -1e300, 0.1, 1e-300, -0.25]))
            after = None if slot in rows and source.random() < 0.2 else RangeRow(slot, values)
            entries.append(Entry(0, slot, rows.get(slot), after, False))
            rows.pop(slot, None)
            if after is not None:
                rows[slot] = after
        reported = read_changes(index.apply(build_delta(entries, 1, 2)))
        before, answers = answers, [aggregate(rows, [(lo, hi)], function) for lo, hi in boxes]
        expected = [
            (0, slot, change)
            for slot in range(len(boxes))
            for change in value_changes(before[slot], answers[slot])
        ]
        assert repr(reported) == repr(expected)
        listed = [change.score for change in changes_of(index.result(slots))]
        assert repr(listed) == repr([value for _, value in answers])


def test_a_value_goes_only_with_its_last_row() -> None:
    index = RangeDistinct(0, capacity=2)
    index.register(ONE, everywhere(0))
    first, second = RangeRow(0, (4.0, 0.5)), RangeRow(1, (4.0, 0.5))
    assert changes_of(index.apply(step((0, None, first), (1, None, second)))) == [("enter", 4, -1, 0.5, 0)]
    assert not index.apply(step((0, first, None)))
    (gone,) = changes_of(index.apply(step((1, second, None))))
    assert gone[:3] == ("leave", 4, -1)


def test_null_joins_nothing() -> None:
    index = RangeJoin(0, 0, capacity=2)
    index.register(ONE, everywhere(0))
    index.apply(step((0, None, RangeRow(0, (NAN,)))), 0)
    assert not index.apply(step((0, None, RangeRow(0, (NAN,)))), 1)
    assert not index.result(ONE)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (TopKBoxTree(2, descending=True), "range top-k, 2 dimensions, descending"),
        (aggregate_index(1, function="min"), "range min"),
        (aggregate_index(1, function="avg"), "range avg"),
        (RangeDistinct(1), "range distinct"),
        (RangeJoin(1, 2), "select-join, 1 + 2 dimensions"),
    ],
)
def test_explains_itself(index: Any, words: str) -> None:
    assert words in index.explain()


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_kernels_have_one_signature() -> None:
    """Whatever the dimensions, and however the inputs came, Python calls one compiled version."""
    for dimensions in (0, 1, 2):
        for index in (
            TopKBoxTree(dimensions, descending=True),
            TopKBoxTree(dimensions, descending=True, trees=TreeSettings(longest=0)),
            aggregate_index(dimensions, function="max"),
            aggregate_index(dimensions, function="sum"),
            RangeDistinct(dimensions),
        ):
            width = dimensions + 1 + isinstance(index, RangeDistinct)
            index.register(ONE, everywhere(dimensions))
            index.apply(step((0, None, RangeRow(0, (0.0,) * width))))
            slots = ONE.copy()
            slots.flags.writeable = False
            index.result(slots)
        join = RangeJoin(dimensions, 0)
        join.register(ONE, everywhere(dimensions))
        join.apply(step((0, None, RangeRow(0, (0.0,) * (dimensions + 1)))), 0)
        join.apply(step((0, None, RangeRow(0, (0.0,)))), 1)
        join.result(ONE)
        restored = RangeJoin(dimensions, 0)
        restored.restore(join.arrays())
        restored.result(ONE)
    for module, names in {
        "topk.trees": ("report_ranked", "list_ranked", "list_answers_before", "report_long"),
        "structures.row_tree": ("open_rows", "close_rows"),
        "aggregates.box_totals": ("report_totals", "list_totals"),
        "distinct.distinct": ("report_distinct", "list_distinct"),
        "joins.joins": ("report_pairs",),
        "joins.boxes": ("list_boxes",),
        "steps.step": ("link_rows", "find_affected"),
    }.items():
        kernels = importlib.import_module(f"tocsin.indexes.ranges.{module}_kernels")
        for name in names:
            assert len(getattr(kernels, name).signatures) == 1, name
