"""Groups over the rows of a table or a window: top-k, live rows, score thresholds, MIN to AVG."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.engine.arrow import one_array, with_nulls
from tocsin.engine.compiling import compile_score
from tocsin.engine.deltas import SourceDelta
from tocsin.engine.groups.base import Group
from tocsin.engine.intake import NAME
from tocsin.engine.limits import Limits, as_doubles, compared, joined
from tocsin.engine.tables import Table
from tocsin.engine.text import json_rows, text_of
from tocsin.engine.windows import Window
from tocsin.grids import Grid, grid_of
from tocsin.indexes.contract import (
    LEAVE,
    Arrays,
    BoundIndex,
    ChangeSet,
    Floats,
    Ints,
    Longs,
    RowDelta,
    RowIndex,
)
from tocsin.indexes.ranges import ExtremeRange, RangeAggregate, TopKRange, TopKScan
from tocsin.indexes.shared.limits import ByLimit, LimitClass
from tocsin.indexes.shared.longlists import LongLists
from tocsin.indexes.shared.members import Members
from tocsin.indexes.windows import PreferenceViews
from tocsin.language import Aggregate, Column, Distinct, Plan, Rows, Selected, TopK, bind
from tocsin.language.shapes import region_of

#: Up to this k, lists of one range share tiles with those of the smallest k.
SHORT = 64
#: Above this k a list is kept whole.
LONG = 1024


class RowGroup(Group):
    """A group whose index sees what happens to rows."""

    def __init__(self, plan: Plan, sources: tuple[Table | Window, ...]) -> None:
        super().__init__(plan, tuple(source.schema.name for source in sources))
        self._delta: SourceDelta | None = None

    def bind(self, plan: Plan, parameters: Mapping[str, pa.Array], count: int, repeat: bool) -> Arrays:
        return bind(plan, parameters, count)

    def register(self, slots: Ints, values: Arrays) -> None:
        self.index.register(slots, values)

    def finish(self) -> None:
        self._delta = None

    @property
    @abstractmethod
    def index(self) -> BoundIndex:
        """The index that keeps the group's subscriptions."""

    @abstractmethod
    def apply(self, source: str, delta: SourceDelta) -> ChangeSet:
        """What the delta changes for the group's subscriptions. `limits` must have been seen to."""

    @abstractmethod
    def limits(self, source: str) -> Limits:
        """The values of a source that the group's index can keep exactly."""

    def follow(self, source: str, delta: SourceDelta) -> None:
        """Take the delta without asking what it changes."""
        self.apply(source, delta)


class SelectGroup(RowGroup):
    """`SELECT cols FROM one source`: answers are rows, by rank or not."""

    def __init__(self, plan: TopK | Rows, source: Table | Window) -> None:
        super().__init__(plan, (source,))
        self._source = source
        self._select = plan.select
        box = [dimension.column for dimension in plan.box]
        region = region_of(plan)
        computed = list(region.columns) if region else []
        #: the grid of a score that is a column by itself
        self._grid: Grid | None = None
        if plan.score is not None and isinstance(plan.score.expression, Column):
            name = plan.score.columns[0]
            self._grid = grid_of(source.store.schema.field(name).type)
            self._columns = [*map(_compared, box), *map(_computed, computed), _compared(name)]
            box = [*box, name]
        else:
            computed += plan.score.columns if plan.score else ()
            self._columns = [*map(_compared, box), *map(_computed, computed)]
        self._limits = compared(source.store.schema, box)
        self._shown = [item.column for item in plan.select]
        self._index = _select_index(plan, windowed=isinstance(source, Window))
        is_plain = isinstance(plan, Rows) or isinstance(plan.score.expression, Column)
        self.room = "ranges" if is_plain and isinstance(source, Table) else "windows"

    @property
    def index(self) -> RowIndex:
        return self._index

    def apply(self, source: str, delta: SourceDelta) -> ChangeSet:
        self._delta = delta
        touched = delta.touched(self._shown)
        return self._index.apply(delta.for_index(*columns_of(delta, self._columns), touched))

    def limits(self, source: str) -> Limits:
        return self._limits

    def scores(self, changes: ChangeSet) -> Floats:
        return changes.score if self._grid is None else self._grid.doubles(changes.score)

    def follow(self, source: str, delta: SourceDelta) -> None:
        if isinstance(self._index, ByLimit):
            untouched = np.zeros(len(delta), np.bool_)
            self._index.follow(delta.for_index(*columns_of(delta, self._columns), untouched))
        else:
            self.apply(source, delta)

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
    """`SELECT MIN(y) FROM t WHERE box`, and MAX, COUNT, SUM, AVG: one value."""

    room = "ranges"

    def __init__(self, plan: Aggregate, source: Table) -> None:
        super().__init__(plan, (source,))
        self._source = source
        self._function = plan.function
        self._column = plan.column
        self._name = plan.name
        self._where = where_columns(plan)
        self._index = _aggregate_index(plan)
        self._is_extreme = plan.function in ("min", "max")
        schema = source.store.schema
        self._grid = grid_of(schema.field(plan.column).type) if self._is_extreme and plan.column else None
        box = [dimension.column for dimension in plan.box]
        self._limits = compared(schema, [*box, plan.column] if self._is_extreme and plan.column else box)
        if plan.function in ("sum", "avg") and plan.column:
            self._limits = joined([self._limits, as_doubles(schema, [plan.column])])

    @property
    def index(self) -> RowIndex:
        return self._index

    def apply(self, source: str, delta: SourceDelta) -> ChangeSet:
        return self._index.apply(self._seen(delta))

    def limits(self, source: str) -> Limits:
        return self._limits

    def scores(self, changes: ChangeSet) -> Floats:
        return changes.score if self._grid is None else self._grid.doubles(changes.score)

    def follow(self, source: str, delta: SourceDelta) -> None:
        if isinstance(self._index, ExtremeRange):
            self._index.follow(self._seen(delta))
        else:
            self.apply(source, delta)

    def _seen(self, delta: SourceDelta) -> RowDelta:
        """The delta as the index sees it."""
        before, after = columns_of(delta, self._where)
        if self._column is None or not self._is_numeric():
            # COUNT looks only at whether the value is there.
            present_before, present_after = self._presence(delta)
            before.append(present_before)
            after.append(present_after)
        else:
            read = delta.coordinates if self._is_extreme else delta.floats
            y_before, y_after = read(self._column)
            before.append(y_before)
            after.append(y_after)
        return delta.for_index(before, after, np.zeros(len(delta), np.bool_))

    def result(self, slot: int) -> pa.Table:
        answer = self._index.result(np.array([slot], np.int32))
        row, value = int(answer.row[0]), float(answer.score[0])
        column: pa.Array | pa.ChunkedArray
        if self._function in ("min", "max"):
            assert self._column is not None
            position = self._source.positions(answer.row) if row >= 0 else np.array([-1], np.int64)
            column = self._source.store.take(position, [self._column]).column(0)
        elif self._function == "count":
            column = pa.array([int(value)], pa.int64())
        else:
            column = pa.array([None if np.isnan(value) else value], pa.float64())
        return pa.table({self._name: column})

    def keys(self, changes: ChangeSet) -> pa.ChunkedArray:
        if self._function not in ("min", "max"):
            return pa.chunked_array([pa.nulls(len(changes.row), pa.string())])
        # Where no row is the answer, the key is hidden; the largest slot among them is one of a row.
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


