"""Kernels of a step: rows are compared with the tiles of their cells, and the lists they reach are patched.

A row's *place* in a ranking is a pair, larger first: its key (the score, or its negative where small
scores come first) and its tie (`born`, or its negative where older rows come first). Places are
distinct. Each subscription has a list and a floor, and always

    the list holds exactly the rows inside the box whose place is not below the floor, the first k in order.

A step has phases. Rows are stored, and those in active cells join the candidates; removed candidates can
still be read there. Then, for eight tiles at a time: rows that leave are compared with the tiles, then rows
that arrive. Each hit is an event of one lane. It is applied to the list at once where that changes no answer;
other events are chained by lane, and each such lane patches its list. So the lists of a few tiles stay in the
cache until they are done. A list that runs short is refilled from the candidates, which include every row
whose key is not below the refill floor.
"""

from __future__ import annotations

import numpy as np

from tocsin.arrays.argument_packs import ArgumentPack, unpack
from tocsin.arrays.intrinsics import first_bit, mask_reaching, prefetch
from tocsin.arrays.jit import inlined, lean_kernel, zero
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.preferences.candidate_lists.grid_kernels import locate_rows, store_rows
from tocsin.indexes.preferences.candidate_lists.layout import (
    AT_BYTE,
    AT_ROW,
    CANDIDATE,
    MAX_TESTS,
    N_AFFECTED,
    N_ARRIVING,
    N_CANDIDATES,
    N_COMPARED,
    N_EVENTS,
    N_HOLES,
    N_LEAVING,
    N_LISTED_LEAVING,
    N_PENDING,
    N_RAW,
    N_REFILL,
    N_REMAINING,
    N_ROUTED,
    N_ROWS,
    N_TESTS,
    PHASE,
    SHRINK_BELOW,
    TILE,
    CandidateRanking,
    CandidateRows,
    DeltaEntries,
    ListEvents,
    ListPool,
    PatchScratch,
    RowGrid,
    StepOutput,
    StoredRows,
    SubscriptionLanes,
)
from tocsin.indexes.preferences.candidate_lists.list_kernels import initial_size
from tocsin.indexes.preferences.candidate_lists.patch_kernels import (
    emit_changes,
    order_affected,
    patch_lists,
    route_events,
)
from tocsin.indexes.preferences.candidate_lists.rank_kernels import RankingHeap, find_refill_rows
from tocsin.kernels.scoring import score_block
from tocsin.kernels.status import AT, BULK, CROWDED, DONE, EVENTS_FULL, LIST_SHORT, ROWS_FULL, STALE, STEP

#: Phases of a step: the first once, the others for every eight tiles.
STORING = 0
LEAVING = 1
ARRIVING = 2
PATCHING = 3

#: Numbers per cache line.
LINE = 8

#: A step with fewer arriving rows never ranks all rows again.
MIN_BULK_ROWS = 64


@lean_kernel
def is_crowded(state: Longs, count: int, candidates: CandidateRows, scratch: PatchScratch) -> bool:
    """Whether working memory does not fit a delta of `count` entries, or half of the candidates are holes."""
    return bool(
        2 * state[N_HOLES] > state[N_CANDIDATES]
        or state[N_CANDIDATES] + count > len(candidates.row)
        or count > len(scratch.leaving)
        or count < state[SHRINK_BELOW]
    )


@lean_kernel
def rows_fit(entry_row: Ints, n_slots: int) -> bool:
    """Whether all rows are below `n_slots`."""
    # Negative if any of these is.
    least = np.int32(0)
    most = np.int32(n_slots - 1)
    for e in range(len(entry_row)):
        least |= most - entry_row[e]
    return bool(least >= 0)


@lean_kernel
def remove_candidates(
    state: Longs, entry_row: Ints, rows: StoredRows, candidates: CandidateRows, scratch: PatchScratch
) -> None:
    """Remove candidates, leaving holes, and list those that may be in a list."""
    n_pending = 0
    for i in range(state[N_LEAVING]):
        e = scratch.leaving[i]
        at = rows.candidate_at[entry_row[e]]
        candidates.row[at] = -1
        # Branch-free, so that scattered loads overlap.
        scratch.pending[n_pending] = at
        scratch.pending_entry[n_pending] = e
        n_pending += candidates.is_listed[at]
    state[N_PENDING] = n_pending
    state[N_HOLES] += state[N_LEAVING]


