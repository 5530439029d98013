"""Subscriptions on their way into, out of, or between the parts of the lazy threshold index."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.shared.orders import ascending_bits, order_of
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

    def take(self, chosen: np.ndarray | slice, axes: int | None = None) -> Members:
        """Those at the chosen positions; all of their axes, or the first ones."""
        low, high = (np.stack([bound[chosen] for bound in bounds[:axes]]) for bounds in (self.low, self.high))
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
        # Of many members a sample is enough to tell whether one measure is.
        axes, some = self._measures(slice(None, None, max(count // SAMPLE, 1)))
        only = _only_measure(some, count)
        if only is None:
            order_rows(self._measures(slice(None))[1], order)
        else:
            order = _order_of(self.low[axes[only]] if only < len(axes) else self.need)
            if axes[only : only + 1] == [0]:
                return order
        # Within a group, in the order of one bound: then what is looked up for one is near to the last's.
        whole = order[: count // GROUP * GROUP].reshape(-1, GROUP)
        # Whole numbers are sorted several times as fast as places: each bound becomes one with its place.
        bounds = ascending_bits(_single(self.low[0][whole])).astype(np.uint64) << np.uint64(32)
        places = np.sort(bounds | np.arange(GROUP, dtype=np.uint64), axis=1).astype(np.uint32)
        whole[:] = np.take_along_axis(whole, places, axis=1)
        return order

    def _measures(self, chosen: slice) -> tuple[list[int], NDArray[np.float32]]:
        """The axes that have an end somewhere; of the chosen members, the bounds on these, and the need."""
        axes, sides = [], []
        for axis, (low, high) in enumerate(zip(self.low[:, chosen], self.high[:, chosen], strict=True)):
            extent = _finite_extent(low, high)
            if extent is not None:
                axes.append(axis)
                sides += [np.clip(low, *extent), np.clip(high, *extent)]
        need = self.need[chosen]
        measures = np.empty((len(need), len(sides) + 1), np.float32)
        for column, side in enumerate((*sides, need)):
            measures[:, column] = side
        return axes, measures


def _only_measure(some: NDArray[np.float32], count: int) -> int | None:
    """The axis that tells everything of so many members, where ranges are about as long and needs about
    equal; or, as the number of axes, the need; else None. `some` are measures of a sample.
    """
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
    does_matter = spreads > spreads[widest] * GROUP / count
    return widest if np.count_nonzero(does_matter) == 1 and 2 * widest < some.shape[1] else None


def _order_of(values: np.ndarray) -> Ints:
    """The order of these, as singles. Cost: linear."""
    return order_of(ascending_bits(_single(values)).astype(np.uint64), 32)


def _single(values: np.ndarray) -> NDArray[np.float32]:
    """These as singles, infinite where they are too large."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _finite_extent(low: Floats, high: Floats) -> tuple[float, float] | None:
    """Smallest and largest bound that is finite as a float32; None without any."""
    largest = float(np.finfo(np.float32).max) / 4
    finite = [bound[np.abs(bound) <= largest] for bound in (low, high)]
    finite = [bound for bound in finite if len(bound)]
    if not finite:
        return None
    return min(float(bound.min()) for bound in finite), max(float(bound.max()) for bound in finite)
