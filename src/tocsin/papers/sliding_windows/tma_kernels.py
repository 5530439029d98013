"""Kernels of TMA and SMA: arriving and leaving rows are passed to the queries that their cells influence."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.jit import kernel, lean_kernel
from tocsin.arrays.types import Ints, Longs
from tocsin.kernels.status import AT, DONE, FULL, LISTS_FULL, N_OUT, POINTS_FULL, SEARCH, STEP
from tocsin.papers.sliding_windows.tma_columns import (
    HAS_UPDATES,
    IS_STORED,
    LONGEST,
    N_AFFECTED,
    N_TOUCHED,
    PHASE,
    POINTS_END,
    MonitoringEntries,
    MonitoringGrid,
    MonitoringQueries,
    MonitoringRanking,
    MonitoringScratch,
    PointLists,
)
from tocsin.papers.sliding_windows.tma_search_kernels import is_inside, score_alone

#: Operations of a change, as in `arrays.changes`.
LEAVE = 0
UPDATE = 1
ENTER = 2

#: Phases of a step: insert new rows, remove old ones, insert updated rows again, compute queries from
#: scratch, write changes.
INSERTING = 0
REMOVING = 1
REINSERTING = 2
SEARCHING = 3
WRITING = 4

#: A de Bruijn number: the first six bits differ for every shift.
DE_BRUIJN = 0x03F79D71B4CB0A89


@lean_kernel
def save_answer(state: Longs, queries: MonitoringQueries, slot: int, scratch: MonitoringScratch) -> None:
    """Save a query's answer before the step first changes its list."""
    if queries.old_size[slot] >= 0:
        return
    size = min(queries.k[slot], queries.size[slot])
    for i in range(size):
        queries.old_row[slot, i] = queries.list_row[slot, i]
        queries.old_key[slot, i] = queries.list_key[slot, i]
    queries.old_size[slot] = size
    scratch.touched[state[N_TOUCHED]] = slot
    state[N_TOUCHED] += 1


@lean_kernel
def insert_row(
    scorer: MonitoringRanking, queries: MonitoringQueries, slot: int, points: PointLists, row: int, key: float
) -> int:
    """Insert a row into a list with spare capacity; returns its place."""
    tie = scorer.tie_sign * points.born[row]
    rows = queries.list_row
    keys = queries.list_key
    counts = queries.list_count
    at = queries.size[slot]
    while at > 0 and (
        key > keys[slot, at - 1]
        or (key == keys[slot, at - 1] and tie > scorer.tie_sign * points.born[rows[slot, at - 1]])
    ):
        rows[slot, at] = rows[slot, at - 1]
        keys[slot, at] = keys[slot, at - 1]
        counts[slot, at] = counts[slot, at - 1]
        at -= 1
    rows[slot, at] = row
    keys[slot, at] = key
    counts[slot, at] = 0
    queries.size[slot] += 1
    return int(at)


@lean_kernel
def remove_row(queries: MonitoringQueries, slot: int, row: int) -> int:
    """Remove a row from a list; returns its former place, -1 if it was not there."""
    rows = queries.list_row
    size = queries.size[slot]
    at = 0
    while at < size and rows[slot, at] != row:
        at += 1
    if at == size:
        return -1
    for i in range(at, size - 1):
        rows[slot, i] = rows[slot, i + 1]
        queries.list_key[slot, i] = queries.list_key[slot, i + 1]
        queries.list_count[slot, i] = queries.list_count[slot, i + 1]
    queries.size[slot] = size - 1
    return at


