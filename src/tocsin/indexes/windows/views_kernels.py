"""A step's rows are held against the tiles that their cells know, and the lists they reach are patched.

A row's *place* in a ranking is a pair, larger first: its key (the score, or its negative where small
scores come first) and its tie (`born`, or its negative where older rows come first). Places are
distinct. Each subscription has a list and a floor, and always

    the list holds, in order, exactly the rows inside the box whose place is not below the floor.

A step is taken in phases. Rows are stored; rows that go are held against tiles while they are still among
the hot rows; then others take their place; then rows that come are held against tiles. Each hit is an event
of one subscription. At the end each subscription with events patches its list. A list that runs short is
filled up from the hot rows, among which are all whose key is not below the base.
"""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Ints, Longs
from tocsin.indexes.shared.jit import kernel
from tocsin.indexes.shared.programs_kernels import score_block
from tocsin.indexes.shared.scans import ChangeColumns
from tocsin.indexes.windows.views_columns import (
    AT,
    AT_BYTE,
    AT_ROW,
    BULK,
    DONE,
    EVENTS_FULL,
    MOST_TESTS,
    N_AFFECTED,
    N_EVENTS,
    N_GOING,
    N_HELD,
    N_HOT,
    N_NEAR,
    N_ROWS,
    N_TESTS,
    N_TODO,
    PHASE,
    STALE,
    STEP,
    TILE,
    HotRows,
    ViewEntries,
    ViewEvents,
    ViewGrid,
    ViewLanes,
    ViewPool,
    ViewRanking,
    ViewRows,
    ViewScratch,
    ViewSubscriptions,
)
from tocsin.indexes.windows.views_grid_kernels import locate_rows
from tocsin.indexes.windows.views_lists_kernels import patch_lists

#: Phases of a step.
OPENING = 0
GOING = 1
MOVING = 2
COMING = 3
PATCHING = 4

#: Rows that are stored, and held against tiles, together.
STRETCH = 256

#: A step with fewer rows that come is never ranked afresh.
FEW = 64


@kernel
def sort_slots(slots: Ints, size: int) -> None:
    """Sort slots upwards."""
    gap = 1
    while gap < size // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, size):
            slot = slots[i]
            j = i
            while j >= gap and slots[j - gap] > slot:
                slots[j] = slots[j - gap]
                j -= gap
            slots[j] = slot
        gap //= 3


@kernel
def take_rows(
    state: Longs,
    entries: ViewEntries,
    begin: int,
    end: int,
    grid: ViewGrid,
    rows: ViewRows,
    hot: HotRows,
    scratch: ViewScratch,
) -> bool:
    """Store the step's rows; whether as many come as there were.

    Lists the entries of hot rows that were there, those of them that may be in a list, and the entries of
    rows that come into hot parts.
    """
    entry_row = entries.row
    born_before = entries.born_before
    born_after = entries.born_after
    after = entries.after
    born = rows.born
    hot_at = rows.hot_at
    row_part = rows.part
    is_listed = hot.is_listed
    hot_parts = grid.hot_parts
    todo = scratch.todo
    todo_entry = scratch.todo_entry
    going = scratch.going
    coming = scratch.coming
    part = scratch.cell
    n_coming = 0
    n_gone = 0
    n_going = 0
    n_todo = 0
    for e in range(begin, end):
        # Unsigned, so that no index is taken for one from the end.
        row = np.uint64(entry_row[e])
        born[row] = born_after[e]
        if born_after[e] >= 0:
            coming[n_coming] = e
            n_coming += 1
        if born_before[e] >= 0:
            n_gone += 1
            at = hot_at[row]
            if at >= 0:
                going[n_going] = e
                n_going += 1
                if is_listed[at]:
                    todo[n_todo] = at
                    todo_entry[n_todo] = e
                    n_todo += 1
    # A column after the other, for so many rows at a time as stay in the first-level cache.
    n_near = 0
    for first in range(0, n_coming, STRETCH):
        last = min(first + STRETCH, n_coming)
        for i in range(first, last):
            part[i - first] = 0
        for c in range(rows.values.shape[0]):
            column = rows.values[c]
            scale = grid.part_scale[c]
            offset = grid.part_offset[c]
            last_part = grid.last_part[c]
            stride = grid.part_stride[c]
            for i in range(first, last):
                entry = np.uint64(coming[i])
                x = after[entry, c]
                column[np.uint64(entry_row[entry])] = x
                # Without a branch; NaN comes out as 0.
                place = x * scale - offset
                place = place if place > 0.0 else 0.0
                place = place if place < last_part else last_part
                part[i - first] += int(place) * stride
        for i in range(first, last):
            e = coming[i]
            whole = part[i - first]
            row_part[entry_row[e]] = whole
            if (hot_parts[whole >> 3] >> (whole & 7)) & 1 > 0:
                coming[n_near] = e
                n_near += 1
    is_bulk = bool(n_coming >= max(FEW, state[N_ROWS]))
    state[N_ROWS] += n_coming - n_gone
    state[N_GOING] = n_going
    state[N_TODO] = n_todo
    state[N_NEAR] = n_near
    return is_bulk


