"""The state of a space: what it maintains of its table, and the messages it emits for a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import pyarrow as pa

from tocsin.arrays.types import Arrays, Bools, Floats, Ints
from tocsin.engine.conversion.arrow import one_array
from tocsin.engine.conversion.text import text_of
from tocsin.engine.interning import ValueInterner
from tocsin.engine.sources.deltas import SourceDelta
from tocsin.engine.sources.tables import Table
from tocsin.engine.spaces.messages import messages_table, snapshot_table
from tocsin.engine.spaces.space_keys import SpaceKey
from tocsin.indexes.contract import ABSENT
from tocsin.indexes.ranges.messages.distinct import Values
from tocsin.indexes.ranges.messages.messages import Messages
from tocsin.indexes.ranges.structures.points import Points
from tocsin.planning import make_distinct_messages, make_ranked_messages


class SpaceState(ABC):
    """One space over one table: applies every batch, and emits messages on request."""

    def __init__(self, key: SpaceKey, table: Table, points: Points) -> None:
        self.key = key
        self._table = table
        #: the subscriptions, for sparse messages
        self._points = points
        self._dimensions = 0 if key.column is None else 1
        self._slots: Ints = np.empty(0, np.int32)
        self._lo: Floats = np.empty(0)
        self._hi: Floats = np.empty(0)

    @abstractmethod
    def apply_silently(self, delta: SourceDelta) -> None:
        """Apply a batch without emitting messages."""

    @abstractmethod
    def emit(self, delta: SourceDelta, *, is_sparse: bool, epsilon: float) -> pa.Table:
        """Apply a batch; the messages of its net change."""

    @abstractmethod
    def snapshot(self) -> pa.Table:
        """The rows that a subscriber starts from. Cost: linear."""

    def arrays(self) -> Arrays:
        """The state that does not follow from the table's rows."""
        return {}

    def load(self, arrays: Arrays) -> None:
        """Load the table's rows, in the order given by `arrays` if it is present."""
        self.apply_silently(self._table.snapshot_delta())

    def subscribe(self, slots: Ints, lo: Floats, hi: Floats) -> None:
        """Replace the subscriptions; slots ascend.

        Cost: linear, and logarithmic for each that differs; constant if the arrays are those of the last
        call.
        """
        if slots is self._slots:
            return
        _, old, new = np.intersect1d(self._slots, slots, assume_unique=True, return_indices=True)
        is_same = (self._lo[old] == lo[new]) & (self._hi[old] == hi[new])
        is_removed, is_added = np.ones(len(self._slots), np.bool_), np.ones(len(slots), np.bool_)
        is_removed[old[is_same]] = is_added[new[is_same]] = False
        self._points.remove(self._slots[is_removed], self._lo[is_removed], self._hi[is_removed])
        self._points.insert(slots[is_added], lo[is_added], hi[is_added])
        self._slots, self._lo, self._hi = slots, lo, hi

    def _table_of(self, messages: Messages, keys: pa.Array, delta: SourceDelta) -> pa.Table:
        return messages_table(str(self.key), int(delta.seq[-1]), messages, keys, self._dimensions)

    def _snapshot_of(self, keys: pa.Array, x: Floats, y: Floats, delta: SourceDelta) -> pa.Table:
        seq, born = self._table.next_number - 1, delta.born_after
        is_live = ~np.isnan(x)
        numbers = born[is_live] if self.key.kind != "distinct" else np.full(is_live.sum(), ABSENT)
        return snapshot_table(
            str(self.key), seq, keys.filter(pa.array(is_live)), x[is_live], y[is_live], numbers,
            self._dimensions,
        )  # fmt: skip

    def _x(self, delta: SourceDelta) -> tuple[Floats, Floats]:
        """The rows' positions before and after; NaN for rows outside the space."""
        pair = []
        for side, born in enumerate((delta.born_before, delta.born_after)):
            x = np.zeros(len(delta)) if self.key.column is None else delta.floats(self.key.column)[side]
            is_inside: Bools = born != ABSENT
            for column, low, high in self.key.constants:
                value = delta.floats(column)[side]
                is_inside = is_inside & (low <= value) & (value <= high)
            pair.append(np.where(is_inside, x, np.nan))
        return pair[0], pair[1]


class RankedSpace(SpaceState):
    """A space of top-k, MIN or MAX."""

    def __init__(self, key: SpaceKey, table: Table) -> None:
        self._index = make_ranked_messages(
            key.k, is_extreme=key.kind != "top-k", descending=key.descending or key.kind == "max"
        )
        super().__init__(key, table, self._index.points)

    def apply_silently(self, delta: SourceDelta) -> None:
        self._index.put(delta.row, self._x(delta)[1], delta.floats(self.key.order)[1], delta.born_after)

    def emit(self, delta: SourceDelta, *, is_sparse: bool, epsilon: float) -> pa.Table:
        x, y = self._x(delta)[1], delta.floats(self.key.order)[1]
        emitted = self._index.apply(delta.row, x, y, delta.born_after, is_sparse=is_sparse, epsilon=epsilon)
        return self._table_of(emitted, self._table.key_text(emitted.payload_row), delta)

    def snapshot(self) -> pa.Table:
        delta = self._table.snapshot_delta()
        x, y = self._x(delta)[1], delta.floats(self.key.order)[1]
        return self._snapshot_of(self._table.key_text(delta.row), np.where(np.isnan(y), np.nan, x), y, delta)

    def arrays(self) -> Arrays:
        return self._index.arrays()

    def load(self, arrays: Arrays) -> None:
        delta = self._table.snapshot_delta()
        x, y = self._x(delta)[1], delta.floats(self.key.order)[1]
        order = np.arange(len(delta))
        if "slot" in arrays:
            place = np.full(int(delta.row.max(initial=-1)) + 1, -1)
            place[delta.row] = order
            order = place[arrays["slot"]]
        self._index.put(delta.row[order], x[order], y[order], delta.born_after[order])


class DistinctSpace(SpaceState):
    """A space of DISTINCT."""

    def __init__(self, key: SpaceKey, table: Table) -> None:
        self._index = make_distinct_messages()
        super().__init__(key, table, self._index.points)
        assert table.schema.columns is not None
        self._is_numeric = table.schema.columns[key.order].is_numeric
        self._values = ValueInterner()

    def apply_silently(self, delta: SourceDelta) -> None:
        self._apply(delta)
        self._values.free_unused()

    def emit(self, delta: SourceDelta, *, is_sparse: bool, epsilon: float) -> pa.Table:
        emitted = self._apply(delta, is_sparse=is_sparse)
        table = self._table_of(emitted, self._values.text(emitted.payload_row), delta)
        self._values.free_unused()
        return table

    def snapshot(self) -> pa.Table:
        delta = self._table.snapshot_delta()
        values = one_array(delta.column(self.key.order)[1])
        is_null = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        x = np.where(is_null, np.nan, self._x(delta)[1])
        return self._snapshot_of(text_of(values), x, self._y(delta)[1], delta)

    def _apply(self, delta: SourceDelta, *, is_sparse: bool = False) -> Messages:
        before, after = (one_array(column) for column in delta.column(self.key.order))
        x, y = self._x(delta), self._y(delta)
        new, old = self._values.acquire(after), self._values.release(before)
        return self._index.apply(Values(old, x[0], y[0]), Values(new, x[1], y[1]), is_sparse=is_sparse)

    def _y(self, delta: SourceDelta) -> tuple[Floats, Floats]:
        if self._is_numeric:
            return delta.floats(self.key.order)
        return np.full(len(delta), np.nan), np.full(len(delta), np.nan)
