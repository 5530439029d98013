"""Kernels of the points index: a bucket grid over subscription space.

A subscription to the range [lo, hi] is the point (lo, hi). The plane is cut into columns by `lo`, and
each column into buckets by `hi`, at quantiles of the points that were there when the grid was built. Cuts
are made by (value, slot), so that any number of equal points is cut as well as any other. A bucket's
points lie side by side, in an *extent* of the point columns; an extent that is full moves to the end.

A rectangle is four closed bounds, `lo_min`, `lo_max`, `hi_min`, `hi_max`; one with a minimum above its
maximum, or a NaN, is empty.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.bits import first_bit
from tocsin.arrays.jit import inlined, kernel, lean_kernel
from tocsin.arrays.layout import Column, Size
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.kernels.search import find_cut, find_least, find_most

#: Points a bucket holds when it is built, about.
BUCKET = 32
#: Points tested beyond this many in one bucket count as wasted.
LARGE = 4 * BUCKET
#: Points tested together, one bit each of a non-negative mask. Columns extend at least this far past any
#: place in use.
STRIP = 32

#: Places in `Grid.state`.
N_POINTS = 0
N_USED = 1
N_WASTED = 2
STATE_SIZE = 3


class Grid(NamedTuple):
    """Points by bucket, buckets by column. An unused place of an extent holds anything."""

    #: the points
    lo: Annotated[Floats, Column(Size("places", plus=STRIP), fill=None)]
    hi: Annotated[Floats, Column(Size("places", plus=STRIP), fill=None)]
    slot: Annotated[Ints, Column(Size("places", plus=STRIP), fill=None)]
    #: first place of the bucket's extent, points in it, places in it
    bucket_start: Annotated[Ints, Column("buckets")]
    bucket_size: Annotated[Ints, Column("buckets")]
    bucket_capacity: Annotated[Ints, Column("buckets")]
    #: the smallest rectangle around its points; (inf, -inf, inf, -inf) if none
    bucket_box: Annotated[Floats, Column("buckets", 4, fill=np.inf)]
    #: the least (hi, slot) that belongs in the bucket
    bucket_hi: Annotated[Floats, Column("buckets", fill=-np.inf)]
    bucket_slot: Annotated[Ints, Column("buckets", fill=-1)]
    #: first bucket of each column
    column_start: Annotated[Ints, Column(Size("columns", plus=1))]
    #: the least (lo, slot) that belongs in the column
    column_lo: Annotated[Floats, Column("columns", fill=-np.inf)]
    column_slot: Annotated[Ints, Column("columns", fill=-1)]
    #: points there, places of extents given out, points tested in vain
    state: Annotated[Longs, Column(STATE_SIZE)]


class Rectangle(NamedTuple):
    """Closed bounds of the two coordinates of a point."""

    lo_min: float
    lo_max: float
    hi_min: float
    hi_max: float


@inlined
def next_above(x: float) -> float:
    """The least double above x; NaN above infinity: a rectangle with it is empty."""
    return float(np.nextafter(x, np.inf)) if x < np.inf else np.nan


@inlined
def next_below(x: float) -> float:
    """The largest double below x; NaN below minus infinity: a rectangle with it is empty."""
    return float(np.nextafter(x, -np.inf)) if x > -np.inf else np.nan


@inlined
def no_box() -> Rectangle:
    """The empty rectangle."""
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


@lean_kernel
def assign_cuts(value: Floats, slot: Ints, cut_value: Floats, cut_slot: Ints, out_cut: Ints) -> None:
    """Find the cut that each point belongs to. Cost: logarithmic in the cuts, per point."""
    for i in range(len(value)):
        out_cut[i] = find_cut(cut_value, cut_slot, 0, len(cut_value), value[i], slot[i])


@kernel
def sort_by(code: Ints, n_codes: int, order: Ints, out_order: Ints) -> None:
    """Write `order` sorted by the code of each; equals stay in their order. Linear."""
    begin = np.zeros(n_codes + 1, np.int64)
    for i in range(len(order)):
        begin[code[i] + 1] += 1
    for c in range(n_codes):
        begin[c + 1] += begin[c]
    for i in range(len(order)):
        c = code[order[i]]
        out_order[begin[c]] = order[i]
        begin[c] += 1


@inlined
def widen_box(grid: Grid, bucket: int, lo: float, hi: float) -> None:
    """Let the bucket's box hold a point."""
    box = grid.bucket_box[bucket]
    box[0] = min(box[0], lo)
    box[1] = max(box[1], lo)
    box[2] = min(box[2], hi)
    box[3] = max(box[3], hi)


