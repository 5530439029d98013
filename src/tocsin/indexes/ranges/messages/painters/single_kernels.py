"""Paint for k = 1: which ranges have a row as their best one, and which rows replace it when it gets worse.

Notation: as in `posts_kernels`, but there are two posts, the nearest row below row i on either side, and i is
the best row of every range between them that holds it. Of the rows that i passes, those *show* that are lower
than all nearer ones on their side: from near to far each is lower than the one before. So one walk outwards
lists them all; they are sent from the far ends of both lists, lowest first, and each is the next post.

A top-k message carries one row, and each subscription that held i first receives what became of it. A MIN or
MAX message states the whole answer (`is_whole`): i is sent last, only to those that still have it or have
nothing left. What the posts enclose by then is what the paper calls EMar.

Paint-Sparse for k = 1 takes the same walk. The part of the row's rectangle not yet covered is represented by
the box around its points: a row that shows on the left goes to those with `lo` at or left of it, the others
remain. Most often the box decides whether these are all, or none, without a query to the grid.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.bits import first_bit, last_bit
from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.layout import Column
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.ranges.messages.messages import (
    EVENT,
    N_EXPOSED,
    N_PAYLOADS,
    N_RECTANGLES,
    Messages,
    RowEvents,
)
from tocsin.indexes.ranges.messages.painters.events_kernels import RowMove, end_move, is_idle, next_move
from tocsin.indexes.ranges.messages.painters.posts_kernels import next_block
from tocsin.indexes.ranges.messages.painters.sparse_grid_kernels import find_some
from tocsin.indexes.ranges.messages.painters.sparse_kernels import N_SEARCHES, N_SNAPS
from tocsin.indexes.ranges.structures.blocked_rows_kernels import has_capacity, is_below
from tocsin.indexes.ranges.structures.blocked_rows_layout import BLOCK, BlockedColumns
from tocsin.indexes.ranges.structures.points_kernels import (
    Grid,
    Rectangle,
    is_apart,
    next_above,
    next_below,
    no_box,
    snap_bucket,
)
from tocsin.kernels.search import find_least
from tocsin.kernels.status import DONE, FULL, SLOTS_FULL


class Shown(NamedTuple):
    """Rows that show, on either side, from near to far. Scratch."""

    #: their places; capacity for every row
    left: Annotated[Ints, Column("places", fill=None)]
    right: Annotated[Ints, Column("places", fill=None)]


class Walk(NamedTuple):
    """The result of the walk on one side."""

    #: how many rows show
    n_shown: int
    #: x of the post, NaN for none
    x: float


@inlined
def mark_low(part: Floats, y: float) -> int:
    """A mask of the rows of a block that are not above y."""
    marked = 0
    for i in range(BLOCK):
        marked |= 1 << i if part[i] <= y else 0
    return marked


@inlined
def walk_side(blocked: BlockedColumns, start: int, step: int, move: RowMove, out_shown: Ints) -> Walk:
    """From `start` on, by `step` -1 to the left or 1 to the right, list rows that show, up to the post.

    Cost: the blocks on the way that hold one of these, in vector code; others are skipped whole.
    """
    y = move.high_y if move.is_rising else move.low_y
    born = move.high_born if move.is_rising else move.born
    n_shown = 0
    block, offset = start // BLOCK if start >= 0 else -1, int(start % BLOCK)
    # Bits of the rows from the first one on.
    bits = (2 << offset) - 1 if step < 0 else -1 << offset
    while block >= 0:
        base = block * BLOCK
        bits &= (2 << (int(blocked.block_count[block]) - 1)) - 1
        marked = mark_low(blocked.y[base : base + BLOCK], y) & bits
        while marked != 0:
            bit = last_bit(marked) if step < 0 else first_bit(marked)
            marked ^= 1 << bit
            place = base + bit
            if is_below(blocked, place, y, born):
                if is_below(blocked, place, move.low_y, move.born):
                    return Walk(n_shown, blocked.x[place])
                out_shown[n_shown] = place
                n_shown += 1
                y, born = blocked.y[place], blocked.born[place]
        block = next_block(blocked, block, step, y)
        bits = -1
    return Walk(n_shown, np.nan)


@inlined
def is_left_lower(blocked: BlockedColumns, shown: Shown, n_left: int, n_right: int) -> bool:
    """Whether the lowest row that shows is on the left; there is one."""
    if n_left == 0 or n_right == 0:
        return n_left > 0
    other = shown.right[n_right - 1]
    return is_below(blocked, shown.left[n_left - 1], blocked.y[other], blocked.born[other])


@inlined
def write_payload_at(
    out: Messages, at: int, event: int, row: int, x: float, y: float, born: int, is_gone: bool
) -> None:
    """Write the payload of the rectangle with the same number: for k = 1 a payload has one rectangle."""
    out.payload[at] = at
    out.payload_event[at] = event
    out.payload_row[at] = row
    out.payload_x[at] = x
    out.payload_y[at] = y
    out.payload_born[at] = born
    out.payload_gone[at] = is_gone


@inlined
def write_rectangle_at(
    out: Messages, at: int, inner_lo: float, inner_hi: float, outer_lo: float, outer_hi: float
) -> None:
    """Write rectangle number `at`."""
    out.inner_lo[at] = inner_lo
    out.inner_hi[at] = inner_hi
    out.outer_lo[at] = outer_lo
    out.outer_hi[at] = outer_hi


@inlined
def emit_move(
    blocked: BlockedColumns,
    shown: Shown,
    is_whole: bool,
    move: RowMove,
    event: int,
    out: Messages,
    cursor: Longs,
) -> int:
    """Send a row, and if it gets worse, the rows that replace it, each where it does: DONE or FULL."""
    left = walk_side(blocked, move.left, -1, move, shown.left)
    right = walk_side(blocked, move.right, 1, move, shown.right)
    n_left, n_right, at = left.n_shown, right.n_shown, cursor[N_RECTANGLES]
    if at + n_left + n_right >= len(out.payload):
        return FULL
    x, low, high = move.x, left.x, right.x
    # NaN, for no post, compares as past all others. With a post at x itself, the row is no range's best.
    if low >= x or x >= high:
        return DONE
    if not is_whole:
        write_rectangle_at(out, at, x, x, low, high)
        write_payload_at(out, at, event, move.slot, x, move.sent_y, move.born, move.is_going)
        at += 1
    n_exposed = 0
    while n_left + n_right > 0 and not (low >= x or x >= high):
        is_left = is_left_lower(blocked, shown, n_left, n_right)
        place = int(shown.left[n_left - 1] if is_left else shown.right[n_right - 1])
        n_left -= int(is_left)
        n_right -= int(not is_left)
        post = blocked.x[place]
        # Written always, and counted if it is not empty, as behind a post of the same x.
        write_rectangle_at(out, at, post if is_left else x, x if is_left else post, low, high)
        write_payload_at(
            out, at, event, blocked.slot[place], post, blocked.y[place], blocked.born[place], False
        )
        at += int(not (low >= post if is_left else post >= high))
        low, high = (post, high) if is_left else (low, post)
        n_exposed += 1
    if is_whole and not (low >= x or x >= high):
        write_rectangle_at(out, at, x, x, low, high)
        write_payload_at(out, at, event, move.slot, x, move.sent_y, move.born, move.is_going)
        at += 1
    cursor[N_RECTANGLES] = cursor[N_PAYLOADS] = at
    cursor[N_EXPOSED] += n_exposed
    return DONE


@lean_kernel
def emit_best(
    blocked: BlockedColumns, shown: Shown, is_whole: bool, events: RowEvents, out: Messages, cursor: Longs
) -> int:
    """Process events from the cursor on, each applied before the next. DONE, FULL or SLOTS_FULL."""
    while cursor[EVENT] < len(events.slot):
        event = cursor[EVENT]
        if is_idle(blocked, events, event):
            cursor[EVENT] = event + 1
            continue
        move = next_move(blocked, events, event)
        if move.place < 0 and not has_capacity(blocked):
            return SLOTS_FULL
        if emit_move(blocked, shown, is_whole, move, event, out, cursor) == FULL:
            return FULL
        end_move(blocked, move, cursor)
    return DONE


class Fit(NamedTuple):
    """A rectangle around points, empty if there are none."""

    box: Rectangle
    #: whether it is the smallest one
    is_tight: bool


@inlined
def is_none(box: Rectangle) -> bool:
    """Whether a rectangle is empty."""
    return not (box.lo_min <= box.lo_max and box.hi_min <= box.hi_max)


@inlined
def first_bucket(grid: Grid, column: int, end: int, hi: float) -> int:
    """The first bucket of a column, which ends before `end`, that can have points of at least `hi`.

    Cost: logarithmic in its position, as short ranges are at the bottom.
    """
    first, step = int(grid.column_start[column]), 1
    while first + step < end and grid.bucket_hi[first + step] < hi:
        first += step
        step *= 2
    return find_least(grid.bucket_hi, first, min(first + step, end), hi)


@inlined
def fit_area(grid: Grid, area: Rectangle, most: int) -> Fit:
    """Shrink a rectangle to the points in it; one that meets more than `most` buckets is left as it is.

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
def part_covered(rest: Rectangle, post: float, is_left: bool) -> Rectangle:
    """The part of `rest` whose ranges hold a row at `post`, on the left or on the right."""
    lo_max = min(rest.lo_max, post) if is_left else rest.lo_max
    hi_min = rest.hi_min if is_left else max(rest.hi_min, post)
    return Rectangle(rest.lo_min, lo_max, hi_min, rest.hi_max)


