"""Small things that Arrow leaves to its users."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tocsin.indexes.contract import Bools


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece, copied only if it is in several."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def with_nulls(array: pa.Array, is_there: Bools) -> pa.Array:
    """A whole array, not copied, that is null where `is_there` is false."""
    bits = pa.py_buffer(np.packbits(is_there, bitorder="little"))
    return pa.Array.from_buffers(array.type, len(array), [bits, *array.buffers()[1:]])


def array_of(values: np.ndarray, kind: pa.DataType, is_there: Bools | None = None) -> pa.Array:
    """Contiguous numbers as an Arrow array of the same type, not copied; null where `is_there` is false.

    As `pa.array`, which takes longer to find out what it was given than a small array takes to tell.
    """
    bits = None if is_there is None else pa.py_buffer(np.packbits(is_there, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(values)])
