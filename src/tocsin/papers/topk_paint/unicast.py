"""The competitors that tell subscribers one by one: Unicast as the paper has it, and through tiles."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.ranges.messages import CURSOR_SIZE, DONE, FULL, N_EXPOSED, N_TILES
from tocsin.indexes.ranges.messages_apply import events_of
from tocsin.indexes.ranges.objects import ObjectIndex
from tocsin.indexes.ranges.objects_columns import BLOCK, STRIDE, Objects
from tocsin.indexes.ranges.points import Points
from tocsin.indexes.shared.columns import grown
from tocsin.papers.topk_paint.objects_above_kernels import Lens
from tocsin.papers.topk_paint.unicast_kernels import (
    Desk,
    Letters,
    unicast_events,
)


class Unicast:
    """Letters to each subscription that an event affects, for `ORDER BY y LIMIT k` over ranges of x.

    It knows all subscriptions, as points. `literal` makes it search once
    for each subscription in the rectangle around the affected ones, whatever the event, as the paper counts
    it; that finds the right replacement only for k = 1, and is for measuring.
    """

    def __init__(self, k: int, lo: Floats, hi: Floats, *, literal: bool = False, capacity: int = 16) -> None:
        self.k = k
        self.index = ObjectIndex(capacity)
        #: Searches for replacements so far.
        self.n_searches = 0
        self._is_literal = literal
        self.points = Points()
        self.points.insert(np.arange(len(lo), dtype=np.int32), lo, hi)
        self._room = Letters(*(np.empty(capacity, np.int32) for _ in range(3)))
        self._desk = Desk(
            near=np.empty(k + STRIDE, np.int32),
            left=np.empty(k),
            right=np.empty(k),
            found=np.empty(len(lo) + int(self.points.grid.bucket_size.max()), np.int32),
            rank=np.empty(len(lo), np.int32),
            other=np.empty(len(lo), np.int32),
        )

    def load(self, slots: Ints, x: Floats, y: Floats, born: Longs) -> None:
        """Put rows without telling anyone. Cost: that of sorting them."""
        self.index.put(slots, x, y, born)

    def apply(self, slots: Ints, x: Floats, y: Floats, born: Longs) -> Letters:
        """Put rows one after the other and write letters; a row that moves in x must be two events.

        The letters are views of a buffer that the next call writes to. Cost of an event: every subscription
        in the rectangle around the affected ones, and for each that a row gets worse in, some searches;
        before the first of these, the rows that any of them may look at.
        """
        events = events_of(slots, x, y, born, 1.0)
        self.index.reserve(int(events.slot.max(initial=-1)) + 1)
        cursor = np.zeros(CURSOR_SIZE, np.int64)
        while (
            status := unicast_events(
                self.index.objects,
                new_lens(self.index.objects),
                self.points.grid,
                self._desk,
                events,
                self.k,
                self._is_literal,
                self._room,
                cursor,
            )
        ) != DONE:
            if status == FULL:
                self._room = Letters._make(grown(column, len(column) + 1) for column in self._room)
            else:
                self.index.grow()
        self.n_searches += int(cursor[N_EXPOSED])
        return Letters._make(column[: cursor[N_TILES]] for column in self._room)


def new_lens(objects: Objects) -> Lens:
    """What searches above a row look through, not yet set; good until the index grows."""
    n_blocks = len(objects.block_count)
    return Lens(
        block=np.zeros(n_blocks, np.int32),
        first_x=np.empty(n_blocks + 1),
        row=np.empty(n_blocks * BLOCK, np.int64),
        lowest=np.empty((n_blocks.bit_length(), n_blocks), np.int32),
    )
