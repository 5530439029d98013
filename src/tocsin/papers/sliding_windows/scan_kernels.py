"""Kernels of the scan: top-k lists that are patched, and ranked again only when they run short.

A row's *place* in a ranking is a pair, larger first: its key (the score, or its negative where small
scores come first) and its tie (`born`, or its negative where older rows come first). Places are
distinct. Each subscription has a list and a floor, and always

    the list holds, in order, exactly the rows inside the box whose place is not below the floor.

The answer is the first k of the list. The list holds some more, so that rows may leave it; only when
fewer than k are left, and the floor says that others exist, are all rows ranked again.
"""

from __future__ import annotations

import numpy as np

from tocsin.arrays.changes import ENTER, LEAVE, UPDATE, ChangeSet
from tocsin.arrays.jit import kernel, zero
from tocsin.arrays.types import Bools, Floats, Longs
from tocsin.kernels.scoring import BLOCK, score_tile, tile_stride, tile_width
from tocsin.kernels.status import DONE, FULL, N_OUT, OWN, POOL_FULL, STEP
from tocsin.papers.sliding_windows.scan_columns import (
    HIGHEST_TIE,
    ScanEntries,
    ScanPool,
    ScanRanking,
    ScanRows,
    ScanScratch,
    ScanSubscriptions,
)

#: The op of a row that need not be reported.
UNCHANGED = -1

#: Places of the cursor beyond those that all cursors have: the subscription, whether the step's rows are
#: stored, and whether any of them is in a list;
SUBSCRIPTION = OWN
IS_OPEN = OWN + 1
IS_LISTED = OWN + 2
#: and, not reset by a delta, how many rows there are, and where the pool's free part begins.
TRANSIENT = OWN + 3
N_ROWS = TRANSIENT
POOL_END = TRANSIENT + 1
STATE_SIZE = TRANSIENT + 2

#: Ranks below all other ties.
LOWEST_TIE = -(2**63)


@kernel
def initial_size(k: int) -> int:
    """Largest length of a list that was just ranked."""
    return k + k // 2 + 8


@kernel
def max_size(k: int) -> int:
    """Largest length of a list. Between the initial size and this, arrivals and departures balance."""
    return 2 * k + 16


@kernel
def is_before(key: float, tie: int, other_key: float, other_tie: int) -> bool:
    """Whether one place ranks before another."""
    return key > other_key or (key == other_key and tie > other_tie)


@kernel
def is_inside(columns: Floats, row: int, lo: Floats, hi: Floats, slot: int) -> bool:
    """Whether a row is inside a subscription's box."""
    for d in range(lo.shape[0]):
        x = columns[d, row]
        if not (lo[d, slot] <= x and x <= hi[d, slot]):
            return False
    return True


