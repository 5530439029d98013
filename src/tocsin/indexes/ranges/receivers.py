"""Who each message reaches, of subscriptions that are known as points."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Ints, Longs
from tocsin.indexes.ranges.messages import Messages
from tocsin.indexes.ranges.points import Points
from tocsin.indexes.ranges.receivers_kernels import count_receivers, list_receivers
from tocsin.indexes.shared.columns import grown


def receiver_counts(points: Points, messages: Messages) -> Longs:
    """How many subscriptions each message reaches. Cost: the buckets that its rectangle meets."""
    counts = np.empty(len(messages.note), np.int64)
    count_receivers(points.grid, messages, counts)
    return counts


class Receivers:
    """Unicast through tiles: looks up who each message reaches. Keeps a buffer between calls."""

    def __init__(self, points: Points) -> None:
        self._points = points
        self._slots: Ints = np.empty(2 * len(points) + 1, np.int32)

    def list(self, messages: Messages) -> tuple[Ints, Longs]:
        """Slots of all receivers, message by message, and where each message's end: views. Cost: linear."""
        ends = np.empty(len(messages.note), np.int64)
        done = 0
        while (done := list_receivers(self._points.grid, messages, done, self._slots, ends)) < len(ends):
            self._slots = grown(self._slots, len(self._slots) + 1)
        return self._slots[: ends[-1] if len(ends) else 0], ends
