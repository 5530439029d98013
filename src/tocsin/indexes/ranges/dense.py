"""Range top-k by Paint-Dense: events in, messages out, without knowing any subscription."""

from __future__ import annotations

import math

import numpy as np

from tocsin.indexes.contract import Longs
from tocsin.indexes.ranges.dense_kernels import paint_events
from tocsin.indexes.ranges.messages import Events
from tocsin.indexes.ranges.messages_apply import Reformulator
from tocsin.indexes.ranges.objects_columns import BLOCK, Objects
from tocsin.indexes.ranges.posts_kernels import SAMPLED, Posts, Side
from tocsin.indexes.ranges.single_kernels import Shown, tell_best

#: Rows passed that are listed at once, on either side, about.
SIDE = 128


class PaintDense(Reformulator):
    """Reformulates the events of one table for `ORDER BY y [DESC] LIMIT k` over ranges of x.

    With `epsilon` 0 the tiles of an event are disjoint, cover exactly the subscriptions whose answers it
    changes, and are as few as can be without knowing the subscriptions. With `epsilon` up to 1 they are
    fewer, at most ⌈1/epsilon⌉ for a row that improves; some then reach subscriptions that rank the row after
    the k-th place, but not after (1 + epsilon) k, and these ignore it by the same protocol.
    """

    def __init__(
        self,
        k: int,
        *,
        epsilon: float = 0.0,
        descending: bool = False,
        capacity: int = 16,
        side: int = SIDE,
    ) -> None:
        super().__init__(descending=descending, capacity=capacity)
        self.k = k
        self._posts = new_posts(k, epsilon, side)
        self._showing = no_shown()

    def _paint(self, events: Events, cursor: Longs) -> int:
        if self.k == 1:
            self._showing = enough_shown(self._showing, self.index.objects)
            return tell_best(self.index.objects, self._showing, events, self._room, cursor)
        return paint_events(self.index.objects, self._posts, events, self.k, self._room, cursor)


def new_posts(k: int, epsilon: float, side: int) -> Posts:
    """Scratch for one k, with room for so many rows passed, and the bands that are told together."""
    bands = k
    if epsilon > 0:
        # The small part forgives that 1 / 0.1 may be a little more than ten.
        bands = min(k, math.ceil(1 / epsilon - 1e-9))
    columns = np.arange(k + 1)
    # Besides a block, two rows must be sampled where rows do not fit.
    room = BLOCK + max(side, 2 * SAMPLED)
    return Posts(
        x=np.full(3 * k + 1, np.nan),
        cut=np.empty(2 * k + 1, np.int32),
        passed_key=np.empty(2 * room, np.int64),
        passed_place=np.empty(2 * room, np.int32),
        left=_new_side(k, room),
        right=_new_side(k, room),
        band=((k - columns) * bands // k).astype(np.int32),
    )


def _new_side(k: int, room: int) -> Side:
    return Side(np.empty(k + 1, np.int32), np.empty(k + 1, np.int32), np.empty(room, np.int32))


def no_shown() -> Shown:
    """Scratch for k = 1, without room yet."""
    return Shown(np.empty(0, np.int32), np.empty(0, np.int32))


def enough_shown(shown: Shown, objects: Objects) -> Shown:
    """The scratch given, or a larger one, with room for every row. What is not written takes no memory."""
    if len(shown.left) >= len(objects.y):
        return shown
    return Shown(np.empty(len(objects.y), np.int32), np.empty(len(objects.y), np.int32))
