"""The top-k computation module: cells are visited in descending order of the upper bound of their keys."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.jit import lean_kernel, zero
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.kernels.score_bounds import bound_block
from tocsin.kernels.scoring import score_block
from tocsin.papers.sliding_windows.tma_columns import (
    LONGEST,
    N_CELLS,
    N_SEARCHES,
    MonitoringGrid,
    MonitoringQueries,
    MonitoringRanking,
    MonitoringScratch,
    PointLists,
)


@lean_kernel
def bound_cell(
    scorer: MonitoringRanking,
    queries: MonitoringQueries,
    slot: int,
    grid: MonitoringGrid,
    cell: int,
    scratch: MonitoringScratch,
) -> float:
    """Upper bound of the key of any row in the cell, by the interpreter."""
    for c in range(len(grid.low)):
        place = grid.place[cell, c]
        scratch.low[c, 0] = grid.cell_low[c, place]
        scratch.high[c, 0] = grid.cell_high[c, place]
    none = zero()
    # A literal False would compile another signature.
    bound_block(
        scorer.program, scratch.low, scratch.high, none, none, queries.theta, slot, none > 0, none + 1,
        scratch.stack_low, scratch.stack_high,
    )  # fmt: skip
    return float(scratch.stack_high[0, 0] if scorer.key_sign > 0 else -scratch.stack_low[0, 0])


@lean_kernel
def push_cell(keys: Floats, cells: Ints, size: int, key: float, cell: int) -> None:
    """Push a cell onto a max-heap of `size`."""
    at = size
    while at > 0:
        parent = (at - 1) // 2
        if keys[parent] >= key:
            break
        keys[at] = keys[parent]
        cells[at] = cells[parent]
        at = parent
    keys[at] = key
    cells[at] = cell


@lean_kernel
def pop_cell(keys: Floats, cells: Ints, size: int) -> None:
    """Pop the top of a heap of `size` cells."""
    key = keys[size - 1]
    cell = cells[size - 1]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size - 1:
            break
        if child + 1 < size - 1 and keys[child + 1] > keys[child]:
            child += 1
        if keys[child] <= key:
            break
        keys[at] = keys[child]
        cells[at] = cells[child]
        at = child
    keys[at] = key
    cells[at] = cell


@lean_kernel
def score_alone(
    scorer: MonitoringRanking,
    queries: MonitoringQueries,
    slot: int,
    points: PointLists,
    row: int,
    scratch: MonitoringScratch,
) -> float:
    """The key of one row, by the interpreter."""
    for c in range(scratch.low.shape[0]):
        scratch.low[c, 0] = points.values[row, scorer.first_column + c]
    none = zero()
    # A literal False would compile another signature.
    score_block(
        scorer.program, scratch.low, none, none, queries.theta, slot, none > 0, none + 1,
        scratch.stack_low, scratch.score,
    )  # fmt: skip
    return float(scorer.key_sign * scratch.score[0] + 0.0)


@lean_kernel
def is_inside(queries: MonitoringQueries, slot: int, points: PointLists, row: int) -> bool:
    """Whether a row is inside a query's box."""
    for d in range(queries.lo.shape[1]):
        x = points.values[row, d]
        if not (queries.lo[slot, d] <= x and x <= queries.hi[slot, d]):
            return False
    return True


