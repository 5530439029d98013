"""Range MIN and MAX by Mar, Hull and EMar: one message to each range whose answer changes."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import ABSENT, Floats, Longs, Ops
from tocsin.indexes.ranges.batch import Net, PaintBatch
from tocsin.indexes.ranges.messages import Events, Messages
from tocsin.indexes.ranges.messages_apply import Reformulator
from tocsin.indexes.ranges.minmax_kernels import BAD, GOOD, IGNORABLE, Mar, tell_events
from tocsin.indexes.ranges.objects_columns import NEVER, STRIDE

__all__ = ["BAD", "GOOD", "IGNORABLE", "ExtremeBatch", "ExtremeMessages"]


class ExtremeMessages(Reformulator):
    """Reformulates the events of one table for `SELECT MIN(y)` (or `MAX(y)`) over ranges of x.

    A message is the paper's NEW_MIN: its row is the new answer of every subscription in its rectangle, or, if
    the row is gone, that range is empty now. The rectangles of one event are disjoint, apart from a row that
    moves in x, which goes and comes again.
    """

    def __init__(self, *, descending: bool = False, capacity: int = 16) -> None:
        super().__init__(descending=descending, capacity=capacity)
        #: int8: what each event of the last call was, IGNORABLE, GOOD or BAD.
        self.kinds: Ops = np.empty(0, np.int8)
        self._mar = Mar(np.empty(2, np.int32), np.empty(2), np.empty(1 + STRIDE, np.int32))

    def _run(self, events: Events) -> Messages:
        self.kinds = np.full(len(events.slot), IGNORABLE, np.int8)
        return super()._run(events)

    def _paint(self, events: Events, cursor: Longs) -> int:
        return tell_events(self.index.objects, self._mar, events, self._room, self.kinds, cursor)


class ExtremeBatch(PaintBatch):
    """The net change of a whole batch for `SELECT MIN(y)` (or `MAX(y)`): one message to whose answer changes.

    As Paint-Batch with k = 1; but a message says the whole answer, so that a row that got worse concerns only
    who has it still, and one that is gone only who has no row any more.
    """

    def __init__(self, *, descending: bool = False, capacity: int = 16) -> None:
        super().__init__(1, descending=descending, capacity=capacity)

    def _stale(self, worse: Net) -> Floats:
        n_rows = len(worse.slot)
        # Every row ranks before this one: where it would be held, there is none.
        last = Events(worse.slot, worse.old_x, np.full(n_rows, np.inf), np.full(n_rows, NEVER))
        nowhere = np.broadcast_to(worse.old_x[:, None, None], (n_rows, 2, 1))
        return np.where((worse.born == ABSENT)[:, None, None], self._outline(last), nowhere)
