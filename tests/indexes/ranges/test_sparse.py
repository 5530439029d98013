"""Paint-Sparse against trying every subscription."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tocsin
from tests.conftest import INTERPRETED, examples
from tests.indexes.ranges.test_dense import (
    SUBSCRIPTIONS,
    Script,
    apply,
    held,
    messages_of,
    scripts,
    wanted,
)
from tests.oracles.ranges_boxes import fewest_boxes
from tests.oracles.ranges_messages import World
from tocsin.arrays.types import Longs
from tocsin.indexes.contract import ABSENT
from tocsin.indexes.ranges.messages.messages import RowEvents
from tocsin.indexes.ranges.messages.painters.dense import PaintDense
from tocsin.indexes.ranges.messages.painters.sparse import PaintSparse
from tocsin.indexes.ranges.messages.painters.sparse_kernels import paint_sparsely

Ranges = list[tuple[float, float]]
#: Some of the subscriptions that there could be; one may be there twice.
some_ranges = st.lists(st.sampled_from(SUBSCRIPTIONS), min_size=0, max_size=12)
a_few = settings(max_examples=examples(60))


def painter_of(ranges: Ranges, k: int, epsilon: float = 0.0, descending: bool = False) -> PaintSparse:
    painter = PaintSparse(k, epsilon=epsilon, descending=descending, capacity=2)
    bounds = np.array(ranges, np.float64).reshape(len(ranges), 2)
    painter.register(np.arange(len(ranges), dtype=np.int32), bounds[:, 0], bounds[:, 1])
    return painter


def is_one_step(before: World, after: World, slot: int) -> bool:
    moved, now = before.rows.get(slot), after.rows.get(slot)
    return moved is None or now is None or (moved.x, moved.born) == (now.x, now.born)


@given(scripts(), some_ranges, st.integers(1, 4))
@a_few
def test_exactly_the_affected_hear_and_no_message_reaches_nobody(
    script: Script, ranges: Ranges, k: int
) -> None:
    painter, world = painter_of(ranges, k), World()
    clients = [tocsin.Subscriber(lo, hi, k=k) for lo, hi in ranges]
    for row in script:
        messages = messages_of(apply(painter, [row]), 0)
        before = world.copy()
        world.put(*row)
        for message in messages:
            assert any(client.receives(message) for client in clients)
        for (lo, hi), client in zip(ranges, clients, strict=True):
            got = [message for message in messages if client.receives(message)]
            if is_one_step(before, world, row[0]):
                assert bool(got) == (before.top(lo, hi, k) != world.top(lo, hi, k))
                assert len(got) <= 2
                assert [message["key"] for message in got[:1]] == [row[0]] * len(got[:1])
            client.apply(messages)
            assert held(client) == wanted(world, lo, hi, k)
    painter.check_invariants()
    painter.points.check_invariants()


@given(scripts(max_size=10), some_ranges, st.integers(1, 4))
@a_few
def test_there_are_at_most_twice_as_many_messages_as_there_must_be(
    script: Script, ranges: Ranges, k: int
) -> None:
    painter, world = painter_of(ranges, k), World()
    dense = PaintDense(k, capacity=2)
    points = {(lo, hi) for lo, hi in ranges if lo <= hi}
    for row in script:
        messages = messages_of(apply(painter, [row]), 0)
        before = world.copy()
        world.put(*row)
        assert len(messages) <= len(apply(dense, [row]).payload)
        if not is_one_step(before, world, row[0]):
            continue
        told: dict[int, set[tuple[float, float]]] = {row[0]: set()}
        for lo, hi in points:
            old, new = before.top(lo, hi, k), world.top(lo, hi, k)
            if old != new:
                told[row[0]].add((lo, hi))
                for one in new:
                    if one not in old and one.slot != row[0]:
                        told.setdefault(one.slot, set()).add((lo, hi))
        sent = [message["key"] for message in messages]
        assert set(sent) <= set(told)
        for slot, who in told.items():
            assert sent.count(slot) <= 2 * fewest_boxes(who, points - who)


@given(scripts(), some_ranges, st.integers(1, 6), st.sampled_from([0.25, 0.5, 1.0]))
@a_few
def test_epsilon_misses_nobody_and_sends_no_row_ranked_far_below(
    script: Script, ranges: Ranges, k: int, epsilon: float
) -> None:
    painter, world = painter_of(ranges, k, epsilon), World()
    clients = [tocsin.Subscriber(lo, hi, k=k) for lo, hi in ranges]
    for row in script:
        messages = messages_of(apply(painter, [row]), 0)
        before = world.copy()
        world.put(*row)
        between = before.copy()
        between.put(row[0], 0.0, 0.0, ABSENT)
        for message in messages:
            assert any(client.receives(message) for client in clients)
        for (lo, hi), client in zip(ranges, clients, strict=True):
            for message in messages:
                if client.receives(message):
                    ranks = [
                        [one.slot for one in any_world.inside(lo, hi)].index(message["key"]) + 1
                        for any_world in (before, between, world)
                        if message["key"] in [one.slot for one in any_world.inside(lo, hi)]
                    ]
                    assert min(ranks) <= (1 + epsilon) * k
            client.apply(messages)
            assert held(client) == wanted(world, lo, hi, k)


@given(scripts(max_size=8), some_ranges, st.integers(1, 3))
@settings(a_few, max_examples=examples(20))
def test_descending_is_ascending_turned_over(script: Script, ranges: Ranges, k: int) -> None:
    one = apply(painter_of(ranges, k), script)
    other = apply(
        painter_of(ranges, k, descending=True), [(slot, x, -y, born) for slot, x, y, born in script]
    )
    for name, column in one.columns().items():
        mirrored = other.columns()[name]
        np.testing.assert_array_equal(column, -mirrored + 0.0 if name == "y" else mirrored)


class PaintAnyK(PaintSparse):
    """For k = 1 too, the kernel that is for every k."""

    def _paint(self, events: RowEvents, cursor: Longs) -> int:
        blocked, grid = self.index.columns, self.points.grid
        with np.errstate(all="ignore"):
            return paint_sparsely(blocked, grid, self._scratch, events, self.k, self._buffer, cursor)


@given(scripts(max_size=20), some_ranges)
@a_few
def test_the_best_row_is_told_as_the_k_best_are(script: Script, ranges: Ranges) -> None:
    special, general = painter_of(ranges, 1), PaintAnyK(1, capacity=2)
    general.points = special.points
    for one, other in zip(apply(special, script), apply(general, script), strict=True):
        np.testing.assert_array_equal(one, other)
    counts = [(painter.n_exposed, painter.n_snaps, painter.n_searches) for painter in (special, general)]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("k", [1, 3, 8])
def test_many_subscriptions_hear_what_dense_tells_them(k: int) -> None:
    """Enough of them for the grid itself to be asked, and for tiles that are not snapped."""
    random = np.random.default_rng(k)
    n_rows, n_ranges, n_events = (20, 150, 30) if INTERPRETED else (60, 3000, 300)
    bounds = np.sort(random.random((n_ranges, 2)), axis=1)
    sparse, dense = PaintSparse(k, nearby=0), PaintDense(k)
    local = PaintSparse(k)
    slots = np.arange(n_ranges, dtype=np.int32)
    for aware in (sparse, local):
        aware.register(slots, bounds[:, 0], bounds[:, 1])
    rows, x = np.arange(n_rows, dtype=np.int32), random.random(n_rows)
    for painter in (sparse, dense, local):
        painter.load(rows, x, x[::-1].copy(), rows.astype(np.int64))
    for number in range(n_events):
        if number == n_events // 2:
            for aware in (sparse, local):
                aware.terminate(slots[::2], bounds[::2, 0], bounds[::2, 1])
            slots, bounds = slots[1::2], bounds[1::2]
        row = random.integers(0, n_rows, 1).astype(np.int32)
        event = (row, x[row], random.integers(0, 30, 1) / 30.0, row.astype(np.int64))
        told = [painter.apply(*event).copy() for painter in (sparse, dense, local)]
        assert len(told[0].payload) <= len(told[1].payload)
        # A tile that is not snapped is joined where it would be if it were.
        assert len(told[0].payload) == len(told[2].payload)
        heard = []
        for messages in told:
            reached: dict[int, list[int]] = {}
            for number_of in range(len(messages.payload)):
                inside = (bounds[:, 0] <= messages.inner_lo[number_of]) & (
                    messages.inner_hi[number_of] <= bounds[:, 1]
                )
                inside &= ~(bounds[:, 0] <= messages.outer_lo[number_of])
                inside &= ~(messages.outer_hi[number_of] <= bounds[:, 1])
                row_told = int(messages.payload_row[messages.payload[number_of]])
                for slot in slots[inside].tolist():
                    reached.setdefault(slot, []).append(row_told)
                assert inside.any() or messages is told[1]
            heard.append(reached)
        assert heard[0] == heard[1] == heard[2]
    assert sparse.n_exposed <= dense.n_exposed
    assert sparse.n_snaps >= n_events
    assert not math.isnan(sparse.n_searches)
