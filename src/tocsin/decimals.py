"""Arrow decimals as unscaled integers and as correctly rounded doubles.

Arrow's own cast to double is off by one unit in the last place for one value in ten.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

#: Integers up to 2**53 and powers of ten up to 10**22 are exact as doubles, so that a division rounds once.
EXACT_WHOLE = 2**53
EXACT_POWER = 22

#: Distinct decimals of up to this many digits are distinct as doubles.
EXACT_DIGITS = 15

#: A context that never rounds, for decimals of any type.
EXACTLY = Context(prec=2_000, Emin=-999_999, Emax=999_999)


def doubles_of_decimals(values: pa.Array | pa.ChunkedArray) -> NDArray[np.float64]:
    """The nearest double of each decimal, NaN for null. Cost: linear."""
    low, fits, is_null = unscaled(values)
    scale = values.type.scale
    is_exact = fits & (low <= EXACT_WHOLE) & (low >= -EXACT_WHOLE) & (0 <= scale <= EXACT_POWER)
    doubles: NDArray[np.float64] = low / float(10 ** min(max(scale, 0), EXACT_POWER))
    hard = np.flatnonzero(~(is_exact | is_null))
    if len(hard):
        doubles[hard] = [float(str(value)) for value in values.take(pa.array(hard)).to_pylist()]
    doubles[is_null] = np.nan
    return doubles


def unscaled(
    values: pa.Array | pa.ChunkedArray,
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Each decimal's unscaled integer, 0 if invalid; whether it fits 64 bits; whether it is null.

    Cost: linear.
    """
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    is_null = np.asarray(array.is_null(), np.bool_)
    width = array.type.byte_width // 8
    data = array.buffers()[1]
    if len(array) == 0 or data is None:
        return np.zeros(len(array), np.int64), ~is_null, is_null
    if width == 0:
        # A decimal32, the only type narrower than a word.
        low = np.frombuffer(data, np.int32)[array.offset : array.offset + len(array)].astype(np.int64)
        fits = np.ones(len(array), np.bool_)
    else:
        # Words of 64 bits, the low one first: it fits if the others only extend its sign.
        words = np.frombuffer(data, np.int64)[: (array.offset + len(array)) * width].reshape(-1, width)
        words = words[array.offset :]
        low = words[:, 0].copy()
        fits = (words[:, 1:] == (low >> 63)[:, None]).all(axis=1)
    low[is_null | ~fits] = 0
    return low, fits & ~is_null, is_null


def scaled_array(values: NDArray[np.int64], kind: Any, is_null: NDArray[np.bool_] | None = None) -> Any:
    """Decimal128s from unscaled integers; null where `is_null`."""
    words = np.empty((len(values), 2), np.int64)
    words[:, 0], words[:, 1] = values, values >> 63
    bits = None if is_null is None else pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(words)])


def printed(value: float) -> Decimal:
    """The decimal that a double prints as: 0.1 is a tenth, although the double is a little more.

    An integer stands for itself.
    """
    return Decimal(int(value)) if value.is_integer() else Decimal(repr(value))
