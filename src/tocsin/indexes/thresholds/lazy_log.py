"""The log: events that some subscription has not been held against yet."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tocsin.indexes.contract import Floats, Longs
from tocsin.indexes.thresholds.lazy_columns import (
    BATCH,
    BLOCK,
    CHUNK,
    GRIDDED,
    LENGTH,
    SORTED,
    STATE,
    LogColumns,
)
from tocsin.indexes.thresholds.scan_kernels import Maturities

#: Events of a batch from which on it pays to sort them.
FEWEST_SORTED = 1 << 9


class EventLog:
    """Owns the log's columns. What is in them is told in `LogColumns`."""

    def __init__(self, axes: int, capacity: int) -> None:
        self.columns = LogColumns(
            values=np.zeros((axes, capacity)),
            weights=np.zeros(capacity, np.int64),
            steps=np.zeros(capacity, np.int32),
            sums=np.zeros(capacity, np.int64),
            block_low=np.zeros(capacity // BLOCK),
            block_high=np.zeros(capacity // BLOCK),
            state=np.zeros(STATE, np.int64),
        )

    @property
    def state(self) -> Longs:
        return self.columns.state

    @property
    def capacity(self) -> int:
        return len(self.columns.weights)

    def make_room(self, count: int, longest: int) -> None:
        """Make room for `count` events more, up to `longest` in all. Cost: amortised linear."""
        needed = min(int(self.state[LENGTH]) + count, longest)
        if needed <= self.capacity:
            return
        capacity = min(max(needed, 2 * self.capacity), longest)
        columns, larger = self.columns, EventLog(len(self.columns.values), capacity).columns
        for name, column in columns._asdict().items():
            getattr(larger, name)[..., : column.shape[-1]] = column
        self.columns = larger._replace(state=columns.state)

    def sort(self, until: int) -> None:
        """Sort the chunks that end at event `until` or before. Cost: n log n of those that are new."""
        columns = self.columns
        for begin in range(int(self.state[SORTED]), until - CHUNK + 1, CHUNK):
            chunk = slice(begin, begin + CHUNK)
            blocks = slice(begin // BLOCK, (begin + CHUNK) // BLOCK)
            places, columns.block_low[blocks], columns.block_high[blocks] = _blocks(columns.values[:, chunk])
            columns.values[:, chunk] = columns.values[:, chunk][:, places]
            columns.weights[chunk] = columns.weights[chunk][places]
            columns.steps[chunk] = begin + places
            columns.sums[chunk] = _sums(columns.weights[chunk])
            self.state[SORTED] = begin + CHUNK

    def sorted_batch(self) -> LogColumns:
        """The current batch's events in sorted blocks; none of a batch so small that it does not pay.

        The last block is filled with events that weigh nothing. Cost: n log n.
        """
        columns = self.columns
        batch = slice(int(self.state[BATCH]), int(self.state[LENGTH]))
        count = batch.stop - batch.start
        if count < FEWEST_SORTED:
            return EventLog(len(columns.values), 0).columns
        sorted_ = EventLog(len(columns.values), -(-count // BLOCK) * BLOCK).columns
        values = np.full_like(sorted_.values, np.inf)
        values[:, :count] = columns.values[:, batch]
        sorted_.weights[:count] = columns.weights[batch]
        places, sorted_.block_low[:], sorted_.block_high[:] = _blocks(values)
        sorted_.values[:] = values[:, places]
        sorted_.weights[:] = sorted_.weights[places]
        sorted_.sums[:] = _sums(sorted_.weights)
        return sorted_

    def clear(self) -> None:
        """Forget all events. The clock goes on. Cost: constant."""
        for entry in (LENGTH, BATCH, GRIDDED, SORTED):
            self.state[entry] = 0


def _blocks(values: Floats) -> tuple[np.ndarray, Floats, Floats]:
    """The order in which events fall into blocks by the first axis, and lie in each by the second.

    And the smallest and largest first coordinate of each block.
    """
    first, second = values[0], values[1]
    order = np.argsort(first).reshape(-1, BLOCK)
    places = np.take_along_axis(order, np.argsort(second[order], axis=1), axis=1).ravel()
    return places, first[order[:, 0]], first[order[:, -1]]


def _sums(weights: Longs) -> Longs:
    """The weight of the events before each in its block."""
    of_blocks = weights.reshape(-1, BLOCK)
    sums: Longs = (np.cumsum(of_blocks, axis=1) - of_blocks).ravel()
    return sums


def _longer(column: np.ndarray, n_rows: int, room: int) -> np.ndarray:
    """The first rows of a column, with room for more, which is not touched until it is needed."""
    longer = np.empty(room, column.dtype)
    longer[:n_rows] = column[:n_rows]
    return longer


class Report:
    """Rows of maturities, as kernels write them."""

    def __init__(self, capacity: int) -> None:
        self.rows = Maturities(
            step=np.zeros(capacity, np.int32),
            subscription=np.zeros(capacity, np.int32),
            reached=np.zeros(capacity, np.uint64),
            n_rows=np.zeros(1, np.int64),
        )

    def reserve(self, count: int) -> None:
        """Make room for `count` rows more."""
        rows = self.rows
        n_rows = int(rows.n_rows[0])
        if n_rows + count <= len(rows.step):
            return
        room = max(n_rows + count, 2 * len(rows.step))
        self.rows = Maturities(
            _longer(rows.step, n_rows, room),
            _longer(rows.subscription, n_rows, room),
            _longer(rows.reached, n_rows, room),
            rows.n_rows,
        )

    def fill(self, run: Callable[[int, Maturities], int], end: int) -> None:
        """Call a kernel that works up to `end` and stops where there is no room, until it is through."""
        done = run(0, self.rows)
        while done < end:
            self.reserve(2 * len(self.rows.step))
            done = run(done, self.rows)
