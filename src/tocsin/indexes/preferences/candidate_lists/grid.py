"""Builds the grid of cells, fine where wanted rows are, and the tree of rows for ranking."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.types import Bools, Bytes, Floats, Ints
from tocsin.indexes.preferences.candidate_lists.grid_kernels import BUCKETS, find_rows, locate_rows
from tocsin.indexes.preferences.candidate_lists.layout import NO_ROW, RowGrid, StoredRows
from tocsin.indexes.preferences.candidate_lists.rank_kernels import BRANCH, LEAF, RankingTree, kd_order

#: Cells of a grid, at most, not counting the one for rows outside.
MAX_CELLS = 1 << 19
#: Parts of the space, at most: a bit for each fits the first-level cache.
MAX_PARTS = 1 << 17
#: Bins per column, at most.
MAX_BINS = 1 << 10


def new_grid(values: Floats, is_wanted: Bools, n_bytes: int, cells: int = MAX_CELLS) -> RowGrid:
    """A grid over the finite `values` (columns, rows), with bins of equally many wanted rows.

    It has capacity for `8 * n_bytes` tiles; only the cell for rows outside has bits. Cost: linear in rows.
    """
    n_columns = values.shape[0]
    edges = [
        _edges(values[c], is_wanted, n) for c, n in enumerate(_bins_per_column(values, is_wanted, cells))
    ]
    bins = np.array([len(edge) - 1 for edge in edges], np.int32)
    stride = np.ones(n_columns, np.int32)
    for c in range(1, n_columns):
        stride[c] = stride[c - 1] * bins[c - 1]
    edge = np.full((n_columns, int(bins.max(initial=1)) + 1), np.inf)
    scale = np.zeros(n_columns)
    bucket = np.zeros((n_columns, BUCKETS), np.int32)
    for c in range(n_columns):
        edge[c, : bins[c] + 1] = edges[c]
        # Wide ranges overflow: then all values share one bucket, and the bin is searched from there.
        with np.errstate(over="ignore"):
            width = edges[c][-1] - edges[c][0]
        scale[c] = BUCKETS / width if np.isfinite(width) and BUCKETS / width < np.inf else 0.0
        starts = edges[c][0] + np.arange(BUCKETS) * (width / BUCKETS if scale[c] else 0.0)
        bucket[c] = np.clip(np.searchsorted(edges[c], starts, side="right") - 1, 0, bins[c] - 1)
    n_cells = 1 + int(np.prod(bins, dtype=np.int64))
    tile_bits = np.zeros((n_cells, n_bytes), np.uint8)
    is_active = np.zeros(n_cells, np.bool_)
    tile_bits[0] = 255
    is_active[0] = True
    return RowGrid(bins, stride, edge, scale, bucket, tile_bits, is_active, *_coarse_parts(edge, bins))


def cells_of(grid: RowGrid, values: Floats, chosen: Ints) -> Ints:
    """The cells of chosen rows of `values` (columns, rows). Cost: linear in their number."""
    cells = np.empty(len(chosen), np.int32)
    locate_rows(grid, values, False, chosen, len(chosen), cells)
    return cells


def rows_in_parts(grid: RowGrid, is_chosen: Bools, rows: StoredRows) -> Ints:
    """The rows in chosen parts that are not candidates yet. Cost: all row slots."""
    found = np.empty(len(rows.mark), np.int32)
    return found[: find_rows(grid, is_chosen, rows, found)]


def _part_indices(column: Floats, scale: float, offset: float, last: float) -> Ints:
    """The part of a column that each value is in; NaN is in the first."""
    with np.errstate(all="ignore"):
        at = column * scale - offset
    return np.minimum(np.where(at > 0.0, at, 0.0), last).astype(np.int32)


def _coarse_parts(edge: Floats, bins: Ints) -> tuple[Floats, Ints, Floats, Floats, Bytes]:
    """Parts of equal width: last parts, strides, scale, offset; those reaching out of the grid are active."""
    n_columns = len(bins)
    share = int(MAX_PARTS ** (1 / n_columns) + 1e-9) if n_columns else 1
    last = np.full(n_columns, share - 1.0)
    stride = (share ** np.arange(n_columns)).astype(np.int32)
    low, high = edge[:, 0], edge[np.arange(n_columns), bins]
    with np.errstate(over="ignore"):
        scale = (share - 2 + 0.02) / (high - low)
    scale[~np.isfinite(scale)] = 0.0
    # The first part ends, and the last begins, just inside the grid.
    offset = low * scale - 0.99
    coordinate = np.arange(share**n_columns)
    is_active = np.full(len(coordinate), n_columns == 0)
    for c in range(n_columns):
        place = coordinate // stride[c] % share
        # Parts are monotone in the value, so that everything outside of the grid is in these.
        first_inside, last_inside = _part_indices(np.array([low[c], high[c]]), scale[c], offset[c], last[c])
        is_active |= (place <= first_inside) | (place >= last_inside)
    return last, stride, scale, offset, np.packbits(is_active, bitorder="little")


def active_part_flags(grid: RowGrid) -> Bools:
    """For each part, whether it is active. Cost: linear in parts."""
    return np.unpackbits(grid.active_parts, bitorder="little").astype(np.bool_)


def _bins_per_column(values: Floats, is_wanted: Bools, cells: int) -> list[int]:
    """Bins per column: equally many, but one for a column that repeats another."""
    n_columns = values.shape[0]
    repeats = [
        any(np.array_equal(values[c, :1000], values[b, :1000], equal_nan=True) for b in range(c))
        for c in range(n_columns)
    ]
    if not is_wanted.any() or all(repeats):
        return [1] * n_columns
    share = min(MAX_BINS, int(cells ** (1 / repeats.count(False)) + 1e-9))
    return [1 if repeat else share for repeat in repeats]


def _edges(column: Floats, is_wanted: Bools, n_bins: int) -> Floats:
    """Where the bins of a column begin, and where the last ends: all finite values are inside."""
    is_finite = np.isfinite(column)
    if not is_finite.any():
        return np.array([0.0, 1.0])
    finite = column[is_finite]
    low, high = float(finite.min()), float(finite.max())
    # New rows may be somewhat beyond the existing ones.
    margin = (high / 16 - low / 16) or 1.0
    low, high = max(low - margin, -1e308), np.nextafter(min(high + margin, 1e308), np.inf)
    wanted = column[is_wanted & is_finite]
    # Halved: the distance between two values may exceed the largest double.
    inner = 2 * np.quantile(wanted / 2, np.arange(1, n_bins) / n_bins) if len(wanted) else np.empty(0)
    edges: Floats = np.unique(np.concatenate([[low], inner, [high]]))
    return edges


#: Subscriptions from which sorting the rows first is faster than scanning them. Measured.
MIN_TREE_SUBSCRIPTIONS = 100


def neighbour_order(values: Floats, leaf: int) -> Ints:
    """The indices of `values` (columns, n) in kd-order: leaves of neighbouring values. Cost: n log n."""
    order = np.arange(values.shape[1], dtype=np.int32)
    kd_order(np.ascontiguousarray(values), leaf, np.empty(3 * 128, np.int64), np.empty(len(order)), order)
    return order


def gather_rows(values: Floats, chosen: Ints) -> Floats:
    """Some of the rows of `values` (columns, n). Faster than indexing all columns at once."""
    packed = np.empty((len(values), len(chosen)))
    for into, column in zip(packed, values, strict=True):
        into[:] = column.take(chosen)
    return packed


def ranking_tree(rows: StoredRows, n_slots: int) -> RankingTree:
    """The stored rows without NULLs, as leaves and branches. Cost: n log n."""
    values = rows.values[:, :n_slots]
    is_there = rows.mark[:n_slots] != NO_ROW
    for column in values:
        is_there &= column == column
    slots = np.flatnonzero(is_there).astype(np.int32)
    packed = gather_rows(values, slots)
    order = neighbour_order(packed, LEAF)
    packed = gather_rows(packed, order)
    leaf_low, leaf_high = _boxes(packed, packed, LEAF)
    branch_low, branch_high = _boxes(leaf_low, leaf_high, BRANCH)
    return RankingTree(packed, slots[order], leaf_low, leaf_high, branch_low, branch_high)


def unsorted_tree(rows: StoredRows, n_slots: int) -> RankingTree:
    """The rows by slot, to be scanned. Cost: constant, but for the row numbers."""
    none = np.empty((rows.values.shape[0], 0))
    return RankingTree(rows.values, np.arange(n_slots, dtype=np.int32), none, none, none, none)


def _boxes(low: Floats, high: Floats, size: int) -> tuple[Floats, Floats]:
    """The boxes around each `size` neighbours, the last of which may be fewer."""
    if low.shape[1] == 0:
        return low, high
    starts = np.arange(0, low.shape[1], size)
    return (
        np.ascontiguousarray(np.minimum.reduceat(low, starts, axis=1)),
        np.ascontiguousarray(np.maximum.reduceat(high, starts, axis=1)),
    )
