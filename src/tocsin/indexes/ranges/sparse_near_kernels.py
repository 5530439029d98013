"""The points near one row, copied out of the grid and laid in columns: most of the work of Paint-Sparse.

Notation: as in `dense_kernels`, posts are the nearest rows below the middle row, and post k is the middle.
*Column* a holds the points whose ranges hold `a` of the posts on the left, and within a column points ascend
by `hi`. So the points of a tile are one stretch of a column, and a row that is passed on the left splits one
column, while one on the right moves nothing at all.

This calls the leaf file of the points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.ranges.messages import N_NOTES, N_TILES, Messages
from tocsin.indexes.ranges.points_kernels import Grid, Rectangle, find_buckets, find_columns, is_apart
from tocsin.indexes.shared.jit import inlined, lean_kernel

#: In so many columns of the grid there are never very many points.
FEW_COLUMNS = 2
#: Parts by which `hi` is sorted roughly, at most.
N_BINS = 128


class Nearby(NamedTuple):
    """Points near one row, by column. Scratch; column k is where a split puts those that are lost."""

    #: float64 (room,), float64 (room,): the points
    lo: Floats
    hi: Floats
    #: float64 (room,), float64 (room,): points on their way
    spare_lo: Floats
    spare_hi: Floats
    #: int32 (room,), int32 (room,): the bin of each point, and its column
    bin: Ints
    column: Ints
    #: int32 (N_BINS + 1,): where each bin begins
    bin_begin: Ints
    #: int32 (k + 2,): the first point of each column, and the one after its last
    begin: Ints
    end: Ints
    #: int32 (k + 2,): the same of the points of a column that are told at the moment
    first: Ints
    stop: Ints


class Tile(NamedTuple):
    """Points of some columns to be told together, and the smallest rectangle around them."""

    box: Rectangle
    first_column: int
    last_column: int


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
                near.spare_lo[count] = lo
                near.spare_hi[count] = hi
                count += int(
                    (area.lo_min <= lo) & (lo <= area.lo_max) & (area.hi_min <= hi) & (hi <= area.hi_max)
                )
    return count


@inlined
def count_below(values: Floats, begin: int, end: int, bound: float) -> int:
    """How many of an ascending stretch are below `bound`; all if it is NaN. Logarithmic."""
    # Halves without a branch: which half it is cannot be foreseen.
    base = begin
    size = end - begin
    while size > 1:
        half = size >> 1
        base += 0 if values[base + half - 1] >= bound else half
        size -= half
    if size == 1:
        base += 0 if values[base] >= bound else 1
    return base - begin


@inlined
def swap_counts(counts: Ints, n: int) -> None:
    """Turn how many there are of each kind into where each kind begins."""
    before = 0
    for i in range(n):
        count = counts[i]
        counts[i] = before
        before += count


@inlined
def spread_points(near: Nearby, count: int, x: float, n_bins: int) -> None:
    """Write to `bin` how far each point's `hi` is from x, in steps up to the farthest that is finite."""
    far = x
    for i in range(count):
        hi = near.spare_hi[i]
        far = hi if (hi > far) & (hi < np.inf) else far
    scale = n_bins / (far - x) if -np.inf < x < far else 0.0
    # A distance too small or too large to divide by leaves all in one bin, which is only slower.
    scale = scale if scale < np.inf else 0.0
    for i in range(count):
        step = (near.spare_hi[i] - x) * scale
        near.bin[i] = int(step) if step < n_bins else n_bins


@lean_kernel
def lay_columns(near: Nearby, count: int, post_x: Floats, k: int) -> None:
    """Lay the points gathered in columns. Cost: linear, and k comparisons a point in vector code.

    They are sorted by bin, then by column, and what bins leave in disorder is small.
    """
    lo, hi, column = near.lo, near.hi, near.column[:count]
    n_bins = min(count, N_BINS)
    spread_points(near, count, post_x[k], n_bins)
    for i in range(n_bins + 1):
        near.bin_begin[i] = 0
    for i in range(count):
        near.bin_begin[near.bin[i]] += 1
    swap_counts(near.bin_begin, n_bins + 1)
    for i in range(count):
        at = near.bin_begin[near.bin[i]]
        near.bin_begin[near.bin[i]] = at + 1
        lo[at] = near.spare_lo[i]
        hi[at] = near.spare_hi[i]
    ordered = lo[:count]
    for i in range(count):
        column[i] = 0
    for p in range(k):
        post = post_x[p]
        for i in range(count):
            column[i] += ordered[i] <= post
    for a in range(k + 2):
        near.begin[a] = 0
    for i in range(count):
        near.begin[column[i]] += 1
    swap_counts(near.begin, k + 2)
    for a in range(k + 2):
        near.end[a] = near.begin[a]
    for i in range(count):
        at = near.end[column[i]]
        near.end[column[i]] = at + 1
        near.spare_lo[at] = lo[i]
        near.spare_hi[at] = hi[i]
    for a in range(k):
        begin = near.begin[a]
        for i in range(begin, near.end[a]):
            point_lo, point_hi = near.spare_lo[i], near.spare_hi[i]
            at = i
            while at > begin and hi[at - 1] > point_hi:
                lo[at] = lo[at - 1]
                hi[at] = hi[at - 1]
                at -= 1
            lo[at] = point_lo
            hi[at] = point_hi