@kernel
def sift_down(scratch: ScanScratch, size: int, key: float, tie: int, row: int) -> None:
    """Replace the heap's worst candidate, and restore the heap."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        keys = scratch.heap_key
        ties = scratch.heap_tie
        if child + 1 < size and is_before(keys[child], ties[child], keys[child + 1], ties[child + 1]):
            child += 1
        if not is_before(key, tie, keys[child], ties[child]):
            break
        keys[at] = keys[child]
        ties[at] = ties[child]
        scratch.heap_row[at] = scratch.heap_row[child]
        at = child
    scratch.heap_key[at] = key
    scratch.heap_tie[at] = tie
    scratch.heap_row[at] = row


@kernel
def push_bounded(scratch: ScanScratch, size: int, limit: int, key: float, tie: int, row: int) -> int:
    """Push a candidate onto a heap of the best `limit`; returns its new size."""
    if size == limit:
        if is_before(key, tie, scratch.heap_key[0], scratch.heap_tie[0]):
            sift_down(scratch, size, key, tie, row)
        return size
    at = size
    while at > 0:
        parent = (at - 1) // 2
        if not is_before(scratch.heap_key[parent], scratch.heap_tie[parent], key, tie):
            break
        scratch.heap_key[at] = scratch.heap_key[parent]
        scratch.heap_tie[at] = scratch.heap_tie[parent]
        scratch.heap_row[at] = scratch.heap_row[parent]
        at = parent
    scratch.heap_key[at] = key
    scratch.heap_tie[at] = tie
    scratch.heap_row[at] = row
    return size + 1


@kernel
def sort_heap(scratch: ScanScratch, size: int) -> None:
    """Sort the heap, best first."""
    for i in range(1, size):
        last = size - i
        key = scratch.heap_key[last]
        tie = scratch.heap_tie[last]
        row = scratch.heap_row[last]
        scratch.heap_key[last] = scratch.heap_key[0]
        scratch.heap_tie[last] = scratch.heap_tie[0]
        scratch.heap_row[last] = scratch.heap_row[0]
        sift_down(scratch, last, key, tie, row)


@kernel
def offer_rows(
    ranking: ScanRanking,
    subscriptions: ScanSubscriptions,
    slot: int,
    rows: ScanRows,
    start: int,
    n_rows: int,
    scratch: ScanScratch,
    size: int,
) -> int:
    """Push a block of packed rows, already scored, onto the heap; returns its new size."""
    limit = initial_size(subscriptions.k[slot])
    worst = scratch.heap_key[0] if size == limit else -np.inf
    for i in range(n_rows):
        key = ranking.key_sign * scratch.row_score[i] + 0.0
        if key >= worst and is_inside(rows.values, start + i, subscriptions.lo, subscriptions.hi, slot):
            row = rows.slot[start + i]
            size = push_bounded(scratch, size, limit, key, ranking.tie_sign * rows.born[row], row)
            worst = scratch.heap_key[0] if size == limit else -np.inf
    return size


@kernel
def mark_reached(
    key_sign: float,
    score: Floats,
    n_arrivals: int,
    stride: int,
    floor_key: Floats,
    floor_tie: Longs,
    k: Longs,
    first: int,
    width: int,
    out_reached: Bools,
) -> None:
    """Mark the subscriptions of a tile that an arriving row reaches, or that were never ranked."""
    for i in range(width):
        out_reached[i] = floor_tie[first + i] == HIGHEST_TIE and k[first + i] > 0
    if width == 1:
        floor = floor_key[first]
        for r in range(n_arrivals):
            out_reached[0] |= key_sign * score[r] >= floor
        return
    floors = floor_key[first : first + width]
    for r in range(n_arrivals):
        for i in range(width):
            out_reached[i] |= key_sign * score[r * stride + i] >= floors[i]


@kernel
def mark_listed(
    subscriptions: ScanSubscriptions,
    first: int,
    width: int,
    pool: ScanPool,
    rows: ScanRows,
    out_reached: Bools,
) -> None:
    """Mark the subscriptions of a tile that have a row of the step in their list."""
    for i in range(width):
        start = subscriptions.list_start[first + i]
        for at in range(start, start + subscriptions.list_size[first + i]):
            if rows.entry[pool.row[at]] >= 0:
                out_reached[i] = True
                break


@kernel
def find_candidates(
    ranking: ScanRanking,
    subscriptions: ScanSubscriptions,
    slot: int,
    entries: ScanEntries,
    start: int,
    n_arrivals: int,
    offset: int,
    stride: int,
    scratch: ScanScratch,
) -> int:
    """Push the step's rows that reach the floor onto the heap; returns its size."""
    floor_key = subscriptions.floor_key[slot]
    floor_tie = subscriptions.floor_tie[slot]
    limit = max_size(subscriptions.k[slot])
    size = zero()
    for i in range(n_arrivals):
        key = ranking.key_sign * scratch.score[i * stride + offset] + 0.0
        if key >= floor_key:
            e = start + i
            tie = ranking.tie_sign * entries.born_after[e]
            if not is_before(floor_key, floor_tie, key, tie) and is_inside(
                entries.after, e, subscriptions.lo, subscriptions.hi, slot
            ):
                size = push_bounded(scratch, size, limit, key, tie, entries.row[e])
    return size


