"""The naive baseline: every changed row is scored for every subscription.

`scan_kernels` explains how a list stays exact while rows come and go.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.arrays.changes import ENTER, ChangeBuffer, ChangeSet
from tocsin.arrays.columns import column_wise, writable
from tocsin.arrays.layout import check_layout, empty, grow
from tocsin.arrays.types import Arrays, Floats, Ints, Longs
from tocsin.indexes.contract import ABSENT, RowDelta, step_bounds
from tocsin.kernels.programs import Program, tile_size
from tocsin.kernels.scoring import BLOCK, score_tile
from tocsin.kernels.status import DONE, FULL, N_OUT, POOL_FULL
from tocsin.papers.sliding_windows import scan_kernels as kernels
from tocsin.papers.sliding_windows.scan_columns import (
    HIGHEST_TIE,
    ScanEntries,
    ScanPool,
    ScanRanking,
    ScanRows,
    ScanScratch,
    ScanSubscriptions,
)


class PreferenceScan:
    """The k best rows by a score program, over a window or a table.

    Delta columns: the box's dimensions, then the program's columns. Bound values: `lo`, `hi`
    (n, dimensions), closed, `theta` (n, n_theta) and `k` (n,). `descending` puts large scores first;
    `newest_first` gives ties to the larger `born` (windows), else to the smaller (tables). A score of
    NaN is never ranked.
    """

    def __init__(
        self,
        dimensions: int,
        program: Program,
        *,
        descending: bool,
        newest_first: bool,
        capacity: int = 16,
    ) -> None:
        self._ranking = ScanRanking(
            program, dimensions, 1.0 if descending else -1.0, 1 if newest_first else -1
        )
        self._capacity = capacity
        self._subscriptions = empty(
            ScanSubscriptions, dimensions=dimensions, thetas=program.n_theta, slots=capacity
        )
        #: one more than the largest subscription slot so far
        self._n_subscriptions = 0
        #: the largest k so far, which bounds the length of a list
        self._largest_k = 0
        self._rows = empty(ScanRows, columns=dimensions + program.n_columns, slots=capacity)
        self._pool = empty(ScanPool, rows=capacity)
        #: int64: the kernels' counters and cursor
        self._state: Longs = np.zeros(kernels.STATE_SIZE, np.int64)
        #: changes of the last delta: the initial capacity for the next
        self._expected = capacity

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions and rank the existing rows for them. Cost: rows times subscriptions."""
        if len(slots) == 0:
            return
        self._bind(slots, values)
        # New lists run short, so that a step without entries ranks all rows for them.
        self._run(_nothing(self._rows.values.shape[0]), int(slots.min()), int(slots.max()) + 1)

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: the length of their lists."""
        _, places = self._listed(slots, self._subscriptions.list_size)
        np.subtract.at(self._rows.listings, self._pool.row[places], 1)
        self._close(slots)

    def parameters(self, slot: int) -> dict[str, object]:
        """What a subscription was registered with. Cost: constant."""
        columns = self._subscriptions
        shown: dict[str, object] = {}
        if columns.lo.shape[0]:
            shown |= {"lo": columns.lo[:, slot].tolist(), "hi": columns.hi[:, slot].tolist()}
        return shown | {"theta": columns.theta[:, slot].tolist(), "k": int(columns.k[slot])}

    def apply(self, delta: RowDelta) -> ChangeSet:
        """Score the delta's rows, patch the lists they reach, and report.

        Cost: entries times subscriptions; for a list that ran short, all rows.
        """
        if len(delta.row) == 0:
            return ChangeSet.empty()
        self._ensure_row_capacity(int(delta.row.max()) + 1)
        return self._run(delta, 0, self._n_subscriptions)

    def follow(self, delta: RowDelta) -> None:
        """Apply a delta without reporting its changes. Cost: as `apply`."""
        self.apply(delta)

    def result(self, slots: Ints) -> ChangeSet:
        """The answers, by rank. Cost: their length."""
        sizes = np.minimum(self._subscriptions.list_size, self._subscriptions.k)
        owner, places = self._listed(slots, sizes)
        n = len(places)
        starts = self._subscriptions.list_start[slots]
        return ChangeSet(
            step=np.zeros(n, np.int32),
            subscription=slots.astype(np.int32)[owner],
            op=np.full(n, ENTER, np.int8),
            row=self._pool.row[places],
            other=np.full(n, -1, np.int32),
            score=self._ranking.key_sign * self._pool.key[places] + 0.0,
            rank=(places - starts[owner] + 1).astype(np.int32),
        )

    def arrays(self) -> Arrays:
        """Subscriptions with their lists, and rows, each with their slots. Cost: linear."""
        slots = self._live()
        columns = self._subscriptions
        _, places = self._listed(slots, columns.list_size)
        n_rows = int(self._state[kernels.N_ROWS])
        rows = self._rows.slot[:n_rows].copy()
        return {
            "slots": slots.astype(np.int32),
            "lo": columns.lo[:, slots].T.copy(),
            "hi": columns.hi[:, slots].T.copy(),
            "theta": columns.theta[:, slots].T.copy(),
            "k": columns.k[slots],
            "floor_key": columns.floor_key[slots],
            "floor_tie": columns.floor_tie[slots],
            "list_size": columns.list_size[slots],
            "list_row": self._pool.row[places],
            "list_key": self._pool.key[places],
            "rows": rows,
            "born": self._rows.born[rows],
            "values": self._rows.values[:, :n_rows].T.copy(),
        }

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that `arrays` returned. Cost: linear; nothing is ranked."""
        slots, rows, listed = arrays["slots"], arrays["rows"], arrays["list_row"]
        if len(rows):
            self._ensure_row_capacity(int(rows.max()) + 1)
        packed = len(rows)
        self._rows.slot[:packed] = rows
        self._rows.values[:, :packed] = arrays["values"].T
        self._rows.position[rows] = np.arange(packed)
        self._rows.born[rows] = arrays["born"]
        np.add.at(self._rows.listings, listed, 1)
        self._state[kernels.N_ROWS] = packed
        if len(slots) == 0:
            return
        self._bind(slots, arrays)
        columns = self._subscriptions
        sizes = arrays["list_size"]
        columns.floor_key[slots] = arrays["floor_key"]
        columns.floor_tie[slots] = arrays["floor_tie"]
        columns.list_start[slots] = np.cumsum(sizes) - sizes
        columns.list_capacity[slots] = columns.list_size[slots] = sizes
        self._pool = grow(self._pool, rows=len(listed))
        self._pool.row[: len(listed)] = listed
        self._pool.key[: len(listed)] = arrays["list_key"]
        self._state[kernels.POOL_END] = len(listed)

    def check_invariants(self) -> None:
        """Assert that all columns agree, and that each list holds exactly the rows above its floor."""
        rows, columns = self._rows, self._subscriptions
        for layout in (rows, columns, self._pool):
            check_layout(layout)
        n_rows = int(self._state[kernels.N_ROWS])
        packed = rows.slot[:n_rows]
        assert np.array_equal(np.sort(packed), np.flatnonzero(rows.born != ABSENT))
        assert np.array_equal(rows.position[packed], np.arange(n_rows))
        assert (rows.entry == -1).all()
        assert (rows.mark == -1).all()
        live = self._live()
        _, places = self._listed(live, columns.list_size)
        assert np.array_equal(rows.listings, np.bincount(self._pool.row[places], minlength=len(rows.born)))
        assert (columns.list_size <= columns.list_capacity).all()
        assert (columns.list_size[columns.k == 0] == 0).all()
        _, owned = self._listed(live, columns.list_capacity)
        assert len(np.unique(owned)) == len(owned)
        assert not len(owned) or owned.max() < self._state[kernels.POOL_END] <= len(self._pool.row)
        for slot in live:
            start, size = columns.list_start[slot], columns.list_size[slot]
            expected_rows, expected_keys = self._rows_above_floor(int(slot))
            assert np.array_equal(self._pool.row[start : start + size], expected_rows)
            assert np.array_equal(self._pool.key[start : start + size], expected_keys)
            is_open = columns.floor_key[slot] == -np.inf and columns.floor_tie[slot] == kernels.LOWEST_TIE
            assert is_open or size >= columns.k[slot]

    def explain(self) -> str:
        """One line: how it works."""
        first = "largest" if self._ranking.key_sign > 0 else "smallest"
        tie = "newer" if self._ranking.tie_sign > 0 else "older"
        return (
            f"preference top-k, {first} score first, ties to the {tie} row; "
            "every changed row is scored for every subscription, and a list that runs short ranks all rows"
        )

    def _live(self) -> Longs:
        """The slots of live subscriptions, in order."""
        return np.flatnonzero(self._subscriptions.k > 0)

    def _close(self, slots: np.ndarray) -> None:
        """Make `slots` subscriptions that no row can reach."""
        columns = self._subscriptions
        for column in (columns.k, columns.list_start, columns.list_capacity, columns.list_size):
            column[slots] = 0
        columns.floor_key[slots] = np.inf
        columns.floor_tie[slots] = HIGHEST_TIE

    def _bind(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Store the bound values of new subscriptions, growing as necessary. Their lists stay empty."""
        top = int(slots.max()) + 1
        self._subscriptions = columns = grow(self._subscriptions, slots=top)
        if columns.lo.shape[0]:
            columns.lo[:, slots] = values["lo"].T
            columns.hi[:, slots] = values["hi"].T
        if columns.theta.shape[0]:
            columns.theta[:, slots] = values["theta"].T
        columns.k[slots] = values["k"]
        self._n_subscriptions = max(self._n_subscriptions, top)
        self._largest_k = max(self._largest_k, int(values["k"].max()))

    def _ensure_row_capacity(self, top: int) -> None:
        if top > len(self._rows.born):
            self._rows = grow(self._rows, slots=top)

    def _grow_pool(self) -> None:
        """Compact the lists; double the pool unless that frees half of it."""
        live = self._live()
        columns = self._subscriptions
        _, places = self._listed(live, columns.list_capacity)
        capacities = columns.list_capacity[live]
        used = len(places)
        capacity = len(self._pool.row)
        if used > capacity // 2 or used == self._state[kernels.POOL_END]:
            capacity *= 2
        pool = empty(ScanPool, rows=capacity)
        pool.row[:used] = self._pool.row[places]
        pool.key[:used] = self._pool.key[places]
        columns.list_start[live] = np.cumsum(capacities) - capacities
        self._pool = pool
        self._state[kernels.POOL_END] = used

    def _listed(self, slots: np.ndarray, sizes: Longs) -> tuple[Longs, Longs]:
        """Index into `slots`, and place in the pool, of the first `sizes[slot]` rows of each list."""
        lengths = sizes[slots]
        owner = np.repeat(np.arange(len(slots)), lengths)
        firsts = np.cumsum(lengths) - lengths
        places = np.arange(len(owner)) - firsts[owner] + self._subscriptions.list_start[slots][owner]
        return owner, places

    def _run(self, delta: RowDelta, first: int, stop: int) -> ChangeSet:
        """Apply the delta's steps, the first of them to the subscriptions from `first` up to `stop`."""
        entries = _entries(delta)
        scratch = self._scratch(int(np.diff(entries.bounds).max(initial=0)))
        buffer = ChangeBuffer(self._expected)
        self._state[: kernels.TRANSIENT] = 0
        self._state[kernels.SUBSCRIPTION] = first
        status = -1
        # Interpreted, NumPy's scalars would warn of infinities and NaNs, which are intended.
        with np.errstate(all="ignore"):
            while status != DONE:
                status = kernels.apply_steps(
                    self._state, self._ranking, self._subscriptions, stop,
                    self._pool, self._rows, entries, scratch, buffer.columns,
                )  # fmt: skip
                if status == FULL:
                    buffer.grow()
                elif status == POOL_FULL:
                    self._grow_pool()
        count = int(self._state[N_OUT])
        self._expected = max(self._capacity, count)
        return buffer.take(count)

    def _scratch(self, largest_step: int) -> ScanScratch:
        longest = min(kernels.max_size(self._largest_k), len(self._rows.born))
        return ScanScratch(
            stack=np.empty((self._ranking.program.depth, BLOCK)),
            score=np.empty(tile_size(largest_step)),
            row_score=np.empty(BLOCK),
            is_reached=np.empty(BLOCK, np.bool_),
            heap_key=np.empty(longest),
            heap_tie=np.empty(longest, np.int64),
            heap_row=np.empty(longest, np.int32),
            new_key=np.empty(longest),
            new_row=np.empty(longest, np.int32),
            new_op=np.empty(longest, np.int8),
        )

    def _rows_above_floor(self, slot: int) -> tuple[Ints, Floats]:
        """What a subscription's list must hold, by testing and sorting all rows."""
        columns, ranking = self._subscriptions, self._ranking
        n_rows = int(self._state[kernels.N_ROWS])
        values = np.ascontiguousarray(self._rows.values[:, :n_rows])
        score, stack = np.empty(max(n_rows, BLOCK)), np.empty((ranking.program.depth, BLOCK))
        with np.errstate(all="ignore"):
            score_tile(
                ranking.program, values, ranking.first_column, 0, n_rows,
                columns.theta, slot, 1, stack, score,
            )  # fmt: skip
        key = ranking.key_sign * score[:n_rows] + 0.0
        tie = ranking.tie_sign * self._rows.born[self._rows.slot[:n_rows]]
        floor_key, floor_tie = columns.floor_key[slot], columns.floor_tie[slot]
        box = values[: columns.lo.shape[0]]
        inside = ((columns.lo[:, [slot]] <= box) & (box <= columns.hi[:, [slot]])).all(axis=0)
        above = inside & ((key > floor_key) | ((key == floor_key) & (tie >= floor_tie)))
        order = np.lexsort((-tie[above], -key[above]))
        return self._rows.slot[:n_rows][above][order], key[above][order]


def _entries(delta: RowDelta) -> ScanEntries:
    """The delta as kernels expect it: column-wise, within a step rows that exist after it first."""
    is_gone = delta.born_after == ABSENT
    order = np.lexsort((is_gone, delta.step))
    bounds = step_bounds(delta)
    n_arrived = np.concatenate(([0], np.cumsum(~is_gone)))
    return ScanEntries(
        bounds=bounds,
        n_arrivals=np.diff(n_arrived[bounds]),
        row=writable(delta.row[order], np.int32),
        born_before=writable(delta.born_before[order], np.int64),
        born_after=writable(delta.born_after[order], np.int64),
        touched=writable(delta.touched[order], np.bool_),
        after=column_wise(delta.after[order]),
    )


def _nothing(n_columns: int) -> RowDelta:
    """One step in which no row changes."""
    born, values = np.empty(0, np.int64), np.empty((0, n_columns))
    ints, bools = np.empty(0, np.int32), np.empty(0, np.bool_)
    return RowDelta(np.zeros(1, np.int64), ints, ints, born, born, values, values, bools)
