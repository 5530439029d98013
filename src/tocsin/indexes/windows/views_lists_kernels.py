"""Lists are patched by a step's events, and what that changes for subscribers is written down."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs, Ops
from tocsin.indexes.shared.jit import kernel
from tocsin.indexes.shared.scans import ChangeColumns
from tocsin.indexes.windows.views_columns import (
    AT,
    DONE,
    LOWEST_TIE,
    N_AFFECTED,
    N_KEPT,
    N_MORE,
    N_OUT,
    OUT_FULL,
    POOL_END,
    POOL_FULL,
    SHORT,
    STEP,
    HotRows,
    ViewEntries,
    ViewEvents,
    ViewLanes,
    ViewPool,
    ViewRanking,
    ViewRows,
    ViewScratch,
    ViewSubscriptions,
)

#: The contract's operations, again: kernels read the globals of their own file.
LEAVE = 0
UPDATE = 1
ENTER = 2
UNCHANGED = -1

#: Lists that are fetched together, and float64s of a cache line.
TOGETHER = 16
LINE = 8


@kernel
def fresh_size(k: int) -> int:
    """How long a list is when it is new: few rows more come and go than this is above k."""
    return k + int(2.5 * np.sqrt(k)) + 5


@kernel
def full_size(k: int) -> int:
    """How long a list may grow before it is cut to its fresh size."""
    fresh = fresh_size(k)
    return min(2 * k + 16, fresh + 2 * (fresh - k) + 8)


@kernel
def is_before(key: float, tie: int, other_key: float, other_tie: int) -> bool:
    """Whether one place ranks before another."""
    return key > other_key or (key == other_key and tie > other_tie)


@kernel
def sort_places(keys: Floats, ties: Longs, rows: Ints, size: int) -> None:
    """Sort places, best first. Shell's sort: short lists are the rule."""
    gap = 1
    while gap < size // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, size):
            key = keys[i]
            tie = ties[i]
            row = rows[i]
            j = i
            while j >= gap and is_before(key, tie, keys[j - gap], ties[j - gap]):
                keys[j] = keys[j - gap]
                ties[j] = ties[j - gap]
                rows[j] = rows[j - gap]
                j -= gap
            keys[j] = key
            ties[j] = tie
            rows[j] = row
        gap //= 3


@kernel
def find_in_list(rows: Ints, keys: Floats, start: int, size: int, key: float, row: int) -> int:
    """Where in a list a row is, by its key."""
    low = start
    high = start + size
    while low < high:
        middle = (low + high) // 2
        if keys[middle] > key:
            low = middle + 1
        else:
            high = middle
    # Of equal keys, some may be marked as gone already.
    while rows[low] != row:
        low += 1
    return low


@kernel
def sort_tail(rows: Ints, keys: Floats, begin: int, end: int, born: Longs, tie_sign: int) -> None:
    """Sort a part of a list, most of which is in order already."""
    for i in range(begin + 1, end):
        key = keys[i]
        row = rows[i]
        j = i
        # Where keys differ, ties need not be fetched from afar.
        while j > begin and (
            keys[j - 1] < key or (keys[j - 1] == key and tie_sign * born[rows[j - 1]] < tie_sign * born[row])
        ):
            keys[j] = keys[j - 1]
            rows[j] = rows[j - 1]
            j -= 1
        keys[j] = key
        rows[j] = row


@kernel
def fetch_lists(
    affected: Ints,
    begin: int,
    end: int,
    head: Ints,
    list_start: Longs,
    list_size: Longs,
    pool_row: Ints,
    pool_key: Floats,
    event_entry: Ints,
    event_key: Floats,
) -> float:
    """Read a little of all that some patches will need; the sum is of no use.

    The reads do not wait for each other, as those of one patch after the other would: with a hundred
    thousand lists, which no cache holds, that is what most of the time is spent on.
    """
    total = 0.0
    for i in range(begin, end):
        slot = affected[i]
        event = head[slot]
        total += event_key[event] + event_entry[event]
        last = list_start[slot] + list_size[slot]
        for at in range(list_start[slot], last, LINE):
            total += pool_key[at] + pool_row[at]
    return total


