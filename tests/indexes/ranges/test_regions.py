"""Disks and half-planes: the arithmetic, the intervals, and the machines of the scans over them."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize

from tests.conftest import INTERPRETED, examples
from tests.indexes.ranges.test_machines import (
    CODES,
    SCORES,
    Entry,
    RangesMachine,
    Subscription,
    Tables,
)
from tests.oracles import ranges as oracle
from tests.oracles.ranges import Item, Rows
from tests.oracles.regions import holds, rows_inside
from tests.planning.indexes import aggregate_index
from tocsin.indexes.contract import RowIndex
from tocsin.indexes.ranges import RangeDistinct, TopKBoxTree
from tocsin.indexes.ranges.steps.bounds import TREE_SETTINGS, RangeBounds, TreeSettings
from tocsin.indexes.ranges.steps.regions import Layout
from tocsin.indexes.ranges.structures.box_tree_kernels import find_boxes
from tocsin.kernels.regions import (
    APART,
    CUT,
    DISK,
    HALF_PLANE,
    WITHIN,
    compare_region,
    is_in_region,
    mark_regions,
)

INF, NAN = math.inf, math.nan
KINDS = ("disk", "half-plane")
NUMBERS = {"disk": DISK, "half-plane": HALF_PLANE}
#: A tree from two boxes on, with one box a leaf and two in the tail.
TINY = TreeSettings(min_boxes=2, leaf=1, tail=2)

# Few values, so that rows lie on edges: of 3-4-5 triangles, of circles whose radius is no double, at
# infinity, where squares overflow, and where they vanish.
COORDINATES = (-INF, -4.0, -1.0, -0.0, 0.0, 1.0, 3.0, 1e200, 1e-170, INF, NAN)
CENTERS = (-INF, -1.0, 0.0, 0.0, 1.0, 3.0, 1e200, INF)
EDGES = (-INF, -1.0, 0.0, 0.0, 1.0, math.sqrt(2.0), 5.0, 5.0, 1e200, 1e-180, INF)
regions = st.tuples(st.sampled_from(CENTERS), st.sampled_from(CENTERS), st.sampled_from(EDGES))
finite = st.sampled_from([x for x in COORDINATES + EDGES if math.isfinite(x)]) | st.floats(-10.0, 10.0)
anything = st.sampled_from(COORDINATES) | st.floats()


class RegionMachine(RangesMachine):
    """What the machines of regions share: x and z come after the ranges of a row."""

    regions = regions
    region_width = 3
    kind: str
    trees: TreeSettings

    @initialize(
        dimensions=st.integers(0, 2),
        kind=st.sampled_from(KINDS),
        trees=st.sampled_from([TREE_SETTINGS, TINY, TINY]),
        choice=st.integers(0, 9),
    )
    def begin(self, dimensions: int, kind: str, trees: TreeSettings, choice: int) -> None:
        self.dimensions, self.kind, self.trees = (dimensions,), kind, trees
        self.choose(choice)
        self.index = self.new_index()

    def choose(self, choice: int) -> None:
        """What else the index is made with."""

    def inside(self, tables: Tables, subscription: Subscription) -> Rows:
        return rows_inside(tables[0], self.dimensions[0], self.kind, subscription.region)


class TopKRegionMachine(RegionMachine):
    extras = (COORDINATES, COORDINATES, SCORES)

    def choose(self, choice: int) -> None:
        self.descending = choice % 2 == 1

    def new_index(self) -> TopKBoxTree:
        return TopKBoxTree(
            self.dimensions[0], region=self.kind, descending=self.descending, capacity=2, trees=self.trees
        )

    def answer(self, tables: Tables, subscription: Subscription) -> list[Item]:
        rows = self.inside(tables, subscription)
        return oracle.top_k(rows, subscription.bounds, subscription.k, self.descending)


class AggregateRegionMachine(RegionMachine):
    extras = (COORDINATES, COORDINATES, SCORES)
    is_value = True

    def choose(self, choice: int) -> None:
        self.function = ("min", "max", "count", "sum", "avg")[choice // 2]

    def new_index(self) -> RowIndex:
        return aggregate_index(
            self.dimensions[0], function=self.function, region=self.kind, capacity=2, trees=self.trees
        )

    def answer(self, tables: Tables, subscription: Subscription) -> tuple[int, float]:
        rows = self.inside(tables, subscription)
        return oracle.aggregate(rows, subscription.bounds, self.function)


class DistinctRegionMachine(RegionMachine):
    extras = (COORDINATES, COORDINATES, CODES, (0.0,))

    def new_index(self) -> RangeDistinct:
        return RangeDistinct(self.dimensions[0], capacity=2, region=self.kind, trees=self.trees)

    def completed(self, values: tuple[float, ...]) -> tuple[float, ...]:
        """A value goes with its code."""
        return (*values[:-1], values[-2] / 2.0)

    def touched_items(self, entries: list[Entry], side: int) -> set[tuple[int, int]]:
        return set()

    def answer(self, tables: Tables, subscription: Subscription) -> list[Item]:
        return oracle.distinct(self.inside(tables, subscription), subscription.bounds)


_settings = settings(max_examples=examples(60), stateful_step_count=12)

TestTopKRegion = TopKRegionMachine.TestCase
TestTopKRegion.settings = _settings
TestAggregateRegion = AggregateRegionMachine.TestCase
TestAggregateRegion.settings = _settings
TestDistinctRegion = DistinctRegionMachine.TestCase
TestDistinctRegion.settings = _settings


@given(kind=st.sampled_from(KINDS), a=anything, b=anything, c=anything, x=anything, z=anything)
@example(kind="disk", a=0.0, b=0.0, c=5.0, x=3.0, z=4.0)
@example(kind="disk", a=0.0, b=0.0, c=math.nextafter(5.0, 0.0), x=3.0, z=4.0)
@example(kind="half-plane", a=0.1, b=0.2, c=0.1 * 3.0 + 0.2 * 7.0, x=3.0, z=7.0)
@np.errstate(all="ignore")
def test_a_region_holds_what_plain_arithmetic_says(
    kind: str, a: float, b: float, c: float, x: float, z: float
) -> None:
    expected = holds(kind, (a, b, c), x, z)
    assert is_in_region(NUMBERS[kind], np.float64(a), np.float64(b), c, x, z) == expected
    inside = np.array([True, False])
    mark_regions(NUMBERS[kind], np.full(2, a), np.full(2, b), np.full(2, c), x, z, inside)
    assert inside.tolist() == [expected, False]


@given(
    kind=st.sampled_from(KINDS),
    ends=st.lists(st.tuples(finite, finite).map(sorted), min_size=5, max_size=5),
    infinite=st.sampled_from([None, None, 0, 1, 2, 3, 4]),
    shares=st.lists(st.floats(0.0, 1.0), min_size=5, max_size=5),
)
@settings(max_examples=examples(300))
@np.errstate(all="ignore")
def test_intervals_are_never_wrong(
    kind: str, ends: list[list[float]], infinite: int | None, shares: list[float]
) -> None:
    """What is said of all points and regions between the ends holds at the ends and in between."""
    if infinite is not None:
        ends[infinite][1] = INF
    how = compare_region(NUMBERS[kind], *(np.float64(end) for pair in ends for end in pair))
    between = [
        {lo, hi, min(max(lo + share * (hi - lo), lo), hi) if math.isfinite(hi) else hi}
        for (lo, hi), share in zip(ends, shares, strict=True)
    ]
    found = {holds(kind, (a, b, c), x, z) for a, b, c, x, z in product(*between)}
    assert how in (CUT, WITHIN if found == {True} else CUT, APART if found == {False} else CUT)
    if infinite is None and all(lo == hi and abs(lo) < 1e100 for lo, hi in ends):
        assert how == (WITHIN if found == {True} else APART)


@given(region=regions, x=st.sampled_from(COORDINATES) | st.floats(-6.0, 6.0), z=st.sampled_from(COORDINATES))
@example(region=(0.0, 0.0, math.sqrt(2.0)), x=math.sqrt(2.0), z=0.0)
def test_the_range_around_a_disk_leaves_nothing_out(
    region: tuple[float, float, float], x: float, z: float
) -> None:
    none = np.empty((1, 0))
    lo, hi = Layout.of(0, "disk").bounds({"lo": none, "hi": none, "region": np.array([region])})
    assert not np.isnan(lo).any()
    assert not np.isnan(hi).any()
    if holds("disk", region, x, z):
        assert lo[0, 0] <= x <= hi[0, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_the_tree_finds_what_testing_all_finds(kind: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    count = 60 if INTERPRETED else 2000
    layout = Layout.of(1, kind)
    bounds = RangeBounds(
        layout.width, 2, region=layout.region, trees=TreeSettings(min_boxes=4, leaf=4, tail=20)
    )
    region = random.integers(-20, 21, (count, 3)).astype(np.float64) / [1.0, 1.0, 4.0]
    region[:, 2] = np.abs(region[:, 2]) if kind == "disk" else region[:, 2] * 20.0
    lo = random.integers(0, 5, (count, 1)).astype(np.float64)
    values = {"lo": lo, "hi": lo + 5.0, "region": region}
    bounds.put(np.arange(count, dtype=np.int32), *layout.bounds(values))
    gone = np.arange(0, count, 7, dtype=np.int32)
    bounds.clear(gone)
    bounds.check_invariants()
    rows = layout.columns(random.integers(-20, 21, (10, 3)).astype(np.float64))
    out = np.empty(count + 1, np.int64)
    for number, (first, x, z) in enumerate(rows[:, :3].tolist()):
        found = bounds.tree.slot[out[: find_boxes(bounds.tree, rows, number, number + 1, out)]]
        expected = [
            slot
            for slot in range(count)
            if slot % 7 and lo[slot] <= first <= lo[slot] + 5.0 and holds(kind, region[slot], x, z)
        ]
        assert sorted(found.tolist()) == expected


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (
            TopKBoxTree(2, region="disk", descending=True),
            "range top-k, 2 dimensions and a disk, descending",
        ),
        (
            aggregate_index(0, function="min", region="half-plane"),
            "range min, 0 dimensions and a half-plane",
        ),
        (aggregate_index(1, function="avg", region="disk"), "range avg, 1 dimensions and a disk"),
        (RangeDistinct(1, region="disk"), "range distinct, 1 dimensions and a disk"),
    ],
)
def test_explains_itself(index: Any, words: str) -> None:
    assert words in index.explain()


def test_parameters_are_those_given() -> None:
    given_values = {
        "lo": np.array([[1.0, 2.0]]),
        "hi": np.array([[3.0, 4.0]]),
        "region": np.array([[5.0, 6.0, 7.0]]),
        "k": np.array([8], np.int32),
    }
    slots = np.zeros(1, np.int32)
    disks = TopKBoxTree(2, region="disk", descending=False)
    disks.register(slots, given_values)
    ranges = {"lo": [1.0, 2.0], "hi": [3.0, 4.0]}
    assert disks.parameters(0) == {**ranges, "center": [5.0, 6.0], "radius": 7.0, "k": 8}
    planes = RangeDistinct(2, region="half-plane")
    planes.register(slots, given_values)
    assert planes.parameters(0) == {**ranges, "a": 5.0, "b": 6.0, "c": 7.0}
