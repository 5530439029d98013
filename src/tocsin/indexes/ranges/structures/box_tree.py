"""A tree over the boxes of subscriptions: finds those that hold a row without testing them all."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.columns import ensure_capacity
from tocsin.arrays.types import Floats, Ints
from tocsin.indexes.ranges.structures.box_tree_kernels import (
    BLOCK,
    HEIGHT,
    N_BUILT,
    N_USED,
    STATE_SIZE,
    BoxTreeColumns,
    bound_nodes,
)
from tocsin.kernels.kdtree import order_boxes
from tocsin.kernels.sort import LARGEST_DIGIT

#: Boxes of a leaf when it is built, at most.
LEAF = 32
#: The tree is rebuilt when its tail has LONGEST_TAIL boxes, or one in TAIL_PART if that is more.
LONGEST_TAIL = 2048
TAIL_PART = 64


class BoxTree:
    """Boxes by slot, in a kd-tree that is rebuilt now and then.

    The tree splits by the first `split` dimensions; of the last one the upper bound may move (`move_top`).
    """

    def __init__(
        self, width: int, split: int, *, region: int, leaf: int = LEAF, tail: int = LONGEST_TAIL
    ) -> None:
        self._split = split
        self._region = region
        self._leaf = leaf
        self._tail = tail
        self.tree = empty_tree(width)

    def build(self, lo: Floats, hi: Floats, top: int) -> None:
        """Build from all non-empty boxes of the slots below `top`. Cost: n log n.

        `lo`, `hi` are (dimensions, slots).
        """
        slots = np.flatnonzero((lo[:, :top] <= hi[:, :top]).all(axis=0)).astype(np.int32)
        count = len(slots)
        height = max(0, (count - 1) // self._leaf).bit_length()
        box_lo, box_hi = np.ascontiguousarray(lo[:, slots]), np.ascontiguousarray(hi[:, slots])
        order = np.arange(count, dtype=np.int32)
        order_boxes(box_lo, box_hi, self._split, height, order)
        place = np.full(top, -1, np.int32)
        place[slots[order]] = np.arange(count)
        self.tree = empty_tree(len(lo))._replace(
            lo=np.ascontiguousarray(box_lo[:, order]),
            hi=np.ascontiguousarray(box_hi[:, order]),
            slot=slots[order],
            place=place,
            edge=np.empty((2 << height, 4 * len(lo))),
            state=np.array([count, count, height, self._region], np.int64),
            stack=np.empty(2 * (height + 2), np.int64),
            spare=np.empty(count, np.int64),
        )
        bound_nodes(self.tree)

    def insert(self, slots: Ints, lo: Floats, hi: Floats) -> bool:
        """Add the boxes of `slots` to the tail; returns whether they fit. Bounds are as for `build`.

        Cost: linear in their number, amortised.
        """
        tree = self.tree
        slots = slots[(lo[:, slots] <= hi[:, slots]).all(axis=0)]
        used = int(tree.state[N_USED])
        needed = used + len(slots)
        if needed - tree.state[N_BUILT] > max(self._tail, tree.state[N_BUILT] // TAIL_PART):
            return False
        top = max(len(tree.place), int(slots.max(initial=-1)) + 1)
        if needed > len(tree.slot):
            capacity = max(needed, used + self._tail)
            tree = tree._replace(
                lo=_grown_columns(tree.lo, capacity),
                hi=_grown_columns(tree.hi, capacity),
                slot=ensure_capacity(tree.slot, capacity),
                spare=ensure_capacity(tree.spare, capacity),
            )
        self.tree = tree = tree._replace(place=ensure_capacity(tree.place, top, -1))
        tree.lo[:, used:needed], tree.hi[:, used:needed] = lo[:, slots], hi[:, slots]
        tree.slot[used:needed] = slots
        tree.place[slots] = np.arange(used, needed)
        tree.state[N_USED] = needed
        return True

    def remove(self, slots: Ints) -> None:
        """Remove the boxes of `slots` that exist. Cost: constant each."""
        tree = self.tree
        place = tree.place[slots[slots < len(tree.place)]]
        place = place[place >= 0]
        tree.place[tree.slot[place]] = -1
        tree.slot[place] = -1
        tree.lo[:, place], tree.hi[:, place] = np.inf, -np.inf

    def reserve(self, rows: int) -> None:
        """Ensure capacity for a step of `rows` rows. Cost: amortised constant per row."""
        if rows > len(self.tree.listed):
            self.tree = self.tree._replace(listed=ensure_capacity(self.tree.listed, rows))

    def check_invariants(self, lo: Floats, hi: Floats) -> None:
        """Assert that the tree has exactly the non-empty boxes, and that nodes bound them."""
        tree = self.tree
        n_built, n_used, height = (int(tree.state[at]) for at in (N_BUILT, N_USED, HEIGHT))
        width = len(lo)
        slots = np.flatnonzero((lo <= hi).all(axis=0))
        there = np.flatnonzero(tree.slot[:n_used] >= 0)
        assert sorted(tree.slot[there].tolist()) == slots.tolist()
        assert tree.place[tree.slot[there]].tolist() == there.tolist()
        assert (tree.place >= 0).sum() == len(slots)
        np.testing.assert_array_equal(tree.lo[:, there], lo[:, tree.slot[there]])
        np.testing.assert_array_equal(tree.hi[:, there], hi[:, tree.slot[there]])
        assert len(tree.spare) >= len(tree.slot)
        for level in range(height + 1):
            for number in range(1 << level):
                begin, end = (number * n_built) >> level, ((number + 1) * n_built) >> level
                mine = begin + np.flatnonzero(tree.slot[begin:end] >= 0)
                edge = tree.edge[(1 << level) + number].reshape(4, width, 1)
                assert (edge[0] <= tree.lo[:, mine]).all()
                assert (edge[1] >= tree.lo[:, mine]).all()
                assert (edge[2] <= tree.hi[:, mine]).all()
                assert (edge[3] >= tree.hi[:, mine]).all()


def empty_tree(width: int) -> BoxTreeColumns:
    """An empty tree, which is not in use."""
    return BoxTreeColumns(
        lo=np.empty((width, 0)),
        hi=np.empty((width, 0)),
        slot=np.empty(0, np.int32),
        place=np.empty(0, np.int32),
        edge=np.empty((2, 4 * width)),
        state=np.zeros(STATE_SIZE, np.int64),
        stack=np.empty(4, np.int64),
        listed=np.empty(16, np.int64),
        inside=np.empty((2, BLOCK), np.bool_),
        begin=np.empty(LARGEST_DIGIT + 1, np.int64),
        spare=np.empty(0, np.int64),
    )


def _grown_columns(columns: Floats, capacity: int) -> Floats:
    wider: Floats = np.empty((len(columns), capacity))
    wider[:, : columns.shape[1]] = columns
    return wider
