"""Range top-k by Paint-Sparse: events in, messages out that fit the subscriptions there are."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.ranges.changes_topk import empty_side
from tocsin.indexes.ranges.dense import new_posts
from tocsin.indexes.ranges.messages import Events
from tocsin.indexes.ranges.messages_apply import Reformulator
from tocsin.indexes.ranges.objects_columns import STRIDE
from tocsin.indexes.ranges.points import Points, empty_grid
from tocsin.indexes.ranges.points_kernels import Grid
from tocsin.indexes.ranges.sparse_kernels import N_SEARCHES, N_SNAPS, Easel, paint_sparsely

#: Up to so many points around a row are copied to a grid that is cut at the rows around.
NEARBY = 4096


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
    ) -> None:
        super().__init__(descending=descending, capacity=capacity)
        self.k = k
        self.points = Points(capacity)
        self._easel = Easel(
            left=empty_side(k + STRIDE, -1.0),
            right=empty_side(k + STRIDE, 1.0),
            nearby=_square_grid(k, nearby),
            lo=np.empty(nearby),
            hi=np.empty(nearby),
            bucket=np.empty(nearby, np.int32),
            band=np.ascontiguousarray(new_posts(k, epsilon).band[:0:-1]),
            counts=np.zeros(2, np.int64),
        )

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
        # Next to the largest double comes infinity, and next to 0 a number that is hardly one.
        with np.errstate(over="ignore", under="ignore"):
            return paint_sparsely(
                self.index.objects, self.points.grid, self._easel, events, self.k, self._room, cursor
            )


def _square_grid(k: int, room: int) -> Grid:
    """A grid of k columns of k buckets, whose cuts are set later."""
    grid = empty_grid(k, k * k, room)
    grid.column_start[:] = np.arange(k + 1) * k
    return grid
