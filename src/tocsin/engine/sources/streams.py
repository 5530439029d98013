"""Streams without a window: each row is an event, evaluated and not retained."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tocsin.arrays.types import Arrays, Floats, Longs
from tocsin.engine.conversion.arrow import one_array
from tocsin.engine.conversion.event_sets import sets_from_rows
from tocsin.engine.conversion.events import SeveralValues, events_from_columns, events_from_rows, row_of
from tocsin.engine.conversion.exactness import check_limits, comparison_limits
from tocsin.engine.conversion.filtering import numbers_of_expression, ranged_values, truth_of
from tocsin.engine.conversion.floats import coordinates_of
from tocsin.engine.conversion.intake import (
    NAME,
    WEIGHTS,
    RowBatch,
    as_columns_or_rows,
    read_batch,
    refuse_nulls,
)
from tocsin.engine.conversion.text import SMALL_COLUMN, json_of, json_rows, key_texts_of_list, text_of
from tocsin.engine.conversion.values import Moment, is_null_value, python_value
from tocsin.engine.sources.text_columns import TextColumns
from tocsin.errors import RowError
from tocsin.grids import grid_of
from tocsin.indexes.matching import Events, EventSets
from tocsin.language import Dimension, Expression, RowFilter, Selected, SourceSchema
from tocsin.language.conditions.row_filters import compared_columns
from tocsin.language.plan_keys import compared_columns_of

#: Attributes of events that are computed from their columns, by name.
Computed: TypeAlias = Mapping[str, "Expression | RowFilter"]


class Stream:
    """A stream's declaration and row count."""

    def __init__(self, schema: SourceSchema, score_rule: str = "sum") -> None:
        self.schema = schema
        #: how the weights of a match combine to a score
        self.score_rule = score_rule
        self.texts = TextColumns(list(schema.columns or ()))
        self.next_number = 0
        self.late = 0
        self.weightless = 0

    def read(self, rows: Any) -> EventBatch:
        """Rows as events, numbered from `next_number` on. Raises RowError; changes nothing."""
        if self.schema.columns is not None:
            batch = read_batch(
                rows, self.schema.columns, source=self.schema.name, key=self.schema.key, extra=WEIGHTS
            )
            return TypedBatch(self.schema, self.next_number, batch, self.texts)
        return SparseBatch(self.schema, self.next_number, rows)

    def arrays(self) -> Arrays:
        return {"numbers": np.array([self.next_number, self.weightless]), **self.texts.arrays()}

    def restore(self, arrays: Arrays) -> None:
        self.next_number, self.weightless = (int(number) for number in arrays["numbers"])
        self.texts.restore(arrays)


class EventBatch(ABC):
    """A batch of events, as the groups of a stream read them."""

    def __init__(self, schema: SourceSchema, first_number: int, count: int) -> None:
        self.schema = schema
        self.seq: Longs = np.arange(first_number, first_number + count, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.seq)

    @abstractmethod
    def events(self, asks: Callable[[str], bool], computed: Computed) -> Events | EventSets:
        """The batch as matching indexes read it; `asks` says whether any predicate reads an attribute.

        Attributes that are `computed` from columns stand beside the others.
        Raises RowError for a value that is no attribute, or that cannot be compared exactly.
        """

    def column(self, name: str) -> pa.ChunkedArray:
        """A declared column."""
        raise TypeError(f"only the rows of a stream with columns have columns, got {name!r}")

    def coordinates(self, name: str) -> Floats:
        """A declared column in the coordinates that indexes compare. Raises RowError beyond them."""
        raise TypeError(f"only the rows of a stream with columns have columns, got {name!r}")

    def ranged(self, dimension: Dimension) -> Floats:
        """What a dimension bounds, as `coordinates`."""
        raise TypeError(f"only the rows of a stream with columns have columns, got {dimension.column!r}")

    def keys(self, positions: np.ndarray) -> pa.Array:
        """The keys of events: their numbers as text."""
        if len(positions) <= SMALL_COLUMN:
            return pa.array(key_texts_of_list(self.seq[positions].tolist()), pa.string())
        return _texts_at(pa.array(self.seq), positions)

    @abstractmethod
    def json(self, positions: np.ndarray, select: tuple[Selected, ...]) -> pa.Array:
        """The SELECT list of events as JSON, with their names if the stream has a key."""

    @abstractmethod
    def names(self, positions: np.ndarray) -> pa.Array:
        """The key column of events as text."""


