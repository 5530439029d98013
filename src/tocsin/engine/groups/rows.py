"""Groups over the rows of a table or a window: top-k, live rows, score thresholds, MIN to AVG."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.arrays.changes import LEAVE, ChangeSet
from tocsin.arrays.types import Arrays, Floats, Ints, Longs
from tocsin.engine.conversion.arrow import one_array, with_nulls
from tocsin.engine.conversion.exactness import (
    Limits,
    check_limits,
    comparison_limits,
    double_limits,
    least_limits,
)
from tocsin.engine.conversion.intake import NAME
from tocsin.engine.conversion.small_batch import SmallBatch
from tocsin.engine.conversion.text import json_rows, text_of
from tocsin.engine.groups.base import Group
from tocsin.engine.groups.text_bounds import BoundValues
from tocsin.engine.saving import with_prefix, with_prefix_stripped
from tocsin.engine.sources.deltas import SourceDelta
from tocsin.engine.sources.tables import Table
from tocsin.engine.sources.windows import Window
from tocsin.errors import RowError
from tocsin.grids import Grid, grid_of
from tocsin.indexes.contract import BoundIndex, RowDelta, RowIndex
from tocsin.indexes.ranges import in_units
from tocsin.language import (
    Aggregate,
    Column,
    Dimension,
    Distinct,
    Expression,
    Plan,
    Rows,
    Selected,
    TopK,
    bind,
    bind_texts,
)
from tocsin.language.plan_keys import compared_columns_of, region_of
from tocsin.planning import TABLE, WINDOW, question_of
from tocsin.types import ColumnType


class RowGroup(Group):
    """A group whose index applies deltas of rows."""

    def __init__(self, plan: Plan, sources: tuple[Table | Window, ...]) -> None:
        super().__init__(plan, sources)
        self._delta: SourceDelta | None = None

    def bind(self, plan: Plan, parameters: Mapping[str, pa.Array], count: int, repeat: bool) -> BoundValues:
        return BoundValues(bind(plan, parameters, count), bind_texts(plan, parameters, count))

    def register(self, slots: Ints, values: BoundValues) -> None:
        self._texts.register(slots, values)
        self.index.register(slots, values.arrays)

    def end_batch(self) -> None:
        self._delta = None

    @property
    @abstractmethod
    def index(self) -> BoundIndex:
        """The index that maintains the group's subscriptions."""

    def refusing(self, source: str, rows: pa.Table | SmallBatch) -> Ints:
        """The subscriptions that cannot be kept exactly with these rows. Cost: linear in the rows."""
        try:
            check_limits(rows, self.limits(source), source=source)
        except RowError:
            return self.live()
        return np.empty(0, np.int32)

    def size(self, slot: int) -> int:
        return len(self.index.result(np.array([slot], np.int32)).row)

    @abstractmethod
    def apply(self, source: str, delta: SourceDelta) -> ChangeSet:
        """The changes of the group's subscriptions. The caller has checked `limits`."""

    def apply_silently(self, source: str, delta: SourceDelta) -> None:
        """Apply the delta without reporting changes."""
        self.apply(source, delta)


class SelectGroup(RowGroup):
    """`SELECT cols FROM one source`: answers are rows, by rank or not."""

    def __init__(self, plan: TopK | Rows, source: Table | Window, index: str | None = None) -> None:
        super().__init__(plan, (source,))
        self._source = source
        self._select = plan.select
        compared = compared_columns_of(plan.box)
        region = region_of(plan)
        box = ranged_reads(plan.box)
        computed = list(region.columns) if region else []
        #: the grid of a score that is a single column
        self._grid: Grid | None = None
        if plan.score is not None and isinstance(plan.score.expression, Column):
            name = plan.score.columns[0]
            self._grid = grid_of(source.store.schema.field(name).type)
            self._columns = [*box, *map(_computed, computed), _compared(name)]
            compared.append(name)
        else:
            computed += plan.score.columns if plan.score else ()
            self._columns = [*box, *map(_computed, computed)]
        self._limits = comparison_limits(source.store.schema, compared)
        self._selected_columns = [item.column for item in plan.select]
        kind = WINDOW if isinstance(source, Window) else TABLE
        self._index = self._make_index(question_of(plan, kind), index)

    @property
    def index(self) -> RowIndex:
        return self._index

    def apply(self, source: str, delta: SourceDelta) -> ChangeSet:
        self._delta = delta
        touched = delta.touched(self._selected_columns)
        return self._index.apply(delta.for_index(*columns_of(delta, self._columns), touched))

    def limits(self, source: str) -> Limits:
        return self._limits

    def scores(self, changes: ChangeSet) -> Floats:
        return changes.score if self._grid is None else self._grid.doubles(changes.score)

    def apply_silently(self, source: str, delta: SourceDelta) -> None:
        untouched = np.zeros(len(delta), np.bool_)
        self._index.follow(delta.for_index(*columns_of(delta, self._columns), untouched))

    def result(self, slot: int) -> pa.Table:
        rows = self._index.result(np.array([slot], np.int32)).row
        return selected(self._source, self._source.positions(rows), self._select)

    def keys(self, changes: ChangeSet) -> pa.ChunkedArray:
        return pa.chunked_array([self._source.key_text(changes.row)], pa.string())

    def rows(self, changes: ChangeSet) -> pa.Array:
        positions = rows_at(self._source, self._delta, changes.row, changes.step)
        positions[changes.op == LEAVE] = -1
        return distinct_json(self._source, positions, self._select)


