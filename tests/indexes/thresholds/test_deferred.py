"""Deferred thresholds against the oracle, and at some size against the scan."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import settings

from tests.conftest import INTERPRETED, examples
from tests.indexes.thresholds.machine import (
    INFINITY,
    LARGEST,
    NAN,
    ThresholdMachine,
    maturities,
    slots_of,
)
from tests.test_signatures import signatures
from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.types import Arrays, Ints
from tocsin.indexes.thresholds import DeferredThresholds, ThresholdScan
from tocsin.indexes.thresholds.deferred import batches, boxes, cells
from tocsin.indexes.thresholds.deferred import index as deferred


@pytest.fixture(params=["as they are", "hasty"])
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run twice, the second time with limits so low that whatever happens rarely happens at once."""
    # A sorted log is read by other code paths, so it must be sorted even where that does not pay.
    monkeypatch.setattr(boxes, "SORT_EVENT_COST", 0)
    if request.param == "hasty":
        lower_limits(monkeypatch)


def lower_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred, "MIN_LOG_CAPACITY", 4)
    monkeypatch.setattr(deferred, "MAX_LOG_CAPACITY", 5)
    monkeypatch.setattr(deferred, "MAX_BUFFERED_BATCH", 2)
    monkeypatch.setattr(batches, "MAX_BUFFERED_EVENTS", 2)
    monkeypatch.setattr(batches, "MAX_BUFFERED_MEMBERS", 2)
    monkeypatch.setattr(deferred, "MIN_CELL_MEMBERS", 3)
    monkeypatch.setattr(deferred, "REBUILD_RATIO", 1)
    monkeypatch.setattr(deferred, "MAX_UNSORTED_MEMBERS", 2)
    monkeypatch.setattr(boxes, "OPEN_GROUPS", 1)
    monkeypatch.setattr(boxes, "MEMBER_CHECK_LAG", 0)
    monkeypatch.setattr(boxes, "SWEEP_MEMBER_COST", 0)
    monkeypatch.setattr(boxes, "SWEEP_EVENT_COST", 0)
    monkeypatch.setattr(cells, "MIN_COMPACTED_PLACES", 0)
    monkeypatch.setattr(cells, "SPARSE_RATIO", 1)
    monkeypatch.setattr(cells, "MIN_EVALUATIONS", -1)
    monkeypatch.setattr(cells, "BASE_TICK_LIMIT", 64)
    monkeypatch.setattr(cells, "PENDING_CAPACITY", 2)
    monkeypatch.setattr(cells, "CELLS_PER_LOOKUP", 0)
    monkeypatch.setattr(boxes, "SPARSE_RATIO", 1)
    monkeypatch.setattr(batches, "MIN_SORTED_BATCH", 1)


class DeferredMachine(ThresholdMachine):
    """With its own limits. Results are compared occasionally only, because a result evaluates every group."""

    looks_always = False
    hasty = False

    def __init__(self) -> None:
        super().__init__()
        self.patches = pytest.MonkeyPatch()
        if self.hasty:
            lower_limits(self.patches)

    def teardown(self) -> None:
        self.patches.undo()

    def make(self, dimensions: int, scale: int, capacity: int) -> DeferredThresholds:
        return DeferredThresholds(dimensions, scale, capacity)


class HastyMachine(DeferredMachine):
    """The same with limits so low that logs overflow, cells are built and groups are sorted all the time."""

    hasty = True


DeferredMachine.TestCase.settings = settings(max_examples=examples(30), stateful_step_count=15)
HastyMachine.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=20)
TestDeferred = DeferredMachine.TestCase
TestHasty = HastyMachine.TestCase


