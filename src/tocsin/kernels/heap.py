"""A binary min-heap of items by (key, tie), in columns that its owner sizes."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.arrays.jit import lean_kernel
from tocsin.arrays.types import Floats, Longs


class Heap(NamedTuple):
    """Columns of the heap; callers keep the number of items."""

    #: float64 (capacity,), int64 (capacity,): the order
    key: Floats
    tie: Longs
    #: int64 (capacity,): what is ordered
    item: Longs


@lean_kernel
def push_item(heap: Heap, size: int, key: float, tie: int, item: int) -> int:
    """Add an item. Returns the new size. Logarithmic."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if heap.key[above] < key or (heap.key[above] == key and heap.tie[above] <= tie):
            break
        heap.key[at] = heap.key[above]
        heap.tie[at] = heap.tie[above]
        heap.item[at] = heap.item[above]
        at = above
    heap.key[at] = key
    heap.tie[at] = tie
    heap.item[at] = item
    return size + 1


@lean_kernel
def pop_item(heap: Heap, size: int) -> int:
    """Remove the first item. Returns the new size. Logarithmic."""
    size -= 1
    key = heap.key[size]
    tie = heap.tie[size]
    item = heap.item[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and (
            heap.key[child + 1] < heap.key[child]
            or (heap.key[child + 1] == heap.key[child] and heap.tie[child + 1] < heap.tie[child])
        ):
            child += 1
        if key < heap.key[child] or (key == heap.key[child] and tie <= heap.tie[child]):
            break
        heap.key[at] = heap.key[child]
        heap.tie[at] = heap.tie[child]
        heap.item[at] = heap.item[child]
        at = child
    heap.key[at] = key
    heap.tie[at] = tie
    heap.item[at] = item
    return size
