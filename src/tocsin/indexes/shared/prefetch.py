"""Telling the processor what will be read soon, so that reads of far places do not wait for each other."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic, overload


def prefetch(column: np.ndarray[Any, Any], at: int) -> None:
    """Have the cache line of `column[at]` fetched; nothing waits for it, and no place is too far.

    In compiled kernels only: elsewhere this does nothing.
    """


@overload(prefetch, inline="always")
def _compiled(column: Any, at: Any) -> Any:
    def fetch(column: Any, at: Any) -> None:
        _instruction(column, at)

    return fetch


def _typed(typing: Any, column: Any, at: Any) -> Any:
    """`llvm.prefetch` of a place of an array of one dimension."""

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


_instruction: Any = intrinsic(_typed)