@lean_kernel
def store_points(
    state: Longs,
    scorer: MonitoringRanking,
    entries: MonitoringEntries,
    begin: int,
    end: int,
    is_reinserting: bool,
    grid: MonitoringGrid,
    points: PointLists,
    scratch: MonitoringScratch,
) -> int:
    """Add the step's new rows, or its updated ones, to the point lists, from `state` on."""
    first_column = scorer.first_column
    term_column = scorer.term_column
    side = grid.side
    low = grid.low
    scale = grid.scale
    start = grid.start
    capacity = grid.capacity
    first = grid.first
    n_points = grid.n_points
    point_list = points.list
    list_values = points.list_values
    place = points.place
    values = points.values
    born = points.born
    for e in range(max(begin, state[AT]), end):
        if entries.born_after[e] < 0 or (entries.born_before[e] >= 0) != is_reinserting:
            continue
        row = entries.row[e]
        for c in range(values.shape[1]):
            values[row, c] = entries.after[e, c]
        # Rows outside of the grid are in the cells at its border; so is NaN.
        cell = 0
        for c in range(len(low)):
            at = (values[row, first_column + c] - low[c]) * scale[c]
            along = 0
            if at > 0.0:
                along = side - 1 if at >= side - 1 else int(at)
            cell = cell * side + along
        if n_points[cell] == capacity[cell]:
            larger = max(4, 2 * capacity[cell])
            moved = state[POINTS_END]
            if moved + larger > len(point_list):
                state[AT] = e
                return POINTS_FULL
            for i in range(n_points[cell]):
                old = start[cell] + ((first[cell] + i) & (capacity[cell] - 1))
                point_list[moved + i] = point_list[old]
                place[point_list[old]] = i
                for t in range(list_values.shape[1]):
                    list_values[moved + i, t] = list_values[old, t]
            start[cell] = moved
            first[cell] = 0
            capacity[cell] = larger
            state[POINTS_END] += larger
        place[row] = (first[cell] + n_points[cell]) & (capacity[cell] - 1)
        into = start[cell] + place[row]
        point_list[into] = row
        for t in range(list_values.shape[1]):
            list_values[into, t] = values[row, first_column + term_column[t]]
        points.cell[row] = cell
        n_points[cell] += 1
        born[row] = entries.born_after[e]
        scratch.is_touched[row] = entries.touched[e]
    return DONE


@lean_kernel
def remove_points(
    entries: MonitoringEntries, begin: int, end: int, grid: MonitoringGrid, points: PointLists
) -> None:
    """Remove the step's old rows from the point lists.

    In a window this is always the first of its list; otherwise the first fills the gap.
    """
    start = grid.start
    capacity = grid.capacity
    first = grid.first
    n_points = grid.n_points
    row_cell = points.cell
    place = points.place
    point_list = points.list
    list_values = points.list_values
    for e in range(begin, end):
        if entries.born_before[e] < 0:
            continue
        row = entries.row[e]
        cell = row_cell[row]
        if place[row] != first[cell]:
            gap = start[cell] + place[row]
            source = start[cell] + first[cell]
            point_list[gap] = point_list[source]
            place[point_list[source]] = place[row]
            for t in range(list_values.shape[1]):
                list_values[gap, t] = list_values[source, t]
        first[cell] = (first[cell] + 1) & (capacity[cell] - 1)
        n_points[cell] -= 1
        points.born[row] = -1


@lean_kernel
def put_row(
    state: Longs,
    scorer: MonitoringRanking,
    queries: MonitoringQueries,
    slot: int,
    points: PointLists,
    row: int,
    key: float,
    is_skyband: bool,
) -> None:
    """Insert a row into a query's list: its best k, or its skyband."""
    k = queries.k[slot]
    at = insert_row(scorer, queries, slot, points, row, key)
    if not is_skyband:
        if queries.size[slot] > k:
            queries.size[slot] = k
        if queries.size[slot] == k:
            # From now on, rows may be left out.
            queries.top_key[slot] = queries.list_key[slot, k - 1]
            queries.is_whole[slot] = False
    else:
        # The new row dominates all that rank after it; rows dominated by k others can never enter an answer.
        kept = at + 1
        for i in range(at + 1, queries.size[slot]):
            queries.list_count[slot, i] += 1
            if queries.list_count[slot, i] < k:
                queries.list_row[slot, kept] = queries.list_row[slot, i]
                queries.list_key[slot, kept] = queries.list_key[slot, i]
                queries.list_count[slot, kept] = queries.list_count[slot, i]
                kept += 1
        queries.size[slot] = kept
    state[LONGEST] = max(state[LONGEST], queries.size[slot])


@lean_kernel
def drop_row(queries: MonitoringQueries, slot: int, row: int, is_skyband: bool) -> None:
    """Remove a row from a query's list, and record whether that leaves a gap."""
    if remove_row(queries, slot, row) < 0 or is_skyband:
        return
    if not queries.is_whole[slot]:
        queries.is_affected[slot] = True


