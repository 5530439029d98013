"""Batch kernels of the blocked list of rows."""

from __future__ import annotations

from tocsin.arrays.jit import lean_kernel
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.ranges.structures.blocked_rows_kernels import (
    has_capacity,
    put_row,
)
from tocsin.indexes.ranges.structures.blocked_rows_layout import BlockedColumns


@lean_kernel
def put_rows(blocked: BlockedColumns, slots: Ints, x: Floats, y: Floats, born: Longs, begin: int) -> int:
    """Put rows from number `begin` on, in order. Returns where it stopped for lack of capacity."""
    for i in range(begin, len(slots)):
        if not has_capacity(blocked):
            return i
        put_row(blocked, slots[i], x[i], y[i], born[i])
    return len(slots)
