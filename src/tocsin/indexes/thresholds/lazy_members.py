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

    def take(self, chosen: np.ndarray | slice) -> Members:
        """Those at the chosen positions."""
        low, high = (np.stack([bound[chosen] for bound in bounds]) for bounds in (self.low, self.high))
        return Members(self.slots[chosen], low, high, self.need[chosen])

    def joined(self, other: Members) -> Members:
        """These and then the others."""
        if len(self.slots) == 0:
            return other
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
        sides: list[Floats] = []
        for low, high in zip(self.low, self.high, strict=True):
            extent = _finite_extent(low, high)
            if extent is not None:
                sides += [np.clip(low, *extent), np.clip(high, *extent)]
        keys = np.empty((count, len(sides) + 1), np.float32)
        for column, side in enumerate(sides):
            keys[:, column] = side
        keys[:, -1] = self.need
        order_rows(keys, order)
        # Within a group, in the order of one bound: then what is looked up for one is near to the last's.
        whole = order[: count // GROUP * GROUP].reshape(-1, GROUP)
        whole[:] = np.take_along_axis(whole, np.argsort(self.low[0][whole], axis=1), axis=1)
        return order


def _finite_extent(low: Floats, high: Floats) -> tuple[float, float] | None:
    """Smallest and largest bound that is finite as a float32; None without any."""
    largest = float(np.finfo(np.float32).max) / 4
    finite = [bound[np.abs(bound) <= largest] for bound in (low, high)]
    finite = [bound for bound in finite if len(bound)]
    if not finite:
        return None
    return min(float(bound.min()) for bound in finite), max(float(bound.max()) for bound in finite)
