"""Event time: which rows are late, and in which order the others are applied."""

from __future__ import annotations

from tocsin.indexes.contract import Bools, Longs
from tocsin.indexes.shared.jit import kernel


@kernel
def _is_before(times: Longs, a: int, b: int) -> bool:
    """Time order; among equal times, order of arrival."""
    return times[a] < times[b] or (times[a] == times[b] and a < b)


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
    """Take the smallest out of a heap of `size` rows."""
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
    n_held: int,
    delay: int,
    clock: Longs,
    heap: Longs,
    out_applied: Longs,
    out_late: Bools,
) -> int:
    """Take the rows in turn; hold each until `delay` has passed, then apply in time order.

    The first `n_held` rows are those held from earlier batches. `clock` is, and becomes, the newest
    time applied and the newest time seen. `out_applied` gets the rows in order of application,
    `out_late` marks those older than what was already applied when they came. `heap` is scratch as
    long as `times`. Returns how many are applied; the rest are late or held.
    """
    n_applied = 0
    size = 0
    for row in range(len(times)):
        if row >= n_held:
            if times[row] < clock[0]:
                out_late[row] = True
                continue
            clock[1] = max(clock[1], times[row])
        _push(times, heap, size, row)
        size += 1
        if row < n_held:
            continue
        while size > 0 and times[heap[0]] <= clock[1] - delay:
            smallest = _pop(times, heap, size)
            size -= 1
            out_applied[n_applied] = smallest
            n_applied += 1
            clock[0] = max(clock[0], times[smallest])
    return n_applied
