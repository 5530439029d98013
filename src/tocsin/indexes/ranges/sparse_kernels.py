"""Paint-Sparse: an event as tiles of subscription space that fit the subscriptions there.

As Paint-Dense, whose posts and sweep it shares, with three differences. A tile is *snapped* to the points in
it, unless they are very many, and one without points is not told. A row that is passed counts only if someone
who still has the middle row among its k best holds it. And tiles that follow each other are told as one if no
point comes in that neither had.

The points that an event can concern are copied out of the grid once, if they are not too many
(`sparse_near_kernels`); until they are few enough, as the row passes others, the grid is asked for each tile
(`sparse_grid_kernels`).
"""

from __future__ import annotations

from typing import NamedTuple

from tocsin.indexes.contract import Longs
from tocsin.indexes.ranges.events_kernels import Turn, end_turn, is_idle, next_turn, write_note
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
from tocsin.indexes.ranges.points_kernels import STRIP, Grid
from tocsin.indexes.ranges.posts_kernels import (
    Posts,
    Span,
    add_post,
    find_gap,
    lowest_passed,
    set_posts,
    turn_span,
)
from tocsin.indexes.ranges.sparse_grid_kernels import paint_grid, window_area
from tocsin.indexes.ranges.sparse_near_kernels import (
    Nearby,
    drop_far,
    gather_nearby,
    hold_posts,
    mark_exposed,
    mark_region,
    paint_nearby,
)
from tocsin.indexes.shared.jit import lean_kernel

#: In place of a gap: the row itself is told of, not one that it passes.
NO_GAP = -1

#: Points are gathered, or dropped, after so many rows passed.
PATIENCE = 4

#: Places in `Easel.counts`: tiles snapped, searches for the next row passed.
N_SNAPS = 0
N_SEARCHES = 1


class Easel(NamedTuple):
    """Scratch of one event, for one k."""

    posts: Posts
    near: Nearby
    #: int64 (2,): see N_SNAPS
    counts: Longs


@lean_kernel
def place_posts(objects: Objects, posts: Posts, turn: Turn, span: Span, k: int) -> int:
    """`set_posts` as a kernel of its own: quicker to compile."""
    return set_posts(objects, posts, turn, span, k)


@lean_kernel
def next_passed(objects: Objects, posts: Posts, turn: Turn, pivot: int, k: int) -> tuple[int, int]:
    """The lowest row passed that is no post yet, -1 if there is none; and the pivot of its round."""
    passed = lowest_passed(objects, posts, k)
    while passed < 0 and pivot >= 0:
        span = Span(objects.y[pivot], objects.born[pivot], turn.high_y, turn.high_born)
        pivot = place_posts(objects, posts, turn, span, k)
        passed = lowest_passed(objects, posts, k)
    return passed, pivot


@lean_kernel
def paint_turn(
    objects: Objects,
    grid: Grid,
    easel: Easel,
    turn: Turn,
    event: int,
    k: int,
    out: Messages,
    cursor: Longs,
) -> int:
    """Tell of a row, and if it gets worse, who replaces it where: DONE or FULL.

    The row itself comes first, then the rows that it passes, lowest first, as in Paint-Dense.
    """
    posts, near, counts = easel.posts, easel.near, easel.counts
    pivot = place_posts(objects, posts, turn, turn_span(turn), k)
    # Points nearby, -1 while they are too many; and rows passed so far.
    count, n_passed = -1 + 0 * event, 0
    # The row to tell of: the one whose turn it is, then one that it passes, in a gap.
    gap, passed, lowest, x = NO_GAP + 0 * event, -1, turn.place, turn.x
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
        is_seen, is_anyone, n_tiles = True, True, cursor[N_TILES]
        if count >= 0:
            if gap < 0:
                mark_region(near, count, k)
            else:
                is_seen, is_anyone = mark_exposed(near, count, x, k)
            paint_nearby(near, count, posts.x, posts.band, k, out, cursor)
        else:
            paint_grid(grid, posts.x, posts.band, first, last, gap, x, k, out, cursor)
        is_told = cursor[N_TILES] > n_tiles
        counts[N_SNAPS] += last - first + 1 if is_seen else 0
        if gap < 0:
            write_note(out, cursor, event, turn.slot, x, turn.told_y, turn.born, turn.is_going)
            if not (turn.is_rising and is_told):
                return DONE
        else:
            counts[N_SEARCHES] += 1 if is_seen else 0
            cursor[N_EXPOSED] += 1 if is_seen else 0
            slot = objects.slot[lowest]
            write_note(out, cursor, event, slot, x, objects.y[lowest], objects.born[lowest], False)
            add_post(posts, gap, passed, x, k)
            n_passed += 1
            if not is_anyone:
                return DONE
        passed, pivot = next_passed(objects, posts, turn, pivot, k)
        if passed < 0:
            return DONE
        if cursor[N_TILES] + k > len(out.note):
            return FULL
        lowest = int(posts.passed_place[passed])
        gap, x = find_gap(posts, passed, k), objects.x[lowest]
        first, last = max(1, gap + 1 - k), min(gap + 1, k)


@lean_kernel
def paint_sparsely(
    objects: Objects, grid: Grid, easel: Easel, events: Events, k: int, out: Messages, cursor: Longs
) -> int:
    """Tell of all events from the cursor's on, each applied before the next. DONE, FULL or NO_ROOM."""
    counts = easel.counts
    while cursor[EVENT] < len(events.slot):
        event = cursor[EVENT]
        if is_idle(objects, events, event):
            cursor[EVENT] = event + 1
            continue
        turn = next_turn(objects, events, event)
        if turn.place < 0 and not has_room(objects):
            return NO_ROOM
        n_tiles, n_notes, n_exposed = cursor[N_TILES], cursor[N_NOTES], cursor[N_EXPOSED]
        n_snaps, n_searches = counts[N_SNAPS], counts[N_SEARCHES]
        if n_tiles + k > len(out.note):
            return FULL
        counts[N_SEARCHES] += 1 if turn.is_rising else 0
        if paint_turn(objects, grid, easel, turn, event, k, out, cursor) == FULL:
            # Nothing is changed yet: this round will be done again.
            cursor[N_TILES], cursor[N_NOTES], cursor[N_EXPOSED] = n_tiles, n_notes, n_exposed
            counts[N_SNAPS], counts[N_SEARCHES] = n_snaps, n_searches
            return FULL
        end_turn(objects, turn, cursor)
    return DONE
