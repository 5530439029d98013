"""Cells: which one a row is in, and which ones can concern a subscription."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Bools, Floats, Ints
from tocsin.indexes.shared.bounds_kernels import bound_block
from tocsin.indexes.shared.jit import lean_kernel
from tocsin.indexes.windows.views_columns import THERE, ViewGrid, ViewLanes, ViewRanking, ViewRows

#: Buckets a column that lead to its bins.
BUCKETS = 1024


@lean_kernel
def zero() -> int:
    """A number to pass on: a literal 0 would make a signature of its own."""
    return int(np.int64(0))


@lean_kernel
def locate_rows(
    grid: ViewGrid, values: Floats, is_row_major: bool, chosen: Ints, n: int, out_cell: Ints
) -> None:
    """The cells of `n` chosen rows of `values`: (columns, rows), or (rows, columns) where `is_row_major`.

    NaN is outside of the grid.
    """
    bins = grid.bins
    stride = grid.stride
    edge = grid.edge
    scale = grid.scale
    bucket = grid.bucket
    for i in range(n):
        r = chosen[i]
        cell = 1
        for c in range(len(bins)):
            x = values[r, c] if is_row_major else values[c, r]
            if not (edge[c, 0] <= x and x < edge[c, bins[c]]):
                cell = 0
                break
            # The difference of products is finite where the difference itself would not be.
            at = int(x * scale[c] - edge[c, 0] * scale[c])
            b = bucket[c, max(0, min(BUCKETS - 1, at))]
            # The bucket's bin is where it begins, but for rounding.
            while x >= edge[c, b + 1]:
                b += 1
            while x < edge[c, b]:
                b -= 1
            cell += b * stride[c]
        out_cell[i] = cell


@lean_kernel
def find_part(grid: ViewGrid, column: int, x: float) -> int:
    """Which part of a column a value is in. Grows with the value."""
    at = x * grid.part_scale[column] - grid.part_offset[column]
    at = at if at > 0.0 else 0.0
    return int(at if at < grid.last_part[column] else grid.last_part[column])


@lean_kernel
def find_rows(grid: ViewGrid, is_chosen: Bools, rows: ViewRows, out_row: Ints) -> int:
    """The rows that are there, not hot, and in chosen parts; how many."""
    mark = rows.mark
    n_found = 0
    for row in range(len(mark)):
        if mark[row] == THERE:
            part = 0
            for c in range(rows.values.shape[0]):
                part += find_part(grid, c, rows.values[c, row]) * grid.part_stride[c]
            out_row[n_found] = row
            n_found += 1 if is_chosen[part] else 0
    return n_found


@lean_kernel
def heat_parts(grid: ViewGrid, is_new: Bools, waiting: Ints, out_touched: Bools) -> None:
    """Mark the parts that new hot cells reach into; `waiting` (3, columns) is scratch."""
    n_columns = len(grid.bins)
    for cell in range(1, len(is_new)):
        if not is_new[cell]:
            continue
        rest = cell - 1
        for c in range(n_columns - 1, -1, -1):
            b = rest // grid.stride[c]
            rest -= b * grid.stride[c]
            waiting[0, c] = find_part(grid, c, grid.edge[c, b])
            waiting[1, c] = find_part(grid, c, grid.edge[c, b + 1])
            waiting[2, c] = waiting[0, c]
        c = 0
        while c < n_columns or n_columns == 0:
            part = 0
            for i in range(n_columns):
                part += waiting[2, i] * grid.part_stride[i]
            grid.hot_parts[part // 8] |= np.uint8(1 << (part % 8))
            out_touched[part] = True
            # Count on, the first column fastest.
            c = 0
            while c < n_columns and waiting[2, c] == waiting[1, c]:
                waiting[2, c] = waiting[0, c]
                c += 1
            if c == n_columns:
                break
            waiting[2, c] += 1


@lean_kernel
def bound_tile(
    ranking: ViewRanking,
    theta: Floats,
    first: int,
    n_lanes: int,
    low: Floats,
    high: Floats,
    stack_low: Floats,
    stack_high: Floats,
    least: Floats,
    most: Floats,
) -> None:
    """The smallest and largest key that a row in one box may have, for `n_lanes` lanes from `first` on."""
    term_column = ranking.term_column
    key_sign = ranking.key_sign
    if len(term_column) == 0:
        # A literal False would make a signature of its own.
        bound_block(
            ranking.program, low, high, ranking.first_column, zero(), theta, first, n_lanes == 0, n_lanes,
            stack_low, stack_high,
        )  # fmt: skip
        for j in range(n_lanes):
            most[j] = stack_high[0, j] if key_sign > 0 else -stack_low[0, j]
            least[j] = stack_low[0, j] if key_sign > 0 else -stack_high[0, j]
        return
    # What the interpreter would find for a weighted sum, in a tenth of the time.
    for j in range(n_lanes):
        most[j] = -0.0
        least[j] = -0.0
    for i in range(len(term_column)):
        lower = low[ranking.first_column + term_column[i], 0] * key_sign
        upper = high[ranking.first_column + term_column[i], 0] * key_sign
        thetas = theta[ranking.term_theta[i], first : first + n_lanes]
        for j in range(n_lanes):
            a = lower * thetas[j]
            b = upper * thetas[j]
            # No number, which infinities may make, stays one.
            most[j] += a if a > b else b
            least[j] += b if a > b else a


@lean_kernel
def mark_cells(grid: ViewGrid, node: Ints, at: Ints, byte: int, bit: int, out_is_new: Bools) -> None:
    """Let all cells of a part of the grid know a tile; `at` (columns,) is scratch."""
    n_columns = len(grid.bins)
    for c in range(n_columns):
        at[c] = node[2 * c]
    while True:
        cell = 1
        for c in range(n_columns):
            cell += at[c] * grid.stride[c]
        grid.reach[cell, byte] |= np.uint8(bit)
        if not grid.is_hot[cell]:
            grid.is_hot[cell] = True
            out_is_new[cell] = True
        # Count on, the first column fastest.
        c = 0
        while c < n_columns and at[c] == node[2 * c + 1] - 1:
            at[c] = node[2 * c]
            c += 1
        if c == n_columns:
            return
        at[c] += 1


@lean_kernel
def reach_cells(
    ranking: ViewRanking,
    lanes: ViewLanes,
    first: int,
    n_lanes: int,
    grid: ViewGrid,
    tile: int,
    low: Floats,
    high: Floats,
    stack_low: Floats,
    stack_high: Floats,
    bounds: Floats,
    waiting: Ints,
    out_is_new: Bools,
) -> None:
    """Make the tile known to every cell where one of `n_lanes` lanes from `first` on may have a row it wants.

    Parts of the grid are halved until no lane reaches into them, one wants all that may be there, or they are
    single cells. `low` and `high` (columns, 1), `bounds` (2, lanes) and `waiting` (levels, 2 * columns) are
    scratch. `out_is_new` gets the cells that turn hot.
    """
    n_columns = len(grid.bins)
    n_dimensions = lanes.lo.shape[0]
    base = lanes.base[first : first + n_lanes]
    least = bounds[0]
    most = bounds[1]
    byte = tile // 8
    bit = 1 << (tile % 8)
    # The first is what cells are counted with.
    size = 2
    for c in range(n_columns):
        waiting[1, 2 * c] = 0
        waiting[1, 2 * c + 1] = grid.bins[c]
    while size > 1:
        size -= 1
        node = waiting[size]
        widest = 0
        for c in range(n_columns):
            low[c, 0] = grid.edge[c, node[2 * c]]
            high[c, 0] = grid.edge[c, node[2 * c + 1]]
            if node[2 * c + 1] - node[2 * c] > node[2 * widest + 1] - node[2 * widest]:
                widest = c
        bound_tile(ranking, lanes.theta, first, n_lanes, low, high, stack_low, stack_high, least, most)
        n_reaching = 0
        n_sure = 0
        for j in range(n_lanes):
            # Where infinities make the bound no number, it may be anything.
            n_reaching += 1 if base[j] == base[j] and not most[j] < base[j] else 0
            n_sure += 1 if least[j] >= base[j] else 0
        if n_reaching > 0 and n_dimensions > 0:
            n_sure = 0
            n_reaching = 0
            for j in range(n_lanes):
                is_inside = base[j] == base[j] and not most[j] < base[j]
                for d in range(n_dimensions):
                    if not (lanes.lo[d, first + j] <= high[d, 0] and low[d, 0] <= lanes.hi[d, first + j]):
                        is_inside = False
                if is_inside:
                    n_reaching += 1
                    break
        if n_reaching == 0:
            continue
        if n_sure > 0 or n_columns == 0 or node[2 * widest + 1] - node[2 * widest] == 1:
            mark_cells(grid, node, waiting[0], byte, bit, out_is_new)
            continue
        begin = node[2 * widest]
        end = node[2 * widest + 1]
        middle = (begin + end) // 2
        for i in range(2 * n_columns):
            waiting[size + 1, i] = node[i]
        waiting[size, 2 * widest + 1] = middle
        waiting[size + 1, 2 * widest] = middle
        size += 2
