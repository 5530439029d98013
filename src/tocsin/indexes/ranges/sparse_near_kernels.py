"""The points near one row, copied out of the grid: most of the work of Paint-Sparse.

Notation: as in `dense_kernels`, posts are the nearest rows below the middle row, and post k is the middle.
*Column* a is the points whose ranges hold `a` of the posts on the left. A point has the middle row among its
k best if its range *holds* fewer than k posts of either side, and it is told of a row that is passed if it
held k - 1 and holds that one too. So a number a point is all that has to be kept, and the points lie in any
order: they are looked at a strip at a time, in vector code.

This calls the leaf file of the points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.ranges.bits_kernels import first_bit
from tocsin.indexes.ranges.messages import N_NOTES, N_TILES, Messages
from tocsin.indexes.ranges.points_kernels import (
    STRIP,
    Grid,
    Rectangle,
    find_buckets,
    find_columns,
    is_apart,
)
from tocsin.indexes.shared.jit import inlined, lean_kernel

#: In so many columns of the grid there are never very many points.
FEW_COLUMNS = 2


class Nearby(NamedTuple):
    """Points near one row. Scratch. The last strip is filled up with points of NaN that hold k posts."""

    #: float64 (room,), float64 (room,): the points; the room is whole strips
    lo: Floats
    hi: Floats
    #: int64 (room,): how many posts each holds, besides the middle
    held: Longs
    #: int64 (room / STRIP,): a bit for each point of a strip that is told at the moment
    told: Longs
    #: float64 (k, 4): the smallest rectangle around the points of each column that are told
    box: Floats


class Sight(NamedTuple):
    """What a row that is passed means to the points nearby."""

    #: whether anyone who has the middle row among its k best holds it
    is_seen: bool
    #: whether anyone has the middle row among its k best from now on
    is_anyone: bool


@inlined
def next_above(x: float) -> float:
    """The least double above x; NaN above infinity, which as a bound holds nothing."""
    return float(np.nextafter(x, np.inf)) if x < np.inf else np.nan


@inlined
def next_below(x: float) -> float:
    """The largest double below x; NaN below minus infinity."""
    return float(np.nextafter(x, -np.inf)) if x > -np.inf else np.nan


@inlined
def no_box() -> Rectangle:
    """The rectangle around nothing."""
    return Rectangle(np.inf, -np.inf, np.inf, -np.inf)


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
def write_box(out: Messages, cursor: Longs, box: Rectangle) -> None:
    """Write a tile of the note that comes next: exactly a box around points."""
    at = cursor[N_TILES]
    out.inner_lo[at] = box.lo_max
    out.inner_hi[at] = box.hi_min
    out.outer_lo[at] = next_below(box.lo_min)
    out.outer_hi[at] = next_above(box.hi_max)
    out.note[at] = cursor[N_NOTES]
    cursor[N_TILES] = at + 1


@lean_kernel
def gather_nearby(grid: Grid, area: Rectangle, near: Nearby) -> int:
    """Copy the points in the rectangle, in any order. Answers how many there are, or -1 if they are too many.

    Cost: the buckets met, and their points if they fit.
    """
    first_column, end_column = find_columns(grid, area)
    # Where it spans columns, what is met is counted first; in a few it is not worth it.
    n_met = 0
    for column in range(
        first_column, end_column if end_column - first_column > FEW_COLUMNS else first_column
    ):
        first, end = find_buckets(grid, column, area)
        for bucket in range(first, end):
            n_met += grid.bucket_size[bucket]
        if n_met > len(near.lo):
            return -1
    count = 0
    for column in range(first_column, end_column):
        first, end = find_buckets(grid, column, area)
        for bucket in range(first, end):
            if is_apart(grid.bucket_box[bucket], area):
                continue
            start = grid.bucket_start[bucket]
            size = grid.bucket_size[bucket]
            if count + size > len(near.lo):
                return -1
            for place in range(start, start + size):
                lo = grid.lo[place]
                hi = grid.hi[place]
                # Written always and kept if inside: no branch to mispredict.
                near.lo[count] = lo
                near.hi[count] = hi
                count += int(
                    (area.lo_min <= lo) & (lo <= area.lo_max) & (area.hi_min <= hi) & (hi <= area.hi_max)
                )
    return count


@inlined
def fill_strip(near: Nearby, count: int, k: int) -> None:
    """Fill up the last strip with points that nothing is told to."""
    for i in range(count, -(-count // STRIP) * STRIP):
        near.lo[i] = np.nan
        near.hi[i] = np.nan
        near.held[i] = k


@lean_kernel
def hold_posts(near: Nearby, count: int, post_x: Floats, k: int) -> None:
    """Count the posts that each point holds. Cost: 2k comparisons a point, in vector code."""
    lo, hi, held = near.lo[:count], near.hi[:count], near.held[:count]
    for i in range(count):
        held[i] = 0
    for p in range(k):
        # NaN, for no post, is held by nobody.
        left, right = post_x[p], post_x[p + k + 1]
        for i in range(count):
            held[i] += int(lo[i] <= left) + int(hi[i] >= right)
    fill_strip(near, count, k)


@lean_kernel
def drop_far(near: Nearby, count: int, area: Rectangle, k: int) -> int:
    """Drop the points outside of a rectangle: how many are left. Linear."""
    n_kept = 0
    for i in range(count):
        lo, hi = near.lo[i], near.hi[i]
        near.lo[n_kept] = lo
        near.hi[n_kept] = hi
        near.held[n_kept] = near.held[i]
        n_kept += int((area.lo_min <= lo) & (lo <= area.lo_max) & (area.hi_min <= hi) & (hi <= area.hi_max))
    fill_strip(near, n_kept, k)
    return n_kept


@inlined
def mark_region(near: Nearby, count: int, k: int) -> None:
    """Mark the points that have the middle row among their k best as told."""
    for strip in range(-(-count // STRIP)):
        held = near.held[strip * STRIP : strip * STRIP + STRIP]
        told = 0
        for i in range(STRIP):
            told |= 1 << i if held[i] < k else 0
        near.told[strip] = told


@inlined
def mark_exposed(near: Nearby, count: int, x: float, k: int) -> Sight:
    """Mark the points that are told of a row passed at x, which is a post from now on."""
    n_seen = n_left = 0
    for strip in range(-(-count // STRIP)):
        begin, end = strip * STRIP, strip * STRIP + STRIP
        lo, hi, held = near.lo[begin:end], near.hi[begin:end], near.held[begin:end]
        told = 0
        for i in range(STRIP):
            holds = (lo[i] <= x) & (x <= hi[i])
            before = held[i]
            after = before + int(holds)
            told |= 1 << i if holds & (before == k - 1) else 0
            n_seen += int(holds & (before < k))
            n_left += int(after < k)
            held[i] = after
        near.told[strip] = told
    return Sight(n_seen > 0, n_left > 0)


@inlined
def box_columns(near: Nearby, count: int, post_x: Floats, k: int) -> None:
    """Find the rectangle around the points of each column that are told. Cost: k for each of them."""
    box = near.box
    for a in range(k):
        box[a, 0], box[a, 1], box[a, 2], box[a, 3] = np.inf, -np.inf, np.inf, -np.inf
    for strip in range(-(-count // STRIP)):
        told = int(near.told[strip])
        while told != 0:
            i = strip * STRIP + first_bit(told)
            told &= told - 1
            lo, hi = near.lo[i], near.hi[i]
            a = 0
            for p in range(k):
                a += int(post_x[p] >= lo)
            box[a, 0] = min(box[a, 0], lo)
            box[a, 1] = max(box[a, 1], lo)
            box[a, 2] = min(box[a, 2], hi)
            box[a, 3] = max(box[a, 3], hi)


@inlined
def mark_inside(near: Nearby, strip: int, box: Rectangle) -> int:
    """Which points of a strip are in a rectangle."""
    begin, end = strip * STRIP, strip * STRIP + STRIP
    lo, hi = near.lo[begin:end], near.hi[begin:end]
    inside = 0
    for i in range(STRIP):
        is_inside = (box.lo_min <= lo[i]) & (lo[i] <= box.lo_max)
        is_inside &= (box.hi_min <= hi[i]) & (hi[i] <= box.hi_max)
        inside |= 1 << i if is_inside else 0
    return inside


@inlined
def is_between(near: Nearby, count: int, box: Rectangle) -> bool:
    """Whether a point that is not told is in a rectangle. Cost: linear, until one is found."""
    found = strip = 0
    while found == 0 and strip * STRIP < count:
        found = mark_inside(near, strip, box) & ~near.told[strip]
        strip += 1
    return found != 0


@inlined
def count_box(near: Nearby, count: int, box: Rectangle) -> int:
    """How many points are in a rectangle."""
    n_inside = 0
    for strip in range(-(-count // STRIP)):
        inside = mark_inside(near, strip, box)
        while inside != 0:
            inside &= inside - 1
            n_inside += 1
    return n_inside


@inlined
def settle_tile(
    near: Nearby,
    count: int,
    ready: Rectangle,
    waiting: Rectangle,
    is_exact: bool,
    out: Messages,
    cursor: Longs,
) -> Rectangle:
    """Join two tiles if no other point comes in, or write the one that is ready. Answers what is ready then.

    With bands, tiles may hold points that were not meant, so all are counted.
    """
    if ready.lo_min > ready.lo_max:
        return waiting
    both = join(ready, waiting)
    if is_exact:
        can_join = not is_between(near, count, both)
    else:
        n_apart = count_box(near, count, ready) + count_box(near, count, waiting)
        can_join = n_apart == count_box(near, count, both)
    if can_join:
        return both
    write_box(out, cursor, ready)
    return waiting


@lean_kernel
def paint_nearby(
    near: Nearby, count: int, post_x: Floats, bands: Ints, k: int, out: Messages, cursor: Longs
) -> None:
    """Write tiles for the points told: those of one band are joined, then those that can be. At most k.

    Cost: k for each point told, and for each tile the points until one is found that is not to be told.
    """
    box_columns(near, count, post_x, k)
    ready = no_box()
    waiting = box = ready
    band = -1
    is_exact = bool(bands[1] == k - 1)
    # One round more than there are columns, to settle the last tile.
    for a in range(k + 1):
        if a < k:
            box = Rectangle(near.box[a, 0], near.box[a, 1], near.box[a, 2], near.box[a, 3])
            if box.lo_min > box.lo_max:
                continue
            if bands[k - a] == band:
                waiting = join(waiting, box)
                continue
        if band >= 0:
            ready = settle_tile(near, count, ready, waiting, is_exact, out, cursor)
        if a < k:
            waiting = box
            band = int(bands[k - a])
    if band >= 0:
        write_box(out, cursor, ready)
