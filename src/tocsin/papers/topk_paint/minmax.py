"""Range MIN and MAX by Mar, Hull and EMar: one message to each range whose answer changes."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.layout import empty
from tocsin.arrays.types import Longs, Ops
from tocsin.indexes.ranges.messages.messages import Messages, Reformulator, RowEvents
from tocsin.papers.topk_paint.minmax_kernels import BAD, GOOD, IGNORABLE, Mar, emit_events

__all__ = ["BAD", "GOOD", "IGNORABLE", "MarHull"]


class MarHull(Reformulator):
    """Reformulates the events of one table for `SELECT MIN(y)` (or `MAX(y)`) over ranges of x.

    The engine's `MinMaxDense` sends the same messages, found in one walk: 1.5 to 2.2 times as fast.
    """

    def __init__(self, *, descending: bool = False, capacity: int = 16) -> None:
        super().__init__(descending=descending, capacity=capacity)
        #: int8: what each event of the last call was, IGNORABLE, GOOD or BAD.
        self.kinds: Ops = np.empty(0, np.int8)
        self._mar = empty(Mar)

    def _run(self, events: RowEvents) -> Messages:
        self.kinds = np.full(len(events.slot), IGNORABLE, np.int8)
        return super()._run(events)

    def _paint(self, events: RowEvents, cursor: Longs) -> int:
        return emit_events(self.index.columns, self._mar, events, self._buffer, self.kinds, cursor)
