"""Paint-Dense against trying every subscription."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tocsin
from tests.conftest import INTERPRETED
from tests.oracles.ranges_messages import World, fewest_tiles
from tocsin.arrays.types import Longs
from tocsin.indexes.contract import ABSENT
from tocsin.indexes.ranges.messages.messages import Messages, Reformulator, RowEvents
from tocsin.indexes.ranges.messages.painters.dense import PaintDense
from tocsin.indexes.ranges.messages.painters.dense_kernels import paint_events
from tocsin.indexes.ranges.messages.painters.sparse import PaintSparse

XS = [-math.inf, 0.0, 1.0, 2.0, 3.0, math.inf]
#: Bounds of subscriptions: at the rows, between them, and beyond all.
BOUNDS = [-math.inf, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, math.inf]
SUBSCRIPTIONS = [(lo, hi) for lo in BOUNDS for hi in BOUNDS if lo <= hi or lo == 1.0]
YS = [-math.inf, 0.0, 1.0, 2.0, 3.0, 4.0, math.inf]

Script = list[tuple[int, float, float, int]]


@st.composite
def scripts(draw: st.DrawFn, max_size: int = 14) -> Script:
    """Rows put one after the other: new ones, changes of y, moves, ends, nulls."""
    born_of: dict[int, int] = {}
    x_of: dict[int, float] = {}
    script: Script = []
    for number in range(draw(st.integers(0, max_size))):
        slot = draw(st.integers(0, 6))
        what = draw(st.sampled_from(["y", "y", "y", "y", "x", "gone", "null", "anew"]))
        if what == "anew" or slot not in born_of:
            born_of[slot] = number
        if what == "x" or slot not in x_of:
            x_of[slot] = draw(st.sampled_from(XS))
        y = math.nan if what == "null" else draw(st.sampled_from(YS))
        born = ABSENT if what == "gone" else born_of[slot]
        if what == "gone":
            del born_of[slot]
        script.append((slot, x_of[slot], y, born))
    return script


def apply(painter: Reformulator, script: Script) -> Messages:
    columns = [np.array(column) for column in zip(*script, strict=True)] if script else [np.empty(0)] * 4
    return painter.apply(*columns).copy()


def messages_of(messages: Messages, event: int) -> list[dict[str, Any]]:
    """The messages of one event, as a client reads them."""
    columns = messages.columns()
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [{**row, "key": int(row["row"])} for row in rows if row["event"] == event]


def held(subscriber: tocsin.Subscriber) -> list[tuple[int, float, int]]:
    return [(int(entry.key), float(entry.y), int(entry.born)) for entry in subscriber.result()]


def wanted(world: World, lo: float, hi: float, k: int) -> list[tuple[int, float, int]]:
    return [(row.slot, row.y, row.born) for row in world.top(lo, hi, k)]


@given(scripts(), st.integers(1, 4), st.booleans())
def test_exactly_the_affected_hear_and_hold_the_answer(script: Script, k: int, one_by_one: bool) -> None:
    painter = PaintDense(k, capacity=2)
    everything = None if one_by_one else apply(painter, script)
    world = World()
    clients = {(lo, hi): tocsin.Subscriber(lo, hi, k=k) for lo, hi in SUBSCRIPTIONS}
    for event, row in enumerate(script):
        messages = messages_of(everything, event) if everything else messages_of(apply(painter, [row]), 0)
        before, moved = world.copy(), world.rows.get(row[0])
        world.put(*row)
        now = world.rows.get(row[0])
        is_one_step = moved is None or now is None or (moved.x, moved.born) == (now.x, now.born)
        for (lo, hi), client in clients.items():
            got = [message for message in messages if client.receives(message)]
            is_affected = before.top(lo, hi, k) != world.top(lo, hi, k)
            if is_one_step:
                assert bool(got) == is_affected
                # One message says what became of the row, one more what replaces it: tiles are disjoint.
                assert len(got) <= 2
                assert [message["key"] for message in got[:1]] == [row[0]] * len(got[:1])
            assert client.apply(messages) == len(got)
            assert held(client) == wanted(world, lo, hi, k)
    painter.check_invariants()


@given(scripts(), st.integers(1, 3))
def test_descending_is_ascending_turned_over(script: Script, k: int) -> None:
    up, down = PaintDense(k, capacity=2), PaintDense(k, descending=True, capacity=2)
    one = apply(up, script)
    other = apply(down, [(slot, x, -y, born) for slot, x, y, born in script])
    for name, column in one.columns().items():
        mirrored = other.columns()[name]
        np.testing.assert_array_equal(column, -mirrored + 0.0 if name == "y" else mirrored)


@given(scripts(max_size=9), st.integers(1, 3))
def test_no_tiling_has_fewer_tiles(script: Script, k: int) -> None:
    painter, world = PaintDense(k, capacity=2), World()
    for row in script:
        messages = messages_of(apply(painter, [row]), 0)
        before, moved = world.copy(), world.rows.get(row[0])
        world.put(*row)
        now = world.rows.get(row[0])
        if moved is not None and now is not None and (moved.x, moved.born) != (now.x, now.born):
            continue
        # A cell for each set of rows that a range can hold: from one distinct x to another.
        xs = sorted({one.x for one in (*before.rows.values(), *world.rows.values())})
        regions: dict[int, set[tuple[int, int]]] = {row[0]: set()}
        for i, lo in enumerate(xs):
            for j, hi in enumerate(xs):
                old, new = before.top(lo, hi, k), world.top(lo, hi, k)
                if old != new:
                    regions[row[0]].add((i, j))
                    for one in new:
                        if one not in old and one.slot != row[0]:
                            regions.setdefault(one.slot, set()).add((i, j))
        sent = [message["key"] for message in messages]
        assert {key: sent.count(key) for key in regions} == {
            key: fewest_tiles(region) for key, region in regions.items()
        }


@given(scripts(), st.integers(1, 6), st.sampled_from([0.1, 0.25, 0.5, 1.0]))
def test_epsilon_misses_nobody_and_sends_no_row_ranked_far_below(
    script: Script, k: int, epsilon: float
) -> None:
    painter, world = PaintDense(k, epsilon=epsilon, capacity=2), World()
    exact = PaintDense(k, capacity=2)
    clients = {(lo, hi): tocsin.Subscriber(lo, hi, k=k) for lo, hi in SUBSCRIPTIONS}
    for row in script:
        messages = messages_of(apply(painter, [row]), 0)
        assert len(messages) <= len(apply(exact, [row]).payload)
        before, known = world.copy(), world.rows.get(row[0])
        world.put(*row)
        between = before.copy()
        between.put(row[0], 0.0, 0.0, ABSENT)
        worlds = [before, between, world]
        now = world.rows.get(row[0])
        if known and now and (known.x, known.born) == (now.x, now.born) and now.y < known.y:
            assert len(messages) <= math.ceil(1 / epsilon)
        for (lo, hi), client in clients.items():
            for message in messages:
                if client.receives(message):
                    ranks = [
                        [one.slot for one in any_world.inside(lo, hi)].index(message["key"]) + 1
                        for any_world in worlds
                        if message["key"] in [one.slot for one in any_world.inside(lo, hi)]
                    ]
                    assert min(ranks) <= (1 + epsilon) * k
            client.apply(messages)
            assert held(client) == wanted(world, lo, hi, k)


class PaintAnyK(PaintDense):
    """For k = 1 too, the kernel that is for every k."""

    def _paint(self, events: RowEvents, cursor: Longs) -> int:
        return paint_events(self.index.columns, self._posts, events, self.k, self._buffer, cursor)


@given(scripts(max_size=30))
def test_the_best_row_is_told_as_the_k_best_are(script: Script) -> None:
    special, general = PaintDense(1, capacity=2), PaintAnyK(1, capacity=2)
    for one, other in zip(apply(special, script), apply(general, script), strict=True):
        np.testing.assert_array_equal(one, other)
    assert special.n_exposed == general.n_exposed


@pytest.mark.parametrize("distinct", [9, 10**6])
def test_the_best_of_many_rows_is_told_as_the_k_best_are(distinct: int) -> None:
    count, events = (200, 60) if INTERPRETED else (5000, 3000)
    random = np.random.default_rng(distinct)
    special, general = PaintDense(1, capacity=2), PaintAnyK(1, capacity=2)
    rows, x = np.arange(count, dtype=np.int32), random.integers(0, count, count).astype(float)
    chosen = random.integers(0, count, events)
    born = np.where(random.random(events) < 0.1, ABSENT, chosen)
    told = []
    for painter in (special, general):
        painter.load(rows, x, (np.arange(count) % distinct).astype(np.float64), rows.astype(np.int64))
        ys = np.random.default_rng(1).integers(0, distinct, events).astype(float)
        told.append(painter.apply(chosen.astype(np.int32), x[chosen], ys, born).copy())
    for one, other in zip(*told, strict=True):
        np.testing.assert_array_equal(one, other)
    assert special.n_exposed == general.n_exposed
    special.check_invariants()


@pytest.mark.parametrize("way", ["dense", "sparse"])
@pytest.mark.parametrize("distinct", [8, 10**6])
@pytest.mark.parametrize("k", [1, 4])
def test_rows_that_pass_more_than_fit_are_told_in_rounds(way: str, distinct: int, k: int) -> None:
    count = 150 if INTERPRETED else 500
    random = np.random.default_rng(k)
    rows, born = np.arange(count, dtype=np.int32), np.arange(count, dtype=np.int64)
    x, y = random.integers(0, count, count).astype(float), random.integers(0, distinct, count).astype(float)
    ranges = np.sort(random.integers(0, count, (40, 2)).astype(float), axis=1)
    painter: PaintDense | PaintSparse = PaintDense(k, capacity=2, side=2)
    if way == "sparse":
        painter = PaintSparse(k, capacity=2, side=2)
        painter.register(np.arange(40, dtype=np.int32), *np.ascontiguousarray(ranges.T))
    painter.load(rows, x, y, born)
    world = World()
    for row in range(count):
        world.put(row, x[row], y[row], row)
    clients = {(lo, hi): tocsin.Subscriber(lo, hi, k=k) for lo, hi in ranges.tolist()}
    for (lo, hi), client in clients.items():
        client.start(
            [{"key": one.slot, "x": one.x, "y": one.y, "born": one.born} for one in world.top(lo, hi, k)]
        )
    for _ in range(12):
        # The best rows become the worst, or go, and others the best: these pass nearly all.
        best = min(world.rows, key=lambda one: world.rows[one].y)
        slot = best if random.integers(2) else int(random.integers(count))
        known = world.rows[slot]
        fate = random.integers(4)
        after = math.nan if fate == 0 else float(distinct) if fate == 1 else random.integers(distinct) * 1.0
        event = (slot, known.x, after, known.born)
        messages = messages_of(apply(painter, [event]), 0)
        before = world.copy()
        world.put(*event)
        for (lo, hi), client in clients.items():
            got = [message for message in messages if client.receives(message)]
            assert bool(got) == (before.top(lo, hi, k) != world.top(lo, hi, k))
            assert len(got) <= 2
            client.apply(messages)
            assert held(client) == wanted(world, lo, hi, k)
        if math.isnan(after):
            event = (slot, known.x, known.y, known.born)
            messages = messages_of(apply(painter, [event]), 0)
            for client in clients.values():
                client.apply(messages)
            world.put(*event)
    painter.check_invariants()


def test_numbers_count_within_an_event() -> None:
    painter = PaintDense(2, capacity=2)
    x, y = np.arange(6.0), np.array([5.0, 3.0, 1.0, 2.0, 4.0, 6.0])
    messages = painter.apply(np.arange(6, dtype=np.int32), x, y, np.arange(6, dtype=np.int64)).copy()
    for event in range(6):
        numbers = messages.number[messages.event == event]
        assert numbers.tolist() == list(range(len(numbers)))
    reached = messages.reaches(0.5, 2.5)
    assert set(messages.event[reached].tolist()) == {1, 2}


@pytest.mark.parametrize("k", [1, 2, 5])
def test_arrays_carry_on_where_they_were_taken(k: int) -> None:
    random = np.random.default_rng(k)
    one, other = PaintDense(k, capacity=2), PaintDense(k, capacity=2)
    rows, born = np.arange(40, dtype=np.int32), np.arange(40, dtype=np.int64)
    x, *ys = (random.integers(0, 9, 40).astype(float) for _ in range(3))
    one.apply(rows, x, ys[0], born)
    other.restore(one.arrays())
    for column, again in zip(one.apply(rows, x, ys[1], born), other.apply(rows, x, ys[1], born), strict=True):
        np.testing.assert_array_equal(column, again)
