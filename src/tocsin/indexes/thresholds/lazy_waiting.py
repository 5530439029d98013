"""What came one by one and waits to be taken in together: events, and subscriptions between them."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Floats, Longs
from tocsin.indexes.thresholds.lazy_members import Members

#: How many of each may wait.
MOST_EVENTS = 1 << 12
MOST_MEMBERS = 1 << 8


class Waiting:
    """Plain lists: to add to them costs less than to call a kernel."""

    def __init__(self) -> None:
        #: coordinates as the bytes of doubles: nothing is quicker to take, or to join
        self._values: list[bytes] = []
        self._weights: list[int] = []
        self._slots: list[int] = []
        self._lows: list[list[float]] = []
        self._highs: list[list[float]] = []
        self._needs: list[int] = []
        #: events that waited already when the subscription came
        self._befores: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._weights or self._slots)

    @property
    def is_full_of_members(self) -> bool:
        return len(self._slots) >= MOST_MEMBERS

    def add_event(self, values: bytes, weight: int) -> bool:
        """Let an event wait, unless too many do. Cost: constant."""
        if len(self._weights) >= MOST_EVENTS:
            return False
        self._values.append(values)
        self._weights.append(weight)
        return True

    def add_member(self, slot: int, low: list[float], high: list[float], need: int) -> None:
        """Cost: constant."""
        self._slots.append(slot)
        self._lows.append(low)
        self._highs.append(high)
        self._needs.append(need)
        self._befores.append(len(self._weights))

    def arrays(self, dimensions: int, axes: int) -> tuple[Floats, Longs, Members]:
        """Everything that waits: values (events, dimensions), weights, and what members need after them.

        Cost: events x members.
        """
        values = np.frombuffer(b"".join(self._values)).reshape(len(self._values), dimensions)
        weights = np.array(self._weights, np.int64)
        count = len(self._slots)
        low, high = np.full((axes, count), -np.inf), np.full((axes, count), np.inf)
        low[:dimensions] = np.array(self._lows, np.float64).reshape(count, dimensions).T
        high[:dimensions] = np.array(self._highs, np.float64).reshape(count, dimensions).T
        is_held = np.arange(len(weights)) >= np.array(self._befores, np.int64)[:, np.newaxis]
        for axis in range(dimensions):
            of_axis = values[:, axis]
            is_held &= (low[axis, :, np.newaxis] <= of_axis) & (of_axis <= high[axis, :, np.newaxis])
        need = np.array(self._needs, np.int64) - np.where(is_held, weights, 0).sum(axis=1)
        return values, weights, Members(np.array(self._slots, np.int32), low, high, need)
