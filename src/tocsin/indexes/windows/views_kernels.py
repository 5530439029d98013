"""A step's rows are held against the tiles that their cells know, and the lists they reach are patched.

A row's *place* in a ranking is a pair, larger first: its key (the score, or its negative where small
scores come first) and its tie (`born`, or its negative where older rows come first). Places are
distinct. Each subscription has a list and a floor, and always

    the list holds exactly the rows inside the box whose place is not below the floor, the first k in order.

A step is taken in phases. Rows are stored, and those in hot cells join the hot rows; those that have gone
from these can still be read there. Then, for eight tiles after the other: rows that go are held against the
tiles, then rows that come. Each hit is an event of one lane, and lands in its list at once where that changes
no answer; each lane with other events patches its list. So the lists of a few tiles stay in a cache until all
is done. A list that runs short is filled up from the hot rows, among which are all whose key is not below
the base.
"""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.shared.jit import inlined, lean_kernel
from tocsin.indexes.shared.kept import Kept, opened
from tocsin.indexes.shared.masks import first_bit, reaching
from tocsin.indexes.shared.prefetch import prefetch
from tocsin.indexes.shared.programs_kernels import score_block
from tocsin.indexes.shared.scans import ChangeColumns
from tocsin.indexes.windows.views_columns import (
    AT,
    AT_BYTE,
    AT_ROW,
    BULK,
    CROWDED,
    DONE,
    EVENTS_FULL,
    FEW_ENTRIES,
    HOT,
    MOST_TESTS,
    N_AFFECTED,
    N_EVENTS,
    N_GOING,
    N_GONE,
    N_HELD,
    N_HOLES,
    N_HOT,
    N_KEPT,
    N_LANDED,
    N_MORE,
    N_NEAR,
    N_RAW,
    N_ROWS,
    N_TESTS,
    N_TODO,
    PHASE,
    ROWS_FULL,
    SHORT,
    STALE,
    STEP,
    TILE,
    HotRows,
    RawChanges,
    ViewEntries,
    ViewEvents,
    ViewGrid,
    ViewLanes,
    ViewPool,
    ViewRanking,
    ViewRows,
    ViewScratch,
)
from tocsin.indexes.windows.views_grid_kernels import locate_rows
from tocsin.indexes.windows.views_patch_kernels import land_events, order_affected, patch_lists, tell_changes
from tocsin.indexes.windows.views_rank_kernels import BestRows, find_more, fresh_size
from tocsin.indexes.windows.views_rows_kernels import take_rows

#: Phases of a step: the first once, the others for eight tiles after the other.
OPENING = 0
GOING = 1
COMING = 2
PATCHING = 3

#: Numbers of a cache line.
LINE = 8

#: A step with fewer rows that come is never ranked afresh.
FEW = 64


@lean_kernel
def zero() -> int:
    """A number to pass on: a literal 0 would make a signature of its own."""
    return int(np.int64(0))


@lean_kernel
def is_crowded(state: Longs, count: int, hot: HotRows, scratch: ViewScratch) -> bool:
    """Whether working memory does not fit a delta of `count` entries, or half of the hot rows are holes."""
    return bool(
        2 * state[N_HOLES] > state[N_HOT]
        or state[N_HOT] + count > len(hot.row)
        or count > len(scratch.going)
        or count < state[FEW_ENTRIES]
    )


@lean_kernel
def has_room(entry_row: Ints, n_slots: int) -> bool:
    """Whether all rows are below `n_slots`."""
    # Negative as soon as one of these is.
    least = np.int32(0)
    most = np.int32(n_slots - 1)
    for e in range(len(entry_row)):
        least |= most - entry_row[e]
    return bool(least >= 0)


@lean_kernel
def remove_hot(state: Longs, entry_row: Ints, rows: ViewRows, hot: HotRows, scratch: ViewScratch) -> None:
    """Take rows out of the hot rows: holes are left. List those that may be in a list."""
    n_todo = 0
    for i in range(state[N_GOING]):
        e = scratch.going[i]
        at = rows.hot_at[entry_row[e]]
        hot.row[at] = -1
        # Without a branch, so that none waits for what is read from afar.
        scratch.todo[n_todo] = at
        scratch.todo_entry[n_todo] = e
        n_todo += hot.is_listed[at]
    state[N_TODO] = n_todo
    state[N_HOLES] += state[N_GOING]


