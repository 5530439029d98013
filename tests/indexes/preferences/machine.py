"""A state machine that drives any preference index and compares it with the oracle after each step."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.oracles.members import NUMBERS, Query, SimulatedSource, State, Steps, actions, grouped, shown
from tests.oracles.windows import replay, top_k, top_k_changes
from tocsin.arrays.changes import ENTER
from tocsin.indexes.contract import RowIndex
from tocsin.kernels.programs import Program, program

BOUNDS = st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.0, math.inf, -math.inf])
LINEAR: Steps = [
    ("column", 0), ("theta", 0), ("multiply", 0), ("theta", 1), ("column", 1), ("multiply", 0), ("add", 0)
]  # fmt: skip
#: A weighted sum too, though no weight is a parameter as it is: `2 * :a * x - :b * y`.
WEIGHED: Steps = [
    ("constant", 2.0), ("theta", 0), ("multiply", 0), ("column", 0), ("multiply", 0), ("theta", 1),
    ("column", 1), ("multiply", 0), ("subtract", 0)
]  # fmt: skip
#: Rising in some columns and falling in others, and one that is not even monotone.
PROGRAMS: list[Steps] = [
    LINEAR,
    [("column", 0), ("theta", 0), ("add", 0), ("column", 1), ("theta", 1), ("add", 0), ("multiply", 0)],
    [("column", 0), ("constant", 2.0), ("power", 0), ("theta", 0), ("multiply", 0)],
    [("column", 0), ("column", 1), ("subtract", 0)],
    [("column", 0), ("theta", 0), ("subtract", 0), ("abs", 0)],
    [("column", 0), ("negate", 0), ("exp", 0)],
    [("column", 0), ("ln", 0), ("column", 1), ("sqrt", 0), ("divide", 0)],
    [("theta", 0)],
    WEIGHED,
]  # fmt: skip


def register(index: RowIndex, queries: dict[int, Query]) -> None:
    """Register queries under their slots."""
    n = len(queries)
    columns = zip(*((query.lo, query.hi, query.theta) for query in queries.values()), strict=True)
    lo, hi, theta = (np.array(column, np.float64).reshape(n, -1) for column in columns)
    k = np.array([query.k for query in queries.values()], np.int32)
    index.register(np.array(list(queries), np.int32), {"lo": lo, "hi": hi, "theta": theta, "k": k})


class PreferenceMachine(RuleBasedStateMachine):
    """Rows come, change and go; subscriptions too; the index agrees with the oracle throughout.

    A subclass says which index, and what it can keep.
    """

    programs: Sequence[Steps] = PROGRAMS
    #: whether rows may be updated and deleted, or only slide through a window
    has_updates = True
    dimensions_up_to = 2

    def make(
        self, dimensions: int, scorer: Program, *, descending: bool, newest_first: bool, capacity: int
    ) -> RowIndex:
        """A fresh index."""
        raise NotImplementedError

    @initialize(
        data=st.data(),
        descending=st.booleans(),
        newest_first=st.booleans(),
        capacity=st.sampled_from([2, 16]),
    )
    def build(self, data: st.DataObject, descending: bool, newest_first: bool, capacity: int) -> None:
        self.dimensions = data.draw(st.integers(0, self.dimensions_up_to))
        self.steps = data.draw(st.sampled_from(list(self.programs)))
        self.capacity = capacity
        self.descending, self.newest_first = descending, newest_first or not self.has_updates
        self.program = program(self.steps)
        self.size = data.draw(st.integers(1, 20))
        self.index = self.fresh()
        self.source = SimulatedSource(self.dimensions + self.program.n_columns)
        self.queries: dict[int, Query] = {}
        #: a subscriber's answer, replayed from the changes alone
        self.held: dict[int, list[tuple[int, float]]] = {}

    def fresh(self) -> RowIndex:
        return self.make(
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

    @precondition(lambda self: self.has_updates)
    @rule(data=st.data(), n_steps=st.integers(1, 3), burst=st.sampled_from([0, 0, 0, 35]))
    def publish(self, data: st.DataObject, n_steps: int, burst: int) -> None:
        for _ in range(n_steps):
            self.source.begin()
            self.source.act(data.draw(actions(self.source.n_columns)))
            for values in self._rows(data, burst):
                self.source.insert(values)
            self.source.end()
        self.take_steps()

    @rule(data=st.data(), n_steps=st.integers(1, 12), batch=st.sampled_from([0, 1, 1, 1, 2, 7, 90]))
    def slide(self, data: st.DataObject, n_steps: int, batch: int) -> None:
        """A window takes some rows a step: none, some, or more than it holds."""
        for values in self._rows(data, n_steps):
            self.source.begin()
            for _ in range(batch):
                self.source.insert(values)
            self.source.expire(self.size if batch else max(0, len(self.source.state) - 2))
            self.source.end()
        self.take_steps()

    def _rows(self, data: st.DataObject, count: int) -> list[tuple[float, ...]]:
        """Rows of which many are alike."""
        kinds = st.lists(st.tuples(*[NUMBERS] * self.source.n_columns), min_size=1, max_size=4)
        some = data.draw(kinds)
        return [some[i % len(some)] for i in range(count)]

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
