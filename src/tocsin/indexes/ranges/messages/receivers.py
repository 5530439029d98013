"""Known subscriptions, as points: which of them a message reaches, and messages fitted to them."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.columns import ensure_capacity
from tocsin.arrays.types import Ints, Longs
from tocsin.indexes.ranges.messages.messages import CURSOR_SIZE, N_PAYLOADS, N_RECTANGLES, Messages
from tocsin.indexes.ranges.messages.receivers_kernels import count_receivers, fit_rectangles, list_receivers
from tocsin.indexes.ranges.structures.points import Points


def receiver_counts(points: Points, messages: Messages) -> Longs:
    """How many subscriptions each message reaches. Cost: the buckets that its rectangle meets."""
    counts = np.empty(len(messages.payload), np.int64)
    count_receivers(points.grid, messages, counts)
    return counts


class Receivers:
    """Looks up the receivers of each message. Reuses a buffer between calls."""

    def __init__(self, points: Points) -> None:
        self._points = points
        self._slots: Ints = np.empty(2 * len(points) + 1, np.int32)

    def list(self, messages: Messages) -> tuple[Ints, Longs]:
        """Slots of all receivers, message by message, and where each message's end: views. Linear."""
        ends = np.empty(len(messages.payload), np.int64)
        done = 0
        while (done := list_receivers(self._points.grid, messages, done, self._slots, ends)) < len(ends):
            self._slots = ensure_capacity(self._slots, len(self._slots) + 1)
        return self._slots[: ends[-1] if len(ends) else 0], ends


def fit_messages(points: Points, messages: Messages) -> Messages:
    """The same payloads to the same subscriptions in fewer messages, each of which reaches at least one.

    Paint-Sparse's snap and greedy merge, for rectangles of any origin. Cost: two or three queries to the grid
    per rectangle.
    """
    points.rebuild_if_needed()
    out = Messages.empty(len(messages.payload))
    cursor = np.zeros(CURSOR_SIZE, np.int64)
    # nextafter overflows to infinity and underflows to subnormals.
    with np.errstate(over="ignore", under="ignore"):
        fit_rectangles(points.grid, messages, out, cursor)
    return out.first(int(cursor[N_RECTANGLES]), int(cursor[N_PAYLOADS]))
