"""The rows of a table in a kd-tree, with a summary at each node."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.layout import check_layout, empty, grow
from tocsin.arrays.types import Arrays, Floats, Longs
from tocsin.indexes.ranges.steps.rows import Rows
from tocsin.indexes.ranges.steps.step_kernels import RowImages
from tocsin.indexes.ranges.structures.row_tree_kernels import (
    FIRST_LIMB,
    HEIGHT,
    N_BUILT,
    N_USED,
    RowTreeColumns,
    bound_rows,
    is_long,
)
from tocsin.indexes.ranges.structures.tally import LIMBS_OF_A_DOUBLE, limbs_of
from tocsin.indexes.ranges.structures.tally_kernels import N_INFINITIES, add_y
from tocsin.kernels.heap import Heap
from tocsin.kernels.kdtree import order_boxes
from tocsin.kernels.status import AT, STEP

#: Rows of a leaf when it is built, at most.
LEAF = 16
#: Capacity of the tail: this part of the rows, and this many more.
TAIL_PART = 16
SHORTEST_TAIL = 64


class TreeRows(Rows):
    """Rows, and a tree over the first `dimensions` of their columns; y is the column after these.

    The tree is rebuilt when its tail is full. With `is_summed`, nodes have sums of y.
    """

    def __init__(self, dimensions: int, capacity: int, *, is_summed: bool = False, leaf: int = LEAF) -> None:
        super().__init__(dimensions + 1, capacity)
        self._dimensions = dimensions
        self._leaf = leaf
        self._tail = min(capacity, SHORTEST_TAIL)
        self._is_summed = is_summed
        self._first_limb, self._n_limbs = 0, LIMBS_OF_A_DOUBLE
        self.tree, self.heap = self._built()

    @property
    def n_columns(self) -> int:
        """Columns of a sum."""
        return self._n_limbs + N_INFINITIES if self._is_summed else 0

    def reserve(self, images: RowImages) -> None:
        super().reserve(images)
        if self.top > len(self.tree.place):
            self.tree = grow(self.tree, slots=self.top)

    def build(self, extra: int = 0) -> None:
        """Rebuild the tree, with capacity for at least `extra` more rows. Cost: n log n."""
        self.tree, self.heap = self._built(extra)

    def build_for(self, images: RowImages, cursor: Longs) -> None:
        """Rebuild the tree within a step, with capacity for the rest of it. Cost: n log n."""
        self.build(int(images.start[cursor[STEP] + 1] - cursor[AT]))

    def rebuild_if_needed(self) -> None:
        """Rebuild the tree if that pays; called after a batch. Cost: amortised logarithmic per row."""
        if is_long(self.tree):
            self.build()

    def fit(self, y: Floats) -> None:
        """Ensure that sums have the limbs these values need. Cost: a pass over them; a rebuild if limbs are
        missing."""
        if not self._is_summed:
            return
        first, end = limbs_of(y)
        has_all = self._first_limb <= first and end <= self._first_limb + self._n_limbs
        if first == end or has_all:
            return
        if len(self.live()):
            end = max(end, self._first_limb + self._n_limbs)
            first = min(first, self._first_limb)
        self._first_limb, self._n_limbs = first, end - first
        self.build()

    def restore(self, arrays: Arrays) -> None:
        super().restore(arrays)
        self.fit(self.columns.value[self.live(), -1])
        self.build()

    def check_invariants(self) -> None:
        """Assert all invariants, that the tree has these rows, and that its nodes summarise them."""
        super().check_invariants()
        tree = self.tree
        check_layout(tree)
        n_built, n_used, height = (int(tree.state[at]) for at in (N_BUILT, N_USED, HEIGHT))
        live = self.live()
        places = tree.place[live]
        assert sorted(places.tolist()) == np.flatnonzero(tree.slot[:n_used] >= 0).tolist()
        assert tree.slot[places].tolist() == live.tolist()
        np.testing.assert_array_equal(tree.x[:, places].T, self.columns.value[live, :-1])
        np.testing.assert_array_equal(tree.y[places], self.columns.value[live, -1])
        np.testing.assert_array_equal(tree.born[places], self.columns.born[live])
        for level in range(height + 1):
            for number in range(1 << level):
                node = (1 << level) + number
                begin, end = (number * n_built) >> level, ((number + 1) * n_built) >> level
                mine = begin + np.flatnonzero(tree.slot[begin:end] >= 0)
                assert tree.n_rows[node] == len(mine)
                assert tree.least[node] == tree.y[mine].min(initial=np.inf)
                edge = tree.edge[node].reshape(2, self._dimensions, 1)
                assert (edge[0] <= tree.x[:, mine]).all()
                assert (edge[1] >= tree.x[:, mine]).all()
                total = np.zeros(self.n_columns, np.int64)
                for y in tree.y[mine].tolist():
                    add_y(total, y, 1, int(tree.state[FIRST_LIMB]))
                np.testing.assert_array_equal(tree.total[node], total)

    def _built(self, extra: int = 0) -> tuple[RowTreeColumns, Heap]:
        live = self.live()
        value, born = self.columns
        count = len(live)
        height = max(0, (count - 1) // self._leaf).bit_length()
        x = np.ascontiguousarray(value[live, :-1].T)
        order = np.arange(count, dtype=np.int32)
        order_boxes(x, x, self._dimensions, height, order)
        rows = live[order]
        longest = count // TAIL_PART + self._tail
        capacity = count + max(longest, extra)
        tree = empty(
            RowTreeColumns,
            dimensions=self._dimensions,
            places=capacity,
            slots=max(1, self.top),
            nodes=2 << height,
            columns=self.n_columns,
            levels=height,
        )
        tree.x[:, :count], tree.y[:count] = value[rows, :-1].T, value[rows, -1]
        tree.born[:count], tree.slot[:count] = born[rows], rows
        tree.place[rows] = np.arange(count)
        tree.state[:] = count, count, height, self._first_limb, longest
        bound_rows(tree)
        size = capacity + (2 << height)
        return tree, Heap(np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64))
