"""Sixty-four comparisons at once, as the bits of a mask, and walking through these."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic, overload

#: Numbers that are compared, and how many of them by one instruction.
BITS = 64
VECTOR = 8


def reaching(score: np.ndarray[Any, Any], sign: float, floor: np.ndarray[Any, Any]) -> int:
    """A bit for each of 64 scores that, times `sign`, is not below its floor; NaN is below all, and above.

    Compiled, a vector instruction for each eight. Negative there if the last bit is set.
    """
    return sum(1 << i for i in range(BITS) if sign * score[i] >= floor[i])


def first_bit(mask: int) -> int:
    """The lowest bit that is set; some bit is."""
    return (mask & -mask).bit_length() - 1


@overload(reaching, inline="always")
def _compiled_reaching(score: Any, sign: Any, floor: Any) -> Any:
    def compare(score: Any, sign: Any, floor: Any) -> Any:
        return _comparisons(score, sign, floor)

    return compare


@overload(first_bit, inline="always")
def _compiled_first_bit(mask: Any) -> Any:
    def find(mask: Any) -> Any:
        return _trailing_zeros(mask)

    return find


def _typed_comparisons(typing: Any, score: Any, sign: Any, floor: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, place, word = ir.DoubleType(), ir.IntType(32), ir.IntType(BITS)
        vector = ir.VectorType(number, VECTOR)
        scores, floors = (
            builder.bitcast(
                context.make_array(signature.args[i])(context, builder, arguments[i]).data,
                vector.as_pointer(),
            )
            for i in (0, 2)
        )
        signs = ir.Constant(vector, ir.Undefined)
        for i in range(VECTOR):
            signs = builder.insert_element(signs, arguments[1], place(i))
        mask = word(0)
        for i in range(BITS // VECTOR):
            left = builder.load(builder.gep(scores, [place(i)]), align=8)
            right = builder.load(builder.gep(floors, [place(i)]), align=8)
            is_reaching = builder.fcmp_ordered(">=", builder.fmul(left, signs), right)
            bits = builder.zext(builder.bitcast(is_reaching, ir.IntType(VECTOR)), word)
            mask = builder.or_(mask, builder.shl(bits, word(i * VECTOR)))
        return mask

    return numba.int64(score, sign, floor), generate


def _typed_trailing_zeros(typing: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return numba.int64(numba.int64), generate


_comparisons: Any = intrinsic(_typed_comparisons)
_trailing_zeros: Any = intrinsic(_typed_trailing_zeros)