@kernel
def remove_hot(state: Longs, entry_row: Ints, going: Ints, rows: ViewRows, hot: HotRows) -> None:
    """Take rows out of the hot rows: the last fills the gap."""
    hot_at = rows.hot_at
    n_hot = state[N_HOT]
    for i in range(state[N_GOING]):
        row = entry_row[going[i]]
        at = hot_at[row]
        hot_at[row] = -1
        n_hot -= 1
        if at < n_hot:
            moved = hot.row[n_hot]
            hot.row[at] = moved
            hot.cell[at] = hot.cell[n_hot]
            hot.is_listed[at] = hot.is_listed[n_hot]
            hot_at[moved] = at
            for c in range(hot.values.shape[0]):
                hot.values[c, at] = hot.values[c, n_hot]
    state[N_HOT] = n_hot


@kernel
def add_hot(
    state: Longs, entries: ViewEntries, grid: ViewGrid, rows: ViewRows, hot: HotRows, scratch: ViewScratch
) -> None:
    """Let rows that come into hot cells join the hot rows; list these."""
    entry_row = entries.row
    after = entries.after
    hot_at = rows.hot_at
    is_hot = grid.is_hot
    cells = scratch.cell
    n_hot = state[N_HOT]
    n_added = 0
    for i in range(state[N_NEAR]):
        if not is_hot[cells[i]]:
            continue
        e = scratch.coming[i]
        row = entry_row[e]
        hot_at[row] = n_hot
        hot.row[n_hot] = row
        hot.cell[n_hot] = cells[i]
        hot.is_listed[n_hot] = False
        for c in range(after.shape[1]):
            hot.values[c, n_hot] = after[e, c]
        scratch.todo[n_added] = n_hot
        scratch.todo_entry[n_added] = e
        n_hot += 1
        n_added += 1
    state[N_HOT] = n_hot
    state[N_TODO] = n_added


@kernel
def hold_rows(
    state: Longs,
    ranking: ViewRanking,
    subscriptions: ViewSubscriptions,
    lanes: ViewLanes,
    grid: ViewGrid,
    hot: HotRows,
    pool: ViewPool,
    events: ViewEvents,
    entries: ViewEntries,
    scratch: ViewScratch,
    is_coming: bool,
) -> int:
    """Hold the listed hot rows against the tiles that their cells know; hits are patched, or become events.

    What is below a list's k-th row, and stays so, is in no order: it comes and goes at the end at once.
    """
    todo = scratch.todo
    todo_entry = scratch.todo_entry
    affected = scratch.affected
    score = scratch.score
    hit = scratch.hit
    pool_row = pool.row
    pool_key = pool.key
    list_start = subscriptions.list_start
    list_room = subscriptions.list_room
    list_size = subscriptions.list_size
    list_k = subscriptions.k
    entry_row = entries.row
    values = hot.values
    is_listed = hot.is_listed
    reach = grid.reach
    theta = lanes.theta
    lo = lanes.lo
    hi = lanes.hi
    floor = lanes.floor
    last = lanes.last
    lane_slot = lanes.slot
    head = subscriptions.head
    floor_tie = subscriptions.floor_tie
    hot_cell = hot.cell
    event_next = events.next
    event_entry = events.entry
    event_key = events.key
    born = entries.born_after if is_coming else entries.born_before
    first_column = ranking.first_column
    key_sign = ranking.key_sign
    term_column = ranking.term_column
    term_theta = ranking.term_theta
    n_dimensions = lo.shape[0]
    n_tiles = len(lane_slot) // TILE
    n_lanes = min(TILE, len(lane_slot))
    n_events = state[N_EVENTS]
    n_affected = state[N_AFFECTED]
    n_tests = 0
    at = state[AT]
    byte = state[AT_BYTE]
    i = state[AT_ROW]
    # Eight tiles after the other, each for a stretch of rows: so their lanes stay in the first-level cache.
    while at < state[N_TODO]:
        position = int(np.int64(todo[i]))
        e = todo_entry[i]
        known = int(reach[hot_cell[position], byte])
        if known > 0 and n_events + 8 * TILE > len(event_next):
            break
        tile = 8 * byte - 1
        while known > 0 and tile + 1 < n_tiles:
            tile += 1
            is_known = known & 1
            known >>= 1
            if is_known == 0:
                continue
            first = tile * TILE
            n_tests += 1
            if len(term_column) == 0:
                # A literal False would make a signature of its own.
                score_block(
                    ranking.program, values, first_column, position, theta, first, n_lanes == 0, n_lanes,
                    scratch.stack, score,
                )  # fmt: skip
            else:
                x = values[first_column + term_column[0], position]
                t = term_theta[0]
                for j in range(TILE):
                    score[j] = x * theta[t, first + j]
                for term in range(1, len(term_column)):
                    x = values[first_column + term_column[term], position]
                    t = term_theta[term]
                    for j in range(TILE):
                        score[j] += x * theta[t, first + j]
            is_hit = False
            for j in range(TILE):
                is_hit |= key_sign * score[j] >= floor[first + j]
            if not is_hit:
                continue
            # Without a branch, because hits are hard to foretell.
            n_hits = 0
            for j in range(TILE):
                hit[n_hits] = j
                n_hits += 1 if key_sign * score[j] >= floor[first + j] else 0
            for h in range(n_hits):
                j = hit[h]
                key = key_sign * score[j] + 0.0
                lane = first + j
                slot = lane_slot[lane]
                if key == floor[lane] and ranking.tie_sign * born[e] < floor_tie[slot]:
                    continue
                is_inside = True
                for d in range(n_dimensions):
                    is_inside &= lo[d, lane] <= values[d, position] <= hi[d, lane]
                if not is_inside:
                    continue
                is_listed[position] = True
                if key < last[lane]:
                    end = list_start[slot] + list_size[slot]
                    if is_coming and list_size[slot] < list_room[slot]:
                        pool_row[end] = entry_row[e]
                        pool_key[end] = key
                        list_size[slot] += 1
                        continue
                    if not is_coming and list_size[slot] > list_k[slot]:
                        at_row = list_start[slot] + list_k[slot]
                        while pool_row[at_row] != entry_row[e]:
                            at_row += 1
                        pool_row[at_row] = pool_row[end - 1]
                        pool_key[at_row] = pool_key[end - 1]
                        list_size[slot] -= 1
                        continue
                if head[slot] < 0:
                    affected[n_affected] = slot
                    n_affected += 1
                event_next[n_events] = head[slot]
                event_entry[n_events] = e if is_coming else -1 - e
                event_key[n_events] = key
                head[slot] = n_events
                n_events += 1
        i += 1
        if i == min(at + STRETCH, state[N_TODO]):
            byte += 1
            if byte == reach.shape[1]:
                at = i
                byte = 0
            i = at
    state[N_TESTS] += n_tests
    state[N_EVENTS] = n_events
    state[N_AFFECTED] = n_affected
    state[AT] = at
    state[AT_BYTE] = byte
    state[AT_ROW] = i
    return DONE if at >= state[N_TODO] else EVENTS_FULL


