"""Points in a grid against points in a list: counted, reported, looked for, snapped to."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.conftest import INTERPRETED, examples
from tocsin.arrays.types import Floats, Ints
from tocsin.indexes.ranges.structures.points import Points
from tocsin.indexes.ranges.structures.points_kernels import (
    BUCKET,
    Rectangle,
    count_points,
    has_point,
    report_points,
    snap_points,
)

INF = math.inf
#: Few values, so that equal points, bounds on points and infinite bounds are common.
VALUES = (-INF, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, INF)
values = st.sampled_from(VALUES)
#: What a rectangle's bounds may be: also between and beyond the values.
edges = st.sampled_from((-INF, -5.0, -1.0, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 9.0, INF))
rectangles = st.builds(Rectangle, edges, edges, edges, edges)

NONE = Rectangle(INF, -INF, INF, -INF)


def is_inside(point: tuple[float, float], area: Rectangle) -> bool:
    return area.lo_min <= point[0] <= area.lo_max and area.hi_min <= point[1] <= area.hi_max


def snapped(inside: list[tuple[float, float]]) -> Rectangle:
    if not inside:
        return NONE
    lo, hi = [point[0] for point in inside], [point[1] for point in inside]
    return Rectangle(min(lo), max(lo), min(hi), max(hi))


def columns(points: dict[int, tuple[float, float]]) -> tuple[Ints, Floats, Floats]:
    lo = np.array([lo for lo, _ in points.values()], np.float64)
    hi = np.array([hi for _, hi in points.values()], np.float64)
    return np.array(list(points), np.int32), lo, hi


def check(index: Points, points: dict[int, tuple[float, float]], area: Rectangle) -> None:
    inside = {slot: point for slot, point in points.items() if is_inside(point, area)}
    assert count_points(index.grid, area) == len(inside)
    assert has_point(index.grid, area) == bool(inside)
    found: Ints = np.empty(len(inside) + int(index.grid.bucket_size.max()), np.int32)
    assert sorted(found[: report_points(index.grid, area, found, 0)].tolist()) == sorted(inside)
    assert Rectangle(*snap_points(index.grid, area)) == snapped(list(inside.values()))


class PointsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index = Points(capacity=2)
        self.points: dict[int, tuple[float, float]] = {}

    @rule(data=st.data(), points=st.lists(st.tuples(values, values), max_size=12))
    def insert(self, data: st.DataObject, points: list[tuple[float, float]]) -> None:
        free = [slot for slot in range(3000) if slot not in self.points]
        start = data.draw(st.integers(0, 40))
        self.put(dict(zip(free[start:], points, strict=False)))

    @rule(seed=st.integers(0, 9), count=st.integers(BUCKET, 10 * BUCKET), spread=st.booleans())
    def flood(self, seed: int, count: int, spread: bool) -> None:
        """Many points, spread over the plane or on top of each other."""
        random = np.random.default_rng(seed)
        drawn = random.choice(VALUES, (count, 2)) if spread else np.full((count, 2), random.choice(VALUES))
        free = [slot for slot in range(3000) if slot not in self.points][::2]
        self.put(dict(zip(free, (tuple(point) for point in drawn.tolist()), strict=False)))

    def put(self, points: dict[int, tuple[float, float]]) -> None:
        self.index.insert(*columns(points))
        self.points |= points

    @precondition(lambda self: self.points)
    @rule(data=st.data(), most=st.booleans())
    def remove(self, data: st.DataObject, most: bool) -> None:
        if most:
            cut = data.draw(st.integers(2, 5))
            gone = {slot for slot in self.points if slot % cut}
        else:
            gone = data.draw(st.sets(st.sampled_from(sorted(self.points)), max_size=8))
        leaving = {slot: self.points.pop(slot) for slot in sorted(gone)[::-1]}
        self.index.remove(*columns(leaving))

    @rule()
    def rebuild_if_needed(self) -> None:
        self.index.rebuild_if_needed()

    @rule()
    def rebuild(self) -> None:
        self.index.rebuild()

    @rule(area=rectangles)
    def ask(self, area: Rectangle) -> None:
        check(self.index, self.points, area)

    @invariant()
    def agrees(self) -> None:
        self.index.check_invariants()
        assert len(self.index) == len(self.points)
        check(self.index, self.points, Rectangle(-INF, INF, -INF, INF))
        check(self.index, self.points, Rectangle(-1.0, 0.5, 0.0, INF))


TestPoints = PointsMachine.TestCase
TestPoints.settings = settings(max_examples=examples(25), stateful_step_count=12)


@given(seed=st.integers(0, 99), size=st.integers(0, 700))
@settings(max_examples=examples(15))
def test_grids_of_any_size_answer_alike(seed: int, size: int) -> None:
    random = np.random.default_rng(seed)
    corners = np.sort(random.random((size, 2)), axis=1)
    points = {slot: (float(lo), float(hi)) for slot, (lo, hi) in enumerate(corners)}
    index = Points()
    index.insert(*columns(points))
    index.check_invariants()
    for _ in range(10):
        a, b, c, d = random.random(4).tolist()
        check(index, points, Rectangle(min(a, b), max(a, b), min(c, d), max(c, d)))


@pytest.mark.parametrize("shape", ["uniform", "equal", "one-sided", "diagonal", "skewed"])
def test_buckets_stay_small_whatever_the_points_are(shape: str) -> None:
    count = 2000 if INTERPRETED else 40_000
    random = np.random.default_rng(3)
    lo, hi = np.sort(random.random((count, 2)), axis=1).T
    if shape == "equal":
        lo, hi = np.zeros(count), np.ones(count)
    elif shape == "one-sided":
        lo = np.full(count, -INF)
    elif shape == "diagonal":
        hi = lo + 1e-9 * hi
    elif shape == "skewed":
        lo, hi = lo**40, hi**40
    index = Points()
    index.insert(np.arange(count, dtype=np.int32), lo, hi)
    index.check_invariants()
    assert index.grid.bucket_size.max() <= 4 * BUCKET
    assert len(index.grid.bucket_size) <= 3 * count // BUCKET
    assert sum(column.nbytes for column in index.grid) <= 23 * count


def test_a_crowd_in_one_bucket_is_cut_once_it_costs() -> None:
    count = 500
    random = np.random.default_rng(3)
    lo, hi = np.sort(random.random((count, 2)), axis=1).T
    index = Points()
    index.insert(np.arange(count, dtype=np.int32), lo, hi)
    crowd = np.arange(count, 2 * count, dtype=np.int32)
    index.insert(crowd, 0.5 + 1e-6 * random.random(count), 0.6 + 1e-6 * random.random(count))
    largest = index.grid.bucket_size.max()
    for number in range(500 if not INTERPRETED else 100):
        count_points(index.grid, Rectangle(0.5, 0.5 + 1e-9 * number, 0.6, 1.0))
        index.rebuild_if_needed()
    if not INTERPRETED:
        assert index.grid.bucket_size.max() < largest
    index.check_invariants()


@pytest.mark.parametrize("axis", [0, 1])
def test_empty_buckets_hide_nothing(axis: int) -> None:
    count = 2000 if INTERPRETED else 4000
    random = np.random.default_rng(5)
    corners = np.sort(random.random((count, 2)), axis=1)
    points = {slot: (float(lo), float(hi)) for slot, (lo, hi) in enumerate(corners)}
    index = Points()
    index.insert(*columns(points))
    gone = {slot: point for slot, point in points.items() if 0.45 < point[axis] < 0.65}
    index.remove(*columns(gone))
    assert index.grid.bucket_size.min() == 0
    for slot in gone:
        del points[slot]
    for _ in range(10 if INTERPRETED else 150):
        a, b, c, d = random.random(4).tolist()
        check(index, points, Rectangle(min(a, b), max(a, b), min(c, d), max(c, d)))
