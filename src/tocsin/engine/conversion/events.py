"""Sparse rows and Arrow tables as the events that matching indexes read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays.texts import texts_of
from tocsin.arrays.types import Bytes, Floats, Ints, Longs, Ops
from tocsin.decimals import doubles_of_decimals
from tocsin.engine.conversion.intake import WEIGHTS
from tocsin.errors import RowError, shown
from tocsin.indexes.matching.events import Events
from tocsin.indexes.matching.layout import BOOLEAN, NUMBER, TEXT
from tocsin.ordinals import EXACT
from tocsin.times import DAY, days, microseconds, microseconds_of

#: Up to this many rows are read one by one: cheaper than by Arrow and NumPy.
SMALL_TABLE_ROWS = 8

#: Weights of a batch: a mapping for each row, or a column of maps.
Weights: TypeAlias = "Sequence[Mapping[str, Any] | None] | pa.Array[Any] | pa.ChunkedArray[Any] | None"


class SeveralValues(Exception):
    """A row has several values of an attribute: see `event_sets`."""


def is_several(value: Any) -> bool:
    """Whether a value of a sparse row is a collection of values; a tuple is a range."""
    return isinstance(value, list | set | frozenset | np.ndarray)


def as_range(value: Any) -> Any:
    """A range as JSON can write it, {"low": …, "high": …}, as a tuple; any other value as it is."""
    if isinstance(value, Mapping) and value.keys() == {"low", "high"}:
        return value["low"], value["high"]
    return value


def events_from_rows(rows: Sequence[Mapping[str, Any]], numbers: Sequence[int] | None = None) -> Events:
    """Read sparse rows: each a dict of attribute to number, string, boolean, time or range.

    A range is a tuple (low, high), or a dict of `low` and `high`. `None` and NaN are missing. `numbers` are
    the row numbers in errors. Raises SeveralValues for a list.
    Cost: linear in the entries, in Python.
    """
    builder = _Builder()
    for row, values in enumerate(rows):
        builder.add(row if numbers is None else numbers[row], values)
    return builder.events()


class _Builder:
    """Collects entries row by row."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._offsets = [0]
        self._entries: list[tuple[int, int, float, float, int, int, float]] = []
        self._texts: list[bytes] = []
        self._n_bytes = 0
        self._inexact: dict[str, str] = {}

    def add(self, row: int, values: Mapping[str, Any]) -> None:
        if not isinstance(values, Mapping):
            raise RowError(
                f"row {row}: a sparse row must be a dict of attribute to value, got {type(values).__name__}"
            )
        weights = _weights_of(row, values.get(WEIGHTS))
        for name, value in values.items():
            if name == WEIGHTS or value is None:
                continue
            kind, low, high, length = self._read(row, name, value)
            if low == low and high == high:
                start = self._n_bytes - length
                weight = weights.get(name, 1.0)
                self._entries.append((self._attribute(row, name), kind, low, high, start, length, weight))
        self._offsets.append(len(self._entries))

    def events(self) -> Events:
        columns = list(zip(*self._entries, strict=True)) or [()] * 7
        attribute, kind, low, high, text_start, text_length, weight = columns
        return Events(
            names=list(self._names),
            offsets=np.array(self._offsets, np.int64),
            attribute=np.array(attribute, np.int32),
            kind=np.array(kind, np.int8),
            low=np.array(low, np.float64),
            high=np.array(high, np.float64),
            text_start=np.array(text_start, np.int64),
            text_length=np.array(text_length, np.int32),
            heap=np.frombuffer(bytearray(b"".join(self._texts)), np.uint8),
            weight=np.array(weight, np.float64),
            inexact=self._inexact,
        )

    def _attribute(self, row: int, name: str) -> int:
        number = self._names.get(name)
        if number is None:
            if not isinstance(name, str):
                raise RowError(f"row {row}: an attribute name must be a string, got {name!r}")
            _encoded(row, name, name)
            number = self._names[name] = len(self._names)
        return number

    def _read(self, row: int, name: str, value: Any) -> tuple[int, float, float, int]:
        """Kind, low, high, bytes of text."""
        value = as_range(value)
        if isinstance(value, bool | np.bool_):
            return BOOLEAN, float(value), float(value), 0
        if isinstance(value, str):
            text = _encoded(row, name, value)
            self._texts.append(text)
            self._n_bytes += len(text)
            return TEXT, 0.0, 0.0, len(text)
        if is_several(value):
            raise SeveralValues
        if isinstance(value, tuple):
            if len(value) != 2:
                raise RowError(
                    f"row {row}, attribute {name!r}: a range must be (low, high), got {shown(value)}"
                )
            return NUMBER, self._number(row, name, value[0]), self._number(row, name, value[1]), 0
        number = self._number(row, name, value)
        return NUMBER, number, number, 0

    def _number(self, row: int, name: str, value: Any) -> float:
        if isinstance(value, date | np.datetime64):
            return _time(row, name, value)
        number = _number(row, name, value)
        # NumPy would compare its integers with a double as doubles.
        exact = int(value) if isinstance(value, np.integer) else value
        if abs(number) >= EXACT and isinstance(exact, int | Decimal) and number != exact:
            self._inexact.setdefault(name, f"row {row}: {value}")
        return number


