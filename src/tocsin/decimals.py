"""Arrow decimals as doubles, each rounded once (Arrow's own cast is off by one in the last place)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

#: Whole numbers up to 2**53 and powers of ten up to 10**22 are exact as doubles, so one division rounds once.
EXACT_WHOLE = 2**53
EXACT_POWER = 22


def doubles_of_decimals(values: pa.Array | pa.ChunkedArray) -> NDArray[np.float64]:
    """The nearest double of each decimal, NaN for null. Cost: linear."""
    if isinstance(values, pa.ChunkedArray):
        parts = [doubles_of_decimals(chunk) for chunk in values.chunks]
        return np.concatenate(parts) if parts else np.empty(0)
    kind = values.type
    assert isinstance(kind, pa.Decimal128Type)
    words = values.buffers()[1]
    if len(values) == 0 or words is None:
        return np.full(len(values), np.nan)
    # A decimal128 is a 128-bit whole number, low word first, to be divided by 10**scale.
    pairs = np.frombuffer(memoryview(words), np.int64).reshape(-1, 2)[
        values.offset : values.offset + len(values)
    ]
    low, high = pairs[:, 0], pairs[:, 1]
    doubles = low / float(10**kind.scale)
    is_exact = (high == low >> 63) & (low <= EXACT_WHOLE) & (low >= -EXACT_WHOLE)
    is_null = np.zeros(len(values), np.bool_)
    if values.null_count:
        is_null = values.is_null().to_numpy(zero_copy_only=False)
    hard = (
        np.flatnonzero(~(is_exact | is_null)) if 0 <= kind.scale <= EXACT_POWER else np.flatnonzero(~is_null)
    )
    if len(hard):
        doubles[hard] = [float(str(value)) for value in values.take(hard).to_pylist()]
    doubles[is_null] = np.nan
    return doubles
