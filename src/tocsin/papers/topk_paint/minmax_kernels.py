"""Range-min by Mar, Hull and EMar: what an event does to the least row of every range.

Notation: Mar of row i is the open interval between the nearest rows below i on either side: the ranges inside
it that hold i have i as their least row. When i rises, the rows that take its place somewhere are the Hull:
going up from i, each lowest row left in the interval, which then ends there. The interval when a row is
reached is its EMar. The rest, if any, keeps i.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.layout import Column
from tocsin.arrays.types import Floats, Ints, Longs, Ops
from tocsin.indexes.ranges.messages.messages import (
    EVENT,
    N_EXPOSED,
    N_PAYLOADS,
    N_RECTANGLES,
    Messages,
    RowEvents,
)
from tocsin.indexes.ranges.messages.painters.events_kernels import end_move, is_idle, next_move
from tocsin.indexes.ranges.structures.blocked_rows_kernels import (
    first_left,
    first_right,
    has_capacity,
    is_before,
    least_between,
    lower_of,
)
from tocsin.indexes.ranges.structures.blocked_rows_layout import STRIDE, BlockedColumns
from tocsin.kernels.status import DONE, FULL, SLOTS_FULL

#: Kinds of events: no range is affected; its own value suffices; other rows show. The last includes a removal
#: that leaves some range empty.
IGNORABLE = 0
GOOD = 1
BAD = 2


class Mar(NamedTuple):
    """The interval around one row. Scratch."""

    #: its ends, -1 for none
    place: Annotated[Ints, Column(2, fill=None)]
    #: their x, NaN for none
    x: Annotated[Floats, Column(2, fill=None)]
    near: Annotated[Ints, Column(1 + STRIDE, fill=None)]


@inlined
def set_mar(blocked: BlockedColumns, mar: Mar, left: int, right: int, y: float, born: int) -> None:
    """Find the Mar of a row with rank (y, born) between its neighbours."""
    k = len(mar.near) - STRIDE
    n = first_left(blocked, left, y, born, k, mar.near)
    mar.place[0] = int(mar.near[0]) if n else -1
    mar.x[0] = blocked.x[mar.near[0]] if n else np.nan
    n = first_right(blocked, right, y, born, k, mar.near)
    mar.place[1] = int(mar.near[0]) if n else -1
    mar.x[1] = blocked.x[mar.near[0]] if n else np.nan


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
    at = cursor[N_RECTANGLES]
    out.inner_lo[at] = inner_lo
    out.inner_hi[at] = inner_hi
    out.outer_lo[at] = mar_x[0]
    out.outer_hi[at] = mar_x[1]
    out.payload[at] = at
    out.payload_event[at] = event
    out.payload_row[at] = row
    out.payload_x[at] = x
    out.payload_y[at] = y
    out.payload_born[at] = born
    out.payload_gone[at] = is_gone
    cursor[N_RECTANGLES] = cursor[N_PAYLOADS] = at + 1


@inlined
def emit_hull(
    blocked: BlockedColumns,
    mar: Mar,
    event: int,
    place: int,
    y: float,
    born: int,
    out: Messages,
    cursor: Longs,
) -> int:
    """Write a message for each row that shows if the row at `place` rises to (y, born). DONE or FULL.

    The interval that remains is where the row stays the least. Cost: two searches, and one more for each
    row that shows.
    """
    x = blocked.x[place]
    left = right = -1
    # The side to search, 0 for the left; at first it is both.
    side, last_side = 0, 1
    while not (mar.x[0] >= x or x >= mar.x[1]):
        while side <= last_side:
            end = int(mar.place[side])
            low, high = (end, place) if side == 0 else (place, end)
            found = least_between(blocked, low, high)
            left, right = (found, right) if side == 0 else (left, found)
            side += 1
        lowest = lower_of(blocked.y, blocked.born, left, right)
        if lowest < 0 or not is_before(blocked.y[lowest], blocked.born[lowest], y, born):
            return DONE
        if cursor[N_RECTANGLES] == len(out.payload):
            return FULL
        cursor[N_EXPOSED] += 1
        other, slot, value = blocked.x[lowest], blocked.slot[lowest], blocked.y[lowest]
        low_x, high_x = min(x, other), max(x, other)
        write_message(
            out, cursor, event, slot, other, value, blocked.born[lowest], False, low_x, high_x, mar.x
        )
        side = last_side = 0 if lowest == left else 1
        mar.x[side] = other
        mar.place[side] = lowest
    return DONE


@lean_kernel
def emit_events(
    blocked: BlockedColumns, mar: Mar, events: RowEvents, out: Messages, out_kind: Ops, cursor: Longs
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
        n_rectangles, n_exposed = cursor[N_RECTANGLES], cursor[N_EXPOSED]
        if n_rectangles == len(out.payload):
            return FULL
        set_mar(blocked, mar, move.left, move.right, move.low_y, move.born)
        if move.is_rising:
            status = emit_hull(blocked, mar, event, move.place, move.high_y, move.high_born, out, cursor)
            if status == FULL or cursor[N_RECTANGLES] == len(out.payload):
                # Nothing is changed yet: the caller grows the output and this event is processed again.
                cursor[N_RECTANGLES] = cursor[N_PAYLOADS] = n_rectangles
                cursor[N_EXPOSED] = n_exposed
                return FULL
        is_bad = move.is_going or cursor[N_RECTANGLES] > n_rectangles
        x, y, is_going = move.x, move.sent_y, move.is_going
        write_message(out, cursor, event, move.slot, x, y, move.born, is_going, x, x, mar.x)
        if cursor[N_RECTANGLES] > n_rectangles:
            out_kind[event] = max(out_kind[event], BAD if is_bad else GOOD)
        end_move(blocked, move, cursor)
    return DONE