class AggregateGroup(RowGroup):
    """`SELECT MIN(y) FROM t WHERE box`, and MAX, COUNT, SUM, AVG: one value.

    Decimals are summed in units of their last place, which are whole, so that the sum is exact.
    """

    def __init__(self, plan: Aggregate, source: Table, index: str | None = None) -> None:
        super().__init__(plan, (source,))
        self._source = source
        self._function = plan.function
        self._column = plan.column
        self._computed = None if plan.expression is None else computed_dimension(plan.source, plan.expression)
        self._name = plan.name
        self._where = where_columns(plan)
        self._index = self._make_index(question_of(plan, TABLE), index)
        self._is_extreme = plan.function in ("min", "max")
        schema = source.store.schema
        self._grid = grid_of(schema.field(plan.column).type) if self._is_extreme and plan.column else None
        box = compared_columns_of(plan.box)
        self._limits = comparison_limits(
            schema, [*box, plan.column] if self._is_extreme and plan.column else box
        )
        #: units in 1, of a column that is summed
        self._per_unit = 1.0
        if plan.function in ("sum", "avg") and plan.column:
            self._limits = least_limits([self._limits, double_limits(schema, [plan.column])])
            kind = schema.field(plan.column).type
            self._per_unit = 10.0**kind.scale if pa.types.is_decimal(kind) else 1.0

    @property
    def index(self) -> RowIndex:
        return self._index

    def apply(self, source: str, delta: SourceDelta) -> ChangeSet:
        return self._index.apply(self._index_delta(delta))

    def limits(self, source: str) -> Limits:
        return self._limits

    def scores(self, changes: ChangeSet) -> Floats:
        if self._grid is not None:
            return self._grid.doubles(changes.score)
        return changes.score if self._per_unit == 1 else changes.score / self._per_unit

    def apply_silently(self, source: str, delta: SourceDelta) -> None:
        self._index.follow(self._index_delta(delta))

    def arrays(self) -> Arrays:
        return {**super().arrays(), "per_unit": np.array([self._per_unit])}

    def restore(self, arrays: Arrays) -> None:
        """Before `per_unit` was saved, decimals were summed as doubles."""
        saved = float(arrays["per_unit"][0]) if "per_unit" in arrays else 1.0
        if saved != self._per_unit:
            migrated = in_units(with_prefix_stripped(arrays, "index"), self._per_unit)
            arrays = {**arrays, **dict(with_prefix("index", migrated))}
        super().restore(arrays)

    def _in_units(self, values: Floats) -> Floats:
        """Decimals in units of their last place. Exact: within the limits they have at most 15 digits."""
        return values if self._per_unit == 1 else np.rint(values * self._per_unit)

    def _index_delta(self, delta: SourceDelta) -> RowDelta:
        """The delta as the index takes it."""
        before, after = columns_of(delta, self._where)
        if self._computed is not None:
            y_before, y_after = delta.ranged(self._computed)
            before.append(y_before)
            after.append(y_after)
        elif self._column is None or not self._is_numeric():
            # COUNT depends only on whether the value is NULL.
            present_before, present_after = self._presence(delta)
            before.append(present_before)
            after.append(present_after)
        else:
            read = delta.coordinates if self._is_extreme else delta.floats
            y_before, y_after = read(self._column)
            before.append(self._in_units(y_before))
            after.append(self._in_units(y_after))
        return delta.for_index(before, after, np.zeros(len(delta), np.bool_))

    def result(self, slot: int) -> pa.Table:
        answer = self._index.result(np.array([slot], np.int32))
        row, value = int(answer.row[0]), float(answer.score[0])
        column: pa.Array | pa.ChunkedArray
        if self._is_extreme and self._column is not None:
            position = self._source.positions(answer.row) if row >= 0 else np.array([-1], np.int64)
            column = self._source.store.take(position, [self._column]).column(0)
        elif self._function == "count":
            column = pa.array([int(value)], pa.int64())
        else:
            column = pa.array([None if np.isnan(value) else value / self._per_unit], pa.float64())
        return pa.table({self._name: column})

    def keys(self, changes: ChangeSet) -> pa.ChunkedArray:
        if self._function not in ("min", "max"):
            return pa.chunked_array([pa.nulls(len(changes.row), pa.string())])
        # The key is null where no row is the answer; any valid slot stands in.
        named = changes.row >= 0
        if not named.any():
            return pa.chunked_array([pa.nulls(len(named), pa.string())])
        texts = self._source.key_text(np.where(named, changes.row, changes.row.max()))
        return pa.chunked_array([with_nulls(texts, named)], pa.string())

    def rows(self, changes: ChangeSet) -> pa.Array:
        return pa.nulls(len(changes.row), pa.string())

    def _is_numeric(self) -> bool:
        assert self._source.schema.columns is not None
        return self._column is not None and self._source.schema.columns[self._column].is_numeric

    def _presence(self, delta: SourceDelta) -> tuple[Floats, Floats]:
        if self._column is None:
            return np.zeros(len(delta)), np.zeros(len(delta))
        before, after = delta.column(self._column)
        return (
            np.where(before.is_null().to_numpy(), np.nan, 0.0),
            np.where(after.is_null().to_numpy(), np.nan, 0.0),
        )


