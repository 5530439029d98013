"""Maintains the k best rows of many subscriptions: an updated row is removed and inserted again.

Rows rank by `y`, then by `born`; the class negates y where the greatest is the best.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from tocsin.arrays.jit import kernel
from tocsin.arrays.layout import Column
from tocsin.arrays.types import Bools, Floats, Ints, Longs


class AnswerEntries(NamedTuple):
    """Entries by subscription, best first."""

    #: entries of each
    size: Annotated[Ints, Column("subscriptions")]
    #: number of the row's key
    row: Annotated[Ints, Column("subscriptions", "k", fill=None)]
    y: Annotated[Floats, Column("subscriptions", "k", fill=None)]
    born: Annotated[Longs, Column("subscriptions", "k", fill=None)]


class EdgeUpdates(NamedTuple):
    """Messages in order, and the receivers of each."""

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


class SnapshotRows(NamedTuple):
    """A snapshot's rows by x, with a sparse table for the best row of a span."""

    #: float64 (rows,): ascending
    x: Floats
    #: int32 (rows,)
    row: Ints
    #: float64 (rows,)
    y: Floats
    #: int64 (rows,)
    born: Longs
    #: int32 (rows,): number of rows that rank before it
    rank: Ints
    #: int32 (levels, rows): at level j, the best of the 2^j rows that begin here
    best: Ints


@kernel
def remove_entry(entries: AnswerEntries, slot: int, row: int) -> None:
    """Remove a row, if it is an entry."""
    n_entries = entries.size[slot]
    place = 0
    while place < n_entries and entries.row[slot, place] != row:
        place += 1
    if place < n_entries:
        for after in range(place + 1, n_entries):
            entries.row[slot, after - 1] = entries.row[slot, after]
            entries.y[slot, after - 1] = entries.y[slot, after]
            entries.born[slot, after - 1] = entries.born[slot, after]
        entries.size[slot] = n_entries - 1


@kernel
def insert_entry(entries: AnswerEntries, slot: int, row: int, y: float, born: int) -> None:
    """Insert a row that is not an entry at its rank; past capacity the last entry is dropped."""
    capacity = entries.row.shape[1]
    place = entries.size[slot]
    while place > 0 and (
        y < entries.y[slot, place - 1]
        or (y == entries.y[slot, place - 1] and born < entries.born[slot, place - 1])
    ):
        place -= 1
    if place == capacity:
        return
    last = min(entries.size[slot], capacity - 1)
    for after in range(last, place, -1):
        entries.row[slot, after] = entries.row[slot, after - 1]
        entries.y[slot, after] = entries.y[slot, after - 1]
        entries.born[slot, after] = entries.born[slot, after - 1]
    entries.row[slot, place] = row
    entries.y[slot, place] = y
    entries.born[slot, place] = born
    entries.size[slot] = last + 1


@kernel
def apply_updates(entries: AnswerEntries, updates: EdgeUpdates, is_whole: bool, out_changed: Bools) -> None:
    """Apply messages in order. `is_whole`: each is the whole answer, as those of MIN and MAX are."""
    begin = 0
    for message in range(len(updates.end)):
        row = updates.row[message]
        for place in range(begin, updates.end[message]):
            slot = updates.receiver[place]
            out_changed[slot] = True
            if is_whole:
                entries.size[slot] = 0
            else:
                remove_entry(entries, slot, row)
            if not updates.gone[message]:
                insert_entry(entries, slot, row, updates.y[message], updates.born[message])
        begin = updates.end[message]


@kernel
def build_sparse_table(rank: Ints, out_best: Ints) -> None:
    """Fill `best` of the rows level by level."""
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
def find_best(rows: SnapshotRows, span: Ints, number: int) -> None:
    """Write the best row of a non-empty span beside its bounds."""
    first = span[number, 0]
    end = span[number, 1]
    level = 0
    while 2 << level <= end - first:
        level += 1
    left = rows.best[level, first]
    right = rows.best[level, end - (1 << level)]
    span[number, 2] = left if rows.rank[left] < rows.rank[right] else right


@kernel
def fill_answers(entries: AnswerEntries, rows: SnapshotRows, first: Ints, end: Ints, span: Ints) -> None:
    """Fill every answer with the k best of its rows, `first` to before `end`.

    The best row of a span splits it into two, and the next entry is the best over all spans. `span` has
    capacity for k + 1 of (first, end, best).
    """
    capacity = entries.row.shape[1]
    for slot in range(len(entries.size)):
        n_entries = 0
        n_spans = 0
        if first[slot] < end[slot]:
            span[0, 0] = first[slot]
            span[0, 1] = end[slot]
            find_best(rows, span, n_spans)
            n_spans = 1
        while n_spans and n_entries < capacity:
            best = 0
            for number in range(1, n_spans):
                if rows.rank[span[number, 2]] < rows.rank[span[best, 2]]:
                    best = number
            begin = span[best, 0]
            stop = span[best, 1]
            place = span[best, 2]
            entries.row[slot, n_entries] = rows.row[place]
            entries.y[slot, n_entries] = rows.y[place]
            entries.born[slot, n_entries] = rows.born[place]
            n_entries += 1
            n_spans -= 1
            span[best] = span[n_spans]
            if begin < place:
                span[n_spans, 0] = begin
                span[n_spans, 1] = place
                find_best(rows, span, n_spans)
                n_spans += 1
            if place + 1 < stop:
                span[n_spans, 0] = place + 1
                span[n_spans, 1] = stop
                find_best(rows, span, n_spans)
                n_spans += 1
        entries.size[slot] = n_entries
