"""Windows and delays as a user writes them: `1000000 rows`, `5 minutes`."""

from __future__ import annotations

import re
from typing import Any

from tocsin.engine.conversion.values import ConversionError, Moment, convert, is_null_value, python_value
from tocsin.errors import DeclarationError, RowError
from tocsin.types import ColumnType

_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_SPAN = re.compile(r"\s*(\d+)\s*([a-z]+?)s?\s*", re.IGNORECASE)
_TIMESTAMP = ColumnType.parse("timestamp", column="")
_LONGEST = 1 << 60


def window_size(text: str, *, source: str) -> tuple[str, int]:
    """`("rows", n)` or `("time", microseconds)`."""
    match = _SPAN.fullmatch(text) if isinstance(text, str) else None
    if match and int(match[1]) > 0:
        if match[2].lower() == "row" and int(match[1]) < 1 << 31:
            return "rows", int(match[1])
        if match[2].lower() in _MICROSECONDS:
            return "time", _bounded(match, text, source)
    raise DeclarationError(
        f"stream {source!r}: window {text!r} cannot be read; write '1000 rows' or '5 minutes' "
        f"({', '.join(unit + 's' for unit in _MICROSECONDS)})"
    )


def delay_length(text: str, *, source: str) -> int:
    """A delay in microseconds."""
    match = _SPAN.fullmatch(text) if isinstance(text, str) else None
    if match and match[2].lower() in _MICROSECONDS:
        return _bounded(match, text, source)
    raise DeclarationError(
        f"stream {source!r}: delay {text!r} cannot be read; write for example '10 seconds'"
    )


def microseconds(time: Any) -> int:
    """A time as UTC microseconds: from a datetime (naive is UTC), an ISO-8601 text, or microseconds."""
    value = python_value(time)
    if is_null_value(value):
        raise RowError(f"{time!r} is not a time; give a datetime, an ISO-8601 text or UTC microseconds")
    if isinstance(value, int) and not isinstance(value, bool):
        value = Moment(value)
    try:
        return int(convert(value, _TIMESTAMP))
    except (ConversionError, TypeError) as failure:
        why = f": {failure}" if str(failure) else "; give a datetime, an ISO-8601 text or UTC microseconds"
        raise RowError(f"{time!r} is not a time{why}") from None


def _bounded(match: re.Match[str], text: str, source: str) -> int:
    length = int(match[1]) * _MICROSECONDS[match[2].lower()]
    if length > _LONGEST:
        raise DeclarationError(f"stream {source!r}: {text!r} is too long")
    return length
