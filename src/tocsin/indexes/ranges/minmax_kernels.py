"""Range-min by Mar, Hull and EMar: what an event does to the least row of every range.

Notation: Mar of row i is the open interval between the nearest rows below i on either side: the ranges inside
it that hold i have i as their least row. When i rises, the rows that take its place somewhere are the Hull:
going up from i, each lowest row left in the interval, which then ends there. What the interval was when a
row's turn came is its EMar. The rest, if any, keeps i.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs, Ops
from tocsin.indexes.ranges.events_kernels import end_turn, is_idle, next_turn
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
from tocsin.indexes.ranges.objects_columns import STRIDE, Objects
from tocsin.indexes.ranges.objects_kernels import (
    first_left,
    first_right,
    has_room,
    is_before,
    least_between,
    lower_of,
)
from tocsin.indexes.shared.jit import inlined, lean_kernel

#: What an event is: it concerns no range; its own value says all; other rows show. The last includes the end
#: of a row that leaves some range empty.
IGNORABLE = 0
GOOD = 1
BAD = 2


class Mar(NamedTuple):
    """The interval around one row. Scratch."""

    #: int32 (2,): its ends, -1 for none
    place: Ints
    #: float64 (2,): their x, NaN for none
    x: Floats
    #: int32 (1 + STRIDE,)
    near: Ints


@inlined
def set_mar(objects: Objects, mar: Mar, left: int, right: int, y: float, born: int) -> None:
    """Find the Mar of a row with rank (y, born) between its neighbours."""
    k = len(mar.near) - STRIDE
    n = first_left(objects, left, y, born, k, mar.near)
    mar.place[0] = int(mar.near[0]) if n else -1
    mar.x[0] = objects.x[mar.near[0]] if n else np.nan
    n = first_right(objects, right, y, born, k, mar.near)
    mar.place[1] = int(mar.near[0]) if n else -1
    mar.x[1] = objects.x[mar.near[0]] if n else np.nan


@inlined
def write_message(
    out: Messages,
    cursor: Longs,
    event: int,
    row: int,
    x: float,
    y: float,
    born: int,
    is_gone: bool,
    inner_lo: float,
    inner_hi: float,
    mar_x: Floats,
) -> None:
    """Write a message to the ranges that hold the inner one and lie in the interval, if there are any."""
    if mar_x[0] >= inner_lo or inner_hi >= mar_x[1]:
        return
    at = cursor[N_TILES]
    out.inner_lo[at] = inner_lo
    out.inner_hi[at] = inner_hi
    out.outer_lo[at] = mar_x[0]
    out.outer_hi[at] = mar_x[1]
    out.note[at] = at
    out.note_event[at] = event
    out.note_row[at] = row
    out.note_x[at] = x
    out.note_y[at] = y
    out.note_born[at] = born
    out.note_gone[at] = is_gone
    cursor[N_TILES] = cursor[N_NOTES] = at + 1


@inlined
def tell_hull(
    objects: Objects, mar: Mar, event: int, place: int, y: float, born: int, out: Messages, cursor: Longs
) -> int:
    """Raise the row at `place` to (y, born) in thought: a message for each row that shows. DONE or FULL.

    The interval is left as what keeps the row. Cost: two searches, and one more for each row that shows.
    """
    x = objects.x[place]
    left = right = -1
    # The side to search, 0 for the left; at first it is both.
    side, last_side = 0, 1
    while not (mar.x[0] >= x or x >= mar.x[1]):
        while side <= last_side:
            end = int(mar.place[side])
            low, high = (end, place) if side == 0 else (place, end)
            found = least_between(objects, low, high)
            left, right = (found, right) if side == 0 else (left, found)
            side += 1
        lowest = lower_of(objects.y, objects.born, left, right)
        if lowest < 0 or not is_before(objects.y[lowest], objects.born[lowest], y, born):
            return DONE
        if cursor[N_TILES] == len(out.note):
            return FULL
        cursor[N_EXPOSED] += 1
        other, slot, value = objects.x[lowest], objects.slot[lowest], objects.y[lowest]
        low_x, high_x = min(x, other), max(x, other)
        write_message(
            out, cursor, event, slot, other, value, objects.born[lowest], False, low_x, high_x, mar.x
        )
        side = last_side = 0 if lowest == left else 1
        mar.x[side] = other
        mar.place[side] = lowest
    return DONE


@lean_kernel
def tell_events(
    objects: Objects, mar: Mar, events: Events, out: Messages, out_kind: Ops, cursor: Longs
) -> int:
    """Tell of all events from the cursor's on, each applied before the next. DONE, FULL or NO_ROOM."""
    while cursor[EVENT] < len(events.slot):
        event = cursor[EVENT]
        if is_idle(objects, events, event):
            cursor[EVENT] = event + 1
            continue
        turn = next_turn(objects, events, event)
        if turn.place < 0 and not has_room(objects):
            return NO_ROOM
        n_tiles, n_exposed = cursor[N_TILES], cursor[N_EXPOSED]
        if n_tiles == len(out.note):
            return FULL
        set_mar(objects, mar, turn.left, turn.right, turn.low_y, turn.born)
        if turn.is_rising:
            status = tell_hull(objects, mar, event, turn.place, turn.high_y, turn.high_born, out, cursor)
            if status == FULL or cursor[N_TILES] == len(out.note):
                # Nothing is changed yet: this round will be done again.
                cursor[N_TILES] = cursor[N_NOTES] = n_tiles
                cursor[N_EXPOSED] = n_exposed
                return FULL
        is_bad = turn.is_going or cursor[N_TILES] > n_tiles
        x, y, is_going = turn.x, turn.told_y, turn.is_going
        write_message(out, cursor, event, turn.slot, x, y, turn.born, is_going, x, x, mar.x)
        if cursor[N_TILES] > n_tiles:
            out_kind[event] = max(out_kind[event], BAD if is_bad else GOOD)
        end_turn(objects, turn, cursor)
    return DONE