class Workload:
    """Many random subscriptions over few distinct bounds, and a stream of events.

    Bounds are multiples of 1 / `per_unit`, and so are most values.
    """

    def __init__(self, dimensions: int, count: int, n_events: int, seed: int, per_unit: float = 2.0) -> None:
        self.random = random = np.random.default_rng(seed)
        self.dimensions = dimensions
        low = random.integers(-2, 90, (count, dimensions)) / per_unit
        high = low + random.integers(-1, 40, (count, dimensions)) / per_unit
        low[random.random(low.shape) < 0.02] = -INFINITY
        high[random.random(high.shape) < 0.02] = INFINITY
        self.columns: Arrays = {
            "lo": low,
            "hi": high,
            "tau": random.integers(1, 12 * n_events, count),
            "repeat": random.random(count) < 0.3,
        }
        self.values = random.integers(0, 101, (n_events, dimensions)) / per_unit
        # Long runs of events lie on multiples, and others do not.
        self.values[n_events // 2 :][random.random(self.values[n_events // 2 :].shape) < 0.02] += 0.3
        self.values[random.random(self.values.shape) < 0.01] = NAN
        self.weights = random.integers(0, 200, n_events)

    def register(self, index: DeferredThresholds | ThresholdScan, slots: Ints) -> None:
        index.register(slots, {name: column[slots] for name, column in self.columns.items()})

    def batches(self, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for begin in range(0, len(self.weights), size):
            yield self.values[begin : begin + size], self.weights[begin : begin + size]


def assert_same(one: ChangeSet, other: ChangeSet) -> None:
    for name in ChangeSet._fields:
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


SIZES = [(0, 60, 40, 2.0), (1, 300, 90, 1.0), (1, 300, 90, math.pi), (2, 300, 90, 2.0), (3, 300, 90, 2.0)]
if not INTERPRETED:
    SIZES += [(1, 50_000, 9_000, per_unit) for per_unit in (2.0, 100.0, math.pi)]
    SIZES += [(2, 50_000, 9_000, 2.0), (2, 3_000, 40_000, 2.0), (3, 8_000, 12_000, 2.0)]


@pytest.mark.parametrize(("dimensions", "count", "n_events", "per_unit"), SIZES)
@pytest.mark.usefixtures("limits")
def test_as_the_scan_with_registrations_and_terminations(
    dimensions: int, count: int, n_events: int, per_unit: float
) -> None:
    workload = Workload(dimensions, count, n_events, seed=count, per_unit=per_unit)
    index, scan = DeferredThresholds(dimensions, 1, capacity=2), ThresholdScan(dimensions, 1)
    is_there = np.zeros(count, np.bool_)
    first = np.arange(count // 2, dtype=np.int32)
    is_there[first] = True
    workload.register(index, first)
    workload.register(scan, first)
    for number, (values, weights) in enumerate(workload.batches(n_events // 30)):
        changes = index.apply(values, weights)
        assert_same(changes, scan.apply(values, weights))
        ended = np.unique(changes.subscription[~workload.columns["repeat"][changes.subscription]])
        is_there[ended] = False
        tired = workload.random.choice(count, count // 40).astype(np.int32)
        gone = np.union1d(ended, tired[is_there[tired]]).astype(np.int32)
        is_there[gone] = False
        free = np.flatnonzero(~is_there).astype(np.int32)
        new = workload.random.permutation(free)[: workload.random.integers(0, count // 20)]
        is_there[new] = True
        for one in (index, scan):
            one.terminate(gone)
            workload.register(one, new)
        if number % 5 == 0:
            slots = np.flatnonzero(is_there).astype(np.int32)
            assert_same(index.result(slots), scan.result(slots))
            index.check_invariants()


@pytest.mark.parametrize("dimensions", [0, 1, 2, 3])
@pytest.mark.usefixtures("limits")
def test_any_batch_size_gives_the_same_maturities(dimensions: int) -> None:
    count, n_events = (40, 60) if INTERPRETED else (6_000, 700)
    workload = Workload(dimensions, count, n_events, seed=dimensions)
    answers = []
    for size in (1, 7, n_events // 3, n_events):
        index = DeferredThresholds(dimensions, 1)
        workload.register(index, np.arange(count, dtype=np.int32))
        answers.append(
            [
                (number * size + step, slot, score)
                for number, batch in enumerate(workload.batches(size))
                for step, slot, score in maturities(index.apply(*batch))
            ]
        )
    assert len(answers[0]) > 0
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("dimensions", [1, 2])
@pytest.mark.usefixtures("limits")
def test_ranges_that_differ_only_in_where_they_begin(dimensions: int) -> None:
    random = np.random.default_rng(dimensions)
    count = 600
    slots = np.arange(count, dtype=np.int32)
    low = np.zeros((count, dimensions))
    low[:, 0] = random.uniform(0, 100, count)
    same = {"tau": np.full(count, 400), "repeat": np.zeros(count, np.bool_)}
    index, scan = DeferredThresholds(dimensions, 1), ThresholdScan(dimensions, 1)
    for one in (index, scan):
        one.register(slots, {"lo": low, "hi": low + 20, **same})
    for _ in range(4):
        values, weights = random.uniform(0, 120, (50, dimensions)), random.integers(0, 60, 50)
        assert_same(index.apply(values, weights), scan.apply(values, weights))
    assert_same(index.result(slots), scan.result(slots))


@pytest.mark.parametrize("per_unit", [1.0, 10.0, 100.0])
def test_values_on_ticks_beside_them_and_far_from_them(
    per_unit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deferred, "MIN_CELL_MEMBERS", 3)
    random = np.random.default_rng(5)
    count = 60
    ticks = np.sort(random.integers(-20, 20, (count, 2)), axis=1) / per_unit
    low, high = ticks[:, :1], ticks[:, 1:]
    low[:5], high[5:10] = -np.inf, np.inf
    repeat = np.ones(count, np.bool_)
    columns = {"lo": low, "hi": high, "tau": random.integers(1, 9, count), "repeat": repeat}
    index, scan = DeferredThresholds(1, 1), ThresholdScan(1, 1)
    for one in (index, scan):
        one.register(np.arange(count, dtype=np.int32), columns)
    near = np.arange(-22, 23) / per_unit
    beside = [near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf), near + 0.4 / per_unit]
    far = [[-np.inf, np.inf, 1e308, -1e308, 5e-324, -0.0, 2.0**53, np.nan]]
    values = random.permutation(np.concatenate([*beside, *far]))[:, np.newaxis]
    for batch in np.array_split(values, 4):
        weights = random.integers(0, 3, len(batch))
        assert_same(index.apply(batch, weights), scan.apply(batch, weights))
        index.check_invariants()
    slots = np.arange(count, dtype=np.int32)
    assert_same(index.result(slots), scan.result(slots))
    assert index.arrays()["low"].tolist() == scan.arrays()["low"].tolist()


@pytest.mark.parametrize("scale", [1, 100, 2**20, 10**18])
@pytest.mark.parametrize("n_others", [0, 5_000])
def test_the_weight_reached_may_pass_64_bits(scale: int, n_others: int) -> None:
    if INTERPRETED and n_others:
        pytest.skip("too many for the interpreter")
    index = DeferredThresholds(0, scale)
    count = 1 + n_others
    endless = np.empty((count, 0))
    tau, repeat = np.full(count, LARGEST), np.zeros(count, np.bool_)
    index.register(
        np.arange(count, dtype=np.int32), {"lo": endless, "hi": endless, "tau": tau, "repeat": repeat}
    )
    changes = index.apply(np.empty((2, 0)), np.array([LARGEST - 1, LARGEST]))
    assert changes.score.tolist() == [float(Fraction(2 * LARGEST - 1, scale))] * count
    assert changes.step.tolist() == [1] * count
    assert index.progress(slots_of(0))[1].tolist() == [0]
    index.check_invariants()


def test_places_of_terminated_subscriptions_are_released() -> None:
    count = 300 if INTERPRETED else 40_000
    workload = Workload(2, count, 10, seed=1)
    index = DeferredThresholds(2, 1)
    slots = np.arange(count, dtype=np.int32)
    workload.register(index, slots)
    before = index.nbytes
    for _ in range(20):
        index.terminate(slots[: count // 2])
        workload.register(index, slots[: count // 2])
    assert index.nbytes < 4 * before
    index.terminate(slots)
    assert INTERPRETED or index.nbytes < before
    index.check_invariants()


def test_it_explains_itself() -> None:
    index = DeferredThresholds(1, 100)
    Workload(1, 50, 1, seed=1).register(index, np.arange(50, dtype=np.int32))
    assert "1/100" in index.explain()


def test_each_kernel_has_one_signature() -> None:
    ours = {name: kinds for name, kinds in signatures().items() if ".indexes.thresholds." in name}
    assert {name: kinds for name, kinds in ours.items() if len(kinds) > 1} == {}


def test_empty_batches_leave_nothing_behind() -> None:
    buffer = batches.IngestBuffer()
    for _ in range(3):
        assert buffer.add_events(np.empty((0, 2)), np.empty(0, np.int64))
    assert not buffer
    assert sum(len(column) for column in vars(buffer).values() if isinstance(column, list)) == 0


def test_many_with_bounds_beyond_all_singles_are_registered() -> None:
    count = 300
    lo = np.where(np.arange(count) % 3 == 0, 1e308, np.arange(count) / 7)[:, np.newaxis]
    values = {
        "lo": lo,
        "hi": np.full((count, 1), 1.5e308),
        "tau": np.full(count, 2),
        "repeat": np.zeros(count, np.bool_),
    }
    index = DeferredThresholds(1, 1)
    index.register(np.arange(count, dtype=np.int32), values)
    assert len(index.apply(np.full((1, 1), 1.2e308), np.full(1, 2)).step) == count
