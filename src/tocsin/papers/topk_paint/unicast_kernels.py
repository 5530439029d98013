"""Unicast: every affected subscription found and told by itself. The competitor of messages.

These call both leaf files of the room, the objects' and the points', and the paper's search above a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.ranges.messages import DONE, EVENT, FULL, N_EXPOSED, N_TILES, NO_ROOM, Events
from tocsin.indexes.ranges.objects_columns import NEVER, Objects
from tocsin.indexes.ranges.objects_kernels import (
    find_last,
    first_left,
    first_place,
    first_right,
    has_room,
    is_before,
    place_after,
    put_row,
)
from tocsin.indexes.ranges.points_kernels import (
    Grid,
    Rectangle,
    find_buckets,
    find_columns,
    is_apart,
)
from tocsin.indexes.ranges.receivers_kernels import area_of
from tocsin.indexes.shared.jit import inlined, lean_kernel
from tocsin.papers.topk_paint.objects_above_kernels import (
    Lens,
    Stretch,
    find_block,
    find_stretch,
    least_above,
    look_above,
    set_lens,
)


class Letters(NamedTuple):
    """One row a letter: what one event does to one subscription."""

    #: int32: position of the event in its batch
    event: Ints
    #: int32: slot of the subscription
    subscription: Ints
    #: int32: slot of the row that takes the place of the event's row; -1 if it has its place, or just leaves
    other: Ints


class Desk(NamedTuple):
    """Scratch: the nearest rows below the event's row, and who may be affected."""

    #: int32 (k + STRIDE,)
    near: Ints
    #: float64 (k,), float64 (k,): their x, nearest first
    left: Floats
    right: Floats
    #: int32 (subscriptions + bucket,): their places in the grid
    found: Ints
    #: int32 (subscriptions,): the rank of the event's row in each, if at most k
    rank: Ints
    #: int32 (subscriptions,): where the row is that gets k-th in each, -1 for none; of those with a search
    other: Ints


@lean_kernel
def list_places(grid: Grid, area: Rectangle, out_place: Ints) -> int:
    """Write where in the grid the points in the rectangle are: how many there are; all fit."""
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
                # Written always and kept if inside: no branch to mispredict.
                out_place[n_out] = place
                n_out += int(
                    (area.lo_min <= lo) & (lo <= area.lo_max) & (area.hi_min <= hi) & (hi <= area.hi_max)
                )
    return n_out


@inlined
def rank_inside(desk: Desk, n_left: int, n_right: int, lo: float, hi: float) -> int:
    """The rank of the event's row in a subscription, if it is at most k."""
    rank = 1
    while rank <= n_left and desk.left[rank - 1] >= lo:
        rank += 1
    n_inside = 0
    while n_inside < n_right and desk.right[n_inside] <= hi:
        n_inside += 1
    return rank + n_inside


@lean_kernel
def find_replacements(
    objects: Objects,
    lens: Lens,
    grid: Grid,
    desk: Desk,
    n_found: int,
    y: float,
    born: int,
    k: int,
    is_literal: bool,
) -> int:
    """Find the row that gets k-th in each subscription found, above (y, born): how many searches it took.

    It is as many rows above as there are ranks from the event's row to k, a search each. A kernel of its own,
    as the loop takes nearly twice as long inside a larger one.
    """
    n_searches = 0
    stretch = Stretch(0, 0, 0, 0)
    for i in range(n_found):
        # The paper's: whoever is found takes one search, which is right only where the row was k-th.
        steps = 1 if is_literal else k - desk.rank[i] + 1
        if steps <= 0:
            continue
        # Those found one after the other are near each other.
        stretch = find_stretch(objects, lens, grid.lo[desk.found[i]], grid.hi[desk.found[i]], stretch)
        at = least_above(objects, lens, stretch, y, born)
        n_searches += 1
        while steps > 1 and at >= 0:
            at = least_above(objects, lens, stretch, objects.y[at], objects.born[at])
            n_searches += 1
            steps -= 1
        desk.other[i] = at
    return n_searches


