"""Range top-k by tiles against the oracle, and against the scan that it stands in for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize

from tests.conftest import INTERPRETED, examples
from tests.indexes.ranges.test_machines import (
    SCORES,
    RangesMachine,
    Subscription,
    Tables,
    read_changes,
    shown,
)
from tests.oracles import ranges as oracle
from tests.oracles.ranges import Item
from tests.planning.indexes import minmax_of_range, topk_of_range
from tocsin.arrays.types import Arrays, Floats, Ints, Longs
from tocsin.indexes.contract import ABSENT, RowDelta
from tocsin.indexes.ranges import MinMaxTiles, TopKBoxTree, TopKTiles

#: So few entries and cells that steps are netted halfway, and that subscriptions are looked at one by one.
LOG_ROOMS = (3, 1 << 22)
TABLE_ROOMS = (4, 1 << 10)


class TilesMachine(RangesMachine):
    """The machine of the scan, over tiles with little room."""

    extras = (SCORES,)

    @initialize(
        descending=st.booleans(),
        log_capacity=st.sampled_from(LOG_ROOMS),
        table_capacity=st.sampled_from(TABLE_ROOMS),
    )
    def begin(self, descending: bool, log_capacity: int, table_capacity: int) -> None:
        self.dimensions = (1,)
        self.descending = descending
        self.rooms = {"log_capacity": log_capacity, "table_capacity": table_capacity}
        self.index = self.new_index()

    def new_index(self) -> Any:
        return TopKTiles(descending=self.descending, capacity=2, **self.rooms)

    def answer(self, tables: Tables, subscription: Subscription) -> list[Item]:
        return oracle.top_k(tables[0], subscription.bounds, subscription.k, self.descending)


class ExtremeMachine(RangesMachine):
    extras = (SCORES,)
    is_value = True

    @initialize(descending=st.booleans(), log_capacity=st.sampled_from(LOG_ROOMS))
    def begin(self, descending: bool, log_capacity: int) -> None:
        self.dimensions = (1,)
        self.descending = descending
        self.log_capacity = log_capacity
        self.index = self.new_index()

    def new_index(self) -> Any:
        return MinMaxTiles(descending=self.descending, capacity=2, log_capacity=self.log_capacity)

    def answer(self, tables: Tables, subscription: Subscription) -> tuple[int, float]:
        return oracle.aggregate(tables[0], subscription.bounds, "max" if self.descending else "min")


class SwitchMachine(TilesMachine):
    """Goes over from the scan to tiles and back, again and again."""

    def new_index(self) -> Any:
        return topk_of_range(descending=self.descending, capacity=2, min_subscriptions=4)


_settings = settings(max_examples=examples(40), stateful_step_count=12)

TestTiles = TilesMachine.TestCase
TestTiles.settings = _settings
TestExtreme = ExtremeMachine.TestCase
TestExtreme.settings = _settings
TestSwitch = SwitchMachine.TestCase
TestSwitch.settings = settings(_settings, max_examples=examples(15))


class World:
    """Many rows and subscriptions, with values that repeat."""

    def __init__(self, seed: int, rows: int, subscriptions: int, k: tuple[int, ...]) -> None:
        self.random = np.random.default_rng(seed)
        self.steps = (rows // 2, 2 * rows)
        self.x: Floats = self.values(rows, 0)
        self.y: Floats = self.values(rows, 1)
        self.born: Longs = np.full(rows, ABSENT, np.int64)
        self.next_born = 0
        bounds = np.sort(self.random.integers(-1, self.steps[0] + 1, (subscriptions, 2)), axis=1)
        self.slots: Ints = self.random.permutation(subscriptions).astype(np.int32)
        self.bounds = {
            "lo": bounds[:, :1].astype(np.float64),
            "hi": bounds[:, 1:].astype(np.float64),
            "k": self.random.choice(np.array(k, np.int32), subscriptions),
        }

    def values(self, count: int, column: int) -> Floats:
        return self.random.integers(0, self.steps[column], count).astype(np.float64)

    def delta(self, rows: Ints, *, each: bool) -> RowDelta:
        """Some rows come, some go, most change y, some x too."""
        count = len(rows)
        before = np.stack((self.x[rows], self.y[rows]), axis=1)
        born_before = self.born[rows].copy()
        goes = (self.random.random(count) < 0.1) & (born_before != ABSENT)
        moves = self.random.random(count) < 0.1
        self.x[rows] = np.where(moves, self.values(count, 0), self.x[rows])
        self.y[rows] = self.values(count, 1)
        fresh = self.next_born + np.arange(count)
        self.next_born += count
        self.born[rows] = np.where(goes, ABSENT, np.where(born_before == ABSENT, fresh, born_before))
        after = np.stack((self.x[rows], self.y[rows]), axis=1)
        before[born_before == ABSENT] = np.nan
        after[goes] = np.nan
        return RowDelta(
            seq=np.arange(count if each else 1),
            step=np.arange(count, dtype=np.int32) if each else np.zeros(count, np.int32),
            row=rows,
            born_before=born_before,
            born_after=self.born[rows],
            before=before,
            after=after,
            touched=(self.random.random(count) < 0.2) & (born_before != ABSENT) & ~goes,
        )

    def some(self, count: int) -> Ints:
        return self.random.choice(len(self.x), count, replace=False).astype(np.int32)


@pytest.mark.parametrize(
    ("k", "log_capacity", "table_capacity"), [((3,), 1 << 20, 1 << 20), ((1, 4, 20), 500, 60)]
)
@given(seed=st.integers(0, 99))
@settings(max_examples=examples(4))
def test_tiles_say_what_the_scan_says(
    seed: int, k: tuple[int, ...], log_capacity: int, table_capacity: int
) -> None:
    rows, subscriptions = (40, 60) if INTERPRETED else (300, 900)
    world = World(seed, rows, subscriptions, k)
    scan = TopKBoxTree(1, descending=False)
    tiles = TopKTiles(descending=False, log_capacity=log_capacity, table_capacity=table_capacity)
    half = subscriptions // 2
    for cut in (slice(0, half), slice(half, None)):
        for index in (scan, tiles):
            index.register(world.slots[cut], {name: column[cut] for name, column in world.bounds.items()})
        for count, each in ((rows, False), (rows // 2, True), (rows // 3, False), (1, True)):
            delta = world.delta(world.some(count), each=each)
            assert shown(read_changes(tiles.apply(delta))) == shown(read_changes(scan.apply(delta)))
    assert shown(read_changes(tiles.result(world.slots))) == shown(read_changes(scan.result(world.slots)))
    saved, expected = tiles.arrays(), scan.arrays()
    assert sorted(saved) == sorted(expected)
    for name, array in saved.items():
        np.testing.assert_array_equal(array, expected[name])
    tiles.check_invariants()


def test_an_update_that_passes_every_row_is_told_right() -> None:
    """Rows that rank higher the farther they are: one that falls behind all of them exposes each."""
    count = 12 if INTERPRETED else 60
    x = np.arange(2 * count + 1, dtype=np.float64)
    y = 100.0 - np.abs(x - count)
    y[count] = 0.0
    lo, hi = (
        bound.ravel().astype(np.float64)
        for bound in np.meshgrid(np.arange(count + 1), np.arange(count, 2 * count + 1))
    )
    values: Arrays = {"lo": lo[:, None], "hi": hi[:, None], "k": np.full(len(lo), 2, np.int32)}
    slots = np.arange(len(lo), dtype=np.int32)
    rows = np.arange(len(x), dtype=np.int32)
    nothing = np.full((len(x), 2), np.nan)
    insert = RowDelta(
        np.zeros(1, np.int64),
        np.zeros(len(x), np.int32),
        rows,
        np.full(len(x), ABSENT, np.int64),
        rows.astype(np.int64),
        nothing,
        np.stack((x, y), axis=1),
        np.zeros(len(x), np.bool_),
    )
    fall = RowDelta(
        np.zeros(1, np.int64),
        np.zeros(1, np.int32),
        rows[count : count + 1],
        np.full(1, count, np.int64),
        np.full(1, count, np.int64),
        np.array([[float(count), 0.0]]),
        np.array([[float(count), 200.0]]),
        np.zeros(1, np.bool_),
    )
    rise = fall._replace(before=fall.after, after=fall.before)
    told = []
    for index in (
        TopKBoxTree(1, descending=False),
        TopKTiles(descending=False, capacity=2),
        TopKTiles(descending=False, capacity=2, table_capacity=8),
    ):
        index.register(slots, values)
        told.append(shown([read_changes(index.apply(delta)) for delta in (insert, fall, rise)]))
    assert told[1] == told[0]
    assert told[2] == told[0]


def test_the_switch_says_which_index_it_uses_and_why() -> None:
    index = minmax_of_range(descending=True, min_subscriptions=2)
    assert index.explain().startswith("trees: range max")
    values = {"lo": np.zeros((2, 1)), "hi": np.ones((2, 1))}
    index.register(np.arange(2, dtype=np.int32), values)
    assert index.explain().startswith("tiles: range max")
    assert "2 subscriptions, tiles from 2 on" in index.explain()
    assert index.parameters(1) == {"lo": [0.0], "hi": [1.0]}
    index.terminate(np.arange(2, dtype=np.int32))
    assert index.explain().startswith("trees: range max")


def test_a_k_that_nobody_has_any_more_costs_nothing() -> None:
    index = TopKTiles(descending=False, capacity=2)
    for k in (5, 1000, 7):
        values: Arrays = {"lo": np.zeros((2, 1)), "hi": np.ones((2, 1)), "k": np.array([3, k], np.int32)}
        index.register(np.arange(2, dtype=np.int32), values)
        index.check_invariants()
        assert index.parameters(1)["k"] == k
        index.terminate(np.arange(2, dtype=np.int32))
    assert len(index.arrays()["k"]) == 2
    index.check_invariants()
