"""Paint-Sparse: an event as tiles of subscription space that fit the subscriptions there.

As Paint-Dense (see `dense_kernels`), with three differences. A tile is *snapped* to the points in it, unless
they are very many, and one without points is not told. A row that is passed is looked at only if it lies in
the range of a subscription that can see it: between the least `lo` and the largest `hi` of those that still
have the row among their k best. And tiles that follow each other are told as one if no point comes in that
neither had.

Notation: around the row at x are the nearest rows below it, left and right. A subscription that holds `a` of
them on the left and `b` on the right ranks the row a + b + 1. *Strip* a is all of them that have it among
their k best, *step* a those that rank it k-th; both go to the upper left as a grows.

These call both leaf files of the room, the objects' and the points', and the sweep of the changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.ranges.changes_columns import Side, Update
from tocsin.indexes.ranges.changes_update_kernels import (
    add_exposed,
    count_inside,
    find_lower,
    find_neighbours,
    lowest_gap,
    set_gap,
    set_gaps,
)
from tocsin.indexes.ranges.dense_kernels import write_note
from tocsin.indexes.ranges.messages import (
    DONE,
    EVENT,
    FULL,
    N_EXPOSED,
    N_NOTES,
    N_TILES,
    NO_ROOM,
    Events,
    Messages,
)
from tocsin.indexes.ranges.objects_columns import NEVER, Objects
from tocsin.indexes.ranges.objects_jit import inlined, lean_kernel
from tocsin.indexes.ranges.objects_kernels import (
    find_first,
    find_last,
    has_room,
    is_before,
    lower_of,
    put_row,
)
from tocsin.indexes.ranges.points_kernels import (
    Grid,
    Rectangle,
    count_points,
    find_buckets,
    find_columns,
    has_point,
    is_apart,
    is_within,
    snap_points,
    widen_box,
)

#: From so many columns on, a tile that holds whole buckets of points is not snapped to them.
MANY_COLUMNS = 4

#: Places in `Easel.counts`: tiles snapped, searches for the next row passed.
N_SNAPS = 0
N_SEARCHES = 1


class Tile(NamedTuple):
    """Points to be told together."""

    #: around some of them; around all of them if it is tight
    box: Rectangle
    #: where they are, and no others
    area: Rectangle
    is_tight: bool


class Easel(NamedTuple):
    """Scratch of one event, for one k."""

    left: Side
    right: Side
    #: a grid of k columns of k buckets, a bucket for each a and b: the points near a row, if there is room
    nearby: Grid
    #: float64 (room,), float64 (room,), int32 (room,): points before they are sorted, and their buckets
    lo: Floats
    hi: Floats
    bucket: Ints
    #: int32 (k,): strips and steps of one band are told together; k bands if messages are exact
    band: Ints
    #: int64 (2,): see N_SNAPS
    counts: Longs


@inlined
def next_above(x: float) -> float:
    """The least double above x; NaN above infinity, which as a bound holds nothing."""
    return float(np.nextafter(x, np.inf)) if x < np.inf else np.nan


@inlined
def next_below(x: float) -> float:
    """The largest double below x; NaN below minus infinity."""
    return float(np.nextafter(x, -np.inf)) if x > -np.inf else np.nan


@lean_kernel
def gather_nearby(grid: Grid, area: Rectangle, easel: Easel) -> int:
    """Copy the points in the rectangle. Answers how many there are, or -1 if they are too many."""
    count = 0
    first_column, end_column = find_columns(grid, area)
    for column in range(first_column, end_column):
        first, end = find_buckets(grid, column, area)
        for bucket in range(first, end):
            if is_apart(grid.bucket_box[bucket], area):
                continue
            start = grid.bucket_start[bucket]
            size = grid.bucket_size[bucket]
            if count + size > len(easel.lo):
                return -1
            for place in range(start, start + size):
                lo = grid.lo[place]
                hi = grid.hi[place]
                # Written always and kept if inside: no branch to mispredict.
                easel.lo[count] = lo
                easel.hi[count] = hi
                count += int(
                    (area.lo_min <= lo) & (lo <= area.lo_max) & (area.hi_min <= hi) & (hi <= area.hi_max)
                )
    return count


@lean_kernel
def sort_nearby(easel: Easel, count: int, n_left: int, n_right: int, k: int) -> None:
    """Build the grid of the points gathered: a column for each strip, cut at the rows on the right.

    So a strip is one column, and a step is one bucket until a row that is passed cuts it. Columns and buckets
    that are not needed are empty and come last.
    """
    left, right, nearby = easel.left, easel.right, easel.nearby
    n_strips = min(n_left, k - 1) + 1
    for bucket in range(k * k):
        nearby.bucket_size[bucket] = 0
    for i in range(count):
        column = n_strips - 1 - count_inside(left.far, n_left, -easel.lo[i])
        bucket = column * k + count_inside(right.far, n_right, easel.hi[i])
        easel.bucket[i] = bucket
        nearby.bucket_size[bucket] += 1
    start = 0
    for column in range(k):
        a = n_strips - 1 - column
        nearby.column_lo[column] = np.inf
        if a >= 0:
            nearby.column_lo[column] = next_above(-left.far[a]) if a < n_left else -np.inf
        for b in range(k):
            bucket = column * k + b
            nearby.bucket_start[bucket] = start
            start += nearby.bucket_size[bucket]
            nearby.bucket_size[bucket] = 0
            nearby.bucket_hi[bucket] = right.far[b - 1] if 0 < b <= n_right else np.inf
            box = nearby.bucket_box[bucket]
            box[0], box[1], box[2], box[3] = np.inf, -np.inf, np.inf, -np.inf
        nearby.bucket_hi[column * k] = -np.inf
    for i in range(count):
        bucket = easel.bucket[i]
        place = nearby.bucket_start[bucket] + nearby.bucket_size[bucket]
        nearby.lo[place] = easel.lo[i]
        nearby.hi[place] = easel.hi[i]
        nearby.bucket_size[bucket] += 1
        widen_box(nearby, bucket, easel.lo[i], easel.hi[i])


@inlined
def strip_area(easel: Easel, x: float, n_left: int, n_right: int, k: int, a: int) -> Rectangle:
    """Strip `a`, of those from 0 to the smaller of `n_left` and k - 1."""
    left, right = easel.left, easel.right
    lo_max = x if a == 0 else -left.far[a - 1]
    lo_min = next_above(-left.far[a]) if a < n_left else -np.inf
    hi_max = next_below(right.far[k - 1 - a]) if k - 1 - a < n_right else np.inf
    return Rectangle(lo_min, lo_max, x, hi_max)


@inlined
def step_area(easel: Easel, x: float, n_left: int, n_right: int, k: int, a: int) -> Rectangle:
    """Step `a`: the part of strip `a` that holds one more row on the right would be lost; may be empty."""
    area = strip_area(easel, x, n_left, n_right, k, a)
    b = k - 1 - a
    if b > n_right:
        return Rectangle(np.inf, -np.inf, np.inf, -np.inf)
    hi_min = x if b == 0 else easel.right.far[b - 1]
    return Rectangle(area.lo_min, area.lo_max, hi_min, area.hi_max)


@inlined
def write_box(out: Messages, cursor: Longs, box: Rectangle) -> None:
    """Write a tile of the note that comes next: exactly a box around points."""
    at = cursor[N_TILES]
    out.inner_lo[at] = box.lo_max
    out.inner_hi[at] = box.hi_min
    out.outer_lo[at] = next_below(box.lo_min)
    out.outer_hi[at] = next_above(box.hi_max)
    out.note[at] = cursor[N_NOTES]
    cursor[N_TILES] = at + 1


@inlined
def join(one: Rectangle, other: Rectangle) -> Rectangle:
    """The smallest rectangle around both."""
    return Rectangle(
        min(one.lo_min, other.lo_min),
        max(one.lo_max, other.lo_max),
        min(one.hi_min, other.hi_min),
        max(one.hi_max, other.hi_max),
    )


@inlined
def can_join(space: Grid, one: Rectangle, other: Rectangle, is_exact: bool) -> bool:
    """Whether the rectangle around both holds no point that neither of them holds.

    `other` is the one with the lesser `lo`. Exact tiles leave two corners to look at; with bands, tiles may
    hold points that were not meant, so all are counted.
    """
    both = join(one, other)
    if not is_exact:
        return count_points(space, both) == count_points(space, one) + count_points(space, other)
    upper = Rectangle(other.lo_min, next_below(one.lo_min), next_above(other.hi_max), both.hi_max)
    lower = Rectangle(next_above(other.lo_max), one.lo_max, both.hi_min, next_below(one.hi_min))
    return not has_point(space, upper) and not has_point(space, lower)


@inlined
def fit_tile(space: Grid, area: Rectangle, is_exact: bool) -> Tile:
    """A tile for the points in a rectangle, snapped to them; an empty box if there are none.

    To snap one with very many points takes long and is of little use. Where there are whole buckets of them,
    one is enough to know that it reaches somebody, and most often that it cannot be joined to another.
    """
    first_column, end_column = find_columns(space, area)
    if is_exact and end_column - first_column >= MANY_COLUMNS:
        first, end = find_buckets(space, (first_column + end_column) // 2, area)
        for bucket in range(end - 1, max(first, end - 4) - 1, -1):
            box = space.bucket_box[bucket]
            if space.bucket_size[bucket] > 0 and is_within(box, area):
                return Tile(Rectangle(box[0], box[1], box[2], box[3]), area, False)
    return Tile(snap_points(space, area), area, True)


@inlined
def settle_tile(
    space: Grid, ready: Tile, waiting: Tile, is_exact: bool, out: Messages, cursor: Longs
) -> Tile:
    """Join two tiles, or write the one that is ready. Answers the one that is ready then."""
    if ready.box.lo_min > ready.box.lo_max:
        return waiting
    # Points above the area of the one are not told: if one is below the top of the other, it is between.
    above = Rectangle(
        waiting.box.lo_min, waiting.area.lo_max, next_above(waiting.area.hi_max), ready.box.hi_max
    )
    if not is_exact or not has_point(space, above):
        one = ready.box if ready.is_tight else snap_points(space, ready.area)
        other = waiting.box if waiting.is_tight else snap_points(space, waiting.area)
        if can_join(space, one, other, is_exact):
            both = join(one, other)
            return Tile(both, both, True)
    write_box(out, cursor, ready.box if ready.is_tight else ready.area)
    return waiting


@lean_kernel
def paint_tiles(
    space: Grid,
    easel: Easel,
    x: float,
    n_left: int,
    n_right: int,
    k: int,
    gap: int,
    passed: float,
    is_left: bool,
    out: Messages,
    cursor: Longs,
) -> Rectangle:
    """Write the tiles of a row at x, or with `gap` >= 0, those of a row in this gap that it passes.

    Each is snapped; those of one band are joined, and then those that can be. At most k. Answers a rectangle
    that holds all of them.
    """
    none = Rectangle(np.inf, -np.inf, np.inf, -np.inf)
    around = none
    ready = Tile(none, none, True)
    waiting = ready
    band = -1
    is_exact = bool(easel.band[k - 1] == k - 1)
    for a in range(min(n_left, k - 1) + 1):
        if gap < 0:
            area = strip_area(easel, x, n_left, n_right, k, a)
        else:
            b = k - 1 - a
            if (a if is_left else b) < gap:
                continue
            area = step_area(easel, x, n_left, n_right, k, a)
            if is_left and a == gap:
                area = Rectangle(area.lo_min, passed, area.hi_min, area.hi_max)
            elif b == gap and not is_left:
                area = Rectangle(area.lo_min, area.lo_max, passed, area.hi_max)
        tile = fit_tile(space, area, is_exact)
        easel.counts[N_SNAPS] += 1
        if tile.box.lo_min > tile.box.lo_max:
            continue
        around = join(around, tile.box if tile.is_tight else area)
        if band == easel.band[a]:
            waiting = Tile(join(waiting.box, tile.box), area, True)
            continue
        if band >= 0:
            ready = settle_tile(space, ready, waiting, is_exact, out, cursor)
        waiting = tile
        band = int(easel.band[a])
    if band >= 0:
        ready = settle_tile(space, ready, waiting, is_exact, out, cursor)
        write_box(out, cursor, ready.box if ready.is_tight else ready.area)
    return around


@lean_kernel
def find_least_lo(space: Grid, easel: Easel, x: float, n_left: int, n_right: int, k: int, lo: float) -> float:
    """The least `lo`, from a given one on, of those that have the row among their k best, or a little less.

    NaN if none has it.
    """
    for a in range(min(n_left, k - 1), -1, -1):
        area = strip_area(easel, x, n_left, n_right, k, a)
        if area.lo_max < lo or not area.lo_min <= area.lo_max:
            continue
        rest = Rectangle(max(area.lo_min, lo), area.lo_max, area.hi_min, area.hi_max)
        tile = fit_tile(space, rest, True)
        if tile.box.lo_min <= tile.box.lo_max:
            return tile.box.lo_min if tile.is_tight else rest.lo_min
    return np.nan


@lean_kernel
def find_most_hi(space: Grid, easel: Easel, x: float, n_left: int, n_right: int, k: int, hi: float) -> float:
    """The largest `hi`, up to a given one, of those that have the row among their k best, or a little more.

    There is one.
    """
    left, right = easel.left, easel.right
    for b in range(min(n_right, k - 1), -1, -1):
        hi_min = x if b == 0 else right.far[b - 1]
        if hi_min > hi:
            continue
        a = k - 1 - b
        lo_min = next_above(-left.far[a]) if a < n_left else -np.inf
        hi_max = hi
        if b < n_right and right.far[b] <= hi:
            hi_max = next_below(right.far[b])
        tile = fit_tile(space, Rectangle(lo_min, x, hi_min, hi_max), True)
        if tile.box.lo_min <= tile.box.lo_max:
            return tile.box.hi_max if tile.is_tight else hi_max
    return x


@lean_kernel
def paint_passed(
    objects: Objects,
    space: Grid,
    easel: Easel,
    update: Update,
    n_left: int,
    n_right: int,
    k: int,
    seen: Rectangle,
    event: int,
    out: Messages,
    cursor: Longs,
) -> int:
    """Tell who replaces a row that gets worse, and where: DONE or FULL. `seen` is around all who have it."""
    left, right = easel.left, easel.right
    # It is there. The maximum with an int64 makes it one, as where the same kernels are called for changes.
    middle = max(int(objects.slot_place[update.row]), 0)
    low, high = seen.lo_min, seen.hi_max
    end_left = find_last(objects, low, True)
    end_right = find_first(objects, high, True)
    gaps_left = set_gaps(objects, left, n_left, k, middle, end_left, -low)
    gaps_right = set_gaps(objects, right, n_right, k, middle, end_right, high)
    easel.counts[N_SEARCHES] += 1
    while True:
        at_left = lowest_gap(objects, left, gaps_left)
        at_right = lowest_gap(objects, right, gaps_right)
        place_left = -1 if at_left < 0 else int(left.gap[at_left])
        place_right = -1 if at_right < 0 else int(right.gap[at_right])
        place = lower_of(objects.y, objects.born, place_left, place_right)
        if place < 0:
            return DONE
        y, born = objects.y[place], int(objects.born[place])
        if not is_before(y, born, update.high_y, update.high_born):
            return DONE
        is_left = place == place_left
        x = objects.x[place]
        # Fewer have it by now: what lies outside of their ranges is not looked at any more.
        if x < low:
            near = middle if at_left == 0 else int(left.place[at_left - 1])
            set_gap(objects, left, at_left, n_left, near, end_left, -low)
            continue
        if x > high:
            near = middle if at_right == 0 else int(right.place[at_right - 1])
            set_gap(objects, right, at_right, n_right, near, end_right, high)
            continue
        if cursor[N_TILES] + k > len(out.note) or cursor[N_NOTES] == len(out.note_row):
            return FULL
        number = int(cursor[N_EXPOSED])
        cursor[N_EXPOSED] += 1
        easel.counts[N_SEARCHES] += 1
        gap = at_left if is_left else at_right
        told = paint_tiles(space, easel, update.x, n_left, n_right, k, gap, x, is_left, out, cursor)
        write_note(out, cursor, event, objects.slot[place], x, y, born, False)
        if is_left:
            gaps_left = add_exposed(objects, left, gap, n_left, k, middle, end_left, -low, number)
            n_left = min(n_left + 1, k)
        else:
            gaps_right = add_exposed(objects, right, gap, n_right, k, middle, end_right, high, number)
            n_right = min(n_right + 1, k)
        if told.lo_min <= low:
            low = find_least_lo(space, easel, update.x, n_left, n_right, k, low)
            if low != low:
                return DONE
            end_left = find_last(objects, low, True)
        if told.hi_max >= high:
            high = find_most_hi(space, easel, update.x, n_left, n_right, k, high)
            end_right = find_first(objects, high, True)


@lean_kernel
def paint_update(
    objects: Objects,
    grid: Grid,
    easel: Easel,
    update: Update,
    k: int,
    event: int,
    out: Messages,
    cursor: Longs,
) -> int:
    """Tell of one row at one x that gets better or worse, comes or goes; changes no row. DONE or FULL."""
    if cursor[N_TILES] + k > len(out.note) or cursor[N_NOTES] == len(out.note_row):
        return FULL
    near_left, near_right = find_neighbours(objects, update)
    n_left = find_lower(objects, update, k, near_left, easel.left)
    n_right = find_lower(objects, update, k, near_right, easel.right)
    low = next_above(-easel.left.far[k - 1]) if n_left == k else -np.inf
    high = next_below(easel.right.far[k - 1]) if n_right == k else np.inf
    area = Rectangle(low, update.x, update.x, high)
    space = grid
    # For one tile or two a copy would cost more than it saves.
    if k > 2:
        count = gather_nearby(grid, area, easel)
        if count == 0:
            easel.counts[N_SNAPS] += min(n_left, k - 1) + 1
            easel.counts[N_SEARCHES] += 0 if update.is_raise else 1
            return DONE
        if count > 0:
            sort_nearby(easel, count, n_left, n_right, k)
            space = easel.nearby
    seen = paint_tiles(space, easel, update.x, n_left, n_right, k, -1, 0.0, False, out, cursor)
    if seen.lo_min > seen.lo_max:
        easel.counts[N_SEARCHES] += 0 if update.is_raise else 1
        return DONE
    is_gone = update.is_absent and not update.is_raise
    is_better = update.is_raise or is_gone
    y, born = (update.low_y, update.low_born) if is_better else (update.high_y, update.high_born)
    write_note(out, cursor, event, update.row, update.x, y, born, is_gone)
    if update.is_raise:
        return DONE
    return paint_passed(objects, space, easel, update, n_left, n_right, k, seen, event, out, cursor)


@lean_kernel
def next_update(objects: Objects, events: Events, event: int) -> tuple[Update, bool, bool]:
    """What an event comes to next: the update, whether there is one, and whether it is the event's last.

    A row that moves in x, or gets another insertion number, goes first and comes again.
    """
    slot, x, y, born = events.slot[event], events.x[event], events.y[event], events.born[event]
    place = int(objects.slot_place[slot])
    is_there = born >= 0 and x == x and y == y
    if place < 0:
        return Update(slot, x, y, born, np.inf, NEVER, True, True), is_there, True
    old = objects.y[place]
    if is_there and objects.x[place] == x and objects.born[place] == born:
        if y < old:
            return Update(slot, x, y, born, old, born, True, False), True, True
        return Update(slot, x, old, born, y, born, False, False), y > old, True
    gone = Update(slot, objects.x[place], old, objects.born[place], np.inf, NEVER, False, True)
    return gone, True, not is_there


@lean_kernel
def paint_sparsely(
    objects: Objects, grid: Grid, easel: Easel, events: Events, k: int, out: Messages, cursor: Longs
) -> int:
    """Tell of all events from the cursor's on, each applied before the next. DONE, FULL or NO_ROOM."""
    while cursor[EVENT] < len(events.slot):
        event = int(cursor[EVENT])
        update, is_due, is_last = next_update(objects, events, event)
        if is_due:
            if not has_room(objects):
                return NO_ROOM
            n_tiles, n_notes, n_exposed = cursor[N_TILES], cursor[N_NOTES], cursor[N_EXPOSED]
            n_snaps, n_searches = easel.counts[N_SNAPS], easel.counts[N_SEARCHES]
            if paint_update(objects, grid, easel, update, k, event, out, cursor) == FULL:
                cursor[N_TILES], cursor[N_NOTES], cursor[N_EXPOSED] = n_tiles, n_notes, n_exposed
                easel.counts[N_SNAPS], easel.counts[N_SEARCHES] = n_snaps, n_searches
                return FULL
            if update.is_absent and not update.is_raise:
                put_row(objects, update.row, update.x, update.low_y, -1)
            else:
                put_row(objects, update.row, events.x[event], events.y[event], events.born[event])
        if is_last:
            cursor[EVENT] += 1
    return DONE
