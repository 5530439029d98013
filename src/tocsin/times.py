"""Parses times to UTC microseconds, rounded down, and dates to days."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)
DAY = 86_400_000_000

#: The first and the last time of the years 1 to 9999.
EARLIEST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
LATEST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def microseconds(time: str | datetime) -> int:
    """An ISO-8601 text or a datetime, UTC where it names no zone. Raises ValueError."""
    # A text's digits beyond microseconds are dropped, which rounds down before 1970 too.
    moment = datetime.fromisoformat(time.strip()) if isinstance(time, str) else time
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    count = (moment - _EPOCH) // _MICROSECOND
    if not EARLIEST <= count <= LATEST:
        raise ValueError("the years are 1 to 9999")
    return count


def microseconds_of(array: Any) -> Any:
    """An Arrow column of times of any unit as UTC microseconds, int64, rounded down. Raises ArrowInvalid."""
    kind = array.type
    if kind.unit == "ns":
        array = pc.floor_temporal(array, unit="microsecond")
    return array.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())


def days(day: str | date) -> int:
    """An ISO-8601 date as days since 1970. Raises ValueError."""
    given = date.fromisoformat(day.strip()) if isinstance(day, str) else day
    return given.toordinal() - _FIRST_DAY
