"""Subscriptions on their way into, out of, or between the parts of the lazy threshold index."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.thresholds.lazy_columns import GROUP
from tocsin.indexes.thresholds.lazy_order_kernels import order_rows


class Members(NamedTuple):
    """Parallel columns; boxes are not empty."""

    #: int32 (n,): the subscription's slot.
    slots: Ints
    #: float64 (axes, n): smallest value inside.
    low: Floats
    #: float64 (axes, n): largest value inside.
    high: Floats
    #: int64 (n,): scaled weight still missing, positive.
    need: Longs

    def take(self, chosen: np.ndarray) -> Members:
        """Those that are chosen, by position or by mask."""
        low, high = (np.stack([bound[chosen] for bound in bounds]) for bounds in (self.low, self.high))
        return Members(self.slots[chosen], low, high, self.need[chosen])

    def joined(self, other: Members) -> Members:
        """These and then the others."""
        return Members(
            np.concatenate([self.slots, other.slots]),
            np.concatenate([self.low, other.low], axis=1),
            np.concatenate([self.high, other.high], axis=1),
            np.concatenate([self.need, other.need]),
        )

    def order(self) -> Ints:
        """The order in which each GROUP of them in a row are alike. Cost: n log n."""
        count = len(self.slots)
        order = np.arange(count, dtype=np.int32)
        if count <= GROUP:
            return order
        axes = len(self.low)
        keys = np.empty((count, 2 * axes + 1), np.float32)
        for axis in range(axes):
            floor, ceiling = _finite_extent(self.low[axis], self.high[axis])
            keys[:, 2 * axis] = np.clip(self.low[axis], floor, ceiling)
            keys[:, 2 * axis + 1] = np.clip(self.high[axis], floor, ceiling)
        keys[:, -1] = self.need
        order_rows(keys, order)
        return order


def _finite_extent(low: Floats, high: Floats) -> tuple[float, float]:
    """Smallest and largest finite bound that a float32 can hold; 0 and 0 without any."""
    largest = float(np.finfo(np.float32).max) / 4
    bounds = [bound[np.abs(bound) <= largest] for bound in (low, high)]
    floors = [float(bound.min()) for bound in bounds if len(bound)]
    ceilings = [float(bound.max()) for bound in bounds if len(bound)]
    return min(floors, default=0.0), max(ceilings, default=0.0)
