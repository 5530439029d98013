"""Events as flat columns, read from sparse rows or from an Arrow table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.decimals import doubles_of_decimals
from tocsin.errors import RowError
from tocsin.indexes.contract import Bytes, Floats, Ints, Longs, Ops
from tocsin.indexes.matching.scan_kernels import BOOLEAN, NUMBER, TEXT
from tocsin.indexes.shared.texts import texts_of

#: The key of a sparse row that holds the weights of its attributes.
WEIGHTS = "_weights"


class Events(NamedTuple):
    """A batch of events. Event i has the entries from `offsets[i]` to `offsets[i + 1]`, one an attribute."""

    #: the distinct attributes of the batch
    names: list[str]
    #: int64 (events + 1,)
    offsets: Longs
    #: int32 (entries,): index into `names`
    attribute: Ints
    #: int8 (entries,): NUMBER, TEXT or BOOLEAN
    kind: Ops
    #: float64 (entries,): the number, the low end of a range, or 0 and 1 for booleans
    low: Floats
    #: float64 (entries,): the same, or the high end of a range; below `low` where the range is empty
    high: Floats
    #: int64 (entries,): where the text begins in `heap`
    text_start: Longs
    #: int32 (entries,): bytes of the text, UTF-8
    text_length: Ints
    #: uint8: all texts
    heap: Bytes
    #: float64 (entries,): the event's weight of that attribute
    weight: Floats

    @property
    def n_events(self) -> int:
        return len(self.offsets) - 1


def events_from_rows(rows: Sequence[Mapping[str, Any]]) -> Events:
    """Read sparse rows: each a dict of attribute to number, string, boolean or (low, high).

    `None` and NaN are missing. Cost: linear in the entries, in Python.
    """
    builder = _Builder()
    for row, values in enumerate(rows):
        builder.add(row, values)
    return builder.events()


class _Builder:
    """Collects entries row by row."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._offsets = [0]
        self._entries: list[tuple[int, int, float, float, int, int, float]] = []
        self._texts: list[bytes] = []
        self._n_bytes = 0

    def add(self, row: int, values: Mapping[str, Any]) -> None:
        if not isinstance(values, Mapping):
            raise RowError(
                f"row {row}: a sparse row is a dict of attribute to value, not {type(values).__name__}"
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
        )

    def _attribute(self, row: int, name: str) -> int:
        number = self._names.get(name)
        if number is None:
            if not isinstance(name, str):
                raise RowError(f"row {row}: attribute names are strings, not {type(name).__name__}: {name!r}")
            _encoded(row, name, name)
            number = self._names[name] = len(self._names)
        return number

    def _read(self, row: int, name: str, value: Any) -> tuple[int, float, float, int]:
        """Kind, low, high, bytes of text."""
        if isinstance(value, bool | np.bool_):
            return BOOLEAN, float(value), float(value), 0
        if isinstance(value, str):
            text = _encoded(row, name, value)
            self._texts.append(text)
            self._n_bytes += len(text)
            return TEXT, 0.0, 0.0, len(text)
        if isinstance(value, tuple | list):
            if len(value) != 2:
                raise RowError(f"row {row}, attribute {name!r}: a range is (low, high), not {value!r}")
            return NUMBER, _number(row, name, value[0]), _number(row, name, value[1]), 0
        number = _number(row, name, value)
        return NUMBER, number, number, 0


def _number(row: int, name: str, value: Any) -> float:
    if isinstance(value, int | float | Decimal | np.integer | np.floating) and not isinstance(value, bool):
        try:
            return float(value)
        except (OverflowError, ValueError):
            raise RowError(f"row {row}, attribute {name!r}: {value} does not fit a double") from None
    raise RowError(
        f"row {row}, attribute {name!r}: {type(value).__name__} is not a value; "
        "accepted are numbers, strings, booleans and (low, high) ranges of numbers"
    )