@lean_kernel
def add_candidates(
    state: Longs,
    entries: DeltaEntries,
    grid: RowGrid,
    rows: StoredRows,
    candidates: CandidateRows,
    scratch: PatchScratch,
) -> None:
    """Add rows that arrive in active cells to the candidates, and list them after the leaving ones."""
    entry_row = entries.row
    after = entries.after
    candidate_at = rows.candidate_at
    is_active = grid.is_active
    arriving = scratch.arriving
    cells = scratch.cell
    n_added = 0
    for i in range(state[N_ARRIVING]):
        # Branch-free, so that loads of cells overlap.
        cell = cells[i]
        cells[n_added] = cell
        arriving[n_added] = arriving[i]
        n_added += 1 if is_active[cell] else 0
    n_candidates = state[N_CANDIDATES]
    n_pending = state[N_PENDING]
    state[N_LISTED_LEAVING] = n_pending
    for i in range(n_added):
        e = arriving[i]
        row = entry_row[e]
        candidate_at[row] = n_candidates
        rows.mark[row] = CANDIDATE
        candidates.row[n_candidates] = row
        candidates.cell[n_candidates] = cells[i]
        candidates.is_listed[n_candidates] = False
        for c in range(after.shape[1]):
            candidates.values[n_candidates, c] = after[e, c]
        scratch.pending[n_pending + i] = n_candidates
        scratch.pending_entry[n_pending + i] = e
        n_candidates += 1
    state[N_CANDIDATES] = n_candidates
    state[N_PENDING] = n_pending + n_added
    for i in range(state[N_PENDING]):
        prefetch(grid.tile_bits[candidates.cell[scratch.pending[i]]], 0)


@inlined
def score_sums(
    x: Floats,
    term_column: Ints,
    term_theta: Ints,
    theta: Floats,
    first: int,
    score: Floats,
) -> None:
    """Score a row for the tile that begins at lane `first`: four terms at a time, added from the left.

    `x` holds the row's scored columns.
    """
    n_terms = len(term_column)
    for t in range(0, n_terms, 4):
        # Slices, so that the compiler sees that no index is negative.
        a = theta[term_theta[t], first : first + TILE]
        b = theta[term_theta[t + 1], first : first + TILE]
        c = theta[term_theta[t + 2], first : first + TILE]
        d = theta[term_theta[t + 3], first : first + TILE]
        p = x[term_column[t]]
        q = x[term_column[t + 1]] if t + 1 < n_terms else 0.0
        r = x[term_column[t + 2]] if t + 2 < n_terms else 0.0
        s = x[term_column[t + 3]] if t + 3 < n_terms else 0.0
        if t == 0:
            for j in range(TILE):
                score[j] = p * a[j] + q * b[j] + r * c[j] + s * d[j]
        else:
            for j in range(TILE):
                score[j] = score[j] + p * a[j] + q * b[j] + r * c[j] + s * d[j]


@inlined
def prefetch_list(
    lanes: SubscriptionLanes, lane: int, pool: ListPool, is_below: bool, is_arriving: bool
) -> None:
    """Prefetch what an event needs of a list: its end; and the answer, or where a row below it may be."""
    start = lanes.list_start[lane]
    end = start + lanes.list_size[lane]
    # A list may be far shorter than k.
    rest = min(start + lanes.k[lane], end)
    prefetch(pool.key, end)
    prefetch(pool.row, end)
    if not is_below:
        for at in range(start, rest, LINE):
            prefetch(pool.key, at)
        prefetch(pool.row, start)
        prefetch(pool.row, rest)
    if not is_arriving:
        if is_below:
            # A line holds twice as many.
            for at in range(rest, end, 2 * LINE):
                prefetch(pool.row, at)
        else:
            for at in range(rest, end, LINE):
                prefetch(pool.key, at)


