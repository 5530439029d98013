"""Every threshold index fulfils the same contract: one state machine and one suite over all of them.

An index joins by one line in INDEXES.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import examples
from tests.indexes.thresholds.machine import (
    LARGEST,
    VALUES,
    WEIGHTS,
    Event,
    Make,
    ThresholdIndex,
    ThresholdMachine,
    apply,
    columns_of,
    slots_of,
)
from tests.oracles.thresholds import Thresholds
from tests.planning.indexes import thresholds
from tocsin.indexes.thresholds import DeferredThresholds, ThresholdScan
from tocsin.indexes.thresholds.scan import scan_kernels
from tocsin.papers.thresholding import baselines_kernels, nested_trees_kernels, tracking_kernels
from tocsin.papers.thresholding.baselines import IntervalTree, RTree, SegmentIntervalTree
from tocsin.papers.thresholding.tracking import EndpointTrees
from tocsin.planning.rules import DEFERRED

INDEXES: dict[str, Make] = {
    "scan": ThresholdScan,
    "deferred": DeferredThresholds,
    "adaptive": partial(thresholds, switch=DEFERRED._replace(min_subscriptions=5)),
    "distributed-tracking": EndpointTrees,
    "interval-tree": IntervalTree,
    "segment-interval-tree": SegmentIntervalTree,
    "r-tree": RTree,
}
every_index = pytest.mark.parametrize("make", INDEXES.values(), ids=INDEXES.keys())


@every_index
def test_any_order_of_operations(make: Make) -> None:
    class Machine(ThresholdMachine):
        def make(self, dimensions: int, scale: int, capacity: int) -> ThresholdIndex:
            return make(dimensions, scale, capacity)

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
    assert "\n" not in index.explain()


@pytest.mark.parametrize("kernels", [tracking_kernels, nested_trees_kernels, baselines_kernels, scan_kernels])
def test_each_kernel_has_one_signature(kernels: object) -> None:
    for kernel in vars(kernels).values():
        assert len(getattr(kernel, "signatures", [])) <= 1, kernel
