"""Answers of many subscriptions, kept by the protocol: what is held gets its new value, the k best stay.

Rows rank by `y`, then by `born`; the class turns the sign of y where the greatest is the best.
"""

from __future__ import annotations

from typing import NamedTuple

from tocsin.indexes.contract import Bools, Floats, Ints, Longs
from tocsin.indexes.shared.jit import kernel


class Held(NamedTuple):
    """Entries by subscription, best first."""

    #: int32 (subscriptions,): entries of each
    size: Ints
    #: int32 (subscriptions, k): number of the row's key
    row: Ints
    #: float64 (subscriptions, k)
    y: Floats
    #: int64 (subscriptions, k)
    born: Longs


class Told(NamedTuple):
    """Messages in order, and who receives each."""

    #: int32: slots of subscriptions, message by message
    receiver: Ints
    #: int64 (messages,): where each message's receivers end
    end: Longs
    #: int32 (messages,)
    row: Ints
    #: float64 (messages,)
    y: Floats
    #: int64 (messages,)
    born: Longs
    #: bool (messages,)
    gone: Bools


class Rows(NamedTuple):
    """A snapshot's rows by x, and the best row of every stretch that is a power of two long."""

    #: float64 (rows,): ascending
    x: Floats
    #: int32 (rows,)
    row: Ints
    #: float64 (rows,)
    y: Floats
    #: int64 (rows,)
    born: Longs
    #: int32 (rows,): how many rows rank before it
    rank: Ints
    #: int32 (levels, rows): at level j, the best of the 2^j rows from here on
    best: Ints


@kernel
def drop_entry(held: Held, slot: int, row: int) -> None:
    """Forget a row, if it is held."""
    n_held = held.size[slot]
    place = 0
    while place < n_held and held.row[slot, place] != row:
        place += 1
    if place < n_held:
        for after in range(place + 1, n_held):
            held.row[slot, after - 1] = held.row[slot, after]
            held.y[slot, after - 1] = held.y[slot, after]
            held.born[slot, after - 1] = held.born[slot, after]
        held.size[slot] = n_held - 1


@kernel
def hold_entry(held: Held, slot: int, row: int, y: float, born: int) -> None:
    """Take a row that is not held into its place; the last goes if there are too many."""
    room = held.row.shape[1]
    place = held.size[slot]
    while place > 0 and (
        y < held.y[slot, place - 1] or (y == held.y[slot, place - 1] and born < held.born[slot, place - 1])
    ):
        place -= 1
    if place == room:
        return
    last = min(held.size[slot], room - 1)
    for after in range(last, place, -1):
        held.row[slot, after] = held.row[slot, after - 1]
        held.y[slot, after] = held.y[slot, after - 1]
        held.born[slot, after] = held.born[slot, after - 1]
    held.row[slot, place] = row
    held.y[slot, place] = y
    held.born[slot, place] = born
    held.size[slot] = last + 1


@kernel
def apply_told(held: Held, told: Told, is_whole: bool, out_changed: Bools) -> None:
    """Apply messages in order. `is_whole`: each says the whole answer, as those of MIN and MAX do."""
    begin = 0
    for message in range(len(told.end)):
        row = told.row[message]
        for place in range(begin, told.end[message]):
            slot = told.receiver[place]
            out_changed[slot] = True
            if is_whole:
                held.size[slot] = 0
            else:
                drop_entry(held, slot, row)
            if not told.gone[message]:
                hold_entry(held, slot, row, told.y[message], told.born[message])
        begin = told.end[message]


@kernel
def rank_stretches(rank: Ints, out_best: Ints) -> None:
    """Fill `best` of the rows, level by level."""
    n_rows = len(rank)
    for place in range(n_rows):
        out_best[0, place] = place
    for level in range(1, len(out_best)):
        half = 1 << (level - 1)
        for place in range(n_rows - 2 * half + 1):
            left = out_best[level - 1, place]
            right = out_best[level - 1, place + half]
            out_best[level, place] = left if rank[left] < rank[right] else right


@kernel
def find_best(rows: Rows, stretch: Ints, number: int) -> None:
    """Note the best row of a stretch, which has one, beside its bounds."""
    first = stretch[number, 0]
    end = stretch[number, 1]
    level = 0
    while 2 << level <= end - first:
        level += 1
    left = rows.best[level, first]
    right = rows.best[level, end - (1 << level)]
    stretch[number, 2] = left if rows.rank[left] < rows.rank[right] else right


@kernel
def start_lists(held: Held, rows: Rows, first: Ints, end: Ints, stretch: Ints) -> None:
    """Fill every list with the k best of its rows, `first` to before `end`.

    The best is found; what is left and right of it are two stretches, and the best of all stretches is next.
    `stretch` has place for k + 1 of (first, end, best).
    """
    room = held.row.shape[1]
    for slot in range(len(held.size)):
        n_held = 0
        n_stretches = 0
        if first[slot] < end[slot]:
            stretch[0, 0] = first[slot]
            stretch[0, 1] = end[slot]
            find_best(rows, stretch, n_stretches)
            n_stretches = 1
        while n_stretches and n_held < room:
            best = 0
            for number in range(1, n_stretches):
                if rows.rank[stretch[number, 2]] < rows.rank[stretch[best, 2]]:
                    best = number
            begin = stretch[best, 0]
            stop = stretch[best, 1]
            place = stretch[best, 2]
            held.row[slot, n_held] = rows.row[place]
            held.y[slot, n_held] = rows.y[place]
            held.born[slot, n_held] = rows.born[place]
            n_held += 1
            n_stretches -= 1
            stretch[best] = stretch[n_stretches]
            if begin < place:
                stretch[n_stretches, 0] = begin
                stretch[n_stretches, 1] = place
                find_best(rows, stretch, n_stretches)
                n_stretches += 1
            if place + 1 < stop:
                stretch[n_stretches, 0] = place + 1
                stretch[n_stretches, 1] = stop
                find_best(rows, stretch, n_stretches)
                n_stretches += 1
        held.size[slot] = n_held
