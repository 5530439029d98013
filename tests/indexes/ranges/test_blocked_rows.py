"""The object index against sorting and scanning."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import INTERPRETED
from tests.oracles.ranges_messages import World
from tocsin.indexes.contract import ABSENT
from tocsin.indexes.ranges.structures import blocked_rows_kernels as kernels
from tocsin.indexes.ranges.structures.blocked_rows import BlockedRows
from tocsin.indexes.ranges.structures.blocked_rows_layout import N_BLOCKS, STRIDE, BlockedColumns
from tocsin.papers.topk_paint.rows_above_kernels import (
    Lens,
    Stretch,
    find_stretch,
    least_above,
    scan_above,
    set_lens,
)
from tocsin.papers.topk_paint.unicast import new_lens

VALUES = [-math.inf, -1.0, -0.0, 0.0, 1.0, 2.0, 3.0, math.inf]
values = st.sampled_from(VALUES)
maybe = st.sampled_from([*VALUES, math.nan])
#: Slot, x, y, and whether the row is removed, kept, or born anew.
steps = st.lists(
    st.tuples(st.integers(0, 11), maybe, maybe, st.sampled_from(["gone", "same", "same", "anew"])),
    max_size=30,
)


def play(index: BlockedRows, world: World, script: list[tuple[int, float, float, str]], size: int) -> None:
    """Put the script's rows into both, `size` rows a call."""
    born_of: dict[int, int] = {}
    rows = []
    for number, (slot, x, y, what) in enumerate(script):
        if what == "gone":
            rows.append((slot, x, y, ABSENT))
            continue
        if what == "anew" or slot not in world.rows:
            born_of[slot] = number
        rows.append((slot, x, y, born_of.setdefault(slot, number)))
        world.put(*rows[-1])
    world.rows.clear()
    for begin in range(0, len(rows), size):
        part = rows[begin : begin + size]
        slots, xs, ys, borns = (np.array(column) for column in zip(*part, strict=True))
        index.put(slots, xs, ys, borns)
        for row in part:
            world.put(*row)
        index.check_invariants()


def check_queries(index: BlockedRows, world: World, xs: list[float], ys: list[float], k: int) -> None:
    """Every query at every given x and y."""
    blocked = index.columns
    lens = new_lens(blocked)
    set_lens(blocked, lens)
    out = np.empty(k + STRIDE, np.int32)
    for x in xs:
        last, first = kernels.find_last(blocked, x, False), kernels.find_first(blocked, x, False)
        assert blocked.x[last : last + (last >= 0)].tolist() == world.first_xs(
            x, (math.inf, 10**9), 1, left=True
        )
        assert blocked.x[first : first + (first >= 0)].tolist() == world.first_xs(
            x, (math.inf, 10**9), 1, left=False
        )
        for y in ys:
            for born in (0, 3, 10**9):
                n = kernels.first_left(blocked, last, y, born, k, out)
                assert blocked.x[out[:n]].tolist() == world.first_xs(x, (y, born), k, left=True)
                n = kernels.first_right(blocked, first, y, born, k, out)
                assert blocked.x[out[:n]].tolist() == world.first_xs(x, (y, born), k, left=False)
    for y in ys:
        scan_above(blocked, lens, 0, max(int(blocked.heads[N_BLOCKS]) - 1, 0), y, 3)
        for x in xs:
            for high in xs:
                if x <= high:
                    check_all_above(blocked, lens, world, x, high, (y, 3))


def check_all_above(
    blocked: BlockedColumns, lens: Lens, world: World, low: float, high: float, rank: tuple[float, int]
) -> None:
    """The rows above the one that the lens looks above, each searched for from the one before, up to six."""
    stretch = find_stretch(blocked, lens, low, high, Stretch(0, 0, 0, 0))
    for _ in range(6):
        at = least_above(blocked, lens, stretch, *rank)
        wanted = world.least_above(low, high, rank)
        assert (None if at < 0 else blocked.slot[at]) == (None if wanted is None else wanted.slot)
        if wanted is None:
            break
        rank = wanted.y, wanted.born


