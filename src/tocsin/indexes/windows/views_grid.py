"""Building grids: fine where the rows are that subscriptions want, coarse elsewhere."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Bools, Floats, Ints
from tocsin.indexes.windows.views_columns import ViewGrid
from tocsin.indexes.windows.views_grid_kernels import BUCKETS, locate_rows

#: Cells of a grid, at most, without the one for rows outside.
CELLS = 1 << 16
#: Parts of a grid, at most: a byte for each stays in the second-level cache.
PARTS = 1 << 16
#: Bins a column, at most: as many rows that are wanted tell where to put them.
BINS = 1 << 10


def new_grid(values: Floats, is_wanted: Bools, n_bytes: int, cells: int = CELLS) -> ViewGrid:
    """A grid over the finite `values` (columns, rows), with bins of equally many rows that are wanted.

    Room for `8 * n_bytes` tiles, of which no cell but the one outside knows any. Cost: linear in rows.
    """
    n_columns = values.shape[0]
    edges = [_edges(values[c], is_wanted, n) for c, n in enumerate(_shares(values, is_wanted, cells))]
    bins = np.array([len(edge) - 1 for edge in edges], np.int32)
    stride = np.ones(n_columns, np.int32)
    for c in range(1, n_columns):
        stride[c] = stride[c - 1] * bins[c - 1]
    edge = np.full((n_columns, int(bins.max(initial=1)) + 1), np.inf)
    scale = np.zeros(n_columns)
    bucket = np.zeros((n_columns, BUCKETS), np.int32)
    for c in range(n_columns):
        edge[c, : bins[c] + 1] = edges[c]
        # Wide ranges overflow: then all share one bucket, and the bin is sought from there.
        with np.errstate(over="ignore"):
            width = edges[c][-1] - edges[c][0]
        scale[c] = BUCKETS / width if np.isfinite(width) and BUCKETS / width < np.inf else 0.0
        starts = edges[c][0] + np.arange(BUCKETS) * (width / BUCKETS if scale[c] else 0.0)
        bucket[c] = np.clip(np.searchsorted(edges[c], starts, side="right") - 1, 0, bins[c] - 1)
    n_cells = 1 + int(np.prod(bins, dtype=np.int64))
    reach = np.zeros((n_cells, n_bytes), np.uint8)
    is_hot = np.zeros(n_cells, np.bool_)
    reach[0] = 255
    is_hot[0] = True
    return ViewGrid(bins, stride, edge, scale, bucket, reach, is_hot, *_parts(edge, bins))


def cells_of(grid: ViewGrid, values: Floats, chosen: Ints) -> Ints:
    """The cells of chosen rows of `values` (columns, rows). Cost: linear in what is chosen."""
    cells = np.empty(len(chosen), np.int32)
    locate_rows(grid, values, False, chosen, len(chosen), cells)
    return cells


def parts_of(grid: ViewGrid, values: Floats) -> Ints:
    """The part of each row of `values` (columns, rows). Cost: linear."""
    part = np.ones(values.shape[1], np.int32)
    is_inside = np.ones(values.shape[1], np.bool_)
    for c, column in enumerate(values):
        is_inside &= (grid.edge[c, 0] <= column) & (column < grid.end[c])
        at = np.where(is_inside, column, 0.0) * grid.part_scale[c] - grid.part_offset[c]
        part += np.clip(at, 0, grid.parts[c] - 1).astype(np.int32) * grid.part_stride[c]
    return np.where(is_inside, part, 0).astype(np.int32)


def _parts(edge: Floats, bins: Ints) -> tuple[Floats, Ints, Ints, Floats, Floats, Bools]:
    """Parts of equal width: where columns end, how many, strides, scale, offset, and none hot but part 0."""
    n_columns = len(bins)
    end = edge[np.arange(n_columns), bins]
    share = int(PARTS ** (1 / n_columns) + 1e-9) if n_columns else 1
    parts = np.full(n_columns, share, np.int32)
    stride = share ** np.arange(n_columns, dtype=np.int32)
    with np.errstate(over="ignore"):
        width = end - edge[:, 0]
        scale = share / width
    scale[~np.isfinite(scale)] = 0.0
    is_hot = np.zeros(1 + share**n_columns, np.bool_)
    is_hot[0] = True
    return end, parts, stride.astype(np.int32), scale, edge[:, 0] * scale, is_hot


def _shares(values: Floats, is_wanted: Bools, cells: int) -> list[int]:
    """How many bins each column gets: as many as the others, but one where it repeats another."""
    n_columns = values.shape[0]
    repeats = [
        any(np.array_equal(values[c, :1000], values[b, :1000], equal_nan=True) for b in range(c))
        for c in range(n_columns)
    ]
    if not is_wanted.any() or all(repeats):
        return [1] * n_columns
    share = min(BINS, int(cells ** (1 / repeats.count(False)) + 1e-9))
    return [1 if repeat else share for repeat in repeats]


def _edges(column: Floats, is_wanted: Bools, n_bins: int) -> Floats:
    """Where the bins of a column begin, and where the last ends: all finite values are inside."""
    is_finite = np.isfinite(column)
    if not is_finite.any():
        return np.array([0.0, 1.0])
    finite = column[is_finite]
    low, high = float(finite.min()), float(finite.max())
    # New rows may be somewhat beyond what was seen.
    margin = (high / 16 - low / 16) or 1.0
    low, high = max(low - margin, -1e308), np.nextafter(min(high + margin, 1e308), np.inf)
    wanted = column[is_wanted & is_finite]
    inner = np.quantile(wanted, np.arange(1, n_bins) / n_bins) if len(wanted) else np.empty(0)
    edges: Floats = np.unique(np.concatenate([[low], inner, [high]]))
    return edges
