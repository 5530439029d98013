"""The log: events that some subscription has not been held against yet."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tocsin.indexes.contract import Arrays, Longs
from tocsin.indexes.shared.columns import grown
from tocsin.indexes.thresholds.lazy_columns import (
    ABSORBED,
    BATCH,
    GRIDDED,
    LENGTH,
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
        length, columns = int(self.state[LENGTH]), self.columns
        if capacity <= self.capacity:
            return
        values = np.zeros((columns.values.shape[0], capacity))
        values[:, :length] = columns.values[:, :length]
        self.columns = LogColumns(
            values, grown(columns.weights, capacity)[:capacity], grown(columns.steps, capacity)[:capacity], self.state
        )

    def clear(self) -> None:
        """Forget all events. The clock goes on. Cost: constant."""
        for entry in (LENGTH, BATCH, ABSORBED, GRIDDED):
            self.state[entry] = 0

    def arrays(self) -> Arrays:
        length = int(self.state[LENGTH])
        columns = self.columns
        return {
            "log_values": columns.values[:, :length].copy(),
            "log_weights": columns.weights[:length].copy(),
            "log_state": columns.state.copy(),
        }

    def restore(self, arrays: Arrays) -> None:
        values, weights = arrays["log_values"], arrays["log_weights"]
        self.columns.state[:] = arrays["log_state"]
        self.grow(len(weights))
        self.columns.values[:, : len(weights)] = values
        self.columns.weights[: len(weights)] = weights


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
