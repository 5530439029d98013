"""Event time: which rows are late, and the order in which the others are applied."""

from __future__ import annotations

from tocsin.arrays.jit import kernel
from tocsin.arrays.types import Bools, Longs


@kernel
def _is_before(times: Longs, a: int, b: int) -> bool:
    """Time order; among equal times, order of arrival."""
    return times[a] < times[b] or (times[a] == times[b] and a < b)


# A heap of its own: `kernels.heap` has doubles as keys, which do not hold every microsecond exactly.


@kernel
def _push(times: Longs, heap: Longs, size: int, row: int) -> None:
    place = size
    while place > 0:
        parent = (place - 1) // 2
        if not _is_before(times, row, heap[parent]):
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = row


@kernel
def _pop(times: Longs, heap: Longs, size: int) -> int:
    """Remove the smallest from a heap of `size` rows."""
    smallest = int(heap[0])
    last = heap[size - 1]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size - 1:
            break
        if child + 1 < size - 1 and _is_before(times, heap[child + 1], heap[child]):
            child += 1
        if not _is_before(times, heap[child], last):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = last
    return smallest


@kernel
def order_rows(
    times: Longs,
    n_delayed: int,
    delay: int,
    clock: Longs,
    heap: Longs,
    out_applied: Longs,
    out_late: Bools,
) -> int:
    """Delay each row in turn until `delay` has passed, then apply in time order.

    The first `n_delayed` rows are left from earlier batches. `clock` (in and out) is the newest time applied
    and the newest time seen. `out_applied` gets the rows in order of application, `out_late` marks those
    older than what was applied when they arrived. `heap` is scratch as long as `times`. Returns how many are
    applied; the rest are late or delayed.
    """
    n_applied = 0
    size = 0
    for row in range(len(times)):
        if row >= n_delayed:
            if times[row] < clock[0]:
                out_late[row] = True
                continue
            clock[1] = max(clock[1], times[row])
        _push(times, heap, size, row)
        size += 1
        if row < n_delayed:
            continue
        while size > 0 and times[heap[0]] <= clock[1] - delay:
            smallest = _pop(times, heap, size)
            size -= 1
            out_applied[n_applied] = smallest
            n_applied += 1
            clock[0] = max(clock[0], times[smallest])
    return n_applied
