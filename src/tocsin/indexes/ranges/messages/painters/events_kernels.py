"""Shared by all painting kernels: split an event into moves of one row, apply them, write messages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.arrays.jit import inlined
from tocsin.arrays.types import Longs
from tocsin.indexes.ranges.messages.messages import (
    EVENT,
    N_PAYLOADS,
    N_RECTANGLES,
    Messages,
    RowEvents,
)
from tocsin.indexes.ranges.structures.blocked_rows_kernels import (
    change_y,
    delete_row,
    find_last,
    first_place,
    insert_row,
    place_after,
    place_before,
)
from tocsin.indexes.ranges.structures.blocked_rows_layout import NEVER, BlockedColumns
from tocsin.indexes.ranges.structures.points_kernels import Rectangle, next_above, next_below


class RowMove(NamedTuple):
    """A change of one row's rank at one x: inserted, removed, better or worse.

    A row that changes x or insertion number takes two moves: it is removed, then inserted.
    """

    slot: int
    #: its place, -1 if absent
    place: int
    #: its neighbours, existing or future; -1 for none
    left: int
    right: int
    x: float
    #: the better of its two ranks
    low_y: float
    born: int
    #: the worse one, its new rank if it rises; above all rows if it is removed
    high_y: float
    high_born: int
    #: the y to send: its new one, or its last
    sent_y: float
    is_rising: bool
    is_going: bool
    #: whether another move of the event follows
    is_halfway: bool


@inlined
def is_idle(blocked: BlockedColumns, events: RowEvents, event: int) -> bool:
    """Whether an event changes no rank."""
    x, y, born = events.x[event], events.y[event], events.born[event]
    place = int(blocked.slot_place[events.slot[event]])
    is_coming = born >= 0 and x == x and y == y
    if place < 0:
        return not is_coming
    is_same = is_coming and blocked.x[place] == x and blocked.born[place] == born
    return bool(is_same and blocked.y[place] == y)


@inlined
def next_move(blocked: BlockedColumns, events: RowEvents, event: int) -> RowMove:
    """The next move of an event that is not idle. Constant; a logarithmic search for a new row."""
    slot, x, y, born = int(events.slot[event]), events.x[event], events.y[event], events.born[event]
    place = int(blocked.slot_place[slot])
    is_coming = born >= 0 and x == x and y == y
    is_going = place >= 0 and not (is_coming and blocked.x[place] == x and blocked.born[place] == born)
    old = y
    if place < 0:
        left = find_last(blocked, x, False)
        right = first_place(blocked) if left < 0 else place_after(blocked, left)
    else:
        left, right = place_before(blocked, place), place_after(blocked, place)
        x, old, born = blocked.x[place], blocked.y[place], blocked.born[place]
    is_rising = is_going or y > old
    return RowMove(
        slot,
        place,
        left,
        right,
        x,
        old if is_rising else y,
        born,
        np.inf if is_going else y,
        NEVER if is_going else born,
        old if is_going else y,
        is_rising,
        is_going,
        is_going and is_coming,
    )


@inlined
def end_move(blocked: BlockedColumns, move: RowMove, cursor: Longs) -> None:
    """Apply a move, for which there is capacity, and advance the cursor."""
    if move.is_going:
        delete_row(blocked, move.slot)
    elif move.place >= 0:
        change_y(blocked, move.place, move.sent_y)
    else:
        insert_row(blocked, move.slot, move.x, move.sent_y, move.born)
    cursor[EVENT] += 0 if move.is_halfway else 1


@inlined
def write_rectangle(
    out: Messages, cursor: Longs, inner_lo: float, inner_hi: float, outer_lo: float, outer_hi: float
) -> None:
    """Write a rectangle of the next payload."""
    at = cursor[N_RECTANGLES]
    out.inner_lo[at] = inner_lo
    out.inner_hi[at] = inner_hi
    out.outer_lo[at] = outer_lo
    out.outer_hi[at] = outer_hi
    out.payload[at] = cursor[N_PAYLOADS]
    cursor[N_RECTANGLES] = at + 1


@inlined
def write_box(out: Messages, cursor: Longs, box: Rectangle) -> None:
    """Write a rectangle of the next payload: exactly a box around points."""
    at = cursor[N_RECTANGLES]
    out.inner_lo[at] = box.lo_max
    out.inner_hi[at] = box.hi_min
    out.outer_lo[at] = next_below(box.lo_min)
    out.outer_hi[at] = next_above(box.hi_max)
    out.payload[at] = cursor[N_PAYLOADS]
    cursor[N_RECTANGLES] = at + 1


@inlined
def write_payload(
    out: Messages, cursor: Longs, event: int, row: int, x: float, y: float, born: int, is_gone: bool
) -> None:
    """Write the payload of the rectangles just written, if there are any."""
    at = cursor[N_PAYLOADS]
    rectangles = cursor[N_RECTANGLES]
    if rectangles == 0 or out.payload[rectangles - 1] != at:
        return
    out.payload_event[at] = event
    out.payload_row[at] = row
    out.payload_x[at] = x
    out.payload_y[at] = y
    out.payload_born[at] = born
    out.payload_gone[at] = is_gone
    cursor[N_PAYLOADS] = at + 1
