"""Conversion of single Python values to declared types: the definition of what each type accepts.

`intake` converts whole columns faster, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal, DecimalException
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.decimals import EXACTLY, printed
from tocsin.times import DAY, EARLIEST, LATEST, days, microseconds
from tocsin.types import ColumnType

#: Why a time does not fit.
YEARS = "the years are 1 to 9999"


class ConversionError(ValueError):
    """A value does not fit the declared type; the text says why, unless that is obvious."""


def convert(value: Any, kind: ColumnType) -> Any:
    """The value as `kind`: a str, bool, int, float, Decimal, microseconds or days; None for NULL and NaN.

    Raises ConversionError.
    """
    value = python_value(value)
    if is_null_value(value):
        return None
    return _CONVERTERS[kind.name.partition("(")[0]](value, kind)


def is_null_value(value: Any) -> bool:
    """Whether a plain value is NULL or NaN."""
    # A signalling NaN of Decimal cannot be compared.
    if isinstance(value, Decimal):
        return value.is_nan()
    return value is None or (isinstance(value, float) and value != value)


class Moment(NamedTuple):
    """A time in microseconds, rounded down, perhaps outside Python's range of years."""

    microseconds: int


def python_value(value: Any) -> Any:
    """A NumPy, pandas or Arrow scalar as a Python value or a Moment; None for NULL."""
    if isinstance(value, pa.TimestampScalar):
        return Moment(_in_microseconds(value.value, value.type.unit)) if value.is_valid else None
    if isinstance(value, (pa.Date32Scalar, pa.Date64Scalar)):
        # Arrow has dates that Python does not.
        return Moment(value.cast(pa.date32()).value * DAY) if value.is_valid else None
    if isinstance(value, pa.Scalar):
        return value.as_py()
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else _numpy_moment(value)
    if isinstance(value, np.generic):
        return value.item()
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value


def _numpy_moment(value: np.datetime64) -> Moment:
    unit, step = np.datetime_data(value.dtype)
    if unit in ("Y", "M"):
        value, unit, step = value.astype("datetime64[D]"), "D", 1
    return Moment(_in_microseconds(int(value.astype(np.int64)) * step, unit))


def _in_microseconds(count: int, unit: str) -> int:
    return count * _MULTIPLES[unit] if unit in _MULTIPLES else count // _FRACTIONS.get(unit, 1)


_MULTIPLES = {"W": 7 * DAY, "D": DAY, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1_000}
_FRACTIONS = {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}


def _string(value: Any, kind: ColumnType) -> str:
    if not isinstance(value, str):
        raise ConversionError
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConversionError("it is not valid text") from None
    return str(value)


def _boolean(value: Any, kind: ColumnType) -> bool:
    if not isinstance(value, bool):
        raise ConversionError
    return value


def _whole(value: Any, kind: ColumnType) -> int:
    bits = 31 if kind.name == "int" else 63
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise ConversionError
    if isinstance(value, Decimal) and value and value.adjusted() > 18:
        # As an integer it might fill the memory.
        raise ConversionError(f"it does not fit {bits + 1} bits")
    try:
        whole = int(value)
    except (OverflowError, ValueError):
        raise ConversionError from None
    if whole != value:
        raise ConversionError("it is not whole")
    if not -(1 << bits) <= whole < 1 << bits:
        raise ConversionError(f"it does not fit {bits + 1} bits")
    return whole


def _double(value: Any, kind: ColumnType) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise ConversionError
    try:
        # A Decimal may be a negative zero, which Arrow decimals do not have.
        nearest = float(value) + 0.0 if isinstance(value, Decimal) else float(value)
    except OverflowError:
        raise ConversionError("it is too large") from None
    if np.isinf(nearest) and value != nearest:
        raise ConversionError("it is too large")
    return nearest


def _single(value: Any, kind: ColumnType) -> float:
    nearest = _double(value, kind)
    if np.isfinite(nearest) and nearest != value and int(np.float64(nearest).view(np.int64)) % 2 == 0:
        # Rounded twice, a value may end on the wrong side of a tie: an odd double is never on one.
        nearest = float(np.nextafter(nearest, np.inf if Decimal(nearest) < value else -np.inf))
    with np.errstate(over="ignore"):
        single = float(np.float32(nearest))
    if np.isinf(single) and np.isfinite(nearest):
        raise ConversionError("it is too large")
    return single


def _decimal(value: Any, kind: ColumnType) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise ConversionError
    if isinstance(value, float):
        if np.isinf(value):
            raise ConversionError
        value = printed(value)
    exact = Decimal(value)
    arrow: Any = kind.arrow
    try:
        fitted = EXACTLY.quantize(exact, Decimal(1).scaleb(-arrow.scale))
    except DecimalException:
        raise ConversionError("it is too large") from None
    if fitted != exact:
        raise ConversionError(f"it has more than {arrow.scale} digits after the point")
    if abs(fitted.scaleb(arrow.scale, EXACTLY)) >= 10**arrow.precision:
        raise ConversionError("it is too large")
    return fitted


def _timestamp(value: Any, kind: ColumnType) -> int:
    if isinstance(value, Moment):
        if not EARLIEST <= value.microseconds <= LATEST:
            raise ConversionError(YEARS)
        return value.microseconds
    try:
        if isinstance(value, (str, datetime)):
            return microseconds(value)
        if isinstance(value, date):
            return days(value) * DAY
    except (ValueError, OverflowError):
        raise ConversionError from None
    raise ConversionError("write a datetime or an ISO-8601 text" if isinstance(value, int) else "")


def _date(value: Any, kind: ColumnType) -> int:
    if isinstance(value, (Moment, datetime)):
        day, rest = divmod(_timestamp(value, kind), DAY)
        if rest:
            raise ConversionError("it is not midnight")
        return day
    try:
        if isinstance(value, (str, date)):
            return days(value)
    except (ValueError, OverflowError):
        raise ConversionError from None
    raise ConversionError


_CONVERTERS: dict[str, Callable[[Any, ColumnType], Any]] = {
    "string": _string,
    "boolean": _boolean,
    "int": _whole,
    "bigint": _whole,
    "float": _single,
    "double": _double,
    "decimal": _decimal,
    "timestamp": _timestamp,
    "date": _date,
}
