"""A space of messages: what it keeps of its table, and how it tells of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import pyarrow as pa

from tocsin.engine.arrow import one_array
from tocsin.engine.deltas import SourceDelta
from tocsin.engine.forms import Form
from tocsin.engine.interning import Interner
from tocsin.engine.messages import messages_table, snapshot_table
from tocsin.engine.tables import Table
from tocsin.engine.text import text_of
from tocsin.indexes.contract import ABSENT, Arrays, Bools, Floats, Ints
from tocsin.indexes.ranges.distinct_messages import DistinctMessages, Values
from tocsin.indexes.ranges.fitting import fit_messages
from tocsin.indexes.ranges.messages import Messages
from tocsin.indexes.ranges.points import Points
from tocsin.indexes.ranges.reformulators import RankedMessages


class Space(ABC):
    """One form over one table. It follows what happens to the rows, and tells of it when asked."""

    def __init__(self, form: Form, table: Table) -> None:
        self.form = form
        self._table = table
        self._dimensions = 0 if form.column is None else 1
        self._slots: Ints = np.empty(0, np.int32)
        self._lo: Floats = np.empty(0)
        self._hi: Floats = np.empty(0)

    @property
    @abstractmethod
    def points(self) -> Points:
        """The subscriptions, for the sparse ways."""

    @abstractmethod
    def follow(self, delta: SourceDelta) -> None:
        """Take what happened to the rows without telling anyone."""

    @abstractmethod
    def tell(self, delta: SourceDelta, *, is_sparse: bool, epsilon: float) -> pa.Table:
        """Take a batch, and tell its net change."""

    @abstractmethod
    def snapshot(self) -> pa.Table:
        """The rows that a subscriber starts from. Cost: linear."""

    def arrays(self) -> Arrays:
        """What does not follow from the table's rows."""
        return {}

    def load(self, arrays: Arrays) -> None:
        """Learn the table's rows, in the order that `arrays` tells, if it does."""
        self.follow(self._table.everything())

    def subscribe(self, slots: Ints, lo: Floats, hi: Floats) -> None:
        """Become a space with these subscriptions and no others; slots ascend.

        Cost: linear, and a logarithmic search for each that is not as it was; none if the arrays are those
        of the last time.
        """
        if slots is self._slots:
            return
        _, old, new = np.intersect1d(self._slots, slots, assume_unique=True, return_indices=True)
        is_same = (self._lo[old] == lo[new]) & (self._hi[old] == hi[new])
        gone, come = np.ones(len(self._slots), np.bool_), np.ones(len(slots), np.bool_)
        gone[old[is_same]] = come[new[is_same]] = False
        self.points.remove(self._slots[gone], self._lo[gone], self._hi[gone])
        self.points.insert(slots[come], lo[come], hi[come])
        self._slots, self._lo, self._hi = slots, lo, hi

    def _table_of(self, messages: Messages, keys: pa.Array, delta: SourceDelta) -> pa.Table:
        return messages_table(str(self.form), int(delta.seq[-1]), messages, keys, self._dimensions)

    def _snapshot_of(self, keys: pa.Array, x: Floats, y: Floats, delta: SourceDelta) -> pa.Table:
        seq, born = self._table.next_number - 1, delta.born_after
        is_there = ~np.isnan(x)
        kept = born[is_there] if self.form.kind != "distinct" else np.full(is_there.sum(), ABSENT)
        return snapshot_table(
            str(self.form), seq, keys.filter(pa.array(is_there)), x[is_there], y[is_there], kept,
            self._dimensions,
        )  # fmt: skip

    def _x(self, delta: SourceDelta) -> tuple[Floats, Floats]:
        """Where the rows were and are; NaN for those that no subscription can hold."""
        pair = []
        for side, born in enumerate((delta.born_before, delta.born_after)):
            x = np.zeros(len(delta)) if self.form.column is None else delta.floats(self.form.column)[side]
            is_inside: Bools = born != ABSENT
            for column, low, high in self.form.constants:
                value = delta.floats(column)[side]
                is_inside = is_inside & (low <= value) & (value <= high)
            pair.append(np.where(is_inside, x, np.nan))
        return pair[0], pair[1]


class RankedSpace(Space):
    """A space of top-k, MIN or MAX."""

    def __init__(self, form: Form, table: Table) -> None:
        super().__init__(form, table)
        self._index = RankedMessages(
            form.k, is_extreme=form.kind != "top-k", descending=form.descending or form.kind == "max"
        )

    @property
    def points(self) -> Points:
        return self._index.points

    def follow(self, delta: SourceDelta) -> None:
        self._index.put(delta.row, self._x(delta)[1], delta.floats(self.form.order)[1], delta.born_after)

    def tell(self, delta: SourceDelta, *, is_sparse: bool, epsilon: float) -> pa.Table:
        x, y = self._x(delta)[1], delta.floats(self.form.order)[1]
        told = self._index.apply(delta.row, x, y, delta.born_after, is_sparse=is_sparse, epsilon=epsilon)
        return self._table_of(told, self._table.key_text(told.note_row), delta)

    def snapshot(self) -> pa.Table:
        delta = self._table.everything()
        x, y = self._x(delta)[1], delta.floats(self.form.order)[1]
        return self._snapshot_of(self._table.key_text(delta.row), np.where(np.isnan(y), np.nan, x), y, delta)

    def arrays(self) -> Arrays:
        return self._index.arrays()

    def load(self, arrays: Arrays) -> None:
        delta = self._table.everything()
        x, y = self._x(delta)[1], delta.floats(self.form.order)[1]
        order = np.arange(len(delta))
        if "slot" in arrays:
            place = np.full(int(delta.row.max(initial=-1)) + 1, -1)
            place[delta.row] = order
            order = place[arrays["slot"]]
        self._index.put(delta.row[order], x[order], y[order], delta.born_after[order])


class DistinctSpace(Space):
    """A space of DISTINCT."""

    def __init__(self, form: Form, table: Table) -> None:
        super().__init__(form, table)
        assert table.schema.columns is not None
        self._is_numeric = table.schema.columns[form.order].is_numeric
        self._values = Interner()
        self._index = DistinctMessages()
        self._points = Points()

    @property
    def points(self) -> Points:
        return self._points

    def follow(self, delta: SourceDelta) -> None:
        self._apply(delta)
        self._values.forget()

    def tell(self, delta: SourceDelta, *, is_sparse: bool, epsilon: float) -> pa.Table:
        told = self._apply(delta)
        if is_sparse:
            told = fit_messages(self._points, told)
        table = self._table_of(told, self._values.text(told.note_row), delta)
        self._values.forget()
        return table

    def snapshot(self) -> pa.Table:
        delta = self._table.everything()
        values = one_array(delta.column(self.form.order)[1])
        is_null = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        x = np.where(is_null, np.nan, self._x(delta)[1])
        return self._snapshot_of(text_of(values), x, self._y(delta)[1], delta)

    def _apply(self, delta: SourceDelta) -> Messages:
        before, after = (one_array(column) for column in delta.column(self.form.order))
        x, y = self._x(delta), self._y(delta)
        new, old = self._values.acquire(after), self._values.release(before)
        return self._index.apply(Values(old, x[0], y[0]), Values(new, x[1], y[1]))

    def _y(self, delta: SourceDelta) -> tuple[Floats, Floats]:
        if self._is_numeric:
            return delta.floats(self.form.order)
        return np.full(len(delta), np.nan), np.full(len(delta), np.nan)
