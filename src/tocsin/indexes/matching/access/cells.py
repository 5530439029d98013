"""Compares the cells of 64 records with an event's in one vector operation, one bit for each record."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from tocsin.indexes.matching.access.layout_kernels import CELL_GUARDS, GROUP


def compare_cells(
    cells: NDArray[np.uint64], word: np.uint32, place: np.uint64, value: np.uint64
) -> np.uint64:
    """One bit for each of GROUP records from `place` on: set if its cells in a row of `cells` fit `value`.

    Cells fit if no byte of the record is greater: then subtraction leaves all guard bits of `value`.
    """
    row = cells[int(word), int(place) : int(place) + GROUP]
    guards = np.uint64(CELL_GUARDS)
    is_met = (np.uint64(value) - row) & guards == guards
    return np.uint64(sum(1 << bit for bit in np.flatnonzero(is_met).tolist()))


@overload(compare_cells, inline="always")
def _compiled(cells: Any, word: Any, place: Any, value: Any) -> Any:
    def compare(cells: Any, word: Any, place: Any, value: Any) -> Any:
        return _instructions(cells, word, place, value)

    return compare


def _typed(typing: Any, cells: Any, word: Any, place: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, vector = ir.IntType(64), ir.VectorType(ir.IntType(64), GROUP)
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        _, width = (builder.extract_value(array.shape, axis) for axis in range(2))
        at = builder.add(builder.mul(builder.zext(arguments[1], number), width), arguments[2])
        pointer = builder.bitcast(builder.gep(array.data, [at]), vector.as_pointer())
        # Rows of records are not aligned to whole vectors.
        loaded = builder.load(pointer, align=8)

        def everywhere(one: Any) -> Any:
            first = builder.insert_element(ir.Constant(vector, ir.Undefined), one, ir.IntType(32)(0))
            nowhere = ir.Constant(ir.VectorType(ir.IntType(32), GROUP), None)
            return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), nowhere)

        guards = everywhere(number(CELL_GUARDS))
        left = builder.and_(builder.sub(everywhere(arguments[3]), loaded), guards)
        return builder.bitcast(builder.icmp_unsigned("==", left, guards), number)

    return numba.uint64(cells, numba.uint32, numba.uint64, numba.uint64), generate


_instructions: Any = intrinsic(_typed)
