"""Exact sums over ranges of many rows, and rows in trees, against plain Python."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import INTERPRETED, examples
from tests.indexes.ranges.test_machines import Entry, build_delta, read_changes, shown
from tests.oracles import ranges as oracle
from tests.oracles.ranges import RangeRow, Rows
from tests.planning.indexes import aggregate_index
from tocsin.arrays.types import Arrays, Longs
from tocsin.indexes.ranges import RangeDistinct, TopKBoxTree
from tocsin.indexes.ranges.steps.bounds import TreeSettings
from tocsin.indexes.ranges.structures.tally import LIMBS_OF_A_DOUBLE, limbs_of
from tocsin.indexes.ranges.structures.tally_kernels import N_INFINITIES, add_y, round_sum

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(values=st.lists(finite, min_size=1, max_size=8), taken=st.lists(finite, max_size=3))
@settings(max_examples=examples(300))
def test_a_sum_of_few_limbs_is_rounded_once(values: list[float], taken: list[float]) -> None:
    everything = np.array(values + taken)
    first, end = limbs_of(everything)
    total: Longs = np.zeros(max(end - first, LIMBS_OF_A_DOUBLE) + N_INFINITIES, np.int64)
    for value in values:
        add_y(total, value, 1, first)
    for value in taken:
        add_y(total, value, -1, first)
    exact = sum(map(Fraction, values), Fraction(0)) - sum(map(Fraction, taken), Fraction(0))
    try:
        expected = float(exact)
    except OverflowError:
        expected = math.inf if exact > 0 else -math.inf
    assert round_sum(total, first, np.zeros(len(total), np.int64)) == expected


def test_infinities_are_counted() -> None:
    total: Longs = np.zeros(LIMBS_OF_A_DOUBLE + N_INFINITIES, np.int64)
    limbs = np.zeros(len(total), np.int64)
    for value, sign, expected in (
        (math.inf, 1, math.inf),
        (-math.inf, 1, math.nan),
        (math.inf, -1, -math.inf),
    ):
        add_y(total, value, sign, 30)
        assert shown(round_sum(total, 30, limbs)) == shown(expected)


class World:
    """Many rows over few values, which come, change and go."""

    def __init__(self, seed: int, dimensions: int, extra: Any) -> None:
        self.source = random.Random(seed)
        self.dimensions = dimensions
        self.extra = extra
        self.rows: Rows = {}
        self.next_born = 0

    def step(self, number: int, slots: list[int]) -> list[Entry]:
        entries = []
        for slot in slots:
            before, after = self.rows.pop(slot, None), None
            if before is None or self.source.random() < 0.8:
                x = before.values[: self.dimensions] if before else ()
                if before is None or self.source.random() < 0.3:
                    x = tuple(float(self.source.randrange(12)) for _ in range(self.dimensions))
                born = before.born if before else self.next_born
                self.next_born += 1
                self.rows[slot] = after = RangeRow(born, (*x, *self.extra(self.source)))
            entries.append(Entry(number, slot, before, after, False))
        return entries


def amount(source: random.Random) -> tuple[float, ...]:
    return (source.choice([0.1, 0.25, -3.0, 1e-9, 7e8]),)


def code(source: random.Random) -> tuple[float, ...]:
    number = float(source.randrange(9))
    return number, 10 * number


CASES: dict[str, Any] = {
    "count": (lambda d, t: aggregate_index(d, function="count", trees=t), amount, "count"),
    "sum": (lambda d, t: aggregate_index(d, function="sum", trees=t), amount, "sum"),
    "avg": (lambda d, t: aggregate_index(d, function="avg", trees=t), amount, "avg"),
    "max": (lambda d, t: aggregate_index(d, function="max", trees=t), amount, "max"),
    "top-k": (lambda d, t: TopKBoxTree(d, descending=False, trees=t), amount, "top-k"),
    "distinct": (lambda d, t: RangeDistinct(d, trees=t), code, "distinct"),
}


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", [3])
def test_many_rows_and_boxes(case: str, dimensions: int, seed: int) -> None:
    """Enough of both for several blocks, levels and tails; steps of one row and of many."""
    make, extra, kind = CASES[case]
    n_rows, n_boxes = (60, 20) if INTERPRETED else (500, 40)
    world = World(seed, dimensions, extra)
    index = make(dimensions, TreeSettings(min_boxes=4, leaf=2, tail=8))
    boxes: list[Any] = [
        [
            tuple(sorted((world.source.randrange(-1, 13), world.source.randrange(-1, 13))))
            for _ in range(dimensions)
        ]
        for _ in range(n_boxes)
    ]
    bounds = np.array(boxes, np.float64)
    slots = np.arange(n_boxes, dtype=np.int32)
    values: Arrays = {
        "lo": bounds[:, :, 0].copy(),
        "hi": bounds[:, :, 1].copy(),
        "k": np.full(n_boxes, 4, np.int32),
    }
    for part in np.array_split(slots, 3):
        index.register(part, {name: column[part] for name, column in values.items()})

    def answers() -> list[Any]:
        if kind == "top-k":
            return [oracle.top_k(world.rows, box, 4, False) for box in boxes]
        if kind == "distinct":
            return [oracle.distinct(world.rows, box) for box in boxes]
        return [oracle.aggregate(world.rows, box, kind) for box in boxes]

    now = answers()
    for sizes in ([n_rows], [1, 1, 1], [n_rows // 3], [1, n_rows // 2, 1]):
        entries, expected = [], []
        for number, size in enumerate(sizes):
            entries += world.step(number, world.source.sample(range(n_rows), size))
            before, now = now, answers()
            tell = oracle.listing_changes if kind in ("top-k", "distinct") else oracle.value_changes
            rest: list[Any] = [set()] if kind in ("top-k", "distinct") else []
            expected += [
                (number, slot, change)
                for slot in range(n_boxes)
                for change in tell(before[slot], now[slot], *rest)
            ]
        width = dimensions + (2 if kind == "distinct" else 1)
        assert shown(read_changes(index.apply(build_delta(entries, len(sizes), width)))) == shown(expected)
        index.check_invariants()
    fresh = make(dimensions, TreeSettings(min_boxes=4, leaf=2, tail=8))
    fresh.restore(index.arrays())
    fresh.check_invariants()
    assert shown(read_changes(fresh.result(slots))) == shown(read_changes(index.result(slots)))
