"""The first and the last bit of a mask of 64, and doubles as whole numbers. This is a leaf file."""

from __future__ import annotations

from typing import Any

from numba.core import config
from numba.cpython.unsafe import numbers

from tocsin.indexes.shared.jit import inlined

#: More than any key, and than any insertion number.
NEVER = 2**63 - 1


#: Instructions of the processor, which only compiled code can call.
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

#: The lowest bit that is set, and the highest; some bit is. Without the compiler masks are not negative.
first_bit = _first_bit_compiled if _IS_COMPILED else _first_bit
last_bit = _last_bit_compiled if _IS_COMPILED else _last_bit


@inlined
def order_key(bits: int) -> int:
    """A whole number in the order of the double that has these bits, below NEVER.

    The least of many is found in vector code, which IEEE rules forbid for doubles.
    """
    return bits ^ ((bits >> 63) & NEVER)
