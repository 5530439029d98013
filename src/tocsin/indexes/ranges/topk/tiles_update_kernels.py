"""Kernels that turn the update of one row into a log: which subscriptions it affects, and how.

The paper's sweep (Paint-Dense), seen from the subscriptions: a range [lo, hi] around the row's x is
characterised by how many of the rows around it contains on either side. They determine the row's rank at the
low end, whether it is still in the list at the high end, and if not, which row takes its place.
"""

from __future__ import annotations

import numpy as np

from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.types import Ints, Longs
from tocsin.indexes.ranges.structures.blocked_rows_kernels import (
    find_first,
    find_last,
    first_left,
    first_right,
    is_before,
    least_between,
    lower_of,
    place_after,
    place_before,
)
from tocsin.indexes.ranges.structures.blocked_rows_layout import BlockedColumns
from tocsin.indexes.ranges.structures.points_kernels import (
    Grid,
    Rectangle,
    find_buckets,
    find_columns,
    is_apart,
    snap_points,
)
from tocsin.indexes.ranges.topk.tiles_layout import (
    N_EFFECTS,
    N_LOG,
    N_MOVES,
    Around,
    Gaps,
    Limits,
    Log,
    TileSide,
    Update,
)
from tocsin.kernels.search import count_at_most
from tocsin.kernels.status import AROUND_FULL, DONE, LOG_FULL

#: Entries of the table: not yet evaluated; not affected.
UNKNOWN = -1
UNAFFECTED = -2


@lean_kernel
def find_neighbours(blocked: BlockedColumns, update: Update) -> tuple[int, int]:
    """The places next to where the row is, or would be: on the left, on the right; -1 for none."""
    place = int(blocked.slot_place[update.row])
    if place >= 0:
        return place_before(blocked, place), place_after(blocked, place)
    return find_last(blocked, update.x, False), find_first(blocked, update.x, True)


@lean_kernel
def find_lower(blocked: BlockedColumns, update: Update, k: int, neighbour: int, side: TileSide) -> int:
    """Write the nearest k rows on one side that rank before the low end. Returns how many there are."""
    if side.sign[0] < 0:
        count = first_left(blocked, neighbour, update.low_y, update.low_born, k, side.place)
    else:
        count = first_right(blocked, neighbour, update.low_y, update.low_born, k, side.place)
    for i in range(count):
        side.far[i] = side.sign[0] * blocked.x[side.place[i]]
        side.number[i] = -1
    return count


@inlined
def set_gap(
    blocked: BlockedColumns, side: TileSide, at: int, count: int, near: int, end: int, bound: float
) -> None:
    """Find the lowest row of the gap in front of row `at`, which begins behind the place `near`.

    Rows farther than `bound` do not count: the gap that reaches beyond ends in front of the place `end`.
    """
    limit = end
    if at < count and side.far[at] <= bound:
        limit = int(side.place[at])
    # Through the column: places are passed as int32 everywhere.
    is_left = side.sign[0] < 0
    side.ends[0] = limit if is_left else near
    side.ends[1] = near if is_left else limit
    side.gap[at] = -1
    if at == 0 or side.far[at - 1] <= bound:
        side.gap[at] = least_between(blocked, side.ends[0], side.ends[1])


@lean_kernel
def set_gaps(
    blocked: BlockedColumns, side: TileSide, count: int, k: int, near: int, end: int, bound: float
) -> int:
    """Find the lowest row of each gap in front of the nearest k rows. Returns how many gaps there are."""
    n_gaps = min(count + 1, k)
    for at in range(n_gaps):
        before = near if at == 0 else int(side.place[at - 1])
        set_gap(blocked, side, at, count, before, end, bound)
    return n_gaps


@lean_kernel
def lowest_gap(blocked: BlockedColumns, side: TileSide, n_gaps: int) -> int:
    """The gap with the lowest row, -1 if all are empty."""
    best = -1
    chosen = -1
    for at in range(n_gaps):
        place = int(side.gap[at])
        if lower_of(blocked.y, blocked.born, best, place) != best:
            best = place
            chosen = at
    return chosen


