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
        extents = [_finite_extent(low, high) for low, high in zip(self.low, self.high, strict=True)]
        axes = [axis for axis, extent in enumerate(extents) if extent is not None]
        keys = np.empty((count, 2 * len(axes) + 1), np.float32)
        for column, axis in enumerate(axes):
            np.clip(self.low[axis], *extents[axis], out=keys[:, 2 * column], casting="unsafe")
            np.clip(self.high[axis], *extents[axis], out=keys[:, 2 * column + 1], casting="unsafe")
        keys[:, -1] = self.need
        order_rows(keys, order)
        return order


def _finite_extent(low: Floats, high: Floats) -> tuple[float, float] | None:
    """Smallest and largest bound that is finite as a float32; None without any."""
    largest = float(np.finfo(np.float32).max) / 4
    finite = [bound[np.abs(bound) <= largest] for bound in (low, high)]
    finite = [bound for bound in finite if len(bound)]
    if not finite:
        return None
    return min(float(bound.min()) for bound in finite), max(float(bound.max()) for bound in finite)
