"""Every threshold index keeps the room's contract: one machine and one suite over all of them.

An index joins by one line in INDEXES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.conftest import examples
from tests.oracles.thresholds import Thresholds
from tocsin.indexes.contract import MATURE, VALUE, Arrays, ChangeSet, Floats, Ints, Longs
from tocsin.indexes.thresholds import (
    AdaptiveThresholds,
    LazyThresholds,
    ThresholdScan,
    rivals_kernels,
    tracking_kernels,
    tracking_nests_kernels,
)
from tocsin.indexes.thresholds.rivals import IntervalTree, RTree, SegmentIntervalTree
from tocsin.indexes.thresholds.tracking import EndpointTrees


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

INDEXES: dict[str, Make] = {
    "scan": ThresholdScan,
    "lazy": LazyThresholds,
    "adaptive": partial(AdaptiveThresholds, many=5),
    "endpoint-trees": EndpointTrees,
    "interval-tree": IntervalTree,
    "segment-interval-tree": SegmentIntervalTree,
    "r-tree": RTree,
}
every_index = pytest.mark.parametrize("make", INDEXES.values(), ids=INDEXES.keys())

INFINITY = float("inf")
NAN = float("nan")
LARGEST = 2**63 - 1
LARGEST_DOUBLE = float(np.finfo(np.float64).max)
SLOTS = st.integers(0, 9)
BOUNDS = st.sampled_from([-INFINITY, -1.0, -0.0, 0.0, 1.0, 1.5, 2.0, LARGEST_DOUBLE, INFINITY])
VALUES = st.one_of(BOUNDS, st.just(NAN))
WEIGHTS = st.sampled_from([-1, 0, 1, 1, 1, 2, 5, 40, LARGEST])
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


def apply(index: ThresholdIndex, events: list[Event], dimensions: int) -> list[tuple[int, int, float]]:
    values = np.array([value for value, _ in events], np.float64).reshape(len(events), dimensions)
    weights = np.array([weight for _, weight in events], np.int64)
    # Zero-copy columns are read-only: an index may not write to them, nor compile anew for them.
    values.flags.writeable = weights.flags.writeable = False
    changes = index.apply(values, weights)
    assert (changes.op == MATURE).all()
    assert (changes.other == -1).all()
    assert (changes.rank == 0).all()
    assert changes.row.tolist() == changes.step.tolist()
    columns = (changes.step.tolist(), changes.subscription.tolist(), changes.score.tolist())
    return list(zip(*columns, strict=True))


class RoomMachine(RuleBasedStateMachine):
    """Register, terminate and count in any order."""

    def __init__(self, make: Make) -> None:
        super().__init__()
        self.make = make

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


@every_index
def test_any_order_of_operations(make: Make) -> None:
    class Machine(RoomMachine):
        def __init__(self) -> None:
            super().__init__(make)

    chosen = settings(max_examples=min(25, settings().max_examples), stateful_step_count=15)
    run_state_machine_as_test(Machine, settings=chosen)


@every_index
@given(data=st.data(), dimensions=st.integers(1, 2))
@settings(max_examples=examples(10))
def test_many_boxes_at_once(make: Make, data: st.DataObject, dimensions: int) -> None:
    numbers: st.SearchStrategy[float] = st.sampled_from([float(number) for number in range(13)])
    box = st.lists(st.tuples(numbers, numbers), min_size=dimensions, max_size=dimensions)
    rows = data.draw(st.lists(st.tuples(box, st.integers(1, 400), st.booleans()), min_size=60, max_size=60))
    point = st.lists(numbers, min_size=dimensions, max_size=dimensions)
    events = data.draw(st.lists(st.tuples(point, st.integers(1, 30)), min_size=40, max_size=40))
    index, oracle = make(dimensions, 1, 2), Thresholds(1)
    index.register(np.arange(len(rows), dtype=np.int32), columns_of(rows, dimensions))
    for slot, (ranges, tau, repeat) in enumerate(rows):
        oracle.register(slot, ranges, tau, repeat)
    for part in (events[:20], events[20:]):
        assert apply(index, part, dimensions) == oracle.apply(part)
        index.check_invariants()


@every_index
def test_a_silent_threshold_keeps_what_it_reached(make: Make) -> None:
    index = make(1, 2, 2)
    index.register(slots_of(3), columns_of([([(0.0, 1.0)], 5, False)], 1))
    assert apply(index, [([1.0], 4), ([0.0], 3), ([0.5], 9)], 1) == [(1, 3, 3.5)]
    assert index.result(slots_of(3)).score.tolist() == [3.5]
    assert [part.tolist() for part in index.progress(slots_of(3))] == [[7], [0]]
    index.terminate(slots_of(3))
    assert apply(index, [([1.0], 100)], 1) == []


@every_index
def test_a_repeating_threshold_fires_many_times_in_a_batch(make: Make) -> None:
    index = make(1, 1, 2)
    index.register(slots_of(0), columns_of([([(0.0, 0.0)], 3, True)], 1))
    events: list[Event] = [([-0.0], 2)] * 6 + [([0.0], 1000)] + [([0.0], 2)]
    assert apply(index, events, 1) == [(1, 0, 4.0), (3, 0, 4.0), (5, 0, 4.0), (6, 0, 1000.0)]
    assert index.progress(slots_of(0))[0].tolist() == [2]


@every_index
@pytest.mark.parametrize("scale", [1, 100, 2**20, 10**18])
def test_the_weight_reached_may_pass_64_bits(make: Make, scale: int) -> None:
    index = make(0, scale, 2)
    index.register(slots_of(0, 1), columns_of([([], LARGEST, False), ([], LARGEST, True)], 0))
    expected = float(Fraction(2 * LARGEST - 1, scale))
    events: list[Event] = [([], LARGEST - 1), ([], LARGEST)]
    assert apply(index, events, 0) == [(1, 0, expected), (1, 1, expected)]
    assert index.progress(slots_of(0))[1].tolist() == [0]
    for _ in range(3):
        assert apply(index, events, 0) == [(1, 1, expected)]
        index.check_invariants()


@every_index
def test_nothing_registered_and_nothing_to_count(make: Make) -> None:
    index = make(2, 1, 2)
    assert not index.apply(np.zeros((3, 2)), np.ones(3, np.int64))
    index.register(slots_of(), columns_of([], 2))
    index.register(slots_of(1), columns_of([([(0.0, 1.0), (1.0, 0.0)], 1, False)], 2))
    assert not index.apply(np.zeros((0, 2)), np.zeros(0, np.int64))
    assert not index.apply(np.ones((3, 2)), np.ones(3, np.int64))
    index.terminate(slots_of())
    assert "thresholds:" in index.explain()


@pytest.mark.parametrize("kernels", [tracking_kernels, tracking_nests_kernels, rivals_kernels])
def test_each_kernel_has_one_signature(kernels: object) -> None:
    for kernel in vars(kernels).values():
        assert len(getattr(kernel, "signatures", [])) <= 1, kernel