@lean_kernel
def add_exposed(
    blocked: BlockedColumns,
    side: TileSide,
    at: int,
    count: int,
    k: int,
    near: int,
    end: int,
    bound: float,
    number: int,
) -> int:
    """Put the lowest row of gap `at` among those around, which splits the gap. Returns the number of gaps."""
    place = int(side.gap[at])
    for i in range(count, at, -1):
        side.far[i] = side.far[i - 1]
        side.place[i] = side.place[i - 1]
        side.number[i] = side.number[i - 1]
    for i in range(count + 1, at + 1, -1):
        side.gap[i] = side.gap[i - 1]
    side.far[at] = side.sign[0] * blocked.x[place]
    side.place[at] = place
    side.number[at] = number
    before = near if at == 0 else int(side.place[at - 1])
    set_gap(blocked, side, at, count + 1, before, end, bound)
    if at + 1 < k:
        set_gap(blocked, side, at + 1, count + 1, place, end, bound)
    return min(count + 2, k)


@lean_kernel
def find_exposed(
    blocked: BlockedColumns,
    update: Update,
    k: int,
    seen: Rectangle,
    neighbour_left: int,
    neighbour_right: int,
    n_left: int,
    n_right: int,
    around: Around,
) -> tuple[int, int, int]:
    """Add the exposed rows to those around. Returns the rows on the left, on the right, and the exposed.

    Only rows in the ranges of subscriptions that can be affected, which `seen` bounds. The third number is -1
    if there is no capacity. Cost: two searches each.
    """
    left, right = around.left, around.right
    place = int(blocked.slot_place[update.row])
    # Where each side begins: at the row itself, or at the neighbour on the other side if it is absent.
    near_left = place if place >= 0 else neighbour_right
    near_right = place if place >= 0 else neighbour_left
    end_left = find_last(blocked, seen.lo_min, True)
    end_right = find_first(blocked, seen.hi_max, True)
    gaps_left = set_gaps(blocked, left, n_left, k, near_left, end_left, -seen.lo_min)
    gaps_right = set_gaps(blocked, right, n_right, k, near_right, end_right, seen.hi_max)
    n_exposed = 0
    while True:
        at_left = lowest_gap(blocked, left, gaps_left)
        at_right = lowest_gap(blocked, right, gaps_right)
        place_left = -1 if at_left < 0 else int(left.gap[at_left])
        place_right = -1 if at_right < 0 else int(right.gap[at_right])
        lowest = lower_of(blocked.y, blocked.born, place_left, place_right)
        if lowest < 0:
            break
        if not is_before(blocked.y[lowest], int(blocked.born[lowest]), update.high_y, update.high_born):
            break
        if max(n_left, n_right) + 1 >= len(left.far) or n_exposed >= len(around.exposed):
            return n_left, n_right, -1
        around.exposed[n_exposed] = blocked.slot[lowest]
        if lowest == place_left:
            gaps_left = add_exposed(
                blocked, left, at_left, n_left, k, near_left, end_left, -seen.lo_min, n_exposed
            )
            n_left += 1
        else:
            gaps_right = add_exposed(
                blocked, right, at_right, n_right, k, near_right, end_right, seen.hi_max, n_exposed
            )
            n_right += 1
        n_exposed += 1
    return n_left, n_right, n_exposed


@lean_kernel
def number_around(around: Around, n_left: int, n_right: int) -> None:
    """Derive `before` and `position` from the rows around."""
    left, right = around.left, around.right
    left.before[0] = 0
    for i in range(n_left):
        number = left.number[i]
        left.before[i + 1] = left.before[i] + (1 if number < 0 else 0)
        if number >= 0:
            around.position[number] = i
    right.before[0] = 0
    for i in range(n_right):
        number = right.number[i]
        right.before[i + 1] = right.before[i] + (1 if number < 0 else 0)
        if number >= 0:
            around.position[number] = -1 - i


@inlined
def find_other(around: Around, n_left: int, n_right: int, wanted: int) -> int:
    """The slot of the `wanted`-th exposed row, from 1, of those among the nearest `n_left` and `n_right`."""
    number = -1
    while wanted > 0:
        number += 1
        position = around.position[number]
        wanted -= 1 if -n_right <= position < n_left else 0
    return int(around.exposed[number])


