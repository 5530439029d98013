"""What all reformulating kernels do with an event: read it as a turn of one row, and apply it at the end.

These call the leaf file of the objects.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Longs
from tocsin.indexes.ranges.messages import EVENT, N_NOTES, N_TILES, Events, Messages
from tocsin.indexes.ranges.objects_columns import NEVER, Objects
from tocsin.indexes.ranges.objects_kernels import (
    change_y,
    delete_row,
    find_last,
    first_place,
    insert_row,
    place_after,
    place_before,
)
from tocsin.indexes.shared.jit import inlined


class Turn(NamedTuple):
    """One row that comes, goes, gets better or gets worse, at one x.

    A row that moves in x, or gets another insertion number, takes two turns: it goes, and is not there any
    more when it comes.
    """

    slot: int
    #: its place, -1 if it is not there
    place: int
    #: its neighbours, or what they would be; -1 for none
    left: int
    right: int
    x: float
    #: the better of its two ranks
    low_y: float
    born: int
    #: the worse one, which it goes to if it is rising; above all rows if it goes
    high_y: float
    high_born: int
    #: what is told of it: its new y, or its last
    told_y: float
    is_rising: bool
    is_going: bool
    #: whether another turn of the event follows
    is_halfway: bool


@inlined
def is_idle(objects: Objects, events: Events, event: int) -> bool:
    """Whether an event changes nothing that is ranked."""
    x, y, born = events.x[event], events.y[event], events.born[event]
    place = int(objects.slot_place[events.slot[event]])
    is_coming = born >= 0 and x == x and y == y
    if place < 0:
        return not is_coming
    is_same = is_coming and objects.x[place] == x and objects.born[place] == born
    return bool(is_same and objects.y[place] == y)


@inlined
def next_turn(objects: Objects, events: Events, event: int) -> Turn:
    """What an event comes to next; it is not idle. Cost: constant, or a logarithmic search for a new row."""
    slot, x, y, born = int(events.slot[event]), events.x[event], events.y[event], events.born[event]
    place = int(objects.slot_place[slot])
    is_coming = born >= 0 and x == x and y == y
    is_going = place >= 0 and not (is_coming and objects.x[place] == x and objects.born[place] == born)
    old = y
    if place < 0:
        left = find_last(objects, x, False)
        right = first_place(objects) if left < 0 else place_after(objects, left)
    else:
        left, right = place_before(objects, place), place_after(objects, place)
        x, old, born = objects.x[place], objects.y[place], objects.born[place]
    is_rising = is_going or y > old
    return Turn(
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
def end_turn(objects: Objects, turn: Turn, cursor: Longs) -> None:
    """Let the row be what it is after a turn; there is room. The cursor goes on to the next turn."""
    if turn.is_going:
        delete_row(objects, turn.slot)
    elif turn.place >= 0:
        change_y(objects, turn.place, turn.told_y)
    else:
        insert_row(objects, turn.slot, turn.x, turn.told_y, turn.born)
    cursor[EVENT] += 0 if turn.is_halfway else 1


@inlined
def write_tile(
    out: Messages, cursor: Longs, inner_lo: float, inner_hi: float, outer_lo: float, outer_hi: float
) -> None:
    """Write a tile of the note that comes next."""
    at = cursor[N_TILES]
    out.inner_lo[at] = inner_lo
    out.inner_hi[at] = inner_hi
    out.outer_lo[at] = outer_lo
    out.outer_hi[at] = outer_hi
    out.note[at] = cursor[N_NOTES]
    cursor[N_TILES] = at + 1


@inlined
def write_note(
    out: Messages, cursor: Longs, event: int, row: int, x: float, y: float, born: int, is_gone: bool
) -> None:
    """Write the note of the tiles just written, if there are any."""
    at = cursor[N_NOTES]
    tiles = cursor[N_TILES]
    if tiles == 0 or out.note[tiles - 1] != at:
        return
    out.note_event[at] = event
    out.note_row[at] = row
    out.note_x[at] = x
    out.note_y[at] = y
    out.note_born[at] = born
    out.note_gone[at] = is_gone
    cursor[N_NOTES] = at + 1
