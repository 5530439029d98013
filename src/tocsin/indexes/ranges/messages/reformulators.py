"""The rows of one message space, and every algorithm that turns their changes into messages."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.arrays.types import Arrays, Floats, Ints, Longs
from tocsin.indexes.ranges.messages.messages import Messages, Reformulator
from tocsin.indexes.ranges.messages.painters.batch import PaintBatch
from tocsin.indexes.ranges.messages.painters.dense import PaintDense
from tocsin.indexes.ranges.messages.painters.minmax import MinMaxBatch, MinMaxDense, MinMaxSparse
from tocsin.indexes.ranges.messages.painters.sparse import PaintSparse
from tocsin.indexes.ranges.messages.receivers import fit_messages
from tocsin.indexes.ranges.structures.blocked_rows import BlockedRows
from tocsin.indexes.ranges.structures.points import Points

#: Rows of a batch times k beyond which rows are processed one by one: outlines would take a gigabyte.
BATCH_CAPACITY = 1 << 24


class RankedMessages:
    """Messages for `ORDER BY y [DESC] LIMIT k`, or for MIN and MAX, over ranges of x.

    All algorithms share one list of rows and one set of points, so that each call may choose another.
    """

    def __init__(
        self, k: int, *, is_minmax: bool = False, descending: bool = False, capacity: int = 16
    ) -> None:
        self.k = k
        self.rows = BlockedRows(capacity)
        #: the subscriptions, for the sparse algorithms; maintained by the caller
        self.points = Points(capacity)
        self._is_minmax = is_minmax
        self._descending = descending
        self._sign = -1.0 if descending else 1.0
        self._capacity = capacity
        self._painters: dict[tuple[str, int, float], Reformulator] = {}

    def put(self, slots: Ints, x: Floats, y: Floats, born: Longs) -> None:
        """Put rows without emitting messages. Cost: see `BlockedRows.put`."""
        self.rows.put(slots, x, y * self._sign, born)

    def apply(
        self, slots: Ints, x: Floats, y: Floats, born: Longs, *, is_sparse: bool, epsilon: float
    ) -> Messages:
        """Apply a batch of rows, each at most once, and emit its net change.

        A single row goes through Paint-Dense or Paint-Sparse; several through Paint-Batch, or with an
        epsilon one by one.
        """
        # With no more rows than k, every row is in every answer, and any larger k gives the same messages.
        k = min(self.k, 1 << int(len(self.rows) + len(slots)).bit_length())
        is_batch = len(slots) > 1 and len(slots) * k <= BATCH_CAPACITY and not epsilon
        painter = self._painter(k, is_batch=is_batch, is_sparse=is_sparse, epsilon=epsilon)
        messages = painter.apply(slots, x, y, born)
        if is_sparse and not isinstance(painter, PaintSparse):
            return fit_messages(self.points, messages)
        # The next call overwrites the painter's buffer.
        return messages.copy()

    def arrays(self) -> Arrays:
        """The slots in order of x; rows of equal x in order of arrival. Cost: linear."""
        return {"slot": self.rows.rows()[0]}

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        self.rows.check_invariants()
        self.points.check_invariants()

    def _painter(self, k: int, *, is_batch: bool, is_sparse: bool, epsilon: float) -> Reformulator:
        down, capacity = self._descending, self._capacity
        way = "batch" if is_batch else "sparse" if is_sparse else "dense"
        name = f"min/max {way}" if self._is_minmax else way
        makers: dict[str, Callable[[], Reformulator]] = {
            "min/max batch": lambda: MinMaxBatch(descending=down, capacity=capacity),
            "min/max sparse": lambda: MinMaxSparse(descending=down, capacity=capacity),
            "min/max dense": lambda: MinMaxDense(descending=down, capacity=capacity),
            "batch": lambda: PaintBatch(k, descending=down, capacity=capacity),
            "sparse": lambda: PaintSparse(k, epsilon=epsilon, descending=down, capacity=capacity),
            "dense": lambda: PaintDense(k, epsilon=epsilon, descending=down, capacity=capacity),
        }
        painter = self._painters.get((name, k, epsilon))
        if painter is None:
            # Parameters may never recur: only a few painters are cached.
            if len(self._painters) >= len(makers):
                self._painters.clear()
            painter = self._painters[name, k, epsilon] = makers[name]()
            painter.index = self.rows
            if isinstance(painter, PaintSparse):
                painter.points = self.points
        return painter
