"""Measure rivals on one workload: all take the same cycle in turn, and must tell the same."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from benchmarks.instrument.memory import footprint
from benchmarks.window_parts.workloads import Workload
from tocsin.arrays.changes import ChangeSet
from tocsin.indexes.contract import ABSENT, RowDelta, RowIndex

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """A rival, and in how many cycles it takes part."""

    rival: str
    make: Callable[..., RowIndex]
    cycles: int
    #: whether what it holds depends on what has come and gone
    is_learning: bool


@dataclass
class Measure:
    """What one rival took on one workload."""

    workload: Workload
    entry: Entry
    fill_s: float = 0.0
    register_s: float = 0.0
    bytes: int = 0
    cycle_ms: list[float] = field(default_factory=list)
    changes: int = 0

    def __post_init__(self) -> None:
        work = self.workload
        self.index = self.entry.make(0, work.program(), descending=True, newest_first=True)

    def begin(self, window: RowDelta) -> None:
        """Take a whole window, and the queries."""
        work = self.workload
        start = time.process_time()
        self.index.apply(window)
        self.fill_s = time.process_time() - start
        slots = np.arange(work.queries, dtype=np.int32)
        values = {"theta": work.weights(), "k": np.full(work.queries, work.k, np.int64)}
        start = time.process_time()
        self.index.register(slots, values)
        self.register_s = time.process_time() - start
        logger.info("%s: %s registered in %.2f s", work.name, self.entry.rival, self.register_s)

    def take(self, delta: RowDelta) -> ChangeSet:
        """Take a cycle that counts."""
        start = time.process_time()
        changes = self.index.apply(delta)
        self.cycle_ms.append(1000 * (time.process_time() - start))
        self.changes += len(changes.step)
        return changes

    @property
    def median_ms(self) -> float:
        return median(self.cycle_ms)

    @property
    def mean_ms(self) -> float:
        return sum(self.cycle_ms) / len(self.cycle_ms)

    def record(self) -> dict[str, object]:
        """One line of the results."""
        work = self.workload
        return {
            "workload": work.name,
            "data": work.data,
            "queries": work.queries,
            "k": work.k,
            "rows": work.rows,
            "rate": work.rate,
            "dimensions": work.dimensions,
            "score": work.score,
            "rival": self.entry.rival,
            "cycles": len(self.cycle_ms),
            "median_ms": round(self.median_ms, 4),
            "mean_ms": round(self.mean_ms, 4),
            "least_ms": round(min(self.cycle_ms), 4),
            "most_ms": round(max(self.cycle_ms), 4),
            "fill_s": round(self.fill_s, 3),
            "register_s": round(self.register_s, 3),
            "megabytes": round(self.bytes / 1e6, 1),
            "changes_a_cycle": round(self.changes / len(self.cycle_ms), 1),
        }


def measure(workload: Workload, entries: list[Entry], cycles: int, warm: int) -> list[Measure]:
    """All entries over `cycles` cycles after `warm` that do not count; the first entry takes part in all.

    An index that learns from what comes and goes takes part from the beginning, the others when it counts.
    """
    measures = [Measure(workload, entry) for entry in entries]
    learning = [result for result in measures if result.entry.is_learning]
    deltas = workload.cycles()
    window = next(deltas)
    for result in learning:
        result.begin(window)
    gc.collect()
    gc.disable()
    try:
        for _ in range(warm):
            delta = next(deltas)
            for result in learning:
                result.index.apply(delta)
        for result in measures:
            if not result.entry.is_learning:
                result.begin(_window_of(learning[0].index))
        for cycle in range(cycles):
            delta = next(deltas)
            told: ChangeSet | None = None
            # Who comes first finds the cycle's rows in no cache: each in turn.
            first = cycle % len(measures)
            for result in measures[first:] + measures[:first]:
                if cycle >= result.entry.cycles:
                    continue
                changes = result.take(delta)
                told = changes if told is None else told
                _check(told, changes, result.entry.rival)
    finally:
        gc.enable()
    for result in measures:
        result.bytes = footprint(result.index)
    return measures


def warm_up(make: Callable[..., RowIndex], workload: Workload) -> float:
    """Compile, or load, all that a cycle may need; how many seconds of wall time that took."""
    start = time.perf_counter()
    measure(workload, [Entry("", make, 60, is_learning=True)], 60, 0)
    return time.perf_counter() - start


def _window_of(index: RowIndex) -> RowDelta:
    """The rows that an index holds, as one step of rows that come, in the order in which they came."""
    arrays = index.arrays()
    order = np.argsort(arrays["born"])
    n = len(order)
    return RowDelta(
        seq=np.zeros(1, np.int64),
        step=np.zeros(n, np.int32),
        row=arrays["rows"][order],
        born_before=np.full(n, ABSENT, np.int64),
        born_after=arrays["born"][order],
        before=np.full(arrays["values"].shape, np.nan),
        after=arrays["values"][order],
        touched=np.zeros(n, np.bool_),
    )


def _check(told: ChangeSet, changes: ChangeSet, rival: str) -> None:
    for name, ours in told._asdict().items():
        assert np.array_equal(ours, getattr(changes, name), equal_nan=name == "score"), (rival, name)