def _encoded(row: int, name: str, value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise RowError(f"row {row}, attribute {name!r}: {value!r} is not valid text") from None


def _weights_of(row: int, weights: Any) -> dict[str, float]:
    """One event's weights, checked: finite numbers."""
    if weights is None:
        return {}
    if not isinstance(weights, Mapping):
        raise RowError(f"row {row}: {WEIGHTS} is a dict of attribute to weight, not {type(weights).__name__}")
    checked = {name: _number(row, name, weight) for name, weight in weights.items() if weight is not None}
    for name, weight in checked.items():
        if not math.isfinite(weight):
            raise RowError(f"row {row}, attribute {name!r}: a weight is a finite number, not {weight}")
    return checked


def events_from_columns(table: pa.Table, weights: Sequence[Mapping[str, Any] | None] | None = None) -> Events:
    """Read a columnar batch: strings, booleans, numbers, decimals, and times as UTC microseconds.

    Null and NaN are missing. Cost: linear, vectorised; weights, if given, are read row by row.
    """
    by_row = None if weights is None else [_weights_of(row, one) for row, one in enumerate(weights)]
    parts = [
        _column_entries(number, name, table.column(name), by_row)
        for number, name in enumerate(table.column_names)
    ]
    n_bytes = 0
    for part in parts:
        part.text_start[:] += n_bytes
        n_bytes += len(part.heap)
    event = np.concatenate([np.empty(0, np.int64), *(part.event for part in parts)])
    # Column by column so far; events need their own entries together, in the order of columns.
    order = np.argsort(event, kind="stable")
    offsets = np.zeros(table.num_rows + 1, np.int64)
    np.cumsum(np.bincount(event, minlength=table.num_rows), out=offsets[1:])

    def joined(column: str, dtype: type[np.generic]) -> Any:
        return np.concatenate([np.empty(0, dtype), *(getattr(part, column) for part in parts)])[order]

    value = joined("value", np.float64)
    return Events(
        names=list(table.column_names),
        offsets=offsets,
        attribute=joined("attribute", np.int32),
        kind=joined("kind", np.int8),
        low=value,
        high=value,
        text_start=joined("text_start", np.int64),
        text_length=joined("text_length", np.int32),
        heap=np.concatenate([np.empty(0, np.uint8), *(part.heap for part in parts)]),
        weight=joined("weight", np.float64),
    )


class _ColumnEntries(NamedTuple):
    """The entries that one column of a table makes."""

    event: Longs
    attribute: Ints
    kind: Ops
    value: Floats
    text_start: Longs
    text_length: Ints
    heap: Bytes
    weight: Floats


def _column_entries(
    number: int, name: str, column: pa.ChunkedArray[Any], weights: list[dict[str, float]] | None
) -> _ColumnEntries:
    heap, offsets = np.empty(0, np.uint8), np.zeros(1, np.int64)
    if _is_text(column.type):
        kind, event = TEXT, np.flatnonzero(_is_valid(column))
        heap, offsets = texts_of(column.drop_null())
        value, starts, lengths = np.zeros(len(event)), offsets[:-1].copy(), np.diff(offsets)
    else:
        kind = BOOLEAN if pa.types.is_boolean(column.type) else NUMBER
        doubles = _doubles(name, column)
        event = np.flatnonzero(~np.isnan(doubles))
        value, starts, lengths = (
            doubles[event],
            np.zeros(len(event), np.int64),
            np.zeros(len(event), np.int64),
        )
    weight = np.ones(len(event))
    if weights is not None:
        weight = np.array([one.get(name, 1.0) for one in weights], np.float64)[event]
    return _ColumnEntries(
        event=event,
        attribute=np.full(len(event), number, np.int32),
        kind=np.full(len(event), kind, np.int8),
        value=value,
        text_start=starts,
        text_length=lengths.astype(np.int32),
        heap=heap,
        weight=weight,
    )


def _is_text(kind: pa.DataType) -> bool:
    value = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value))


def _is_valid(column: pa.ChunkedArray[Any]) -> Any:
    return column.is_valid().to_numpy().astype(np.bool_)


def _doubles(name: str, column: pa.ChunkedArray[Any]) -> Floats:
    """A column of numbers, booleans or times as doubles, NaN for null."""
    kind = column.type
    if pa.types.is_decimal128(kind):
        return doubles_of_decimals(column)
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise RowError(f"column {name!r}: {kind} is not a type of values")
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    # To NumPy, a null among doubles is a NaN.
    return np.array(pc.cast(column, pa.float64(), safe=False).to_numpy(), np.float64)
