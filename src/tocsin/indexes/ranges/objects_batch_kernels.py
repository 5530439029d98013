"""Kernels of the object index over many rows at once."""

from __future__ import annotations

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.ranges.objects_columns import BLOCK, Objects
from tocsin.indexes.ranges.objects_kernels import block_after, find_first, find_last, has_room, put_row
from tocsin.indexes.shared.jit import lean_kernel


@lean_kernel
def put_rows(objects: Objects, slots: Ints, x: Floats, y: Floats, born: Longs, begin: int) -> int:
    """Put rows from number `begin` on, one after the other: the number it stopped at, for want of room."""
    for i in range(begin, len(slots)):
        if not has_room(objects):
            return i
        put_row(objects, slots[i], x[i], y[i], born[i])
    return len(slots)


@lean_kernel
def count_within(objects: Objects, low: float, high: float) -> int:
    """How many rows have low <= x <= high. Cost: constant a block in the range."""
    first, last = find_first(objects, low, False), find_last(objects, high, False)
    if not low <= high or first < 0 or last < 0:
        return 0
    count = last % BLOCK + 1 - first % BLOCK
    block, end_block = int(first // BLOCK), int(last // BLOCK)
    if block != end_block and objects.x[first] > high:
        return 0
    while block != end_block:
        count += objects.block_count[block]
        block = int(block_after(objects, block))
    return max(count, 0)