@inlined
def part_remaining(rest: Rectangle, post: float, is_left: bool) -> Rectangle:
    """The part of `rest` whose ranges do not."""
    lo_min = next_above(post) if is_left else rest.lo_min
    hi_max = rest.hi_max if is_left else next_below(post)
    return Rectangle(lo_min, rest.lo_max, rest.hi_min, hi_max)


@inlined
def write_fit(out: Messages, at: int, box: Rectangle) -> None:
    """Write the rectangle of the points in a box around them."""
    write_rectangle_at(out, at, box.lo_max, box.hi_min, next_below(box.lo_min), next_above(box.hi_max))


@inlined
def emit_known_move(
    blocked: BlockedColumns,
    grid: Grid,
    shown: Shown,
    most: int,
    is_whole: bool,
    move: RowMove,
    event: int,
    counts: Longs,
    out: Messages,
    cursor: Longs,
) -> int:
    """Send a row, and the rows that replace it, to known subscriptions only: DONE or FULL."""
    left = walk_side(blocked, move.left, -1, move, shown.left)
    right = walk_side(blocked, move.right, 1, move, shown.right)
    n_left, n_right, at = left.n_shown, right.n_shown, cursor[N_RECTANGLES]
    if at + n_left + n_right >= len(out.payload):
        return FULL
    counts[N_SNAPS] += 1
    counts[N_SEARCHES] += int(move.is_rising)
    x, low, high = move.x, left.x, right.x
    # NaN, for no post, compares as past all others. With a post at x itself, the row is no range's best.
    if low >= x or x >= high:
        return DONE
    area = Rectangle(
        next_above(low) if low == low else -np.inf, x, x, next_below(high) if high == high else np.inf
    )
    # The row itself comes first, then those that show. `rest` bounds the points that got no other row yet;
    # where it is tight and all of it is covered, the grid need not be queried.
    rest = covered = area
    is_own, is_tight, is_all, is_left = True, False, False, False
    # Where a message states the whole answer, the row goes last, to what then remains.
    is_last = is_whole and n_left + n_right > 0
    slot, post, y, born = move.slot, x, move.sent_y, move.born
    n_sent = 0
    while True:
        fit = Fit(covered, True)
        if not (is_tight and is_all):
            fit = fit_area(grid, covered, most)
        if not (is_none(fit.box) or (is_own and is_last)):
            write_fit(out, at, fit.box)
            write_payload_at(out, at, event, slot, post, y, born, is_own and move.is_going)
            at += 1
            n_sent += int(not is_own)
        rest = fit.box if is_own else part_remaining(rest, post, is_left)
        is_tight, is_own = is_own and fit.is_tight, False
        # The next row that shows and that some point of the rest can hold.
        place = -1
        while place < 0 and n_left + n_right > 0 and not is_none(rest):
            is_left = is_left_lower(blocked, shown, n_left, n_right)
            place = int(shown.left[n_left - 1] if is_left else shown.right[n_right - 1])
            n_left -= int(is_left)
            n_right -= int(not is_left)
            post = blocked.x[place]
            covered = part_covered(rest, post, is_left)
            place = -1 if is_none(covered) else place
        if place < 0:
            break
        is_all = post >= rest.lo_max if is_left else post <= rest.hi_min
        slot, y, born = int(blocked.slot[place]), blocked.y[place], blocked.born[place]
    if is_last and not is_none(rest):
        fit = fit_area(grid, rest, most)
        if not is_none(fit.box):
            write_fit(out, at, fit.box)
            write_payload_at(out, at, event, move.slot, x, move.sent_y, move.born, move.is_going)
            at += 1
    counts[N_SNAPS] += n_sent
    counts[N_SEARCHES] += n_sent
    cursor[N_RECTANGLES] = cursor[N_PAYLOADS] = at
    cursor[N_EXPOSED] += n_sent
    return DONE


@lean_kernel
def emit_best_known(
    blocked: BlockedColumns,
    grid: Grid,
    shown: Shown,
    most: int,
    is_whole: bool,
    events: RowEvents,
    counts: Longs,
    out: Messages,
    cursor: Longs,
) -> int:
    """Process events from the cursor on, each applied before the next. DONE, FULL or SLOTS_FULL."""
    while cursor[EVENT] < len(events.slot):
        event = cursor[EVENT]
        if is_idle(blocked, events, event):
            cursor[EVENT] = event + 1
            continue
        move = next_move(blocked, events, event)
        if move.place < 0 and not has_capacity(blocked):
            return SLOTS_FULL
        if emit_known_move(blocked, grid, shown, most, is_whole, move, event, counts, out, cursor) == FULL:
            return FULL
        end_move(blocked, move, cursor)
    return DONE
