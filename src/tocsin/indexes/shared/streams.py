"""Writing what will not be read soon: past the caches, without reading first what is overwritten."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic, overload

#: Bytes of a cache line.
LINE = 64


def stream(into: np.ndarray[Any, Any], source: np.ndarray[Any, Any]) -> None:
    """Copy `source` to `into`: contiguous, of one length, of numbers of 8 bytes.

    Whole cache lines are written past the caches. Not compiled, a plain copy.
    """
    into[:] = source


@overload(stream, inline="always")
def _compiled(into: Any, source: Any) -> Any:
    def copy(into: Any, source: Any) -> None:
        _instructions(into, source)

    return copy


def _typed(typing: Any, into: Any, source: Any) -> Any:
    """Single numbers up to a cache line's beginning, then whole lines, then what is left."""

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


_instructions: Any = intrinsic(_typed)
