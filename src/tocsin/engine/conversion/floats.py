"""Arrow columns as the numbers that indexes compute with."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa

from tocsin import ordinals
from tocsin.arrays.types import Floats, Longs
from tocsin.decimals import doubles_of_decimals, unscaled
from tocsin.engine.conversion.arrow import one_array
from tocsin.errors import WeightOverflow
from tocsin.grids import grid_of

_STORAGE_TYPES = {pa.timestamp("us").id: pa.int64(), pa.date32().id: pa.int32()}

#: A double's weight is rounded to a multiple of 1 / DOUBLE_SCALE.
DOUBLE_SCALE = 1 << 20

#: The dtype of a column's storage, by the id of its type.
STORAGE_DTYPES: dict[int, type[np.generic]] = {
    pa.int32().id: np.int32,
    pa.int64().id: np.int64,
    pa.float32().id: np.float32,
    pa.float64().id: np.float64,
    pa.timestamp("us").id: np.int64,
    pa.date32().id: np.int32,
}


def floats_of(column: pa.Array | pa.ChunkedArray) -> Floats:
    """A numeric column as doubles: NaN for NULL, 0.0 for -0.0, times as UTC microseconds."""
    return np.asarray(numbers_of(one_array(column)), np.float64) + 0.0


def numbers_of(column: pa.Array) -> np.ndarray:
    """A numeric column as numbers: a view of its storage if none is NULL; else doubles, NaN for NULL."""
    kind = column.type
    as_laid = STORAGE_DTYPES.get(kind.id)
    if as_laid is not None and not column.null_count:
        return np.frombuffer(column.buffers()[1], as_laid, len(column) + column.offset)[column.offset :]
    if pa.types.is_decimal(kind):
        return doubles_of_decimals(column)
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_date(kind):
        column = column.cast(pa.int32())
    elif not pa.types.is_integer(kind) and not pa.types.is_floating(kind):
        column = column.cast(pa.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def integers_of(column: pa.Array) -> Longs:
    """Integers, dates as days and times as UTC microseconds; 0 for NULL. Cost: linear."""
    laid = column if pa.types.is_integer(column.type) else column.cast(_STORAGE_TYPES[column.type.id])
    whole: Longs = laid.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return whole


def coordinates_of(column: pa.Array | pa.ChunkedArray) -> Floats:
    """A numeric column as the doubles that indexes compare (see `grids`); NaN for NULL. Cost: linear."""
    column = one_array(column)
    grid = grid_of(column.type)
    if grid is None or not grid.is_ordinal:
        return floats_of(column)
    if pa.types.is_decimal(column.type):
        units, fits, is_null = unscaled(column)
        coordinates = np.where(fits, ordinals.encode(units), np.inf)
    else:
        is_null = np.asarray(column.is_null(), np.bool_)
        coordinates = ordinals.encode(integers_of(column))
    coordinates[is_null] = np.nan
    return coordinates


def weights_of(column: pa.Array | pa.ChunkedArray, *, name: str) -> Longs:
    """A weight column as scaled integers; 0 where it is NULL, NaN or not positive.

    Raises WeightOverflow if a weight does not fit, naming the row.
    """
    column = one_array(column)
    kind = column.type
    if pa.types.is_integer(kind):
        if column.null_count:
            column = column.fill_null(0)
        exact: Longs = column.to_numpy().astype(np.int64, copy=False)
        return np.maximum(exact, 0)
    if pa.types.is_decimal(kind):
        return _decimal_weights(column, name)
    scaled = np.rint(np.nan_to_num(floats_of(column), nan=0.0, posinf=np.inf, neginf=0.0) * DOUBLE_SCALE)
    scaled = np.maximum(scaled, 0.0)
    _refuse(scaled >= 2.0**63, column, name)
    return scaled.astype(np.int64)


def _decimal_weights(column: pa.Array, name: str) -> Longs:
    column = column.fill_null(pa.scalar(Decimal(0), column.type))
    # A decimal128 is two 64-bit words, the low one first: it fits if the high one only extends the sign.
    words = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)
    words = words[column.offset : column.offset + len(column)]
    low, high = words[:, 0], words[:, 1]
    _refuse((high > 0) | ((high == 0) & (low < 0)), column, name)
    return np.where(high < 0, 0, low)


def _refuse(too_large: np.ndarray, column: pa.Array, name: str) -> None:
    if too_large.any():
        row = int(np.argmax(too_large))
        raise WeightOverflow(
            f"column {name!r}, row {row}: {column[row].as_py()!r} is too large a weight for a threshold; "
            "weights are summed as 64-bit integers, scaled as their type says"
        )