@lean_kernel
def fill_grid(
    lo: Floats,
    hi: Floats,
    slot: Ints,
    order: Ints,
    column: Ints,
    slab: Ints,
    slab_hi: Floats,
    slab_slot: Ints,
    grid: Grid,
) -> int:
    """Fill an empty grid with points, `order`ed by column, then by slab of `hi`. Returns how many buckets.

    A slab holds about a bucket of points over all columns, so what one column has of it is never much
    more; a bucket takes as many slabs as fit. Linear.
    """
    n_columns = len(grid.column_lo)
    n_buckets = 0
    at = 0
    for c in range(n_columns):
        grid.column_start[c] = n_buckets
        is_first = True
        while is_first or (at < len(order) and column[order[at]] == c):
            bucket = n_buckets
            n_buckets += 1
            grid.bucket_start[bucket] = at
            grid.bucket_hi[bucket] = -np.inf
            grid.bucket_slot[bucket] = -1
            if not is_first:
                grid.bucket_hi[bucket] = slab_hi[slab[order[at]]]
                grid.bucket_slot[bucket] = slab_slot[slab[order[at]]]
            is_first = False
            begin = at
            while at < len(order) and column[order[at]] == c:
                end = at + 1
                while end < len(order) and column[order[end]] == c and slab[order[end]] == slab[order[at]]:
                    end += 1
                if at > begin and end - begin > BUCKET + BUCKET // 4:
                    break
                at = end
            for place in range(begin, at):
                point = order[place]
                grid.lo[place] = lo[point]
                grid.hi[place] = hi[point]
                grid.slot[place] = slot[point]
                widen_box(grid, bucket, lo[point], hi[point])
            grid.bucket_size[bucket] = at - begin
            grid.bucket_capacity[bucket] = at - begin
    grid.column_start[n_columns] = n_buckets
    grid.state[N_POINTS] = len(order)
    grid.state[N_USED] = len(order)
    grid.state[N_WASTED] = 0
    return n_buckets


@inlined
def find_bucket(grid: Grid, lo: float, hi: float, slot: int) -> int:
    """The bucket that a point belongs to. Logarithmic."""
    column = find_cut(grid.column_lo, grid.column_slot, 0, len(grid.column_lo), lo, slot)
    first = grid.column_start[column]
    return find_cut(grid.bucket_hi, grid.bucket_slot, first, grid.column_start[column + 1], hi, slot)


@lean_kernel
def insert_points(grid: Grid, lo: Floats, hi: Floats, slot: Ints, first: int) -> int:
    """Insert points from `first` on. Returns where it stopped for lack of capacity.

    Cost: logarithmic, and amortised constant for moving extents that are full.
    """
    for i in range(first, len(slot)):
        bucket = find_bucket(grid, lo[i], hi[i], slot[i])
        size = grid.bucket_size[bucket]
        start = grid.bucket_start[bucket]
        if size == grid.bucket_capacity[bucket]:
            used = grid.state[N_USED]
            capacity = size + size // 2 + 4
            if used + capacity + STRIP > len(grid.slot):
                return i
            for j in range(size):
                grid.lo[used + j] = grid.lo[start + j]
                grid.hi[used + j] = grid.hi[start + j]
                grid.slot[used + j] = grid.slot[start + j]
            grid.bucket_start[bucket] = used
            grid.bucket_capacity[bucket] = capacity
            grid.state[N_USED] += capacity
            start = used
        grid.lo[start + size] = lo[i]
        grid.hi[start + size] = hi[i]
        grid.slot[start + size] = slot[i]
        widen_box(grid, bucket, lo[i], hi[i])
        grid.bucket_size[bucket] += 1
        grid.state[N_POINTS] += 1
    return len(slot)


@lean_kernel
def remove_points(grid: Grid, lo: Floats, hi: Floats, slot: Ints) -> int:
    """Remove existing points. Returns how many were found: all. Cost: a bucket each."""
    n_found = 0
    for i in range(len(slot)):
        bucket = find_bucket(grid, lo[i], hi[i], slot[i])
        start = grid.bucket_start[bucket]
        end = start + grid.bucket_size[bucket]
        grid.state[N_WASTED] += max(0, end - start - LARGE)
        for place in range(start, end):
            if grid.slot[place] == slot[i]:
                grid.lo[place] = grid.lo[end - 1]
                grid.hi[place] = grid.hi[end - 1]
                grid.slot[place] = grid.slot[end - 1]
                grid.bucket_size[bucket] -= 1
                grid.state[N_POINTS] -= 1
                n_found += 1
                box = grid.bucket_box[bucket]
                if lo[i] == box[0] or lo[i] == box[1] or hi[i] == box[2] or hi[i] == box[3]:
                    box[0] = np.inf
                    box[1] = -np.inf
                    box[2] = np.inf
                    box[3] = -np.inf
                    for other in range(start, end - 1):
                        widen_box(grid, bucket, grid.lo[other], grid.hi[other])
                break
    return n_found


