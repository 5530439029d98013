"""Messages in columnar form, and the base class of what turns row events into messages.

A *payload* is one row's new value, or its removal, caused by one event. It is sent to a *rectangle* of
subscription space: every subscription [l, r] with `outer_lo < l <= inner_lo` and
`inner_hi <= r < outer_hi`. An outer bound of NaN is unbounded. A message is a rectangle with its payload.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.layout import Column, check_layout, empty, grow
from tocsin.arrays.types import Arrays, Bools, Floats, Ints, Longs
from tocsin.indexes.ranges.structures.blocked_rows import BlockedRows
from tocsin.indexes.ranges.structures.points import Points
from tocsin.kernels.status import DONE, FULL

#: Positions in a kernel's cursor: the next event, rectangles and payloads written, rows exposed so far.
EVENT = 0
N_RECTANGLES = 1
N_PAYLOADS = 2
N_EXPOSED = 3
CURSOR_SIZE = 4


class RowEvents(NamedTuple):
    """Row events, in the order in which they are applied."""

    #: int32 (events,)
    slot: Ints
    #: float64 (events,): NaN for a row in no range
    x: Floats
    #: float64 (events,): lower is better; NaN for a row without rank
    y: Floats
    #: int64 (events,): insertion number, negative for a removal
    born: Longs


class Messages(NamedTuple):
    """Rectangles in the order in which a subscriber must apply them, and the payloads that they carry."""

    #: the largest lower bound addressed, and the least upper one
    inner_lo: Annotated[Floats, Column("rectangles", fill=None)]
    inner_hi: Annotated[Floats, Column("rectangles", fill=None)]
    #: exclusive limits of the bounds addressed; NaN for none
    outer_lo: Annotated[Floats, Column("rectangles", fill=None)]
    outer_hi: Annotated[Floats, Column("rectangles", fill=None)]
    #: the rectangle's payload, ascending
    payload: Annotated[Ints, Column("rectangles", fill=None)]
    #: position of the event in its batch
    payload_event: Annotated[Ints, Column("payloads", fill=None)]
    #: slot of the row
    payload_row: Annotated[Ints, Column("payloads", fill=None)]
    payload_x: Annotated[Floats, Column("payloads", fill=None)]
    #: the row's value; the last one, if it was removed
    payload_y: Annotated[Floats, Column("payloads", fill=None)]
    #: the row's insertion number
    payload_born: Annotated[Longs, Column("payloads", fill=None)]
    #: whether the row was removed
    payload_gone: Annotated[Bools, Column("payloads", fill=None)]

    @classmethod
    def empty(cls, capacity: int = 0) -> Messages:
        """Columns for `capacity` rectangles and payloads, not yet written."""
        return empty(Messages, rectangles=capacity, payloads=capacity)

    def doubled(self) -> Messages:
        """Twice the capacity, with the same contents. Cost: linear, amortised constant per message."""
        return grow(self, rectangles=len(self.payload) + 1, payloads=len(self.payload_row) + 1)

    def first(self, rectangles: int, payloads: int) -> Messages:
        """The part that a kernel has written: views."""
        written = [column[:rectangles] for column in self[:5]], [column[:payloads] for column in self[5:]]
        return Messages._make([*written[0], *written[1]])

    def copy(self) -> Messages:
        """A deep copy. Cost: linear."""
        return Messages._make(column.copy() for column in self)

    @property
    def event(self) -> Ints:
        """int32 (rectangles,): position of each message's event in its batch."""
        return self.payload_event[self.payload]

    @property
    def number(self) -> Ints:
        """int32 (rectangles,): how many messages of the same event precede each."""
        events = self.event
        begins = np.flatnonzero(np.diff(events, prepend=-1))
        sizes = np.diff(begins, append=len(events))
        return (np.arange(len(events)) - np.repeat(begins, sizes)).astype(np.int32)

    def reaches(self, lo: float, hi: float) -> Bools:
        """Which messages are for the subscription [lo, hi]. Cost: linear."""
        # Negated, so that a bound of NaN never excludes.
        outside = (self.outer_lo >= lo) | (self.outer_hi <= hi)
        return ~outside & (lo <= self.inner_lo) & (self.inner_hi <= hi)

    def columns(self) -> dict[str, np.ndarray]:
        """One row per message: `event, n`, the bounds, `row, x, y, born, gone`. Cost: linear."""
        bounds = dict(zip(self._fields[:4], self[:4], strict=True))
        prefix = "payload_"
        carried = {
            name.removeprefix(prefix): column[self.payload]
            for name, column in self._asdict().items()
            if name.startswith(prefix)
        }
        return {"event": carried.pop("event"), "n": self.number, **bounds, **carried}


class Reformulator(ABC):
    """Rows of one table, ranked by y in one direction; subclasses turn events into messages."""

    #: whether each message reaches at least one of the known subscriptions
    is_fitted = False

    def __init__(self, *, descending: bool, capacity: int) -> None:
        self.index = BlockedRows(capacity)
        #: Rows exposed so far: each took one search.
        self.n_exposed = 0
        self._sign = -1.0 if descending else 1.0
        self._buffer = Messages.empty(capacity)

    def share(self, rows: BlockedRows, points: Points) -> None:
        """Work on rows, and with subscriptions if it knows them, that are maintained elsewhere."""
        self.index = rows

    def load(self, slots: Ints, x: Floats, y: Floats, born: Longs) -> None:
        """Load rows without emitting messages: the table that subscribers start from. Cost: sorting them."""
        self.index.put(slots, x, y * self._sign, born)

    def apply(self, slots: Ints, x: Floats, y: Floats, born: Longs) -> Messages:
        """Apply rows in order and emit messages of each; a `born` of ABSENT, or NaN in x or y, removes.

        The messages are views of a buffer that the next call overwrites; `copy` what must last. Cost of an
        event: two searches for the nearest better rows, and for a row that gets worse, one more for each row
        that replaces it somewhere. None of it depends on the number of subscriptions.
        """
        return self._run(events_of(slots, x, y, born, self._sign))

    def arrays(self) -> Arrays:
        """The rows. Cost: linear."""
        return self.index.arrays()

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that `arrays` returned, built with the same arguments. Cost: linear."""
        self.index.restore(arrays)

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        self.index.check_invariants()
        check_layout(self._buffer)

    def _run(self, events: RowEvents) -> Messages:
        self.index.reserve(int(events.slot.max(initial=-1)) + 1)
        cursor = np.zeros(CURSOR_SIZE, np.int64)
        while (status := self._paint(events, cursor)) != DONE:
            if status == FULL:
                self._buffer = self._buffer.doubled()
            else:
                self.index.grow()
        self.n_exposed += int(cursor[N_EXPOSED])
        messages = self._buffer.first(int(cursor[N_RECTANGLES]), int(cursor[N_PAYLOADS]))
        if self._sign < 0:
            messages.payload_y[:] = messages.payload_y * self._sign + 0.0
        return messages

    @abstractmethod
    def _paint(self, events: RowEvents, cursor: Longs) -> int:
        """Process events from the cursor on: DONE, FULL, or SLOTS_FULL if the index must grow."""


def events_of(slots: Ints, x: Floats, y: Floats, born: Longs, sign: float) -> RowEvents:
    """Rows in the form kernels take, ranked by ascending y; copies."""
    return RowEvents(
        np.array(slots, np.int32),
        np.asarray(x, np.float64) + 0.0,
        np.asarray(y, np.float64) * sign + 0.0,
        np.array(born, np.int64),
    )
