"""Limits of exactness: values that an index could not distinguish are refused before anything changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

import numpy as np
import pyarrow as pa

from tocsin import ordinals
from tocsin.arrays.types import Bools
from tocsin.decimals import EXACT_DIGITS, unscaled
from tocsin.engine.conversion.arrow import one_array
from tocsin.engine.conversion.floats import integers_of
from tocsin.engine.conversion.small_batch import SmallBatch
from tocsin.errors import RowError

#: By column, the largest value accepted, in units of its type's last place.
Limits = dict[str, int]


def comparison_limits(schema: pa.Schema, columns: Iterable[str]) -> Limits:
    """The limits of columns that are compared."""
    return {name: ordinals.LARGEST for name in columns if _reaches(schema.field(name).type, ordinals.LARGEST)}


def double_limits(schema: pa.Schema, columns: Iterable[str]) -> Limits:
    """The limits of columns that are summed or reported as doubles: none may be rounded."""
    limits = {}
    for name in columns:
        kind = schema.field(name).type
        limit = 10**EXACT_DIGITS if pa.types.is_decimal(kind) else ordinals.EXACT
        if _reaches(kind, limit):
            limits[name] = limit
    return limits


def least_limits(several: Iterable[Limits]) -> Limits:
    """The least limit of each column."""
    least: Limits = {}
    for limits in several:
        for name, limit in limits.items():
            least[name] = min(limit, least.get(name, limit))
    return least


def rows_beyond(rows: pa.Table, limits: Mapping[str, int]) -> dict[int, str]:
    """The rows with a value beyond the limit of its column, and why they are refused. Cost: linear."""
    reasons: dict[int, str] = {}
    for name, limit in limits.items():
        for row in np.flatnonzero(_beyond(one_array(rows.column(name)), limit)).tolist():
            value = rows.column(name)[row].as_py()
            reasons.setdefault(row, f"column {name!r}: {_reason(value, rows.schema, name, limit)}")
    return reasons


def check_limits(rows: pa.Table | SmallBatch, limits: Mapping[str, int], *, source: str) -> None:
    """Raise RowError for the first value beyond the limit of its column. Cost: linear."""
    for name, limit in limits.items():
        if isinstance(rows, SmallBatch):
            place = rows.schema.get_field_index(name)
            values = [row[place] for row in rows.rows]
            is_beyond: Bools = np.array([value is not None and abs(value) > limit for value in values])
        else:
            is_beyond = _beyond(one_array(rows.column(name)), limit)
        if is_beyond.any():
            row = int(np.argmax(is_beyond))
            value = values[row] if isinstance(rows, SmallBatch) else rows.column(name)[row].as_py()
            reason = _reason(value, rows.schema, name, limit)
            raise RowError(f"{source!r}, column {name!r}, row {row}: {reason}")


def _reason(value: object, schema: pa.Schema, name: str, limit: int) -> str:
    return (
        f"{value} is too large for a subscription or space that reads this column: values are exact "
        f"up to {_shown(schema, name, limit)}"
    )


def _shown(schema: pa.Schema, name: str, limit: int) -> str:
    kind = schema.field(name).type
    if pa.types.is_timestamp(kind):
        return f"{limit} microseconds from 1970"
    return format(Decimal(limit).scaleb(-kind.scale), "f") if pa.types.is_decimal(kind) else str(limit)


def _reaches(kind: pa.DataType, limit: int) -> bool:
    """Whether a type has values beyond a limit."""
    if pa.types.is_decimal(kind):
        return bool(kind.precision > EXACT_DIGITS)
    # Times end with the year 9999.
    return bool(pa.types.is_int64(kind) or (pa.types.is_timestamp(kind) and limit < ordinals.LARGEST))


def _beyond(column: pa.Array, limit: int) -> Bools:
    if pa.types.is_decimal(column.type):
        units, fits, is_null = unscaled(column)
        return ~is_null & (~fits | (units > limit) | (units < -limit))
    units = integers_of(column)
    return (units > limit) | (units < -limit)
