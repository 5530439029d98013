"""Arrow columns as the numbers that indexes compute with."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa

from tocsin.decimals import doubles_of_decimals
from tocsin.engine.arrow import one_array
from tocsin.errors import WeightOverflow
from tocsin.indexes.contract import Floats, Longs

#: A double's weight is rounded to a multiple of 1 / DOUBLE_SCALE.
DOUBLE_SCALE = 1 << 20


def floats_of(column: pa.Array | pa.ChunkedArray) -> Floats:
    """A numeric column as doubles: NaN for NULL, 0.0 for -0.0, times as UTC microseconds."""
    kind = column.type
    if pa.types.is_decimal(kind):
        return doubles_of_decimals(column) + 0.0
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif not pa.types.is_integer(kind) and not pa.types.is_floating(kind):
        column = column.cast(pa.float64(), safe=False)
    values = column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
    return np.ascontiguousarray(values, np.float64) + 0.0


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
