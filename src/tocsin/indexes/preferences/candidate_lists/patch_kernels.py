"""Kernels that route events to lists, patch the lists, and write the changes of their answers."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.types import Bytes, Floats, Ints, Longs, Ops
from tocsin.indexes.preferences.candidate_lists.layout import (
    LOWEST_TIE,
    N_AFFECTED,
    N_EVENTS,
    N_RAW,
    N_REFILL,
    N_REMAINING,
    N_ROUTED,
    NO_ROW,
    POOL_END,
    CandidateRanking,
    CandidateRows,
    DeltaEntries,
    LaneChanges,
    ListEvents,
    ListPool,
    PatchScratch,
    StoredRows,
    SubscriptionLanes,
)
from tocsin.indexes.preferences.candidate_lists.list_kernels import (
    initial_size,
    insert_listed,
    max_size,
    remove_listed,
    sort_places,
    sort_rest,
    sort_slots,
)
from tocsin.kernels.status import AT, DONE, FULL, LIST_SHORT, N_OUT, POOL_FULL, STEP

#: Operations of a change, as in `arrays.changes`.
LEAVE = 0
UPDATE = 1
ENTER = 2
UNCHANGED = -1

#: With fewer than one in this many lanes or slots, scanning all of them does not pay.
SCAN_FRACTION = 16

#: Slots whose changes are prefetched together.
FETCH_BATCH = 16


@lean_kernel
def route_events(
    state: Longs,
    lanes: SubscriptionLanes,
    pool: ListPool,
    events: ListEvents,
    entry_row: Ints,
    scratch: PatchScratch,
    is_arriving: bool,
) -> None:
    """Apply new events to their lists if no answer changes, else chain them by lane.

    Rows below a list's k-th are unordered: they are added or removed at the end at once.
    """
    pool_row = pool.row
    pool_key = pool.key
    kth_key = lanes.kth_key
    list_k = lanes.k
    list_start = lanes.list_start
    list_capacity = lanes.list_capacity
    list_size = lanes.list_size
    head = lanes.head
    event_lane = events.lane
    event_next = events.next
    event_entry = events.entry
    event_key = events.key
    affected = scratch.affected
    n_affected = state[N_AFFECTED]
    for i in range(state[N_ROUTED], state[N_EVENTS]):
        lane = event_lane[i]
        key = event_key[i]
        if key < kth_key[lane]:
            end = list_start[lane] + list_size[lane]
            if is_arriving and list_size[lane] < list_capacity[lane]:
                pool_row[end] = entry_row[event_entry[i]]
                pool_key[end] = key
                list_size[lane] += 1
                continue
            if not is_arriving and list_size[lane] > list_k[lane]:
                row = entry_row[-1 - event_entry[i]]
                at = list_start[lane] + list_k[lane]
                while pool_row[at] != row or pool_key[at] != key:
                    at += 1
                pool_row[at] = pool_row[end - 1]
                pool_key[at] = pool_key[end - 1]
                list_size[lane] -= 1
                continue
        if head[lane] < 0:
            affected[n_affected] = lane
            n_affected += 1
        event_next[i] = head[lane]
        head[lane] = i
    state[N_AFFECTED] = n_affected
    state[N_ROUTED] = state[N_EVENTS]


@lean_kernel
def order_affected(state: Longs, head: Ints, first: int, count: int, affected: Ints) -> None:
    """Sort the affected ones of `count` lanes from `first` on, unless they are few.

    So lists are patched in memory order. Lanes affected earlier have been patched.
    """
    n = state[AT]
    if SCAN_FRACTION * (state[N_AFFECTED] - n) < count:
        return
    for lane in range(first, min(first + count, len(head))):
        if head[lane] >= 0:
            affected[n] = lane
            n += 1


@inlined
def write_change(raw: LaneChanges, at: int, op: int, row: int, score: float, rank: int) -> None:
    """Write one change."""
    raw.op[at] = op
    raw.row[at] = row
    raw.score[at] = score
    raw.rank[at] = rank


@lean_kernel
def mark_updates(
    n_old: int,
    n_new: int,
    start: int,
    pool: ListPool,
    mark: Bytes,
    touched_row: Ints,
    n_touched: int,
    old_row: Ints,
    old_key: Floats,
    new_op: Ops,
) -> None:
    """Find rows that left the list and returned to the answer: updates, or no change.

    Their place in `old_row` becomes one that stays, and `new_op` gets their op.
    """
    rows = pool.row
    for j in range(n_new):
        new_op[j] = ENTER
    for i in range(n_old):
        row = -1 - old_row[i]
        if row < 0 or mark[row] == NO_ROW:
            continue
        for j in range(n_new):
            if rows[start + j] == row:
                is_touched = False
                for t in range(n_touched):
                    is_touched |= touched_row[t] == row
                is_same = pool.key[start + j] == old_key[i] and not is_touched
                new_op[j] = UNCHANGED if is_same else UPDATE
                # Marked as staying, but not counted in `n_stay`.
                old_row[i] = -(2**31)
                break


@lean_kernel
def write_difference(
    n_old: int,
    n_stay: int,
    n_new: int,
    n_add: int,
    start: int,
    pool: ListPool,
    key_sign: float,
    may_update: bool,
    scratch: PatchScratch,
    at: int,
    raw: LaneChanges,
) -> int:
    """Write how a new answer differs from the old one, in which removed rows are complemented.

    Of the old answer's rows `n_stay` are still in the list, perhaps below the new answer, and `n_add` rows
    entered the list. Returns the end of the changes.
    """
    old_row = scratch.old_row
    new_op = scratch.new_op
    n_in = 0
    for j in range(n_new):
        # Added rows are sorted like the answer.
        if n_in < n_add and pool.row[start + j] == scratch.add_row[n_in]:
            scratch.add_rank[n_in] = j
            n_in += 1
    stays = min(n_stay, n_new - n_in)
    seen = 0
    for i in range(n_old):
        row = old_row[i]
        if row >= 0:
            seen += 1
            if seen <= stays:
                continue
        elif row == -(2**31):
            continue
        else:
            row = -1 - row
        write_change(raw, at, LEAVE, row, np.nan, 0)
        at += 1
    if may_update:
        for j in range(n_new):
            if new_op[j] == UPDATE:
                # Adding zero turns minus zero into zero.
                score = key_sign * pool.key[start + j] + 0.0
                write_change(raw, at, UPDATE, pool.row[start + j], score, j + 1)
                at += 1
    c = 0
    for j in range(n_new):
        if c < n_in and scratch.add_rank[c] == j:
            c += 1
        elif j - c < n_stay:
            continue
        if may_update and new_op[j] != ENTER:
            continue
        write_change(raw, at, ENTER, pool.row[start + j], key_sign * pool.key[start + j] + 0.0, j + 1)
        at += 1
    return at


@inlined
def patch_by_one(
    ranking: CandidateRanking,
    lanes: SubscriptionLanes,
    lane: int,
    born: Longs,
    pool: ListPool,
    entries: DeltaEntries,
    e: int,
    key: float,
    at: int,
    raw: LaneChanges,
) -> int:
    """Patch a list that has one event, if it neither runs short nor full; returns the end of the changes.

    At most one row moves into or out of the answer. Returns -1 in any other case.
    """
    k = lanes.k[lane]
    start = lanes.list_start[lane]
    size = lanes.list_size[lane]
    tie_sign = ranking.tie_sign
    last = start + k - 1
    if e >= 0:
        if size < k or size >= min(max_size(k), lanes.list_capacity[lane]):
            return -1
        leaving = pool.row[last]
        entering = entries.row[e]
        tie = tie_sign * entries.born_after[e]
        place = insert_listed(pool.row, pool.key, start, size, k, entering, key, tie, born, tie_sign)
        rank = place
        lanes.list_size[lane] = size + 1
    else:
        # A changed row may be in the list again already, further down.
        if size <= k or entries.born_after[-1 - e] >= 0:
            return -1
        leaving = entries.row[-1 - e]
        place = remove_listed(pool.row, pool.key, start, size, k, leaving, key, born, tie_sign)
        rank = k - 1
        lanes.list_size[lane] = size - 1
    if place < k:
        write_change(raw, at, LEAVE, leaving, np.nan, 0)
        score = ranking.key_sign * pool.key[start + rank] + 0.0
        write_change(raw, at + 1, ENTER, pool.row[start + rank], score, rank + 1)
        at += 2
        lanes.kth_key[lane] = pool.key[last]
    return at


@lean_kernel
def patch_lists(
    state: Longs,
    ranking: CandidateRanking,
    lanes: SubscriptionLanes,
    rows: StoredRows,
    candidates: CandidateRows,
    pool: ListPool,
    events: ListEvents,
    entries: DeltaEntries,
    scratch: PatchScratch,
    raw: LaneChanges,
) -> int:
    """Patch the list of each lane that has events, from `state` on, and write the changes."""
    pool_row = pool.row
    pool_key = pool.key
    head = lanes.head
    event_next = events.next
    event_entry = events.entry
    event_key = events.key
    entry_row = entries.row
    born_after = entries.born_after
    born = rows.born
    add_key = scratch.add_key
    add_tie = scratch.add_tie
    add_row = scratch.add_row
    old_row = scratch.old_row
    old_key = scratch.old_key
    tie_sign = ranking.tie_sign
    n_raw = state[N_RAW]
    status = DONE
    at = state[AT]
    while at < state[N_AFFECTED]:
        lane = int(np.int64(scratch.affected[at]))
        event = head[lane]
        if event_next[event] < 0 and n_raw + 2 <= len(raw.op):
            e = int(np.int64(event_entry[event]))
            end = patch_by_one(ranking, lanes, lane, born, pool, entries, e, event_key[event], n_raw, raw)
            if end >= 0:
                n_raw = end
                scratch.raw_end[at] = end
                head[lane] = -1
                at += 1
                continue

        k = lanes.k[lane]
        start = lanes.list_start[lane]
        size = lanes.list_size[lane]
        full = max_size(k)
        n_add = 0
        n_gone = 0
        while event >= 0:
            e = event_entry[event]
            if e >= 0:
                add_key[n_add] = event_key[event]
                add_tie[n_add] = tie_sign * born_after[e]
                add_row[n_add] = entry_row[e]
                n_add += 1
            else:
                n_gone += 1
            event = event_next[event]
        if n_add > 1:
            sort_places(add_key, add_tie, add_row, n_add)
        all_added = n_add
        n_add = min(n_add, full)

        # Check all capacities before anything is changed.
        n_remaining = size - n_gone + n_add
        n_refill = 0
        floor_key = lanes.floor[lane]
        is_bottom = floor_key == -np.inf and lanes.floor_tie[lane] == LOWEST_TIE
        is_short = n_remaining < k and not is_bottom
        if is_short:
            n_refill = state[N_REFILL]
            if n_refill < 0:
                state[N_REMAINING] = n_remaining
                status = LIST_SHORT
                break
        if n_raw + 2 * (all_added + n_gone) > len(raw.op):
            status = FULL
            break
        if n_remaining + n_refill > lanes.list_capacity[lane]:
            capacity = min(
                n_remaining + n_refill + n_remaining // 2 + 8, max(n_remaining + n_refill, 2 * k + 16)
            )
            if state[POOL_END] + capacity > len(pool_row):
                status = POOL_FULL
                break
            moved = state[POOL_END]
            for i in range(size):
                pool_row[moved + i] = pool_row[start + i]
                pool_key[moved + i] = pool_key[start + i]
            state[POOL_END] += capacity
            start = moved
            lanes.list_start[lane] = start
            lanes.list_capacity[lane] = capacity

        # Save the old answer, remove, insert, refill.
        n_old = min(k, size)
        for i in range(n_old):
            old_row[i] = pool_row[start + i]
            old_key[i] = pool_key[start + i]
        n_stay = n_old
        n_touched = 0
        may_update = False
        event = head[lane]
        while event >= 0:
            e = -1 - event_entry[event]
            if e >= 0:
                row = entry_row[e]
                remove_listed(pool_row, pool_key, start, size, k, row, event_key[event], born, tie_sign)
                size -= 1
                for i in range(n_old):
                    if old_row[i] == row:
                        old_row[i] = -1 - row
                        n_stay -= 1
                may_update |= born_after[e] >= 0
                if entries.touched[e]:
                    scratch.touched_row[n_touched] = row
                    n_touched += 1
            event = event_next[event]
        for c in range(n_add):
            insert_listed(
                pool_row, pool_key, start, size, k, add_row[c], add_key[c], add_tie[c], born, tie_sign
            )
            size += 1
        for i in range(n_refill):
            pool_row[start + size] = scratch.refill_row[i]
            pool_key[start + size] = scratch.refill_key[i]
            candidates.is_listed[rows.candidate_at[scratch.refill_row[i]]] = True
            size += 1
        n_new = min(k, size)
        if may_update:
            mark_updates(
                n_old, n_new, start, pool, rows.mark, scratch.touched_row, n_touched, old_row, old_key,
                scratch.new_op,
            )  # fmt: skip
        n_raw = write_difference(
            n_old, n_stay, n_new, n_add, start, pool, ranking.key_sign, may_update, scratch, n_raw, raw
        )

        # Move a floor that is too high for the answer, or too low for the list's capacity.
        if is_short and n_refill < initial_size(k) - n_remaining:
            lanes.floor[lane] = lanes.refill_floor[lane]
            lanes.floor_tie[lane] = LOWEST_TIE
        elif is_short or size > full or all_added > n_add:
            sort_rest(pool_row, pool_key, start + n_new, start + size, born, tie_sign)
            size = min(size, initial_size(k))
            lanes.floor[lane] = pool_key[start + size - 1]
            lanes.floor_tie[lane] = tie_sign * born[pool_row[start + size - 1]]
        lanes.kth_key[lane] = pool_key[start + k - 1] if size >= k else -np.inf
        lanes.list_size[lane] = size
        scratch.raw_end[at] = n_raw
        head[lane] = -1
        state[N_REFILL] = -1
        at += 1
    state[AT] = at
    state[N_RAW] = n_raw
    return status


@inlined
def prefetch_changes(
    slot_order: Ints, affected_at: Ints, begin: int, end: int, raw_end: Ints, raw: LaneChanges
) -> float:
    """Load the first change of each of these slots into the cache, so that the cache misses overlap.

    The sum that is returned means nothing: it keeps the compiler from dropping the loads.
    """
    total = 0.0
    for t in range(begin, end):
        i = affected_at[slot_order[t]]
        # A slot without changes may begin past the end.
        first = min(raw_end[i - 1] if i > 0 else 0, len(raw.op) - 1)
        total += raw.op[first] + raw.row[first] + raw.score[first] + raw.rank[first]
    return total


@lean_kernel
def emit_changes(
    state: Longs, lane_slot: Ints, scratch: PatchScratch, raw: LaneChanges, out: ChangeSet
) -> int:
    """Write the changes of the step, ordered by subscription slot."""
    affected = scratch.affected
    raw_end = scratch.raw_end
    slot_order = scratch.slot_order
    affected_at = scratch.affected_at
    n = state[N_AFFECTED]
    at = state[N_OUT]
    if at + state[N_RAW] > len(out.step):
        return FULL
    for i in range(n):
        slot_order[i] = lane_slot[affected[i]]
        affected_at[slot_order[i]] = i
    if SCAN_FRACTION * n < len(affected_at):
        sort_slots(slot_order, n)
    else:
        n = 0
        for slot in range(len(affected_at)):
            if affected_at[slot] >= 0:
                slot_order[n] = slot
                n += 1
    for t in range(n):
        if t % FETCH_BATCH == 0:
            scratch.score[0] = prefetch_changes(
                slot_order, affected_at, t, min(t + FETCH_BATCH, n), raw_end, raw
            )
        slot = slot_order[t]
        i = affected_at[slot]
        affected_at[slot] = -1
        for source in range(raw_end[i - 1] if i > 0 else 0, raw_end[i]):
            out.step[at] = state[STEP]
            out.subscription[at] = slot
            out.op[at] = raw.op[source]
            out.row[at] = raw.row[source]
            out.score[at] = raw.score[source]
            out.rank[at] = raw.rank[source]
            at += 1
    state[N_OUT] = at
    return DONE
