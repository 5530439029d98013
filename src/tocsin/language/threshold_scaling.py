"""Thresholds as scaled integers.

For each tau, the smallest T such that a sum reaches tau exactly if the scaled sum reaches T. Where a sum must
exceed tau, `strict`, the smallest T beyond it.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tocsin.types import ColumnType

LARGEST = 2**63 - 1

#: Digits of Arrow's largest decimals.
_WIDEST = 76

#: pyarrow's stubs do not cover these functions.
_compute: Any = pc

#: Double weights are rounded to multiples of 1 / DOUBLE_SCALE.
DOUBLE_SCALE = 2**20


def scale_of(column: ColumnType | None) -> int:
    """The factor by which weights of this column are scaled; None is for COUNT(*)."""
    if column is None or column.is_integer:
        return 1
    if not column.is_decimal:
        return DOUBLE_SCALE
    arrow: Any = column.arrow
    return int(10**arrow.scale)


def scaled_literal(tau: float | int, scale: int, strict: bool) -> int | None:
    """T for a number in a statement; None where it is not positive or does not fit 64 bits."""
    if isinstance(tau, int):
        reached = tau * scale + strict
        return reached if tau >= 0 and 0 < reached <= LARGEST else None
    scaled, is_good = scaled_floats(np.array([tau]), scale, strict)
    return int(scaled[0]) if is_good[0] else None


def scaled_floats(
    tau: NDArray[np.float64], scale: int, strict: bool
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """T for each tau, and whether it is positive and fits.

    Where weights are decimals, a double means the decimal it prints as: 0.1 is a tenth, although the
    double is a little more.
    """
    with np.errstate(all="ignore"):
        product = tau * float(scale)
        scaled = np.ceil(product)
        is_exact = scaled == product
        if scale not in (1, DOUBLE_SCALE):
            nearest = np.rint(product)
            is_exact = nearest / float(scale) == tau
            scaled = np.where(is_exact, nearest, scaled)
        is_good = (tau >= 0) & (strict | (tau > 0)) & (scaled < float(2**63))
        whole = np.where(is_good, scaled, 1).astype(np.int64)
        if scale not in (1, DOUBLE_SCALE):
            # Beyond what doubles hold exactly.
            for row in np.flatnonzero(is_good & (product >= 2.0**53)).tolist():
                exact = Fraction(repr(tau.item(row))) * scale
                is_good[row] = exact <= LARGEST
                whole[row] = ceil(exact) if is_good[row] else 1
                is_exact[row] = whole[row] == exact
        if strict:
            is_good &= (whole < LARGEST) | ~is_exact
            whole += is_good & is_exact
        return whole, is_good


def scaled_integers(
    tau: NDArray[np.int64], scale: int, strict: bool
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """T for each tau, exactly, and whether it is positive and fits."""
    is_good = (tau >= (0 if strict else 1)) & (tau <= (LARGEST - strict) // scale)
    return np.where(is_good, tau, 0) * np.int64(min(scale, LARGEST)) + np.int64(strict), is_good


def scaled_decimals(tau: Any, scale: int, strict: bool) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """T for each tau of an Arrow decimal array, exactly, and whether it is positive and fits."""
    factor = _decimal(scale)
    digits_left = _WIDEST - factor.type.precision - 1
    exact = _compute.multiply(tau.cast(pa.decimal256(digits_left, tau.type.scale)), factor)
    product = _compute.ceil(exact)
    is_exact = _compute.equal(exact, product)
    fits = _compute.less_equal(product, _decimal(LARGEST))
    if strict:
        has_next = _compute.or_(_compute.less(product, _decimal(LARGEST)), _compute.invert(is_exact))
        fits = _compute.and_(fits, has_next)
    above = _compute.greater_equal if strict else _compute.greater
    is_good = _compute.and_(fits, above(exact, _decimal(0)))
    whole = _compute.if_else(is_good, product, _decimal(1)).cast(pa.int64()).to_numpy(zero_copy_only=False)
    if strict:
        is_next = _compute.and_(is_exact, is_good)
        whole = whole + is_next.to_numpy(zero_copy_only=False)
    return whole, is_good.to_numpy(zero_copy_only=False)


def _decimal(value: int) -> Any:
    return pa.scalar(Decimal(value), pa.decimal256(len(str(value)), 0))