@kernel
def let_in(
    rows: Ints,
    keys: Floats,
    start: int,
    size: int,
    row: int,
    key: float,
    tie: int,
    born: Longs,
    tie_sign: int,
) -> int:
    """Put a row into a list that has room for it; answers its place there."""
    i = start + size
    # Where keys differ, ties need not be fetched from afar.
    while i > start and (keys[i - 1] < key or (keys[i - 1] == key and tie_sign * born[rows[i - 1]] < tie)):
        rows[i] = rows[i - 1]
        keys[i] = keys[i - 1]
        i -= 1
    rows[i] = row
    keys[i] = key
    return i - start


@kernel
def let_go(rows: Ints, keys: Floats, start: int, size: int, row: int, key: float) -> int:
    """Take a row out of a list; answers what its place was."""
    place = find_in_list(rows, keys, start, size, key, row)
    for i in range(place, start + size - 1):
        rows[i] = rows[i + 1]
        keys[i] = keys[i + 1]
    return place - start


@kernel
def mark_updates(
    n_old: int,
    n_new: int,
    start: int,
    pool: ViewPool,
    born: Longs,
    touched_row: Ints,
    n_touched: int,
    old_row: Ints,
    old_key: Floats,
    new_op: Ops,
) -> int:
    """Find rows that left the list and came back into the answer: updates, or no change; how many updates.

    Their place in `old_row` becomes one that stays, and `new_op` says what they are.
    """
    n_updates = 0
    rows = pool.row
    for j in range(n_new):
        new_op[j] = ENTER
    for i in range(n_old):
        row = -1 - old_row[i]
        if row < 0 or born[row] < 0:
            continue
        for j in range(n_new):
            if rows[start + j] == row:
                is_touched = False
                for t in range(n_touched):
                    is_touched |= touched_row[t] == row
                is_same = pool.key[start + j] == old_key[i] and not is_touched
                new_op[j] = UNCHANGED if is_same else UPDATE
                n_updates += 0 if is_same else 1
                # As one that stays, but not counted among them.
                old_row[i] = -(2**31)
                break
    return n_updates


