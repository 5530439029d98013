"""Rows as they come, read as their source declares them. A bad batch raises, and nothing has changed."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.engine.arrow import one_array
from tocsin.engine.dicts import table_of_dicts
from tocsin.errors import RowError
from tocsin.indexes.contract import Bools
from tocsin.types import ColumnType

OP = "_op"
WEIGHTS = "_weights"

_ZONE = r"(Z|z|[+-]\d\d(:?\d\d)?)$"


class Batch(NamedTuple):
    """A batch of rows, typed."""

    #: all declared columns, in order
    rows: pa.Table
    #: bool (rows,): the row deletes its key
    deletes: Bools
    #: attribute weights of each row, if any were given
    weights: list[Any] | None


def read_batch(
    rows: Any, columns: Mapping[str, ColumnType], *, source: str, key: str | None, extra: str | None
) -> Batch:
    """Read rows of any accepted form as `columns`; `extra` is the special column allowed, if any."""
    if isinstance(rows, pa.Table) and rows.schema.equals(arrow_schema(columns)):
        return _as_declared(rows, key, source)
    if isinstance(rows, list):
        table = table_of_dicts(rows, columns)
        if table is not None:
            return _as_declared(table, key, source)
    given = as_columns(rows, source=source)
    special = given.pop(extra, None) if extra else None
    for name in given:
        if name not in columns:
            raise RowError(f"{source!r} has no column {name!r}{_nearest(name, columns)}")
    # Dicts without a single key are rows of nulls.
    count = _count(given, special) or (len(rows) if isinstance(rows, Sequence) else 0)
    arrays = []
    for name, kind in columns.items():
        if name in given:
            arrays.append(cast_column(given[name], kind, column=name, source=source))
        else:
            arrays.append(pa.nulls(count, kind.arrow))
    table = pa.table(arrays, schema=arrow_schema(columns))
    if key is not None:
        refuse_nulls(table.column(key), name=key, source=source, role="key")
    deletes = _deletes(special, count, source) if extra == OP else np.zeros(count, np.bool_)
    weights = special.to_pylist() if extra == WEIGHTS and special is not None else None
    return Batch(table, deletes, weights)


def arrow_schema(columns: Mapping[str, ColumnType]) -> pa.Schema:
    """The Arrow schema of declared columns."""
    return _schema(tuple((name, kind.name) for name, kind in columns.items()))


@cache
def _schema(fields: tuple[tuple[str, str], ...]) -> pa.Schema:
    return pa.schema([(name, ColumnType.parse(kind, column=name).arrow) for name, kind in fields])


def _as_declared(rows: pa.Table, key: str | None, source: str) -> Batch:
    """A table of just the declared columns, which needs no casting."""
    if key is not None:
        refuse_nulls(rows.column(key), name=key, source=source, role="key")
    return Batch(rows, np.zeros(rows.num_rows, np.bool_), None)


def as_columns(rows: Any, *, source: str) -> dict[str, pa.Array]:
    """Any accepted form of rows as named Arrow arrays of one length."""
    if isinstance(rows, Mapping):
        return {str(name): _array(values, str(name), source) for name, values in rows.items()}
    if isinstance(rows, Sequence) and not isinstance(rows, (str, bytes)):
        return _columns_of_dicts(rows, source)
    if isinstance(rows, (pa.Table, pa.RecordBatch)) or hasattr(rows, "__arrow_c_stream__"):
        table = rows if isinstance(rows, pa.Table) else pa.table(rows)
        names = [name for name in table.column_names if name != "__index_level_0__"]
        if len(set(names)) < len(names):
            raise RowError(f"{source!r}: a column name comes twice in {names}")
        return {name: _plain(table.column(name)) for name in names}
    raise RowError(
        f"{source!r}: rows are an Arrow table, a pandas frame or a list of dicts, not {type(rows).__name__}"
    )


def cast_column(array: pa.Array, kind: ColumnType, *, column: str, source: str) -> pa.Array:
    """`array` as the declared type, or RowError naming the first row that does not fit."""
    try:
        return _cast(array, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, TypeError) as failure:
        row = _first_failure(array, lambda part: _cast(part, kind))
        value = array[row].as_py()
        raise RowError(
            f"{source!r}, column {column!r}, row {row}: {value!r} is not a {kind.name}"
        ) from failure


def refuse_nulls(column: pa.Array | pa.ChunkedArray, *, name: str, source: str, role: str) -> None:
    """Raise RowError if the column has a null or NaN, naming the first row."""
    if not column.null_count and not pa.types.is_floating(column.type):
        return
    missing = pc.is_null(column, nan_is_null=True)
    if pc.any(missing).as_py():
        row = pc.index(missing, True).as_py()
        raise RowError(f"{source!r}, row {row}: the {role} {name!r} is null")


def _cast(array: pa.Array, kind: ColumnType) -> pa.Array:
    have = array.type
    if have.equals(kind.arrow):
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), kind.arrow)
    is_number = pa.types.is_integer(have) or pa.types.is_floating(have) or pa.types.is_decimal(have)
    if kind.is_timestamp:
        return _cast_time(array)
    if is_number and kind.is_numeric:
        if (
            pa.types.is_floating(have)
            and not kind.arrow.equals(pa.float32())
            and not kind.arrow.equals(pa.float64())
        ):
            array = pc.if_else(pc.is_nan(array), None, array)
        return array.cast(kind.arrow, safe=not kind.arrow.equals(pa.float32()))
    raise TypeError(f"{have} is not {kind.name}")


def _cast_time(array: pa.Array) -> pa.Array:
    have, want = array.type, pa.timestamp("us", tz="UTC")
    if pa.types.is_timestamp(have):
        if have.unit == "ns":
            array = pc.floor_temporal(array, unit="microsecond")
        zoned = array if have.tz else pc.assume_timezone(array, "UTC")
        return zoned.cast(want)
    if pa.types.is_date(have):
        return pc.assume_timezone(array.cast(pa.timestamp("us")), "UTC")
    if pa.types.is_string(have):
        zoned = pc.match_substring_regex(array, _ZONE)
        with_zone = pc.if_else(zoned, array, pc.binary_join_element_wise(array, "Z", ""))
        return with_zone.cast(pa.timestamp("ns", tz="UTC")).cast(want, safe=False)
    raise TypeError(f"{have} is not a time")


def _plain(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    array = one_array(column)
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.dictionary_decode()
        kind = array.type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        array = array.cast(pa.string())
    return array


def _array(values: Any, name: str, source: str) -> pa.Array:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return _plain(values)
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise RowError(f"{source!r}, column {name!r}: a list or an array of values is needed, not {values!r}")
    try:
        return _plain(pa.array(values))
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
        pa.ArrowNotImplementedError,
        OverflowError,
        TypeError,
        UnicodeError,
    ) as failure:
        listed = list(values)
        row = _first_failure(listed, pa.array)
        if isinstance(failure, UnicodeError):
            why = "is not valid text"
        elif isinstance(listed[row], int) and not -(2**63) <= listed[row] < 2**63:
            why = "does not fit 64 bits"
        else:
            why = "does not go with the values before it"
        raise RowError(f"{source!r}, column {name!r}, row {row}: {listed[row]!r} {why}") from failure


def _columns_of_dicts(rows: Sequence[Any], source: str) -> dict[str, pa.Array]:
    names: dict[str, None] = {}
    for position, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise RowError(f"{source!r}, row {position}: a row is a dict, not {type(row).__name__}")
        names.update(dict.fromkeys(row))
    return {str(name): _array([row.get(name) for row in rows], str(name), source) for name in names}


def _count(given: Mapping[str, pa.Array], special: pa.Array | None) -> int:
    lengths = {len(array) for array in given.values()} | ({len(special)} if special is not None else set())
    if len(lengths) > 1:
        raise RowError(f"the columns of a batch have different lengths: {sorted(lengths)}")
    return lengths.pop() if lengths else 0


def _deletes(ops: pa.Array | None, count: int, source: str) -> Bools:
    if ops is None:
        return np.zeros(count, np.bool_)
    for op in ops.unique().to_pylist():
        if op not in (None, "upsert", "delete"):
            row = pc.index(ops, op).as_py()
            raise RowError(f"{source!r}, row {row}: {OP} is {op!r}; it must be 'upsert' or 'delete'")
    return np.asarray(pc.fill_null(pc.equal(ops, "delete"), False).to_numpy(zero_copy_only=False), np.bool_)


def _first_failure(values: Any, convert: Callable[[Any], Any]) -> int:
    """The first position at which `convert` of a prefix fails, by bisection."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            convert(values[:middle])
        except (pa.ArrowException, OverflowError, TypeError, UnicodeError):
            high = middle
        else:
            low = middle
    return low


def _nearest(name: str, columns: Mapping[str, ColumnType]) -> str:
    near = difflib.get_close_matches(name, list(columns), n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; its columns are {', '.join(columns)}"
