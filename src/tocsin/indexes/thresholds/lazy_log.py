"""The log: events that some subscription has not been held against yet."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tocsin.indexes.contract import Arrays, Longs
from tocsin.indexes.shared.columns import grown
from tocsin.indexes.thresholds.lazy_columns import (
    ABSORBED,
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

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` events. Cost: linear in it."""
        if capacity <= self.capacity:
            return
        columns, larger = self.columns, EventLog(len(self.columns.values), capacity).columns
        for column, wider in zip(columns, larger, strict=True):
            wider[..., : column.shape[-1]] = column
        self.columns = larger._replace(state=columns.state)

    def sort(self, until: int) -> None:
        """Sort the chunks that end at event `until` or before. Cost: n log n of those that are new."""
        values, weights, steps, sums, block_low, block_high, state = self.columns
        for begin in range(int(state[SORTED]), until - CHUNK + 1, CHUNK):
            chunk = slice(begin, begin + CHUNK)
            order = np.argsort(values[0, chunk]).reshape(-1, BLOCK)
            blocks = slice(begin // BLOCK, (begin + CHUNK) // BLOCK)
            block_low[blocks] = values[0, chunk][order[:, 0]]
            block_high[blocks] = values[0, chunk][order[:, -1]]
            second = np.argsort(values[1, chunk][order], axis=1)
            order = np.take_along_axis(order, second, axis=1).ravel()
            values[:, chunk] = values[:, chunk][:, order]
            weights[chunk] = weights[chunk][order]
            steps[chunk] = begin + order
            of_blocks = weights[chunk].reshape(-1, BLOCK)
            sums[chunk] = (np.cumsum(of_blocks, axis=1) - of_blocks).ravel()
            state[SORTED] = begin + CHUNK

    def clear(self) -> None:
        """Forget all events. The clock goes on. Cost: constant."""
        for entry in (LENGTH, BATCH, ABSORBED, GRIDDED, SORTED):
            self.state[entry] = 0

    def arrays(self) -> Arrays:
        """The columns as they are, a bounded number of events. Cost: linear in the capacity."""
        return {f"log_{name}": column.copy() for name, column in self.columns._asdict().items()}

    def restore(self, arrays: Arrays) -> None:
        self.columns = LogColumns(*(np.array(arrays[f"log_{name}"], order="C") for name in LogColumns._fields))


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
        room = int(rows.n_rows[0]) + count
        self.rows = Maturities(
            grown(rows.step, room), grown(rows.subscription, room), grown(rows.reached, room), rows.n_rows
        )

    def fill(self, run: Callable[[int, Maturities], int], end: int) -> None:
        """Call a kernel that works up to `end` and stops where there is no room, until it is through."""
        done = run(0, self.rows)
        while done < end:
            self.reserve(2 * len(self.rows.step))
            done = run(done, self.rows)
