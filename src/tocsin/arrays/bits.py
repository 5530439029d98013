"""Lowest and highest set bit of a 64-bit mask, and doubles as order-preserving integers."""

from __future__ import annotations

from typing import Any

from numba.core import config
from numba.cpython.unsafe import numbers

from tocsin.arrays.jit import inlined

#: More than any key, and than any insertion number.
NEVER = 2**63 - 1


#: CPU instructions, which only compiled code can call.
_trailing_zeros: Any = numbers.trailing_zeros
_leading_zeros: Any = numbers.leading_zeros


def _first_bit(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _last_bit(mask: int) -> int:
    return mask.bit_length() - 1


@inlined
def _first_bit_compiled(mask: int) -> int:
    return int(_trailing_zeros(mask))


@inlined
def _last_bit_compiled(mask: int) -> int:
    return 63 - int(_leading_zeros(mask))


_IS_COMPILED = not vars(config)["DISABLE_JIT"]

#: Index of the lowest and of the highest set bit of a nonzero mask. Interpreted, masks are not negative.
first_bit = _first_bit_compiled if _IS_COMPILED else _first_bit
last_bit = _last_bit_compiled if _IS_COMPILED else _last_bit


@inlined
def order_key(bits: int) -> int:
    """An integer below NEVER in the order of the double with these bits.

    A minimum over integers vectorises, which IEEE rules forbid for doubles.
    """
    return bits ^ ((bits >> 63) & NEVER)