def _number(row: int, name: str, value: Any) -> float:
    if isinstance(value, int | float | Decimal | np.integer | np.floating) and not isinstance(value, bool):
        try:
            return float(value)
        except (OverflowError, ValueError):
            raise RowError(f"row {row}, attribute {name!r}: {shown(value)} does not fit a double") from None
    raise RowError(
        f"row {row}, attribute {name!r}: {type(value).__name__} is not a number; "
        "a value is a number, a string, a boolean, a list of these or a range of numbers, "
        '(low, high) or {"low": …, "high": …}; a weight is a number'
    )


def _time(row: int, name: str, value: Any) -> float:
    """A time as UTC microseconds, a date as its midnight."""
    try:
        if isinstance(value, np.datetime64):
            count = value.astype("datetime64[us]")
            return float("nan") if np.isnat(count) else float(count.astype(np.int64))
        if isinstance(value, datetime):
            return float("nan") if value != value else float(microseconds(value))
        return float(days(value) * DAY)
    except (ValueError, OverflowError):
        raise RowError(f"row {row}, attribute {name!r}: {value!r} is not a time") from None


def _encoded(row: int, name: str, value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise RowError(f"row {row}, attribute {name!r}: {value!r} is not valid text") from None


def _weights_of(row: int, weights: Any) -> dict[str, float]:
    """One event's weights, checked to be finite numbers."""
    if weights is None:
        return {}
    if not isinstance(weights, Mapping):
        raise RowError(
            f"row {row}: {WEIGHTS} must be a dict of attribute to weight, got {type(weights).__name__}"
        )
    checked = {name: _number(row, name, weight) for name, weight in weights.items() if weight is not None}
    for name, weight in checked.items():
        if not math.isfinite(weight):
            raise RowError(f"row {row}, attribute {name!r}: a weight must be a finite number, got {weight}")
    return checked


def events_from_columns(table: pa.Table, weights: Weights = None) -> Events:
    """Read a columnar batch: strings, booleans, numbers, decimals, and times as UTC microseconds.

    A column of maps holds attributes and values of its own, whatever its name; a value may also be a
    fixed-size list of two numbers, a range. Null and NaN are missing. Cost: linear and vectorised, with
    weights in a column of maps; other weights are read row by row.
    """
    if table.num_rows <= SMALL_TABLE_ROWS and weights is None and all(map(_is_plain, table.schema.types)):
        return events_from_rows(table.to_pylist())
    names: dict[str, int] = {}
    columns = list(map(_Column, table.column_names, table.schema.types, table.columns))
    parts: list[_Entries] = []
    for is_map, run in groupby(columns, lambda column: isinstance(column.kind, pa.MapType)):
        if is_map:
            parts += [_map_entries(names, column) for column in run]
        else:
            parts.append(_plain_entries(names, list(run), table.num_rows))
    entries = _joined(parts or [_plain_entries(names, [], table.num_rows)])
    if any(isinstance(column.kind, pa.MapType) for column in columns):
        refuse_repeated(entries.event, entries.attribute, list(names))
    offsets = np.zeros(table.num_rows + 1, np.int64)
    np.bincount(entries.event, minlength=table.num_rows).cumsum(out=offsets[1:])
    weight = _entry_weights(weights, entries.event, entries.attribute, list(names))
    inexact = {column.name: why for column in columns if (why := _inexact(column)) is not None}
    return Events(list(names), offsets, *entries[1:], weight, inexact)


def _inexact(column: _Column) -> str | None:
    """The first whole number or large decimal of a column that no double represents, and its row."""
    kind = column.kind
    is_exact = pa.types.is_int64(kind) or pa.types.is_uint64(kind) or pa.types.is_decimal(kind)
    if not is_exact or not len(column.values):
        return None
    ends = pc.min_max(column.values)
    if all(end is None or abs(end) <= EXACT for end in (ends["min"].as_py(), ends["max"].as_py())):
        return None
    for row, value in enumerate(column.values.to_pylist()):
        if value is not None and abs(value) >= EXACT and float(value) != value:
            return f"row {row}: {value}"
    return None


class _Column(NamedTuple):
    name: str
    kind: pa.DataType
    values: Any


def refuse_repeated(event: Longs, attribute: Ints, names: list[str]) -> None:
    """Raise RowError if an event has an attribute twice."""
    pairs = event * len(names) + attribute
    first = np.unique(pairs, return_index=True)[1]
    if len(first) < len(pairs):
        twice = np.setdiff1d(np.arange(len(pairs)), first)[0]
        raise RowError(f"row {event[twice]}: the attribute {names[attribute[twice]]!r} comes twice")


def _entry_weights(weights: Weights, event: Longs, attribute: Ints, names: list[str]) -> Floats:
    """The weight of each entry, 1 if none is given."""
    if weights is None:
        return np.ones(len(event))
    if isinstance(weights, pa.Array | pa.ChunkedArray):
        return _mapped_weights(weights, event, attribute, names)
    by_row = [_weights_of(row, one) for row, one in enumerate(weights)]
    pairs = zip(event.tolist(), attribute.tolist(), strict=True)
    return np.array([by_row[row].get(names[number], 1.0) for row, number in pairs], np.float64)


def _mapped_weights(weights: Any, event: Longs, attribute: Ints, names: list[str]) -> Floats:
    """As `_entry_weights`, from a column of maps of attribute to weight."""
    row, place, items, keys = map_entries("_weights", weights)
    given = doubles_of(WEIGHTS, items)
    bad = np.flatnonzero(~np.isfinite(given) & is_valid(items))
    if len(bad):
        raise RowError(
            f"row {row[bad[0]]}, attribute {keys[place[bad[0]]]!r}: a weight must be a finite number"
        )
    number = {name: position for position, name in enumerate(names)}
    known = np.array([number.get(name, -1) for name in keys], np.int64)[place]
    is_used = (known >= 0) & ~np.isnan(given)
    found = np.ones(len(event))
    if is_used.any():
        pairs, width = row[is_used] * len(names) + known[is_used], given[is_used]
        order = np.argsort(pairs, kind="stable")
        wanted = event * len(names) + attribute
        # The last one wins, as in a dict.
        at = np.searchsorted(pairs[order], wanted, side="right") - 1
        is_hit = (at >= 0) & (pairs[order][at] == wanted)
        found[is_hit] = width[order][at[is_hit]]
    return found


def map_entries(name: str, column: Any) -> tuple[Longs, Longs, Any, list[str]]:
    """The entries of a column of maps: row, number of the attribute, value; and the attributes."""
    maps = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    if not pa.types.is_string(maps.type.key_type) and not pa.types.is_large_string(maps.type.key_type):
        raise RowError(f"column {name!r}: the keys of a map must be strings, got {maps.type.key_type}")
    offsets = np.asarray(maps.offsets, np.int64)
    lengths = np.where(is_valid(maps), np.diff(offsets), 0)
    starts = np.cumsum(lengths) - lengths
    place = pa.array(np.repeat(offsets[:-1] - starts, lengths) + np.arange(int(lengths.sum())))
    keys = maps.keys.take(place).dictionary_encode()
    row = np.repeat(np.arange(len(maps)), lengths)
    return row, np.asarray(keys.indices, np.int64), maps.items.take(place), keys.dictionary.to_pylist()


class _Entries(NamedTuple):
    """The entries that columns make, event after event."""

    event: Longs
    attribute: Ints
    kind: Ops
    low: Floats
    high: Floats
    text_start: Longs
    text_length: Ints
    heap: Bytes


def _joined(parts: Sequence[_Entries]) -> _Entries:
    """The entries of all parts, those of an event together and in the order of parts."""
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(part.heap) for part in parts)])
    parts = [
        part._replace(text_start=part.text_start + start)
        for part, start in zip(parts, starts[:-1].tolist(), strict=True)
    ]
    order = np.argsort(np.concatenate([part.event for part in parts]), kind="stable")
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return _Entries._make([*(column[order] for column in columns[:-1]), columns[-1]])


