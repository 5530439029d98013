"""Live rows and score thresholds against the oracle, step by step."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.conftest import examples
from tests.oracles.members import (
    NUMBERS,
    Change,
    Query,
    SimulatedSource,
    State,
    Steps,
    actions,
    delta_of,
    grouped,
    member_changes,
    member_result,
    members,
    shown,
)
from tocsin.arrays.changes import OP_NAMES
from tocsin.indexes.contract import RowDelta
from tocsin.indexes.filters.index import FilterIndex
from tocsin.indexes.filters.tiles import SubscriptionTiles
from tocsin.kernels.programs import program

BOUNDS = st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.0, math.inf, -math.inf])
PROGRAMS: list[Steps | None] = [
    None,
    [("column", 0), ("theta", 0), ("multiply", 0), ("column", 1), ("add", 0)],
    [("theta", 0), ("column", 0), ("divide", 0)],
    [("theta", 0)],
]


def register(index: FilterIndex, slots: list[int], queries: list[Query]) -> None:
    n = len(slots)
    index.register(
        np.array(slots, np.int32),
        {
            "lo": np.array([query.lo for query in queries], np.float64).reshape(n, -1),
            "hi": np.array([query.hi for query in queries], np.float64).reshape(n, -1),
            "theta": np.array([query.theta for query in queries], np.float64).reshape(n, -1),
            "score_lo": np.array([query.score_lo for query in queries], np.float64),
            "score_hi": np.array([query.score_hi for query in queries], np.float64),
        },
    )


class MembersMachine(RuleBasedStateMachine):
    """Rows come, change and go; subscriptions too; the index agrees with the oracle throughout."""

    @initialize(
        dimensions=st.integers(0, 2),
        steps=st.sampled_from(PROGRAMS),
        capacity=st.sampled_from([2, 16]),
        width=st.sampled_from([2, 3, 64]),
    )
    def build(self, dimensions: int, steps: Steps | None, capacity: int, width: int) -> None:
        self.dimensions, self.steps, self.capacity = dimensions, steps, capacity
        self.program = None if steps is None else program(steps)
        self.width = width
        self.index = FilterIndex(dimensions, self.program, capacity, width, max_unsorted=3)
        self.source = SimulatedSource(dimensions + (self.program.n_columns if self.program else 0))
        self.queries: dict[int, Query] = {}
        self.held: dict[int, dict[int, float]] = {}

    @rule(data=st.data(), count=st.integers(1, 3))
    def add(self, data: st.DataObject, count: int) -> None:
        n_theta = self.program.n_theta if self.program else 0
        free = [slot for slot in range(12) if slot not in self.queries]
        slots = data.draw(st.permutations(free))[:count] if len(free) >= count else []
        for slot in slots:
            box = st.tuples(*[BOUNDS] * self.dimensions)
            theta = data.draw(st.tuples(*[BOUNDS] * n_theta))
            interval = (data.draw(BOUNDS), data.draw(BOUNDS)) if self.program else (-math.inf, math.inf)
            self.queries[slot] = Query(data.draw(box), data.draw(box), theta, *interval)
        if slots:
            register(self.index, slots, [self.queries[slot] for slot in slots])
        for slot in slots:
            self.held[slot] = members(self.source.state, self.queries[slot], self.steps)

    @rule(choice=st.integers(0, 20))
    def terminate(self, choice: int) -> None:
        if self.queries:
            slot = sorted(self.queries)[choice % len(self.queries)]
            del self.queries[slot], self.held[slot]
            self.index.terminate(np.array([slot], np.int32))

    @rule(data=st.data(), n_steps=st.integers(1, 3), burst=st.sampled_from([0, 0, 0, 0, 35]))
    def publish(self, data: st.DataObject, n_steps: int, burst: int) -> None:
        for _ in range(n_steps):
            self.source.begin()
            self.source.act(data.draw(actions(self.source.n_columns)))
            if burst:
                values = data.draw(st.tuples(*[NUMBERS] * self.source.n_columns))
                for _ in range(burst):
                    self.source.insert(values)
            self.source.end()
        delta, states = self.source.take()
        groups = grouped(self.index.apply(delta))
        for number, (before, after) in enumerate(states):
            for slot, query in self.queries.items():
                changes = groups.pop((number, slot), [])
                assert shown(changes) == shown(member_changes(before, after, query, self.steps))
                for op, row, score, _ in changes:
                    if op == "leave":
                        del self.held[slot][row]
                    else:
                        self.held[slot][row] = score
        assert not groups

    @rule()
    def save_and_restore(self) -> None:
        saved = self.index.arrays()
        self.index = FilterIndex(self.dimensions, self.program, self.capacity, self.width, max_unsorted=3)
        self.index.restore(saved)
        again = self.index.arrays()
        assert saved.keys() == again.keys()
        assert all(np.array_equal(saved[name], again[name], equal_nan=True) for name in saved)

    @invariant()
    def answers_agree(self) -> None:
        self.index.check_invariants()
        slots = sorted(self.queries, reverse=True)
        found = self.index.result(np.array(slots, np.int32))
        expected: list[tuple[int, Change]] = []
        for slot in slots:
            answer = member_result(self.source.state, self.queries[slot], self.steps)
            expected += [(slot, change) for change in answer]
            held = {row: score for _, row, score, _ in answer}
            assert repr(sorted(self.held[slot].items())) == repr(sorted(held.items()))
        columns = (c.tolist() for c in (found.subscription, found.op, found.row, found.score, found.rank))
        got = [
            (slot, (OP_NAMES[op], row, score, rank))
            for slot, op, row, score, rank in zip(*columns, strict=True)
        ]
        assert repr(got) == repr(expected)


MembersMachine.TestCase.settings = settings(stateful_step_count=15)
TestMembers = MembersMachine.TestCase


def state_of(rows: list[tuple[float, ...]]) -> State:
    source = SimulatedSource(len(rows[0]))
    source.begin()
    for row in rows:
        source.insert(row)
    return source.state


@pytest.mark.parametrize("width", [4, 64])
def test_many_subscriptions_and_rows_cross_the_tiles(width: int) -> None:
    random = np.random.default_rng(3)
    steps: Steps = [("column", 0), ("theta", 0), ("multiply", 0)]
    rows = [tuple(row) for row in random.integers(0, 6, size=(300, 2)).astype(float).tolist()]
    queries = [
        Query((float(lo),), (float(lo + 2),), (float(theta),), 2.0, 6.0)
        for lo, theta in random.integers(0, 4, size=(40, 2))
    ]
    index = FilterIndex(1, program(steps), capacity=2, width=width)
    register(index, list(range(40)), queries)
    state = state_of(rows)
    groups = grouped(index.apply(delta_of([({}, state)], 2)))
    for slot, query in enumerate(queries):
        assert groups.get((0, slot), []) == member_changes({}, state, query, steps)
    moved = {slot: row._replace(values=(row.values[1], row.values[0])) for slot, row in state.items()}
    states = [{**state, **{slot: moved[slot] for slot in range(n)}} for n in range(21)]
    one_by_one = list(pairwise(states))
    groups = grouped(index.apply(delta_of(one_by_one, 2)))
    for number, (before, after) in enumerate(one_by_one):
        for slot, query in enumerate(queries):
            expected = member_changes(before, after, query, steps)
            assert shown(groups.get((number, slot), [])) == shown(expected)


@pytest.mark.parametrize(("dimensions", "steps"), [(1, None), (2, None), (0, PROGRAMS[1]), (1, PROGRAMS[2])])
def test_thousands_of_subscriptions_that_come_and_go(dimensions: int, steps: Steps | None) -> None:
    random = np.random.default_rng(5)
    scorer = None if steps is None else program(steps)
    n_columns = dimensions + (scorer.n_columns if scorer else 0)
    index, queries = FilterIndex(dimensions, scorer, max_unsorted=200), dict[int, Query]()
    source = SimulatedSource(n_columns)
    for _ in range(4):
        added = [slot for slot in range(examples(3000)) if slot not in queries and random.random() < 0.6]
        for slot in added:
            lo = tuple(random.integers(0, 50, dimensions).astype(float).tolist())
            hi = tuple(bound + float(random.integers(0, 6)) for bound in lo)
            theta = (float(random.integers(-5, 6)),) if scorer and scorer.n_theta else ()
            least = float(random.integers(-20, 200)) if scorer else -math.inf
            queries[slot] = Query(lo, hi, theta, least, least + 4.0 if scorer else math.inf)
        register(index, added, [queries[slot] for slot in added])
        source.begin()
        for _ in range(3):
            source.insert(tuple(random.integers(0, 50, n_columns).astype(float).tolist()))
        source.end()
        delta, [(before, after)] = source.take()
        groups = grouped(index.apply(delta))
        for slot, query in queries.items():
            expected = member_changes(before, after, query, steps)
            assert shown(groups.pop((0, slot), [])) == shown(expected)
        assert not groups
        index.check_invariants()
        gone = [slot for slot in queries if random.random() < 0.4]
        for slot in gone:
            del queries[slot]
        index.terminate(np.array(gone, np.int32))


def test_inputs_stay_untouched_and_may_be_read_only() -> None:
    index = FilterIndex(1, None, capacity=2)
    register(index, [0], [Query((0.0,), (1.0,))])
    delta = delta_of([({}, state_of([(0.0,), (5.0,)]))], 1)
    frozen = RowDelta._make(np.frombuffer(c.tobytes(), c.dtype).reshape(c.shape) for c in delta)
    assert index.apply(frozen).row.tolist() == [0]
    assert repr(frozen) == repr(delta)


def test_subscriptions_that_come_one_by_one_are_ordered_in_few_runs() -> None:
    random = np.random.default_rng(4)
    tiles = SubscriptionTiles(1, 0, width=4, max_unsorted=8)
    for slot, low in enumerate(random.random(1300)):
        none = np.empty((0, 1))
        ends = [np.array([[low]]), np.array([[low + 0.01]]), none, np.full(1, -np.inf), np.full(1, np.inf)]
        tiles.add(np.array([slot], np.int32), ends)
        tiles.refresh()
        tiles.check_invariants()
    assert len(tiles._runs) <= 4
    assert tiles._n_used - tiles._n_sorted <= 8
    # Of subscriptions in any order a tile would span most of the line.
    spans = tiles.nodes.hi[0, : tiles.nodes.first[1]] - tiles.nodes.lo[0, : tiles.nodes.first[1]]
    assert np.median(spans) < 0.1


@pytest.mark.parametrize("steps", [None, [("column", 0)]])
def test_explain_is_one_line(steps: Steps | None) -> None:
    line = FilterIndex(2, None if steps is None else program(steps)).explain()
    assert "live rows" in line
    assert "\n" not in line
    assert ("score" in line) == (steps is not None)


def test_parameters_are_what_was_registered() -> None:
    index = FilterIndex(1, program([("theta", 0)]))
    register(index, [3], [Query((1.0,), (2.0,), (0.5,), 4.0, math.inf)])
    bounds = {"lo": [1.0], "hi": [2.0], "theta": [0.5], "score_lo": 4.0, "score_hi": math.inf}
    assert index.parameters(3) == bounds


def test_nothing_asked_nothing_told() -> None:
    index = FilterIndex(1, None)
    index.register(np.empty(0, np.int32), {})
    assert not index.apply(delta_of([], 1))
    assert not index.apply(delta_of([({}, state_of([(1.0,)]))], 1))
    assert not index.result(np.empty(0, np.int32))
