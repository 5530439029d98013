"""A tree over the boxes of subscriptions: finds those that hold a row without testing them all."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.layout import check_layout, empty, grow
from tocsin.arrays.types import Floats, Ints
from tocsin.indexes.ranges.structures.box_tree_kernels import (
    HEIGHT,
    N_BUILT,
    N_USED,
    BoxTreeColumns,
    bound_nodes,
)
from tocsin.kernels.kdtree import order_boxes

#: Boxes of a leaf when it is built, at most.
LEAF = 32
#: The tree is rebuilt when its tail has LONGEST_TAIL boxes, or one in TAIL_PART if that is more.
LONGEST_TAIL = 2048
TAIL_PART = 64
#: Rows of a step for which a new tree has capacity.
SMALLEST_STEP = 16


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
        self.tree = tree = empty_tree(len(lo), places=count, slots=top, levels=height)
        tree.lo[:], tree.hi[:] = box_lo[:, order], box_hi[:, order]
        tree.slot[:] = slots[order]
        tree.place[slots[order]] = np.arange(count)
        tree.state[:] = count, count, height, self._region
        bound_nodes(tree)

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
        top = int(slots.max(initial=-1)) + 1
        if needed > len(tree.slot) or top > len(tree.place):
            self.tree = tree = grow(tree, places=needed, slots=top)
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
            self.tree = grow(self.tree, rows=rows)

    def check_invariants(self, lo: Floats, hi: Floats) -> None:
        """Assert that the tree has exactly the non-empty boxes, and that nodes bound them."""
        tree = self.tree
        check_layout(tree)
        n_built, n_used, height = (int(tree.state[at]) for at in (N_BUILT, N_USED, HEIGHT))
        width = len(lo)
        slots = np.flatnonzero((lo <= hi).all(axis=0))
        there = np.flatnonzero(tree.slot[:n_used] >= 0)
        assert sorted(tree.slot[there].tolist()) == slots.tolist()
        assert tree.place[tree.slot[there]].tolist() == there.tolist()
        assert (tree.place >= 0).sum() == len(slots)
        np.testing.assert_array_equal(tree.lo[:, there], lo[:, tree.slot[there]])
        np.testing.assert_array_equal(tree.hi[:, there], hi[:, tree.slot[there]])
        for level in range(height + 1):
            for number in range(1 << level):
                begin, end = (number * n_built) >> level, ((number + 1) * n_built) >> level
                mine = begin + np.flatnonzero(tree.slot[begin:end] >= 0)
                edge = tree.edge[(1 << level) + number].reshape(4, width, 1)
                assert (edge[0] <= tree.lo[:, mine]).all()
                assert (edge[1] >= tree.lo[:, mine]).all()
                assert (edge[2] <= tree.hi[:, mine]).all()
                assert (edge[3] >= tree.hi[:, mine]).all()


def empty_tree(width: int, *, places: int = 0, slots: int = 0, levels: int = 0) -> BoxTreeColumns:
    """Columns of these sizes; without places, the tree is not in use."""
    return empty(
        BoxTreeColumns,
        dimensions=width,
        places=places,
        slots=slots,
        nodes=2 << levels,
        levels=levels,
        rows=SMALLEST_STEP,
    )
