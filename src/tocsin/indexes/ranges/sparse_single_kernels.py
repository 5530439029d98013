"""Paint-Sparse for k = 1: each row that is told has one tile, so all that matters is who is in it.

The rows and their order are those of `single_kernels`. What is left of the row's tile is known by a rectangle
around its points: a row that shows on the left is told to those with `lo` at or left of it, and the others
are left. Most often the rectangle tells whether these are all, or none, without a look at the grid.

This calls the leaf file of the points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Longs
from tocsin.indexes.ranges.events_kernels import Turn, end_turn, is_idle, next_turn
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
from tocsin.indexes.ranges.objects_columns import Objects
from tocsin.indexes.ranges.objects_kernels import has_room
from tocsin.indexes.ranges.points_kernels import (
    Grid,
    Rectangle,
    find_least,
    is_apart,
    snap_bucket,
)
from tocsin.indexes.ranges.single_kernels import (
    Shown,
    is_left_lower,
    walk_side,
    write_note_at,
    write_tile_at,
)
from tocsin.indexes.ranges.sparse_grid_kernels import find_some
from tocsin.indexes.ranges.sparse_kernels import N_SEARCHES, N_SNAPS
from tocsin.indexes.ranges.sparse_near_kernels import next_above, next_below, no_box
from tocsin.indexes.shared.jit import inlined, lean_kernel


class Fit(NamedTuple):
    """A rectangle around points, an empty one if there are none."""

    box: Rectangle
    #: whether it is the smallest one
    is_tight: bool


@inlined
def is_none(box: Rectangle) -> bool:
    """Whether a rectangle is around nothing."""
    return not (box.lo_min <= box.lo_max and box.hi_min <= box.hi_max)


@inlined
def first_bucket(grid: Grid, column: int, end: int, hi: float) -> int:
    """The first bucket of a column, which ends before `end`, that can have points of at least `hi`.

    Cost: logarithmic in how far up it is, as ranges that end near where they begin are at the bottom.
    """
    first, step = int(grid.column_start[column]), 1
    while first + step < end and grid.bucket_hi[first + step] < hi:
        first += step
        step *= 2
    return find_least(grid.bucket_hi, first, min(first + step, end), hi)


@inlined
def fit_area(grid: Grid, area: Rectangle, most: int) -> Fit:
    """Fit a rectangle to the points in one given; if it meets more than `most` buckets, keep it as it is.

    Cost: most often one bucket.
    """
    box, n_left, n_columns = no_box(), most, len(grid.column_lo)
    column = find_least(grid.column_lo, 0, n_columns, area.lo_min)
    while True:
        end = int(grid.column_start[column + 1])
        bucket = first_bucket(grid, column, end, area.hi_min)
        if bucket + n_left < end and grid.bucket_hi[bucket + n_left] <= area.hi_max:
            is_nobody = is_none(box) and is_none(find_some(grid, area))
            return Fit(box if is_nobody else area, False)
        while True:
            if not is_apart(grid.bucket_box[bucket], area):
                box = snap_bucket(grid, bucket, area, box)
            bucket += 1
            n_left -= 1
            if bucket == end or grid.bucket_hi[bucket] > area.hi_max:
                break
        column += 1
        if column == n_columns or grid.column_lo[column] > area.lo_max:
            return Fit(box, True)


@inlined
def part_told(rest: Rectangle, post: float, is_left: bool) -> Rectangle:
    """Where those are that hold a row at `post`, on the left or on the right."""
    lo_max = min(rest.lo_max, post) if is_left else rest.lo_max
    hi_min = rest.hi_min if is_left else max(rest.hi_min, post)
    return Rectangle(rest.lo_min, lo_max, hi_min, rest.hi_max)


@inlined
def part_left(rest: Rectangle, post: float, is_left: bool) -> Rectangle:
    """Where those are that do not."""
    lo_min = next_above(post) if is_left else rest.lo_min
    hi_max = rest.hi_max if is_left else next_below(post)
    return Rectangle(lo_min, rest.lo_max, rest.hi_min, hi_max)


@inlined
def write_fit(out: Messages, at: int, box: Rectangle) -> None:
    """Write a tile of the points in a rectangle."""
    write_tile_at(out, at, box.lo_max, box.hi_min, next_below(box.lo_min), next_above(box.hi_max))


@inlined
def tell_turn(
    objects: Objects,
    grid: Grid,
    shown: Shown,
    most: int,
    turn: Turn,
    event: int,
    counts: Longs,
    out: Messages,
    cursor: Longs,
) -> int:
    """Tell of a row, and if it gets worse, who replaces it for whom: DONE or FULL."""
    left = walk_side(objects, turn.left, -1, turn, shown.left)
    right = walk_side(objects, turn.right, 1, turn, shown.right)
    n_left, n_right, at = left.n_shown, right.n_shown, cursor[N_TILES]
    if at + n_left + n_right >= len(out.note):
        return FULL
    counts[N_SNAPS] += 1
    counts[N_SEARCHES] += int(turn.is_rising)
    x, low, high = turn.x, left.x, right.x
    # NaN, for no post, is past all others. With a post at x itself, nobody has the row as the best one.
    if low >= x or x >= high:
        return DONE
    area = Rectangle(
        next_above(low) if low == low else -np.inf, x, x, next_below(high) if high == high else np.inf
    )
    # The row itself is told first, then those that show. The rest is around those who have heard of no other
    # row yet; where it is as small as can be and all of it is told, there is no need to look.
    rest = told = area
    is_own, is_tight, is_all, is_left = True, False, False, False
    slot, post, y, born = turn.slot, x, turn.told_y, turn.born
    n_told = 0
    while True:
        fit = Fit(told, True)
        if not (is_tight and is_all):
            fit = fit_area(grid, told, most)
        if not is_none(fit.box):
            write_fit(out, at, fit.box)
            write_note_at(out, at, event, slot, post, y, born, is_own and turn.is_going)
            at += 1
            n_told += 1
        rest = fit.box if is_own else part_left(rest, post, is_left)
        is_tight, is_own = is_own and fit.is_tight, False
        # The next row that shows and that someone of the rest can hold.
        place = -1
        while place < 0 and n_left + n_right > 0 and not is_none(rest):
            is_left = is_left_lower(objects, shown, n_left, n_right)
            place = int(shown.left[n_left - 1] if is_left else shown.right[n_right - 1])
            n_left -= int(is_left)
            n_right -= int(not is_left)
            post = objects.x[place]
            told = part_told(rest, post, is_left)
            place = -1 if is_none(told) else place
        if place < 0:
            break
        is_all = post >= rest.lo_max if is_left else post <= rest.hi_min
        slot, y, born = int(objects.slot[place]), objects.y[place], objects.born[place]
    n_seen = max(n_told - 1, 0)
    counts[N_SNAPS] += n_seen
    counts[N_SEARCHES] += n_seen
    cursor[N_TILES] = cursor[N_NOTES] = at
    cursor[N_EXPOSED] += n_seen
    return DONE


@lean_kernel
def tell_best_known(
    objects: Objects,
    grid: Grid,
    shown: Shown,
    most: int,
    events: Events,
    counts: Longs,
    out: Messages,
    cursor: Longs,
) -> int:
    """Tell of all events from the cursor's on, each applied before the next. DONE, FULL or NO_ROOM."""
    while cursor[EVENT] < len(events.slot):
        event = cursor[EVENT]
        if is_idle(objects, events, event):
            cursor[EVENT] = event + 1
            continue
        turn = next_turn(objects, events, event)
        if turn.place < 0 and not has_room(objects):
            return NO_ROOM
        if tell_turn(objects, grid, shown, most, turn, event, counts, out, cursor) == FULL:
            return FULL
        end_turn(objects, turn, cursor)
    return DONE
