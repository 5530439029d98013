"""Paint-Batch: the net change, in the fewest messages to each subscriber; and its competitors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tocsin
from tests.conftest import examples
from tests.indexes.ranges.test_dense import (
    SUBSCRIPTIONS,
    Script,
    apply,
    held,
    messages_of,
    scripts,
    wanted,
)
from tests.oracles.ranges_messages import World, fewest_messages
from tocsin.indexes.contract import ABSENT
from tocsin.indexes.ranges.messages.painters.batch import PaintBatch
from tocsin.indexes.ranges.messages.painters.dense import PaintDense
from tocsin.indexes.ranges.messages.receivers import Receivers, receiver_counts
from tocsin.papers.topk_paint.coalesce import PaintCoalesce
from tocsin.papers.topk_paint.relax import RelaxedSubscriber, relax_events
from tocsin.papers.topk_paint.unicast import Unicast
from tocsin.papers.topk_paint.unicast_kernels import UnicastMessages

sizes = st.sampled_from([1, 2, 4, 7])


@given(scripts(max_size=20), st.integers(1, 3), sizes)
def test_after_a_batch_everyone_holds_the_answer(script: Script, k: int, size: int) -> None:
    painter, world = PaintBatch(k, capacity=2), World()
    clients = {(lo, hi): tocsin.Subscriber(lo, hi, k=k) for lo, hi in SUBSCRIPTIONS}
    for begin in range(0, len(script), size):
        batch = script[begin : begin + size]
        messages = messages_of(apply(painter, batch), 0)
        for row in batch:
            world.put(*row)
        for (lo, hi), client in clients.items():
            client.apply(messages)
            assert held(client) == wanted(world, lo, hi, k)
        painter.check_invariants()


@given(scripts(max_size=12), st.integers(1, 3), sizes)
def test_nobody_could_do_with_fewer_messages(script: Script, k: int, size: int) -> None:
    painter, world = PaintBatch(k, capacity=2), World()
    for begin in range(0, len(script), size):
        batch = script[begin : begin + size]
        messages = messages_of(apply(painter, batch), 0)
        before = world.copy()
        for row in batch:
            world.put(*row)
        moved = {
            slot
            for slot, row in before.rows.items()
            if slot in world.rows and (row.x, row.born) != (world.rows[slot].x, world.rows[slot].born)
        }
        for lo, hi in SUBSCRIPTIONS:
            client = tocsin.Subscriber(lo, hi, k=k)
            got = [message for message in messages if client.receives(message)]
            # A row that moves in x is two rows to the batch: it may be told twice.
            again = {message["key"] for message in got if message["key"] in moved and message["gone"]}
            assert len(got) - len(again) <= fewest_messages(before, world, lo, hi, k)


@given(scripts(max_size=20), st.integers(1, 3), sizes)
def test_coalescing_ends_at_the_answer_too(script: Script, k: int, size: int) -> None:
    painter, world = PaintCoalesce(k, capacity=2), World()
    clients = {(lo, hi): tocsin.Subscriber(lo, hi, k=k) for lo, hi in SUBSCRIPTIONS}
    for begin in range(0, len(script), size):
        batch = script[begin : begin + size]
        columns = apply(painter, batch).columns()
        messages = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        for row in batch:
            world.put(*row)
        for (lo, hi), client in clients.items():
            client.apply([{**message, "key": int(message["row"])} for message in messages])
            assert held(client) == wanted(world, lo, hi, k)


def in_steps(script: Script) -> Script:
    """The script, with a row that goes, moves, is born anew or gets null told as gone from where it was."""
    world, steps = World(), Script()
    for row in script:
        known = world.rows.get(row[0])
        world.put(*row)
        now = world.rows.get(row[0])
        if known and (now is None or (known.x, known.born) != (now.x, now.born)):
            steps.append((known.slot, known.x, known.y, ABSENT))
        if now:
            steps.append(row)
    return steps


@settings(max_examples=examples(30))
@given(scripts(), st.integers(1, 3))
def test_unicast_tells_the_affected_one_by_one(script: Script, k: int) -> None:
    lo, hi = (np.array(column) for column in zip(*SUBSCRIPTIONS, strict=True))
    server, world = Unicast(k, lo, hi, capacity=2), World()
    for row in in_steps(script):
        letters = server.apply(*(np.array([value]) for value in row))
        before = world.copy()
        world.put(*row)
        check_letters(letters, before, world, SUBSCRIPTIONS, k, row[0])


def check_letters(
    letters: UnicastMessages,
    before: World,
    world: World,
    ranges: list[tuple[float, float]],
    k: int,
    slot: int,
) -> None:
    """Who is affected by an event of the slot's row is told, and what takes the place of that row."""
    told = dict(zip(letters.subscription.tolist(), letters.other.tolist(), strict=True))
    assert len(told) == len(letters.subscription)
    for number, (low, high) in enumerate(ranges):
        old, new = before.top(low, high, k), world.top(low, high, k)
        assert (number in told) == (old != new)
        come = [one.slot for one in new if one not in old and one.slot != slot]
        assert [told[number]] * len(come) == come if number in told else not come