@kernel
def count_stayers(subscriptions: ScanSubscriptions, slot: int, pool: ScanPool, rows: ScanRows) -> int:
    """How many rows of the list are not in the step."""
    start = subscriptions.list_start[slot]
    count = 0
    for i in range(start, start + subscriptions.list_size[slot]):
        if rows.entry[pool.row[i]] < 0:
            count += 1
    return count


@kernel
def is_list_short(subscriptions: ScanSubscriptions, slot: int, size: int) -> bool:
    """Whether a list of `size` is shorter than k while rows below its floor may exist."""
    is_bottom = subscriptions.floor_key[slot] == -np.inf and subscriptions.floor_tie[slot] == LOWEST_TIE
    return size < subscriptions.k[slot] and not is_bottom


@kernel
def merge_lists(
    ranking: ScanRanking,
    subscriptions: ScanSubscriptions,
    slot: int,
    pool: ScanPool,
    rows: ScanRows,
    scratch: ScanScratch,
    n_candidates: int,
    is_reranked: bool,
) -> int:
    """Merge the sorted candidates with the rows of the old list that are not in the step; returns the length.

    If `is_reranked`, the new list is the candidates alone.
    """
    sort_heap(scratch, n_candidates)
    at = subscriptions.list_start[slot]
    end = at if is_reranked else at + subscriptions.list_size[slot]
    limit = max_size(subscriptions.k[slot])
    c = 0
    size = 0
    while size < limit:
        while at < end and rows.entry[pool.row[at]] >= 0:
            at += 1
        if at == end and c == n_candidates:
            break
        is_old = at < end and c == n_candidates
        if at < end and c < n_candidates:
            tie = ranking.tie_sign * rows.born[pool.row[at]]
            is_old = is_before(pool.key[at], tie, scratch.heap_key[c], scratch.heap_tie[c])
        if is_old:
            scratch.new_key[size] = pool.key[at]
            scratch.new_row[size] = pool.row[at]
            at += 1
        else:
            scratch.new_key[size] = scratch.heap_key[c]
            scratch.new_row[size] = scratch.heap_row[c]
            c += 1
        size += 1
    return size


@kernel
def write_changes(
    state: Longs,
    ranking: ScanRanking,
    subscriptions: ScanSubscriptions,
    slot: int,
    pool: ScanPool,
    rows: ScanRows,
    entries: ScanEntries,
    scratch: ScanScratch,
    n_new: int,
    out: ChangeSet,
) -> bool:
    """Write how the first `n_new` of the new list differ from the old answer; False if `out` is full."""
    start = subscriptions.list_start[slot]
    n_old = min(subscriptions.k[slot], subscriptions.list_size[slot])
    for i in range(n_old):
        rows.mark[pool.row[start + i]] = i
    n_stays = 0
    n_reported = 0
    for j in range(n_new):
        row = scratch.new_row[j]
        i = rows.mark[row]
        scratch.new_op[j] = ENTER
        if i >= 0:
            rows.mark[row] = -1
            n_stays += 1
            e = rows.entry[row]
            is_same = pool.key[start + i] == scratch.new_key[j] and not (e >= 0 and entries.touched[e])
            scratch.new_op[j] = UNCHANGED if is_same else UPDATE
        if scratch.new_op[j] != UNCHANGED:
            n_reported += 1

    n_out = state[N_OUT]
    has_capacity = n_out + n_old - n_stays + n_reported <= len(out.step)
    for i in range(n_old):
        row = pool.row[start + i]
        if rows.mark[row] < 0:
            continue
        rows.mark[row] = -1
        if has_capacity:
            out.step[n_out] = state[STEP]
            out.subscription[n_out] = slot
            out.op[n_out] = LEAVE
            out.row[n_out] = row
            out.score[n_out] = np.nan
            out.rank[n_out] = 0
            n_out += 1
    if not has_capacity:
        return False
    if n_reported > 0:
        for op in range(UPDATE, ENTER + 1):
            for j in range(n_new):
                if scratch.new_op[j] == op:
                    out.step[n_out] = state[STEP]
                    out.subscription[n_out] = slot
                    out.op[n_out] = op
                    out.row[n_out] = scratch.new_row[j]
                    # Adding zero turns minus zero into zero.
                    out.score[n_out] = ranking.key_sign * scratch.new_key[j] + 0.0
                    out.rank[n_out] = j + 1
                    n_out += 1
    state[N_OUT] = n_out
    return True


