"""Messages of range DISTINCT against trying every range."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import tocsin
from tests.indexes.ranges.test_dense import BOUNDS, SUBSCRIPTIONS, XS
from tests.oracles.ranges_values import values_inside
from tocsin.indexes.ranges.messages.distinct import DistinctMessages, Values
from tocsin.indexes.ranges.messages.messages import Messages
from tocsin.indexes.ranges.messages.receivers import fit_messages
from tocsin.indexes.ranges.structures.points import Points

Row = tuple[int, float]
#: A row that is not there.
NOWHERE = (math.nan, math.nan)

rows = st.tuples(st.integers(0, 2), st.sampled_from(XS))
#: Batches of (which row, what it is now).
batches = st.lists(st.dictionaries(st.integers(0, 5), rows | st.none(), max_size=4), max_size=8)


def values(given: list[Row | None]) -> Values:
    table = np.array([NOWHERE if row is None else row for row in given], np.float64).reshape(-1, 2)
    return Values(table[:, 0], table[:, 1], table[:, 0] * 10)


def applied(table: DistinctMessages, world: dict[int, Row], batch: dict[int, Row | None]) -> Messages:
    """Apply a batch to both."""
    before, after = values([world.get(name) for name in batch]), values(list(batch.values()))
    for name, row in batch.items():
        world.pop(name, None)
        if row is not None:
            world[name] = row
    return table.apply(before, after)


def told(messages: Messages, lo: float, hi: float) -> list[tuple[int, bool]]:
    """What a range hears: (value, whether it is gone)."""
    heard = messages.payload[messages.reaches(lo, hi)]
    return list(zip(messages.payload_row[heard].tolist(), messages.payload_gone[heard].tolist(), strict=True))


@given(batches)
def test_each_range_hears_once_of_what_it_gets_and_loses(script: list[dict[int, Row | None]]) -> None:
    table, world = DistinctMessages(capacity=2), dict[int, Row]()
    for batch in script:
        old = list(world.values())
        messages = applied(table, world, batch)
        np.testing.assert_array_equal(messages.payload_y, messages.payload_row * 10.0)
        for lo, hi in SUBSCRIPTIONS:
            before, after = values_inside(old, lo, hi), values_inside(world.values(), lo, hi)
            expected = [(value, True) for value in before - after] + [
                (value, False) for value in after - before
            ]
            assert sorted(told(messages, lo, hi)) == sorted(expected)
        table.check_invariants()
        assert len(table) == len(set(world.values()))


@given(batches, st.sets(st.tuples(st.sampled_from(BOUNDS), st.sampled_from(BOUNDS)), max_size=6))
def test_fitted_messages_reach_the_same_and_never_nobody(
    script: list[dict[int, Row | None]], ranges: set[tuple[float, float]]
) -> None:
    subscriptions = sorted((lo, hi) for lo, hi in ranges if lo <= hi)
    points = Points(capacity=2)
    lo, hi = (np.array([pair[i] for pair in subscriptions]) for i in (0, 1))
    points.insert(np.arange(len(subscriptions), dtype=np.int32), lo, hi)
    table, world = DistinctMessages(capacity=2), dict[int, Row]()
    for batch in script:
        messages = applied(table, world, batch)
        fitted = fit_messages(points, messages)
        assert len(fitted.payload) <= len(messages.payload)
        for low, high in subscriptions:
            assert told(fitted, low, high) == told(messages, low, high)
        for tile in range(len(fitted.payload)):
            assert any(bool(fitted.reaches(low, high)[tile]) for low, high in subscriptions)


def test_a_message_that_came_as_json_may_leave_out_what_is_null() -> None:
    """A value that is no number has no y, and no insertion number."""
    subscriber = tocsin.Subscriber(0, 5, kind="distinct")
    subscriber.start([{"key": "red", "x": [1.0], "seq": 1}])
    message = {"key": "blue", "inner_lo": [5.0], "inner_hi": [0.0], "outer_lo": [None], "outer_hi": [None]}
    assert subscriber.apply({**message, "seq": 2, "n": 0, "gone": False}) == 1
    assert [entry.key for entry in subscriber.result()] == ["blue", "red"]
