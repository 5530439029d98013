"""Paint-Sparse: an event as rectangles of subscription space that fit the known subscriptions.

As Paint-Dense, whose posts and sweep it shares, with three differences. A rectangle is *snapped* to the
points in it, unless they are very many, and one without points is dropped. A row passed counts only if some
point that still has the middle row among its k best holds it. And adjacent rectangles are merged if the
result holds no other point.

The points that an event can concern are copied out of the grid once, if they are not too many: most of the
work of Paint-Sparse. Until they are few enough, as the row passes others, the grid is queried for each
rectangle (`sparse_grid_kernels`).

Notation: as in `dense_kernels`, posts are the nearest rows below the middle row, and post k is the middle.
*Column* a is the points whose ranges hold `a` of the posts on the left. A point has the middle row among its
k best if its range *holds* fewer than k posts of either side, and it receives a row passed if it held k - 1
and holds that one too. So one count per point suffices, and the points lie in any order: they are scanned a
strip at a time, in vector code.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.bits import first_bit
from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.layout import Column, Size
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.ranges.messages.messages import (
    EVENT,
    N_EXPOSED,
    N_PAYLOADS,
    N_RECTANGLES,
    Messages,
    RowEvents,
)
from tocsin.indexes.ranges.messages.painters.events_kernels import (
    RowMove,
    end_move,
    is_idle,
    next_move,
    write_box,
    write_payload,
)
from tocsin.indexes.ranges.messages.painters.posts_kernels import (
    Posts,
    Span,
    add_post,
    find_gap,
    lowest_passed,
    move_span,
    set_posts,
)
from tocsin.indexes.ranges.messages.painters.sparse_grid_kernels import paint_grid, window_area
from tocsin.indexes.ranges.structures.blocked_rows_kernels import has_capacity
from tocsin.indexes.ranges.structures.blocked_rows_layout import BlockedColumns
from tocsin.indexes.ranges.structures.points_kernels import (
    STRIP,
    Grid,
    Rectangle,
    find_buckets,
    find_columns,
    is_apart,
    join,
    no_box,
)
from tocsin.kernels.status import DONE, FULL, SLOTS_FULL

#: In this many columns of the grid there are never very many points.
UNCOUNTED_COLUMNS = 2


class Nearby(NamedTuple):
    """Points near one row. Scratch. The last strip is filled up with points of NaN that hold k posts."""

    #: the points
    lo: Annotated[Floats, Column(Size("strips", times=STRIP), fill=None)]
    hi: Annotated[Floats, Column(Size("strips", times=STRIP), fill=None)]
    #: how many posts each holds, besides the middle
    held: Annotated[Longs, Column(Size("strips", times=STRIP), fill=None)]
    #: a mask of the points that the current payload goes to
    marked: Annotated[Longs, Column("strips", fill=None)]
    #: the smallest rectangle around the marked points of each column
    box: Annotated[Floats, Column("k", 4, fill=None)]


class Sight(NamedTuple):
    """The effect of a row passed on the points nearby."""

    #: whether any point that has the middle row among its k best holds it
    is_seen: bool
    #: whether any point still has the middle row among its k best
    is_anyone: bool


@lean_kernel
def gather_nearby(grid: Grid, area: Rectangle, near: Nearby) -> int:
    """Copy the points in the rectangle, in any order. Returns how many, or -1 if too many.

    Cost: the buckets met, and their points if they fit.
    """
    first_column, end_column = find_columns(grid, area)
    # Where it spans many columns, the buckets met are counted first; for a few that does not pay.
    n_met = 0
    for column in range(
        first_column, end_column if end_column - first_column > UNCOUNTED_COLUMNS else first_column
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
                # Always written, counted if inside: no branch to mispredict.
                near.lo[count] = lo
                near.hi[count] = hi
                count += int(
                    (area.lo_min <= lo) & (lo <= area.lo_max) & (area.hi_min <= hi) & (hi <= area.hi_max)
                )
    return count


@inlined
def fill_strip(near: Nearby, count: int, k: int) -> None:
    """Pad the last strip with points that nothing is sent to."""
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
        # NaN, for no post, is in no range.
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
    """Mark the points that have the middle row among their k best."""
    for strip in range(-(-count // STRIP)):
        held = near.held[strip * STRIP : strip * STRIP + STRIP]
        marked = 0
        for i in range(STRIP):
            marked |= 1 << i if held[i] < k else 0
        near.marked[strip] = marked


@inlined
def mark_exposed(near: Nearby, count: int, x: float, k: int) -> Sight:
    """Mark the points that receive a row passed at x, which becomes a post."""
    n_seen = n_left = 0
    for strip in range(-(-count // STRIP)):
        begin, end = strip * STRIP, strip * STRIP + STRIP
        lo, hi, held = near.lo[begin:end], near.hi[begin:end], near.held[begin:end]
        marked = 0
        for i in range(STRIP):
            holds = (lo[i] <= x) & (x <= hi[i])
            before = held[i]
            after = before + int(holds)
            marked |= 1 << i if holds & (before == k - 1) else 0
            n_seen += int(holds & (before < k))
            n_left += int(after < k)
            held[i] = after
        near.marked[strip] = marked
    return Sight(n_seen > 0, n_left > 0)


@inlined
def box_columns(near: Nearby, count: int, post_x: Floats, k: int) -> None:
    """Find the rectangle around the marked points of each column. Cost: k for each of them."""
    box = near.box
    for a in range(k):
        box[a, 0], box[a, 1], box[a, 2], box[a, 3] = np.inf, -np.inf, np.inf, -np.inf
    for strip in range(-(-count // STRIP)):
        marked = int(near.marked[strip])
        while marked != 0:
            i = strip * STRIP + first_bit(marked)
            marked &= marked - 1
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
    """Whether an unmarked point is in a rectangle. Cost: linear, until one is found."""
    found = strip = 0
    while found == 0 and strip * STRIP < count:
        found = mark_inside(near, strip, box) & ~near.marked[strip]
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
def settle_rectangle(
    near: Nearby,
    count: int,
    ready: Rectangle,
    waiting: Rectangle,
    is_exact: bool,
    out: Messages,
    cursor: Longs,
) -> Rectangle:
    """Join two rectangles if no other point comes in, or write the ready one. Returns the one ready then.

    With bands, rectangles may hold points that were not meant, so all are counted.
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
    """Write rectangles for the marked points: those of one band are joined, then others. At most k.

    Cost: k for each marked point, and for each rectangle the points until an unmarked one is found.
    """
    box_columns(near, count, post_x, k)
    ready = no_box()
    waiting = box = ready
    band = -1
    is_exact = bool(bands[1] == k - 1)
    # One round more than there are columns, to settle the last rectangle.
    for a in range(k + 1):
        if a < k:
            box = Rectangle(near.box[a, 0], near.box[a, 1], near.box[a, 2], near.box[a, 3])
            if box.lo_min > box.lo_max:
                continue
            if bands[k - a] == band:
                waiting = join(waiting, box)
                continue
        if band >= 0:
            ready = settle_rectangle(near, count, ready, waiting, is_exact, out, cursor)
        if a < k:
            waiting = box
            band = int(bands[k - a])
    if band >= 0:
        write_box(out, cursor, ready)


