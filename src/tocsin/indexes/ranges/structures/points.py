"""Subscriptions to ranges as points of a plane: which are in a rectangle, and how far they extend."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.columns import writable
from tocsin.arrays.layout import check_layout, empty, grow
from tocsin.arrays.types import Floats, Ints
from tocsin.indexes.ranges.structures.points_kernels import (
    BUCKET,
    N_POINTS,
    N_USED,
    N_WASTED,
    STRIP,
    Grid,
    assign_cuts,
    fill_grid,
    gather_points,
    insert_points,
    remove_points,
    sort_by,
)

#: Points sampled per cut.
DRAWN = 8
#: A rebuild pays once this many points per point of the grid have been tested in vain.
PATIENCE = 32


class Points:
    """The points (lo, hi) of subscription slots, in a grid that adapts to their density.

    Points are inserted and removed at any time. The grid is rebuilt when their number has doubled or halved,
    and when overlong buckets have cost as much as a rebuild would. About 22 bytes per point.
    """

    def __init__(self, capacity: int = 16) -> None:
        self._capacity = capacity
        self._n_built = 0
        self.grid = _empty_grid(1, 1, capacity)
        _fill(self.grid, np.empty(0), np.empty(0), np.empty(0, np.int32), _no_cut(), _no_cut())

    def __len__(self) -> int:
        return int(self.grid.state[N_POINTS])

    def insert(self, slots: Ints, lo: Floats, hi: Floats) -> None:
        """Add points of absent slots. Cost: logarithmic each, amortised; a large batch rebuilds the grid."""
        slots, lo, hi = _columns(slots, lo, hi)
        if len(self) + len(slots) > 2 * self._n_built + self._capacity:
            self._build(slots, lo, hi)
            return
        done = 0
        while (done := insert_points(self.grid, lo, hi, slots, done)) < len(slots):
            self.grid = grow(self.grid, places=len(self.grid.slot) + 4 * (BUCKET + len(slots)))

    def remove(self, slots: Ints, lo: Floats, hi: Floats) -> None:
        """Remove existing points, given as inserted. Cost: logarithmic and a bucket each."""
        slots, lo, hi = _columns(slots, lo, hi)
        n_found = remove_points(self.grid, lo, hi, slots)
        assert n_found == len(slots), "removes only existing points"
        if 2 * len(self) + self._capacity < self._n_built:
            self.rebuild()

    def rebuild_if_needed(self) -> None:
        """Rebuild the grid if that pays; called between queries. Cost: amortised none."""
        state = self.grid.state
        is_wasteful = state[N_WASTED] > PATIENCE * (len(self) + self._capacity)
        if is_wasteful or state[N_USED] > 3 * len(self) + 4 * self._capacity + 4 * BUCKET:
            self.rebuild()

    def rebuild(self) -> None:
        """Rebuild the grid for the current points. Cost: about linear."""
        self._build(np.empty(0, np.int32), np.empty(0), np.empty(0))

    def points(self) -> tuple[Ints, Floats, Floats]:
        """All points, by slot: slots, lo, hi. Cost: sorting them."""
        lo, hi, slot = np.empty(len(self)), np.empty(len(self)), np.empty(len(self), np.int32)
        gather_points(self.grid, lo, hi, slot)
        order = np.argsort(slot)
        return slot[order], lo[order], hi[order]

    def check_invariants(self) -> None:
        """Assert that each point is in its bucket and each bucket's box is tight."""
        grid = self.grid
        check_layout(grid)
        assert int(grid.bucket_size.sum()) == len(self)
        assert (grid.bucket_size <= grid.bucket_capacity).all()
        assert grid.bucket_capacity.sum() <= grid.state[N_USED] <= len(grid.lo) - STRIP
        assert grid.column_start[-1] == len(grid.bucket_start)
        columns = list(zip(grid.column_lo.tolist(), grid.column_slot.tolist(), strict=True))
        assert columns == sorted(columns)
        used = np.zeros(len(grid.lo), np.bool_)
        for column in range(len(grid.column_lo)):
            first, end = grid.column_start[column : column + 2].tolist()
            buckets = list(
                zip(grid.bucket_hi[first:end].tolist(), grid.bucket_slot[first:end].tolist(), strict=True)
            )
            assert buckets == sorted(buckets)
            for bucket in range(first, end):
                begin, size = int(grid.bucket_start[bucket]), int(grid.bucket_size[bucket])
                assert not used[begin : begin + grid.bucket_capacity[bucket]].any()
                used[begin : begin + grid.bucket_capacity[bucket]] = True
                box = [np.inf, -np.inf, np.inf, -np.inf]
                for place in range(begin, begin + size):
                    lo, hi, slot = float(grid.lo[place]), float(grid.hi[place]), int(grid.slot[place])
                    box = [min(box[0], lo), max(box[1], lo), min(box[2], hi), max(box[3], hi)]
                    assert (lo, slot) >= columns[column] or column == 0
                    assert column + 1 == len(columns) or (lo, slot) < columns[column + 1]
                    assert (hi, slot) >= buckets[bucket - first] or bucket == first
                    assert bucket + 1 == end or (hi, slot) < buckets[bucket + 1 - first]
                assert grid.bucket_box[bucket].tolist() == box

    def _build(self, slots: Ints, lo: Floats, hi: Floats) -> None:
        """Build the grid for the current points and those given."""
        if len(self):
            old_slots, old_lo, old_hi = self.points()
            slots = np.concatenate((old_slots, slots))
            lo, hi = np.concatenate((old_lo, lo)), np.concatenate((old_hi, hi))
        if len(slots) and (slots[1:] < slots[:-1]).any():
            slots, lo, hi = _reordered(slots, lo, hi)
        n_slabs = max(1, len(slots) // BUCKET)
        n_columns = int(np.sqrt(n_slabs))
        grid = _empty_grid(n_columns, 2 * n_slabs + 2 * n_columns, len(slots) + self._capacity)
        n_buckets = _fill(grid, lo, hi, slots, _cuts(lo, slots, n_columns), _cuts(hi, slots, n_slabs))
        buckets = {
            name: column[:n_buckets].copy()
            for name, column in grid._asdict().items()
            if name.startswith("bucket_")
        }
        self.grid = grid._replace(**buckets)
        self._n_built = len(slots)


def _columns(slots: Ints, lo: Floats, hi: Floats) -> tuple[Ints, Floats, Floats]:
    """The columns in the form kernels take, with 0.0 for -0.0."""
    return writable(slots, np.int32), np.ascontiguousarray(lo) + 0.0, np.ascontiguousarray(hi) + 0.0


def _reordered(slots: Ints, lo: Floats, hi: Floats) -> tuple[Ints, Floats, Floats]:
    order = np.argsort(slots)
    return slots[order], lo[order], hi[order]


def _no_cut() -> tuple[Floats, Ints]:
    return np.full(1, -np.inf), np.full(1, -1, np.int32)


def _cuts(values: Floats, slots: Ints, count: int) -> tuple[Floats, Ints]:
    """The least (value, slot) of each of `count` parts, about equally full; the first takes all below.

    `slots` ascend, so that a stable sort orders equal values by slot.
    """
    if count == 1:
        return _no_cut()
    # One from each stretch of the input, at a scattered offset, so that no period of it biases the sample.
    n_drawn = min(len(values), count * DRAWN)
    begin = np.arange(n_drawn) * len(values) // n_drawn
    width = (np.arange(1, n_drawn + 1) * len(values) // n_drawn) - begin
    drawn = begin + (np.arange(n_drawn) * 2654435761 >> 7) % width
    order = drawn[np.argsort(values[drawn], kind="stable")]
    chosen = order[np.arange(count) * n_drawn // count]
    cut_value, cut_slot = values[chosen], slots[chosen]
    cut_value[0], cut_slot[0] = -np.inf, -1
    return cut_value, cut_slot


def _fill(
    grid: Grid,
    lo: Floats,
    hi: Floats,
    slots: Ints,
    columns: tuple[Floats, Ints],
    slabs: tuple[Floats, Ints],
) -> int:
    """Fill an empty grid with points, cut as given. Returns how many buckets it has."""
    column, slab = np.empty(len(slots), np.int32), np.empty(len(slots), np.int32)
    assign_cuts(lo, slots, *columns, column)
    assign_cuts(hi, slots, *slabs, slab)
    by_slab, order = np.empty(len(slots), np.int32), np.arange(len(slots), dtype=np.int32)
    sort_by(slab, len(slabs[0]), order, by_slab)
    sort_by(column, len(columns[0]), by_slab, order)
    grid.column_lo[:], grid.column_slot[:] = columns
    return fill_grid(lo, hi, slots, order, column, slab, *slabs, grid)


def _empty_grid(n_columns: int, n_buckets: int, capacity: int) -> Grid:
    """A grid without points or cuts, and capacity for `capacity` points."""
    grid = empty(Grid, columns=n_columns, buckets=n_buckets, places=capacity)
    grid.bucket_box[:, 1::2] = -np.inf
    return grid
