"""Values as the oracle sees them: one Python object each, NULL and NaN alike as None."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypeAlias

Scalar: TypeAlias = float | int | str | bool | Decimal | datetime
#: a cell, an attribute of a sparse row, or (under `_weights`) the weights of a row
Value: TypeAlias = Scalar | tuple[float, float] | Mapping[str, float] | None
Row: TypeAlias = Mapping[str, Value]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def clean(value: Value) -> Value:
    """NaN as None, -0.0 as 0.0, everything else as it is."""
    if isinstance(value, float):
        return None if math.isnan(value) else value + 0.0
    return value


def coerce(value: Value, type_name: str) -> Value:
    """The value as a column of that type holds it."""
    if value is None:
        return None
    if type_name in ("double", "float"):
        assert isinstance(value, float | int | Decimal)
        return clean(float(value))
    if type_name.startswith("decimal"):
        assert isinstance(value, float | int | Decimal | str)
        return Decimal(value).quantize(Decimal(1).scaleb(-scale_of(type_name)))
    return value


def scale_of(type_name: str) -> int:
    """How many digits a decimal type has after the point."""
    return int(type_name.rstrip(")").split(",")[1])


def microseconds(time: datetime) -> int:
    """UTC microseconds since 1970."""
    return (time - EPOCH) // timedelta(microseconds=1)


def number(value: Value) -> float | int | Decimal | None:
    """The number that conditions and scores compare; None for anything that is not one."""
    if isinstance(value, bool | str | tuple) or value is None:
        return None
    if isinstance(value, datetime):
        return microseconds(value)
    assert isinstance(value, float | int | Decimal)
    return None if math.isnan(value) else value


def text(value: Value) -> str:
    """A key as text: Python's `str`, and ISO-8601 for times."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return str(clean(value))


def as_json(value: Value) -> object:
    """A value as a row's JSON holds it."""
    value = clean(value)
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime):
        return text(value)
    if isinstance(value, tuple):
        return dict(zip(("low", "high"), map(as_json, value), strict=True))
    return value
