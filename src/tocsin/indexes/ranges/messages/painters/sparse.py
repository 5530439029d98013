"""Range top-k by Paint-Sparse: turns row events into messages that fit the known subscriptions."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.layout import check_layout, empty
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.ranges.messages.messages import Reformulator, RowEvents
from tocsin.indexes.ranges.messages.painters.dense import SIDE, enough_shown, new_posts
from tocsin.indexes.ranges.messages.painters.single_kernels import Shown, emit_best_known
from tocsin.indexes.ranges.messages.painters.sparse_kernels import (
    N_SEARCHES,
    N_SNAPS,
    Nearby,
    SparseScratch,
    paint_sparsely,
)
from tocsin.indexes.ranges.structures.blocked_rows import BlockedRows
from tocsin.indexes.ranges.structures.points import Points
from tocsin.indexes.ranges.structures.points_kernels import LARGE, STRIP

#: Up to this many points around a row are copied and scanned; beyond it, the grid is queried.
NEARBY = 2048


class PaintSparse(Reformulator):
    """Reformulates the events of one table for known subscriptions, `ORDER BY y [DESC] LIMIT k` over ranges.

    With `epsilon` 0, messages reach exactly the subscriptions whose answers an event changes, each message
    reaches at least one, and there are at most twice as many as necessary. With `epsilon` up to 1 they are
    fewer; some then reach subscriptions that rank the row below k, but not below (1 + epsilon) k.
    """

    is_fitted = True
    #: whether a message states a range's whole answer, as for MIN and MAX; requires k = 1
    _is_whole = False

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
        self._scratch = SparseScratch(
            new_posts(k, epsilon, side),
            empty(Nearby, strips=-(-nearby // STRIP), k=k),
            np.zeros(2, np.int64),
        )
        self._showing = empty(Shown, places=0)
        #: for k = 1: buckets that may hold `nearby` points
        self._most = nearby // LARGE

    @property
    def n_snaps(self) -> int:
        """Rectangles that were snapped to the points in them, so far."""
        return int(self._scratch.counts[N_SNAPS])

    @property
    def n_searches(self) -> int:
        """Searches for the next row passed, so far: the paper's min_y."""
        return int(self._scratch.counts[N_SEARCHES])

    def share(self, rows: BlockedRows, points: Points) -> None:
        super().share(rows, points)
        self.points = points

    def register(self, slots: Ints, lo: Floats, hi: Floats) -> None:
        """Add subscriptions. Cost: a logarithmic search each, amortised; a large batch rebuilds the grid."""
        inside = lo <= hi
        self.points.insert(slots[inside], lo[inside], hi[inside])

    def terminate(self, slots: Ints, lo: Floats, hi: Floats) -> None:
        """Remove subscriptions, given as registered. Cost: a logarithmic search and a bucket each."""
        inside = lo <= hi
        self.points.remove(slots[inside], lo[inside], hi[inside])

    def check_invariants(self) -> None:
        super().check_invariants()
        self.points.check_invariants()
        check_layout(self._scratch)
        check_layout(self._showing)

    def _paint(self, events: RowEvents, cursor: Longs) -> int:
        self.points.rebuild_if_needed()
        # nextafter overflows to infinity and underflows to subnormals; infinity minus infinity is NaN.
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            if self.k == 1:
                self._showing = enough_shown(self._showing, self.index.columns)
                return emit_best_known(
                    self.index.columns, self.points.grid, self._showing, self._most, self._is_whole,
                    events, self._scratch.counts, self._buffer, cursor,
                )  # fmt: skip
            return paint_sparsely(
                self.index.columns, self.points.grid, self._scratch, events, self.k, self._buffer, cursor
            )
