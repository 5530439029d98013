"""What all that turn events into messages have in common: the rows, the buffer, and room for both."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from tocsin.indexes.contract import Arrays, Floats, Ints, Longs
from tocsin.indexes.ranges.messages import (
    CURSOR_SIZE,
    DONE,
    FULL,
    N_EXPOSED,
    N_NOTES,
    N_TILES,
    Events,
    Messages,
)
from tocsin.indexes.ranges.objects import ObjectIndex


class Reformulator(ABC):
    """Rows of one table, ranked by y in one direction; subclasses say what an event is turned into."""

    def __init__(self, *, descending: bool, capacity: int) -> None:
        self.index = ObjectIndex(capacity)
        #: Rows exposed so far: each took one search.
        self.n_exposed = 0
        self._sign = -1.0 if descending else 1.0
        self._room = Messages.empty(capacity)

    def load(self, slots: Ints, x: Floats, y: Floats, born: Longs) -> None:
        """Put rows without telling anyone: the table as subscribers know it. Cost: that of sorting them."""
        self.index.put(slots, x, y * self._sign, born)

    def apply(self, slots: Ints, x: Floats, y: Floats, born: Longs) -> Messages:
        """Put rows one after the other; a `born` of ABSENT, or NaN in x or y, removes. Tells of each in turn.

        The messages are views of a buffer that the next call writes to; `copy` what is to stay. Cost of an
        event: two searches for the nearest better rows, and for a row that gets worse, one more for each row
        that replaces it somewhere. None of it depends on the number of subscriptions.
        """
        return self._run(events_of(slots, x, y, born, self._sign))

    def arrays(self) -> Arrays:
        """The rows. Cost: linear."""
        return self.index.arrays()

    def restore(self, arrays: Arrays) -> None:
        """Become what `arrays` was taken from, built with the same arguments. Cost: linear."""
        self.index.restore(arrays)

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        self.index.check_invariants()

    def _run(self, events: Events) -> Messages:
        self.index.reserve(int(events.slot.max(initial=-1)) + 1)
        cursor = np.zeros(CURSOR_SIZE, np.int64)
        while (status := self._paint(events, cursor)) != DONE:
            if status == FULL:
                self._room = self._room.larger()
            else:
                self.index.grow()
        self.n_exposed += int(cursor[N_EXPOSED])
        messages = self._room.first(int(cursor[N_TILES]), int(cursor[N_NOTES]))
        if self._sign < 0:
            messages.note_y[:] = messages.note_y * self._sign + 0.0
        return messages

    @abstractmethod
    def _paint(self, events: Events, cursor: Longs) -> int:
        """Tell of the events from the cursor on while there is room: DONE, FULL, or the index is full."""


def events_of(slots: Ints, x: Floats, y: Floats, born: Longs, sign: float) -> Events:
    """Rows as kernels take them, ranked by ascending y; copies."""
    return Events(
        np.array(slots, np.int32),
        np.asarray(x, np.float64) + 0.0,
        np.asarray(y, np.float64) * sign + 0.0,
        np.array(born, np.int64),
    )