@pytest.mark.parametrize(("k", "is_literal"), [(1, False), (1, True), (4, False)])
def test_unicast_among_many_rows_with_ties(k: int, is_literal: bool) -> None:
    random, count = np.random.default_rng(k), 300
    lo, hi = np.sort(random.integers(0, count // 3, (2, 40)), axis=0).astype(float)
    ranges = list(zip(lo.tolist(), hi.tolist(), strict=True))
    server, world = Unicast(k, lo, hi, literal=is_literal, capacity=2), World()
    x, born = random.integers(0, count // 3, count).astype(float), random.permutation(count)
    y = random.integers(0, 9, count).astype(float)
    server.load(np.arange(count, dtype=np.int32), x, y, born)
    for slot in range(count):
        world.put(slot, x[slot], y[slot], int(born[slot]))
    n_sent = 0
    for slot in random.choice(20, 80).tolist():
        # Low rows are those that matter to many.
        is_gone = slot in world.rows and random.random() < 0.2
        row = slot, x[slot], float(random.choice([-2, -1, 0, 1, 5])), ABSENT if is_gone else int(born[slot])
        letters = server.apply(*(np.array([value]) for value in row))
        before = world.copy()
        world.put(*row)
        check_letters(letters, before, world, ranges, k, slot)
        n_sent += len(letters.subscription)
    # At k = 1 those found are those affected.
    assert not is_literal or server.n_searches == n_sent > 0


@given(scripts(), st.integers(1, 3))
def test_tiles_looked_up_are_who_they_reach(script: Script, k: int) -> None:
    lo, hi = (np.array(column) for column in zip(*SUBSCRIPTIONS, strict=True))
    server = Unicast(k, lo, hi, capacity=2)
    messages = apply(PaintDense(k, capacity=2), script)
    counts = receiver_counts(server.points, messages)
    slots, ends = Receivers(server.points).list(messages)
    begins = [0, *ends.tolist()]
    reached = [sorted(slots[begin:end].tolist()) for begin, end in zip(begins, ends.tolist(), strict=False)]
    for number, (low, high) in enumerate(SUBSCRIPTIONS):
        assert messages.reaches(low, high).tolist() == [number in some for some in reached]
    assert counts.tolist() == [len(some) for some in reached]


@given(scripts(), st.integers(1, 3))
def test_relaxed_subscribers_hear_all_and_know_the_answer(script: Script, k: int) -> None:
    world, clients = World(), {(lo, hi): RelaxedSubscriber(lo, hi, k) for lo, hi in SUBSCRIPTIONS}
    for row in in_steps(script):
        messages = messages_of(relax_events(*(np.array([value]) for value in row)), 0)
        world.put(*row)
        for (lo, hi), client in clients.items():
            assert client.apply(messages) == (lo <= row[1] <= hi)
            assert client.result() == [one.slot for one in world.top(lo, hi, k)]
