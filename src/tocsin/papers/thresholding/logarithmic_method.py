"""The logarithmic method of Bentley and Saxe: registrations and terminations on static structures.

A *level* is a static structure over a fixed set of queries. Levels double in size: that of rank i has at most
2 ** i live queries. New queries are built into one level together with all smaller levels that cannot take
them, so that a query is rebuilt at most once a rank. A terminated query stays in its level without being
reported; a level is rebuilt once half of it is gone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated, NamedTuple, Protocol

import numpy as np

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.columns import ensure_capacity, writable
from tocsin.arrays.layout import Column, check_layout, empty, grow, restored, saved
from tocsin.arrays.types import Arrays, Bools, Floats, Ints, Longs
from tocsin.indexes.thresholds.reports import matured_changes, value_changes
from tocsin.kernels.status import FULL
from tocsin.papers.thresholding.maturities import N_ROWS, Counts, MaturityRows

#: The largest int64.
LARGEST = np.uint64(2**63 - 1)
#: Ranks of slots that no level holds: not registered; matured for good.
ABSENT, MATURED = -2, -1


class QueryBoxes(NamedTuple):
    """Queries by slot, or those to build a level from, one row each."""

    #: closed ranges.
    low: Annotated[Floats, Column("queries", "axes")]
    high: Annotated[Floats, Column("queries", "axes")]
    #: weight to reach.
    tau: Annotated[Longs, Column("queries")]
    #: weight reached before: when its level was built, or when it matured for good.
    reached: Annotated[Longs, Column("queries")]
    #: start again from 0 after maturing.
    is_repeating: Annotated[Bools, Column("queries")]

    def rows(self, which: np.ndarray) -> QueryBoxes:
        """Some of them, or all in another order."""
        return QueryBoxes(
            self.low[which], self.high[which], self.tau[which], self.reached[which], self.is_repeating[which]
        )


class StaticLevel(Protocol):
    """A structure over a fixed set of queries, numbered from 0."""

    def count(self, values: Floats, weights: Longs, cursor: Longs, out: MaturityRows) -> int:
        """Count a batch from the cursor on; FULL if `out` must grow before the next call."""

    def drop(self, queries: Longs) -> None:
        """Stop reporting these queries."""

    def reached(self, queries: Longs) -> Longs:
        """The weight that live queries have counted."""

    def check(self, is_living: Bools) -> None:
        """Assert that all columns agree. For tests."""


class LogarithmicMethod(ABC):
    """Maintains `SUM(w) >= tau` over boxes of `dimensions` ranges, in whole multiples of 1 / `scale`.

    `register` takes `lo` and `hi`, float64 (n, dimensions), `tau`, int64 (n,), and `repeat`,
    bool (n,). A threshold matures at a row that it counts, so one of 0 or less matures at the first.
    After maturing, a repeating one starts again from 0 with the next row; others never fire again.
    """

    def __init__(self, dimensions: int, scale: int, capacity: int = 16) -> None:
        self._dimensions = dimensions
        self._scale = scale
        self._top = 0
        # A box of no dimensions is stored as one unbounded range, and its events are at 0.
        self._boxes = empty(QueryBoxes, queries=capacity, axes=max(dimensions, 1))
        #: int8 (slots,): rank of the level, ABSENT or MATURED.
        self._rank = np.full(capacity, ABSENT, np.int8)
        #: int32 (slots,): number within the level.
        self._query = np.zeros(capacity, np.int32)
        #: by rank: the level, its queries' slots, and how many of them are still live
        self._levels: list[StaticLevel | None] = []
        self._slots: list[Ints] = []
        self._n_living: list[int] = []
        self._out = MaturityRows(
            np.empty(capacity, np.int32), np.empty(capacity, np.int32), np.empty(capacity, np.uint64)
        )

    @abstractmethod
    def _build_level(self, boxes: QueryBoxes) -> StaticLevel:
        """Build a level over these queries."""

    @abstractmethod
    def explain(self) -> str:
        """One line: how it works."""

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions; they count from the next event on. Cost: each is built log(queries) times."""
        if len(slots) == 0:
            return
        self._reserve(int(slots.max()) + 1)
        self._boxes.low[slots] = values["lo"] if self._dimensions else -np.inf
        self._boxes.high[slots] = values["hi"] if self._dimensions else np.inf
        self._boxes.tau[slots] = values["tau"]
        self._boxes.reached[slots] = 0
        self._boxes.is_repeating[slots] = values["repeat"]
        merged, rank = [slots], 0
        total = len(slots)
        while True:
            if rank == len(self._levels):
                self._levels.append(None)
                self._slots.append(np.empty(0, np.int32))
                self._n_living.append(0)
            total += self._n_living[rank]
            merged.append(self._clear_rank(rank))
            if total <= 2**rank:
                break
            rank += 1
        self._build_at(rank, np.concatenate(merged))

    def parameters(self, slot: int) -> dict[str, object]:
        """What a subscription was registered with. Cost: constant."""
        shown: dict[str, object] = {
            "tau": int(self._boxes.tau[slot]),
            "repeat": bool(self._boxes.is_repeating[slot]),
        }
        if self._dimensions:
            shown |= {"lo": self._boxes.low[slot].tolist(), "hi": self._boxes.high[slot].tolist()}
        return shown

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: constant each, and amortised one build."""
        ranks = self._rank[slots]
        self._rank[slots] = ABSENT
        self._boxes.reached[slots] = 0
        for rank in np.unique(ranks[ranks >= 0]).tolist():
            level = self._levels[rank]
            assert level is not None
            gone = slots[ranks == rank]
            level.drop(self._query[gone].astype(np.int64))
            self._retire(rank, len(gone))

    def apply(self, values: Floats, weights: Longs) -> ChangeSet:
        """Count a batch of events, values (events, dimensions); report maturities, each at its event."""
        if self._dimensions == 0:
            values = np.zeros((len(weights), 1))
        values, weights = writable(values, np.float64), writable(weights, np.int64)
        found: list[tuple[Ints, Ints, Counts]] = []
        for rank, level in enumerate(self._levels):
            if level is None:
                continue
            cursor = np.zeros(4, np.int64)
            with np.errstate(over="ignore"):
                while level.count(values, weights, cursor, self._out) == FULL:
                    self._out = MaturityRows(
                        *(ensure_capacity(column, len(column) + 1) for column in self._out)
                    )
            n_rows = int(cursor[N_ROWS])
            if n_rows == 0:
                continue
            slots = self._slots[rank][self._out.query[:n_rows]]
            reached = self._out.reached[:n_rows].copy()
            found.append((self._out.event[:n_rows].copy(), slots, reached))
            is_over = ~self._boxes.is_repeating[slots]
            matured = slots[is_over]
            self._rank[matured] = MATURED
            self._boxes.reached[matured] = np.minimum(reached[is_over], LARGEST)
            self._retire(rank, len(matured))
        if not found:
            return ChangeSet.empty()
        step, slot, total = (np.concatenate(columns) for columns in zip(*found, strict=True))
        order = np.lexsort((slot, step))
        return matured_changes(slot[order], total[order], step[order], self._scale)

    def result(self, slots: Ints) -> ChangeSet:
        """The weight counted so far, as VALUE."""
        return value_changes(slots, self._reached_now(slots), self._scale)

    def progress(self, slots: Ints) -> tuple[Longs, Longs]:
        """Scaled weight reached, and missing to tau. Weight beyond int64 is shown as the largest int64."""
        reached = self._reached_now(slots)
        return reached, np.maximum(self._boxes.tau[slots], reached) - reached

    def arrays(self) -> Arrays:
        """The queries, what each has reached, and the rank of its level; the levels can be rebuilt."""
        top = self._top
        is_there = self._rank[:top] > ABSENT
        reached = np.where(is_there, self._reached_now(np.arange(top, dtype=np.int32)), 0)
        return saved(self._boxes, queries=top) | {"reached": reached, "rank": self._rank[:top].copy()}

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that `arrays` returned. Cost: that of building all levels."""
        self._top = len(arrays["rank"])
        self._boxes, self._rank = restored(QueryBoxes, arrays), np.array(arrays["rank"])
        self._query = np.zeros(self._top, np.int32)
        n_ranks = int(self._rank.max(initial=-1)) + 1
        self._levels = [None] * n_ranks
        self._slots = [np.empty(0, np.int32)] * n_ranks
        self._n_living = [0] * n_ranks
        for rank in range(n_ranks):
            slots = np.flatnonzero(self._rank == rank).astype(np.int32)
            if len(slots):
                self._build_at(rank, slots)

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        check_layout(self._boxes)
        assert (self._rank[self._top :] == ABSENT).all()
        n_held = 0
        for rank, level in enumerate(self._levels):
            slots, n_living = self._slots[rank], self._n_living[rank]
            is_living = self._is_living(rank)
            assert is_living.sum() == n_living <= 2**rank
            assert (level is None) == (n_living == 0)
            assert 2 * n_living >= len(slots)
            n_held += n_living
            if level is not None:
                with np.errstate(over="ignore"):
                    level.check(is_living)
        assert n_held == (self._rank >= 0).sum()

    def _build_at(self, rank: int, slots: Ints) -> None:
        # Neighbours count the same events, so they are close together in memory.
        slots = slots[np.argsort(self._boxes.low[slots, 0], kind="stable")]
        boxes = self._boxes.rows(slots)
        # The middle of an unbounded range may be NaN.
        with np.errstate(over="ignore", invalid="ignore"):
            self._levels[rank] = self._build_level(boxes)
        self._slots[rank] = slots
        self._n_living[rank] = len(slots)
        self._rank[slots] = rank
        self._query[slots] = np.arange(len(slots), dtype=np.int32)

    def _clear_rank(self, rank: int) -> Ints:
        """Clear a rank, saving what its live queries have reached; returns their slots."""
        slots = self._slots[rank][self._is_living(rank)]
        self._boxes.reached[slots] = self._reached_now(slots)
        self._levels[rank] = None
        self._slots[rank] = np.empty(0, np.int32)
        self._n_living[rank] = 0
        return slots

    def _retire(self, rank: int, count: int) -> None:
        """Count removed queries of a level; rebuild it if they are half of it."""
        self._n_living[rank] -= count
        if self._n_living[rank] > 0 and 2 * self._n_living[rank] >= len(self._slots[rank]):
            return
        slots = self._clear_rank(rank)
        if len(slots):
            self._build_at(rank, slots)

    def _is_living(self, rank: int) -> Bools:
        """Which queries of the level are live: a slot that was reused belongs to another level."""
        is_living: Bools = self._rank[self._slots[rank]] == rank
        return is_living

    def _reached_now(self, slots: Ints) -> Longs:
        reached = self._boxes.reached[slots]
        ranks = self._rank[slots]
        for rank in np.unique(ranks[ranks >= 0]).tolist():
            level = self._levels[rank]
            assert level is not None
            is_here = ranks == rank
            with np.errstate(over="ignore"):
                reached[is_here] = level.reached(self._query[slots[is_here]].astype(np.int64))
        return reached

    def _reserve(self, top: int) -> None:
        self._top = max(self._top, top)
        self._boxes = grow(self._boxes, queries=top)
        self._rank = ensure_capacity(self._rank, top, ABSENT)
        self._query = ensure_capacity(self._query, top)
