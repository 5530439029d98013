"""The rows of one message space, and every algorithm that turns their changes into messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from tocsin.arrays.types import Arrays, Floats, Ints, Longs
from tocsin.indexes.ranges.messages.messages import Messages, Reformulator
from tocsin.indexes.ranges.messages.receivers import fit_messages
from tocsin.indexes.ranges.structures.blocked_rows import BlockedRows
from tocsin.indexes.ranges.structures.points import Points

#: Rows of a batch times k beyond which rows are processed one by one: outlines would take a gigabyte.
BATCH_CAPACITY = 1 << 24
#: Painters that are cached: their k and epsilon may never recur.
MOST_PAINTERS = 6

#: Makes a painter of k, epsilon, whether the order descends, and an initial capacity.
MakePainter: TypeAlias = Callable[[int, float, bool, int], Reformulator]


class Painters(NamedTuple):
    """What turns the rows of a kind of statement into messages."""

    #: the net change of a batch, without an epsilon
    batch: MakePainter
    #: one row after the other, for known subscriptions
    sparse: MakePainter
    #: one row after the other, for all possible subscriptions
    dense: MakePainter


class RankedMessages:
    """Messages for `ORDER BY y [DESC] LIMIT k`, or for MIN and MAX, over ranges of x.

    All painters share one list of rows and one set of points, so that each call may choose another.
    """

    def __init__(self, k: int, painters: Painters, *, descending: bool = False, capacity: int = 16) -> None:
        self.k = k
        self.rows = BlockedRows(capacity)
        #: the subscriptions, for the sparse algorithms; maintained by the caller
        self.points = Points(capacity)
        self._make = painters
        self._descending = descending
        self._sign = -1.0 if descending else 1.0
        self._capacity = capacity
        self._painters: dict[tuple[MakePainter, int, float], Reformulator] = {}

    def put(self, slots: Ints, x: Floats, y: Floats, born: Longs) -> None:
        """Put rows without emitting messages. Cost: see `BlockedRows.put`."""
        self.rows.put(slots, x, y * self._sign, born)

    def apply(
        self, slots: Ints, x: Floats, y: Floats, born: Longs, *, is_sparse: bool, epsilon: float
    ) -> Messages:
        """Apply a batch of rows, each at most once, and emit its net change.

        Several rows are painted as a batch, or with an epsilon one by one.
        """
        # With no more rows than k, every row is in every answer, and any larger k gives the same messages.
        k = min(self.k, 1 << int(len(self.rows) + len(slots)).bit_length())
        is_batch = len(slots) > 1 and len(slots) * k <= BATCH_CAPACITY and not epsilon
        make = self._make.batch if is_batch else self._make.sparse if is_sparse else self._make.dense
        painter = self._painter(make, k, epsilon)
        messages = painter.apply(slots, x, y, born)
        if is_sparse and not painter.is_fitted:
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

    def _painter(self, make: MakePainter, k: int, epsilon: float) -> Reformulator:
        painter = self._painters.get((make, k, epsilon))
        if painter is None:
            if len(self._painters) >= MOST_PAINTERS:
                self._painters.clear()
            painter = make(k, epsilon, self._descending, self._capacity)
            painter.share(self.rows, self.points)
            self._painters[make, k, epsilon] = painter
        return painter
