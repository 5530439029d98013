"""Unicast, the baseline that notifies subscribers one by one, as in the paper."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.layout import empty, grow
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.ranges.messages.messages import CURSOR_SIZE, N_EXPOSED, N_RECTANGLES, events_of
from tocsin.indexes.ranges.structures.blocked_rows import BlockedRows
from tocsin.indexes.ranges.structures.blocked_rows_layout import BlockedColumns
from tocsin.indexes.ranges.structures.points import Points
from tocsin.kernels.status import DONE, FULL
from tocsin.papers.topk_paint.rows_above_kernels import Lens
from tocsin.papers.topk_paint.unicast_kernels import (
    UnicastMessages,
    UnicastScratch,
    unicast_events,
)


class Unicast:
    """One message to each subscription that an event affects, for `ORDER BY y LIMIT k` over ranges of x.

    It knows all subscriptions, as points. `literal` makes it search once
    for each subscription in the rectangle around the affected ones, whatever the event, as the paper counts
    it; that finds the right replacement only for k = 1, and is for measuring.
    """

    def __init__(self, k: int, lo: Floats, hi: Floats, *, literal: bool = False, capacity: int = 16) -> None:
        self.k = k
        self.index = BlockedRows(capacity)
        #: Searches for replacements so far.
        self.n_searches = 0
        self._is_literal = literal
        self.points = Points()
        self.points.insert(np.arange(len(lo), dtype=np.int32), lo, hi)
        self._buffer = empty(UnicastMessages, messages=capacity)
        found = len(lo) + int(self.points.grid.bucket_size.max())
        self._scratch = empty(UnicastScratch, k=k, found=found, subscriptions=len(lo))

    def load(self, slots: Ints, x: Floats, y: Floats, born: Longs) -> None:
        """Load rows without sending messages. Cost: sorting them."""
        self.index.put(slots, x, y, born)

    def apply(self, slots: Ints, x: Floats, y: Floats, born: Longs) -> UnicastMessages:
        """Apply rows in order and write messages; a row that moves in x must be two events.

        The messages are views of a buffer that the next call overwrites. Cost of an event: every subscription
        in the rectangle around the affected ones, and some searches for each in which a row gets
        worse; before the first of these, the rows that any of them may read.
        """
        events = events_of(slots, x, y, born, 1.0)
        self.index.reserve(int(events.slot.max(initial=-1)) + 1)
        cursor = np.zeros(CURSOR_SIZE, np.int64)
        while (
            status := unicast_events(
                self.index.columns,
                new_lens(self.index.columns),
                self.points.grid,
                self._scratch,
                events,
                self.k,
                self._is_literal,
                self._buffer,
                cursor,
            )
        ) != DONE:
            if status == FULL:
                self._buffer = grow(self._buffer, messages=len(self._buffer.event) + 1)
            else:
                self.index.grow()
        self.n_searches += int(cursor[N_EXPOSED])
        return UnicastMessages._make(column[: cursor[N_RECTANGLES]] for column in self._buffer)


def new_lens(blocked: BlockedColumns) -> Lens:
    """Scratch for searches above a row, not yet set; valid until the index grows."""
    n_blocks = len(blocked.block_count)
    return empty(Lens, blocks=n_blocks, levels=n_blocks.bit_length())
