"""Range MIN and MAX: Paint with k = 1, where a message states the whole answer of a range."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.types import Floats
from tocsin.indexes.contract import ABSENT
from tocsin.indexes.ranges.messages.messages import RowEvents
from tocsin.indexes.ranges.messages.painters.batch import NetChanges, PaintBatch
from tocsin.indexes.ranges.messages.painters.dense import PaintDense
from tocsin.indexes.ranges.messages.painters.sparse import PaintSparse
from tocsin.indexes.ranges.structures.blocked_rows_layout import NEVER


class MinMaxDense(PaintDense):
    """Reformulates the events of one table for `SELECT MIN(y)` (or `MAX(y)`) over ranges of x.

    A message is the paper's NEW_MIN: its row is the new answer of every subscription in its rectangle, or, if
    the row is gone, that range is empty now. The rectangles of one event are disjoint, except for a row that
    moves in x, which is removed and inserted again.
    """

    _is_whole = True

    def __init__(self, *, descending: bool = False, capacity: int = 16) -> None:
        super().__init__(1, descending=descending, capacity=capacity)


class MinMaxSparse(PaintSparse):
    """`MinMaxDense` for known subscriptions: each message reaches at least one of them."""

    _is_whole = True

    def __init__(self, *, descending: bool = False, capacity: int = 16) -> None:
        super().__init__(1, descending=descending, capacity=capacity)


class MinMaxBatch(PaintBatch):
    """The net change of a batch for `SELECT MIN(y)` (or `MAX(y)`): one message per changed answer.

    As Paint-Batch with k = 1; but a message states the whole answer, so that a row that got worse goes only
    to ranges that still have it, and a removed one only to ranges that are empty now.
    """

    def __init__(self, *, descending: bool = False, capacity: int = 16) -> None:
        super().__init__(1, descending=descending, capacity=capacity)

    def _stale(self, worse: NetChanges) -> Floats:
        n_rows = len(worse.slot)
        # Every row ranks before this one: it would be held only where there is none.
        last = RowEvents(worse.slot, worse.old_x, np.full(n_rows, np.inf), np.full(n_rows, NEVER))
        nowhere = np.broadcast_to(worse.old_x[:, None, None], (n_rows, 2, 1))
        return np.where((worse.born == ABSENT)[:, None, None], self._outline(last), nowhere)
