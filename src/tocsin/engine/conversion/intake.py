"""The boundary at which rows and parameters enter: any container, typed as declared, and copied.

Whether a row is valid depends on the declaration and its own values alone. An invalid batch raises and
changes nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays.types import Bools
from tocsin.decimals import printed
from tocsin.engine.conversion.casting import (
    FAILURES,
    cast,
    decoded,
    refuse_years,
    without_nan,
)
from tocsin.engine.conversion.dicts import table_of_dicts
from tocsin.engine.conversion.values import ConversionError, Moment, convert, is_null_value, python_value
from tocsin.errors import RowError, shown
from tocsin.types import ColumnType

OP = "_op"
WEIGHTS = "_weights"
#: The key of a stream row, which need not be unique, beside what a statement selects.
NAME = "_name"

#: A column as given: Arrow, or Python values.
RawColumn: TypeAlias = "pa.Array[Any] | list[Any]"

#: Python types that Arrow converts to the declared type with the same result as `convert`.
_READ_BY_ARROW: dict[str, frozenset[type]] = {
    "string": frozenset([str, type(None)]),
    "boolean": frozenset([bool, type(None)]),
    "int": frozenset([int, type(None)]),
    "bigint": frozenset([int, type(None)]),
    "double": frozenset([float, int, type(None)]),
    "decimal": frozenset([Decimal, type(None)]),
    "timestamp": frozenset([datetime, type(None)]),
    "date": frozenset([date, type(None)]),
}


class RowBatch(NamedTuple):
    """A batch of rows, typed."""

    #: all declared columns, in order
    rows: pa.Table
    #: bool (rows,): the row deletes its key
    deletes: Bools
    #: attribute weights of each row, if any were given
    weights: list[Any] | None


def read_batch(
    rows: Any, columns: Mapping[str, ColumnType], *, source: str, key: str | None, extra: str | None
) -> RowBatch:
    """Read rows of any accepted form as `columns`; `extra` is the special column allowed, if any.

    The result shares no memory with the caller's data. Cost: linear.
    """
    table = table_of_dicts(rows, columns) if isinstance(rows, list) else None
    if table is not None:
        return _batch(table, key, source)
    columns_by_name = _given_columns(rows, source)
    special = columns_by_name.pop(extra, None) if extra else None
    for name in columns_by_name:
        if name not in columns:
            raise RowError(f"{source!r} has no column {name!r}{_nearest(name, columns)}")
    # Dicts without a single key are rows of nulls.
    count = _count(columns_by_name, special) or (len(rows) if isinstance(rows, Sequence) else 0)
    arrays = []
    for name, kind in columns.items():
        if name in columns_by_name:
            arrays.append(owned(cast_column(columns_by_name[name], kind, column=name, source=source)))
        else:
            arrays.append(pa.nulls(count, kind.arrow))
    batch = _batch(pa.table(arrays, schema=arrow_schema(columns)), key, source)
    if special is None:
        return batch
    if extra == OP:
        return batch._replace(deletes=_deletes(special, source))
    return batch._replace(weights=special if isinstance(special, list) else special.to_pylist())


def owned(array: pa.Array) -> pa.Array:
    """A copy, which references no other buffers. Cost: linear."""
    return pa.concat_arrays([array])


def arrow_schema(columns: Mapping[str, ColumnType]) -> pa.Schema:
    """The Arrow schema of declared columns."""
    return _schema(tuple((name, kind.name) for name, kind in columns.items()))


@cache
def _schema(fields: tuple[tuple[str, str], ...]) -> pa.Schema:
    return pa.schema([(name, ColumnType.parse(kind, column=name).arrow) for name, kind in fields])


def _batch(rows: pa.Table, key: str | None, source: str) -> RowBatch:
    """A batch of upserts without weights."""
    if key is not None:
        refuse_nulls(rows.column(key), name=key, source=source, role="key")
    return RowBatch(rows, np.zeros(rows.num_rows, np.bool_), None)


def as_columns(rows: Any, *, source: str) -> dict[str, pa.Array]:
    """Any accepted form of rows as named Arrow arrays, with inferred types."""
    given = _given_columns(rows, source)
    return {name: _inferred(values, name, source) for name, values in given.items()}


def as_columns_or_rows(rows: Any, *, source: str) -> dict[str, pa.Array] | list[dict[str, Any]]:
    """Arrow arrays by name if each column is of one type; else rows, whose values may be of any type."""
    raw = _given_columns(rows, source)
    if all(not isinstance(values, list) or _is_of_one_type(values) for values in raw.values()):
        arrays = {name: _inferred(values, name, source) for name, values in raw.items()}
        return {name: _typed(array) for name, array in arrays.items()}
    columns = [
        values if isinstance(values, list) else _inferred(values, name, source).to_pylist()
        for name, values in raw.items()
    ]
    if len({len(values) for values in columns}) > 1:
        raise RowError(f"{source!r}: columns are of different lengths")
    return [dict(zip(raw, values, strict=True)) for values in zip(*columns, strict=True)]


def _is_of_one_type(values: list[Any]) -> bool:
    """Whether Arrow converts Python values as they would be converted one by one."""
    kinds = set(map(type, values)) - {type(None)}
    return len(kinds) <= 1 and kinds <= {str, int, float, bool}


def _typed(array: pa.Array) -> pa.Array:
    """A column of nulls as a string column: its type does not matter."""
    return pa.nulls(len(array), pa.string()) if pa.types.is_null(array.type) else array


def cast_column(given: RawColumn, kind: ColumnType, *, column: str, source: str) -> pa.Array:
    """A column as the declared type, or RowError naming the first row that does not fit. Cost: linear."""
    if isinstance(given, list):
        return _cast_values(given, kind, column, source)
    array = decoded(given)
    try:
        return cast(array, kind)
    except FAILURES:
        row = _first_failure(array, lambda part: cast(part, kind))
        raise _conversion_failure(array[row], kind, column, source, row) from None


def cast_or_null(given: RawColumn, kind: ColumnType) -> tuple[pa.Array, dict[int, str]]:
    """A column as the declared type, null where a value does not fit; and why, by row. Cost: linear."""
    try:
        return cast_column(given, kind, column="", source=""), {}
    except RowError:
        values = given if isinstance(given, list) else [*decoded(given)]
    converted, bad = [], {}
    for place, value in enumerate(values):
        try:
            converted.append(convert(value, kind))
        except ConversionError as failure:
            converted.append(None)
            bad[place] = _why(value, kind, failure)
    return pa.array(converted, kind.arrow), bad


def _cast_values(values: list[Any], kind: ColumnType, column: str, source: str) -> pa.Array:
    """Python values as the declared type."""
    if _READ_BY_ARROW.get(kind.name.partition("(")[0], frozenset()).issuperset(map(type, values)):
        try:
            whole = without_nan(pa.array(values, kind.arrow))
            if kind.is_timestamp:
                refuse_years(whole)
            return whole
        except (pa.ArrowException, ConversionError, OverflowError, UnicodeError):
            pass
    converted = []
    for row, value in enumerate(values):
        try:
            converted.append(convert(value, kind))
        except ConversionError:
            raise _conversion_failure(value, kind, column, source, row) from None
    return pa.array(converted, kind.arrow)


def _conversion_failure(value: Any, kind: ColumnType, column: str, source: str, row: int) -> RowError:
    """The error for a value that does not fit."""
    try:
        convert(value, kind)
    except ConversionError as failure:
        return RowError(f"{source!r}, column {column!r}, row {row}: {_why(value, kind, failure)}")
    return RowError(f"{source!r}, column {column!r}, row {row}: {_shown(value)} is not a {kind.name}")


def _why(value: Any, kind: ColumnType, failure: ConversionError) -> str:
    return f"{_shown(value)} is not a {kind.name}" + (f": {failure}" if str(failure) else "")


def _shown(value: Any) -> str:
    """A value in an error message."""
    try:
        return shown(value.as_py() if isinstance(value, pa.Scalar) else value)
    except (ValueError, OverflowError):
        # Arrow has times that Python does not.
        return shown(value.value)


def refuse_nulls(column: pa.Array | pa.ChunkedArray, *, name: str, source: str, role: str) -> None:
    """Raise RowError if the column has a null or NaN, naming the first row."""
    if not column.null_count and not pa.types.is_floating(column.type):
        return
    missing = pc.is_null(column, nan_is_null=True)
    if pc.any(missing).as_py():
        row = pc.index(missing, True).as_py()
        raise RowError(f"{source!r}, row {row}: the {role} {name!r} is null")


def _given_columns(rows: Any, source: str) -> dict[str, RawColumn]:
    """Any accepted form of rows as named columns, not yet inspected."""
    if isinstance(rows, Mapping):
        return {str(name): _given(values, str(name), source) for name, values in rows.items()}
    if isinstance(rows, Sequence) and not isinstance(rows, (str, bytes)):
        return _columns_of_dicts(rows, source)
    if _is_pandas(rows, "DataFrame"):
        # Column by column, because Arrow refuses a whole frame for one column of mixed values.
        names = [str(name) for name in rows.columns]
        _refuse_twice(names, source)
        return {name: _given(rows.iloc[:, place], name, source) for place, name in enumerate(names)}
    if isinstance(rows, (pa.Table, pa.RecordBatch)) or hasattr(rows, "__arrow_c_stream__"):
        try:
            table = rows if isinstance(rows, pa.Table) else pa.table(rows)
        except FAILURES as failure:
            raise RowError(f"{source!r}: the rows are not an Arrow table: {failure}") from None
        _refuse_twice(table.column_names, source)
        return {name: table.column(name) for name in table.column_names if name != "__index_level_0__"}
    raise RowError(
        f"{source!r}: rows must be an Arrow table, a pandas or Polars frame, a dict of columns or a list of "
        f"dicts, got {type(rows).__name__}"
    )


def _refuse_twice(names: list[str], source: str) -> None:
    if len(set(names)) < len(names):
        again = next(name for place, name in enumerate(names) if name in names[:place])
        raise RowError(f"{source!r}: each column must appear once, got {again!r} twice")


def _is_pandas(values: Any, name: str) -> bool:
    """Whether this is a pandas object of this class; pandas need not be installed."""
    kind = type(values)
    return kind.__module__.partition(".")[0] == "pandas" and any(
        base.__name__ == name for base in kind.__mro__
    )


def _given(values: Any, name: str, source: str) -> RawColumn:
    """One column as an Arrow array if it is typed, else as a list."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    is_frame = _is_pandas(values, "DataFrame") or isinstance(values, (pa.Table, Mapping))
    if isinstance(values, (str, bytes)) or is_frame or not isinstance(values, Iterable):
        raise RowError(
            f"{source!r}, column {name!r}: the values must be a list or an array, got {shown(values)}"
        )
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise RowError(f"{source!r}, column {name!r}: an array must have one dimension, got {values.ndim}")
    is_series = _is_pandas(values, "Series") or _is_pandas(values, "Index")
    if not isinstance(values, np.ndarray) and not is_series and not hasattr(values, "__arrow_c_stream__"):
        return list(values)
    # Arrow mistakes datetime64[25s] for seconds.
    is_stepped = isinstance(values, np.ndarray) and _is_stepped(values.dtype)
    if getattr(values, "dtype", None) != np.dtype(object) and not is_stepped:
        try:
            return decoded(
                pa.array(values) if isinstance(values, np.ndarray) or is_series else pa.chunked_array(values)
            )
        except FAILURES:
            pass
    if isinstance(values, np.ma.MaskedArray):
        return [None if value is np.ma.masked else value for value in values]
    return list(values) if not isinstance(values, np.ndarray) else [*values]