#: In place of a gap: the row itself is sent, not one that it passes.
NO_GAP = -1

#: Points are gathered, or dropped, every this many rows passed.
PATIENCE = 4

#: Places in `SparseScratch.counts`: rectangles snapped, searches for the next row passed.
N_SNAPS = 0
N_SEARCHES = 1


class SparseScratch(NamedTuple):
    """Scratch of one event, for one k."""

    posts: Posts
    near: Nearby
    #: see N_SNAPS
    counts: Annotated[Longs, Column(2)]


@lean_kernel
def place_posts(blocked: BlockedColumns, posts: Posts, move: RowMove, span: Span, k: int) -> int:
    """`set_posts` as a kernel of its own: quicker to compile."""
    return set_posts(blocked, posts, move, span, k)


@lean_kernel
def next_passed(blocked: BlockedColumns, posts: Posts, move: RowMove, pivot: int, k: int) -> tuple[int, int]:
    """The lowest row passed that is no post yet, -1 if there is none; and the pivot of its round."""
    passed = lowest_passed(blocked, posts, k)
    while passed < 0 and pivot >= 0:
        span = Span(blocked.y[pivot], blocked.born[pivot], move.high_y, move.high_born)
        pivot = place_posts(blocked, posts, move, span, k)
        passed = lowest_passed(blocked, posts, k)
    return passed, pivot