@lean_kernel
def notify_queries(
    state: Longs,
    scorer: MonitoringRanking,
    queries: MonitoringQueries,
    grid: MonitoringGrid,
    points: PointLists,
    entries: MonitoringEntries,
    begin: int,
    end: int,
    scratch: MonitoringScratch,
    is_skyband: bool,
) -> int:
    """Pass the step's arriving or leaving rows, by phase, to the queries that their cells influence."""
    is_removing = state[PHASE] == REMOVING
    is_reinserting = state[PHASE] == REINSERTING
    born_before = entries.born_before
    born_after = entries.born_after
    entry_row = entries.row
    row_cell = points.cell
    weight = queries.weight
    values = points.values
    top_key = queries.top_key
    n_dimensions = queries.lo.shape[1]
    term_column = scorer.term_column
    first_column = scorer.first_column
    n_terms = len(term_column)
    words = grid.influence
    n_influence = grid.n_influence
    bit_place = grid.bit_place
    one = np.uint64(1)
    none = np.uint64(0)
    for e in range(max(begin, state[AT]), end):
        was = born_before[e] >= 0
        if not was if is_removing else (born_after[e] < 0 or was != is_reinserting):
            continue
        row = entry_row[e]
        cell = row_cell[row]
        if n_influence[cell] == 0:
            continue
        if state[LONGEST] + 1 >= queries.list_row.shape[1]:
            state[AT] = e
            return LISTS_FULL
        for word in range(words.shape[1]):
            bits = words[cell, word]
            while bits != none:
                # Isolate the lowest bit, and find its index.
                lowest = bits & (~bits + one)
                bits ^= lowest
                slot = 64 * word + bit_place[(lowest * np.uint64(DE_BRUIJN)) >> np.uint64(58)]
                if n_terms == 0:
                    key = score_alone(scorer, queries, slot, points, row, scratch)
                else:
                    key = weight[slot, 0] * values[row, first_column + term_column[0]]
                    for t in range(1, n_terms):
                        key += weight[slot, t] * values[row, first_column + term_column[t]]
                    key += 0.0
                if not key >= top_key[slot]:
                    continue
                if n_dimensions > 0 and not is_inside(queries, slot, points, row):
                    continue
                save_answer(state, queries, slot, scratch)
                if is_removing:
                    drop_row(queries, slot, row, is_skyband)
                else:
                    put_row(state, scorer, queries, slot, points, row, key, is_skyband)
    return DONE


@lean_kernel
def compare_answers(
    scorer: MonitoringRanking,
    queries: MonitoringQueries,
    slot: int,
    n_old: int,
    n_new: int,
    born: Longs,
    at: int,
    out: ChangeSet,
    out_rank: Ints,
) -> int:
    """Without updates: write the rows that left, list the ranks of those that entered; returns how many.

    Both answers are sorted, so that one merge pass suffices.
    """
    old_row = queries.old_row[slot]
    old_key = queries.old_key[slot]
    rows = queries.list_row[slot]
    keys = queries.list_key[slot]
    i = 0
    j = 0
    n_entered = 0
    while i < n_old or j < n_new:
        if i < n_old and j < n_new and old_row[i] == rows[j]:
            i += 1
            j += 1
            continue
        is_left = j == n_new
        if i < n_old and j < n_new:
            is_left = old_key[i] > keys[j]
            if old_key[i] == keys[j]:
                # A removed row has no place any more, and has left in any case.
                was = born[old_row[i]]
                is_left = was < 0 or scorer.tie_sign * was > scorer.tie_sign * born[rows[j]]
        if is_left:
            out.op[at] = LEAVE
            out.row[at] = old_row[i]
            out.score[at] = np.nan
            out.rank[at] = 0
            at += 1
            i += 1
        else:
            out_rank[n_entered] = j
            n_entered += 1
            j += 1
    return n_entered


@lean_kernel
def write_answers(
    state: Longs,
    scorer: MonitoringRanking,
    queries: MonitoringQueries,
    points: PointLists,
    scratch: MonitoringScratch,
    out: ChangeSet,
) -> int:
    """Write how the answers of touched queries, in order, differ from the saved ones."""
    entered = scratch.best_row
    while state[AT] < state[N_TOUCHED]:
        slot = int(np.int64(scratch.touched[state[AT]]))
        n_old = queries.old_size[slot]
        n_new = min(queries.k[slot], queries.size[slot])
        at = state[N_OUT]
        if at + n_old + n_new > len(out.step):
            return FULL
        if state[HAS_UPDATES] > 0:
            at = match_answers(scorer, queries, slot, n_old, n_new, scratch, at, out)
        else:
            n = compare_answers(scorer, queries, slot, n_old, n_new, points.born, at, out, entered)
            # As many leave as enter, up to the difference in length.
            at += n + n_old - n_new
            for i in range(n):
                out.op[at] = ENTER
                out.row[at] = queries.list_row[slot, entered[i]]
                out.score[at] = scorer.key_sign * queries.list_key[slot, entered[i]] + 0.0
                out.rank[at] = entered[i] + 1
                at += 1
        for i in range(state[N_OUT], at):
            out.step[i] = state[STEP]
            out.subscription[i] = slot
        state[N_OUT] = at
        queries.old_size[slot] = -1
        state[AT] += 1
    return DONE


