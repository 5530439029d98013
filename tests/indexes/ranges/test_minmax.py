"""Range-min and -max messages: the paper's example, and against trying every range."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tocsin
from tests.indexes.ranges.test_dense import (
    SUBSCRIPTIONS,
    Script,
    apply,
    held,
    messages_of,
    scripts,
    wanted,
)
from tests.indexes.ranges.test_sparse import Ranges, some_ranges
from tests.oracles.ranges_messages import World
from tocsin.indexes.ranges.messages.messages import Reformulator
from tocsin.indexes.ranges.messages.painters.minmax import MinMaxBatch, MinMaxDense, MinMaxSparse
from tocsin.papers.topk_paint.minmax import BAD, GOOD, IGNORABLE, MarHull

#: Risk and price-to-earning ratio of the paper's stocks t1 … t8, as its Figure 1 and its text give them.
RISK = np.array([10.0, 20.0, 30.0, 40.0, 50.0, 70.0, 70.0, 100.0])
PER = np.array([7.0, 3.0, 8.0, 12.0, 5.0, 6.0, 10.0, 2.0])


@pytest.mark.parametrize(
    ("stock", "per", "kind", "told"),
    [
        (4, 4.0, GOOD, {(4, 40, 40, 20, 100)}),
        (5, 9.0, BAD, {(9, 50, 50, 30, 70), (8, 30, 50, 20, 70), (6, 50, 70, 20, 100)}),
        (7, 11.0, IGNORABLE, set()),
    ],
)
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("ways", [MarHull, MinMaxDense])
def test_the_papers_example(
    stock: int, per: float, kind: int, told: set[tuple[float, ...]], sign: float, ways: type[Reformulator]
) -> None:
    """MIN as the paper has it, and MAX of the same turned over."""
    table = ways(descending=sign < 0, capacity=2)
    slots, born = np.arange(8, dtype=np.int32), np.arange(8, dtype=np.int64)
    table.load(slots, RISK, PER * sign, born)
    at = slice(stock - 1, stock)
    messages = table.apply(slots[at], RISK[at], np.array([per]) * sign, born[at])
    columns = (messages.inner_lo, messages.inner_hi, messages.outer_lo, messages.outer_hi)
    assert (
        set(
            zip(
                (sign * messages.payload_y[messages.payload]).tolist(),
                *map(np.ndarray.tolist, columns),
                strict=True,
            )
        )
        == told
    )
    if isinstance(table, MarHull):
        assert table.kinds.tolist() == [kind]


@given(scripts(), st.booleans())
def test_each_range_whose_answer_changes_hears_once(script: Script, one_by_one: bool) -> None:
    table, walk, world = MarHull(capacity=2), MinMaxDense(capacity=2), World()
    everything = None if one_by_one else apply(table, script)
    kinds = table.kinds.tolist()
    walked = apply(walk, script).columns()
    if everything:
        for name, column in everything.columns().items():
            np.testing.assert_array_equal(walked[name], column)
    clients = {(lo, hi): tocsin.Subscriber(lo, hi, kind="min") for lo, hi in SUBSCRIPTIONS}
    for event, row in enumerate(script):
        messages = messages_of(everything, event) if everything else messages_of(apply(table, [row]), 0)
        kind = kinds[event] if everything else int(table.kinds[0])
        before, known = world.copy(), world.rows.get(row[0])
        world.put(*row)
        now = world.rows.get(row[0])
        is_move = known and now and (known.x, known.born) != (now.x, now.born)
        assert (kind == IGNORABLE) == (not messages)
        if kind == GOOD:
            assert [(message["key"], message["gone"]) for message in messages] == [(row[0], False)]
        elif kind == BAD:
            assert any(message["key"] != row[0] or message["gone"] for message in messages)
        for (lo, hi), client in clients.items():
            is_affected = before.top(lo, hi, 1) != world.top(lo, hi, 1)
            got = client.apply(messages)
            assert got == is_affected or (is_move and got >= is_affected)
            assert held(client) == wanted(world, lo, hi, 1)
    table.check_invariants()


@given(scripts(), some_ranges, st.booleans())
def test_known_ranges_whose_answer_changes_hear_once_and_no_message_reaches_nobody(
    script: Script, ranges: Ranges, descending: bool
) -> None:
    sign, bounds = -1.0 if descending else 1.0, np.array(ranges, np.float64).reshape(len(ranges), 2)
    table, world = MinMaxSparse(descending=descending, capacity=2), World()
    table.register(np.arange(len(ranges), dtype=np.int32), bounds[:, 0], bounds[:, 1])
    kind = "max" if descending else "min"
    clients = [tocsin.Subscriber(lo, hi, kind=kind) for lo, hi in ranges]
    for slot, x, y, born in script:
        messages = messages_of(apply(table, [(slot, x, sign * y, born)]), 0)
        before, known = world.copy(), world.rows.get(slot)
        world.put(slot, x, y, born)
        now = world.rows.get(slot)
        is_move = known and now and (known.x, known.born) != (now.x, now.born)
        for message in messages:
            assert any(client.receives(message) for client in clients)
        for (lo, hi), client in zip(ranges, clients, strict=True):
            is_affected = before.top(lo, hi, 1) != world.top(lo, hi, 1)
            got = client.apply(messages)
            assert got == is_affected or (is_move and got >= is_affected)
            answer = [(row, sign * value, number) for row, value, number in wanted(world, lo, hi, 1)]
            assert held(client) == answer
    table.check_invariants()


@given(scripts(max_size=20), st.sampled_from([1, 2, 4, 7]), st.booleans())
def test_after_a_batch_each_range_whose_answer_changed_has_heard_once(
    script: Script, size: int, descending: bool
) -> None:
    table, world, sign = MinMaxBatch(descending=descending, capacity=2), World(), -1.0 if descending else 1.0
    kind = "max" if descending else "min"
    clients = {(lo, hi): tocsin.Subscriber(lo, hi, kind=kind) for lo, hi in SUBSCRIPTIONS}
    for begin in range(0, len(script), size):
        batch = script[begin : begin + size]
        turned = [(slot, x, sign * y, born) for slot, x, y, born in batch]
        messages = messages_of(apply(table, turned), 0)
        before = world.copy()
        for row in batch:
            world.put(*row)
        for (lo, hi), client in clients.items():
            is_affected = before.top(lo, hi, 1) != world.top(lo, hi, 1)
            assert client.apply(messages) == is_affected
            answer = [(slot, sign * y, born) for slot, y, born in wanted(world, lo, hi, 1)]
            assert held(client) == answer
        table.check_invariants()
