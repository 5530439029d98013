"""Measure rivals on one workload: all take the same cycle in turn, and must tell the same."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from benchmarks.threshold_parts.playing import footprint
from benchmarks.window_parts.workloads import Workload
from tocsin.indexes.contract import ChangeSet, RowIndex

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """A rival, and in how many cycles it takes part."""

    rival: str
    make: Callable[..., RowIndex]
    cycles: int


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


def measure(workload: Workload, entries: list[Entry], cycles: int, warm: int = 3) -> list[Measure]:
    """All entries over `cycles` cycles after `warm` that do not count; the first entry takes part in all."""
    slots = np.arange(workload.queries, dtype=np.int32)
    values = {"theta": workload.weights(), "k": np.full(workload.queries, workload.k, np.int64)}
    scorer = workload.program()
    indexes = [entry.make(0, scorer, descending=True, newest_first=True) for entry in entries]
    measures = [Measure(workload, entry) for entry in entries]
    deltas = workload.cycles()
    first = next(deltas)
    for index, result in zip(indexes, measures, strict=True):
        start = time.process_time()
        index.apply(first)
        result.fill_s = time.process_time() - start
        start = time.process_time()
        index.register(slots, values)
        result.register_s = time.process_time() - start
        logger.info("%s: %s registered in %.2f s", workload.name, result.entry.rival, result.register_s)
    gc.collect()
    gc.disable()
    try:
        for cycle in range(-warm, cycles):
            delta = next(deltas)
            told: ChangeSet | None = None
            for index, result in zip(indexes, measures, strict=True):
                if cycle >= result.entry.cycles:
                    continue
                start = time.process_time()
                changes = index.apply(delta)
                took = time.process_time() - start
                told = changes if told is None else told
                _check(told, changes, result.entry.rival)
                if cycle >= 0:
                    result.cycle_ms.append(1000 * took)
                    result.changes += len(changes.step)
    finally:
        gc.enable()
    for index, result in zip(indexes, measures, strict=True):
        result.bytes = footprint(index)
    return measures


def warm_up(make: Callable[..., RowIndex], workload: Workload) -> float:
    """Compile, or load, all that a cycle may need; how many seconds of wall time that took."""
    start = time.perf_counter()
    measure(workload, [Entry("", make, 60)], 60)
    return time.perf_counter() - start


def _check(told: ChangeSet, changes: ChangeSet, rival: str) -> None:
    for name, ours in told._asdict().items():
        assert np.array_equal(ours, getattr(changes, name), equal_nan=name == "score"), (rival, name)