class ColumnRead(NamedTuple):
    """A column that an index reads, to compare it or to compute with it; or a dimension."""

    column: str
    is_compared: bool
    dimension: Dimension | None = None

    def of(self, delta: SourceDelta) -> tuple[Floats, Floats]:
        """Its values before and after."""
        if self.dimension is not None:
            return delta.ranged(self.dimension)
        return delta.coordinates(self.column) if self.is_compared else delta.floats(self.column)


def where_columns(plan: Aggregate | Distinct) -> list[ColumnRead]:
    """The columns of the ranges, then those of the disk or half-plane, if any."""
    region = region_of(plan)
    return ranged_reads(plan.box) + [_computed(column) for column in (region.columns if region else ())]


def computed_dimension(source: str, expression: Expression) -> Dimension:
    """Arithmetic over columns, as deltas and events compute it."""
    return Dimension(source, str(expression), ColumnType.parse("double", column=""), (), (), expression)


def ranged_reads(box: tuple[Dimension, ...]) -> list[ColumnRead]:
    """The dimensions of a box."""
    return [ColumnRead(dimension.column, True, dimension) for dimension in box]


def _compared(column: str) -> ColumnRead:
    return ColumnRead(column, True)


def _computed(column: str) -> ColumnRead:
    return ColumnRead(column, False)


def selected(source: Table | Window, positions: Longs, select: tuple[Selected, ...]) -> pa.Table:
    """The SELECT list of the rows at `positions`, under its output names."""
    name = source.schema.key if isinstance(source, Window) else None
    wanted = [item.column for item in select] + ([] if name is None else [name])
    rows = source.store.take(positions, list(dict.fromkeys(wanted)))
    shown = pa.table([rows.column(item.column) for item in select], names=[item.name for item in select])
    return shown if name is None else shown.append_column(NAME, text_of(one_array(rows.column(name))))


def rows_at(source: Table | Window, delta: SourceDelta | None, rows: Ints, steps: Ints) -> Longs:
    """The position of each row in the store just after its step."""
    now = source.positions(rows).copy()
    if delta is None or delta.store is not source.store:
        return now
    return delta.positions_at(rows, steps, now)


def distinct_json(source: Table | Window, positions: Longs, select: tuple[Selected, ...]) -> pa.Array:
    """JSON of the rows at `positions`, each formatted once; null at -1."""
    distinct, place = np.unique(positions, return_inverse=True)
    first = int(np.searchsorted(distinct, 0))
    texts = json_rows(selected(source, distinct[first:], select))
    return texts.take(pa.array(place - first, mask=positions < 0))


def columns_of(delta: SourceDelta, readings: list[ColumnRead]) -> tuple[list[Floats], list[Floats]]:
    """The columns before and after, as an index reads them."""
    pairs = [reading.of(delta) for reading in readings]
    return [before for before, _ in pairs], [after for _, after in pairs]
