"""What is made of vectors, and what is not, where the compiler would choose otherwise.

Sixteen numbers of a column are compared at once: a loop of so few steps is unrolled, and then no longer made
of vectors. And a number is read alone where the loop around it looks others up by it: as vectors, these
would be gathered, which takes longer than to read a few one by one.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic, overload

from tocsin.indexes.contract import Floats, Longs

#: Numbers that are compared at once.
LANES = 16


def bits_below(column: Floats, at: np.uint64, value: float) -> np.uint64:
    """A bit for each of LANES numbers of `column` from `at` on, the lowest first: it is below a value."""
    return _packed(column[int(at) : int(at) + LANES] < value)


def bits_at_most(column: Floats, at: np.uint64, value: float) -> np.uint64:
    """A bit for each of LANES numbers of `column` from `at` on: it is not above a value. NaN has none."""
    return _packed(column[int(at) : int(at) + LANES] <= value)


def read_alone(column: Longs, at: np.uint64) -> np.int64:
    """The number of `column` at a place. A loop around it takes its steps one by one."""
    return np.int64(column[at])


def _packed(is_set: np.ndarray[Any, Any]) -> np.uint64:
    return np.uint64(sum(1 << place for place in np.flatnonzero(is_set).tolist()))


@overload(bits_below, inline="always")
def _compiled_below(column: Any, at: Any, value: Any) -> Any:
    def compare(column: Any, at: Any, value: Any) -> Any:
        return _below(column, at, value)

    return compare


@overload(bits_at_most, inline="always")
def _compiled_at_most(column: Any, at: Any, value: Any) -> Any:
    def compare(column: Any, at: Any, value: Any) -> Any:
        return _at_most(column, at, value)

    return compare


@overload(read_alone, inline="always")
def _compiled_alone(column: Any, at: Any) -> Any:
    def read(column: Any, at: Any) -> Any:
        return _alone(column, at)

    return read


def _typed_alone(typing: Any, column: Any, at: Any) -> Any:
    """A read of an array of one dimension that may not be a part of a larger one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.load_atomic(builder.gep(array.data, [arguments[1]]), "unordered", 8)

    return numba.int64(column, numba.uint64), generate


def _comparison(sign: str) -> Any:
    """The comparison of a vector of an array of one dimension with a number, as a word of bits."""

    def typed(typing: Any, column: Any, at: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            numbers = ir.VectorType(ir.DoubleType(), LANES)
            anything, nowhere = ir.Constant(numbers, ir.Undefined), ir.VectorType(ir.IntType(32), LANES)
            pointer = builder.bitcast(builder.gep(array.data, [arguments[1]]), numbers.as_pointer())
            loaded = builder.load(pointer)
            # Of one number, not of the vector: a column begins anywhere.
            loaded.align = 8
            spread = builder.insert_element(anything, arguments[2], ir.IntType(32)(0))
            spread = builder.shuffle_vector(spread, anything, ir.Constant(nowhere, [0] * LANES))
            bits = builder.bitcast(builder.fcmp_ordered(sign, loaded, spread), ir.IntType(LANES))
            return builder.zext(bits, ir.IntType(64))

        return numba.uint64(column, numba.uint64, numba.float64), generate

    return intrinsic(typed)


_below: Any = _comparison("<")
_at_most: Any = _comparison("<=")
_alone: Any = intrinsic(_typed_alone)