@lean_kernel
def gather_points(grid: Grid, out_lo: Floats, out_hi: Floats, out_slot: Ints) -> None:
    """Write all points, by bucket. Linear."""
    n_out = 0
    for bucket in range(len(grid.bucket_start)):
        start = grid.bucket_start[bucket]
        for place in range(start, start + grid.bucket_size[bucket]):
            out_lo[n_out] = grid.lo[place]
            out_hi[n_out] = grid.hi[place]
            out_slot[n_out] = grid.slot[place]
            n_out += 1


@inlined
def is_apart(box: Floats, area: Rectangle) -> bool:
    """Whether no point of the box can be in the rectangle."""
    is_beside = box[0] > area.lo_max or box[1] < area.lo_min
    return bool(is_beside or box[2] > area.hi_max or box[3] < area.hi_min)


@inlined
def is_within(box: Floats, area: Rectangle) -> bool:
    """Whether all points of the box are in the rectangle."""
    is_between = box[0] >= area.lo_min and box[1] <= area.lo_max
    return bool(is_between and box[2] >= area.hi_min and box[3] <= area.hi_max)


@inlined
def find_columns(grid: Grid, area: Rectangle) -> tuple[int, int]:
    """The first column that can have points in the rectangle, and the one after the last."""
    n_columns = len(grid.column_lo)
    if not (area.lo_min <= area.lo_max and area.hi_min <= area.hi_max):
        return 0, 0
    first = find_least(grid.column_lo, 0, n_columns, area.lo_min)
    return first, find_most(grid.column_lo, first, n_columns, area.lo_max) + 1


@inlined
def find_buckets(grid: Grid, column: int, area: Rectangle) -> tuple[int, int]:
    """The first bucket of a column that can have points in the rectangle, and the one after the last."""
    end = grid.column_start[column + 1]
    first = find_least(grid.bucket_hi, grid.column_start[column], end, area.hi_min)
    return first, find_most(grid.bucket_hi, first, end, area.hi_max) + 1


@inlined
def count_bucket(grid: Grid, bucket: int, area: Rectangle) -> int:
    """How many points of a bucket are in the rectangle."""
    start = grid.bucket_start[bucket]
    end = start + grid.bucket_size[bucket]
    grid.state[N_WASTED] += max(0, end - start - LARGE)
    lo = grid.lo[start:end]
    hi = grid.hi[start:end]
    n_inside = 0
    for i in range(len(lo)):
        n_inside += int(
            (area.lo_min <= lo[i]) & (lo[i] <= area.lo_max) & (area.hi_min <= hi[i]) & (hi[i] <= area.hi_max)
        )
    return n_inside


@lean_kernel
def count_points(grid: Grid, area: Rectangle) -> int:
    """How many points are in the rectangle. Cost: the buckets it meets, and the points of those it cuts."""
    n_inside = 0
    first_column, end_column = find_columns(grid, area)
    for column in range(first_column, end_column):
        first, end = find_buckets(grid, column, area)
        for bucket in range(first, end):
            box = grid.bucket_box[bucket]
            if is_within(box, area):
                n_inside += grid.bucket_size[bucket]
            elif not is_apart(box, area):
                n_inside += count_bucket(grid, bucket, area)
    return n_inside


@lean_kernel
def has_point(grid: Grid, area: Rectangle) -> bool:
    """Whether any point is in the rectangle. Cost: as `count_points`, until one is found."""
    first_column, end_column = find_columns(grid, area)
    for column in range(first_column, end_column):
        first, end = find_buckets(grid, column, area)
        for bucket in range(first, end):
            box = grid.bucket_box[bucket]
            if grid.bucket_size[bucket] == 0 or is_apart(box, area):
                continue
            if is_within(box, area) or count_bucket(grid, bucket, area) > 0:
                return True
    return False