def _map_entries(names: dict[str, int], column: _Column) -> _Entries:
    """What a column of maps holds."""
    row, place, items, keys = map_entries(column.name, column.values)
    numbers = np.array([names.setdefault(key, len(names)) for key in keys], np.int32)
    values = _plain_entries({}, [_Column(column.name, items.type, items)], len(items))
    return values._replace(event=row[values.event], attribute=numbers[place][values.event])


def _plain_entries(names: dict[str, int], columns: Sequence[_Column], n_rows: int) -> _Entries:
    """The values of columns that are there."""
    shape = n_rows, len(columns)
    low = np.empty(shape)
    # Where no column holds ranges, both ends are one array.
    high = np.empty(shape) if any(_is_range(column.kind) for column in columns) else low
    kinds = np.full(len(columns), NUMBER, np.int8)
    starts, lengths = np.zeros(shape, np.int64), np.zeros(shape, np.int32)
    heaps = [np.empty(0, np.uint8)]
    n_bytes = 0
    for number, (name, kind, values) in enumerate(columns):
        if _is_text(kind):
            kinds[number] = TEXT
            there = is_valid(values)
            heap, offsets = texts_of(values.drop_null() if values.null_count else values)
            starts[there, number] = offsets[:-1] + n_bytes
            lengths[there, number] = np.diff(offsets)
            low[:, number] = np.where(there, 0.0, np.nan)
            heaps.append(heap)
            n_bytes += len(heap)
        elif _is_range(kind):
            low[:, number], high[:, number] = _range_ends(name, values)
            continue
        else:
            if pa.types.is_boolean(kind):
                kinds[number] = BOOLEAN
            low[:, number] = doubles_of(name, values)
        if high is not low:
            high[:, number] = low[:, number]
    is_there = ~np.isnan(low) if high is low else ~(np.isnan(low) | np.isnan(high))
    place = np.flatnonzero(is_there)
    event, column = np.divmod(place, max(1, len(columns)))
    numbers = np.array([names.setdefault(name, len(names)) for name, _, _ in columns], np.int32)
    return _Entries(
        event=event,
        attribute=numbers[column],
        kind=kinds[column],
        low=low.ravel()[place],
        high=high.ravel()[place],
        text_start=starts.ravel()[place],
        text_length=lengths.ravel()[place],
        heap=np.concatenate(heaps),
    )