@kernel
def begin_holding(state: Longs) -> None:
    """Go to the first of the rows to be held against tiles."""
    state[AT] = 0
    state[AT_BYTE] = 0
    state[AT_ROW] = 0


@kernel
def order_affected(state: Longs, head: Ints, affected: Ints) -> None:
    """Bring the subscriptions with events into the order of their slots."""
    n = state[N_AFFECTED]
    if 16 * n < len(head):
        sort_slots(affected, n)
        return
    n = 0
    for slot in range(len(head)):
        if head[slot] >= 0:
            affected[n] = slot
            n += 1


@kernel
def apply_steps(
    state: Longs,
    ranking: ViewRanking,
    subscriptions: ViewSubscriptions,
    lanes: ViewLanes,
    grid: ViewGrid,
    rows: ViewRows,
    hot: HotRows,
    pool: ViewPool,
    events: ViewEvents,
    entries: ViewEntries,
    scratch: ViewScratch,
    out: ChangeColumns,
) -> int:
    """Take the steps one after the other, from `state` on, and write what each changes."""
    while state[STEP] < len(entries.bounds) - 1:
        begin = entries.bounds[state[STEP]]
        end = entries.bounds[state[STEP] + 1]
        if state[PHASE] == OPENING:
            if state[N_TESTS] > state[MOST_TESTS]:
                return STALE
            if take_rows(state, entries, begin, end, grid, rows, hot, scratch):
                return BULK
            state[N_HELD] += end - begin
            state[N_EVENTS] = 0
            state[N_AFFECTED] = 0
            begin_holding(state)
            state[PHASE] = GOING
        while state[PHASE] < PATCHING:
            if state[PHASE] == MOVING:
                remove_hot(state, entries.row, scratch.going, rows, hot)
                n = state[N_NEAR]
                locate_rows(grid, entries.after, n >= 0, scratch.coming, n, scratch.cell)
                add_hot(state, entries, grid, rows, hot, scratch)
                begin_holding(state)
                state[PHASE] = COMING
            is_coming = state[PHASE] == COMING
            # One place to call it from, because it is large and is compiled into its caller.
            status = hold_rows(
                state, ranking, subscriptions, lanes, grid, hot, pool, events, entries, scratch, is_coming
            )
            if status != DONE:
                return status
            if is_coming:
                order_affected(state, subscriptions.head, scratch.affected)
                state[AT] = 0
            state[PHASE] += 1
        status = patch_lists(
            state, ranking, subscriptions, lanes, rows, hot, pool, events, entries, scratch, out
        )
        if status != DONE:
            return status
        state[PHASE] = OPENING
        state[STEP] += 1
    return DONE
