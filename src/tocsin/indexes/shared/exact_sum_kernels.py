"""Sums of doubles without error: add and subtract in any order, round once.

Every finite double is a whole number of 2**-1074. A *total* holds such a whole number, as wide as it
takes, in one row of `SUM_SIZE` int64:

* limbs 0 to 67: the number is the sum over i of limb[i] * 2**(32 i). Limbs are signed and may exceed
  32 bits between two carries;
* `POSITIVE`, `NEGATIVE`: how many infinities of either sign are in;
* `PENDING`: how many values were added since the last carry.

Since nothing is lost on the way in, taking a value out again leaves no trace of it.
"""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Longs
from tocsin.indexes.shared.jit import kernel

#: 2,098 bits hold any finite double; the rest is room for 2**78 of the largest.
LIMBS = 68
POSITIVE = 68
NEGATIVE = 69
PENDING = 70
SUM_SIZE = 71

LOW_BITS = 0xFFFFFFFF
FRACTION_BITS = (1 << 52) - 1
HIDDEN_BIT = 1 << 52
EXPONENT_BITS = 0x7FF
#: A limb grows by less than 2**32 a value, so that 2**30 values stay below 2**63.
MOST_PENDING = 1 << 29


@kernel
def clear_total(total: Longs) -> None:
    """Set the sum to zero."""
    for i in range(SUM_SIZE):
        total[i] = 0


@kernel
def carry_limbs(total: Longs) -> None:
    """Bring every limb but the last, which keeps the sign, into 0 … 2**32 - 1. The sum stays."""
    carry = np.int64(0)
    for i in range(LIMBS - 1):
        limb = total[i] + carry
        total[i] = limb & LOW_BITS
        carry = limb >> 32
    total[LIMBS - 1] += carry
    total[PENDING] = 1


@kernel
def add_value(total: Longs, value: float, sign: int) -> None:
    """Add `value` (not NaN) if `sign` is 1, take it out if it is -1."""
    bits = np.float64(value).view(np.int64)
    exponent = (bits >> 52) & EXPONENT_BITS
    fraction = bits & FRACTION_BITS
    if exponent == EXPONENT_BITS:
        total[NEGATIVE if bits < 0 else POSITIVE] += sign
        return
    shift = np.int64(0)
    if exponent > 0:
        fraction |= HIDDEN_BIT
        shift = exponent - 1
    if bits < 0:
        sign = -sign
    first = shift >> 5
    within = shift & 31
    low = (fraction & LOW_BITS) << within
    high = ((fraction >> 32) << within) + (low >> 32)
    total[first] += sign * (low & LOW_BITS)
    total[first + 1] += sign * (high & LOW_BITS)
    total[first + 2] += sign * (high >> 32)
    total[PENDING] += 1
    if total[PENDING] >= MOST_PENDING:
        carry_limbs(total)


@kernel
def add_total(total: Longs, other: Longs, sign: int) -> None:
    """Add all that `other` holds if `sign` is 1, take it out if it is -1."""
    for i in range(PENDING):
        total[i] += sign * other[i]
    total[PENDING] += other[PENDING]
    if total[PENDING] >= MOST_PENDING:
        carry_limbs(total)


@kernel
def is_zero_total(total: Longs) -> bool:
    """Whether the sum is zero, and no infinity is left. Carries."""
    if total[POSITIVE] != 0 or total[NEGATIVE] != 0:
        return False
    carry_limbs(total)
    rest = np.int64(0)
    for i in range(LIMBS):
        rest |= total[i]
    return bool(rest == 0)


@kernel
def round_magnitude(total: Longs) -> float:
    """The double nearest to a carried sum that is not negative, ties to even."""
    top = LIMBS - 1
    while top >= 0 and total[top] == 0:
        top -= 1
    if top < 0:
        return 0.0
    length = top * 32
    digit = total[top]
    while digit > 0:
        digit >>= 1
        length += 1
    # The lowest bit of the answer; with 53 bits or fewer the sum is a double as it is.
    shift = np.int64(max(0, length - 53))
    if shift > EXPONENT_BITS - 2:
        return np.inf
    at = shift >> 5
    within = shift & 31
    fraction = total[at] >> within
    if at + 1 <= top:
        fraction += total[at + 1] << (32 - within)
    if at + 2 <= top:
        fraction += total[at + 2] << (64 - within)
    if shift > 0:
        half = (shift - 1) >> 5
        is_half = (total[half] >> ((shift - 1) & 31)) & 1
        if is_half == 1:
            rest = total[half] & ((np.int64(1) << ((shift - 1) & 31)) - 1)
            for i in range(half):
                rest |= total[i]
            if rest != 0 or (fraction & 1) == 1:
                fraction += 1
    # A fraction with its hidden bit adds one to the exponent; one rounded up to 2**53, two; the
    # largest exponent with no fraction is infinity. So one addition makes the bits of the answer.
    return np.int64((shift << 52) + fraction).view(np.float64)


@kernel
def round_total(total: Longs) -> float:
    """The double nearest to the sum, ties to even; NaN where infinities of both signs are in. Carries."""
    if total[POSITIVE] > 0 and total[NEGATIVE] > 0:
        return np.nan
    if total[POSITIVE] > 0:
        return np.inf
    if total[NEGATIVE] > 0:
        return -np.inf
    carry_limbs(total)
    if total[LIMBS - 1] >= 0:
        return round_magnitude(total)
    for i in range(LIMBS):
        total[i] = -total[i]
    carry_limbs(total)
    rounded = -round_magnitude(total)
    for i in range(LIMBS):
        total[i] = -total[i]
    return rounded