@kernel
def new_capacity(subscriptions: ScanSubscriptions, slot: int, size: int) -> int:
    """The new capacity of a list of `size`: exact at first, later with half as much again."""
    if subscriptions.list_capacity[slot] == 0:
        return size
    return min(size + size // 2 + 1, max_size(subscriptions.k[slot]))


@kernel
def fits_pool(state: Longs, subscriptions: ScanSubscriptions, slot: int, pool: ScanPool, size: int) -> bool:
    """Whether a list of `size` fits, where it is or at the pool's end."""
    if size <= subscriptions.list_capacity[slot]:
        return True
    return bool(state[POOL_END] + new_capacity(subscriptions, slot, size) <= len(pool.row))


@kernel
def store_list(
    state: Longs,
    subscriptions: ScanSubscriptions,
    slot: int,
    pool: ScanPool,
    rows: ScanRows,
    scratch: ScanScratch,
    size: int,
) -> None:
    """Store the new list. It must fit the pool."""
    start = subscriptions.list_start[slot]
    for i in range(start, start + subscriptions.list_size[slot]):
        rows.listings[pool.row[i]] -= 1
    if size > subscriptions.list_capacity[slot]:
        start = state[POOL_END]
        subscriptions.list_start[slot] = start
        subscriptions.list_capacity[slot] = new_capacity(subscriptions, slot, size)
        state[POOL_END] += subscriptions.list_capacity[slot]
    for i in range(size):
        pool.row[start + i] = scratch.new_row[i]
        pool.key[start + i] = scratch.new_key[i]
        rows.listings[scratch.new_row[i]] += 1
    subscriptions.list_size[slot] = size


@kernel
def replace_list(
    state: Longs,
    ranking: ScanRanking,
    subscriptions: ScanSubscriptions,
    slot: int,
    pool: ScanPool,
    rows: ScanRows,
    entries: ScanEntries,
    scratch: ScanScratch,
    size: int,
    is_reranked: bool,
    out: ChangeSet,
) -> int:
    """Write what the new list changes, then replace the old list and its floor."""
    k = subscriptions.k[slot]
    if not fits_pool(state, subscriptions, slot, pool, size):
        return POOL_FULL
    is_reporting = len(entries.row) > 0
    if is_reporting and not write_changes(
        state, ranking, subscriptions, slot, pool, rows, entries, scratch, min(k, size), out
    ):
        return FULL
    # A list that was not cut holds every row above its old floor or, if it was ranked again, every row.
    is_cut = size == (initial_size(k) if is_reranked else max_size(k))
    if is_cut:
        subscriptions.floor_key[slot] = scratch.new_key[size - 1]
        subscriptions.floor_tie[slot] = ranking.tie_sign * rows.born[scratch.new_row[size - 1]]
    elif is_reranked:
        subscriptions.floor_key[slot] = -np.inf
        subscriptions.floor_tie[slot] = LOWEST_TIE
    store_list(state, subscriptions, slot, pool, rows, scratch, size)
    return DONE


@kernel
def move_rows(state: Longs, rows: ScanRows, entries: ScanEntries, start: int, stop: int) -> None:
    """Store a step's rows: unpack removed ones, pack new ones, and record each row's entry."""
    state[IS_LISTED] = 0
    for e in range(start, stop):
        row = entries.row[e]
        rows.entry[row] = e
        if rows.listings[row] > 0:
            state[IS_LISTED] = 1
        if entries.born_after[e] < 0:
            if entries.born_before[e] >= 0:
                # The last packed row fills the gap.
                state[N_ROWS] -= 1
                last = state[N_ROWS]
                gap = rows.position[row]
                rows.slot[gap] = rows.slot[last]
                rows.position[rows.slot[gap]] = gap
                for c in range(rows.values.shape[0]):
                    rows.values[c, gap] = rows.values[c, last]
        else:
            if entries.born_before[e] < 0:
                rows.position[row] = state[N_ROWS]
                rows.slot[state[N_ROWS]] = row
                state[N_ROWS] += 1
            for c in range(rows.values.shape[0]):
                rows.values[c, rows.position[row]] = entries.after[c, e]
        rows.born[row] = entries.born_after[e]


@kernel
def apply_steps(
    state: Longs,
    ranking: ScanRanking,
    subscriptions: ScanSubscriptions,
    n_subscriptions: int,
    pool: ScanPool,
    rows: ScanRows,
    entries: ScanEntries,
    scratch: ScanScratch,
    out: ChangeSet,
) -> int:
    """Apply the steps in turn, from `state` on, and write their changes.

    A step without entries ranks new subscriptions, and writes nothing.
    """
    # The scorer is large and inlined into its callers: hence it is called in this kernel only.
    while state[STEP] < len(entries.bounds) - 1:
        start = entries.bounds[state[STEP]]
        stop = entries.bounds[state[STEP] + 1]
        n_arrivals = entries.n_arrivals[state[STEP]]
        if state[IS_OPEN] == 0:
            move_rows(state, rows, entries, start, stop)
            state[IS_OPEN] = 1
        while state[SUBSCRIPTION] < n_subscriptions:
            first = state[SUBSCRIPTION]
            width = tile_width(n_arrivals, n_subscriptions - first)
            if width == 1 and subscriptions.k[first] == 0:
                state[SUBSCRIPTION] += 1
                continue
            stride = tile_stride(width)
            score_tile(
                ranking.program, entries.after, ranking.first_column, start, n_arrivals,
                subscriptions.theta, first, width, scratch.stack, scratch.score,
            )  # fmt: skip
            # Few subscriptions are reached; only they are processed further.
            mark_reached(
                ranking.key_sign, scratch.score, n_arrivals, stride, subscriptions.floor_key,
                subscriptions.floor_tie, subscriptions.k, first, width, scratch.is_reached,
            )  # fmt: skip
            if state[IS_LISTED] != 0:
                mark_listed(subscriptions, first, width, pool, rows, scratch.is_reached)
            for offset in range(width):
                if not scratch.is_reached[offset]:
                    continue
                slot = first + offset
                n_candidates = find_candidates(
                    ranking, subscriptions, slot, entries, start, n_arrivals, offset, stride, scratch
                )
                n_stayers = count_stayers(subscriptions, slot, pool, rows)
                is_short = is_list_short(subscriptions, slot, n_candidates + n_stayers)
                if n_candidates == 0 and n_stayers == subscriptions.list_size[slot] and not is_short:
                    continue
                if is_short:
                    n_candidates = zero()
                    at = zero()
                    while at < state[N_ROWS]:
                        n = min(BLOCK, state[N_ROWS] - at)
                        score_tile(
                            ranking.program, rows.values, ranking.first_column, at, n,
                            subscriptions.theta, slot, min(1, n), scratch.stack, scratch.row_score,
                        )  # fmt: skip
                        n_candidates = offer_rows(
                            ranking, subscriptions, slot, rows, at, n, scratch, n_candidates
                        )
                        at += n
                size = merge_lists(ranking, subscriptions, slot, pool, rows, scratch, n_candidates, is_short)
                status = replace_list(
                    state, ranking, subscriptions, slot, pool, rows, entries, scratch, size, is_short, out
                )
                if status != DONE:
                    state[SUBSCRIPTION] = slot
                    return status
            state[SUBSCRIPTION] = first + width
        for e in range(start, stop):
            rows.entry[entries.row[e]] = -1
        state[STEP] += 1
        state[SUBSCRIPTION] = 0
        state[IS_OPEN] = 0
    return DONE
