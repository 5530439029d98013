"""Building grids: fine where the rows are that subscriptions want, coarse elsewhere."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Bools, Bytes, Floats, Ints
from tocsin.indexes.windows.views_columns import ViewGrid, ViewRows
from tocsin.indexes.windows.views_grid_kernels import BUCKETS, find_rows, locate_rows

#: Cells of a grid, at most, without the one for rows outside.
CELLS = 1 << 19
#: Parts of the space, at most: a bit for each stays in the first-level cache.
PARTS = 1 << 17
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


def rows_in(grid: ViewGrid, is_chosen: Bools, rows: ViewRows) -> Ints:
    """The rows that are in chosen parts, and not yet hot. Cost: all row slots."""
    found = np.empty(len(rows.mark), np.int32)
    return found[: find_rows(grid, is_chosen, rows, found)]


def _places(column: Floats, scale: float, offset: float, last: float) -> Ints:
    """Which part of a column each value is in; NaN is in the first."""
    with np.errstate(all="ignore"):
        at = column * scale - offset
    return np.minimum(np.where(at > 0.0, at, 0.0), last).astype(np.int32)


def _parts(edge: Floats, bins: Ints) -> tuple[Floats, Ints, Floats, Floats, Bytes]:
    """Parts of equal width: the last ones, strides, scale, offset; those reaching out of the grid are hot."""
    n_columns = len(bins)
    share = int(PARTS ** (1 / n_columns) + 1e-9) if n_columns else 1
    last = np.full(n_columns, share - 1.0)
    stride = (share ** np.arange(n_columns)).astype(np.int32)
    low, high = edge[:, 0], edge[np.arange(n_columns), bins]
    with np.errstate(over="ignore"):
        scale = (share - 2 + 0.02) / (high - low)
    scale[~np.isfinite(scale)] = 0.0
    # The first part ends, and the last begins, just inside of the grid.
    offset = low * scale - 0.99
    coordinate = np.arange(share**n_columns)
    is_hot = np.full(len(coordinate), n_columns == 0)
    for c in range(n_columns):
        place = coordinate // stride[c] % share
        # A value below another is never in a later part: so what is outside is in these.
        first_inside, last_inside = _places(np.array([low[c], high[c]]), scale[c], offset[c], last[c])
        is_hot |= (place <= first_inside) | (place >= last_inside)
    return last, stride, scale, offset, np.packbits(is_hot, bitorder="little")


def is_part_hot(grid: ViewGrid) -> Bools:
    """For each part, whether it is hot. Cost: linear in parts."""
    return np.unpackbits(grid.hot_parts, bitorder="little").astype(np.bool_)


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
    # Of halves: the distance between two values may be more than the largest double.
    inner = 2 * np.quantile(wanted / 2, np.arange(1, n_bins) / n_bins) if len(wanted) else np.empty(0)
    edges: Floats = np.unique(np.concatenate([[low], inner, [high]]))
    return edges