@given(steps, st.sampled_from([1, 3, 30]), st.sampled_from([1, 2, 5]))
def test_queries_answer_as_a_scan_does(
    script: list[tuple[int, float, float, str]], size: int, k: int
) -> None:
    index, world = BlockedRows(capacity=2), World()
    play(index, world, script, size)
    check_queries(index, world, VALUES, [-1.0, 0.0, 2.0, math.inf], k)


@given(steps)
def test_the_least_between_two_rows(script: list[tuple[int, float, float, str]]) -> None:
    index, world = BlockedRows(capacity=2), World()
    play(index, world, script, 30)
    slots, _, y, born = index.rows()
    places = [-1, *index.columns.slot_place[slots].tolist(), -1]
    for i in range(len(places)):
        for j in range(i + 1, len(places)):
            between = range(i, j - 1)
            at = kernels.least_between(index.columns, places[i], places[j])
            if not between:
                assert at == -1
            else:
                best = min(between, key=lambda number: (y[number], born[number]))
                assert index.columns.slot[at] == slots[best]


@given(steps)
def test_arrays_give_the_same_rows_back(script: list[tuple[int, float, float, str]]) -> None:
    index, world = BlockedRows(capacity=2), World()
    play(index, world, script, 3)
    other = BlockedRows(capacity=2)
    other.restore(index.arrays())
    other.check_invariants()
    assert {row.slot: row for row in world.rows.values()}.keys() == set(other.rows()[0].tolist())
    for name, column in index.arrays().items():
        assert sorted(column.tolist()) == sorted(other.arrays()[name].tolist())


@pytest.mark.parametrize("order", ["ascending", "descending", "random", "equal"])
def test_many_rows_split_blocks_and_groups(order: str) -> None:
    count = 300 if INTERPRETED else 6000
    random = np.random.default_rng(5)
    x = {
        "ascending": np.arange(count, dtype=float),
        "descending": -np.arange(count, dtype=float),
        "random": random.integers(0, count // 4, count).astype(float),
        "equal": np.ones(count),
    }[order]
    y = random.integers(0, 50, count).astype(float)
    index, world = BlockedRows(capacity=2), World()
    slots = random.permutation(count).astype(np.int32)
    for begin in range(0, count, 100):
        part = slice(begin, begin + 100)
        for row in range(begin, min(begin + 100, count)):
            index.put(slots[row : row + 1], x[row : row + 1], y[row : row + 1], np.array([row]))
            world.put(int(slots[row]), x[row], y[row], row)
        assert len(index) == len(x[: part.stop])
    index.check_invariants()
    xs = np.unique(random.choice(x, 4)).tolist()
    check_queries(index, world, xs, [0.0, 25.0], 7)
    # Now most of them go: what is left must be packed again.
    gone = slots[random.permutation(count)[: count - 20]]
    for begin in range(0, len(gone), 50):
        index.delete(gone[begin : begin + 50])
    for slot in gone.tolist():
        world.put(slot, 0.0, 0.0, ABSENT)
    index.put(slots[:1], np.array([1.0]), np.array([1.0]), np.array([count]))
    world.put(int(slots[0]), 1.0, 1.0, count)
    index.check_invariants()
    assert index.columns.heads[N_BLOCKS] <= 6
    check_queries(index, world, xs, [0.0, 25.0], 7)


def test_inputs_stay_as_they_are() -> None:
    index = BlockedRows(capacity=2)
    slots, x, y = np.array([0, 1], np.int32), np.array([-0.0, 1.0]), np.array([1.0, -0.0])
    born = np.array([0, 1])
    for array in (slots, x, y, born):
        array.flags.writeable = False
    index.put(slots, x, y, born)
    index.put(slots[:1], x[:1], y[:1], born[:1])
    assert np.signbit(x).tolist() == [True, False]
    assert not np.signbit(index.rows()[1]).any()