def _is_stepped(kind: np.dtype[Any]) -> bool:
    """Whether this is a datetime64 with a multiple of a unit."""
    return kind.kind == "M" and np.datetime_data(kind)[1] != 1


def _inferred(values: RawColumn, name: str, source: str) -> pa.Array:
    """A column with its inferred type: numbers of several kinds may mix, as may times and texts."""
    if not isinstance(values, list):
        try:
            return decoded(values)
        except FAILURES as failure:
            raise RowError(f"{source!r}, column {name!r}: {failure}") from None
    try:
        return decoded(pa.array(values))
    except FAILURES:
        pass
    mixed = [python_value(value) for value in values]
    mixed = [None if is_null_value(value) else value for value in mixed]
    try:
        return decoded(pa.array(_unified(mixed)))
    except FAILURES as failure:
        row = _first_failure(mixed, lambda part: pa.array(_unified(part)))
        value = values[row]
        if isinstance(failure, UnicodeError):
            why = "is not valid text"
        elif isinstance(value, int) and not -(10**76) < value < 10**76:
            why = "has too many digits"
        else:
            why = "is of another kind than the values before it"
        raise RowError(f"{source!r}, column {name!r}, row {row}: {_shown(value)} {why}") from None


def _unified(values: list[Any]) -> list[Any]:
    """Values converted to one type, where Arrow would not mix them in a column."""
    present = [value for value in values if value is not None]
    if all(isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) for value in present):
        # Infinities have no decimal.
        if any(isinstance(value, float) and np.isinf(value) for value in present):
            return [None if value is None else float(value) for value in values]
        return [
            printed(value) if isinstance(value, float) else None if value is None else Decimal(value)
            for value in values
        ]
    if all(isinstance(value, (str, datetime, date, Moment)) for value in present) and not all(
        isinstance(value, str) for value in present
    ):
        kind = ColumnType.parse("timestamp", column="")
        return [None if value is None else np.datetime64(convert_time(value, kind), "us") for value in values]
    return values


def convert_time(value: Any, kind: ColumnType) -> int:
    """A time as microseconds."""
    return value.microseconds if isinstance(value, Moment) else int(convert(value, kind))


def _columns_of_dicts(rows: Sequence[Any], source: str) -> dict[str, RawColumn]:
    names: dict[str, None] = {}
    for position, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise RowError(f"{source!r}, row {position}: a row must be a dict, got {type(row).__name__}")
        names.update(dict.fromkeys(row))
    return {str(name): [row.get(name) for row in rows] for name in names}


def _count(given: Mapping[str, RawColumn], special: RawColumn | None) -> int:
    lengths = {len(array) for array in given.values()} | ({len(special)} if special is not None else set())
    if len(lengths) > 1:
        raise RowError(f"the columns of a batch have different lengths: {sorted(lengths)}")
    return lengths.pop() if lengths else 0


def _deletes(given: RawColumn, source: str) -> Bools:
    ops = cast_column(given, ColumnType.parse("string", column=OP), column=OP, source=source)
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
        except FAILURES:
            high = middle
        else:
            low = middle
    return low


def _nearest(name: str, columns: Mapping[str, ColumnType]) -> str:
    near = difflib.get_close_matches(name, list(columns), n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; its columns are {', '.join(columns)}"