@lean_kernel
def add_effect(
    log: Log, counts: Longs, update: Update, k: int, low_rank: int, high_rank: int, other: int
) -> int:
    """Write how lists change in which the row ranks `low_rank` at the low end. Two moves must fit.

    `high_rank` is its rank at the high end, 0 if it is not in the list. `other` is the row that has rank k
    then, -1 if there is none.
    """
    effect = counts[N_EFFECTS]
    at = counts[N_MOVES]
    rows = log.row
    ranks = log.rank
    if update.is_raise:
        if high_rank > 0:
            rows[at] = update.row
            ranks[at] = -high_rank
            at += 1
        elif other >= 0:
            rows[at] = other
            ranks[at] = -k
            at += 1
        rows[at] = update.row
        ranks[at] = low_rank
        at += 1
    else:
        rows[at] = update.row
        ranks[at] = -low_rank
        at += 1
        if high_rank > 0:
            rows[at] = update.row
            ranks[at] = high_rank
            at += 1
        elif other >= 0:
            rows[at] = other
            ranks[at] = k
            at += 1
    counts[N_EFFECTS] = effect + 1
    counts[N_MOVES] = at
    log.start[effect + 1] = at
    return int(effect)


@lean_kernel
def look_up(
    around: Around, update: Update, k: int, n_left: int, n_right: int, log: Log, counts: Longs
) -> int:
    """The effect of ranges that contain the nearest `n_left` and `n_right` rows around, or UNAFFECTED."""
    n_before = int(around.left.before[n_left]) + int(around.right.before[n_right])
    if n_before >= k:
        return UNAFFECTED
    if n_left + n_right >= k:
        other = find_other(around, n_left, n_right, k - n_before)
        return add_effect(log, counts, update, k, n_before + 1, 0, other)
    high_rank = 0 if update.is_absent else n_left + n_right + 1
    return add_effect(log, counts, update, k, n_before + 1, high_rank, -1)


@inlined
def find_effect(
    around: Around,
    update: Update,
    k: int,
    n_left: int,
    n_right: int,
    width: int,
    first: int,
    log: Log,
    counts: Longs,
) -> int:
    """The effect that `look_up` finds, cached in the table, whose part for this k begins at `first`."""
    entry = first + n_left * width + n_right
    effect = int(around.table[entry])
    if effect == UNKNOWN:
        effect = look_up(around, update, k, n_left, n_right, log, counts)
        around.table[entry] = effect
    return effect


@inlined
def log_whole(slots: Ints, start: int, size: int, effect: int, log: Log, counts: Longs) -> None:
    """Log one effect for a whole bucket."""
    if effect < 0:
        return
    at = counts[N_LOG]
    for i in range(size):
        log.subscription[at + i] = slots[start + i]
        log.effect[at + i] = effect
    counts[N_LOG] = at + size


@lean_kernel
def list_first(blocked: BlockedColumns, lo: float, hi: float, k: int, gaps: Gaps) -> int:
    """Write the places of the first k rows of a range, in rank order. Returns how many there are.

    Cost: k searches for the lowest of a stretch, and k² comparisons.
    """
    if not lo <= hi or k == 0:
        return 0
    gaps.left[0] = find_last(blocked, lo, True)
    gaps.right[0] = find_first(blocked, hi, True)
    gaps.best[0] = least_between(blocked, gaps.left[0], gaps.right[0])
    n_gaps = 1
    n_found = 0
    while n_found < k:
        best = -1
        chosen = 0
        for gap in range(n_gaps):
            place = int(gaps.best[gap])
            if lower_of(blocked.y, blocked.born, best, place) != best:
                best = place
                chosen = gap
        if best < 0:
            break
        gaps.found[n_found] = best
        n_found += 1
        gaps.left[n_gaps] = best
        gaps.right[n_gaps] = gaps.right[chosen]
        gaps.best[n_gaps] = least_between(blocked, gaps.left[n_gaps], gaps.right[n_gaps])
        gaps.right[chosen] = best
        gaps.best[chosen] = least_between(blocked, gaps.left[chosen], gaps.right[chosen])
        n_gaps += 1
    return n_found


@lean_kernel
def look_alone(
    blocked: BlockedColumns, update: Update, k: int, lo: float, hi: float, gaps: Gaps, log: Log, counts: Longs
) -> int:
    """The effect of one range, found without the rows around. Cost: that of its first k + 1 rows."""
    n_found = list_first(blocked, lo, hi, k + 1, gaps)
    n_before = 0
    n_all = 0
    other = -1
    for i in range(n_found):
        place = gaps.found[i]
        row = int(blocked.slot[place])
        if row == update.row or n_all == k:
            continue
        y = blocked.y[place]
        born = int(blocked.born[place])
        if is_before(y, born, update.low_y, update.low_born):
            n_before += 1
        if is_before(y, born, update.high_y, update.high_born):
            n_all += 1
            other = row
    if n_before >= k:
        return UNAFFECTED
    if n_all >= k:
        return add_effect(log, counts, update, k, n_before + 1, 0, other)
    return add_effect(log, counts, update, k, n_before + 1, 0 if update.is_absent else n_all + 1, -1)


