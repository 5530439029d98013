"""Messages as columns: which rows are told, and the rectangles of subscriptions that each is told to.

A *note* is one row's new value, or its end, caused by one event. A *tile* is a rectangle in subscription
space that the note goes to: to every subscription [l, r] with `outer_lo < l <= inner_lo` and
`inner_hi <= r < outer_hi`. An outer bound of NaN is none, and always holds. A message is a tile and its
note.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Bools, Floats, Ints, Longs
from tocsin.indexes.shared.columns import grown

#: What a kernel answers: it is through; it stopped in front of a message, or of a row, that does not fit.
DONE = 0
FULL = 1
NO_ROOM = 2


#: Positions in a kernel's cursor: the event to go on with, tiles and notes written, rows exposed so far.
EVENT = 0
N_TILES = 1
N_NOTES = 2
N_EXPOSED = 3
CURSOR_SIZE = 4


class Events(NamedTuple):
    """Rows put, one after the other."""

    #: int32 (events,)
    slot: Ints
    #: float64 (events,): NaN for a row that is in no range
    x: Floats
    #: float64 (events,): lower is better; NaN for a row without rank
    y: Floats
    #: int64 (events,): negative for a row that goes
    born: Longs


#: Of the columns of `Messages`.
_DTYPES = [np.float64] * 4 + [np.int32] * 3 + [np.float64] * 2 + [np.int64, np.bool_]


class Messages(NamedTuple):
    """Tiles in the order in which a subscriber must apply them, and the notes that they carry."""

    #: float64 (tiles,): the longest lower bound that is told
    inner_lo: Floats
    #: float64 (tiles,)
    inner_hi: Floats
    #: float64 (tiles,): the first lower bound that is not told any more; NaN for none
    outer_lo: Floats
    #: float64 (tiles,)
    outer_hi: Floats
    #: int32 (tiles,): its note, ascending
    note: Ints
    #: int32 (notes,): position of the event in its batch
    note_event: Ints
    #: int32 (notes,): slot of the row
    note_row: Ints
    #: float64 (notes,)
    note_x: Floats
    #: float64 (notes,): the row's value; what it was, if it is gone
    note_y: Floats
    #: int64 (notes,): the row's insertion number
    note_born: Longs
    #: bool (notes,): the row is not there any more
    note_gone: Bools

    @classmethod
    def empty(cls, capacity: int = 0) -> Messages:
        """Columns with room for so many tiles and notes, not yet written."""
        return Messages._make(np.empty(capacity, dtype) for dtype in _DTYPES)

    def larger(self) -> Messages:
        """Twice the room, with what was written. Cost: linear, amortised constant a message."""
        return Messages._make(grown(column, len(column) + 1) for column in self)

    def first(self, tiles: int, notes: int) -> Messages:
        """What a kernel has written: views."""
        written = [column[:tiles] for column in self[:5]], [column[:notes] for column in self[5:]]
        return Messages._make([*written[0], *written[1]])

    def copy(self) -> Messages:
        """The same, in arrays of its own. Cost: linear."""
        return Messages._make(column.copy() for column in self)

    @property
    def event(self) -> Ints:
        """int32 (tiles,): position of each message's event in its batch."""
        return self.note_event[self.note]

    @property
    def number(self) -> Ints:
        """int32 (tiles,): how many messages of the same event come before each."""
        events = self.event
        begins = np.flatnonzero(np.diff(events, prepend=-1))
        sizes = np.diff(begins, append=len(events))
        return (np.arange(len(events)) - np.repeat(begins, sizes)).astype(np.int32)

    def reaches(self, lo: float, hi: float) -> Bools:
        """Which messages are for the subscription [lo, hi]. Cost: linear."""
        # Turned around, so that NaN is no bound.
        outside = (self.outer_lo >= lo) | (self.outer_hi <= hi)
        return ~outside & (lo <= self.inner_lo) & (self.inner_hi <= hi)

    def columns(self) -> dict[str, np.ndarray]:
        """One row a message: `event, n`, the bounds, `row, x, y, born, gone`. Cost: linear."""
        bounds = dict(zip(self._fields[:4], self[:4], strict=True))
        told = {name.removeprefix("note_"): column[self.note] for name, column in self._asdict().items()
                if name.startswith("note_")}  # fmt: skip
        return {"event": told.pop("event"), "n": self.number, **bounds, **told}
