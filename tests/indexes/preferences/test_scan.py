"""Preference top-k against the oracle, step by step, with a subscriber that replays the changes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.oracles.members import (
    NUMBERS,
    MemberRow,
    Query,
    SimulatedSource,
    State,
    Steps,
    actions,
    delta_of,
    grouped,
    shown,
)
from tests.oracles.windows import replay, top_k, top_k_changes
from tocsin.arrays.changes import ENTER
from tocsin.indexes.contract import RowDelta
from tocsin.kernels.programs import program
from tocsin.papers.sliding_windows.scan import PreferenceScan

BOUNDS = st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.0, math.inf, -math.inf])
PROGRAMS: list[Steps] = [
    [("column", 0), ("theta", 0), ("multiply", 0), ("column", 1), ("theta", 1), ("multiply", 0), ("add", 0)],
    [("column", 0), ("theta", 0), ("subtract", 0), ("abs", 0)],
    [("column", 0), ("negate", 0)],
    [("column", 0), ("ln", 0), ("column", 1), ("sqrt", 0), ("divide", 0)],
    [("theta", 0)],
]


def register(index: PreferenceScan, queries: dict[int, Query]) -> None:
    n = len(queries)
    columns = zip(*((query.lo, query.hi, query.theta) for query in queries.values()), strict=True)
    lo, hi, theta = (np.array(column, np.float64).reshape(n, -1) for column in columns)
    k = np.array([query.k for query in queries.values()], np.int32)
    index.register(np.array(list(queries), np.int32), {"lo": lo, "hi": hi, "theta": theta, "k": k})


class ScanMachine(RuleBasedStateMachine):
    """Rows come, change and go; subscriptions too; the index agrees with the oracle throughout."""

    @initialize(
        dimensions=st.integers(0, 2),
        steps=st.sampled_from(PROGRAMS),
        descending=st.booleans(),
        newest_first=st.booleans(),
        capacity=st.sampled_from([2, 16]),
    )
    def build(
        self, dimensions: int, steps: Steps, descending: bool, newest_first: bool, capacity: int
    ) -> None:
        self.dimensions, self.steps, self.capacity = dimensions, steps, capacity
        self.descending, self.newest_first = descending, newest_first
        self.program = program(steps)
        self.index = self.fresh()
        self.source = SimulatedSource(dimensions + self.program.n_columns)
        self.queries: dict[int, Query] = {}
        #: what a subscriber holds who heard the changes only
        self.held: dict[int, list[tuple[int, float]]] = {}

    def fresh(self) -> PreferenceScan:
        return PreferenceScan(
            self.dimensions,
            self.program,
            descending=self.descending,
            newest_first=self.newest_first,
            capacity=self.capacity,
        )

    def answer(self, state: State, query: Query) -> list[tuple[int, float]]:
        return top_k(state, query, self.steps, descending=self.descending, newest_first=self.newest_first)

    @rule(data=st.data(), count=st.integers(1, 3))
    def add(self, data: st.DataObject, count: int) -> None:
        free = [slot for slot in range(12) if slot not in self.queries]
        box = st.tuples(*[BOUNDS] * self.dimensions)
        added = {}
        for slot in data.draw(st.permutations(free))[:count]:
            theta = data.draw(st.tuples(*[BOUNDS] * self.program.n_theta))
            k = data.draw(st.sampled_from([1, 1, 2, 3, 1000, 2**31 - 1]))
            added[slot] = Query(data.draw(box), data.draw(box), theta, k=k)
        if not added:
            return
        register(self.index, added)
        self.queries.update(added)
        first = self.index.result(np.array(list(added), np.int32))
        for slot in added:
            mine = first.subscription == slot
            assert first.rank[mine].tolist() == list(range(1, mine.sum() + 1))
            self.held[slot] = list(zip(first.row[mine].tolist(), first.score[mine].tolist(), strict=True))

    @rule(choice=st.integers(0, 20))
    def terminate(self, choice: int) -> None:
        if self.queries:
            slot = sorted(self.queries)[choice % len(self.queries)]
            del self.queries[slot], self.held[slot]
            self.index.terminate(np.array([slot], np.int32))

    @rule(data=st.data(), n_steps=st.integers(1, 3), burst=st.sampled_from([0, 0, 0, 35]))
    def publish(self, data: st.DataObject, n_steps: int, burst: int) -> None:
        for _ in range(n_steps):
            self.source.begin()
            self.source.act(data.draw(actions(self.source.n_columns)))
            if burst:
                some = data.draw(
                    st.lists(st.tuples(*[NUMBERS] * self.source.n_columns), min_size=1, max_size=3)
                )
                for i in range(burst):
                    self.source.insert(some[i % len(some)])
            self.source.end()
        self.take_steps()

    @rule(data=st.data(), size=st.integers(1, 20), n_steps=st.integers(1, 12))
    def slide(self, data: st.DataObject, size: int, n_steps: int) -> None:
        """A window of `size` rows takes one row a step."""
        rows = data.draw(st.lists(st.tuples(*[NUMBERS] * self.source.n_columns), min_size=1, max_size=4))
        for i in range(n_steps):
            self.source.begin()
            self.source.insert(rows[i % len(rows)])
            self.source.expire(size)
            self.source.end()
        self.take_steps()

    def take_steps(self) -> None:
        delta, states = self.source.take()
        groups = grouped(self.index.apply(delta))
        for number, (before, after) in enumerate(states):
            for slot, query in self.queries.items():
                changes = groups.pop((number, slot), [])
                old, new = self.answer(before, query), self.answer(after, query)
                assert shown(changes) == shown(top_k_changes(before, after, old, new))
                self.held[slot] = replay(self.held[slot], changes)
                assert repr(self.held[slot]) == repr(new)
        assert not groups

    @rule()
    def save_and_restore(self) -> None:
        saved = self.index.arrays()
        self.index = self.fresh()
        self.index.restore(saved)
        again = self.index.arrays()
        assert saved.keys() == again.keys()
        assert all(np.array_equal(saved[name], again[name], equal_nan=True) for name in saved)

    @invariant()
    def answers_agree(self) -> None:
        self.index.check_invariants()
        slots = sorted(self.queries, reverse=True)
        found = self.index.result(np.array(slots, np.int32))
        expected = [
            (slot, rank, row, score)
            for slot in slots
            for rank, (row, score) in enumerate(self.answer(self.source.state, self.queries[slot]), start=1)
        ]
        columns = (c.tolist() for c in (found.subscription, found.rank, found.row, found.score))
        assert repr(list(zip(*columns, strict=True))) == repr(expected)
        assert (found.op == ENTER).all()


ScanMachine.TestCase.settings = settings(stateful_step_count=15)
TestPreferenceScan = ScanMachine.TestCase


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("each", [True, False])
def test_a_sliding_window_with_many_subscriptions(newest_first: bool, each: bool) -> None:
    random = np.random.default_rng(11)
    steps = PROGRAMS[0]
    queries = {
        slot: Query((), (), tuple(theta), k=1 + slot % 3)
        for slot, theta in enumerate(random.integers(-2, 3, size=(30, 2)).astype(float).tolist())
    }
    index = PreferenceScan(0, program(steps), descending=True, newest_first=newest_first, capacity=2)
    register(index, queries)
    source = SimulatedSource(2)
    for size in (40, 12, 60):
        for _ in range(4):
            if not each:
                source.begin()
            for row in random.integers(0, 4, size=(15, 2)).astype(float).tolist():
                if each:
                    source.begin()
                source.insert(row)
                source.expire(size)
                if each:
                    source.end()
            if not each:
                source.end()
    delta, states = source.take()
    groups = grouped(index.apply(delta))
    index.check_invariants()
    for slot, query in queries.items():
        old: list[tuple[int, float]] = []
        for number, (before, after) in enumerate(states):
            new = top_k(after, query, steps, descending=True, newest_first=newest_first)
            expected = top_k_changes(before, after, old, new)
            assert shown(groups.get((number, slot), [])) == shown(expected)
            old = new


def test_a_list_that_ran_short_ranks_all_rows_again() -> None:
    index = PreferenceScan(0, program([("column", 0)]), descending=True, newest_first=True)
    state = {slot: MemberRow(slot, (float(slot),)) for slot in range(100)}
    index.apply(delta_of([({}, state)], 1))
    register(index, {0: Query((), (), k=2)})
    remaining = {slot: row for slot, row in state.items() if slot < 60}
    changes = index.apply(delta_of([(state, remaining)], 1))
    assert changes.row.tolist() == [99, 98, 59, 58]
    assert changes.rank.tolist() == [0, 0, 1, 2]
    index.check_invariants()


def test_room_of_ended_subscriptions_is_used_again() -> None:
    index = PreferenceScan(0, program([("column", 0)]), descending=False, newest_first=False, capacity=2)
    state = {slot: MemberRow(slot, (float(slot % 4),)) for slot in range(20)}
    index.apply(delta_of([({}, state)], 1))
    sizes = set()
    for _ in range(60):
        register(index, {0: Query((), (), k=5), 1: Query((), (), k=3)})
        assert index.result(np.array([1], np.int32)).row.tolist() == [0, 4, 8]
        index.terminate(np.array([0, 1], np.int32))
        index.check_invariants()
        sizes.add(len(index._pool.row))
    assert max(sizes) <= 128
    assert not index.apply(delta_of([(state, {})], 1))


def test_inputs_stay_untouched_and_may_be_read_only() -> None:
    index = PreferenceScan(0, program([("column", 0)]), descending=True, newest_first=True, capacity=2)
    register(index, {0: Query((), (), k=1)})
    delta = delta_of([({}, {0: MemberRow(0, (1.0,)), 1: MemberRow(1, (-0.0,))})], 1)
    frozen = RowDelta._make(np.frombuffer(c.tobytes(), c.dtype).reshape(c.shape) for c in delta)
    assert index.apply(frozen).row.tolist() == [0]
    assert repr(frozen) == repr(delta)


@pytest.mark.parametrize(("descending", "first"), [(True, "largest"), (False, "smallest")])
def test_explain_is_one_line(descending: bool, first: str) -> None:
    line = PreferenceScan(
        0, program([("theta", 0)]), descending=descending, newest_first=descending
    ).explain()
    assert first in line
    assert "\n" not in line


def test_parameters_are_what_was_registered() -> None:
    index = PreferenceScan(1, program([("theta", 0)]), descending=True, newest_first=True)
    register(index, {3: Query((1.0,), (2.0,), (0.5,), k=7)})
    assert index.parameters(3) == {"lo": [1.0], "hi": [2.0], "theta": [0.5], "k": 7}


def test_nothing_asked_nothing_told() -> None:
    index = PreferenceScan(0, program([("column", 0)]), descending=True, newest_first=True)
    index.register(np.empty(0, np.int32), {})
    assert not index.apply(delta_of([], 1))
    assert not index.apply(delta_of([({}, {0: MemberRow(0, (1.0,))})], 1))
    assert not index.result(np.empty(0, np.int32))
