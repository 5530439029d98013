"""Kernels that turn the update of one row into a log: which subscriptions hear of it, and what.

The paper's sweep (Paint-Dense), seen from the subscriptions: a range [lo, hi] around the row's x is told
by how many of the rows around it holds on either side. With them its rank at the low end is known, whether
it is still in the list at the high end, and if not, which row has the place instead.
"""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.ranges.changes_columns import (
    AROUND_FULL,
    DONE,
    LOG_FULL,
    N_CELLS,
    N_LOG,
    N_MOVES,
    Around,
    Gaps,
    Limits,
    Log,
    Side,
    Update,
)
from tocsin.indexes.ranges.objects_columns import Objects
from tocsin.indexes.ranges.objects_kernels import (
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
from tocsin.indexes.ranges.points_kernels import (
    Grid,
    Rectangle,
    find_buckets,
    find_columns,
    is_apart,
    snap_points,
)
from tocsin.indexes.shared.jit import inlined, lean_kernel

#: Entries of the table: not yet looked at; nothing to tell.
UNKNOWN = -1
UNTOLD = -2


@inlined
def count_inside(far: Floats, count: int, bound: float) -> int:
    """How many of the first `count` of an ascending column are not above `bound`. Logarithmic."""
    # Halves without a branch: which half it is cannot be foreseen.
    base = 0
    size = count
    while size > 1:
        half = size >> 1
        base += half if far[base + half - 1] <= bound else 0
        size -= half
    if size == 1:
        base += 1 if far[base] <= bound else 0
    return base


@lean_kernel
def find_neighbours(objects: Objects, update: Update) -> tuple[int, int]:
    """The places next to where the row is, or would be: on the left, on the right; -1 for none."""
    place = int(objects.slot_place[update.row])
    if place >= 0:
        return place_before(objects, place), place_after(objects, place)
    return find_last(objects, update.x, False), find_first(objects, update.x, True)


@lean_kernel
def find_lower(objects: Objects, update: Update, k: int, neighbour: int, side: Side) -> int:
    """Write the nearest k rows on one side that rank before the low end. Answers how many there are."""
    if side.sign[0] < 0:
        count = first_left(objects, neighbour, update.low_y, update.low_born, k, side.place)
    else:
        count = first_right(objects, neighbour, update.low_y, update.low_born, k, side.place)
    for i in range(count):
        side.far[i] = side.sign[0] * objects.x[side.place[i]]
        side.number[i] = -1
    return count


@inlined
def set_gap(objects: Objects, side: Side, at: int, count: int, near: int, end: int, bound: float) -> None:
    """Find the lowest row of the gap in front of row `at`, which begins behind the place `near`.

    Rows farther than `bound` do not count: the gap that reaches beyond ends in front of the place `end`.
    """
    limit = end
    if at < count and side.far[at] <= bound:
        limit = int(side.place[at])
    # Through the column: places are int32 wherever they are passed on.
    is_left = side.sign[0] < 0
    side.ends[0] = limit if is_left else near
    side.ends[1] = near if is_left else limit
    side.gap[at] = -1
    if at == 0 or side.far[at - 1] <= bound:
        side.gap[at] = least_between(objects, side.ends[0], side.ends[1])


@lean_kernel
def set_gaps(objects: Objects, side: Side, count: int, k: int, near: int, end: int, bound: float) -> int:
    """Find the lowest row of each gap in front of the nearest k rows. Answers how many gaps there are."""
    n_gaps = min(count + 1, k)
    for at in range(n_gaps):
        before = near if at == 0 else int(side.place[at - 1])
        set_gap(objects, side, at, count, before, end, bound)
    return n_gaps


@lean_kernel
def lowest_gap(objects: Objects, side: Side, n_gaps: int) -> int:
    """The gap with the lowest row, -1 if all are empty."""
    best = -1
    chosen = -1
    for at in range(n_gaps):
        place = int(side.gap[at])
        if lower_of(objects.y, objects.born, best, place) != best:
            best = place
            chosen = at
    return chosen


@lean_kernel
def add_exposed(
    objects: Objects,
    side: Side,
    at: int,
    count: int,
    k: int,
    near: int,
    end: int,
    bound: float,
    number: int,
) -> int:
    """Put the lowest row of gap `at` among those around, which splits the gap. Answers the number of gaps."""
    place = int(side.gap[at])
    for i in range(count, at, -1):
        side.far[i] = side.far[i - 1]
        side.place[i] = side.place[i - 1]
        side.number[i] = side.number[i - 1]
    for i in range(count + 1, at + 1, -1):
        side.gap[i] = side.gap[i - 1]
    side.far[at] = side.sign[0] * objects.x[place]
    side.place[at] = place
    side.number[at] = number
    before = near if at == 0 else int(side.place[at - 1])
    set_gap(objects, side, at, count + 1, before, end, bound)
    if at + 1 < k:
        set_gap(objects, side, at + 1, count + 1, place, end, bound)
    return min(count + 2, k)


@lean_kernel
def find_exposed(
    objects: Objects,
    update: Update,
    k: int,
    seen: Rectangle,
    neighbour_left: int,
    neighbour_right: int,
    n_left: int,
    n_right: int,
    around: Around,
) -> tuple[int, int, int]:
    """Add the exposed rows to those around. Answers the rows on the left, on the right, and the exposed.

    Only rows in the ranges of subscriptions that can hear of it, which `seen` bounds. The third number is -1
    if there is no room. Cost: two searches each.
    """
    left, right = around.left, around.right
    place = int(objects.slot_place[update.row])
    # Where each side begins: at the row itself, or at the neighbour on the other side if it is not there.
    near_left = place if place >= 0 else neighbour_right
    near_right = place if place >= 0 else neighbour_left
    end_left = find_last(objects, seen.lo_min, True)
    end_right = find_first(objects, seen.hi_max, True)
    gaps_left = set_gaps(objects, left, n_left, k, near_left, end_left, -seen.lo_min)
    gaps_right = set_gaps(objects, right, n_right, k, near_right, end_right, seen.hi_max)
    n_exposed = 0
    while True:
        at_left = lowest_gap(objects, left, gaps_left)
        at_right = lowest_gap(objects, right, gaps_right)
        place_left = -1 if at_left < 0 else int(left.gap[at_left])
        place_right = -1 if at_right < 0 else int(right.gap[at_right])
        lowest = lower_of(objects.y, objects.born, place_left, place_right)
        if lowest < 0:
            break
        if not is_before(objects.y[lowest], int(objects.born[lowest]), update.high_y, update.high_born):
            break
        if max(n_left, n_right) + 1 >= len(left.far) or n_exposed >= len(around.exposed):
            return n_left, n_right, -1
        around.exposed[n_exposed] = objects.slot[lowest]
        if lowest == place_left:
            gaps_left = add_exposed(
                objects, left, at_left, n_left, k, near_left, end_left, -seen.lo_min, n_exposed
            )
            n_left += 1
        else:
            gaps_right = add_exposed(
                objects, right, at_right, n_right, k, near_right, end_right, seen.hi_max, n_exposed
            )
            n_right += 1
        n_exposed += 1
    return n_left, n_right, n_exposed


@lean_kernel
def number_around(around: Around, n_left: int, n_right: int) -> None:
    """Fill in what follows from the rows around: `before`, `position`."""
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
def add_cell(
    log: Log, counts: Longs, update: Update, k: int, low_rank: int, high_rank: int, other: int
) -> int:
    """Write how lists change in which the row ranks `low_rank` at the low end. There is room for two moves.

    `high_rank` is its rank at the high end, 0 if it is not in the list. `other` is the row that has rank k
    then, -1 if there is none.
    """
    cell = counts[N_CELLS]
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
    counts[N_CELLS] = cell + 1
    counts[N_MOVES] = at
    log.start[cell + 1] = at
    return int(cell)


@lean_kernel
def look_up(
    around: Around, update: Update, k: int, n_left: int, n_right: int, log: Log, counts: Longs
) -> int:
    """The cell of ranges that hold the nearest `n_left` and `n_right` rows around, or UNTOLD."""
    n_before = int(around.left.before[n_left]) + int(around.right.before[n_right])
    if n_before >= k:
        return UNTOLD
    if n_left + n_right >= k:
        other = find_other(around, n_left, n_right, k - n_before)
        return add_cell(log, counts, update, k, n_before + 1, 0, other)
    high_rank = 0 if update.is_absent else n_left + n_right + 1
    return add_cell(log, counts, update, k, n_before + 1, high_rank, -1)


@inlined
def find_cell(
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
    """As `look_up`, but looked up only once; the table of this k begins at `first`."""
    entry = first + n_left * width + n_right
    cell = int(around.table[entry])
    if cell == UNKNOWN:
        cell = look_up(around, update, k, n_left, n_right, log, counts)
        around.table[entry] = cell
    return cell


@inlined
def log_whole(slots: Ints, start: int, size: int, cell: int, log: Log, counts: Longs) -> None:
    """Log one cell for a whole bucket."""
    if cell < 0:
        return
    at = counts[N_LOG]
    for i in range(size):
        log.subscription[at + i] = slots[start + i]
        log.cell[at + i] = cell
    counts[N_LOG] = at + size


@lean_kernel
def list_first(objects: Objects, lo: float, hi: float, k: int, gaps: Gaps) -> int:
    """Write the places of the first k rows of a range, in rank order. Answers how many there are.

    Cost: k times the search for the lowest of a stretch, and k² looks at what was found.
    """
    if not lo <= hi or k == 0:
        return 0
    gaps.left[0] = find_last(objects, lo, True)
    gaps.right[0] = find_first(objects, hi, True)
    gaps.best[0] = least_between(objects, gaps.left[0], gaps.right[0])
    n_gaps = 1
    n_found = 0
    while n_found < k:
        best = -1
        chosen = 0
        for gap in range(n_gaps):
            place = int(gaps.best[gap])
            if lower_of(objects.y, objects.born, best, place) != best:
                best = place
                chosen = gap
        if best < 0:
            break
        gaps.found[n_found] = best
        n_found += 1
        gaps.left[n_gaps] = best
        gaps.right[n_gaps] = gaps.right[chosen]
        gaps.best[n_gaps] = least_between(objects, gaps.left[n_gaps], gaps.right[n_gaps])
        gaps.right[chosen] = best
        gaps.best[chosen] = least_between(objects, gaps.left[chosen], gaps.right[chosen])
        n_gaps += 1
    return n_found


@lean_kernel
def look_alone(
    objects: Objects, update: Update, k: int, lo: float, hi: float, gaps: Gaps, log: Log, counts: Longs
) -> int:
    """The cell of one range, found without the rows around. Cost: that of its first k + 1 rows."""
    n_found = list_first(objects, lo, hi, k + 1, gaps)
    n_before = 0
    n_all = 0
    other = -1
    for i in range(n_found):
        place = gaps.found[i]
        row = int(objects.slot[place])
        if row == update.row or n_all == k:
            continue
        y = objects.y[place]
        born = int(objects.born[place])
        if is_before(y, born, update.low_y, update.low_born):
            n_before += 1
        if is_before(y, born, update.high_y, update.high_born):
            n_all += 1
            other = row
    if n_before >= k:
        return UNTOLD
    if n_all >= k:
        return add_cell(log, counts, update, k, n_before + 1, 0, other)
    return add_cell(log, counts, update, k, n_before + 1, 0 if update.is_absent else n_all + 1, -1)


@inlined
def has_log_room(log: Log, counts: Longs, entries: int) -> bool:
    """Whether so many entries fit, each with a cell of its own."""
    room = min(len(log.subscription) - counts[N_LOG], len(log.start) - 1 - counts[N_CELLS])
    return bool(entries <= room and counts[N_MOVES] + 2 * entries <= len(log.row))


@lean_kernel
def log_update(
    objects: Objects,
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

    Not DONE: what it logged is to be forgotten, and it is to be called again with more room. Cost: the
    exposed rows, the buckets of points met, and the subscriptions that hear of it.
    """
    left, right = around.left, around.right
    near_left, near_right = find_neighbours(objects, update)
    n_left = find_lower(objects, update, k, near_left, left)
    n_right = find_lower(objects, update, k, near_right, right)
    low = -np.inf if n_left < k else -left.far[k - 1]
    high = np.inf if n_right < k else right.far[k - 1]
    area = Rectangle(low, update.x, update.x, high)
    seen = snap_points(grid, area)
    if seen.lo_min > seen.lo_max:
        return DONE
    n_left, n_right, n_exposed = find_exposed(
        objects, update, k, seen, near_left, near_right, n_left, n_right, around
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
            # The inmost corner ranks the row highest: if it has no use for it, none has.
            inner_left = count_inside(left.far, n_left, -box[1])
            inner_right = count_inside(right.far, n_right, box[2])
            if left.before[inner_left] + right.before[inner_right] >= k:
                continue
            if not has_log_room(log, counts, size):
                return LOG_FULL
            start = grid.bucket_start[bucket]
            is_whole = box[1] <= update.x <= box[2]
            if is_whole and n_kinds == 1 and not is_alone:
                outer_left = count_inside(left.far, n_left, -box[0])
                outer_right = count_inside(right.far, n_right, box[3])
                if inner_left == outer_left and inner_right == outer_right:
                    cell = find_cell(around, update, k, inner_left, inner_right, width, 0, log, counts)
                    log_whole(grid.slot, start, size, cell, log, counts)
                    continue
            for place in range(start, start + size):
                lo = grid.lo[place]
                hi = grid.hi[place]
                if not (is_whole or lo <= update.x <= hi):
                    continue
                slot = grid.slot[place]
                kind = int(limits.kind[slot]) if n_kinds > 1 else 0
                if is_alone:
                    cell = look_alone(objects, update, int(limits.k[kind]), lo, hi, gaps, log, counts)
                else:
                    inside_left = count_inside(left.far, n_left, -lo)
                    inside_right = count_inside(right.far, n_right, hi)
                    first_entry = kind * (n_left + 1) * width
                    cell = find_cell(
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
                # Written always and kept if there is something to tell.
                log.subscription[counts[N_LOG]] = slot
                log.cell[counts[N_LOG]] = cell
                counts[N_LOG] += 1 if cell >= 0 else 0
    return DONE
