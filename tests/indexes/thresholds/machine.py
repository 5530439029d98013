"""A state machine that drives any threshold index and compares it with the oracle after each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Protocol, TypeAlias

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.oracles.thresholds import Thresholds
from tocsin.arrays.changes import MATURE, VALUE, ChangeSet
from tocsin.arrays.types import Arrays, Floats, Ints, Longs


class ThresholdIndex(Protocol):
    """What the engine asks of a threshold index."""

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None: ...

    def terminate(self, slots: Ints) -> None: ...

    def apply(self, values: Floats, weights: Longs) -> ChangeSet: ...

    def result(self, slots: Ints) -> ChangeSet: ...

    def progress(self, slots: Ints) -> tuple[Longs, Longs]: ...

    def arrays(self) -> Arrays: ...

    def restore(self, arrays: Arrays) -> None: ...

    def check_invariants(self) -> None: ...

    def explain(self) -> str: ...


Make: TypeAlias = Callable[[int, int, int], ThresholdIndex]
Event: TypeAlias = tuple[list[float], int]
Range: TypeAlias = tuple[float, float]
Maturity: TypeAlias = tuple[int, int, float]

INFINITY = float("inf")
NAN = float("nan")
LARGEST = 2**63 - 1
LARGEST_DOUBLE = float(np.finfo(np.float64).max)
SLOTS = st.integers(0, 9)
BOUNDS = st.sampled_from([-INFINITY, -1.0, -0.0, 0.0, 1.0, 1.5, 2.0, 1e308, LARGEST_DOUBLE, INFINITY])
VALUES = st.one_of(BOUNDS, st.sampled_from([NAN, -1e308, 0.5, 2.1]))
WEIGHTS = st.sampled_from([-1, 0, 1, 1, 1, 2, 5, 40, LARGEST - 1, LARGEST])
TAUS = st.sampled_from([-3, 0, 1, 2, 3, 10, 60, 200, LARGEST])


def slots_of(*slots: int) -> Ints:
    return np.array(slots, np.int32)


def columns_of(rows: list[tuple[list[Range], int, bool]], dimensions: int) -> Mapping[str, np.ndarray]:
    bounds = np.array([ranges for ranges, _, _ in rows], np.float64).reshape(len(rows), dimensions, 2)
    return {
        "lo": bounds[:, :, 0],
        "hi": bounds[:, :, 1],
        "tau": np.array([tau for _, tau, _ in rows], np.int64),
        "repeat": np.array([repeat for _, _, repeat in rows], np.bool_),
    }


def maturities(changes: ChangeSet) -> list[Maturity]:
    assert (changes.op == MATURE).all()
    assert (changes.other == -1).all()
    assert (changes.rank == 0).all()
    assert changes.row.tolist() == changes.step.tolist()
    columns = (changes.step.tolist(), changes.subscription.tolist(), changes.score.tolist())
    return list(zip(*columns, strict=True))


def apply(index: ThresholdIndex, events: list[Event], dimensions: int) -> list[Maturity]:
    values = np.array([value for value, _ in events], np.float64).reshape(len(events), dimensions)
    weights = np.array([weight for _, weight in events], np.int64)
    # Zero-copy columns are read-only: an index may not write to them, nor compile anew for them.
    values.flags.writeable = weights.flags.writeable = False
    return maturities(index.apply(values, weights))


class ThresholdMachine(RuleBasedStateMachine):
    """Register, terminate and count in any order. A subclass says which index."""

    #: whether results are compared after every step, not only occasionally: a result may change an index
    looks_always = True

    def make(self, dimensions: int, scale: int, capacity: int) -> ThresholdIndex:
        """A fresh index."""
        raise NotImplementedError

    @initialize(dimensions=st.integers(0, 3), scale=st.sampled_from([1, 3, 100, 2**20]))
    def start(self, dimensions: int, scale: int) -> None:
        self.dimensions = dimensions
        self.scale = scale
        self.index = self.make(dimensions, scale, 2)
        self.oracle = Thresholds(scale)

    @rule(data=st.data(), slots=st.sets(SLOTS))
    def register(self, data: st.DataObject, slots: set[int]) -> None:
        fresh = sorted(slots - self.oracle.by_slot.keys(), reverse=True)
        boxes = st.lists(st.tuples(BOUNDS, BOUNDS), min_size=self.dimensions, max_size=self.dimensions)
        rows = [(data.draw(boxes), data.draw(TAUS), data.draw(st.booleans())) for _ in fresh]
        for slot, (ranges, tau, repeat) in zip(fresh, rows, strict=True):
            self.oracle.register(slot, ranges, tau, repeat)
        self.index.register(slots_of(*fresh), columns_of(rows, self.dimensions))

    @rule(slots=st.sets(SLOTS))
    def terminate(self, slots: set[int]) -> None:
        gone = sorted(slots & self.oracle.by_slot.keys())
        for slot in gone:
            self.oracle.terminate(slot)
        self.index.terminate(slots_of(*gone))

    @rule(data=st.data(), one_by_one=st.booleans())
    def count(self, data: st.DataObject, one_by_one: bool) -> None:
        point = st.lists(VALUES, min_size=self.dimensions, max_size=self.dimensions)
        events = data.draw(st.lists(st.tuples(point, WEIGHTS), max_size=10))
        expected = self.oracle.apply(events)
        if one_by_one:
            found = [
                (position, slot, score)
                for position, event in enumerate(events)
                for _, slot, score in apply(self.index, [event], self.dimensions)
            ]
        else:
            found = apply(self.index, events, self.dimensions)
        assert found == expected

    @rule()
    def save_and_restore(self) -> None:
        before = self.index.arrays()
        self.index = self.make(self.dimensions, self.scale, 2)
        self.index.restore(before)
        after = self.index.arrays()
        assert before.keys() == after.keys()
        assert all(np.array_equal(before[name], after[name]) for name in before)

    @invariant()
    def agrees(self) -> None:
        self.index.check_invariants()
        if self.looks_always:
            self.look()

    @rule()
    def look(self) -> None:
        counting = {slot: one for slot, one in self.oracle.by_slot.items() if not one.is_silent}
        slots = slots_of(*counting)
        result = self.index.result(slots)
        assert result.subscription.tolist() == list(counting)
        assert (result.op == VALUE).all()
        assert (result.row == -1).all()
        expected = [float(Fraction(one.reached, self.scale)) for one in counting.values()]
        assert result.score.tolist() == expected
        reached, missing = self.index.progress(slots)
        assert reached.tolist() == [one.reached for one in counting.values()]
        assert missing.tolist() == [max(one.tau - one.reached, 0) for one in counting.values()]