@lean_kernel
def match_rows(
    state: Longs,
    ranking: CandidateRanking,
    lanes: SubscriptionLanes,
    grid: RowGrid,
    candidates: CandidateRows,
    events: ListEvents,
    entries: DeltaEntries,
    scratch: PatchScratch,
    pool: ListPool,
    is_arriving: bool,
) -> int:
    """Compare pending candidates with those of eight tiles that their cells record; hits become events.

    What an event needs of its list is prefetched while other rows are compared.
    """
    pending = scratch.pending
    pending_entry = scratch.pending_entry
    score = scratch.score
    values = scratch.row_values
    is_listed = candidates.is_listed
    tile_bits = grid.tile_bits
    theta = lanes.theta
    lo = lanes.lo
    hi = lanes.hi
    floor = lanes.floor
    floor_tie = lanes.floor_tie
    candidate_cell = candidates.cell
    event_lane = events.lane
    event_entry = events.entry
    event_key = events.key
    born = entries.born_after if is_arriving else entries.born_before
    first_column = ranking.first_column
    key_sign = ranking.key_sign
    term_column = ranking.term_column
    term_theta = ranking.term_theta
    n_dimensions = lo.shape[0]
    n_tiles = len(floor) // TILE
    n_lanes = min(TILE, len(floor))
    n_events = state[N_EVENTS]
    n_tests = 0
    byte = state[AT_BYTE]
    i = state[AT_ROW]
    end = state[N_PENDING] if is_arriving else state[N_LISTED_LEAVING]
    while i < end:
        position = int(np.int64(pending[i]))
        e = pending_entry[i]
        x = candidates.values[position]
        scored = x[first_column:]
        known_tiles = int(tile_bits[candidate_cell[position], byte])
        if known_tiles > 0 and n_events + 8 * TILE > len(event_lane):
            break
        while known_tiles > 0:
            tile = 8 * byte + first_bit(known_tiles)
            known_tiles &= known_tiles - 1
            if tile >= n_tiles:
                break
            first = tile * TILE
            n_tests += 1
            if len(term_column) == 0:
                for c in range(values.shape[0]):
                    values[c, 0] = x[c]
                # A literal False would compile another signature.
                score_block(
                    ranking.program, values, first_column, zero(), theta, first, n_lanes == 0, n_lanes,
                    scratch.stack, score,
                )  # fmt: skip
            else:
                score_sums(scored, term_column, term_theta, theta, first, score)
            hits = mask_reaching(score, key_sign, floor[first : first + TILE])
            while hits != 0:
                hit = first_bit(hits)
                hits &= hits - 1
                lane = first + hit
                key = key_sign * score[hit] + 0.0
                if key == floor[lane] and ranking.tie_sign * born[e] < floor_tie[lane]:
                    continue
                is_inside = True
                for d in range(n_dimensions):
                    is_inside &= lo[d, lane] <= x[d] <= hi[d, lane]
                if is_inside:
                    is_listed[position] = True
                    event_lane[n_events] = lane
                    event_entry[n_events] = e if is_arriving else -1 - e
                    event_key[n_events] = key
                    n_events += 1
                    prefetch_list(lanes, lane, pool, key < lanes.kth_key[lane], is_arriving)
        i += 1
    state[N_TESTS] += n_tests
    state[N_EVENTS] = n_events
    state[AT_ROW] = i
    return DONE if i == end else EVENTS_FULL


@lean_kernel
def begin_tiles(state: Longs, byte: int) -> None:
    """Start with eight tiles, at the first row to be compared with them."""
    state[AT_BYTE] = byte
    state[AT_ROW] = 0
    state[N_EVENTS] = 0
    state[N_ROUTED] = 0
    state[PHASE] = LEAVING