class Reading(NamedTuple):
    """A column as an index reads it: to be compared, or to be computed with."""

    column: str
    is_compared: bool


def where_columns(plan: Aggregate | Distinct) -> list[Reading]:
    """The columns of the ranges, then those of the disk or half-plane if there is one."""
    region = region_of(plan)
    box = [_compared(dimension.column) for dimension in plan.box]
    return box + [_computed(column) for column in (region.columns if region else ())]


def _compared(column: str) -> Reading:
    return Reading(column, True)


def _computed(column: str) -> Reading:
    return Reading(column, False)


def selected(source: Table | Window, positions: Longs, select: tuple[Selected, ...]) -> pa.Table:
    """The SELECT list of the rows at `positions`, under the names it gives them."""
    name = source.schema.key if isinstance(source, Window) else None
    wanted = [item.column for item in select] + ([] if name is None else [name])
    rows = source.store.take(positions, list(dict.fromkeys(wanted)))
    shown = pa.table([rows.column(item.column) for item in select], names=[item.name for item in select])
    return shown if name is None else shown.append_column(NAME, text_of(one_array(rows.column(name))))


def rows_at(source: Table | Window, delta: SourceDelta | None, rows: Ints, steps: Ints) -> Longs:
    """Where each row was in the store just after its step."""
    now = source.positions(rows).copy()
    if delta is None or delta.store is not source.store:
        return now
    return delta.positions_at(rows, steps, now)


def distinct_json(source: Table | Window, positions: Longs, select: tuple[Selected, ...]) -> pa.Array:
    """JSON of the rows at `positions`, each written once however often it is told; null at -1."""
    distinct, place = np.unique(positions, return_inverse=True)
    first = int(np.searchsorted(distinct, 0))
    texts = json_rows(selected(source, distinct[first:], select))
    return texts.take(pa.array(place - first, mask=positions < 0))


def columns_of(delta: SourceDelta, readings: list[Reading]) -> tuple[list[Floats], list[Floats]]:
    """The columns before and after, as an index reads them."""
    pairs = [
        delta.coordinates(column) if is_compared else delta.floats(column) for column, is_compared in readings
    ]
    return [before for before, _ in pairs], [after for _, after in pairs]


def _select_index(plan: TopK | Rows, *, windowed: bool) -> RowIndex:
    dimensions = len(plan.box)
    if isinstance(plan, Rows):
        return Members(dimensions, compile_score(plan.score) if plan.score else None)
    if windowed or not isinstance(plan.score.expression, Column):
        views = PreferenceViews(
            dimensions, compile_score(plan.score), descending=plan.descending, newest_first=windowed
        )
        return ByLimit(views, [_long_lists(plan, windowed=windowed)])
    if plan.region is None and dimensions == 1:
        # Tiles are as large as the largest k needs them.
        larger = LimitClass(SHORT, lambda: TopKRange(descending=plan.descending))
        return ByLimit(TopKRange(descending=plan.descending), [larger, _long_lists(plan, windowed=False)])
    region = None if plan.region is None else plan.region.kind
    scan = TopKScan(dimensions, region=region, descending=plan.descending)
    return ByLimit(scan, [_long_lists(plan, windowed=False)])


def _long_lists(plan: TopK, *, windowed: bool) -> LimitClass:
    """The class of the largest k."""
    return LimitClass(
        LONG,
        lambda: LongLists(
            len(plan.box),
            compile_score(plan.score),
            region=None if plan.region is None else plan.region.kind,
            descending=plan.descending,
            newest_first=windowed,
        ),
    )


def _aggregate_index(plan: Aggregate) -> RowIndex:
    region = None if plan.region is None else plan.region.kind
    if len(plan.box) == 1 and plan.function in ("min", "max") and region is None:
        return ExtremeRange(descending=plan.function == "max")
    return RangeAggregate(len(plan.box), function=plan.function, region=region)