class TypedBatch(EventBatch):
    """Events with declared columns."""

    def __init__(self, schema: SourceSchema, first_number: int, batch: RowBatch, texts: TextColumns) -> None:
        super().__init__(schema, first_number, batch.rows.num_rows)
        self._batch = batch
        self._texts = texts
        check_weights(batch.weights, schema.name)

    def events(self, asks: Callable[[str], bool], computed: Computed) -> Events:
        rows = self._batch.rows
        for field in rows.schema:
            grid = grid_of(field.type)
            if grid is None or not grid.is_ordinal or pa.types.is_int32(field.type):
                continue
            place = rows.schema.get_field_index(field.name)
            if not asks(field.name):
                rows = rows.remove_column(place)
            else:
                # In the coordinates of the operands.
                rows = rows.set_column(
                    place, field.name, pa.array(self.coordinates(field.name), from_pandas=True)
                )
        for name, source in computed.items():
            if asks(name):
                rows = rows.append_column(name, self._computed(source))
        return events_from_columns(rows, self._batch.weights)

    def _computed(self, source: Expression | RowFilter) -> pa.Array:
        if isinstance(source, Expression):
            numbers = numbers_of_expression(source, self._array, len(self))
            return pa.array(numbers, from_pandas=True)
        for name in set(compared_columns(source)):
            self._check_limits(name)
        true, false = truth_of(source, self._array, len(self))
        return pa.array(true, mask=~(true | false))

    def _array(self, name: str) -> pa.Array:
        return one_array(self.column(name))

    def _check_limits(self, name: str) -> None:
        limits = comparison_limits(self._batch.rows.schema, [name])
        check_limits(self._batch.rows, limits, source=self.schema.name)

    def coordinates(self, name: str) -> Floats:
        if name in self._texts:
            return self._texts[name].find(one_array(self.column(name)))
        self._check_limits(name)
        return coordinates_of(self.column(name))

    def ranged(self, dimension: Dimension) -> Floats:
        if dimension.expression is None and dimension.filter is None:
            return self.coordinates(dimension.column)
        for name in set(compared_columns_of([dimension])):
            self._check_limits(name)
        values = ranged_values(dimension, self._array, np.ones(len(self), np.bool_))
        return values if dimension.expression is not None else self.coordinates(dimension.column) + values

    def column(self, name: str) -> pa.ChunkedArray:
        return self._batch.rows.column(name)

    def names(self, positions: np.ndarray) -> pa.Array:
        assert self.schema.key is not None
        return _texts_at(one_array(self.column(self.schema.key)), positions)

    def json(self, positions: np.ndarray, select: tuple[Selected, ...]) -> pa.Array:
        rows = self._batch.rows.take(pa.array(positions))
        shown = pa.table([rows.column(i.column) for i in select], names=[i.name for i in select])
        return json_rows(
            shown if self.schema.key is None else shown.append_column(NAME, self.names(positions))
        )


class SparseBatch(EventBatch):
    """Events with any attributes: a list of dicts, or columns; null is absent, a map holds any attributes.

    A list holds several values of one attribute.
    """

    def __init__(self, schema: SourceSchema, first_number: int, rows: Any) -> None:
        self._table: pa.Table | None = None
        self._rows: Sequence[Mapping[str, Any]] = ()
        self._is_nested = False
        if isinstance(rows, Sequence) and not isinstance(rows, (str, bytes)):
            super().__init__(schema, first_number, len(rows))
            self._rows = rows
            self._events = _events_of(list(rows))
        else:
            columns = as_columns_or_rows(rows, source=schema.name)
            if isinstance(columns, list) or any(map(_holds_several, columns.values())):
                self._rows = columns if isinstance(columns, list) else _rows_of(columns)
                super().__init__(schema, first_number, len(self._rows))
                self._events = _events_of(self._rows)
                self._check_keys()
                return
            weights = columns.pop(WEIGHTS, None)
            if weights is not None and not pa.types.is_map(weights.type):
                weights = weights.to_pylist()
                check_weights(weights, schema.name)
            self._table = pa.table(columns)
            super().__init__(schema, first_number, self._table.num_rows)
            self._events = events_from_columns(self._table, weights)
            self._is_nested = any(pa.types.is_nested(column.type) for column in columns.values())
        self._check_keys()

    def events(self, asks: Callable[[str], bool], computed: Computed) -> Events | EventSets:
        events = self._events
        for attribute, where in (events.plain if isinstance(events, EventSets) else events).inexact.items():
            if asks(attribute):
                raise RowError(
                    f"{self.schema.name!r}, attribute {attribute!r}, {where} is not a double, and cannot be "
                    "compared exactly: declare the stream's columns, or make it text"
                )
        return events

    def names(self, positions: np.ndarray) -> pa.Array:
        key = self.schema.key
        assert key is not None
        if self._table is not None:
            return _texts_at(one_array(self._table.column(key)), positions)
        return pa.array([_name_of(self._rows[position][key]) for position in positions.tolist()], pa.string())

    def json(self, positions: np.ndarray, select: tuple[Selected, ...]) -> pa.Array:
        if self._table is not None and not self._is_nested:
            shown = self._shown(self._table, select).take(pa.array(positions))
            if self.schema.key is not None:
                shown = shown.append_column(NAME, self.names(positions))
            return json_rows(shown)
        events, places = self._events, positions.tolist()
        if self._is_nested and isinstance(events, Events):
            rows: list[Mapping[str, Any]] = [row_of(events, place) for place in places]
        else:
            rows = [self._rows[place] for place in places]
        names = [None] * len(rows) if self.schema.key is None else self.names(positions).to_pylist()
        written = [self._json_row(row, select, name) for row, name in zip(rows, names, strict=True)]
        return pa.array(written, pa.string())

    def _shown(self, table: pa.Table, select: tuple[Selected, ...]) -> pa.Table:
        """The SELECT list as columns, null where the batch has none."""
        if not select:
            return table
        absent = pa.nulls(table.num_rows, pa.string())
        names = table.column_names
        columns = [table.column(item.column) if item.column in names else absent for item in select]
        return pa.table(columns, names=[item.name for item in select])

    def _json_row(self, row: Mapping[str, Any], select: tuple[Selected, ...], name: str | None) -> str:
        if select:
            shown = {item.name: row.get(item.column) for item in select}
        else:
            shown = {name: value for name, value in row.items() if name != WEIGHTS}
        if name is not None:
            shown[NAME] = name
        return "{" + ", ".join(f"{json_of(name)}: {json_of(value)}" for name, value in shown.items()) + "}"

    def _check_keys(self) -> None:
        key = self.schema.key
        if key is None:
            return
        if self._table is not None:
            if key not in self._table.column_names:
                raise RowError(f"{self.schema.name!r}: the key {key!r} is missing")
            refuse_nulls(self._table.column(key), name=key, source=self.schema.name, role="key")
            return
        for position, row in enumerate(self._rows):
            if is_null_value(python_value(row.get(key))):
                raise RowError(f"{self.schema.name!r}, row {position}: the key {key!r} is null")


