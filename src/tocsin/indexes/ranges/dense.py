"""Range top-k by Paint-Dense: events in, messages out, without knowing any subscription."""

from __future__ import annotations

import math

import numpy as np

from tocsin.indexes.contract import Longs
from tocsin.indexes.ranges.dense_kernels import Posts, paint_events
from tocsin.indexes.ranges.messages import Events
from tocsin.indexes.ranges.messages_apply import Reformulator
from tocsin.indexes.ranges.objects_columns import STRIDE


class PaintDense(Reformulator):
    """Reformulates the events of one table for `ORDER BY y [DESC] LIMIT k` over ranges of x.

    With `epsilon` 0 the tiles of an event are disjoint, cover exactly the subscriptions whose answers it
    changes, and are as few as can be without knowing the subscriptions. With `epsilon` up to 1 they are
    fewer, at most ⌈1/epsilon⌉ for a row that improves; some then reach subscriptions that rank the row after
    the k-th place, but not after (1 + epsilon) k, and these ignore it by the same protocol.
    """

    def __init__(self, k: int, *, epsilon: float = 0.0, descending: bool = False, capacity: int = 16) -> None:
        super().__init__(descending=descending, capacity=capacity)
        self.k = k
        self._posts = new_posts(k, epsilon)

    def _paint(self, events: Events, cursor: Longs) -> int:
        return paint_events(self.index.objects, self._posts, events, self.k, self._room, cursor)


def new_posts(k: int, epsilon: float) -> Posts:
    """Scratch for one k, and the bands in which columns are told together."""
    bands = k
    if epsilon > 0:
        # The small part forgives that 1 / 0.1 may be a little more than ten.
        bands = min(k, math.ceil(1 / epsilon - 1e-9))
    columns = np.arange(k + 1)
    return Posts(
        place=np.empty(2 * k + 1, np.int32),
        x=np.empty(2 * k + 1),
        gap_place=np.empty(2 * k, np.int32),
        gap_y=np.empty(2 * k),
        near=np.empty(k + STRIDE, np.int32),
        band=((k - columns) * bands // k).astype(np.int32),
    )
