"""Paint-Sparse where points are many: rectangles are fitted by queries to the grid.

Notation: see `posts_kernels` for posts and bands, `dense_kernels` for columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.ranges.messages.messages import Messages
from tocsin.indexes.ranges.messages.painters.events_kernels import write_box
from tocsin.indexes.ranges.structures.points_kernels import (
    Grid,
    Rectangle,
    count_points,
    find_buckets,
    find_columns,
    has_point,
    is_apart,
    join,
    next_above,
    next_below,
    no_box,
    snap_bucket,
    snap_points,
)


class Patch(NamedTuple):
    """Points of the grid to send to together."""

    #: around some of them; around all of them, and no others, if it is tight
    box: Rectangle
    #: where they are, and no others
    area: Rectangle
    is_tight: bool


@inlined
def window_area(post_x: Floats, k: int) -> Rectangle:
    """Where the points are that can have the middle row among their k best."""
    low, high = post_x[0], post_x[2 * k]
    return Rectangle(
        next_above(low) if low == low else -np.inf,
        post_x[k],
        post_x[k],
        next_below(high) if high == high else np.inf,
    )


@inlined
def posts_area(post_x: Floats, p: int, gap: int, x: float, k: int) -> Rectangle:
    """Where the points of a rectangle are: of the middle row, or with `gap` >= 0, of a row at x there."""
    low, high = post_x[p - 1], post_x[p + k]
    lo_max = x if p == gap + 1 else post_x[p]
    hi_min = post_x[k]
    if gap >= 0:
        hi_min = x if p == gap + 1 - k else post_x[p + k - 1]
    return Rectangle(
        next_above(low) if low == low else -np.inf,
        lo_max,
        hi_min,
        next_below(high) if high == high else np.inf,
    )


@lean_kernel
def find_some(grid: Grid, area: Rectangle) -> Rectangle:
    """A rectangle around some of the points in the one given; empty if there are none.

    Cost: most often one bucket.
    """
    first_column, end_column = find_columns(grid, area)
    n_columns = end_column - first_column
    for i in range(n_columns):
        column = first_column + (i + n_columns // 2) % n_columns
        first, end = find_buckets(grid, column, area)
        for bucket in range(end - 1, first - 1, -1):
            if grid.bucket_size[bucket] > 0 and not is_apart(grid.bucket_box[bucket], area):
                box = snap_bucket(grid, bucket, area, no_box())
                if box.lo_min <= box.lo_max:
                    return box
    return no_box()


@inlined
def fit_patch(grid: Grid, area: Rectangle, is_exact: bool) -> Patch:
    """A patch for the points in a rectangle; an empty box if there are none.

    Snapping one with many points is slow and of little use: some of them suffice to know that it is not
    empty, and most often that it cannot be joined to another.
    """
    if is_exact:
        return Patch(find_some(grid, area), area, False)
    return Patch(snap_points(grid, area), area, True)


@lean_kernel
def find_top(grid: Grid, area: Rectangle) -> float:
    """The largest `hi` of the points in a rectangle, -inf of none. Cost: a column most often one bucket."""
    top = -np.inf
    first_column, end_column = find_columns(grid, area)
    for column in range(first_column, end_column):
        first, end = find_buckets(grid, column, area)
        bucket = end - 1
        # Points of lower buckets are not above the lower bound of the last one.
        while bucket >= first and (bucket == end - 1 or grid.bucket_hi[bucket + 1] > top):
            box = grid.bucket_box[bucket]
            if box[3] > top and not is_apart(box, area):
                top = max(top, snap_bucket(grid, bucket, area, no_box()).hi_max)
            bucket -= 1
    return top


@lean_kernel
def find_right(grid: Grid, area: Rectangle) -> float:
    """The largest `lo` of the points in a rectangle, -inf of none. Cost: most often one column."""
    right = -np.inf
    first_column, end_column = find_columns(grid, area)
    column = end_column - 1
    while column >= first_column and (column == end_column - 1 or grid.column_lo[column + 1] > right):
        first, end = find_buckets(grid, column, area)
        for bucket in range(first, end):
            box = grid.bucket_box[bucket]
            if box[1] > right and not is_apart(box, area):
                right = max(right, snap_bucket(grid, bucket, area, no_box()).lo_max)
        column -= 1
    return right


@inlined
def join_flat(grid: Grid, one: Rectangle, other: Rectangle) -> Rectangle:
    """A rectangle with the points of two areas that begin at the same `hi`; empty if others would come in.

    `other` has the lesser `lo` and ends at a lesser `hi`. Others are above it, and right of some point of it.
    """
    top = find_top(grid, one)
    corner = Rectangle(other.lo_min, next_below(one.lo_min), next_above(other.hi_max), top)
    floor = other.lo_min
    if has_point(grid, corner):
        right = find_right(grid, corner)
        if has_point(grid, Rectangle(floor, right, other.hi_min, other.hi_max)):
            return no_box()
        floor = next_above(right)
    return Rectangle(floor, one.lo_max, one.hi_min, max(top, other.hi_max))


@inlined
def can_join(grid: Grid, one: Rectangle, other: Rectangle, is_exact: bool) -> bool:
    """Whether the rectangle around both holds no point that neither of them holds.

    `other` is the one with the lesser `lo`. Exact ones leave two corners to test; with bands, rectangles may
    hold points that were not meant, so all are counted.
    """
    both = join(one, other)
    if not is_exact:
        return count_points(grid, both) == count_points(grid, one) + count_points(grid, other)
    upper = Rectangle(other.lo_min, next_below(one.lo_min), next_above(other.hi_max), both.hi_max)
    lower = Rectangle(next_above(other.lo_max), one.lo_max, both.hi_min, next_below(one.hi_min))
    return not has_point(grid, upper) and not has_point(grid, lower)


@inlined
def is_blocked(grid: Grid, ready: Patch, waiting: Patch) -> bool:
    """Whether some points already show that exact patches cannot be joined: others are between them."""
    above = Rectangle(
        waiting.box.lo_min, waiting.area.lo_max, next_above(waiting.area.hi_max), ready.box.hi_max
    )
    below = Rectangle(
        next_above(waiting.area.lo_max), ready.box.lo_max, waiting.box.hi_min, next_below(ready.area.hi_min)
    )
    return has_point(grid, above) or has_point(grid, below)


@inlined
def settle_patch(
    grid: Grid, ready: Patch, waiting: Patch, is_exact: bool, is_flat: bool, out: Messages, cursor: Longs
) -> Patch:
    """Join two patches, or write the one that is ready. Returns the one that is ready then."""
    if ready.box.lo_min > ready.box.lo_max:
        return waiting
    if not is_exact or not is_blocked(grid, ready, waiting):
        if is_exact and is_flat:
            # These are tall: snapping them would be slow.
            area = join_flat(grid, ready.area, waiting.area)
            if area.lo_min <= area.lo_max:
                return Patch(join(ready.box, waiting.box), area, False)
        else:
            one = ready.box if ready.is_tight else snap_points(grid, ready.area)
            other = waiting.box if waiting.is_tight else snap_points(grid, waiting.area)
            if can_join(grid, one, other, is_exact):
                both = join(one, other)
                return Patch(both, both, True)
    write_box(out, cursor, ready.box if ready.is_tight else ready.area)
    return waiting


@lean_kernel
def paint_grid(
    grid: Grid,
    post_x: Floats,
    bands: Ints,
    first: int,
    last: int,
    gap: int,
    x: float,
    k: int,
    out: Messages,
    cursor: Longs,
) -> None:
    """Write the rectangles of posts `first` to `last`: of the middle row, or with `gap` >= 0, of one at x.

    Each is snapped; those of one band are joined, and then those that can be. At most k.
    """
    none = no_box()
    ready = Patch(none, none, True)
    waiting = ready
    band = -1
    is_exact = bool(bands[1] == k - 1)
    patch = ready
    # One round more than there are rectangles, to settle the last one.
    for p in range(last, first - 2, -1):
        if p >= first:
            patch = fit_patch(grid, posts_area(post_x, p, gap, x, k), is_exact)
            if patch.box.lo_min > patch.box.lo_max:
                continue
            if band == bands[p]:
                waiting = Patch(join(waiting.box, patch.box), patch.area, True)
                continue
        if band >= 0:
            ready = settle_patch(grid, ready, waiting, is_exact, gap < 0, out, cursor)
        if p >= first:
            waiting = patch
            band = int(bands[p])
    if band >= 0:
        write_box(out, cursor, ready.box if ready.is_tight else ready.area)