@kernel
def patch_lists(
    state: Longs,
    ranking: ViewRanking,
    subscriptions: ViewSubscriptions,
    lanes: ViewLanes,
    rows: ViewRows,
    hot: HotRows,
    pool: ViewPool,
    events: ViewEvents,
    entries: ViewEntries,
    scratch: ViewScratch,
    out: ChangeColumns,
) -> int:
    """Patch the list of each subscription that has events, in the order of slots, and write what changes."""
    pool_row = pool.row
    pool_key = pool.key
    head = subscriptions.head
    list_start = subscriptions.list_start
    list_room = subscriptions.list_room
    list_size = subscriptions.list_size
    event_next = events.next
    event_entry = events.entry
    event_key = events.key
    entry_row = entries.row
    born_after = entries.born_after
    touched = entries.touched
    born = rows.born
    add_key = scratch.add_key
    add_tie = scratch.add_tie
    add_row = scratch.add_row
    add_rank = scratch.add_rank
    old_row = scratch.old_row
    old_key = scratch.old_key
    new_op = scratch.new_op
    out_step = out.step
    out_subscription = out.subscription
    out_op = out.op
    out_row = out.row
    out_score = out.score
    out_rank = out.rank
    key_sign = ranking.key_sign
    tie_sign = ranking.tie_sign
    n_out = state[N_OUT]
    step = state[STEP]
    status = DONE
    at = state[AT]
    fetched = at
    while at < state[N_AFFECTED]:
        if at >= fetched:
            fetched = min(at + TOGETHER, state[N_AFFECTED])
            scratch.score[0] = fetch_lists(
                scratch.affected, at, fetched, head, list_start, list_size, pool_row, pool_key,
                event_entry, event_key,
            )  # fmt: skip
        slot = scratch.affected[at]
        k = subscriptions.k[slot]
        lane = subscriptions.lane[slot]
        start = list_start[slot]
        size = list_size[slot]
        full = full_size(k)
        sort_tail(pool_row, pool_key, start + k, start + size, born, tie_sign)

        # Most have one event, which moves one row in or out of the answer at most. (A row that changed may
        # be back already, further down.)
        event = head[slot]
        if event_next[event] < 0 and n_out + 2 <= len(out_step):
            e = event_entry[event]
            key = event_key[event]
            place = -1
            if e >= 0 and size < min(full, list_room[slot]):
                row = entry_row[e]
                place = let_in(
                    pool_row, pool_key, start, size, row, key, tie_sign * born_after[e], born, tie_sign
                )
                size += 1
                leaving = pool_row[start + k] if place < k < size else -1
                entering = place
            elif e < 0 and size > k and born_after[-1 - e] < 0:
                leaving = entry_row[-1 - e]
                place = let_go(pool_row, pool_key, start, size, leaving, key)
                size -= 1
                entering = k - 1
            if place >= 0:
                if place < k:
                    if leaving >= 0:
                        out_step[n_out] = step
                        out_subscription[n_out] = slot
                        out_op[n_out] = LEAVE
                        out_row[n_out] = leaving
                        out_score[n_out] = np.nan
                        out_rank[n_out] = 0
                        n_out += 1
                    out_step[n_out] = step
                    out_subscription[n_out] = slot
                    out_op[n_out] = ENTER
                    out_row[n_out] = pool_row[start + entering]
                    out_score[n_out] = key_sign * pool_key[start + entering] + 0.0
                    out_rank[n_out] = entering + 1
                    n_out += 1
                lanes.last[lane] = pool_key[start + k - 1] if size >= k else -np.inf
                list_size[slot] = size
                head[slot] = -1
                at += 1
                continue

        n_add = 0
        n_gone = 0
        event = head[slot]
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

        # Make sure of everything that may be wanting, before anything is changed.
        n_kept = size - n_gone + n_add
        n_more = 0
        floor_key = subscriptions.floor_key[slot]
        floor_tie = subscriptions.floor_tie[slot]
        is_bottom = floor_key == -np.inf and floor_tie == LOWEST_TIE
        is_short = n_kept < k and not is_bottom
        if is_short:
            n_more = state[N_MORE]
            if n_more < 0:
                state[N_KEPT] = n_kept
                status = SHORT
                break
        if n_out + 2 * (all_added + n_gone) > len(out_step):
            status = OUT_FULL
            break
        if n_kept + n_more > list_room[slot]:
            room = min(n_kept + n_more + n_kept // 2 + 8, max(n_kept + n_more, 2 * k + 16))
            if state[POOL_END] + room > len(pool_row):
                status = POOL_FULL
                break
            moved = state[POOL_END]
            for i in range(size):
                pool_row[moved + i] = pool_row[start + i]
                pool_key[moved + i] = pool_key[start + i]
            state[POOL_END] += room
            start = moved
            list_start[slot] = start
            list_room[slot] = room

        # Mark what goes by its complement, remember the old answer, close the gaps.
        n_old = min(k, size)
        n_touched = 0
        may_update = False
        if n_gone > 0:
            event = head[slot]
            while event >= 0:
                e = -1 - event_entry[event]
                if e >= 0:
                    i = find_in_list(pool_row, pool_key, start, size, event_key[event], entry_row[e])
                    pool_row[i] = -1 - pool_row[i]
                    may_update |= born_after[e] >= 0
                    if touched[e]:
                        scratch.touched_row[n_touched] = entry_row[e]
                        n_touched += 1
                event = event_next[event]
        n_stay = 0
        for i in range(n_old):
            old_row[i] = pool_row[start + i]
            old_key[i] = pool_key[start + i]
            if old_row[i] >= 0:
                n_stay += 1
        if n_gone > 0:
            kept = start
            for i in range(start, start + size):
                if pool_row[i] >= 0:
                    pool_row[kept] = pool_row[i]
                    pool_key[kept] = pool_key[i]
                    kept += 1

        # Let in what comes, from the end backwards; then fill up.
        i = size - n_gone - 1
        for c in range(n_add - 1, -1, -1):
            while i >= 0:
                # Where keys differ, ties need not be fetched from afar.
                key = pool_key[start + i]
                if key > add_key[c] or (
                    key == add_key[c] and tie_sign * born[pool_row[start + i]] > add_tie[c]
                ):
                    break
                pool_row[start + i + c + 1] = pool_row[start + i]
                pool_key[start + i + c + 1] = pool_key[start + i]
                i -= 1
            pool_row[start + i + c + 1] = add_row[c]
            pool_key[start + i + c + 1] = add_key[c]
            add_rank[c] = i + c + 1
        for i in range(n_more):
            pool_row[start + n_kept + i] = scratch.more_row[i]
            pool_key[start + n_kept + i] = scratch.more_key[i]
            hot.is_listed[rows.hot_at[scratch.more_row[i]]] = True
        size = n_kept + n_more

        # Tell: what was in the old answer and is not in the new one leaves, and so on.
        n_new = min(k, size)
        n_updates = 0
        if may_update:
            n_updates = mark_updates(
                n_old, n_new, start, pool, born, scratch.touched_row, n_touched, old_row, old_key, new_op
            )
        n_in = 0
        while n_in < n_add and add_rank[n_in] < n_new:
            n_in += 1
        stays = min(n_stay, n_new - n_in)
        if stays < n_old:
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
                out_step[n_out] = step
                out_subscription[n_out] = slot
                out_op[n_out] = LEAVE
                out_row[n_out] = row
                out_score[n_out] = np.nan
                out_rank[n_out] = 0
                n_out += 1
        if n_updates > 0:
            for j in range(n_new):
                if new_op[j] == UPDATE:
                    out_step[n_out] = step
                    out_subscription[n_out] = slot
                    out_op[n_out] = UPDATE
                    out_row[n_out] = pool_row[start + j]
                    # Adding zero turns minus zero into zero.
                    out_score[n_out] = key_sign * pool_key[start + j] + 0.0
                    out_rank[n_out] = j + 1
                    n_out += 1
        if stays < n_new:
            c = 0
            for j in range(n_new):
                if c < n_in and add_rank[c] == j:
                    c += 1
                elif j - c < n_stay:
                    continue
                if may_update and new_op[j] != ENTER:
                    continue
                out_step[n_out] = step
                out_subscription[n_out] = slot
                out_op[n_out] = ENTER
                out_row[n_out] = pool_row[start + j]
                out_score[n_out] = key_sign * pool_key[start + j] + 0.0
                out_rank[n_out] = j + 1
                n_out += 1

        # A floor below which nothing is known, or above which there is too much, moves.
        if is_short:
            if n_more == fresh_size(k) - n_kept:
                floor_key = pool_key[start + size - 1]
                floor_tie = tie_sign * born[pool_row[start + size - 1]]
            else:
                floor_key = lanes.base[lane]
                floor_tie = LOWEST_TIE
        elif size > full or all_added > n_add:
            size = min(size, fresh_size(k))
            floor_key = pool_key[start + size - 1]
            floor_tie = tie_sign * born[pool_row[start + size - 1]]
        subscriptions.floor_key[slot] = floor_key
        subscriptions.floor_tie[slot] = floor_tie
        lanes.floor[lane] = floor_key
        lanes.last[lane] = pool_key[start + k - 1] if size >= k else -np.inf
        list_size[slot] = size
        head[slot] = -1
        state[N_MORE] = -1
        at += 1
    state[AT] = at
    state[N_OUT] = n_out
    return status
