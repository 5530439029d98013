"""Groups that test values for equality: DISTINCT and the select-join."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays.changes import LEAVE, ChangeSet
from tocsin.arrays.types import Arrays, Longs
from tocsin.engine.conversion.arrow import one_array
from tocsin.engine.conversion.exactness import Limits, comparison_limits
from tocsin.engine.conversion.text import json_pairs, json_rows, number_keys, value_of
from tocsin.engine.groups.rows import RowGroup, columns_of, ranged_reads, rows_at, selected, where_columns
from tocsin.engine.interning import ValueInterner, Values
from tocsin.engine.saving import with_prefix, with_prefix_stripped
from tocsin.engine.sources.deltas import SourceDelta
from tocsin.engine.sources.tables import Table
from tocsin.indexes.contract import BoundIndex, RowDelta
from tocsin.language import Distinct, Join, Plan, Selected
from tocsin.language.plan_keys import compared_columns_of
from tocsin.planning import TABLE, question_of


class ValueGroup(RowGroup):
    """A group whose index compares codes of values."""

    def __init__(self, plan: Plan, sources: tuple[Table, ...]) -> None:
        super().__init__(plan, sources)
        self._values = ValueInterner()

    def end_batch(self) -> None:
        super().end_batch()
        self._values.free_unused()

    def arrays(self) -> Arrays:
        return {**super().arrays(), **dict(with_prefix("values", self._values.arrays()))}

    def restore(self, arrays: Arrays) -> None:
        super().restore(arrays)
        self._values.restore(with_prefix_stripped(arrays, "values"))


class DistinctGroup(ValueGroup):
    """`SELECT DISTINCT y FROM t WHERE box`: answers are values; a change's row is the value's code."""

    def __init__(self, plan: Distinct, source: Table, index: str | None = None) -> None:
        super().__init__(plan, (source,))
        assert source.schema.columns is not None
        self._selected = plan.selected
        self._type = source.schema.columns[plan.selected.column]
        self._where = where_columns(plan)
        self._limits = comparison_limits(source.store.schema, compared_columns_of(plan.box))
        self._index = self._make_index(question_of(plan, TABLE), index)

    @property
    def index(self) -> BoundIndex:
        return self._index

    def apply(self, source: str, delta: SourceDelta) -> ChangeSet:
        before, after = columns_of(delta, self._where)
        values_before, values_after = delta.values(self._selected.column)
        after.append(self._values.acquire(values_after))
        before.append(self._values.release(values_before))
        if self._type.is_numeric:
            y_before, y_after = delta.floats(self._selected.column)
        else:
            y_before, y_after = np.full(len(delta), np.nan), np.full(len(delta), np.nan)
        before.append(y_before)
        after.append(y_after)
        return self._index.apply(delta.for_index(before, after, np.zeros(len(delta), np.bool_)))

    def limits(self, source: str) -> Limits:
        return self._limits

    def result(self, slot: int) -> pa.Table:
        codes = self._index.result(np.array([slot], np.int32)).row
        values = value_of(self._values.text(codes), self._type.arrow)
        return pa.table({self._selected.name: values.take(pc.sort_indices(values))})

    def keys(self, changes: ChangeSet) -> pa.ChunkedArray:
        return pa.chunked_array([self._values.text(changes.row)], pa.string())

    def rows(self, changes: ChangeSet) -> pa.Array:
        values = value_of(self._values.text(changes.row), self._type.arrow)
        texts = json_rows(pa.table({self._selected.name: values}))
        return pc.if_else(pa.array(changes.op == LEAVE), pa.scalar(None, pa.string()), texts)


class JoinGroup(ValueGroup):
    """`SELECT … FROM r JOIN s ON r.a = s.a WHERE …`: answers are pairs of rows."""

    def __init__(self, plan: Join, left: Table, right: Table, index: str | None = None) -> None:
        super().__init__(plan, (left, right))
        assert left.schema.columns is not None
        assert right.schema.columns is not None
        self._sides = (left, right)
        self._on = (plan.left_on, plan.right_on)
        self._select = plan.select
        boxes = (plan.left_box, plan.right_box)
        self._boxes = tuple(map(ranged_reads, boxes))
        self._limits = [
            comparison_limits(side.store.schema, compared_columns_of(box))
            for side, box in zip((left, right), boxes, strict=True)
        ]
        types = {left.schema.columns[plan.left_on].arrow, right.schema.columns[plan.right_on].arrow}
        #: numbers of two types are compared by value, not by representation
        self._is_mixed = len(types) > 1
        self._index = self._make_index(question_of(plan, TABLE), index)
        #: the current delta in the form that the index takes, once it is known
        self._seen: RowDelta | None = None

    @property
    def index(self) -> BoundIndex:
        return self._index

    def apply(self, source: str, delta: SourceDelta) -> ChangeSet:
        self._delta = delta
        return self._index.apply(self._see(source, delta), self.sources.index(source))

    def most(self, source: str, delta: SourceDelta) -> int:
        """An upper bound on the pairs that a delta changes, over all subscriptions. `apply` must follow."""
        return self._index.most(self._see(source, delta), self.sources.index(source))

    def count(self, source: str, delta: SourceDelta) -> Longs:
        """By how many pairs a delta changes each answer, by local slot. `apply` must follow."""
        return self._index.count(self._see(source, delta), self.sources.index(source))

    def _see(self, source: str, delta: SourceDelta) -> RowDelta:
        """The delta as the index reads it. Its values are acquired and released once."""
        if self._seen is None:
            side = self.sources.index(source)
            before, after = columns_of(delta, self._boxes[side])
            on_before, on_after = self._joined_by(delta, self._on[side])
            after.append(self._values.acquire(on_after))
            before.append(self._values.release(on_before))
            touched = delta.touched([item.column for item in self._select if item.source == source])
            self._seen = delta.for_index(before, after, touched)
        return self._seen

    def limits(self, source: str) -> Limits:
        return self._limits[self.sources.index(source)]

    def end_batch(self) -> None:
        super().end_batch()
        self._seen = None

    def size(self, slot: int) -> int:
        return int(self._index.sizes(np.array([slot], np.int32))[0])

    def result(self, slot: int) -> pa.Table:
        answer = self._index.result(np.array([slot], np.int32))
        born = [side.born(rows) for side, rows in zip(self._sides, (answer.row, answer.other), strict=True)]
        order = np.lexsort((born[1], born[0]))
        positions = [
            side.positions(rows[order])
            for side, rows in zip(self._sides, (answer.row, answer.other), strict=True)
        ]
        return self._pairs(positions)

    def keys(self, changes: ChangeSet) -> pa.ChunkedArray:
        left, right = self._sides[0].key_text(changes.row), self._sides[1].key_text(changes.other)
        return pa.chunked_array([json_pairs(left, right)], pa.string())

    def rows(self, changes: ChangeSet) -> pa.Array:
        positions = [
            rows_at(side, self._delta, rows, changes.step)
            for side, rows in zip(self._sides, (changes.row, changes.other), strict=True)
        ]
        texts = json_rows(self._pairs(positions))
        return pc.if_else(pa.array(changes.op == LEAVE), pa.scalar(None, pa.string()), texts)

    def _pairs(self, positions: list[np.ndarray]) -> pa.Table:
        parts: dict[str, pa.ChunkedArray] = {}
        for side, at in zip(self._sides, positions, strict=True):
            items: tuple[Selected, ...] = tuple(i for i in self._select if i.source == side.schema.name)
            table = selected(side, at, items)
            parts.update({item.name: table.column(item.name) for item in items})
        names = [item.name for item in self._select]
        return pa.table([parts[name] for name in names], names=names)

    def _joined_by(self, delta: SourceDelta, name: str) -> tuple[Values, Values]:
        if not self._is_mixed:
            return delta.values(name)
        before, after = (number_keys(one_array(column)) for column in delta.column(name))
        return before, after
