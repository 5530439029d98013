"""Unicast: every affected subscription is found and notified individually. The baseline of messages."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.layout import Column, Size
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.ranges.messages.messages import EVENT, N_EXPOSED, N_RECTANGLES, RowEvents
from tocsin.indexes.ranges.messages.receivers_kernels import area_of
from tocsin.indexes.ranges.structures.blocked_rows_kernels import (
    find_last,
    first_left,
    first_place,
    first_right,
    has_capacity,
    is_before,
    place_after,
    put_row,
)
from tocsin.indexes.ranges.structures.blocked_rows_layout import NEVER, STRIDE, BlockedColumns
from tocsin.indexes.ranges.structures.points_kernels import (
    Grid,
    Rectangle,
    find_buckets,
    find_columns,
    is_apart,
)
from tocsin.kernels.status import DONE, FULL, SLOTS_FULL
from tocsin.papers.topk_paint.rows_above_kernels import (
    Lens,
    Stretch,
    find_block,
    find_stretch,
    least_above,
    scan_above,
    set_lens,
)


class UnicastMessages(NamedTuple):
    """One entry per message: the effect of one event on one subscription."""

    #: position of the event in its batch
    event: Annotated[Ints, Column("messages", fill=None)]
    #: slot of the subscription
    subscription: Annotated[Ints, Column("messages", fill=None)]
    #: slot of the row that replaces the event's row; -1 if that stays, or leaves without replacement
    other: Annotated[Ints, Column("messages", fill=None)]


class UnicastScratch(NamedTuple):
    """Scratch: the nearest rows below the event's row, and the subscriptions that may be affected."""

    near: Annotated[Ints, Column(Size("k", plus=STRIDE), fill=None)]
    #: their x, nearest first
    left: Annotated[Floats, Column("k", fill=None)]
    right: Annotated[Floats, Column("k", fill=None)]
    #: places of the subscriptions in the grid
    found: Annotated[Ints, Column("found", fill=None)]
    #: the rank of the event's row in each, if at most k
    rank: Annotated[Ints, Column("subscriptions", fill=None)]
    #: place of the row that becomes k-th, -1 for none; where searched
    other: Annotated[Ints, Column("subscriptions", fill=None)]


@lean_kernel
def list_places(grid: Grid, area: Rectangle, out_place: Ints) -> int:
    """Write the places in the grid of the points in a rectangle, which all fit. Returns how many."""
    n_out = 0
    first_column, end_column = find_columns(grid, area)
    for column in range(first_column, end_column):
        first, end = find_buckets(grid, column, area)
        for bucket in range(first, end):
            if is_apart(grid.bucket_box[bucket], area):
                continue
            start = grid.bucket_start[bucket]
            for place in range(start, start + grid.bucket_size[bucket]):
                lo = grid.lo[place]
                hi = grid.hi[place]
                # Always written, counted if inside: no branch to mispredict.
                out_place[n_out] = place
                n_out += int(
                    (area.lo_min <= lo) & (lo <= area.lo_max) & (area.hi_min <= hi) & (hi <= area.hi_max)
                )
    return n_out


@inlined
def rank_inside(scratch: UnicastScratch, n_left: int, n_right: int, lo: float, hi: float) -> int:
    """The rank of the event's row in a subscription, if it is at most k."""
    rank = 1
    while rank <= n_left and scratch.left[rank - 1] >= lo:
        rank += 1
    n_inside = 0
    while n_inside < n_right and scratch.right[n_inside] <= hi:
        n_inside += 1
    return rank + n_inside


@lean_kernel
def find_replacements(
    blocked: BlockedColumns,
    lens: Lens,
    grid: Grid,
    scratch: UnicastScratch,
    n_found: int,
    y: float,
    born: int,
    k: int,
    is_literal: bool,
) -> int:
    """Find the row above (y, born) that becomes k-th in each subscription found. Returns the searches made.

    As many rows above as there are ranks from the event's row to k, one search each. A separate kernel, as
    the loop takes nearly twice as long inside a larger one.
    """
    n_searches = 0
    stretch = Stretch(0, 0, 0, 0)
    for i in range(n_found):
        # As in the paper, one search per subscription found, which is right only where the row was k-th.
        steps = 1 if is_literal else k - scratch.rank[i] + 1
        if steps <= 0:
            continue
        # Consecutive subscriptions are near each other.
        stretch = find_stretch(blocked, lens, grid.lo[scratch.found[i]], grid.hi[scratch.found[i]], stretch)
        at = least_above(blocked, lens, stretch, y, born)
        n_searches += 1
        while steps > 1 and at >= 0:
            at = least_above(blocked, lens, stretch, blocked.y[at], blocked.born[at])
            n_searches += 1
            steps -= 1
        scratch.other[i] = at
    return n_searches