@lean_kernel
def add_hot(
    state: Longs, entries: ViewEntries, grid: ViewGrid, rows: ViewRows, hot: HotRows, scratch: ViewScratch
) -> None:
    """Let rows that come into hot cells join the hot rows; list these after those that go."""
    entry_row = entries.row
    after = entries.after
    hot_at = rows.hot_at
    is_hot = grid.is_hot
    coming = scratch.coming
    cells = scratch.cell
    n_added = 0
    for i in range(state[N_NEAR]):
        # Without a branch, so that cells are fetched together.
        cell = cells[i]
        cells[n_added] = cell
        coming[n_added] = coming[i]
        n_added += 1 if is_hot[cell] else 0
    n_hot = state[N_HOT]
    n_todo = state[N_TODO]
    state[N_GONE] = n_todo
    for i in range(n_added):
        e = coming[i]
        row = entry_row[e]
        hot_at[row] = n_hot
        rows.mark[row] = HOT
        hot.row[n_hot] = row
        hot.cell[n_hot] = cells[i]
        hot.is_listed[n_hot] = False
        for c in range(after.shape[1]):
            hot.values[n_hot, c] = after[e, c]
        scratch.todo[n_todo + i] = n_hot
        scratch.todo_entry[n_todo + i] = e
        n_hot += 1
    state[N_HOT] = n_hot
    state[N_TODO] = n_todo + n_added
    for i in range(state[N_TODO]):
        prefetch(grid.reach[hot.cell[scratch.todo[i]]], 0)


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

    `x` is what the row holds in the columns that are scored.
    """
    n_terms = len(term_column)
    for t in range(0, n_terms, 4):
        # Slices, so that the compiler sees that no index is taken for one from the end.
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
def fetch_list(lanes: ViewLanes, lane: int, pool: ViewPool, is_below: bool, is_coming: bool) -> None:
    """Have fetched what an event needs of a list: its end; and the answer, or where a row below it may be."""
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
    if not is_coming:
        if is_below:
            # Twice as many are in a line.
            for at in range(rest, end, 2 * LINE):
                prefetch(pool.row, at)
        else:
            for at in range(rest, end, LINE):
                prefetch(pool.key, at)


@lean_kernel
def hold_rows(
    state: Longs,
    ranking: ViewRanking,
    lanes: ViewLanes,
    grid: ViewGrid,
    hot: HotRows,
    events: ViewEvents,
    entries: ViewEntries,
    scratch: ViewScratch,
    pool: ViewPool,
    is_coming: bool,
) -> int:
    """Hold listed hot rows against those of eight tiles that their cells know; hits become events.

    What an event will need of its list is fetched while other rows are held.
    """
    todo = scratch.todo
    todo_entry = scratch.todo_entry
    score = scratch.score
    values = scratch.row_values
    is_listed = hot.is_listed
    reach = grid.reach
    theta = lanes.theta
    lo = lanes.lo
    hi = lanes.hi
    floor = lanes.floor
    floor_tie = lanes.floor_tie
    hot_cell = hot.cell
    event_lane = events.lane
    event_entry = events.entry
    event_key = events.key
    born = entries.born_after if is_coming else entries.born_before
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
    end = state[N_TODO] if is_coming else state[N_GONE]
    while i < end:
        position = int(np.int64(todo[i]))
        e = todo_entry[i]
        x = hot.values[position]
        scored = x[first_column:]
        known = int(reach[hot_cell[position], byte])
        if known > 0 and n_events + 8 * TILE > len(event_lane):
            break
        while known > 0:
            tile = 8 * byte + first_bit(known)
            known &= known - 1
            if tile >= n_tiles:
                break
            first = tile * TILE
            n_tests += 1
            if len(term_column) == 0:
                for c in range(values.shape[0]):
                    values[c, 0] = x[c]
                # A literal False would make a signature of its own.
                score_block(
                    ranking.program, values, first_column, zero(), theta, first, n_lanes == 0, n_lanes,
                    scratch.stack, score,
                )  # fmt: skip
            else:
                score_sums(scored, term_column, term_theta, theta, first, score)
            hits = reaching(score, key_sign, floor[first : first + TILE])
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
                    event_entry[n_events] = e if is_coming else -1 - e
                    event_key[n_events] = key
                    n_events += 1
                    fetch_list(lanes, lane, pool, key < lanes.last[lane], is_coming)
        i += 1
    state[N_TESTS] += n_tests
    state[N_EVENTS] = n_events
    state[AT_ROW] = i
    return DONE if i == end else EVENTS_FULL


@lean_kernel
def begin_tiles(state: Longs, byte: int) -> None:
    """Go to eight tiles, and to the first of the rows to be held against them."""
    state[AT_BYTE] = byte
    state[AT_ROW] = 0
    state[N_EVENTS] = 0
    state[N_LANDED] = 0
    state[PHASE] = GOING


@lean_kernel
def fill_up(
    state: Longs,
    ranking: ViewRanking,
    lanes: ViewLanes,
    born: Longs,
    hot: HotRows,
    best: BestRows,
    scratch: ViewScratch,
) -> bool:
    """Find rows below the floor of a list that ran short; whether there are enough above its base, or it has
    none. Cost: all hot rows."""
    lane = int(np.int64(scratch.affected[state[AT]]))
    k = lanes.k[lane]
    n_more = find_more(ranking, lanes, lane, hot, state[N_HOT], born, best, fresh_size(k) - state[N_KEPT])
    if state[N_KEPT] + n_more < k and lanes.base[lane] > -np.inf:
        return False
    for i in range(n_more):
        scratch.more_row[i] = hot.row[best.at[i]]
        scratch.more_key[i] = best.key[i]
    state[N_MORE] = n_more
    return True


@lean_kernel
def apply_steps(
    state: Longs,
    ranking: ViewRanking,
    lanes: ViewLanes,
    grid: ViewGrid,
    rows: ViewRows,
    hot: HotRows,
    pool: ViewPool,
    events: ViewEvents,
    entries: ViewEntries,
    scratch: ViewScratch,
    best: BestRows,
    raw: RawChanges,
    out: ChangeColumns,
) -> int:
    """Take the steps one after the other, from `state` on, and write what each changes."""
    if state[STEP] == 0 and state[PHASE] == OPENING and is_crowded(state, len(entries.row), hot, scratch):
        return CROWDED
    while state[STEP] < len(entries.bounds) - 1:
        begin = entries.bounds[state[STEP]]
        end = entries.bounds[state[STEP] + 1]
        if state[PHASE] == OPENING:
            if not has_room(entries.row[begin:end], len(rows.born)):
                return ROWS_FULL
            if state[N_TESTS] > state[MOST_TESTS]:
                return STALE
            n_rows = state[N_ROWS]
            n_coming = take_rows(state, entries, begin, end, grid, rows, scratch)
            if n_coming >= max(FEW, n_rows):
                return BULK
            state[N_HELD] += end - begin
            remove_hot(state, entries.row, rows, hot, scratch)
            n = state[N_NEAR]
            locate_rows(grid, entries.after, n >= 0, scratch.coming, n, scratch.cell)
            add_hot(state, entries, grid, rows, hot, scratch)
            state[AT] = 0
            state[N_AFFECTED] = 0
            state[N_RAW] = 0
            begin_tiles(state, zero())
        while state[AT_BYTE] < grid.reach.shape[1]:
            while state[PHASE] < PATCHING:
                is_coming = state[PHASE] == COMING
                # One place to call it from, because it is large and is compiled into its caller.
                status = hold_rows(
                    state, ranking, lanes, grid, hot, events, entries, scratch, pool, is_coming
                )
                if status != DONE:
                    return status
                land_events(state, lanes, pool, events, entries.row, scratch, is_coming)
                state[PHASE] += 1
                if is_coming:
                    order_affected(state, lanes.head, 8 * TILE * state[AT_BYTE], 8 * TILE, scratch.affected)
            status = patch_lists(state, ranking, lanes, rows, hot, pool, events, entries, scratch, raw)
            if status == SHORT and fill_up(state, ranking, lanes, rows.born, hot, best, scratch):
                continue
            if status != DONE:
                return status
            begin_tiles(state, state[AT_BYTE] + 1)
        status = tell_changes(state, lanes.slot, scratch, raw, out)
        if status != DONE:
            return status
        state[PHASE] = OPENING
        state[STEP] += 1
    return DONE


@lean_kernel
def apply_delta(state: Longs, entries: ViewEntries, kept: Kept) -> int:
    """As `apply_steps`, with the columns that are kept from one delta to the next."""
    ranking, lanes, grid, rows, hot, pool, events, scratch, best, raw, out = opened(kept)
    return apply_steps(state, ranking, lanes, grid, rows, hot, pool, events, entries, scratch, best, raw, out)
