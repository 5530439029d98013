"""Order-preserving encoding of 64-bit integers as doubles, for bigints, times and long decimals.

Up to 2**53 an integer is exact as a double. Beyond, the n-th integer maps to the n-th double: an *ordinal*,
which preserves order and equality, and has no arithmetic meaning. The doubles suffice for integers up to
about 4.38e18 in magnitude.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Up to here integers are exact as doubles.
EXACT = 2**53
_EXACT_BITS = int(np.float64(EXACT).view(np.int64))
_LAST_BITS = int(np.finfo(np.float64).max.view(np.int64))

#: The largest integer that has an ordinal.
LARGEST = EXACT + _LAST_BITS - _EXACT_BITS


def encode(values: NDArray[np.int64]) -> NDArray[np.float64]:
    """The ordinal of each; those beyond `LARGEST` are infinite. Cost: linear."""
    codes: NDArray[np.float64] = values.astype(np.float64)
    is_large = (values > EXACT) | (values < -EXACT)
    if is_large.any():
        large = values[is_large]
        # abs() of the least 64-bit integer overflows to itself.
        beyond = np.abs(large) - EXACT
        bits = np.minimum(np.where(beyond < 0, LARGEST, beyond), LARGEST - EXACT + 1) + _EXACT_BITS
        codes[is_large] = np.copysign(bits.view(np.float64), large)
    return codes


def decode(codes: NDArray[np.float64]) -> NDArray[np.int64]:
    """The inverse of `encode`, for finite ordinals. Cost: linear."""
    is_large = np.abs(codes) > EXACT
    values: NDArray[np.int64] = np.where(is_large, 0.0, codes).astype(np.int64)
    if is_large.any():
        large = codes[is_large]
        magnitude = np.abs(large).view(np.int64) - _EXACT_BITS + EXACT
        values[is_large] = np.where(large < 0, -magnitude, magnitude)
    return values


def doubles(codes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The double nearest to the integer of each ordinal; NaN and infinities stay. Cost: linear."""
    is_large = (np.abs(codes) > EXACT) & np.isfinite(codes)
    if not is_large.any():
        return codes
    values = codes.copy()
    values[is_large] = decode(codes[is_large])
    return values


def encode_one(value: int) -> float:
    """The ordinal of one integer."""
    if -EXACT <= value <= EXACT:
        return float(value)
    if not -LARGEST <= value <= LARGEST:
        return np.inf if value > 0 else -np.inf
    return float(encode(np.array([value], np.int64))[0])
