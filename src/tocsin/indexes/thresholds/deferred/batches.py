"""The ingest buffer, the event log, and batches of members."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.arrays.layout import empty
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.thresholds.deferred.layout import (
    BATCH,
    BLOCK,
    CHUNK,
    GRIDDED,
    GROUP,
    LENGTH,
    SORTED,
    LogColumns,
)
from tocsin.indexes.thresholds.deferred.sweep_kernels import order_rows
from tocsin.kernels.sort import ascending_bits, order_of

#: Capacity of the ingest buffer, and the largest batch that it takes.
MAX_BUFFERED_EVENTS = 1 << 12
MAX_BUFFERED_BATCH = 1 << 8
MAX_BUFFERED_MEMBERS = 1 << 8


class IngestBuffer:
    """Events and subscriptions that arrived in small numbers: appending to lists is cheaper than a kernel."""

    def __init__(self) -> None:
        #: coordinates and weights as bytes, which are the cheapest to copy and to join
        self._values: list[bytes] = []
        self._weights: list[bytes] = []
        self._n_events = 0
        self._slots: list[int] = []
        self._lows: list[list[float]] = []
        self._highs: list[list[float]] = []
        self._needs: list[int] = []
        #: events that were buffered before the subscription
        self._befores: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._n_events or self._slots)

    @property
    def is_full(self) -> bool:
        return len(self._slots) >= MAX_BUFFERED_MEMBERS

    def add_events(self, values: Floats, weights: Longs) -> bool:
        """Buffer events; False if the buffer is full. Cost: linear with a very small factor."""
        if self._n_events >= MAX_BUFFERED_EVENTS:
            return False
        if len(weights) == 0:
            # Nothing is stored, so that any number of empty batches may arrive.
            return True
        self._values.append(values.tobytes())
        self._weights.append(weights.tobytes())
        self._n_events += len(weights)
        return True

    def add_member(self, slot: int, low: list[float], high: list[float], need: int) -> None:
        """Buffer a subscription. Cost: constant."""
        self._slots.append(slot)
        self._lows.append(low)
        self._highs.append(high)
        self._needs.append(need)
        self._befores.append(self._n_events)

    def arrays(self, dimensions: int, axes: int) -> tuple[Floats, Longs, ThresholdBatch]:
        """The contents: values (events, dimensions), weights, and members with what they need after these.

        Cost: events x members.
        """
        values = np.frombuffer(b"".join(self._values)).reshape(self._n_events, dimensions)
        weights = np.frombuffer(b"".join(self._weights), np.int64)
        count = len(self._slots)
        low, high = np.full((axes, count), -np.inf), np.full((axes, count), np.inf)
        if count == 0:
            return values, weights, ThresholdBatch(np.empty(0, np.int32), low, high, np.empty(0, np.int64))
        low[:dimensions] = np.array(self._lows, np.float64).reshape(count, dimensions).T
        high[:dimensions] = np.array(self._highs, np.float64).reshape(count, dimensions).T
        is_inside = np.arange(len(weights)) >= np.array(self._befores, np.int64)[:, np.newaxis]
        for axis in range(dimensions):
            of_axis = values[:, axis]
            is_inside &= (low[axis, :, np.newaxis] <= of_axis) & (of_axis <= high[axis, :, np.newaxis])
        need = np.array(self._needs, np.int64) - np.where(is_inside, weights, 0).sum(axis=1)
        return values, weights, ThresholdBatch(np.array(self._slots, np.int32), low, high, need)


#: Events of a batch from which sorting them pays.
MIN_SORTED_BATCH = 1 << 9


class EventLog:
    """Owns the columns of the log, which `LogColumns` describes."""

    def __init__(self, axes: int, capacity: int) -> None:
        self.columns = empty(LogColumns, axes=axes, events=capacity, blocks=capacity // BLOCK)

    @property
    def state(self) -> Longs:
        return self.columns.state

    @property
    def capacity(self) -> int:
        return len(self.columns.weights)

    def ensure_capacity(self, count: int, longest: int) -> None:
        """Grow for `count` more events, up to `longest` in all. Cost: amortised linear."""
        needed = min(int(self.state[LENGTH]) + count, longest)
        if needed <= self.capacity:
            return
        capacity = min(max(needed, 2 * self.capacity), longest)
        columns, larger = self.columns, EventLog(len(self.columns.values), capacity).columns
        for name, column in columns._asdict().items():
            getattr(larger, name)[..., : column.shape[-1]] = column
        self.columns = larger._replace(state=columns.state)

    def sort(self, until: int) -> None:
        """Sort the chunks that end at event `until` or before. Cost: n log n of those that are new."""
        columns = self.columns
        for begin in range(int(self.state[SORTED]), until - CHUNK + 1, CHUNK):
            chunk = slice(begin, begin + CHUNK)
            blocks = slice(begin // BLOCK, (begin + CHUNK) // BLOCK)
            places, columns.block_low[blocks], columns.block_high[blocks] = _sorted_blocks(
                columns.values[:, chunk]
            )
            columns.values[:, chunk] = columns.values[:, chunk][:, places]
            columns.weights[chunk] = columns.weights[chunk][places]
            columns.steps[chunk] = begin + places
            columns.sums[chunk] = _prefix_sums(columns.weights[chunk])
            self.state[SORTED] = begin + CHUNK

    def sorted_batch(self) -> LogColumns | None:
        """The current batch's events in sorted blocks; None for a batch too small for that to pay.

        The last block is padded with events of weight 0. Cost: n log n.
        """
        columns = self.columns
        batch = slice(int(self.state[BATCH]), int(self.state[LENGTH]))
        count = batch.stop - batch.start
        if count < MIN_SORTED_BATCH:
            return None
        sorted_ = EventLog(len(columns.values), -(-count // BLOCK) * BLOCK).columns
        values = np.full_like(sorted_.values, np.inf)
        values[:, :count] = columns.values[:, batch]
        sorted_.weights[:count] = columns.weights[batch]
        places, sorted_.block_low[:], sorted_.block_high[:] = _sorted_blocks(values)
        sorted_.values[:] = values[:, places]
        sorted_.weights[:] = sorted_.weights[places]
        sorted_.sums[:] = _prefix_sums(sorted_.weights)
        return sorted_

    def clear(self) -> None:
        """Remove all events. The clock continues. Cost: constant."""
        for entry in (LENGTH, BATCH, GRIDDED, SORTED):
            self.state[entry] = 0


def _sorted_blocks(values: Floats) -> tuple[np.ndarray, Floats, Floats]:
    """The order of events in blocks along the first axis, each sorted by the second.

    Also the smallest and largest first coordinate of each block.
    """
    first, second = values[0], values[1]
    order = np.argsort(first).reshape(-1, BLOCK)
    places = np.take_along_axis(order, np.argsort(second[order], axis=1), axis=1).ravel()
    return places, first[order[:, 0]], first[order[:, -1]]


def _prefix_sums(weights: Longs) -> Longs:
    """The weight of the preceding events in the block."""
    of_blocks = weights.reshape(-1, BLOCK)
    sums: Longs = (np.cumsum(of_blocks, axis=1) - of_blocks).ravel()
    return sums


#: Members sampled to find out whether one measure dominates.
SAMPLE = 1024
TINY = np.float32(1e-30)


class ThresholdBatch(NamedTuple):
    """Members that enter, leave or move between the structures, column-wise. No box is empty."""

    #: int32 (n,): the subscription's slot.
    slots: Ints
    #: float64 (axes, n): smallest value inside.
    low: Floats
    #: float64 (axes, n): largest value inside.
    high: Floats
    #: int64 (n,): scaled weight still missing, positive.
    need: Longs

    def take(self, chosen: np.ndarray | slice, axes: int | None = None) -> ThresholdBatch:
        """The chosen members, with all axes or the first ones."""
        low, high = (np.stack([bound[chosen] for bound in bounds[:axes]]) for bounds in (self.low, self.high))
        return ThresholdBatch(self.slots[chosen], low, high, self.need[chosen])

    def joined(self, other: ThresholdBatch) -> ThresholdBatch:
        """These members, followed by the others."""
        if len(self.slots) == 0:
            return other
        return ThresholdBatch(
            np.concatenate([self.slots, other.slots]),
            np.concatenate([self.low, other.low], axis=1),
            np.concatenate([self.high, other.high], axis=1),
            np.concatenate([self.need, other.need]),
        )

    def order(self) -> Ints:
        """An order in which each run of GROUP members are alike. Cost: n log n."""
        count = len(self.slots)
        order = np.arange(count, dtype=np.int32)
        if count <= GROUP:
            return order
        # A sample shows whether one measure dominates.
        axes, sample = self._measures(slice(None, None, max(count // SAMPLE, 1)))
        only = _dominant_measure(sample, count)
        if only is None:
            order_rows(self._measures(slice(None))[1], order)
        else:
            order = _order_of(self.low[axes[only]] if only < len(axes) else self.need)
            if axes[only : only + 1] == [0]:
                return order
        # Within a group, by one bound: then lookups of neighbours are close together in memory.
        whole = order[: count // GROUP * GROUP].reshape(-1, GROUP)
        # Integers sort several times as fast as an argsort: each becomes a bound with its place.
        bounds = ascending_bits(_as_float32(self.low[0][whole])).astype(np.uint64) << np.uint64(32)
        places = np.sort(bounds | np.arange(GROUP, dtype=np.uint64), axis=1).astype(np.uint32)
        whole[:] = np.take_along_axis(whole, places, axis=1)
        return order

    def _measures(self, chosen: slice) -> tuple[list[int], NDArray[np.float32]]:
        """The axes with any finite bound; for the chosen members, the bounds on these axes, and the need."""
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


def _dominant_measure(sample: NDArray[np.float32], count: int) -> int | None:
    """The one axis on which `count` members differ, where ranges are about as long and needs about equal;
    the number of axes if they differ in need only; else None. `sample` holds measures of a sample.
    """
    low, high, need = sample[:, :-1:2], sample[:, 1:-1:2], sample[:, -1:]
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
    return widest if np.count_nonzero(does_matter) == 1 and 2 * widest < sample.shape[1] else None


def _order_of(values: np.ndarray) -> Ints:
    """The order of the values as float32. Cost: linear."""
    return order_of(ascending_bits(_as_float32(values)).astype(np.uint64), 32)


def _as_float32(values: np.ndarray) -> NDArray[np.float32]:
    """The values as float32, infinite where they are too large."""
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
