"""Paint for k = 1: who has a row as their best one, and the rows that show when it gets worse.

Notation: as in `posts_kernels`, but there are two posts, the nearest row below row i on either side, and i is
the best row of every range between them that holds it. Of the rows that i passes, those *show* that are lower
than all nearer ones on their side: from near to far each is lower than the one before. So one walk outwards
lists them all, they are told from the ends of both lists, lowest first, and each is the next post.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.ranges.bits_kernels import first_bit, last_bit
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
from tocsin.indexes.ranges.objects_columns import BLOCK, Objects
from tocsin.indexes.ranges.objects_kernels import has_room, is_below
from tocsin.indexes.ranges.posts_kernels import next_block
from tocsin.indexes.shared.jit import inlined, lean_kernel


class Shown(NamedTuple):
    """Rows that show, on either side, from near to far. Scratch."""

    #: int32 (places,), int32 (places,): where they are; there is room for every row
    left: Ints
    right: Ints


class Walk(NamedTuple):
    """What was found on one side."""

    #: how many rows show
    n_shown: int
    #: x of the post, NaN for none
    x: float


@inlined
def mark_low(part: Floats, y: float) -> int:
    """Which rows of a block are not above y, a bit each."""
    marked = 0
    for i in range(BLOCK):
        marked |= 1 << i if part[i] <= y else 0
    return marked


@inlined
def walk_side(objects: Objects, start: int, step: int, turn: Turn, out_shown: Ints) -> Walk:
    """From `start` on, by `step` -1 to the left or 1 to the right, list rows that show, up to the post.

    Cost: the blocks on the way that hold one of these, in vector code; others are skipped at once.
    """
    y = turn.high_y if turn.is_rising else turn.low_y
    born = turn.high_born if turn.is_rising else turn.born
    n_shown = 0
    block, offset = start // BLOCK if start >= 0 else -1, int(start % BLOCK)
    # Bits of the rows from the first one on.
    bits = (2 << offset) - 1 if step < 0 else -1 << offset
    while block >= 0:
        base = block * BLOCK
        bits &= (2 << (int(objects.block_count[block]) - 1)) - 1
        marked = mark_low(objects.y[base : base + BLOCK], y) & bits
        while marked != 0:
            bit = last_bit(marked) if step < 0 else first_bit(marked)
            marked ^= 1 << bit
            place = base + bit
            if is_below(objects, place, y, born):
                if is_below(objects, place, turn.low_y, turn.born):
                    return Walk(n_shown, objects.x[place])
                out_shown[n_shown] = place
                n_shown += 1
                y, born = objects.y[place], objects.born[place]
        block = next_block(objects, block, step, y)
        bits = -1
    return Walk(n_shown, np.nan)


@inlined
def is_left_lower(objects: Objects, shown: Shown, n_left: int, n_right: int) -> bool:
    """Whether the lowest row that shows is on the left; there is one."""
    if n_left == 0 or n_right == 0:
        return n_left > 0
    other = shown.right[n_right - 1]
    return is_below(objects, shown.left[n_left - 1], objects.y[other], objects.born[other])


@inlined
def write_note_at(
    out: Messages, at: int, event: int, row: int, x: float, y: float, born: int, is_gone: bool
) -> None:
    """Write what the tile at the same number carries: for k = 1 a note has one tile."""
    out.note[at] = at
    out.note_event[at] = event
    out.note_row[at] = row
    out.note_x[at] = x
    out.note_y[at] = y
    out.note_born[at] = born
    out.note_gone[at] = is_gone


@inlined
def write_tile_at(
    out: Messages, at: int, inner_lo: float, inner_hi: float, outer_lo: float, outer_hi: float
) -> None:
    """Write the tile of a number."""
    out.inner_lo[at] = inner_lo
    out.inner_hi[at] = inner_hi
    out.outer_lo[at] = outer_lo
    out.outer_hi[at] = outer_hi


@inlined
def tell_turn(objects: Objects, shown: Shown, turn: Turn, event: int, out: Messages, cursor: Longs) -> int:
    """Tell of a row, and if it gets worse, who replaces it where: DONE or FULL."""
    left = walk_side(objects, turn.left, -1, turn, shown.left)
    right = walk_side(objects, turn.right, 1, turn, shown.right)
    n_left, n_right, at = left.n_shown, right.n_shown, cursor[N_TILES]
    if at + n_left + n_right >= len(out.note):
        return FULL
    x, low, high = turn.x, left.x, right.x
    # NaN, for no post, is past all others. With a post at x itself, nobody has the row as the best one.
    if low >= x or x >= high:
        return DONE
    write_tile_at(out, at, x, x, low, high)
    write_note_at(out, at, event, turn.slot, x, turn.told_y, turn.born, turn.is_going)
    at += 1
    n_exposed = 0
    while n_left + n_right > 0 and not (low >= x or x >= high):
        is_left = is_left_lower(objects, shown, n_left, n_right)
        place = int(shown.left[n_left - 1] if is_left else shown.right[n_right - 1])
        n_left -= int(is_left)
        n_right -= int(not is_left)
        post = objects.x[place]
        # Written always, and counted if it is not empty, as behind a post of the same x.
        write_tile_at(out, at, post if is_left else x, x if is_left else post, low, high)
        write_note_at(out, at, event, objects.slot[place], post, objects.y[place], objects.born[place], False)
        at += int(not (low >= post if is_left else post >= high))
        low, high = (post, high) if is_left else (low, post)
        n_exposed += 1
    cursor[N_TILES] = cursor[N_NOTES] = at
    cursor[N_EXPOSED] += n_exposed
    return DONE


@lean_kernel
def tell_best(objects: Objects, shown: Shown, events: Events, out: Messages, cursor: Longs) -> int:
    """Tell of all events from the cursor's on, each applied before the next. DONE, FULL or NO_ROOM."""
    while cursor[EVENT] < len(events.slot):
        event = cursor[EVENT]
        if is_idle(objects, events, event):
            cursor[EVENT] = event + 1
            continue
        turn = next_turn(objects, events, event)
        if turn.place < 0 and not has_room(objects):
            return NO_ROOM
        if tell_turn(objects, shown, turn, event, out, cursor) == FULL:
            return FULL
        end_turn(objects, turn, cursor)
    return DONE
