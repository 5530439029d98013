"""Kernels of rows in the grid: storing rows, the cell of a row, and the cells that a subscription reaches."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.intrinsics import copy_streaming
from tocsin.arrays.jit import lean_kernel, zero
from tocsin.arrays.types import Bools, Bytes, Floats, Ints, Longs
from tocsin.indexes.preferences.candidate_lists.layout import (
    CANDIDATE,
    N_ARRIVING,
    N_LEAVING,
    N_ROWS,
    NO_ROW,
    STORED,
    CandidateRanking,
    DeltaEntries,
    GridScratch,
    PatchScratch,
    RowGrid,
    StoredRows,
    SubscriptionLanes,
)
from tocsin.kernels.score_bounds import bound_block

#: Buckets per column, which map to bins.
BUCKETS = 1024

#: Rows that are stored together, at most BLOCK.
STORE_BATCH = 256

#: Kinds of runs.
MIXED = 0
ALL_NEW = 1
ALL_REMOVED = 2


@lean_kernel
def locate_rows(
    grid: RowGrid, values: Floats, is_row_major: bool, chosen: Ints, n: int, out_cell: Ints
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
            # The difference of products is finite where the product of the difference is not.
            at = int(x * scale[c] - edge[c, 0] * scale[c])
            b = bucket[c, max(0, min(BUCKETS - 1, at))]
            # The bucket maps to the bin at its beginning, up to rounding.
            while x >= edge[c, b + 1]:
                b += 1
            while x < edge[c, b]:
                b -= 1
            cell += b * stride[c]
        out_cell[i] = cell


@lean_kernel
def find_part(grid: RowGrid, column: int, x: float) -> int:
    """The part of a column that a value is in, monotone in the value."""
    at = x * grid.part_scale[column] - grid.part_offset[column]
    at = at if at > 0.0 else 0.0
    return int(at if at < grid.last_part[column] else grid.last_part[column])


@lean_kernel
def find_rows(grid: RowGrid, is_chosen: Bools, rows: StoredRows, out_row: Ints) -> int:
    """List the rows in chosen parts that are not candidates; returns how many."""
    mark = rows.mark
    n_found = 0
    for row in range(len(mark)):
        if mark[row] == STORED:
            part = 0
            for c in range(rows.values.shape[0]):
                part += find_part(grid, c, rows.values[c, row]) * grid.part_stride[c]
            out_row[n_found] = row
            n_found += 1 if is_chosen[part] else 0
    return n_found


@lean_kernel
def activate_parts(grid: RowGrid, is_new: Bools, part_range: Ints, out_touched: Bools) -> None:
    """Activate the parts that newly active cells reach into; `part_range` (3, columns) is scratch."""
    n_columns = len(grid.bins)
    for cell in range(1, len(is_new)):
        if not is_new[cell]:
            continue
        rest = cell - 1
        for c in range(n_columns - 1, -1, -1):
            b = rest // grid.stride[c]
            rest -= b * grid.stride[c]
            part_range[0, c] = find_part(grid, c, grid.edge[c, b])
            part_range[1, c] = find_part(grid, c, grid.edge[c, b + 1])
            part_range[2, c] = part_range[0, c]
        c = 0
        while c < n_columns or n_columns == 0:
            part = 0
            for i in range(n_columns):
                part += part_range[2, i] * grid.part_stride[i]
            grid.active_parts[part // 8] |= np.uint8(1 << (part % 8))
            out_touched[part] = True
            # Increment, the first column fastest.
            c = 0
            while c < n_columns and part_range[2, c] == part_range[1, c]:
                part_range[2, c] = part_range[0, c]
                c += 1
            if c == n_columns:
                break
            part_range[2, c] += 1


@lean_kernel
def bound_tile(
    ranking: CandidateRanking,
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
    """Bounds of the key of any row in one box, for `n_lanes` lanes from `first` on."""
    term_column = ranking.term_column
    key_sign = ranking.key_sign
    if len(term_column) == 0:
        # A literal False would compile another signature.
        bound_block(
            ranking.program, low, high, ranking.first_column, zero(), theta, first, n_lanes == 0, n_lanes,
            stack_low, stack_high,
        )  # fmt: skip
        for j in range(n_lanes):
            most[j] = stack_high[0, j] if key_sign > 0 else -stack_low[0, j]
            least[j] = stack_low[0, j] if key_sign > 0 else -stack_high[0, j]
        return
    # The interpreter's bounds of a weighted sum, in a tenth of the time.
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
            # NaN, which infinities may produce, stays NaN.
            most[j] += a if a > b else b
            least[j] += b if a > b else a


@lean_kernel
def mark_cells(grid: RowGrid, node: Ints, at: Ints, byte: int, bit: int, out_is_new: Bools) -> None:
    """Set a tile's bit in all cells of a part of the grid; `at` (columns,) is scratch."""
    n_columns = len(grid.bins)
    for c in range(n_columns):
        at[c] = node[2 * c]
    while True:
        cell = 1
        for c in range(n_columns):
            cell += at[c] * grid.stride[c]
        grid.tile_bits[cell, byte] |= np.uint8(bit)
        if not grid.is_active[cell]:
            grid.is_active[cell] = True
            out_is_new[cell] = True
        # Increment, the first column fastest.
        c = 0
        while c < n_columns and at[c] == node[2 * c + 1] - 1:
            at[c] = node[2 * c]
            c += 1
        if c == n_columns:
            return
        at[c] += 1