@lean_kernel
def refill_list(
    state: Longs,
    ranking: CandidateRanking,
    lanes: SubscriptionLanes,
    born: Longs,
    candidates: CandidateRows,
    heap: RankingHeap,
    scratch: PatchScratch,
) -> bool:
    """Find rows below the floor of a list that ran short; False if its refill floor must be lowered first.

    Cost: all candidates.
    """
    lane = int(np.int64(scratch.affected[state[AT]]))
    k = lanes.k[lane]
    n_refill = find_refill_rows(
        ranking,
        lanes,
        lane,
        candidates,
        state[N_CANDIDATES],
        born,
        heap,
        initial_size(k) - state[N_REMAINING],
    )
    if state[N_REMAINING] + n_refill < k and lanes.refill_floor[lane] > -np.inf:
        return False
    for i in range(n_refill):
        scratch.refill_row[i] = candidates.row[heap.at[i]]
        scratch.refill_key[i] = heap.key[i]
    state[N_REFILL] = n_refill
    return True


@lean_kernel
def apply_steps(
    state: Longs,
    ranking: CandidateRanking,
    lanes: SubscriptionLanes,
    grid: RowGrid,
    rows: StoredRows,
    candidates: CandidateRows,
    pool: ListPool,
    events: ListEvents,
    entries: DeltaEntries,
    scratch: PatchScratch,
    heap: RankingHeap,
    out: StepOutput,
) -> int:
    """Apply the steps in turn, from `state` on, and write their changes."""
    if (
        state[STEP] == 0
        and state[PHASE] == STORING
        and is_crowded(state, len(entries.row), candidates, scratch)
    ):
        return CROWDED
    while state[STEP] < len(entries.bounds) - 1:
        begin = entries.bounds[state[STEP]]
        end = entries.bounds[state[STEP] + 1]
        if state[PHASE] == STORING:
            if not rows_fit(entries.row[begin:end], len(rows.born)):
                return ROWS_FULL
            if state[N_TESTS] > state[MAX_TESTS]:
                return STALE
            n_rows = state[N_ROWS]
            n_arriving = store_rows(state, entries, begin, end, grid, rows, scratch)
            if n_arriving >= max(MIN_BULK_ROWS, n_rows):
                return BULK
            state[N_COMPARED] += end - begin
            remove_candidates(state, entries.row, rows, candidates, scratch)
            n = state[N_ARRIVING]
            locate_rows(grid, entries.after, n >= 0, scratch.arriving, n, scratch.cell)
            add_candidates(state, entries, grid, rows, candidates, scratch)
            state[AT] = 0
            state[N_AFFECTED] = 0
            state[N_RAW] = 0
            begin_tiles(state, zero())
        while state[AT_BYTE] < grid.tile_bits.shape[1]:
            while state[PHASE] < PATCHING:
                is_arriving = state[PHASE] == ARRIVING
                # Called in one place only, because it is large and is inlined.
                status = match_rows(
                    state, ranking, lanes, grid, candidates, events, entries, scratch, pool, is_arriving
                )
                if status != DONE:
                    return status
                route_events(state, lanes, pool, events, entries.row, scratch, is_arriving)
                state[PHASE] += 1
                if is_arriving:
                    order_affected(state, lanes.head, 8 * TILE * state[AT_BYTE], 8 * TILE, scratch.affected)
            status = patch_lists(
                state, ranking, lanes, rows, candidates, pool, events, entries, scratch, out.raw
            )
            if status == LIST_SHORT and refill_list(
                state, ranking, lanes, rows.born, candidates, heap, scratch
            ):
                continue
            if status != DONE:
                return status
            begin_tiles(state, state[AT_BYTE] + 1)
        status = emit_changes(state, lanes.slot, scratch, out.raw, out.changes)
        if status != DONE:
            return status
        state[PHASE] = STORING
        state[STEP] += 1
    return DONE


@lean_kernel
def apply_delta(state: Longs, entries: DeltaEntries, packed: ArgumentPack) -> int:
    """Call `apply_steps`, with the columns packed into one argument."""
    ranking, lanes, grid, rows, candidates, pool, events, scratch, heap, raw, changes = unpack(packed)
    return apply_steps(
        state, ranking, lanes, grid, rows, candidates, pool, events, entries, scratch, heap,
        StepOutput(raw, changes),
    )  # fmt: skip