@lean_kernel
def report_points(grid: Grid, area: Rectangle, out_slot: Ints, n_out: int) -> int:
    """Append the slots of the points in the rectangle. Returns the new length, or -1 if they do not fit."""
    first_column, end_column = find_columns(grid, area)
    for column in range(first_column, end_column):
        first, end = find_buckets(grid, column, area)
        for bucket in range(first, end):
            box = grid.bucket_box[bucket]
            size = grid.bucket_size[bucket]
            if size == 0 or is_apart(box, area):
                continue
            if n_out + size > len(out_slot):
                return -1
            start = grid.bucket_start[bucket]
            if is_within(box, area):
                for place in range(start, start + size):
                    out_slot[n_out] = grid.slot[place]
                    n_out += 1
                continue
            grid.state[N_WASTED] += max(0, size - LARGE)
            for place in range(start, start + size):
                lo = grid.lo[place]
                hi = grid.hi[place]
                # Always written, counted if inside: no branch to mispredict.
                out_slot[n_out] = grid.slot[place]
                n_out += int(
                    (area.lo_min <= lo) & (lo <= area.lo_max) & (area.hi_min <= hi) & (hi <= area.hi_max)
                )
    return n_out


@inlined
def snap_bucket(grid: Grid, bucket: int, area: Rectangle, best: Rectangle) -> Rectangle:
    """`best`, extended to the points of a bucket that are in the rectangle."""
    box = grid.bucket_box[bucket]
    lo_min, lo_max, hi_min, hi_max = best.lo_min, best.lo_max, best.hi_min, best.hi_max
    if is_within(box, area):
        return Rectangle(min(lo_min, box[0]), max(lo_max, box[1]), min(hi_min, box[2]), max(hi_max, box[3]))
    start, size = int(grid.bucket_start[bucket]), int(grid.bucket_size[bucket])
    grid.state[N_WASTED] += max(0, size - LARGE)
    for begin in range(0, size, STRIP):
        lo = grid.lo[start + begin : start + begin + STRIP]
        hi = grid.hi[start + begin : start + begin + STRIP]
        # Whole strips, in vector code: what lies beyond the last point is masked out.
        inside = 0
        for i in range(STRIP):
            is_inside = (area.lo_min <= lo[i]) & (lo[i] <= area.lo_max)
            is_inside &= (area.hi_min <= hi[i]) & (hi[i] <= area.hi_max)
            inside |= 1 << i if is_inside else 0
        inside &= (1 << min(size - begin, STRIP)) - 1
        while inside != 0:
            i = first_bit(inside)
            inside &= inside - 1
            lo_min, lo_max = min(lo_min, lo[i]), max(lo_max, lo[i])
            hi_min, hi_max = min(hi_min, hi[i]), max(hi_max, hi[i])
    return Rectangle(lo_min, lo_max, hi_min, hi_max)


@lean_kernel
def snap_points(grid: Grid, area: Rectangle) -> Rectangle:
    """The smallest rectangle around the points in the rectangle; (inf, -inf, inf, -inf) if there are none.

    Columns are taken from the left until one has points, then from the right; these say how far it goes by
    `lo`. Of those in between, only the lowest and the highest buckets can say more. Cost: those buckets, and
    the points of some of those that are cut.
    """
    lo_min = np.inf
    lo_max = -np.inf
    hi_min = np.inf
    hi_max = -np.inf
    left, right = find_columns(grid, area)
    is_from_right = False
    is_between = False
    while left < right:
        if is_from_right:
            right -= 1
        column = right if is_from_right else left
        if not is_from_right:
            left += 1
        known = lo_max
        first, end = find_buckets(grid, column, area)
        is_down = False
        while first < end:
            bucket = end - 1 if is_down else first
            box = grid.bucket_box[bucket]
            size = grid.bucket_size[bucket]
            if is_between and size > 0:
                if is_down and box[3] <= hi_max:
                    break
                if not is_down and box[2] >= hi_min:
                    is_down = True
                    continue
            if is_down:
                end -= 1
            else:
                first += 1
            if size == 0 or is_apart(box, area):
                continue
            best = Rectangle(lo_min, lo_max, hi_min, hi_max)
            is_known = max(box[0], area.lo_min) >= lo_min and min(box[1], area.lo_max) <= lo_max
            is_known = is_known and max(box[2], area.hi_min) >= hi_min and min(box[3], area.hi_max) <= hi_max
            if not is_known:
                lo_min, lo_max, hi_min, hi_max = snap_bucket(grid, bucket, area, best)
        if is_from_right and lo_max > known:
            is_from_right = False
            is_between = True
        elif not is_between and lo_min <= lo_max:
            is_from_right = True
    return Rectangle(lo_min, lo_max, hi_min, hi_max)
