"""Range top-k by Paint-Batch: the net change of a whole batch, in the fewest messages per subscriber.

Only the state of each row before and after the batch matters. Rows that got worse or were removed are sent
first, the worst first; then unchanged rows that enter an answer; then rows that were inserted or improved. In
this order the protocol never drops a row that belongs to the answer: an answer only improves from then on.

A row that got worse goes to the subscriptions that have it among their k best now, and to those that held it
and would keep its stale value, having fewer than k better rows now. An unchanged row goes to those that have
it now and did not before; an inserted or improved one to those that have it now. Nothing else is sent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.arrays.types import Bools, Floats, Ints, Longs
from tocsin.indexes.contract import ABSENT
from tocsin.indexes.ranges.messages.messages import CURSOR_SIZE, N_PAYLOADS, N_RECTANGLES, Messages, RowEvents
from tocsin.indexes.ranges.messages.painters.batch_kernels import (
    BETTER,
    GONE,
    SHOWN,
    WORSE,
    EmittedRows,
    outline_rows,
    paint_rows,
)
from tocsin.indexes.ranges.messages.painters.dense import PaintDense
from tocsin.indexes.ranges.structures.blocked_rows_layout import STRIDE
from tocsin.kernels.status import FULL


class NetChanges(NamedTuple):
    """Each row touched by a batch, once: its state before and after. An absent row has born ABSENT."""

    slot: Ints
    old_x: Floats
    old_y: Floats
    old_born: Longs
    x: Floats
    y: Floats
    born: Longs

    def chosen(self, which: Bools) -> NetChanges:
        return NetChanges._make(column[which] for column in self)

    @property
    def is_moved(self) -> Bools:
        """Whether x or the insertion number differs: then the old row is removed and a new one inserted."""
        return np.asarray((self.old_x != self.x) | (self.old_born != self.born))

    def old(self) -> RowEvents:
        return RowEvents(self.slot, self.old_x, self.old_y, self.old_born)

    def new(self) -> RowEvents:
        return RowEvents(self.slot, self.x, self.y, self.born)


class PaintBatch(PaintDense):
    """Reformulates batches for `ORDER BY y [DESC] LIMIT k` over ranges of x; `apply` takes one batch.

    Messages of a batch have one event, number 0. Cost: Paint-Dense for the rows that get worse, and a few
    searches for every row sent.
    """

    def __init__(self, k: int, *, descending: bool = False, capacity: int = 16) -> None:
        super().__init__(k, descending=descending, capacity=capacity)
        self._near = np.empty(k + STRIDE, np.int32)

    def _run(self, events: RowEvents) -> Messages:
        net = self._net(events)
        was_there, is_there = net.old_born != ABSENT, net.born != ABSENT
        worse = net.chosen(was_there & (net.is_moved | (net.y > net.old_y)))
        better = net.chosen(is_there & (net.is_moved | (net.y < net.old_y)))
        worse = _worst_first(worse._replace(born=np.where(worse.is_moved, ABSENT, worse.born)))
        worse_before = self._outline(worse.old())
        shown = self._shown(worse, net)
        self._put(better.new())
        # The batch is now applied.
        worse_after, worse_stale = self._outline(worse.new()), self._stale(worse)
        shown_after, better_after = self._outline(shown), self._outline(better.new())
        self._put(net.old())
        shown_before = self._outline(shown)
        self._put(net.new())
        is_gone = worse.born == ABSENT
        # A removed row is sent with its last state.
        ending = RowEvents(
            worse.slot,
            np.where(is_gone, worse.old_x, worse.x),
            np.where(is_gone, worse.old_y, worse.y),
            np.where(is_gone, worse.old_born, worse.born),
        )
        return self._emitted(
            [
                (np.where(is_gone, GONE, WORSE), ending, worse_after, worse_before, worse_stale),
                (np.full(len(shown.x), SHOWN), shown, shown_after, shown_before, shown_after),
                (np.full(len(better.x), BETTER), better.new(), better_after, better_after, better_after),
            ]
        )

    def _net(self, events: RowEvents) -> NetChanges:
        """The state of each row before and after, without those that stay the same."""
        last = last_events(events)
        self.index.reserve(int(last.slot.max(initial=-1)) + 1)
        blocked = self.index.columns
        place = blocked.slot_place[last.slot]
        was_there = place >= 0
        is_there = (last.born >= 0) & ~np.isnan(last.x) & ~np.isnan(last.y)
        net = NetChanges(
            last.slot,
            np.where(was_there, blocked.x[place], np.nan),
            np.where(was_there, blocked.y[place], np.nan),
            np.where(was_there, blocked.born[place], ABSENT),
            np.where(is_there, last.x, np.nan),
            np.where(is_there, last.y, np.nan),
            np.where(is_there, last.born, ABSENT),
        )
        is_same = (net.old_x == net.x) & (net.old_y == net.y) & (net.old_born == net.born)
        return net.chosen(~is_same & (was_there | is_there))

    def _shown(self, worse: NetChanges, net: NetChanges) -> RowEvents:
        """Apply what gets worse; returns the rows outside the batch that enter some answer by it."""
        found = np.unique(super()._run(worse.new()).payload_row)
        slots = np.setdiff1d(found, net.slot).astype(np.int32)
        blocked = self.index.columns
        place = blocked.slot_place[slots]
        return RowEvents(slots, blocked.x[place], blocked.y[place], blocked.born[place])

    def _stale(self, worse: NetChanges) -> Floats:
        """Outlines of where a stale value would still be held if no message were sent."""
        return self._outline(worse.old())

    def _put(self, events: RowEvents) -> None:
        self.index.put(events.slot, events.x, events.y, events.born)

    def _outline(self, events: RowEvents) -> Floats:
        outline = np.empty((len(events.x), 2, self.k))
        outline_rows(self.index.columns, events.x, events.y, events.born, self.k, self._near, outline)
        return outline

    def _emitted(self, parts: list[tuple[np.ndarray, RowEvents, Floats, Floats, Floats]]) -> Messages:
        """Write the messages; a part is the reasons, the rows, and their outlines after, before and stale."""
        why, events, after, before, stale = zip(*parts, strict=True)
        rows = RowEvents._make(np.concatenate(columns) for columns in zip(*events, strict=True))
        emitted = EmittedRows(
            np.concatenate(why).astype(np.int8),
            rows,
            np.concatenate(after),
            np.concatenate(before),
            np.concatenate(stale),
        )
        cursor = np.zeros(CURSOR_SIZE, np.int64)
        while paint_rows(emitted, self.k, self._buffer, cursor) == FULL:
            self._buffer = self._buffer.doubled()
        messages = self._buffer.first(int(cursor[N_RECTANGLES]), int(cursor[N_PAYLOADS]))
        messages.payload_y[:] = messages.payload_y * self._sign + 0.0
        return messages


def last_events(events: RowEvents) -> RowEvents:
    """The last event of each row, in order of arrival."""
    _, from_end = np.unique(events.slot[::-1], return_index=True)
    kept = np.sort(len(events.slot) - 1 - from_end)
    return RowEvents._make(column[kept] for column in events)


def _worst_first(net: NetChanges) -> NetChanges:
    """Removed rows first, then by descending new rank."""
    order = np.lexsort((-net.born, -np.where(net.born == ABSENT, 0.0, net.y), net.born != ABSENT))
    return NetChanges._make(column[order] for column in net)
