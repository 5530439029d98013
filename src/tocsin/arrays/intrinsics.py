"""CPU instructions that Numba does not emit by itself: vector compares, prefetch, non-temporal stores."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic, overload

from tocsin.arrays.types import Floats, Longs

# Vectorisation where the compiler would choose otherwise: it unrolls a compare loop of sixteen steps and then
# does not vectorise it, and it gathers in a loop of lookups, which is slower than a few scalar reads.

#: Numbers compared at once.
LANES = 16


def bits_below(column: Floats, at: np.uint64, value: float) -> np.uint64:
    """A mask of LANES bits, lowest first: whether each number of `column` from `at` on is below `value`."""
    return _packed(column[int(at) : int(at) + LANES] < value)


def bits_at_most(column: Floats, at: np.uint64, value: float) -> np.uint64:
    """As `bits_below`, for at most `value`. NaN has no bit."""
    return _packed(column[int(at) : int(at) + LANES] <= value)


def read_scalar(column: Longs, at: np.uint64) -> np.int64:
    """`column[at]`. A loop around it is not vectorised."""
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


@overload(read_scalar, inline="always")
def _compiled_alone(column: Any, at: Any) -> Any:
    def read(column: Any, at: Any) -> Any:
        return _alone(column, at)

    return read


def _typed_alone(typing: Any, column: Any, at: Any) -> Any:
    """An atomic read of a one-dimensional array, which LLVM does not widen."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.load_atomic(builder.gep(array.data, [arguments[1]]), "unordered", 8)

    return numba.int64(column, numba.uint64), generate


def _comparison(sign: str) -> Any:
    """A vector of a one-dimensional array compared with a number, as a bit mask."""

    def typed(typing: Any, column: Any, at: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            numbers = ir.VectorType(ir.DoubleType(), LANES)
            anything, nowhere = ir.Constant(numbers, ir.Undefined), ir.VectorType(ir.IntType(32), LANES)
            pointer = builder.bitcast(builder.gep(array.data, [arguments[1]]), numbers.as_pointer())
            loaded = builder.load(pointer)
            # Aligned to a number, not to a vector: a column begins anywhere.
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


# Sixty-four comparisons at once, as the bits of a mask.

#: Numbers compared, and how many of them by one instruction.
BITS = 64
VECTOR = 8


def mask_reaching(score: np.ndarray[Any, Any], sign: float, floor: np.ndarray[Any, Any]) -> int:
    """A bit for each of 64 scores that, times `sign`, is at least its floor; NaN is not.

    Compiled, a vector instruction for each eight; the mask is then negative if its last bit is set.
    """
    return sum(1 << i for i in range(BITS) if sign * score[i] >= floor[i])


def first_bit(mask: int) -> int:
    """Index of the lowest set bit of a nonzero mask."""
    return (mask & -mask).bit_length() - 1


@overload(mask_reaching, inline="always")
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


# Prefetching, so that cache misses overlap.


def prefetch(column: np.ndarray[Any, Any], at: int) -> None:
    """Prefetch the cache line of `column[at]`; `at` may be out of bounds. Does nothing if interpreted."""


@overload(prefetch, inline="always")
def _compiled_prefetch(column: Any, at: Any) -> Any:
    def fetch(column: Any, at: Any) -> None:
        _instruction(column, at)

    return fetch


def _typed_prefetch(typing: Any, column: Any, at: Any) -> Any:
    """`llvm.prefetch` of an element of a one-dimensional array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, place_kind = signature.args
        array = context.make_array(kind)(context, builder, arguments[0])
        place = context.cast(builder, arguments[1], place_kind, numba.intp)
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        types = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], types)
        pointer = builder.bitcast(builder.gep(array.data, [place]), byte)
        # For reading, into all caches, data.
        builder.call(function, [pointer, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return numba.void(column, at), generate


_instruction: Any = intrinsic(_typed_prefetch)


# Non-temporal stores: past the caches, without first reading the lines that are overwritten.

#: Bytes of a cache line.
LINE = 64


def copy_streaming(into: np.ndarray[Any, Any], source: np.ndarray[Any, Any]) -> None:
    """Copy `source` to `into`, contiguous arrays of one length with 8-byte elements, past the caches.

    Interpreted, a plain copy.
    """
    into[:] = source


@overload(copy_streaming, inline="always")
def _compiled_store(into: Any, source: Any) -> Any:
    def copy(into: Any, source: Any) -> None:
        _instructions(into, source)

    return copy


def _typed_store(typing: Any, into: Any, source: Any) -> Any:
    """Single numbers up to the start of a cache line, then whole lines, then the rest."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, line = ir.IntType(64), ir.VectorType(ir.IntType(64), LINE // 8)
        arrays = [
            context.make_array(kind)(context, builder, argument)
            for kind, argument in zip(signature.args, arguments, strict=True)
        ]
        target, origin = (builder.bitcast(array.data, number.as_pointer()) for array in arrays)
        count = arrays[0].nitems
        place = builder.ptrtoint(target, number)
        before = builder.lshr(builder.and_(builder.neg(place), number(LINE - 1)), number(3))
        before = builder.select(builder.icmp_signed("<", before, count), before, count)
        n_lines = builder.lshr(builder.sub(count, before), number(3))
        after = builder.add(before, builder.shl(n_lines, number(3)))

        def single(begin: Any, end: Any) -> None:
            with cgutils.for_range_slice(builder, begin, end, number(1)) as (at, _):
                builder.store(builder.load(builder.gep(origin, [at])), builder.gep(target, [at]))

        single(number(0), before)
        with cgutils.for_range_slice(builder, before, after, number(LINE // 8)) as (at, _):
            read = builder.load(builder.bitcast(builder.gep(origin, [at]), line.as_pointer()), align=8)
            written = builder.store(
                read, builder.bitcast(builder.gep(target, [at]), line.as_pointer()), align=LINE
            )
            written.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
        single(after, count)
        return context.get_dummy_value()

    return numba.void(into, source), generate


_instructions: Any = intrinsic(_typed_store)
