"""Where the subscriptions of live rows lie: near ones in one tile, and what tiles and their parents know."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.shared.columns import grown
from tocsin.indexes.shared.members_kernels import Nodes, Subscriptions
from tocsin.indexes.shared.scans import widened

#: Places of a tile, and nodes of a node.
WIDTH = 64
#: Subscriptions that came and are in no order yet, at most.
TAIL = 128
#: A run is ordered anew together with what comes after it, unless it is more than so many times as long.
RUN_TIMES = 8


class Tiles:
    """Subscriptions come to the end in runs, each ordered in itself, and each much longer than the next."""

    def __init__(self, dimensions: int, n_theta: int, width: int = WIDTH, tail: int = TAIL) -> None:
        self._width = width
        self._tail = tail
        self.subscriptions = Subscriptions(
            np.empty((dimensions, 0)),
            np.empty((dimensions, 0)),
            np.empty((n_theta, 0)),
            np.empty(0),
            np.empty(0),
            np.empty(0, np.int32),
        )
        #: what tiles and nodes know: of all that is there after `settle`, of more perhaps, but not less
        self.nodes = empty_nodes(dimensions, n_theta, width)
        #: int32 (slots,): -1 where there is none
        self.place: Ints = np.full(16, -1, np.int32)
        self._n_used = 0
        #: where runs begin, and where the last of them ends
        self._runs: list[int] = []
        self._n_ordered = 0
        self._n_live = 0
        self._first_loose = 0

    def __len__(self) -> int:
        return self._n_live

    def add(self, slots: Ints, columns: Sequence[np.ndarray]) -> None:
        """Put subscriptions at the end: the columns of `Subscriptions` for each. Cost: linear, amortised."""
        first, end = self._n_used, self._n_used + len(slots)
        room = -(-end // self._width) * self._width
        held = self.subscriptions
        self.subscriptions = Subscriptions(
            widened(held.lo, room),
            widened(held.hi, room),
            widened(held.theta, room),
            grown(held.score_lo, room),
            grown(held.score_hi, room),
            grown(held.slot, room, -1),
        )
        for column, values in zip(self.subscriptions[:-1], columns, strict=True):
            column[..., first:end] = values
        self.subscriptions.slot[first:end] = slots
        self.place = grown(self.place, int(slots.max(initial=-1)) + 1, -1)
        self.place[slots] = np.arange(first, end)
        self._n_used = end
        self._n_live += len(slots)
        self._first_loose = min(self._first_loose, first // self._width)

    def remove(self, slots: Ints) -> None:
        """Take subscriptions out. Cost: linear in their number."""
        self.subscriptions.slot[self.place[slots]] = -1
        self.place[slots] = -1
        self._n_live -= len(slots)
        if self._n_live == 0:
            self._n_used = self._n_ordered = self._first_loose = 0
            self._runs.clear()

    def settle(self) -> None:
        """Order what came, if it is much, and bound it.

        Cost: n log n of what is ordered; of all if half are gone, seldom otherwise.
        """
        if self._n_used > max(self._tail, 2 * self._n_live):
            self._order(0)
        elif self._n_used - self._n_ordered > self._tail:
            # From a tile's beginning on: the last one of a run may be in part the next one's.
            begin = self._n_ordered // self._width * self._width
            while self._runs and begin - self._runs[-1] <= RUN_TIMES * (self._n_used - begin):
                begin = self._runs.pop()
            self._order(begin)
        n_tiles = -(-self._n_used // self._width)
        if self._first_loose < n_tiles:
            self.nodes = bounded(self.nodes, self.subscriptions, n_tiles, self._first_loose)
            self._first_loose = n_tiles

    def _order(self, begin: int) -> None:
        """Make all from `begin` on one run."""
        places = begin + np.flatnonzero(self.subscriptions.slot[begin : self._n_used] >= 0)
        order = places[order_near(keys_of(self.subscriptions, places), self._width)]
        columns = [column[..., order] for column in self.subscriptions]
        self.subscriptions.slot[begin:] = -1
        self._n_used = begin
        self._n_live -= len(order)
        self.add(columns[-1].astype(np.int32), columns[:-1])
        self._runs = [*(run for run in self._runs if run < begin), begin]
        self._n_ordered = self._n_used

    def check_invariants(self) -> None:
        """Assert that places agree, and that no node that is settled knows too little."""
        assert self._runs == sorted(set(self._runs))
        assert all(run % self._width == 0 and run <= self._n_ordered for run in self._runs)
        assert self._n_ordered <= self._n_used
        slot = self.subscriptions.slot
        live = np.flatnonzero(slot >= 0)
        assert len(live) == self._n_live
        assert not len(live) or live[-1] < self._n_used <= len(slot)
        assert self.place[slot[live]].tolist() == live.tolist()
        assert (self.place >= 0).sum() == len(live)
        lo, hi, theta, score_lo, score_hi, _ = self.subscriptions
        pairs = ((lo, hi), (theta, theta), (score_lo, score_hi))
        nodes = list(zip(self.nodes[1:-1:2], self.nodes[2:-1:2], strict=True))
        live = live[live < self._first_loose * self._width]
        for level, start in enumerate(self.nodes.first[:-1].tolist()):
            node = start + live // self._width ** (level + 1)
            for (least, most), (low, high) in zip(nodes, pairs, strict=True):
                assert not (least[..., node] > low[..., live]).any()
                assert not (most[..., node] < high[..., live]).any()


def order_near(keys: Floats, width: int) -> Longs:
    """An order of points, `keys` (coordinates, points), in which any `width` that follow are near each other.

    A kd-tree: halves by the coordinate in which its points rank farthest apart. Cost: n log n.
    """
    ranks = np.empty(keys.shape)
    for key, rank in zip(keys, ranks, strict=True):
        distinct, place = np.unique(key, return_inverse=True)
        rank[:] = place / max(1, len(distinct) - 1)
    order = np.arange(keys.shape[1])
    todo = [(0, len(order))] if len(keys) else []
    while todo:
        first, end = todo.pop()
        # Whole tiles on the left.
        half = -(-(end - first) // (2 * width)) * width
        if half >= end - first:
            continue
        part = order[first:end]
        ranked = ranks[:, part]
        widest = int(np.argmax(np.ptp(ranked, axis=1)))
        order[first:end] = part[np.argpartition(ranked[widest], half)]
        todo += [(first, first + half), (first + half, end)]
    return order


def keys_of(subscriptions: Subscriptions, places: Ints | Longs) -> Floats:
    """Subscriptions as points: all that they differ in."""
    lo, hi, theta, score_lo, score_hi, _ = subscriptions
    keys = np.concatenate(
        [lo[:, places], hi[:, places], theta[:, places], score_lo[None, places], score_hi[None, places]]
    )
    differs = (keys != keys[:, :1]).any(axis=1) if len(places) else np.zeros(len(keys), np.bool_)
    near: Floats = keys[differs]
    return near


def empty_nodes(dimensions: int, n_theta: int, width: int) -> Nodes:
    """What is known of no subscriptions."""
    bounds = [np.empty((rows, 0)) for rows in (dimensions, dimensions, n_theta, n_theta)]
    return Nodes._make([np.zeros(2, np.int64), *bounds, np.empty(0), np.empty(0), width])


def bounded(nodes: Nodes, subscriptions: Subscriptions, n_tiles: int, first: int) -> Nodes:
    """The nodes over so many tiles; those over the tiles before `first` are as they were.

    Cost: linear in the places from there on, and a copy of the nodes if there are more of them.
    """
    width = nodes.width
    starts = [0, n_tiles]
    while starts[-1] - starts[-2] > width:
        starts.append(starts[-1] - -(starts[-1] - starts[-2]) // width)
    if starts != nodes.first.tolist():
        made = [np.empty((*column.shape[:-1], starts[-1])) for column in nodes[1:-1]]
        for new, old in zip(made, nodes[1:-1], strict=True):
            new[..., :first] = old[..., :first]
        nodes = Nodes._make([np.array(starts, np.int64), *made, width])
        _bound(nodes, subscriptions, first, [0] * len(starts))
    else:
        _bound(nodes, subscriptions, first, [first // width**level for level in range(len(starts))])
    return nodes


def _bound(nodes: Nodes, subscriptions: Subscriptions, first: int, begins: list[int]) -> None:
    """Set the bounds of the tiles from `first` on and, of each level above, from its place in `begins` on."""
    width, starts = nodes.width, nodes.first.tolist()
    places = slice(first * width, starts[1] * width)
    is_there = subscriptions.slot[places] >= 0
    lo, hi, theta, score_lo, score_hi = (column[..., places] for column in subscriptions[:-1])
    below = [
        np.where(is_there, column, fill)
        for column, fill in zip(
            (lo, hi, theta, theta, score_lo, score_hi), (np.inf, -np.inf) * 3, strict=True
        )
    ]
    for level, (start, end) in enumerate(pairwise(starts)):
        begin = start + (first if level == 0 else begins[level])
        for number, column in enumerate(nodes[1:-1]):
            least = number % 2 == 0
            values = below[number]
            short = (end - begin) * width - values.shape[-1]
            fill = np.full((*values.shape[:-1], short), np.inf if least else -np.inf)
            padded = np.concatenate([values, fill], axis=-1)
            padded = padded.reshape(*values.shape[:-1], end - begin, width)
            # A bound that is not a number holds nothing.
            column[..., begin:end] = (np.fmin if least else np.fmax).reduce(padded, axis=-1)
        if level + 2 < len(starts):
            from_here = start + begins[level + 1] * width
            below = [column[..., from_here:end] for column in nodes[1:-1]]