@lean_kernel
def mark_reachable_cells(
    ranking: CandidateRanking,
    lanes: SubscriptionLanes,
    first: int,
    n_lanes: int,
    grid: RowGrid,
    tile: int,
    scratch: GridScratch,
    out_is_new: Bools,
) -> None:
    """Set the tile's bit in every cell where a row may reach the refill floor of one of `n_lanes` lanes.

    The lanes begin at `first`. Parts of the grid are halved until no lane reaches into them, every row there
    would reach some lane, or they are single cells. `out_is_new` marks the cells that become active.
    """
    n_columns = len(grid.bins)
    n_dimensions = lanes.lo.shape[0]
    refill_floor = lanes.refill_floor[first : first + n_lanes]
    low, high, stack_low, stack_high, least, most, parts = scratch
    byte = tile // 8
    bit = 1 << (tile % 8)
    # Row 0 counts the cells of a part.
    size = 2
    for c in range(n_columns):
        parts[1, 2 * c] = 0
        parts[1, 2 * c + 1] = grid.bins[c]
    while size > 1:
        size -= 1
        node = parts[size]
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
            # A bound that infinities make NaN may be anything.
            n_reaching += 1 if refill_floor[j] == refill_floor[j] and not most[j] < refill_floor[j] else 0
            n_sure += 1 if least[j] >= refill_floor[j] else 0
        if n_reaching > 0 and n_dimensions > 0:
            n_sure = 0
            n_reaching = 0
            for j in range(n_lanes):
                is_inside = refill_floor[j] == refill_floor[j] and not most[j] < refill_floor[j]
                for d in range(n_dimensions):
                    if not (lanes.lo[d, first + j] <= high[d, 0] and low[d, 0] <= lanes.hi[d, first + j]):
                        is_inside = False
                if is_inside:
                    n_reaching += 1
                    break
        if n_reaching == 0:
            continue
        if n_sure > 0 or n_columns == 0 or node[2 * widest + 1] - node[2 * widest] == 1:
            mark_cells(grid, node, parts[0], byte, bit, out_is_new)
            continue
        begin = node[2 * widest]
        end = node[2 * widest + 1]
        middle = (begin + end) // 2
        for i in range(2 * n_columns):
            parts[size + 1, i] = node[i]
        parts[size, 2 * widest + 1] = middle
        parts[size + 1, 2 * widest] = middle
        size += 2


@lean_kernel
def is_contiguous(row: Ints) -> bool:
    """Whether row slots are consecutive."""
    skew = np.int32(0)
    first = row[0]
    for i in range(len(row)):
        skew |= row[i] - first - np.int32(i)
    return bool(skew == 0)


@lean_kernel
def classify_run(mark: Bytes, born_after: Longs) -> int:
    """The kind of a run of consecutive row slots: all new, all removed, or mixed.

    In a window, mixed runs are the exception.
    """
    n_absent = 0
    for i in range(len(mark)):
        n_absent += 1 if mark[i] == NO_ROW else 0
    # A sign bit, once set, stays.
    after = 0
    not_after = 0
    for i in range(len(born_after)):
        after |= born_after[i]
        not_after |= ~born_after[i]
    if n_absent == len(mark) and after >= 0:
        return ALL_NEW
    if n_absent == 0 and not_after >= 0:
        return ALL_REMOVED
    return MIXED


