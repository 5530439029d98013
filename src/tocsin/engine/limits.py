"""Values that an index cannot tell apart from others: refused before anything changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

import numpy as np
import pyarrow as pa

from tocsin import ordinals
from tocsin.decimals import EXACT_DIGITS, unscaled
from tocsin.engine.arrow import one_array
from tocsin.engine.few import FewRows
from tocsin.engine.floats import whole_of
from tocsin.errors import RowError
from tocsin.indexes.contract import Bools

#: By column, the largest value that may come, in units of its type's last place.
Limits = dict[str, int]


def compared(schema: pa.Schema, columns: Iterable[str]) -> Limits:
    """The limits of columns that are compared."""
    return {name: ordinals.LARGEST for name in columns if _reaches(schema.field(name).type, ordinals.LARGEST)}


def as_doubles(schema: pa.Schema, columns: Iterable[str]) -> Limits:
    """The limits of columns that are summed, or told as doubles: none may be rounded."""
    limits = {}
    for name in columns:
        kind = schema.field(name).type
        limit = 10**EXACT_DIGITS if pa.types.is_decimal(kind) else ordinals.EXACT
        if _reaches(kind, limit):
            limits[name] = limit
    return limits


def joined(several: Iterable[Limits]) -> Limits:
    """The least limit of each column."""
    least: Limits = {}
    for limits in several:
        for name, limit in limits.items():
            least[name] = min(limit, least.get(name, limit))
    return least


def refuse_beyond(rows: pa.Table | FewRows, limits: Mapping[str, int], *, source: str) -> None:
    """Raise RowError for the first value beyond the limit of its column. Cost: linear."""
    for name, limit in limits.items():
        if isinstance(rows, FewRows):
            place = rows.schema.get_field_index(name)
            values = [row[place] for row in rows.rows]
            is_beyond: Bools = np.array([value is not None and abs(value) > limit for value in values])
        else:
            is_beyond = _beyond(one_array(rows.column(name)), limit)
        if is_beyond.any():
            row = int(np.argmax(is_beyond))
            value = values[row] if isinstance(rows, FewRows) else rows.column(name)[row].as_py()
            raise RowError(
                f"{source!r}, column {name!r}, row {row}: {value} is too large for a subscription or space "
                f"that reads this column: it keeps values exactly up to {_shown(rows.schema, name, limit)}"
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
    units = whole_of(column)
    return (units > limit) | (units < -limit)
