"""One space's rows, and every way to turn what happens to them into messages."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.indexes.contract import Arrays, Floats, Ints, Longs
from tocsin.indexes.ranges.batch import PaintBatch
from tocsin.indexes.ranges.dense import PaintDense
from tocsin.indexes.ranges.fitting import fit_messages
from tocsin.indexes.ranges.messages import Messages
from tocsin.indexes.ranges.messages_apply import Reformulator
from tocsin.indexes.ranges.minmax import ExtremeBatch, ExtremeMessages
from tocsin.indexes.ranges.objects import ObjectIndex
from tocsin.indexes.ranges.points import Points
from tocsin.indexes.ranges.sparse import PaintSparse

#: Rows of a batch times k beyond which rows are told one by one: outlines of a batch would take a gigabyte.
BATCH_ROOM = 1 << 24


class RankedMessages:
    """Messages for `ORDER BY y [DESC] LIMIT k`, or for MIN and MAX, over ranges of x.

    All algorithms share one object index and one set of points, so that each call may choose another.
    """

    def __init__(
        self, k: int, *, is_extreme: bool = False, descending: bool = False, capacity: int = 16
    ) -> None:
        self.k = k
        self.rows = ObjectIndex(capacity)
        #: the subscriptions, for the sparse ways; whoever asks for these puts them here
        self.points = Points(capacity)
        self._is_extreme = is_extreme
        self._descending = descending
        self._sign = -1.0 if descending else 1.0
        self._capacity = capacity
        self._made: dict[tuple[str, int, float], Reformulator] = {}

    def put(self, slots: Ints, x: Floats, y: Floats, born: Longs) -> None:
        """Take rows without telling anyone. Cost: see `ObjectIndex.put`."""
        self.rows.put(slots, x, y * self._sign, born)

    def apply(
        self, slots: Ints, x: Floats, y: Floats, born: Longs, *, is_sparse: bool, epsilon: float
    ) -> Messages:
        """Take a batch of rows, each once, and tell its net change.

        One row is told by Paint-Dense, Paint-Sparse, or Mar and Hull; several by Paint-Batch, or with an
        epsilon one by one.
        """
        # With no more rows than k, every row is in every answer, and any larger k says the same.
        k = min(self.k, 1 << int(len(self.rows) + len(slots)).bit_length())
        is_batch = len(slots) > 1 and len(slots) * k <= BATCH_ROOM and not epsilon
        painter = self._painter(k, is_batch=is_batch, is_sparse=is_sparse, epsilon=epsilon)
        messages = painter.apply(slots, x, y, born)
        if is_sparse and not isinstance(painter, PaintSparse):
            return fit_messages(self.points, messages)
        # The painter's buffer is written to by the next call.
        return messages.copy()

    def arrays(self) -> Arrays:
        """The slots in their order, which of equal x is that of their coming. Cost: linear."""
        return {"slot": self.rows.rows()[0]}

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        self.rows.check_invariants()
        self.points.check_invariants()

    def _painter(self, k: int, *, is_batch: bool, is_sparse: bool, epsilon: float) -> Reformulator:
        down, room = self._descending, self._capacity
        makers: dict[str, Callable[[], Reformulator]] = {
            "extreme": lambda: ExtremeMessages(descending=down, capacity=room),
            "extreme batch": lambda: ExtremeBatch(descending=down, capacity=room),
            "batch": lambda: PaintBatch(k, descending=down, capacity=room),
            "sparse": lambda: PaintSparse(k, epsilon=epsilon, descending=down, capacity=room),
            "dense": lambda: PaintDense(k, epsilon=epsilon, descending=down, capacity=room),
        }
        if self._is_extreme:
            name = "extreme batch" if is_batch else "extreme"
        elif is_batch:
            name = "batch"
        else:
            name = "sparse" if is_sparse else "dense"
        made = self._made.get((name, k, epsilon))
        if made is None:
            # What one was made for may never come again: a few are kept.
            if len(self._made) >= len(makers):
                self._made.clear()
            made = self._made[name, k, epsilon] = makers[name]()
            made.index = self.rows
            if isinstance(made, PaintSparse):
                made.points = self.points
        return made