@inlined
def has_log_capacity(log: Log, counts: Longs, entries: int) -> bool:
    """Whether `entries` entries fit, each with an effect of its own."""
    capacity = min(len(log.subscription) - counts[N_LOG], len(log.start) - 1 - counts[N_EFFECTS])
    return bool(entries <= capacity and counts[N_MOVES] + 2 * entries <= len(log.row))


@lean_kernel
def log_update(
    blocked: BlockedColumns,
    grid: Grid,
    limits: Limits,
    k: int,
    update: Update,
    around: Around,
    gaps: Gaps,
    log: Log,
    counts: Longs,
) -> int:
    """Log what an update does to every subscription's list; `k` is the largest. Changes only the log.

    If not DONE, the caller discards what it logged and calls again with more capacity. Cost: the exposed
    rows, the buckets of points met, and the subscriptions affected.
    """
    left, right = around.left, around.right
    near_left, near_right = find_neighbours(blocked, update)
    n_left = find_lower(blocked, update, k, near_left, left)
    n_right = find_lower(blocked, update, k, near_right, right)
    low = -np.inf if n_left < k else -left.far[k - 1]
    high = np.inf if n_right < k else right.far[k - 1]
    area = Rectangle(low, update.x, update.x, high)
    seen = snap_points(grid, area)
    if seen.lo_min > seen.lo_max:
        return DONE
    n_left, n_right, n_exposed = find_exposed(
        blocked, update, k, seen, near_left, near_right, n_left, n_right, around
    )
    if n_exposed < 0:
        return AROUND_FULL
    number_around(around, n_left, n_right)
    n_kinds = len(limits.k)
    width = n_right + 1
    is_alone = (n_left + 1) * width * n_kinds > len(around.table)
    if not is_alone:
        for entry in range((n_left + 1) * width * n_kinds):
            around.table[entry] = UNKNOWN
    first_column, end_column = find_columns(grid, seen)
    for column in range(first_column, end_column):
        first, end = find_buckets(grid, column, seen)
        for bucket in range(first, end):
            box = grid.bucket_box[bucket]
            size = grid.bucket_size[bucket]
            if size == 0 or is_apart(box, area):
                continue
            # The innermost corner ranks the row highest: if it is not affected there, it is nowhere.
            inner_left = count_at_most(left.far, n_left, -box[1])
            inner_right = count_at_most(right.far, n_right, box[2])
            if left.before[inner_left] + right.before[inner_right] >= k:
                continue
            if not has_log_capacity(log, counts, size):
                return LOG_FULL
            start = grid.bucket_start[bucket]
            is_whole = box[1] <= update.x <= box[2]
            if is_whole and n_kinds == 1 and not is_alone:
                outer_left = count_at_most(left.far, n_left, -box[0])
                outer_right = count_at_most(right.far, n_right, box[3])
                if inner_left == outer_left and inner_right == outer_right:
                    effect = find_effect(around, update, k, inner_left, inner_right, width, 0, log, counts)
                    log_whole(grid.slot, start, size, effect, log, counts)
                    continue
            for place in range(start, start + size):
                lo = grid.lo[place]
                hi = grid.hi[place]
                if not (is_whole or lo <= update.x <= hi):
                    continue
                slot = grid.slot[place]
                kind = int(limits.kind[slot]) if n_kinds > 1 else 0
                if is_alone:
                    effect = look_alone(blocked, update, int(limits.k[kind]), lo, hi, gaps, log, counts)
                else:
                    inside_left = count_at_most(left.far, n_left, -lo)
                    inside_right = count_at_most(right.far, n_right, hi)
                    first_entry = kind * (n_left + 1) * width
                    effect = find_effect(
                        around,
                        update,
                        int(limits.k[kind]),
                        inside_left,
                        inside_right,
                        width,
                        first_entry,
                        log,
                        counts,
                    )
                # Always written, counted if affected.
                log.subscription[counts[N_LOG]] = slot
                log.effect[counts[N_LOG]] = effect
                counts[N_LOG] += 1 if effect >= 0 else 0
    return DONE
