"""Batch kernels of the blocked list of rows."""

from __future__ import annotations

from tocsin.arrays.jit import lean_kernel
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.ranges.structures.blocked_rows_kernels import (
    block_after,
    find_first,
    find_last,
    has_capacity,
    put_row,
)
from tocsin.indexes.ranges.structures.blocked_rows_layout import BLOCK, BlockedColumns


@lean_kernel
def put_rows(blocked: BlockedColumns, slots: Ints, x: Floats, y: Floats, born: Longs, begin: int) -> int:
    """Put rows from number `begin` on, in order. Returns where it stopped for lack of capacity."""
    for i in range(begin, len(slots)):
        if not has_capacity(blocked):
            return i
        put_row(blocked, slots[i], x[i], y[i], born[i])
    return len(slots)


@lean_kernel
def count_within(blocked: BlockedColumns, low: float, high: float) -> int:
    """How many rows have low <= x <= high. Cost: constant a block in the range."""
    first, last = find_first(blocked, low, False), find_last(blocked, high, False)
    if not low <= high or first < 0 or last < 0:
        return 0
    count = last % BLOCK + 1 - first % BLOCK
    block, end_block = int(first // BLOCK), int(last // BLOCK)
    if block != end_block and blocked.x[first] > high:
        return 0
    while block != end_block:
        count += blocked.block_count[block]
        block = int(block_after(blocked, block))
    return max(count, 0)
