"""Casts Arrow columns to declared types, with the same result as `values.convert` on each value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.decimals import EXACT_POWER, EXACT_WHOLE, doubles_of_decimals, scaled_array
from tocsin.engine.conversion.values import YEARS, ConversionError, convert
from tocsin.times import DAY, EARLIEST, LATEST, microseconds_of
from tocsin.types import ColumnType

#: What casting raises if a value does not fit.
FAILURES = (pa.ArrowException, ConversionError, TypeError, ValueError, OverflowError)

_TIME = pa.timestamp("us", tz="UTC")
#: Texts that Arrow parses as Python does.
_PLAIN_TIME = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?$"
_ZONE = r"(Z|[+-]\d\d:\d\d)$"


def cast(array: pa.Array, kind: ColumnType) -> pa.Array:
    """`array`, a result of `decoded`, as the declared type; NaN is NULL.

    Raises one of FAILURES if a value does not fit. Cost: linear.
    """
    have = array.type
    array = without_nan(array)
    if have.equals(kind.arrow):
        if kind.is_timestamp or kind.is_date:
            refuse_years(array)
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), kind.arrow)
    if kind.is_timestamp:
        return _times(array)
    if kind.is_date:
        return _dates(array, kind)
    if not kind.is_numeric or not _is_number(have):
        raise ConversionError
    if kind.is_decimal:
        return _decimals(array, kind)
    if pa.types.is_floating(kind.arrow):
        return _floats(array, kind)
    return array.cast(kind.arrow)


def decoded(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one chunk, decoded from dictionaries, runs and extensions, with texts as plain strings."""
    if isinstance(column, pa.ChunkedArray):
        # Each chunk may have a dictionary of its own.
        parts = [decoded(chunk) for chunk in column.chunks]
        return pa.concat_arrays(parts) if parts else decoded(pa.array([], column.type))
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return decoded(column.storage)
    if pa.types.is_dictionary(kind):
        return decoded(column.dictionary).take(column.indices.cast(pa.int64()))
    if pa.types.is_run_end_encoded(kind):
        return decoded(pc.run_end_decode(column))
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return column.cast(pa.string())
    if pa.types.is_float16(kind):
        return column.cast(pa.float32())
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    return column


def without_nan(array: pa.Array) -> pa.Array:
    """NULL instead of NaN."""
    if not pa.types.is_floating(array.type):
        return array
    is_nan = pc.is_nan(array)
    return pc.if_else(is_nan, pa.scalar(None, array.type), array) if pc.any(is_nan).as_py() else array


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _floats(array: pa.Array, kind: ColumnType) -> pa.Array:
    """The nearest single or double; none that is finite becomes infinite."""
    if pa.types.is_decimal(array.type):
        if kind.name == "float":
            return _each(array, kind)
        array = pa.array(doubles_of_decimals(array), from_pandas=True)
    floats = array.cast(kind.arrow, safe=False)
    if pa.types.is_floating(array.type) and not pc.all(pc.equal(pc.is_inf(array), pc.is_inf(floats))).as_py():
        raise ConversionError
    return floats


def _decimals(array: pa.Array, kind: ColumnType) -> pa.Array:
    arrow: Any = kind.arrow
    if pa.types.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0))
    if pa.types.is_decimal(array.type):
        # Wide enough for all digits of both.
        return array.cast(pa.decimal256(76, max(arrow.scale, array.type.scale))).cast(arrow)
    numbers = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
    is_null = np.asarray(array.is_null(), np.bool_)
    if arrow.scale > EXACT_POWER:
        return _each(array, kind)
    power = float(10**arrow.scale)
    with np.errstate(all="ignore"):
        scaled = np.rint(numbers * power)
        # Such a double prints as this decimal.
        is_plain = (np.abs(scaled) < min(EXACT_WHOLE, 10**arrow.precision)) & (scaled / power == numbers)
    if not (is_plain | is_null).all():
        return _each(array, kind)
    whole = np.where(is_null, 0.0, scaled).astype(np.int64)
    return scaled_array(whole, arrow, is_null if is_null.any() else None)


def _times(array: pa.Array) -> pa.Array:
    have = array.type
    if pa.types.is_string(have):
        return _parsed_times(array)
    if pa.types.is_timestamp(have):
        whole = microseconds_of(array)
    elif pa.types.is_date(have):
        whole = array.cast(pa.timestamp("us")).cast(pa.int64())
    else:
        raise ConversionError
    times = whole.cast(_TIME)
    refuse_years(times)
    return times


def refuse_years(times: pa.Array) -> None:
    """Raise ConversionError for a time or a date outside the years 1 to 9999, one of FAILURES at least."""
    if pa.types.is_date(times.type):
        times = times.cast(pa.timestamp("us"))
    ends = pc.min_max(times.cast(pa.int64()))
    least, most = ends["min"].as_py(), ends["max"].as_py()
    if least is not None and not (least >= EARLIEST and most <= LATEST):
        raise ConversionError(YEARS)


def _parsed_times(array: pa.Array) -> pa.Array:
    kind = ColumnType("timestamp", _TIME)
    is_plain = pc.match_substring_regex(array, _PLAIN_TIME)
    if not pc.all(is_plain).as_py():
        return _each(array, kind)
    has_zone = pc.match_substring_regex(array, _ZONE)
    times = pc.if_else(has_zone, array, pc.binary_join_element_wise(array, "Z", "")).cast(_TIME)
    refuse_years(times)
    return times


def _dates(array: pa.Array, kind: ColumnType) -> pa.Array:
    have = array.type
    if pa.types.is_date(have):
        days = array.cast(pa.date32())
        refuse_years(days)
        return days
    if pa.types.is_timestamp(have):
        whole = _times(array).cast(pa.int64()).fill_null(0).to_numpy()
        if (whole % DAY).any():
            raise ConversionError("it is not midnight")
        days = pa.array((whole // DAY).astype(np.int32), mask=np.asarray(array.is_null(), np.bool_))
        return days.cast(pa.date32())
    if pa.types.is_string(have):
        return _each(array, kind)
    raise ConversionError


def _each(array: pa.Array, kind: ColumnType) -> pa.Array:
    """Convert each distinct value in Python, which is slower."""
    encoded = array.dictionary_encode()
    found = [convert(value, kind) for value in encoded.dictionary.to_pylist()]
    return pa.array(found, kind.arrow).take(encoded.indices)
