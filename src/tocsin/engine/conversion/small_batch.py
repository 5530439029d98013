"""Small batches of dicts, held as Python values until there are enough for an Arrow table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from tocsin.types import ColumnType

#: Larger batches are read as a table, which is cheaper than checking each value.
SMALL_BATCH_ROWS = 16


class SmallBatch:
    """Rows as tuples of Python values, None for NULL, which Arrow reads without conversion."""

    def __init__(self, schema: pa.Schema, rows: list[tuple[Any, ...]]) -> None:
        self.schema = schema
        self.rows = rows

    @property
    def num_rows(self) -> int:
        return len(self.rows)

    def table(self) -> pa.Table:
        """The same rows as a table."""
        columns = zip(*self.rows, strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, self.schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self.schema)


class SmallBatchReader:
    """Reads dicts of exactly the declared types, with the same result as `intake`."""

    def __init__(self, columns: Mapping[str, ColumnType], key: str, schema: pa.Schema) -> None:
        self._schema = schema
        self._names = frozenset(columns)
        self._key_at = list(columns).index(key)
        takers = [(name, _TAKERS.get(kind.name)) for name, kind in columns.items()]
        #: by column, its checker; incomplete if a column's type is left to Arrow
        self._takers = [(name, taker) for name, taker in takers if taker is not None]
        self._can_read = len(self._takers) == len(takers)

    def read(self, rows: Any) -> SmallBatch | None:
        """The rows; None if there are too many, or they need conversion. Cost: linear."""
        if not self._can_read or not isinstance(rows, list) or not 0 < len(rows) <= SMALL_BATCH_ROWS:
            return None
        tuples = []
        for row in rows:
            if type(row) is not dict or not row.keys() <= self._names:
                return None
            try:
                values = tuple(
                    [None if (value := row.get(name)) is None else take(value) for name, take in self._takers]
                )
            except ValueError:
                return None
            key = values[self._key_at]
            if key is None:
                return None
            tuples.append(values)
        return SmallBatch(self._schema, tuples)


def _take_string(value: Any) -> str:
    if type(value) is not str:
        raise ValueError
    if not value.isascii():
        # Surrogates raise UnicodeEncodeError, which is a ValueError.
        value.encode()
    return value


def _take_boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError
    return value


def _take_int(value: Any) -> int:
    if type(value) is not int or not -(2**31) <= value < 2**31:
        raise ValueError
    return value


def _take_bigint(value: Any) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise ValueError
    return value


def _take_double(value: Any) -> float | None:
    if type(value) is float:
        # NaN is NULL.
        return None if value != value else value
    if type(value) is not int or not -(2**53) <= value <= 2**53:
        raise ValueError
    return float(value)


_TAKERS: dict[str, Callable[[Any], Any]] = {
    "string": _take_string,
    "boolean": _take_boolean,
    "int": _take_int,
    "bigint": _take_bigint,
    "double": _take_double,
}
