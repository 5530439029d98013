"""Times as text to UTC microseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def microseconds(text: str) -> int:
    """An ISO-8601 time, UTC where it names no zone. Raises ValueError."""
    time = datetime.fromisoformat(text.strip())
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // _MICROSECOND