def _events_of(rows: Sequence[Mapping[str, Any]]) -> Events | EventSets:
    try:
        return events_from_rows(rows)
    except SeveralValues:
        return sets_from_rows(rows)


def _name_of(key: Any) -> str:
    """A key as text, as in a column of such keys."""
    if isinstance(key, str):
        return key
    plain = python_value(key)
    is_time = isinstance(plain, Moment)
    column = pa.array([plain[0]], pa.timestamp("us", "UTC")) if is_time else pa.array([plain])
    return str(text_of(column)[0])


def _holds_several(column: pa.Array) -> bool:
    """Whether a column holds lists of values, or ranges with names of their ends; pairs are ranges."""
    kind = column.type.item_type if pa.types.is_map(column.type) else column.type
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_struct(kind))


def _rows_of(columns: Mapping[str, pa.Array]) -> list[dict[str, Any]]:
    """Columns as sparse rows."""
    count = max(map(len, columns.values()), default=0)
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, column in columns.items():
        is_range = pa.types.is_fixed_size_list(column.type)
        for row, value in zip(rows, column.to_pylist(), strict=True):
            if value is None:
                continue
            if pa.types.is_map(column.type):
                row.update({WEIGHTS: dict(value)} if name == WEIGHTS else dict(value))
            else:
                row[name] = tuple(value) if is_range else value
    return rows


def _texts_at(column: pa.Array, positions: np.ndarray) -> pa.Array:
    """The values at some positions as text; with more positions than values, each is formatted once."""
    places = pa.array(positions)
    if len(positions) > len(column):
        return text_of(column).take(places)
    return text_of(column.take(places))


def check_weights(weights: Sequence[Any] | None, source: str) -> None:
    """Raise RowError unless each row's weights are a mapping of attribute to finite number, or null."""
    for position, given in enumerate(weights or ()):
        if given is None:
            continue
        is_map = isinstance(given, list) and all(isinstance(each, tuple) and len(each) == 2 for each in given)
        if not isinstance(given, Mapping) and not is_map:
            raise RowError(
                f"{source!r}, row {position}: {WEIGHTS} must be a dict of attribute to weight, "
                f"got {given!r:.80}"
            )
        for name, weight in given.items() if isinstance(given, Mapping) else given:
            if weight is not None and not _is_finite(weight):
                raise RowError(
                    f"{source!r}, row {position}: weight {weight!r} of {name!r} is not a finite number"
                )


def _is_finite(weight: Any) -> bool:
    """Whether a weight is a finite number of Python or NumPy."""
    if isinstance(weight, (bool, np.bool_)) or not isinstance(weight, (int, float, Decimal, np.number)):
        return False
    try:
        return math.isfinite(weight)
    except (OverflowError, ValueError, TypeError):
        return False