@inlined
def write_messages(
    blocked: BlockedColumns,
    lens: Lens,
    grid: Grid,
    scratch: UnicastScratch,
    event: int,
    x: float,
    y: float,
    born: int,
    goal_y: float,
    goal_born: int,
    k: int,
    is_literal: bool,
    out: UnicastMessages,
    cursor: Longs,
) -> int:
    """Send a row at x whose rank was or becomes (y, born), and falls to the goal if that is above.

    DONE or FULL.
    """
    left = find_last(blocked, x, False)
    right = first_place(blocked) if left < 0 else place_after(blocked, left)
    n_left = first_left(blocked, left, y, born, k, scratch.near)
    for u in range(n_left):
        scratch.left[u] = blocked.x[scratch.near[u]]
    n_right = first_right(blocked, right, y, born, k, scratch.near)
    for v in range(n_right):
        scratch.right[v] = blocked.x[scratch.near[v]]
    outer_lo = scratch.left[k - 1] if n_left == k else np.nan
    outer_hi = scratch.right[k - 1] if n_right == k else np.nan
    area = area_of(x, x, outer_lo, outer_hi)
    n_found = list_places(grid, area, scratch.found)
    if cursor[N_RECTANGLES] + n_found > len(out.event):
        return FULL
    is_falling = is_before(y, born, goal_y, goal_born)
    for i in range(n_found):
        scratch.rank[i] = rank_inside(
            scratch, n_left, n_right, grid.lo[scratch.found[i]], grid.hi[scratch.found[i]]
        )
    if n_found > 0 and (is_falling or is_literal):
        first = find_block(blocked, lens, area.lo_min, True, 0)
        scan_above(blocked, lens, first, find_block(blocked, lens, area.hi_max, False, 0), y, born)
        cursor[N_EXPOSED] += find_replacements(blocked, lens, grid, scratch, n_found, y, born, k, is_literal)
    for i in range(n_found):
        if scratch.rank[i] > k:
            continue
        other = -1
        if is_falling:
            at = scratch.other[i]
            if at >= 0 and is_before(blocked.y[at], blocked.born[at], goal_y, goal_born):
                other = blocked.slot[at]
        letter = cursor[N_RECTANGLES]
        out.event[letter] = event
        out.subscription[letter] = grid.slot[scratch.found[i]]
        out.other[letter] = other
        cursor[N_RECTANGLES] = letter + 1
    return DONE


@lean_kernel
def unicast_events(
    blocked: BlockedColumns,
    lens: Lens,
    grid: Grid,
    scratch: UnicastScratch,
    events: RowEvents,
    k: int,
    is_literal: bool,
    out: UnicastMessages,
    cursor: Longs,
) -> int:
    """Process events from the cursor on, each applied before the next. DONE, FULL or SLOTS_FULL.

    A row that moves in x must come as two events.
    """
    is_clear = False
    while cursor[EVENT] < len(events.slot):
        event = cursor[EVENT]
        slot, x, y, born = events.slot[event], events.x[event], events.y[event], events.born[event]
        place = int(blocked.slot_place[slot])
        is_there = born >= 0 and x == x and y == y
        if not has_capacity(blocked):
            return SLOTS_FULL
        # From the better of its ranks, the old one if it falls or goes.
        is_falling = place >= 0 and not (is_there and y < blocked.y[place])
        goal_y, goal_born = (y, born) if is_there else (np.inf, NEVER)
        if place >= 0 or is_there:
            from_y = blocked.y[place] if is_falling else y
            from_born = blocked.born[place] if place >= 0 else born
            at_x = blocked.x[place] if place >= 0 else x
            if not is_clear:
                set_lens(blocked, lens)
            if not (is_falling and is_there and from_y == y):
                status = write_messages(
                    blocked, lens, grid, scratch, event, at_x, from_y, from_born,
                    goal_y, goal_born, k, is_literal, out, cursor,
                )  # fmt: skip
                if status != DONE:
                    return status
        # Where rows come, go or move, blocks may be split, moved or freed.
        is_clear = place >= 0 and is_there and blocked.x[place] == x and blocked.born[place] == born
        put_row(blocked, slot, x, y, born)
        cursor[EVENT] = event + 1
    return DONE