@lean_kernel
def search(
    state: Longs,
    scorer: MonitoringRanking,
    queries: MonitoringQueries,
    slot: int,
    grid: MonitoringGrid,
    points: PointLists,
    scratch: MonitoringScratch,
    known: float,
) -> int:
    """The top-k computation module, with the cleaning of influence lists; returns how many rows were found.

    The k-th key cannot be above `known`, which is NaN for a new query. So all cells that may hold such a key
    are visited anyway, in any order. They influence the query already, and are on a stack at the other end of
    the heap's memory; each is reached from one cell only, the one before it in the last column in which it is
    not the first.
    """
    side = grid.side
    cell_low = grid.cell_low
    cell_high = grid.cell_high
    cell_start = grid.start
    cell_capacity = grid.capacity
    cell_first = grid.first
    cell_points = grid.n_points
    bits = grid.influence
    n_influence = grid.n_influence
    n_columns = len(grid.low)
    k = queries.k[slot]
    n_dimensions = queries.lo.shape[1]
    weight = queries.weight[slot]
    direction = queries.direction[slot]
    values = points.list_values
    point_list = points.list
    born = points.born
    term_column = scorer.term_column
    n_terms = len(term_column)
    strides = grid.stride
    places = grid.place
    share = scratch.share
    stamp = scratch.stamp
    best_key = scratch.best_key
    best_tie = scratch.best_tie
    best_row = scratch.best_row
    heap_key = scratch.heap_key
    heap_cell = scratch.heap_cell
    word = slot // 64
    bit = np.uint64(1) << np.uint64(slot % 64)
    none = np.uint64(0)
    scratch.searches[0] += 1
    now = scratch.searches[0]
    state[N_SEARCHES] += 1
    for t in range(n_terms):
        for place in range(side):
            # A weight of zero adds nothing, except to infinite values, whose key is NaN.
            share[t, place] = 0.0
            if weight[t] > 0.0:
                share[t, place] = weight[t] * cell_high[term_column[t], place]
            elif weight[t] < 0.0:
                share[t, place] = weight[t] * cell_low[term_column[t], place]
    cell = 0
    for c in range(n_columns):
        cell += strides[c] * (side - 1 if direction[c] > 0 else 0)
    # The first cell is visited whatever its key is.
    heap_key[0] = np.inf
    heap_cell[0] = cell
    stamp[cell] = now
    n_heap = zero() + 1
    top = len(heap_cell)
    size = 0
    while True:
        is_certain = top < len(heap_cell)
        if is_certain:
            cell = heap_cell[top]
            top += 1
        elif n_heap > 0 and (size < k or heap_key[0] >= best_key[size - 1]):
            cell = heap_cell[0]
            pop_cell(heap_key, heap_cell, n_heap)
            n_heap -= 1
            if bits[cell, word] & bit == none:
                bits[cell, word] |= bit
                n_influence[cell] += 1
        else:
            break
        state[N_CELLS] += 1
        for p in range(cell_first[cell], cell_first[cell] + cell_points[cell]):
            i = cell_start[cell] + (p & (cell_capacity[cell] - 1))
            if n_terms == 0:
                key = score_alone(scorer, queries, slot, points, point_list[i], scratch)
            else:
                key = weight[0] * values[i, 0]
                for t in range(1, n_terms):
                    key += weight[t] * values[i, t]
                key += 0.0
            if not (key >= best_key[size - 1] if size == k else key == key):
                continue
            row = point_list[i]
            tie = scorer.tie_sign * born[row]
            if size == k and key == best_key[size - 1] and tie < best_tie[size - 1]:
                continue
            if n_dimensions > 0 and not is_inside(queries, slot, points, row):
                continue
            size = min(size + 1, k)
            at = size - 1
            while at > 0 and (key > best_key[at - 1] or (key == best_key[at - 1] and tie > best_tie[at - 1])):
                best_key[at] = best_key[at - 1]
                best_tie[at] = best_tie[at - 1]
                best_row[at] = best_row[at - 1]
                at -= 1
            best_key[at] = key
            best_tie[at] = tie
            best_row[at] = row
        for c in range(n_columns - 1, -1, -1):
            following = cell - direction[c] * strides[c]
            is_last = places[cell, c] == (0 if direction[c] > 0 else side - 1)
            if not is_last and (is_certain or stamp[following] != now):
                stamp[following] = now
                if n_terms == 0:
                    key = bound_cell(scorer, queries, slot, grid, following, scratch)
                else:
                    key = 0.0
                    for t in range(n_terms):
                        key += share[t, places[following, term_column[t]]]
                    # Infinities cancel: the key may be anything.
                    if np.isnan(key):
                        key = np.inf
                if key >= known:
                    top -= 1
                    heap_cell[top] = following
                else:
                    push_cell(heap_key, heap_cell, n_heap, key, following)
                    n_heap += 1
            if is_certain and places[cell, c] != (side - 1 if direction[c] > 0 else 0):
                break
    # Cells left in the heap do not influence the query any more, nor do the cells behind them.
    while n_heap > 0:
        n_heap -= 1
        cell = heap_cell[n_heap]
        if bits[cell, word] & bit == none:
            continue
        bits[cell, word] ^= bit
        n_influence[cell] -= 1
        for c in range(n_columns):
            following = cell - direction[c] * strides[c]
            is_last = places[cell, c] == (0 if direction[c] > 0 else side - 1)
            if not is_last and stamp[following] != now:
                stamp[following] = now
                heap_cell[n_heap] = following
                n_heap += 1
    return size


@lean_kernel
def store_best(queries: MonitoringQueries, slot: int, scratch: MonitoringScratch, size: int) -> None:
    """Store what a search found as the query's list."""
    for i in range(size):
        queries.list_row[slot, i] = scratch.best_row[i]
        queries.list_key[slot, i] = scratch.best_key[i]
    queries.size[slot] = size
    is_full = size == queries.k[slot]
    queries.is_whole[slot] = not is_full
    queries.top_key[slot] = scratch.best_key[size - 1] if is_full else -np.inf


@lean_kernel
def count_dominance(queries: MonitoringQueries, slot: int, points: PointLists) -> None:
    """Dominance counts of a new list: how many rows rank before each and are newer."""
    rows = queries.list_row
    for i in range(queries.size[slot]):
        count = 0
        for j in range(i):
            if points.born[rows[slot, j]] > points.born[rows[slot, i]]:
                count += 1
        queries.list_count[slot, i] = count


@lean_kernel
def compute_slots(
    state: Longs,
    scorer: MonitoringRanking,
    queries: MonitoringQueries,
    grid: MonitoringGrid,
    points: PointLists,
    scratch: MonitoringScratch,
    slots: Ints,
    is_skyband: bool,
    is_new: bool,
) -> None:
    """Compute queries from scratch: new ones, or those that have fewer than k rows above their `top_key`."""
    # Separate from the steps: it is large, and would be inlined into them again.
    for i in range(len(slots)):
        slot = int(np.int64(slots[i]))
        known = np.nan if is_new else queries.top_key[slot]
        size = search(state, scorer, queries, slot, grid, points, scratch, known)
        store_best(queries, slot, scratch, size)
        state[LONGEST] = max(state[LONGEST], size)
        if is_skyband:
            count_dominance(queries, slot, points)
