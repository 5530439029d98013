"""Range top-k by Paint-Sparse: events in, messages out that fit the subscriptions there are."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.ranges.dense import SIDE, enough_shown, new_posts, no_shown
from tocsin.indexes.ranges.messages import Events
from tocsin.indexes.ranges.messages_apply import Reformulator
from tocsin.indexes.ranges.points import Points
from tocsin.indexes.ranges.points_kernels import LARGE, STRIP
from tocsin.indexes.ranges.sparse_kernels import N_SEARCHES, N_SNAPS, Easel, paint_sparsely
from tocsin.indexes.ranges.sparse_near_kernels import Nearby
from tocsin.indexes.ranges.sparse_single_kernels import tell_best_known

#: Up to so many points around a row are looked at one by one; where there are more, the grid is asked.
NEARBY = 2048


class PaintSparse(Reformulator):
    """Reformulates the events of one table for known subscriptions, `ORDER BY y [DESC] LIMIT k` over ranges.

    With `epsilon` 0, exactly the subscriptions whose answers an event changes hear of it, no message reaches
    nobody, and there are at most twice as many as there must be. With `epsilon` up to 1 they are fewer; some
    then reach subscriptions that rank the row after the k-th place, but not after (1 + epsilon) k.
    """

    def __init__(
        self,
        k: int,
        *,
        epsilon: float = 0.0,
        descending: bool = False,
        capacity: int = 16,
        nearby: int = NEARBY,
        side: int = SIDE,
    ) -> None:
        super().__init__(descending=descending, capacity=capacity)
        self.k = k
        self.points = Points(capacity)
        self._easel = Easel(new_posts(k, epsilon, side), _empty_nearby(k, nearby), np.zeros(2, np.int64))
        self._showing = no_shown()
        #: of k = 1: buckets that may have so many points
        self._most = nearby // LARGE

    @property
    def n_snaps(self) -> int:
        """Tiles that were snapped to the points in them, so far."""
        return int(self._easel.counts[N_SNAPS])

    @property
    def n_searches(self) -> int:
        """Searches for the next row that is passed, so far: the paper's min_y."""
        return int(self._easel.counts[N_SEARCHES])

    def register(self, slots: Ints, lo: Floats, hi: Floats) -> None:
        """Add subscriptions. Cost: a logarithmic search each, amortised; many at once are built in."""
        inside = lo <= hi
        self.points.insert(slots[inside], lo[inside], hi[inside])

    def terminate(self, slots: Ints, lo: Floats, hi: Floats) -> None:
        """Remove subscriptions, given as registered. Cost: a logarithmic search and a bucket each."""
        inside = lo <= hi
        self.points.remove(slots[inside], lo[inside], hi[inside])

    def _paint(self, events: Events, cursor: Longs) -> int:
        self.points.tend()
        # Next to the largest double comes infinity, next to 0 a number that is hardly one; and infinity has
        # no distance from itself.
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            if self.k == 1:
                self._showing = enough_shown(self._showing, self.index.objects)
                return tell_best_known(
                    self.index.objects, self.points.grid, self._showing, self._most, events,
                    self._easel.counts, self._room, cursor,
                )  # fmt: skip
            return paint_sparsely(
                self.index.objects, self.points.grid, self._easel, events, self.k, self._room, cursor
            )


def _empty_nearby(k: int, room: int) -> Nearby:
    """Room for so many points, in whole strips."""
    n_strips = -(-room // STRIP)
    return Nearby(
        lo=np.empty(n_strips * STRIP),
        hi=np.empty(n_strips * STRIP),
        held=np.empty(n_strips * STRIP, np.int64),
        told=np.empty(n_strips, np.int64),
        box=np.empty((k, 4)),
    )
