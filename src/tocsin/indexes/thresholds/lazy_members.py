"""Subscriptions on their way into, out of, or between the parts of the lazy threshold index."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.thresholds.lazy_columns import GROUP
from tocsin.indexes.thresholds.lazy_order_kernels import order_rows

#: Members that are looked at to tell whether one measure is enough.
SAMPLE = 1024
TINY = np.float32(1e-30)


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
        only = _only_measure(keys)
        if only is None:
            order_rows(keys, order)
        else:
            order = _order_of(keys[:, only])
        # Within a group, in the order of one bound: then what is looked up for one is near to the last's.
        whole = order[: count // GROUP * GROUP].reshape(-1, GROUP)
        # A bound beyond all singles is infinite among them.
        with np.errstate(over="ignore"):
            lows = self.low[0][whole].astype(np.float32)
        whole[:] = np.take_along_axis(whole, _order_of(lows), axis=1)
        return order


def _only_measure(keys: NDArray[np.float32]) -> int | None:
    """The column that tells everything, where ranges are about as long and needs about equal; else None.

    Of many members a sample is enough. Columns are low and high of each axis, and the need.
    """
    some = keys[:: max(len(keys) // SAMPLE, 1)]
    low, high, need = some[:, :-1:2], some[:, 1:-1:2], some[:, -1:]
    extent = np.maximum(high.max(axis=0) - low.min(axis=0), TINY)
    spreads = np.concatenate(
        [
            np.ptp(low, axis=0) / extent,
            np.ptp(need, axis=0) / np.maximum(need.max(axis=0), TINY),
            np.ptp(high - low, axis=0) / extent,
        ]
    )
    widest = int(spreads.argmax())
    does_matter = spreads > spreads[widest] * GROUP / len(keys)
    return 2 * widest if np.count_nonzero(does_matter) == 1 and 2 * widest < keys.shape[1] else None


def _order_of(keys: NDArray[np.float32]) -> Ints:
    """The order of the keys along the last axis. Cost: n log n.

    Whole numbers are sorted several times as fast as places, so each key becomes one that ends in its place.
    """
    bits = np.ascontiguousarray(keys).view(np.uint32)
    ascending = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31)).astype(np.uint64)
    places = np.arange(keys.shape[-1], dtype=np.uint64)
    packed = np.sort((ascending << np.uint64(32)) | places, axis=-1)
    order: Ints = packed.astype(np.uint32).view(np.int32)
    return order


def _finite_extent(low: Floats, high: Floats) -> tuple[float, float] | None:
    """Smallest and largest bound that is finite as a float32; None without any."""
    largest = float(np.finfo(np.float32).max) / 4
    finite = [bound[np.abs(bound) <= largest] for bound in (low, high)]
    finite = [bound for bound in finite if len(bound)]
    if not finite:
        return None
    return min(float(bound.min()) for bound in finite), max(float(bound.max()) for bound in finite)
