"""Range top-k by Paint-Dense: turns row events into messages without knowing the subscriptions."""

from __future__ import annotations

import math

import numpy as np

from tocsin.arrays.layout import check_layout, empty
from tocsin.arrays.types import Longs
from tocsin.indexes.ranges.messages.messages import Reformulator, RowEvents
from tocsin.indexes.ranges.messages.painters.dense_kernels import paint_events
from tocsin.indexes.ranges.messages.painters.posts_kernels import SAMPLED, Posts
from tocsin.indexes.ranges.messages.painters.single_kernels import Shown, emit_best
from tocsin.indexes.ranges.structures.blocked_rows_layout import BLOCK, BlockedColumns

#: Initial capacity for the rows passed on either side.
SIDE = 128


class PaintDense(Reformulator):
    """Reformulates the events of one table for `ORDER BY y [DESC] LIMIT k` over ranges of x.

    With `epsilon` 0 the rectangles of an event are disjoint, cover exactly the subscriptions whose answers it
    changes, and are as few as possible without knowing the subscriptions. With `epsilon` up to 1 they are
    fewer, at most ⌈1/epsilon⌉ for a row that improves; some then reach subscriptions that rank the row below
    k, but not below (1 + epsilon) k, and these ignore it by the same protocol.
    """

    #: whether a message states a range's whole answer, as for MIN and MAX; requires k = 1
    _is_whole = False

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
        self._showing = empty(Shown, places=0)

    def check_invariants(self) -> None:
        super().check_invariants()
        check_layout(self._posts)
        check_layout(self._showing)

    def _paint(self, events: RowEvents, cursor: Longs) -> int:
        if self.k == 1:
            self._showing = enough_shown(self._showing, self.index.columns)
            return emit_best(self.index.columns, self._showing, self._is_whole, events, self._buffer, cursor)
        return paint_events(self.index.columns, self._posts, events, self.k, self._buffer, cursor)


def new_posts(k: int, epsilon: float, side: int) -> Posts:
    """Scratch for one k, with capacity for `side` rows passed, and the bands that share a message."""
    bands = k
    if epsilon > 0:
        # The tolerance absorbs rounding: 1 / 0.1 may be slightly more than ten.
        bands = min(k, math.ceil(1 / epsilon - 1e-9))
    # Beyond one block, at least two rows must be sampled when rows do not fit.
    posts = empty(Posts, k=k, passed=BLOCK + max(side, 2 * SAMPLED))
    posts.band[:] = (k - np.arange(k + 1)) * bands // k
    return posts


def enough_shown(shown: Shown, blocked: BlockedColumns) -> Shown:
    """The given scratch, or a larger one, with capacity for every row. Unwritten pages take no memory."""
    if len(shown.left) >= len(blocked.y):
        return shown
    return empty(Shown, places=len(blocked.y))