@lean_kernel
def split_column(near: Nearby, a: int, x: float, top: float, k: int) -> None:
    """Put the points of a column that reach to x on the left into the next one; those farther out move on.

    What is at or above `top` is out of sight from now on, and dropped. Cost: k, and the column.
    """
    for column in range(k, a, -1):
        near.begin[column] = near.begin[column - 1]
        near.end[column] = near.end[column - 1]
    begin = near.begin[a]
    end = begin + count_below(near.hi, begin, near.end[a], top)
    n_kept = begin
    n_moved = 0
    for i in range(begin, end):
        lo, hi = near.lo[i], near.hi[i]
        near.lo[n_kept] = lo
        near.hi[n_kept] = hi
        near.spare_lo[n_moved] = lo
        near.spare_hi[n_moved] = hi
        is_moved = int(lo <= x)
        n_moved += is_moved
        n_kept += 1 - is_moved
    for i in range(n_moved):
        near.lo[n_kept + i] = near.spare_lo[i]
        near.hi[n_kept + i] = near.spare_hi[i]
    near.end[a] = n_kept
    near.begin[a + 1] = n_kept
    near.end[a + 1] = n_kept + n_moved


@inlined
def snap_stretch(lo: Floats, hi: Floats, begin: int, end: int) -> Rectangle:
    """The smallest rectangle around a stretch of points."""
    lo_min = hi_min = np.inf
    lo_max = hi_max = -np.inf
    for i in range(begin, end):
        lo_min = lo[i] if lo[i] < lo_min else lo_min
        lo_max = lo[i] if lo[i] > lo_max else lo_max
        hi_min = hi[i] if hi[i] < hi_min else hi_min
        hi_max = hi[i] if hi[i] > hi_max else hi_max
    return Rectangle(lo_min, lo_max, hi_min, hi_max)


@inlined
def count_box(near: Nearby, first_column: int, last_column: int, box: Rectangle) -> int:
    """How many points of some columns are in a rectangle."""
    n_inside = 0
    for a in range(first_column, last_column + 1):
        for i in range(near.begin[a], near.end[a]):
            lo, hi = near.lo[i], near.hi[i]
            n_inside += int((box.lo_min <= lo) & (lo <= box.lo_max) & (box.hi_min <= hi) & (hi <= box.hi_max))
    return n_inside


@inlined
def is_between(near: Nearby, one: Tile, other: Tile, both: Rectangle) -> bool:
    """Whether a point that is not told is in the rectangle around two tiles of told points alone.

    `other` has the lesser `lo`. Most often the first point looked at is one.
    """
    for a in range(one.first_column, other.last_column + 1):
        i = near.stop[a]
        while i < near.end[a] and near.hi[i] <= both.hi_max:
            if near.lo[i] >= both.lo_min:
                return True
            i += 1
        i = near.first[a] - 1
        while i >= near.begin[a] and near.hi[i] >= both.hi_min:
            if near.lo[i] <= both.lo_max:
                return True
            i -= 1
    return False


@inlined
def settle_tile(
    near: Nearby, ready: Tile, waiting: Tile, is_exact: bool, out: Messages, cursor: Longs
) -> Tile:
    """Join two tiles if no other point comes in, or write the one that is ready. Answers what is ready then.

    With bands, tiles may hold points that were not meant, so all are counted.
    """
    if ready.box.lo_min > ready.box.lo_max:
        return waiting
    both = join(ready.box, waiting.box)
    if is_exact:
        can_join = not is_between(near, ready, waiting, both)
    else:
        n_one = count_box(near, ready.first_column, ready.last_column, ready.box)
        n_other = count_box(near, waiting.first_column, waiting.last_column, waiting.box)
        n_both = count_box(near, ready.first_column, waiting.last_column, both)
        can_join = n_one + n_other == n_both
    if can_join:
        return Tile(both, ready.first_column, waiting.last_column)
    write_box(out, cursor, ready.box)
    return waiting


@lean_kernel
def paint_nearby(
    near: Nearby,
    post_x: Floats,
    bands: Ints,
    first: int,
    last: int,
    gap: int,
    x: float,
    k: int,
    out: Messages,
    cursor: Longs,
) -> bool:
    """Write the tiles of posts `first` to `last`: of the middle row, or with `gap` >= 0, of a row at x there.

    A row in a gap on the left must have split its column before. Each tile is snapped; those of one band are
    joined, and then those that can be. At most k. Answers whether anyone who has the middle row among its k
    best holds the one at x.
    """
    ready = Tile(no_box(), 1, 1)
    waiting = ready
    band = -1
    is_seen = False
    is_exact = bool(bands[1] == k - 1)
    shift = 1 if 0 <= gap < k else 0
    # One round more than there are tiles, to settle the last one.
    for p in range(last, first - 2, -1):
        a = k - p + shift
        box = no_box()
        if p >= first:
            begin, end = near.begin[a], near.end[a]
            stop = begin + count_below(near.hi, begin, end, post_x[p + k])
            start = begin
            if gap >= 0:
                floor = x if p == gap + 1 - k else post_x[p + k - 1]
                start += count_below(near.hi, begin, stop, floor)
                is_seen |= stop > begin and (gap < k or near.hi[stop - 1] >= x)
            near.first[a] = start
            near.stop[a] = stop
            if start == stop:
                continue
            box = snap_stretch(near.lo, near.hi, start, stop)
            if band == bands[p]:
                waiting = Tile(join(waiting.box, box), waiting.first_column, a)
                continue
        if band >= 0:
            ready = settle_tile(near, ready, waiting, is_exact, out, cursor)
        if p >= first:
            waiting = Tile(box, a, a)
            band = int(bands[p])
    if band >= 0:
        write_box(out, cursor, ready.box)
    return is_seen or gap < 0


@inlined
def is_anyone_near(near: Nearby, post_x: Floats, k: int) -> bool:
    """Whether any of the points has the middle row among its k best."""
    for p in range(1, k + 1):
        a = k - p
        if near.begin[a] < near.end[a] and not near.hi[near.begin[a]] >= post_x[p + k]:
            return True
    return False