@lean_kernel
def remove_run(state: Longs, first: int, mark: Bytes, leaving: Ints) -> None:
    """Record that consecutive rows, from entry `first` on, are all removed: faster than `record_rows`."""
    n_leaving = state[N_LEAVING]
    for i in range(len(mark)):
        # Branch-free, because a branch would be mispredicted.
        leaving[n_leaving] = first + i
        n_leaving += mark[i] == CANDIDATE
    for i in range(len(mark)):
        mark[i] = NO_ROW
    state[N_ROWS] -= len(mark)
    state[N_LEAVING] = n_leaving


@lean_kernel
def record_rows(
    state: Longs,
    entries: DeltaEntries,
    first: int,
    n: int,
    rows: StoredRows,
    scratch: PatchScratch,
) -> int:
    """Record which rows of a run exist after the step; returns how many.

    Lists the entries of these rows, and of candidates that leave.
    """
    entry_row = entries.row
    born_after = entries.born_after
    born = rows.born
    mark = rows.mark
    arriving = scratch.batch_rows[0]
    n_leaving = state[N_LEAVING]
    n_arriving = np.uint64(0)
    n_gone = 0
    # Unsigned, so that no index is negative.
    for e in range(np.uint64(first), np.uint64(first + n)):
        row = np.uint64(entry_row[e])
        after = born_after[e]
        before = mark[row]
        born[row] = after
        mark[row] = after >= 0
        arriving[n_arriving] = e
        n_arriving += np.uint64(after >= 0)
        if before != NO_ROW:
            n_gone += 1
            if before == CANDIDATE:
                scratch.leaving[n_leaving] = e
                n_leaving += 1
    state[N_ROWS] += np.int64(n_arriving) - n_gone
    state[N_LEAVING] = n_leaving
    return int(np.int64(n_arriving))


@lean_kernel
def add_parts(x: Floats, scale: float, offset: float, last: float, stride: int, part: Ints) -> None:
    """Add a column's share of the part number of each row."""
    for i in range(len(x)):
        # Branch-free; NaN becomes 0.
        place = x[i] * scale - offset
        place = place if place > 0.0 else 0.0
        place = place if place < last else last
        part[i] += np.int32(place) * stride


@lean_kernel
def store_rows(
    state: Longs,
    entries: DeltaEntries,
    begin: int,
    end: int,
    grid: RowGrid,
    rows: StoredRows,
    scratch: PatchScratch,
) -> int:
    """Store a step's rows; returns how many arrive.

    Lists what `record_rows` does, but of arriving rows only those in active parts.
    """
    after = entries.after
    active_parts = grid.active_parts
    arriving_entries = scratch.batch_rows[0]
    row = scratch.batch_rows[1]
    state[N_LEAVING] = 0
    all_arriving = 0
    n_active = 0
    # Column by column, for as many rows at a time as fit the first-level cache.
    for first in range(begin, end, STORE_BATCH):
        last = min(first + STORE_BATCH, end)
        n = last - first
        start = int(np.int64(entries.row[first]))
        mark = rows.mark[start : start + n]
        kind = MIXED
        if is_contiguous(entries.row[first:last]):
            kind = classify_run(mark, entries.born_after[first:last])
        if kind == ALL_REMOVED:
            remove_run(state, first, mark, scratch.leaving)
            continue
        if kind == ALL_NEW:
            copy_streaming(rows.born[start : start + n], entries.born_after[first:last])
            for i in range(n):
                mark[i] = STORED
            for i in range(n):
                arriving_entries[i] = first + i
            state[N_ROWS] += n
        else:
            n = record_rows(state, entries, first, n, rows, scratch)
        all_arriving += n
        part = scratch.batch_rows[2, :n]
        column = scratch.score[:n]
        for i in range(n):
            part[i] = 0
        if kind == MIXED:
            for i in range(n):
                row[i] = entries.row[np.uint64(arriving_entries[i])]
        for c in range(rows.values.shape[0]):
            if kind == ALL_NEW:
                for i in range(n):
                    column[i] = after[np.uint64(first + i), np.uint64(c)]
                copy_streaming(rows.values[c, start : start + n], column)
            else:
                for i in range(n):
                    column[i] = after[np.uint64(arriving_entries[i]), c]
                for i in range(n):
                    rows.values[c, np.uint64(row[i])] = column[i]
            add_parts(
                column, grid.part_scale[c], grid.part_offset[c], grid.last_part[c], grid.part_stride[c], part
            )
        for i in range(n):
            whole = part[i]
            # Branch-free, because a branch would be mispredicted.
            scratch.arriving[n_active] = arriving_entries[i]
            n_active += (active_parts[np.uint64(whole >> 3)] >> (whole & 7)) & 1
    state[N_ARRIVING] = n_active
    return all_arriving
