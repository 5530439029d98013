"""Storage of a filter index: subscriptions in tiles of neighbours, and the bounds of the tile tree."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tocsin.arrays.columns import ensure_capacity
from tocsin.arrays.layout import check_layout, empty, grow
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.filters.layout import FilterSubscriptions, TileTree

#: Places per tile, and children per node.
WIDTH = 64
#: Subscriptions that may be appended before they are sorted.
MAX_UNSORTED = 128
#: A run is merged with all that follows it, unless it is more than this many times as long.
MERGE_RATIO = 8


class SubscriptionTiles:
    """Subscriptions in sorted runs, each much longer than the next, then an unsorted tail."""

    def __init__(
        self, dimensions: int, n_theta: int, width: int = WIDTH, max_unsorted: int = MAX_UNSORTED
    ) -> None:
        self._width = width
        self._max_unsorted = max_unsorted
        self.subscriptions = empty(FilterSubscriptions, dimensions=dimensions, thetas=n_theta, places=0)
        #: bounds, which cover every subscription after `refresh`; they may be wider than necessary
        self.nodes = empty_tree(dimensions, n_theta, width)
        #: int32 (slots,): place of a subscription, -1 where there is none
        self.place: Ints = np.full(16, -1, np.int32)
        self._n_used = 0
        #: where runs begin, and where the last one ends
        self._runs: list[int] = []
        self._n_sorted = 0
        self._n_live = 0
        self._first_stale = 0

    def __len__(self) -> int:
        return self._n_live

    def add(self, slots: Ints, columns: Sequence[np.ndarray]) -> None:
        """Append subscriptions: `columns` as in `FilterSubscriptions`. Cost: linear, amortised."""
        first, end = self._n_used, self._n_used + len(slots)
        capacity = -(-end // self._width) * self._width
        if capacity > len(self.subscriptions.slot):
            self.subscriptions = grow(self.subscriptions, places=capacity)
        for column, values in zip(self.subscriptions[:-1], columns, strict=True):
            column[..., first:end] = values
        self.subscriptions.slot[first:end] = slots
        self.place = ensure_capacity(self.place, int(slots.max(initial=-1)) + 1, -1)
        self.place[slots] = np.arange(first, end)
        self._n_used = end
        self._n_live += len(slots)
        self._first_stale = min(self._first_stale, first // self._width)

    def remove(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: linear in their number."""
        self.subscriptions.slot[self.place[slots]] = -1
        self.place[slots] = -1
        self._n_live -= len(slots)
        if self._n_live == 0:
            self._n_used = self._n_sorted = self._first_stale = 0
            self._runs.clear()

    def refresh(self) -> None:
        """Sort the tail if it is long, and refresh the bounds.

        Cost: n log n of what is sorted; everything only if half of it was removed, or rarely otherwise.
        """
        if self._n_used > max(self._max_unsorted, 2 * self._n_live):
            self._sort_from(0)
        elif self._n_used - self._n_sorted > self._max_unsorted:
            # Runs begin at tiles: the last tile of a run may be shared with the next one.
            begin = self._n_sorted // self._width * self._width
            while self._runs and begin - self._runs[-1] <= MERGE_RATIO * (self._n_used - begin):
                begin = self._runs.pop()
            self._sort_from(begin)
        n_tiles = -(-self._n_used // self._width)
        if self._first_stale < n_tiles:
            self.nodes = refresh_bounds(self.nodes, self.subscriptions, n_tiles, self._first_stale)
            self._first_stale = n_tiles

    def _sort_from(self, begin: int) -> None:
        """Sort everything from `begin` on into one run."""
        places = begin + np.flatnonzero(self.subscriptions.slot[begin : self._n_used] >= 0)
        order = places[tile_order(sort_keys(self.subscriptions, places), self._width)]
        columns = [column[..., order] for column in self.subscriptions]
        self.subscriptions.slot[begin:] = -1
        self._n_used = begin
        self._n_live -= len(order)
        self.add(columns[-1].astype(np.int32), columns[:-1])
        self._runs = [*(run for run in self._runs if run < begin), begin]
        self._n_sorted = self._n_used

    def check_invariants(self) -> None:
        """Assert that places agree, and that no refreshed node is too narrow."""
        check_layout(self.subscriptions)
        assert self._runs == sorted(set(self._runs))
        assert all(run % self._width == 0 and run <= self._n_sorted for run in self._runs)
        assert self._n_sorted <= self._n_used
        slot = self.subscriptions.slot
        live = np.flatnonzero(slot >= 0)
        assert len(live) == self._n_live
        assert not len(live) or live[-1] < self._n_used <= len(slot)
        assert self.place[slot[live]].tolist() == live.tolist()
        assert (self.place >= 0).sum() == len(live)
        lo, hi, theta, score_lo, score_hi, _ = self.subscriptions
        pairs = ((lo, hi), (theta, theta), (score_lo, score_hi))
        nodes = list(zip(self.nodes[1:-1:2], self.nodes[2:-1:2], strict=True))
        live = live[live < self._first_stale * self._width]
        for level, start in enumerate(self.nodes.first[:-1].tolist()):
            node = start + live // self._width ** (level + 1)
            for (least, most), (low, high) in zip(nodes, pairs, strict=True):
                assert not (least[..., node] > low[..., live]).any()
                assert not (most[..., node] < high[..., live]).any()


def tile_order(keys: Floats, width: int) -> Longs:
    """An order of points, `keys` (coordinates, points), in which each run of `width` holds neighbours.

    kd-order: halves by the coordinate in which the ranks spread most. Cost: n log n.
    """
    ranks = np.empty(keys.shape)
    for key, rank in zip(keys, ranks, strict=True):
        distinct, place = np.unique(key, return_inverse=True)
        rank[:] = place / max(1, len(distinct) - 1)
    order = np.arange(keys.shape[1])
    node_stack = [(0, len(order))] if len(keys) else []
    while node_stack:
        first, end = node_stack.pop()
        # Whole tiles on the left.
        half = -(-(end - first) // (2 * width)) * width
        if half >= end - first:
            continue
        part = order[first:end]
        ranked = ranks[:, part]
        widest = int(np.argmax(np.ptp(ranked, axis=1)))
        order[first:end] = part[np.argpartition(ranked[widest], half)]
        node_stack += [(first, first + half), (first + half, end)]
    return order


def sort_keys(subscriptions: FilterSubscriptions, places: Ints | Longs) -> Floats:
    """Subscriptions as points, in the coordinates in which they differ."""
    lo, hi, theta, score_lo, score_hi, _ = subscriptions
    keys = np.concatenate(
        [lo[:, places], hi[:, places], theta[:, places], score_lo[None, places], score_hi[None, places]]
    )
    differs = (keys != keys[:, :1]).any(axis=1) if len(places) else np.zeros(len(keys), np.bool_)
    near: Floats = keys[differs]
    return near


def empty_tree(dimensions: int, n_theta: int, width: int) -> TileTree:
    """The tree of no subscriptions."""
    bounds = [np.empty((rows, 0)) for rows in (dimensions, dimensions, n_theta, n_theta)]
    return TileTree._make([np.zeros(2, np.int64), *bounds, np.empty(0), np.empty(0), width])


def refresh_bounds(nodes: TileTree, subscriptions: FilterSubscriptions, n_tiles: int, first: int) -> TileTree:
    """The tree over `n_tiles` tiles, of which those before `first` have not changed.

    Cost: linear in the places from there on, and a copy of the tree if it grows.
    """
    width = nodes.width
    starts = [0, n_tiles]
    while starts[-1] - starts[-2] > width:
        starts.append(starts[-1] - -(starts[-1] - starts[-2]) // width)
    if starts != nodes.first.tolist():
        made = [np.empty((*column.shape[:-1], starts[-1])) for column in nodes[1:-1]]
        for new, old in zip(made, nodes[1:-1], strict=True):
            new[..., :first] = old[..., :first]
        nodes = TileTree._make([np.array(starts, np.int64), *made, width])
        _compute_bounds(nodes, subscriptions, first, [0] * len(starts))
    else:
        _compute_bounds(nodes, subscriptions, first, [first // width**level for level in range(len(starts))])
    return nodes


def _compute_bounds(
    nodes: TileTree, subscriptions: FilterSubscriptions, first: int, begins: list[int]
) -> None:
    """Compute the bounds of the tiles from `first` on and, on each level above, from `begins[level]` on."""
    width, starts = nodes.width, nodes.first.tolist()
    places = slice(first * width, starts[1] * width)
    is_there = subscriptions.slot[places] >= 0
    lo, hi, theta, score_lo, score_hi = (column[..., places] for column in subscriptions[:-1])
    children = [
        np.where(is_there, column, fill)
        for column, fill in zip(
            (lo, hi, theta, theta, score_lo, score_hi), (np.inf, -np.inf) * 3, strict=True
        )
    ]
    for level, (start, end) in enumerate(pairwise(starts)):
        begin = start + (first if level == 0 else begins[level])
        for number, column in enumerate(nodes[1:-1]):
            least = number % 2 == 0
            values = children[number]
            n_missing = (end - begin) * width - values.shape[-1]
            fill = np.full((*values.shape[:-1], n_missing), np.inf if least else -np.inf)
            padded = np.concatenate([values, fill], axis=-1)
            padded = padded.reshape(*values.shape[:-1], end - begin, width)
            # NaN bounds hold nothing.
            column[..., begin:end] = (np.fmin if least else np.fmax).reduce(padded, axis=-1)
        if level + 2 < len(starts):
            from_here = start + begins[level + 1] * width
            children = [column[..., from_here:end] for column in nodes[1:-1]]
