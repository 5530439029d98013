"""Range top-k by Paint-Batch: the net change of a whole batch, in the fewest messages to each subscriber.

Of a batch, only what each row was before and is after matters. Rows that got worse or went are told first,
the worst first; then rows that did not change but show now; then rows that came or improved. In this order
the protocol never drops a row that belongs to the answer: what is held only gets better from then on.

A row that got worse is told to who has it among its k best now, and to who held it and would keep its old
value otherwise, having fewer than k better rows now. A row that did not change is told to who has it now and
did not before; one that came or improved, to who has it now. Nobody hears of anything else.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import ABSENT, Bools, Floats, Ints, Longs
from tocsin.indexes.ranges.batch_kernels import BETTER, GONE, SHOWN, WORSE, Told, outline_rows, paint_rows
from tocsin.indexes.ranges.dense import PaintDense
from tocsin.indexes.ranges.messages import CURSOR_SIZE, FULL, N_NOTES, N_TILES, Events, Messages
from tocsin.indexes.ranges.objects_columns import STRIDE


class Net(NamedTuple):
    """Each row touched by a batch, once: what it was and is. A row that is not there has born ABSENT."""

    slot: Ints
    old_x: Floats
    old_y: Floats
    old_born: Longs
    x: Floats
    y: Floats
    born: Longs

    def chosen(self, which: Bools) -> Net:
        return Net._make(column[which] for column in self)

    @property
    def is_moved(self) -> Bools:
        """Whether it is at another x, or another row: then the old one goes and a new one comes."""
        return np.asarray((self.old_x != self.x) | (self.old_born != self.born))

    def old(self) -> Events:
        return Events(self.slot, self.old_x, self.old_y, self.old_born)

    def new(self) -> Events:
        return Events(self.slot, self.x, self.y, self.born)


class PaintCoalesce(PaintDense):
    """The competitor Coalesce: of each row only its last event in a batch, then one at a time."""

    def _run(self, events: Events) -> Messages:
        return super()._run(_last(events))


class PaintBatch(PaintDense):
    """Reformulates batches for `ORDER BY y [DESC] LIMIT k` over ranges of x; `apply` takes one batch.

    Messages of a batch have one event, number 0. Cost: that of Paint-Dense for the rows that get worse, and a
    few searches for every row told.
    """

    def __init__(self, k: int, *, descending: bool = False, capacity: int = 16) -> None:
        super().__init__(k, descending=descending, capacity=capacity)
        self._near = np.empty(k + STRIDE, np.int32)

    def _run(self, events: Events) -> Messages:
        net = self._net(events)
        was_there, is_there = net.old_born != ABSENT, net.born != ABSENT
        worse = net.chosen(was_there & (net.is_moved | (net.y > net.old_y)))
        better = net.chosen(is_there & (net.is_moved | (net.y < net.old_y)))
        worse = _worst_first(worse._replace(born=np.where(worse.is_moved, ABSENT, worse.born)))
        worse_before = self._outline(worse.old())
        shown = self._shown(worse, net)
        self._put(better.new())
        # Now the batch is applied.
        worse_after, worse_stale = self._outline(worse.new()), self._stale(worse)
        shown_after, better_after = self._outline(shown), self._outline(better.new())
        self._put(net.old())
        shown_before = self._outline(shown)
        self._put(net.new())
        is_gone = worse.born == ABSENT
        # Of a row that is gone, what it was is told.
        ending = Events(
            worse.slot,
            np.where(is_gone, worse.old_x, worse.x),
            np.where(is_gone, worse.old_y, worse.y),
            np.where(is_gone, worse.old_born, worse.born),
        )
        return self._told(
            [
                (np.where(is_gone, GONE, WORSE), ending, worse_after, worse_before, worse_stale),
                (np.full(len(shown.x), SHOWN), shown, shown_after, shown_before, shown_after),
                (np.full(len(better.x), BETTER), better.new(), better_after, better_after, better_after),
            ]
        )

    def _net(self, events: Events) -> Net:
        """What each row was and is, without those that stay as they are."""
        last = _last(events)
        self.index.reserve(int(last.slot.max(initial=-1)) + 1)
        objects = self.index.objects
        place = objects.slot_place[last.slot]
        was_there = place >= 0
        is_there = (last.born >= 0) & ~np.isnan(last.x) & ~np.isnan(last.y)
        net = Net(
            last.slot,
            np.where(was_there, objects.x[place], np.nan),
            np.where(was_there, objects.y[place], np.nan),
            np.where(was_there, objects.born[place], ABSENT),
            np.where(is_there, last.x, np.nan),
            np.where(is_there, last.y, np.nan),
            np.where(is_there, last.born, ABSENT),
        )
        is_same = (net.old_x == net.x) & (net.old_y == net.y) & (net.old_born == net.born)
        return net.chosen(~is_same & (was_there | is_there))

    def _shown(self, worse: Net, net: Net) -> Events:
        """Apply what gets worse; the rows, not of the batch themselves, that this brings into some answer."""
        found = np.unique(super()._run(worse.new()).note_row)
        slots = np.setdiff1d(found, net.slot).astype(np.int32)
        objects = self.index.objects
        place = objects.slot_place[slots]
        return Events(slots, objects.x[place], objects.y[place], objects.born[place])

    def _stale(self, worse: Net) -> Floats:
        """Outlines of where the old value of what got worse would still be held, if nobody told of it."""
        return self._outline(worse.old())

    def _put(self, events: Events) -> None:
        self.index.put(events.slot, events.x, events.y, events.born)

    def _outline(self, events: Events) -> Floats:
        outline = np.empty((len(events.x), 2, self.k))
        outline_rows(self.index.objects, events.x, events.y, events.born, self.k, self._near, outline)
        return outline

    def _told(self, parts: list[tuple[np.ndarray, Events, Floats, Floats, Floats]]) -> Messages:
        """Write the messages: of each part, why, the rows, and their outlines after, before and stale."""
        why, events, after, before, stale = zip(*parts, strict=True)
        rows = Events._make(np.concatenate(columns) for columns in zip(*events, strict=True))
        told = Told(
            np.concatenate(why).astype(np.int8),
            rows,
            np.concatenate(after),
            np.concatenate(before),
            np.concatenate(stale),
        )
        cursor = np.zeros(CURSOR_SIZE, np.int64)
        while paint_rows(told, self.k, self._room, cursor) == FULL:
            self._room = self._room.larger()
        messages = self._room.first(int(cursor[N_TILES]), int(cursor[N_NOTES]))
        messages.note_y[:] = messages.note_y * self._sign + 0.0
        return messages


def _last(events: Events) -> Events:
    """The last event of each row, in the order in which they came."""
    _, from_end = np.unique(events.slot[::-1], return_index=True)
    kept = np.sort(len(events.slot) - 1 - from_end)
    return Events._make(column[kept] for column in events)


def _worst_first(net: Net) -> Net:
    """Rows that go before all, then by descending new rank."""
    order = np.lexsort((-net.born, -np.where(net.born == ABSENT, 0.0, net.y), net.born != ABSENT))
    return Net._make(column[order] for column in net)