@lean_kernel
def paint_move(
    blocked: BlockedColumns,
    grid: Grid,
    scratch: SparseScratch,
    move: RowMove,
    event: int,
    k: int,
    out: Messages,
    cursor: Longs,
) -> int:
    """Send a row, and if it gets worse, the rows that replace it, each where it does: DONE or FULL.

    The row itself comes first, then the rows that it passes, lowest first, as in Paint-Dense.
    """
    posts, near, counts = scratch.posts, scratch.near, scratch.counts
    pivot = place_posts(blocked, posts, move, move_span(move), k)
    # Points nearby, -1 while they are too many; and rows passed so far.
    count, n_passed = -1 + 0 * event, 0
    # The row to send: first the one that moves, then those that it passes, each in a gap.
    gap, passed, lowest, x = NO_GAP + 0 * event, -1, move.place, move.x
    first, last = 1, k
    while True:
        # Posts, and columns between them, that are there.
        while posts.x[first] != posts.x[first]:
            first += 1
        while gap >= 0 and posts.x[last + k - 1] != posts.x[last + k - 1]:
            last -= 1
        if n_passed % PATIENCE == 0:
            area = window_area(posts.x, k)
            if count > STRIP:
                count = drop_far(near, count, area, k)
            elif count < 0:
                count = gather_nearby(grid, area, near)
                if count == 0:
                    counts[N_SNAPS] += last - first + 1
                    return DONE
                if count > 0:
                    hold_posts(near, count, posts.x, k)
        is_seen, is_anyone, n_rectangles = True, True, cursor[N_RECTANGLES]
        if count >= 0:
            if gap < 0:
                mark_region(near, count, k)
            else:
                is_seen, is_anyone = mark_exposed(near, count, x, k)
            paint_nearby(near, count, posts.x, posts.band, k, out, cursor)
        else:
            paint_grid(grid, posts.x, posts.band, first, last, gap, x, k, out, cursor)
        is_sent = cursor[N_RECTANGLES] > n_rectangles
        counts[N_SNAPS] += last - first + 1 if is_seen else 0
        if gap < 0:
            write_payload(out, cursor, event, move.slot, x, move.sent_y, move.born, move.is_going)
            if not (move.is_rising and is_sent):
                return DONE
        else:
            counts[N_SEARCHES] += 1 if is_seen else 0
            cursor[N_EXPOSED] += 1 if is_seen else 0
            slot = blocked.slot[lowest]
            write_payload(out, cursor, event, slot, x, blocked.y[lowest], blocked.born[lowest], False)
            add_post(posts, gap, passed, x, k)
            n_passed += 1
            if not is_anyone:
                return DONE
        passed, pivot = next_passed(blocked, posts, move, pivot, k)
        if passed < 0:
            return DONE
        if cursor[N_RECTANGLES] + k > len(out.payload):
            return FULL
        lowest = int(posts.passed_place[passed])
        gap, x = find_gap(posts, passed, k), blocked.x[lowest]
        first, last = max(1, gap + 1 - k), min(gap + 1, k)


@lean_kernel
def paint_sparsely(
    blocked: BlockedColumns,
    grid: Grid,
    scratch: SparseScratch,
    events: RowEvents,
    k: int,
    out: Messages,
    cursor: Longs,
) -> int:
    """Process events from the cursor on, each applied before the next. DONE, FULL or SLOTS_FULL."""
    counts = scratch.counts
    while cursor[EVENT] < len(events.slot):
        event = cursor[EVENT]
        if is_idle(blocked, events, event):
            cursor[EVENT] = event + 1
            continue
        move = next_move(blocked, events, event)
        if move.place < 0 and not has_capacity(blocked):
            return SLOTS_FULL
        n_rectangles, n_payloads, n_exposed = cursor[N_RECTANGLES], cursor[N_PAYLOADS], cursor[N_EXPOSED]
        n_snaps, n_searches = counts[N_SNAPS], counts[N_SEARCHES]
        if n_rectangles + k > len(out.payload):
            return FULL
        counts[N_SEARCHES] += 1 if move.is_rising else 0
        if paint_move(blocked, grid, scratch, move, event, k, out, cursor) == FULL:
            # Nothing is changed yet: the caller grows the output and this event is processed again.
            cursor[N_RECTANGLES], cursor[N_PAYLOADS], cursor[N_EXPOSED] = n_rectangles, n_payloads, n_exposed
            counts[N_SNAPS], counts[N_SEARCHES] = n_snaps, n_searches
            return FULL
        end_move(blocked, move, cursor)
    return DONE
