"""What came one by one, or few at a time, and waits to be taken in together: events and subscriptions."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Floats, Longs
from tocsin.indexes.thresholds.lazy_members import Members

#: How many of each may wait, and how many events may come together and wait.
MOST_EVENTS = 1 << 12
MOST_TOGETHER = 1 << 8
MOST_MEMBERS = 1 << 8


class Waiting:
    """Plain lists: to add to them costs less than to call a kernel."""

    def __init__(self) -> None:
        #: coordinates and weights as bytes: nothing is quicker to take, or to join
        self._values: list[bytes] = []
        self._weights: list[bytes] = []
        self._n_events = 0
        self._slots: list[int] = []
        self._lows: list[list[float]] = []
        self._highs: list[list[float]] = []
        self._needs: list[int] = []
        #: events that waited already when the subscription came
        self._befores: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._n_events or self._slots)

    @property
    def is_full_of_members(self) -> bool:
        return len(self._slots) >= MOST_MEMBERS

    def add_events(self, values: Floats, weights: Longs) -> bool:
        """Let events wait, unless too many do. Cost: constant, or linear with a very small factor."""
        if self._n_events >= MOST_EVENTS:
            return False
        if len(weights) == 0:
            # Nothing to keep: any number of empty batches may come.
            return True
        self._values.append(values.tobytes())
        self._weights.append(weights.tobytes())
        self._n_events += len(weights)
        return True

    def add_member(self, slot: int, low: list[float], high: list[float], need: int) -> None:
        """Cost: constant."""
        self._slots.append(slot)
        self._lows.append(low)
        self._highs.append(high)
        self._needs.append(need)
        self._befores.append(self._n_events)

    def arrays(self, dimensions: int, axes: int) -> tuple[Floats, Longs, Members]:
        """Everything that waits: values (events, dimensions), weights, and what members need after them.

        Cost: events x members.
        """
        values = np.frombuffer(b"".join(self._values)).reshape(self._n_events, dimensions)
        weights = np.frombuffer(b"".join(self._weights), np.int64)
        count = len(self._slots)
        low, high = np.full((axes, count), -np.inf), np.full((axes, count), np.inf)
        if count == 0:
            return values, weights, Members(np.empty(0, np.int32), low, high, np.empty(0, np.int64))
        low[:dimensions] = np.array(self._lows, np.float64).reshape(count, dimensions).T
        high[:dimensions] = np.array(self._highs, np.float64).reshape(count, dimensions).T
        is_held = np.arange(len(weights)) >= np.array(self._befores, np.int64)[:, np.newaxis]
        for axis in range(dimensions):
            of_axis = values[:, axis]
            is_held &= (low[axis, :, np.newaxis] <= of_axis) & (of_axis <= high[axis, :, np.newaxis])
        need = np.array(self._needs, np.int64) - np.where(is_held, weights, 0).sum(axis=1)
        return values, weights, Members(np.array(self._slots, np.int32), low, high, need)
