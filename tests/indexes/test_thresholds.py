"""The thresholds room against its oracle."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.conftest import examples
from tests.oracles.thresholds import Thresholds
from tocsin.indexes.contract import MATURE, VALUE, ChangeSet, Ints
from tocsin.indexes.thresholds import ThresholdScan, scan_kernels

Event: TypeAlias = tuple[list[float], int]

INFINITY = float("inf")
NAN = float("nan")
LARGEST = 2**63 - 1
SLOTS = st.integers(0, 5)
BOUNDS = st.sampled_from([-INFINITY, -1.0, -0.0, 0.0, 1.0, 2.0, INFINITY])
VALUES = st.one_of(BOUNDS, st.just(NAN))
WEIGHTS = st.sampled_from([-1, 0, 1, 1, 2, 5, LARGEST])
TAUS = st.sampled_from([-3, 0, 1, 2, 3, 10, LARGEST])


def slots_of(*slots: int) -> Ints:
    return np.array(slots, np.int32)


def maturities(changes: ChangeSet) -> list[tuple[int, int, float]]:
    assert (changes.op == MATURE).all()
    assert (changes.other == -1).all()
    assert (changes.rank == 0).all()
    assert changes.row.tolist() == changes.step.tolist()
    return list(
        zip(changes.step.tolist(), changes.subscription.tolist(), changes.score.tolist(), strict=True)
    )


def apply(index: ThresholdScan, events: list[Event], dimensions: int) -> list[tuple[int, int, float]]:
    values = np.array([value for value, _ in events], np.float64).reshape(len(events), dimensions)
    weights = np.array([weight for _, weight in events], np.int64)
    copies = values.copy(), weights.copy()
    found = maturities(index.apply(values, weights))
    assert np.array_equal(values, copies[0], equal_nan=True)
    assert np.array_equal(weights, copies[1])
    return found


class ThresholdMachine(RuleBasedStateMachine):
    """Register, terminate and count in any order."""

    @initialize(dimensions=st.integers(0, 3), scale=st.sampled_from([1, 3, 100, 2**20]))
    def start(self, dimensions: int, scale: int) -> None:
        self.dimensions = dimensions
        self.scale = scale
        self.index = ThresholdScan(dimensions, scale, capacity=2)
        self.oracle = Thresholds(scale)

    @rule(data=st.data(), slots=st.sets(SLOTS))
    def register(self, data: st.DataObject, slots: set[int]) -> None:
        fresh = sorted(slots - self.oracle.by_slot.keys(), reverse=True)
        boxes = st.lists(st.tuples(BOUNDS, BOUNDS), min_size=self.dimensions, max_size=self.dimensions)
        rows = [(data.draw(boxes), data.draw(TAUS), data.draw(st.booleans())) for _ in fresh]
        for slot, (ranges, tau, repeat) in zip(fresh, rows, strict=True):
            self.oracle.register(slot, ranges, tau, repeat)
        bounds = np.array([ranges for ranges, _, _ in rows], np.float64).reshape(
            len(rows), self.dimensions, 2
        )
        columns = {
            "lo": bounds[:, :, 0],
            "hi": bounds[:, :, 1],
            "tau": np.array([tau for _, tau, _ in rows], np.int64),
            "repeat": np.array([repeat for _, _, repeat in rows], np.bool_),
        }
        self.index.register(slots_of(*fresh), columns)

    @rule(slots=st.sets(SLOTS))
    def terminate(self, slots: set[int]) -> None:
        gone = sorted(slots & self.oracle.by_slot.keys())
        for slot in gone:
            self.oracle.terminate(slot)
        self.index.terminate(slots_of(*gone))

    @rule(data=st.data(), one_by_one=st.booleans())
    def count(self, data: st.DataObject, one_by_one: bool) -> None:
        point = st.lists(VALUES, min_size=self.dimensions, max_size=self.dimensions)
        events = data.draw(st.lists(st.tuples(point, WEIGHTS), max_size=8))
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
        self.index = ThresholdScan(self.dimensions, self.scale, capacity=2)
        self.index.restore(before)
        after = self.index.arrays()
        assert before.keys() == after.keys()
        assert all(np.array_equal(before[name], after[name]) for name in before)

    @invariant()
    def agrees(self) -> None:
        self.index.check_invariants()
        counting = {slot: one for slot, one in self.oracle.by_slot.items() if not one.is_silent}
        slots = slots_of(*counting)
        result = self.index.result(slots)
        assert result.subscription.tolist() == list(counting)
        assert (result.op == VALUE).all()
        assert (result.row == -1).all()
        assert result.score.tolist() == [
            float(Fraction(one.reached, self.scale)) for one in counting.values()
        ]
        reached, missing = self.index.progress(slots)
        assert reached.tolist() == [one.reached for one in counting.values()]
        assert missing.tolist() == [max(one.tau - one.reached, 0) for one in counting.values()]


ThresholdMachine.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=15)
TestThresholds = ThresholdMachine.TestCase


@given(st.lists(st.tuples(st.lists(VALUES, min_size=1, max_size=1), WEIGHTS), max_size=12))
@settings(max_examples=examples(10))
def test_more_subscriptions_than_a_block(events: list[Event]) -> None:
    count = scan_kernels.BLOCK + 3
    index, oracle = ThresholdScan(1, 1, capacity=2), Thresholds(1)
    bounds = np.array([(slot % 3 - 1, slot % 4 - 1) for slot in range(count)], np.float64)
    tau, repeat = np.arange(count) % 7 + 1, np.arange(count) % 2 == 0
    columns = {"lo": bounds[:, :1], "hi": bounds[:, 1:], "tau": tau, "repeat": repeat}
    index.register(np.arange(count, dtype=np.int32), columns)
    for slot, (low, high) in enumerate(bounds.tolist()):
        oracle.register(slot, [(low, high)], int(tau[slot]), bool(repeat[slot]))
    assert apply(index, events, 1) == oracle.apply(events)
    index.check_invariants()


@pytest.mark.parametrize("scale", [1, 100, 2**20, 10**18])
def test_the_weight_reached_may_pass_64_bits(scale: int) -> None:
    index = ThresholdScan(0, scale)
    endless = np.empty((1, 0))
    columns = {"lo": endless, "hi": endless, "tau": np.array([LARGEST]), "repeat": np.array([False])}
    index.register(slots_of(0), columns)
    changes = index.apply(np.empty((2, 0)), np.array([LARGEST - 1, LARGEST]))
    assert changes.score.tolist() == [float(Fraction(2 * LARGEST - 1, scale))]
    assert index.progress(slots_of(0))[1].tolist() == [0]
    assert "1 boxes of 0 ranges" in index.explain()


def test_each_kernel_has_one_signature() -> None:
    for kernel in vars(scan_kernels).values():
        assert len(getattr(kernel, "signatures", [])) <= 1, kernel
