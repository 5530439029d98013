"""Baselines: TSL, which the paper compares with, and recomputation by a matrix product.

Both support weighted sums only, apply whole steps, and compare the answers before and after.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from tocsin.arrays.changes import ENTER, ChangeSet
from tocsin.arrays.columns import ensure_capacity, ensure_width
from tocsin.arrays.types import Arrays, Bools, Floats, Ints, Longs
from tocsin.indexes.contract import ABSENT, RowDelta, step_bounds
from tocsin.indexes.preferences.candidate_lists.index import answer_changes
from tocsin.indexes.preferences.terms import linear_terms
from tocsin.kernels.programs import Program
from tocsin.papers.sliding_windows.tsl_columns import SumQueries, SumRows, SumScratch, SumViews
from tocsin.papers.sliding_windows.tsl_kernels import (
    add_rows,
    drop_rows,
    max_view_size,
    merge_list,
    refill_views,
)

#: Rows and queries that are multiplied at a time.
ROW_BLOCK = 1 << 17
QUERY_BLOCK = 64
#: Queries for which TSL scores a row at a time, in one vectorised loop.
TOGETHER = 256


class WeightedSums(ABC):
    """Rows, queries and lists of rows, best first. A subclass maintains the lists."""

    #: what `explain` says
    _explanation: str

    def __init__(
        self,
        dimensions: int,
        program: Program,
        *,
        descending: bool,
        newest_first: bool,
        capacity: int = 16,
    ) -> None:
        self._terms = linear_terms(program)
        self._columns = self._terms.column
        if len(self._columns) == 0:
            raise ValueError("only weighted sums of columns are supported")
        self._dimensions = dimensions
        self._key_sign = 1.0 if descending else -1.0
        self._tie_sign = 1 if newest_first else -1
        n = capacity
        #: int64 (slots,): 0 where there is no query
        self._k: Longs = np.zeros(n, np.int64)
        self._lo: Floats = np.empty((n, dimensions))
        self._hi: Floats = np.empty((n, dimensions))
        self._theta: Floats = np.empty((n, program.n_theta))
        #: float64 (terms, slots): so that the sum is the key
        self._weight: Floats = np.zeros((len(self._columns), n))
        #: the lists, and how long they are
        self._list_row: Ints = np.empty((n, 4), np.int32)
        self._list_key: Floats = np.empty((n, 4))
        self._size: Ints = np.zeros(n, np.int32)
        #: float64 (row slots, columns), int64: ABSENT where there is none
        self._values: Floats = np.empty((n, dimensions + program.n_columns))
        self._born: Longs = np.full(n, ABSENT, np.int64)

    @abstractmethod
    def _step(self, row: Ints, born: Longs, values: Floats, was_there: Bools) -> Ints:
        """Apply a step's rows and update the lists; returns the queries whose lists may have changed."""

    @abstractmethod
    def _compute(self, slots: Ints) -> None:
        """Compute the lists of queries from scratch."""

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add queries. Cost: that of computing each."""
        if len(slots) == 0:
            return
        top = int(slots.max()) + 1
        self._k, self._size = ensure_capacity(self._k, top), ensure_capacity(self._size, top)
        self._weight = ensure_width(self._weight, top)
        self._lo, self._hi, self._theta, self._list_row, self._list_key = (
            ensure_capacity(column, top)
            for column in (self._lo, self._hi, self._theta, self._list_row, self._list_key)
        )
        if self._dimensions:
            self._lo[slots], self._hi[slots] = values["lo"], values["hi"]
        self._theta[slots] = values["theta"]
        self._weight[:, slots] = self._key_sign * self._terms.weights(values["theta"].T)
        self._k[slots] = values["k"]
        self._compute(slots.astype(np.int32))

    def terminate(self, slots: Ints) -> None:
        """Remove queries. Cost: linear in their number."""
        self._k[slots] = 0
        self._size[slots] = 0

    def parameters(self, slot: int) -> dict[str, object]:
        """What a query was registered with. Cost: constant."""
        shown: dict[str, object] = {"theta": self._theta[slot].tolist(), "k": int(self._k[slot])}
        if self._dimensions:
            shown |= {"lo": self._lo[slot].tolist(), "hi": self._hi[slot].tolist()}
        return shown

    def apply(self, delta: RowDelta) -> ChangeSet:
        """Apply the steps in turn, and compare all answers. Cost: see the subclass."""
        if len(delta.row) == 0:
            return ChangeSet.empty()
        top = int(delta.row.max()) + 1
        self._values, self._born = (
            ensure_capacity(self._values, top),
            ensure_capacity(self._born, top, ABSENT),
        )
        bounds = step_bounds(delta)
        parts = []
        live = self._live()
        for step in range(len(delta.seq)):
            cut = slice(int(bounds[step]), int(bounds[step + 1]))
            old = self.result(live)
            row, after = delta.row[cut].astype(np.int32), np.ascontiguousarray(delta.after[cut])
            changed = self._step(row, delta.born_after[cut], after, delta.born_before[cut] != ABSENT)
            is_changed = np.zeros(len(self._k), np.bool_)
            is_changed[changed] = True
            old = _chosen(old, is_changed[old.subscription])
            is_touched = np.zeros(len(self._born), np.bool_)
            is_touched[row] = delta.touched[cut]
            parts.append(answer_changes(old, self.result(changed), is_touched, step))
        return ChangeSet.concat(parts)

    def follow(self, delta: RowDelta) -> None:
        """Apply a delta without reporting its changes. Cost: as `apply`."""
        self.apply(delta)

    def result(self, slots: Ints) -> ChangeSet:
        """The answers, by rank. Cost: their length."""
        sizes = np.minimum(self._size[slots], self._k[slots])
        owner = np.repeat(np.arange(len(slots)), sizes)
        rank = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        asked = slots[owner]
        return ChangeSet(
            step=np.zeros(len(owner), np.int32),
            subscription=asked.astype(np.int32),
            op=np.full(len(owner), ENTER, np.int8),
            row=self._list_row[asked, rank],
            other=np.full(len(owner), -1, np.int32),
            score=self._key_sign * self._list_key[asked, rank] + 0.0,
            rank=(rank + 1).astype(np.int32),
        )

    def list_sizes(self, slots: Ints) -> Ints:
        """The length of each query's list. Cost: linear."""
        return self._size[slots]

    def arrays(self) -> Arrays:
        """Queries and rows, with their slots. Cost: linear."""
        slots, rows = self._live(), np.flatnonzero(self._born != ABSENT)
        return {
            "slots": slots,
            "lo": self._lo[slots],
            "hi": self._hi[slots],
            "theta": self._theta[slots],
            "k": self._k[slots],
            "rows": rows.astype(np.int32),
            "born": self._born[rows],
            "values": self._values[rows],
        }

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that `arrays` returned. Cost: as registering everything."""
        rows = arrays["rows"]
        if len(rows):
            top = int(rows.max()) + 1
            self._values, self._born = (
                ensure_capacity(self._values, top),
                ensure_capacity(self._born, top, ABSENT),
            )
            self._step(rows, arrays["born"], arrays["values"], np.zeros(len(rows), np.bool_))
        self.register(arrays["slots"], arrays)

    def check_invariants(self) -> None:
        """Assert that lists are in order, and hold live rows only."""
        for slot in self._live().tolist():
            size = int(self._size[slot])
            rows, keys = self._list_row[slot, :size], self._list_key[slot, :size]
            assert (self._born[rows] != ABSENT).all()
            assert (keys[:-1] >= keys[1:]).all()

    def explain(self) -> str:
        """One line: how it works."""
        return self._explanation

    def _live(self) -> Ints:
        return np.flatnonzero(self._k > 0).astype(np.int32)

    def _widen(self, width: int) -> None:
        have = self._list_row.shape[1]
        if width > have:
            rows, keys = np.empty((len(self._k), width), np.int32), np.empty((len(self._k), width))
            rows[:, :have], keys[:, :have] = self._list_row, self._list_key
            self._list_row, self._list_key = rows, keys

    def _scored(self) -> Ints:
        return (self._dimensions + self._columns).astype(np.int32)


class ThresholdSortedLists(WeightedSums):
    """TSL: a sorted list for each column, and for each query a view of k to k_max rows.

    Every arriving row is scored for every query, for `together` of them at a time; the paper scores one. A
    view that falls below k is refilled by the threshold algorithm, which descends all lists in turn until no
    row further down can matter.
    """

    _explanation = "a sorted list for each column, and for each query a view of k to k_max rows"

    def __init__(
        self,
        dimensions: int,
        program: Program,
        *,
        descending: bool,
        newest_first: bool,
        capacity: int = 16,
        together: int = TOGETHER,
    ) -> None:
        super().__init__(
            dimensions, program, descending=descending, newest_first=newest_first, capacity=capacity
        )
        #: int32 (columns, capacity): rows without NULLs, ascending by each scored column; values; count
        self._order: Ints = np.empty((len(self._columns), 0), np.int32)
        self._sorted: Floats = np.empty((len(self._columns), 0))
        self._n_sorted = 0
        #: output of the next merge
        self._next_order, self._next_sorted = self._order.copy(), self._sorted.copy()
        #: bool (slots,): whether the view holds every row inside the box
        self._is_whole: Bools = np.zeros(capacity, np.bool_)
        self.refills = 0
        self._scores: Floats = np.empty(together)

    def _step(self, row: Ints, born: Longs, values: Floats, was_there: Bools) -> Ints:
        """Cost: all rows for each list; arriving rows times queries; and the refills."""
        is_removing = np.zeros(len(self._born), np.bool_)
        is_removing[row[was_there]] = True
        self._sort(row[was_there], row[born != ABSENT], values[born != ABSENT], is_removing)
        self._born[row] = born
        self._values[row] = values
        live = self._live()
        n_slots = len(self._k)
        self._is_whole = ensure_capacity(self._is_whole, n_slots)
        self._widen(self._k_max(len(self._born)) + 2)
        is_touched, is_short = np.zeros(n_slots, np.bool_), np.zeros(n_slots, np.bool_)
        with np.errstate(all="ignore"):
            drop_rows(live, self._list_row, self._list_key, self._size, is_removing, is_touched)
            add_rows(
                live, self._queries(), self._views(), self._table(), row[born != ABSENT],
                SumScratch(np.empty(self._weight.shape[1]), self._scores, np.empty(len(self._columns))),
                is_touched, is_short,
            )  # fmt: skip
        self._compute(np.flatnonzero(is_short).astype(np.int32))
        return np.flatnonzero(is_touched).astype(np.int32)

    def _compute(self, slots: Ints) -> None:
        self._is_whole = ensure_capacity(self._is_whole, len(self._k))
        self._widen(self._k_max(len(self._born)) + 2)
        self.refills += len(slots)
        with np.errstate(all="ignore"):
            refill_views(
                slots, self._queries(), self._views(), self._table(), self._order, self._sorted,
                self._n_sorted, np.full(len(self._born), -1, np.int32),
            )  # fmt: skip

    def _queries(self) -> SumQueries:
        return SumQueries(self._k, self._weight, self._lo, self._hi)

    def _views(self) -> SumViews:
        return SumViews(self._list_row, self._list_key, self._size, self._is_whole)

    def _table(self) -> SumRows:
        return SumRows(self._values, self._born, self._scored(), self._tie_sign)

    def _k_max(self, n_rows: int) -> int:
        return min(int(max_view_size(int(self._k.max(initial=1)))), n_rows + 1)

    def _sort(self, removed: Ints, arrived: Ints, values: Floats, is_removing: Bools) -> None:
        """Merge arriving rows into the sorted lists, and drop leaving ones, whose values are still stored."""
        scored = self._scored()
        is_usable = ~np.isnan(values[:, scored]).any(axis=1)
        arrived, values = arrived[is_usable], values[is_usable]
        removed = removed[~np.isnan(self._values[removed][:, scored]).any(axis=1)]
        capacity = self._n_sorted + len(arrived)
        self._next_order, self._next_sorted = (
            ensure_width(self._next_order, capacity),
            ensure_width(self._next_sorted, capacity),
        )
        n = self._n_sorted
        for c, column in enumerate(scored.tolist()):
            old, new = self._values[removed, column], values[:, column]
            by_old, by_new = np.argsort(old), np.argsort(new)
            self._n_sorted = merge_list(
                self._order[c], self._sorted[c], n, removed[by_old], old[by_old], arrived[by_new],
                new[by_new], is_removing, self._next_order[c], self._next_sorted[c],
            )  # fmt: skip
        self._order, self._next_order = self._next_order, self._order
        self._sorted, self._next_sorted = self._next_sorted, self._sorted


class MatrixRecompute(WeightedSums):
    """Recomputation: all rows times all queries, by a matrix product, and the best of each.

    The order of the product's additions is unspecified, so that it only selects candidates to score exactly.
    """

    _explanation = "all rows times all queries, by a matrix product, and the best of each"

    def _step(self, row: Ints, born: Longs, values: Floats, was_there: Bools) -> Ints:
        """Cost: all rows times all queries."""
        self._born[row] = born
        self._values[row] = values
        live = self._live()
        self._compute(live)
        return live

    def _compute(self, slots: Ints) -> None:
        rows = np.flatnonzero(self._born != ABSENT)
        scored = self._values[rows][:, self._scored()]
        is_usable = ~np.isnan(scored).any(axis=1)
        rows, scored = rows[is_usable], scored[is_usable]
        self._widen(min(int(self._k.max(initial=1)), len(rows)) + 1)
        # Bounds the rounding error of sums of these numbers in any order of addition.
        largest = np.abs(scored).max(axis=0, initial=0.0)
        with np.errstate(all="ignore"):
            for begin in range(0, len(slots), QUERY_BLOCK):
                block = slots[begin : begin + QUERY_BLOCK]
                keys = np.concatenate(
                    [
                        self._weight[:, block].T @ scored[first : first + ROW_BLOCK].T
                        for first in range(0, len(rows), ROW_BLOCK)
                    ]
                    or [np.empty((len(block), 0))],
                    axis=1,
                )
                margins = 1e-12 * (np.abs(self._weight[:, block].T) @ largest)
                for slot, key, margin in zip(block.tolist(), keys, margins.tolist(), strict=True):
                    self._choose(slot, rows, scored, key, margin)

    def _choose(self, slot: int, rows: Longs, scored: Floats, about: Floats, margin: float) -> None:
        """The best of one query, exactly, from keys with an error of at most `margin`; NaN if unbounded."""
        inside = np.ones(len(rows), np.bool_)
        for d in range(self._dimensions):
            box = self._values[rows, d]
            inside &= (self._lo[slot, d] <= box) & (box <= self._hi[slot, d])
        k = int(self._k[slot])
        if np.isfinite(margin) and np.count_nonzero(inside) > k:
            about = about if self._dimensions == 0 else np.where(inside, about, -np.inf)
            inside = about >= np.partition(about, len(about) - k)[len(about) - k] - margin
        chosen = np.flatnonzero(inside)
        key = self._weight[0, slot] * scored[chosen, 0]
        for i in range(1, scored.shape[1]):
            key = key + self._weight[i, slot] * scored[chosen, i]
        key = key + 0.0
        tie = self._tie_sign * self._born[rows[chosen]]
        order = np.lexsort((-tie, -key))
        order = order[~np.isnan(key[order])][:k]
        self._size[slot] = len(order)
        self._list_row[slot, : len(order)] = rows[chosen[order]]
        self._list_key[slot, : len(order)] = key[order]


def _chosen(changes: ChangeSet, kept: Bools) -> ChangeSet:
    """Some of the changes."""
    step, subscription, op, row, other, score, rank = changes
    return ChangeSet(
        step[kept], subscription[kept], op[kept], row[kept], other[kept], score[kept], rank[kept]
    )
