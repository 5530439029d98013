"""Small helpers for Arrow arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tocsin.arrays.types import Bools


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece, copied only if it is in several."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def with_nulls(array: pa.Array, is_valid: Bools) -> pa.Array:
    """An array without offset, not copied, that is null where `is_valid` is false."""
    bits = pa.py_buffer(np.packbits(is_valid, bitorder="little"))
    return pa.Array.from_buffers(array.type, len(array), [bits, *array.buffers()[1:]])


def array_of(values: np.ndarray, kind: pa.DataType, is_valid: Bools | None = None) -> pa.Array:
    """Contiguous numbers as an Arrow array of the same type, not copied; null where `is_valid` is false.

    Faster than `pa.array` for small arrays, whose type inference dominates.
    """
    bits = None if is_valid is None else pa.py_buffer(np.packbits(is_valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(values)])