@lean_kernel
def match_answers(
    scorer: MonitoringRanking,
    queries: MonitoringQueries,
    slot: int,
    n_old: int,
    n_new: int,
    scratch: MonitoringScratch,
    at: int,
    out: ChangeSet,
) -> int:
    """With updates: write the rows that left, were updated, entered; returns the end of the changes."""
    mark = scratch.mark
    for i in range(n_new):
        mark[queries.list_row[slot, i]] = i
    for i in range(n_old):
        row = queries.old_row[slot, i]
        if mark[row] < 0:
            out.op[at] = LEAVE
            out.row[at] = row
            out.score[at] = np.nan
            out.rank[at] = 0
            at += 1
    for i in range(n_new):
        mark[queries.list_row[slot, i]] = -1
    for i in range(n_old):
        mark[queries.old_row[slot, i]] = i
    for op in range(UPDATE, ENTER + 1):
        for i in range(n_new):
            row = queries.list_row[slot, i]
            key = queries.list_key[slot, i]
            was = mark[row]
            kind = ENTER
            if was >= 0:
                is_same = queries.old_key[slot, was] == key and not scratch.is_touched[row]
                kind = -1 if is_same else UPDATE
            if kind == op:
                out.op[at] = op
                out.row[at] = row
                out.score[at] = scorer.key_sign * key + 0.0
                out.rank[at] = i + 1
                at += 1
    for i in range(n_old):
        mark[queries.old_row[slot, i]] = -1
    return at


@lean_kernel
def find_affected(state: Longs, queries: MonitoringQueries, scratch: MonitoringScratch) -> int:
    """List the touched queries that lost a row they cannot replace; returns how many."""
    n = 0
    for i in range(state[N_TOUCHED]):
        slot = scratch.touched[i]
        is_short = queries.size[slot] < queries.k[slot] and not queries.is_whole[slot]
        if queries.is_affected[slot] or is_short:
            queries.is_affected[slot] = False
            scratch.affected[n] = slot
            n += 1
    return n


@kernel
def monitor_steps(
    state: Longs,
    scorer: MonitoringRanking,
    queries: MonitoringQueries,
    grid: MonitoringGrid,
    points: PointLists,
    entries: MonitoringEntries,
    scratch: MonitoringScratch,
    is_skyband: bool,
    out: ChangeSet,
) -> int:
    """TMA or, with skybands, SMA: apply the steps in turn, from `state` on."""
    while state[STEP] < len(entries.bounds) - 1:
        begin = entries.bounds[state[STEP]]
        end = entries.bounds[state[STEP] + 1]
        # First new rows; then removed and updated ones leave; then updated ones are inserted again.
        while state[PHASE] < SEARCHING:
            if state[PHASE] != REMOVING and state[IS_STORED] == 0:
                is_reinserting = state[PHASE] == REINSERTING
                status = store_points(
                    state, scorer, entries, begin, end, is_reinserting, grid, points, scratch
                )
                if status != DONE:
                    return status
                state[IS_STORED] = 1
                state[AT] = 0
            status = notify_queries(
                state, scorer, queries, grid, points, entries, begin, end, scratch, is_skyband
            )
            if status != DONE:
                return status
            if state[PHASE] == REMOVING:
                remove_points(entries, begin, end, grid, points)
            state[PHASE] += 1
            state[IS_STORED] = 0
            state[AT] = 0
        if state[PHASE] == SEARCHING:
            state[HAS_UPDATES] = 0
            for e in range(begin, end):
                if entries.born_before[e] >= 0 and entries.born_after[e] >= 0:
                    state[HAS_UPDATES] = 1
            scratch.touched[: state[N_TOUCHED]].sort()
            state[PHASE] = WRITING
            state[N_AFFECTED] = find_affected(state, queries, scratch)
            if state[N_AFFECTED] > 0:
                return SEARCH
        status = write_answers(state, scorer, queries, points, scratch, out)
        if status != DONE:
            return status
        for e in range(begin, end):
            scratch.is_touched[entries.row[e]] = False
        state[N_TOUCHED] = 0
        state[PHASE] = INSERTING
        state[AT] = 0
        state[STEP] += 1
    return DONE
