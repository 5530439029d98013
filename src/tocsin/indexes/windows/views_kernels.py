"""A step's rows are held against the tiles that their cells know, and the lists they reach are patched.

A row's *place* in a ranking is a pair, larger first: its key (the score, or its negative where small
scores come first) and its tie (`born`, or its negative where older rows come first). Places are
distinct. Each subscription has a list and a floor, and always

    the list holds, in order, exactly the rows inside the box whose place is not below the floor.

A step is taken in phases. ViewRows that go are held against tiles while they are still there; then rows are
moved; then rows that come are held against tiles. Each hit is an event of one subscription. At the end each
subscription with events patches its list. A list that runs short is filled up from the hot rows, among
which are all whose key is not below the base.
"""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Ints, Longs
from tocsin.indexes.shared.jit import kernel
from tocsin.indexes.shared.programs_kernels import score_block
from tocsin.indexes.shared.scans import ChangeColumns
from tocsin.indexes.windows.views_columns import (
    AT,
    AT_TILE,
    BULK,
    DONE,
    EVENTS_FULL,
    MOST_TESTS,
    N_AFFECTED,
    N_EVENTS,
    N_GOING,
    N_HELD,
    N_HOT,
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

#: Less than all columns of a part can make up for; and as many times as there are columns, still an int32.
FAR_OUTSIDE = -(2**25)

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
def find_going(
    state: Longs,
    entries: ViewEntries,
    begin: int,
    end: int,
    rows: ViewRows,
    hot: HotRows,
    scratch: ViewScratch,
) -> None:
    """List the entries of the step's hot rows that were there, and those rows that may be in a list."""
    entry_row = entries.row
    born_before = entries.born_before
    hot_at = rows.hot_at
    is_listed = hot.is_listed
    todo = scratch.todo
    todo_entry = scratch.todo_entry
    going = scratch.going
    n_gone = 0
    n_going = 0
    n_todo = 0
    for e in range(begin, end):
        if born_before[e] < 0:
            continue
        n_gone += 1
        at = hot_at[entry_row[e]]
        if at >= 0:
            going[n_going] = e
            n_going += 1
            if is_listed[at]:
                todo[n_todo] = at
                todo_entry[n_todo] = e
                n_todo += 1
    state[N_ROWS] -= n_gone
    state[N_GOING] = n_going
    state[N_TODO] = n_todo


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
def store_rows(
    state: Longs,
    entries: ViewEntries,
    begin: int,
    end: int,
    grid: ViewGrid,
    rows: ViewRows,
    part: Ints,
    todo_entry: Ints,
) -> int:
    """Store the step's rows; answers how many are in hot parts of the grid, and lists their entries.

    `part` is scratch. Column by column, because then all that a column needs stays in registers.
    """
    entry_row = entries.row
    born_after = entries.born_after
    after = entries.after
    values = rows.values
    born = rows.born
    row_part = rows.part
    is_part_hot = grid.is_part_hot
    n_coming = 0
    for e in range(begin, end):
        born[entry_row[e]] = born_after[e]
        if born_after[e] >= 0:
            todo_entry[n_coming] = e
            part[n_coming] = 1
            n_coming += 1
    state[N_ROWS] += n_coming
    for c in range(values.shape[0]):
        low = grid.edge[c, 0]
        high = grid.end[c]
        scale = grid.part_scale[c]
        offset = grid.part_offset[c]
        last = grid.parts[c] - 1.0
        stride = grid.part_stride[c]
        for i in range(n_coming):
            e = todo_entry[i]
            x = after[e, c]
            values[c, entry_row[e]] = x
            # Without a branch, and NaN comes out as 0: it is outside in any case.
            at = x * scale - offset
            at = at if at > 0.0 else 0.0
            at = at if at < last else last
            part[i] += int(at) * stride if (low <= x) & (x < high) else FAR_OUTSIDE
    n = 0
    for i in range(n_coming):
        e = todo_entry[i]
        at = max(0, part[i])
        row_part[entry_row[e]] = at
        if is_part_hot[at]:
            todo_entry[n] = e
            n += 1
    return n


@kernel
def add_hot(
    state: Longs,
    entries: ViewEntries,
    grid: ViewGrid,
    rows: ViewRows,
    hot: HotRows,
    cells: Ints,
    n: int,
    todo: Ints,
    todo_entry: Ints,
) -> int:
    """Let those of `n` listed entries join the hot rows that are in hot cells; list only these."""
    entry_row = entries.row
    after = entries.after
    hot_at = rows.hot_at
    is_hot = grid.is_hot
    n_hot = state[N_HOT]
    n_added = 0
    for i in range(n):
        if not is_hot[cells[i]]:
            continue
        e = todo_entry[i]
        row = entry_row[e]
        hot_at[row] = n_hot
        hot.row[n_hot] = row
        hot.cell[n_hot] = cells[i]
        hot.is_listed[n_hot] = False
        for c in range(after.shape[1]):
            hot.values[c, n_hot] = after[e, c]
        todo[n_added] = n_hot
        todo_entry[n_added] = e
        n_hot += 1
        n_added += 1
    state[N_HOT] = n_hot
    return n_added


@kernel
def hold_rows(
    state: Longs,
    ranking: ViewRanking,
    subscriptions: ViewSubscriptions,
    lanes: ViewLanes,
    grid: ViewGrid,
    rows: ViewRows,
    hot: HotRows,
    events: ViewEvents,
    entries: ViewEntries,
    scratch: ViewScratch,
    is_coming: bool,
) -> int:
    """Hold the listed hot rows against the tiles that their cells know; every hit becomes an event."""
    todo = scratch.todo
    todo_entry = scratch.todo_entry
    affected = scratch.affected
    score = scratch.score
    values = hot.values
    is_listed = hot.is_listed
    reach = grid.reach
    theta = lanes.theta
    lo = lanes.lo
    hi = lanes.hi
    floor = lanes.floor
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
    room = len(event_next) - TILE
    at = state[AT]
    tile = state[AT_TILE]
    status = DONE
    while at < state[N_TODO] and status == DONE:
        position = int(np.int64(todo[at]))
        e = todo_entry[at]
        cell = hot_cell[position]
        while tile < n_tiles:
            known = int(reach[cell, tile // 8]) >> (tile % 8)
            if known == 0:
                tile = (tile // 8 + 1) * 8
                continue
            if known & 1 == 0:
                tile += 1
                continue
            if n_events > room:
                status = EVENTS_FULL
                break
            first = tile * TILE
            n_tests += 1
            tile += 1
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
                for i in range(1, len(term_column)):
                    x = values[first_column + term_column[i], position]
                    t = term_theta[i]
                    for j in range(TILE):
                        score[j] += x * theta[t, first + j]
            is_hit = False
            for j in range(TILE):
                is_hit |= key_sign * score[j] >= floor[first + j]
            if not is_hit:
                continue
            for j in range(TILE):
                key = key_sign * score[j] + 0.0
                lane = first + j
                if not key >= floor[lane]:
                    continue
                slot = lane_slot[lane]
                if key == floor[lane] and ranking.tie_sign * born[e] < floor_tie[slot]:
                    continue
                is_inside = True
                for d in range(n_dimensions):
                    is_inside &= lo[d, lane] <= values[d, position] <= hi[d, lane]
                if not is_inside:
                    continue
                if head[slot] < 0:
                    affected[n_affected] = slot
                    n_affected += 1
                event_next[n_events] = head[slot]
                event_entry[n_events] = e if is_coming else -1 - e
                event_key[n_events] = key
                head[slot] = n_events
                n_events += 1
                is_listed[position] = True
        if status == DONE:
            at += 1
            tile = 0
    state[N_TESTS] += n_tests
    state[N_EVENTS] = n_events
    state[N_AFFECTED] = n_affected
    state[AT] = at
    state[AT_TILE] = tile
    return status


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
            n_coming = 0
            for e in range(begin, end):
                if entries.born_after[e] >= 0:
                    n_coming += 1
            if n_coming >= max(FEW, state[N_ROWS]):
                return BULK
            if state[N_TESTS] > state[MOST_TESTS]:
                return STALE
            state[N_HELD] += end - begin
            state[N_EVENTS] = 0
            state[N_AFFECTED] = 0
            find_going(state, entries, begin, end, rows, hot, scratch)
            state[AT] = 0
            state[AT_TILE] = 0
            state[PHASE] = GOING
        while state[PHASE] < PATCHING:
            if state[PHASE] == MOVING:
                remove_hot(state, entries.row, scratch.going, rows, hot)
                n = store_rows(state, entries, begin, end, grid, rows, scratch.cell, scratch.todo_entry)
                locate_rows(grid, entries.after, n >= 0, scratch.todo_entry, n, scratch.cell)
                state[N_TODO] = add_hot(
                    state, entries, grid, rows, hot, scratch.cell, n, scratch.todo, scratch.todo_entry
                )
                state[AT] = 0
                state[AT_TILE] = 0
                state[PHASE] = COMING
            is_coming = state[PHASE] == COMING
            # One place to call it from, because it is large and is compiled into its caller.
            status = hold_rows(
                state, ranking, subscriptions, lanes, grid, rows, hot, events, entries, scratch, is_coming
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