def _is_plain(kind: pa.DataType) -> bool:
    """Whether a row's value is the same as that of a sparse row."""
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return bool(is_number or pa.types.is_boolean(kind) or pa.types.is_string(kind))


def _is_range(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.FixedSizeListType) and kind.list_size == 2


def _range_ends(name: str, column: Any) -> tuple[Floats, Floats]:
    """Both ends of ranges, NaN for null."""
    ranges = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    ends = np.full((len(ranges), 2), np.nan)
    ends[is_valid(ranges)] = doubles_of(name, ranges.flatten()).reshape(-1, 2)
    return ends[:, 0].copy(), ends[:, 1].copy()


def _is_text(kind: pa.DataType) -> bool:
    value = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value))


def is_valid(column: Any) -> Any:
    """bool (rows,): which are not null."""
    return np.asarray(column.is_valid(), np.bool_)


def doubles_of(name: str, column: Any) -> Floats:
    """A column of numbers, booleans or times as doubles, NaN for null."""
    kind = column.type
    if pa.types.is_decimal(kind):
        return doubles_of_decimals(column)
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("us"))
        kind = column.type
    if pa.types.is_timestamp(kind):
        column = microseconds_of(column)
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise RowError(f"column {name!r}: {kind} is not a type of values")
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    # To NumPy, a null among numbers is a NaN.
    return np.array(column.to_numpy(zero_copy_only=False), np.float64)


def row_of(events: Events, event: int) -> dict[str, Any]:
    """One event as a dict again, without weights: what a sparse row would have been. Cost: linear in it."""
    row: dict[str, Any] = {}
    for entry in range(int(events.offsets[event]), int(events.offsets[event + 1])):
        kind, low, high = int(events.kind[entry]), float(events.low[entry]), float(events.high[entry])
        start = int(events.text_start[entry])
        text = events.heap[start : start + int(events.text_length[entry])].tobytes().decode()
        number = low if low == high else (low, high)
        row[events.names[events.attribute[entry]]] = {TEXT: text, BOOLEAN: low == 1.0}.get(kind, number)
    return row
