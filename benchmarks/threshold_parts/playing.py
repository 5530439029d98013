"""Play a workload through an index, with the engine's part of the work, and take the time."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np

from benchmarks.instrument.memory import footprint
from benchmarks.threshold_parts.workloads import Workload
from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.columns import Slots, ensure_capacity
from tocsin.arrays.types import Floats, Ints, Longs


class ThresholdIndex(Protocol):
    """What is asked of a rival."""

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None: ...

    def terminate(self, slots: Ints) -> None: ...

    def apply(self, values: Floats, weights: Longs) -> ChangeSet: ...

    def progress(self, slots: Ints) -> tuple[Longs, Longs]: ...


Make: TypeAlias = Callable[[int, int], ThresholdIndex]


@dataclass
class Snapshot:
    """The living queries at an element, and what each of them misses."""

    element: int
    queries: Ints
    missing: Longs


@dataclass
class Played:
    """What came of it. Seconds are of the processor: other work on the machine disturbs them less."""

    build_s: float = 0.0
    elements_s: float = 0.0
    changes_s: float = 0.0
    wall_s: float = 0.0
    n_elements: int = 0
    bytes_per_query: float = 0.0
    #: element, query, score of each maturity
    maturities: list[tuple[Ints, Ints, Floats]] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)

    @property
    def us_per_element(self) -> float:
        """Elements, terminations and later registrations, over all elements; not the build."""
        return 1e6 * (self.elements_s + self.changes_s) / max(self.n_elements, 1)

    def matured(self) -> list[tuple[int, int, float]]:
        """All maturities, by element, then query."""
        rows = [
            row for part in self.maturities for row in zip(*(column.tolist() for column in part), strict=True)
        ]
        return sorted(rows)


class Player:
    """Hands out slots, registers and terminates at borders, applies batches between them."""

    def __init__(
        self, make: Make, workload: Workload, batch: int, snapshots_at: tuple[int, ...] = ()
    ) -> None:
        self._workload = workload
        self._batch = batch
        self._snapshots_at = set(snapshots_at)
        self.index = make(workload.dimensions, 1)
        self._slots = Slots()
        self._slot_query = np.empty(16, np.int32)
        #: slots and queries whose life is over at a border, by its number: nothing is searched for
        self._ends: dict[int, list[tuple[Ints, Ints]]] = defaultdict(list)
        self._n_registered = 0
        self._n_gone = 0
        self.played = Played()

    def play(self, elements: int | None = None) -> Played:
        """Play the first `elements`, or all."""
        workload, played = self._workload, self.played
        played.n_elements = (
            len(workload.weights) if elements is None else min(elements, len(workload.weights))
        )
        wall = time.perf_counter()
        first = workload.n_first if workload.is_fixed_load else int((workload.start <= 0).sum())
        played.build_s = self._register(first, 0)
        played.bytes_per_query = footprint(self.index) / max(first, 1)
        for border in range(0, played.n_elements, workload.border):
            if border:
                self._cross(border)
            if border in self._snapshots_at:
                living = self._living()
                _, missing = self.index.progress(living)
                played.snapshots.append(Snapshot(border, self._slot_query[living], missing))
            stop = min(border + workload.border, played.n_elements)
            self._apply(border, stop)
        played.wall_s = time.perf_counter() - wall
        return played

    def _cross(self, border: int) -> None:
        """What happens at a border: queries whose life is over go, new ones come."""
        for slots, queries in self._ends.pop(border // self._workload.border, ()):
            self.played.changes_s += self._terminate(slots[self._slot_query[slots] == queries])
        if self._workload.is_fixed_load:
            count, self._n_gone = self._n_gone, 0
        else:
            count = int(np.searchsorted(self._workload.start, border, "right")) - self._n_registered
        self.played.changes_s += self._register(count, border)

    def _apply(self, border: int, stop: int) -> None:
        """All batches up to the next border. The clock is read once, and when somebody has matured: more
        often, and it would outweigh single rows.
        """
        workload = self._workload
        begins = range(border, stop, self._batch)
        ends = [min(begin + self._batch, stop) for begin in begins]
        values = [workload.values[begin:end] for begin, end in zip(begins, ends, strict=True)]
        weights = [workload.weights[begin:end] for begin, end in zip(begins, ends, strict=True)]
        start = time.process_time()
        for part, begin in enumerate(begins):
            changes = self.index.apply(values[part], weights[part])
            if len(changes.step):
                self.played.elements_s += time.process_time() - start
                queries = self._slot_query[changes.subscription]
                self.played.maturities.append((changes.step + begin, queries, changes.score))
                self.played.elements_s += self._terminate(changes.subscription)
                start = time.process_time()
        self.played.elements_s += time.process_time() - start

    def _register(self, count: int, now: int) -> float:
        if count == 0:
            return 0.0
        workload = self._workload
        queries = np.arange(self._n_registered, self._n_registered + count, dtype=np.int32)
        assert self._n_registered + count <= len(workload.tau), "the pool of queries is too small"
        self._n_registered += count
        slots = self._slots.take(count)
        self._slot_query = ensure_capacity(self._slot_query, self._slots.top)
        self._slot_query[slots] = queries
        self._note_ends(slots, queries, now)
        columns = {
            "lo": workload.low[queries],
            "hi": workload.high[queries],
            "tau": workload.tau[queries],
            "repeat": np.zeros(count, np.bool_),
        }
        start = time.process_time()
        self.index.register(slots, columns)
        return time.process_time() - start

    def _note_ends(self, slots: Ints, queries: Ints, now: int) -> None:
        borders = -(-(now + self._workload.life[queries]) // self._workload.border)
        order = np.argsort(borders, kind="stable")
        numbers, begins = np.unique(borders[order], return_index=True)
        for number, part in zip(numbers.tolist(), np.split(order, begins[1:]), strict=True):
            self._ends[number].append((slots[part], queries[part]))

    def _terminate(self, slots: Ints) -> float:
        if len(slots) == 0:
            return 0.0
        self._slots.release(slots)
        self._slot_query[slots] = -1
        self._n_gone += len(slots)
        start = time.process_time()
        self.index.terminate(slots)
        return time.process_time() - start

    def _living(self) -> Ints:
        return np.flatnonzero(self._slot_query[: self._slots.top] >= 0).astype(np.int32)