@inlined
def write_letters(
    objects: Objects,
    lens: Lens,
    grid: Grid,
    desk: Desk,
    event: int,
    x: float,
    y: float,
    born: int,
    goal_y: float,
    goal_born: int,
    k: int,
    is_literal: bool,
    out: Letters,
    cursor: Longs,
) -> int:
    """Tell of a row at x whose rank was or gets (y, born), and falls to the goal if that is above.

    DONE or FULL.
    """
    left = find_last(objects, x, False)
    right = first_place(objects) if left < 0 else place_after(objects, left)
    n_left = first_left(objects, left, y, born, k, desk.near)
    for u in range(n_left):
        desk.left[u] = objects.x[desk.near[u]]
    n_right = first_right(objects, right, y, born, k, desk.near)
    for v in range(n_right):
        desk.right[v] = objects.x[desk.near[v]]
    outer_lo = desk.left[k - 1] if n_left == k else np.nan
    outer_hi = desk.right[k - 1] if n_right == k else np.nan
    area = area_of(x, x, outer_lo, outer_hi)
    n_found = list_places(grid, area, desk.found)
    if cursor[N_TILES] + n_found > len(out.event):
        return FULL
    is_falling = is_before(y, born, goal_y, goal_born)
    for i in range(n_found):
        desk.rank[i] = rank_inside(desk, n_left, n_right, grid.lo[desk.found[i]], grid.hi[desk.found[i]])
    if n_found > 0 and (is_falling or is_literal):
        first = find_block(objects, lens, area.lo_min, True, 0)
        look_above(objects, lens, first, find_block(objects, lens, area.hi_max, False, 0), y, born)
        cursor[N_EXPOSED] += find_replacements(objects, lens, grid, desk, n_found, y, born, k, is_literal)
    for i in range(n_found):
        if desk.rank[i] > k:
            continue
        other = -1
        if is_falling:
            at = desk.other[i]
            if at >= 0 and is_before(objects.y[at], objects.born[at], goal_y, goal_born):
                other = objects.slot[at]
        letter = cursor[N_TILES]
        out.event[letter] = event
        out.subscription[letter] = grid.slot[desk.found[i]]
        out.other[letter] = other
        cursor[N_TILES] = letter + 1
    return DONE


@lean_kernel
def unicast_events(
    objects: Objects,
    lens: Lens,
    grid: Grid,
    desk: Desk,
    events: Events,
    k: int,
    is_literal: bool,
    out: Letters,
    cursor: Longs,
) -> int:
    """Letters of all events from the cursor's on, each applied before the next. DONE, FULL or NO_ROOM.

    A row that moves in x must come as two events.
    """
    is_clear = False
    while cursor[EVENT] < len(events.slot):
        event = cursor[EVENT]
        slot, x, y, born = events.slot[event], events.x[event], events.y[event], events.born[event]
        place = int(objects.slot_place[slot])
        is_there = born >= 0 and x == x and y == y
        if not has_room(objects):
            return NO_ROOM
        # From the better of its ranks, the old one if it falls or goes.
        is_falling = place >= 0 and not (is_there and y < objects.y[place])
        goal_y, goal_born = (y, born) if is_there else (np.inf, NEVER)
        if place >= 0 or is_there:
            from_y = objects.y[place] if is_falling else y
            from_born = objects.born[place] if place >= 0 else born
            at_x = objects.x[place] if place >= 0 else x
            if not is_clear:
                set_lens(objects, lens)
            if not (is_falling and is_there and from_y == y):
                status = write_letters(
                    objects, lens, grid, desk, event, at_x, from_y, from_born,
                    goal_y, goal_born, k, is_literal, out, cursor,
                )  # fmt: skip
                if status != DONE:
                    return status
        # Where rows come, go or move, blocks may be split, moved or freed.
        is_clear = place >= 0 and is_there and objects.x[place] == x and objects.born[place] == born
        put_row(objects, slot, x, y, born)
        cursor[EVENT] = event + 1
    return DONE
