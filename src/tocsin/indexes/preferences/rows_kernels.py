"""Kernels that store a step's rows, and that edit short lists.

A list is its answer, best first, followed by other rows in any order.
"""

from __future__ import annotations

import numpy as np

from tocsin.arrays.intrinsics import copy_streaming
from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.types import Bytes, Floats, Ints, Longs
from tocsin.indexes.preferences.layout import (
    CANDIDATE,
    N_ARRIVING,
    N_LEAVING,
    N_ROWS,
    NO_ROW,
    STORED,
    DeltaEntries,
    PatchScratch,
    RowGrid,
    StoredRows,
)

#: Rows that are stored together, at most BLOCK.
STORE_BATCH = 256

#: Kinds of runs.
MIXED = 0
ALL_NEW = 1
ALL_REMOVED = 2


@lean_kernel
def is_contiguous(row: Ints) -> bool:
    """Whether row slots are consecutive."""
    skew = np.int32(0)
    first = row[0]
    for i in range(len(row)):
        skew |= row[i] - first - np.int32(i)
    return bool(skew == 0)


@lean_kernel
def classify_run(mark: Bytes, born_after: Longs) -> int:
    """The kind of a run of consecutive row slots: all new, all removed, or mixed.

    In a window, mixed runs are the exception.
    """
    n_absent = 0
    for i in range(len(mark)):
        n_absent += 1 if mark[i] == NO_ROW else 0
    # A sign bit, once set, stays.
    after = 0
    not_after = 0
    for i in range(len(born_after)):
        after |= born_after[i]
        not_after |= ~born_after[i]
    if n_absent == len(mark) and after >= 0:
        return ALL_NEW
    if n_absent == 0 and not_after >= 0:
        return ALL_REMOVED
    return MIXED


@lean_kernel
def remove_run(state: Longs, first: int, mark: Bytes, leaving: Ints) -> None:
    """Record that consecutive rows, from entry `first` on, are all removed: faster than `record_rows`."""
    n_leaving = state[N_LEAVING]
    for i in range(len(mark)):
        # Branch-free, because a branch would be mispredicted.
        leaving[n_leaving] = first + i
        n_leaving += mark[i] == CANDIDATE
    for i in range(len(mark)):
        mark[i] = NO_ROW
    state[N_ROWS] -= len(mark)
    state[N_LEAVING] = n_leaving


@lean_kernel
def record_rows(
    state: Longs,
    entries: DeltaEntries,
    first: int,
    n: int,
    rows: StoredRows,
    scratch: PatchScratch,
) -> int:
    """Record which rows of a run exist after the step; returns how many.

    Lists the entries of these rows, and of candidates that leave.
    """
    entry_row = entries.row
    born_after = entries.born_after
    born = rows.born
    mark = rows.mark
    arriving = scratch.batch_rows[0]
    n_leaving = state[N_LEAVING]
    n_arriving = np.uint64(0)
    n_gone = 0
    # Unsigned, so that no index is negative.
    for e in range(np.uint64(first), np.uint64(first + n)):
        row = np.uint64(entry_row[e])
        after = born_after[e]
        before = mark[row]
        born[row] = after
        mark[row] = after >= 0
        arriving[n_arriving] = e
        n_arriving += np.uint64(after >= 0)
        if before != NO_ROW:
            n_gone += 1
            if before == CANDIDATE:
                scratch.leaving[n_leaving] = e
                n_leaving += 1
    state[N_ROWS] += np.int64(n_arriving) - n_gone
    state[N_LEAVING] = n_leaving
    return int(np.int64(n_arriving))


@lean_kernel
def add_parts(x: Floats, scale: float, offset: float, last: float, stride: int, part: Ints) -> None:
    """Add a column's share of the part number of each row."""
    for i in range(len(x)):
        # Branch-free; NaN becomes 0.
        place = x[i] * scale - offset
        place = place if place > 0.0 else 0.0
        place = place if place < last else last
        part[i] += np.int32(place) * stride


@lean_kernel
def store_rows(
    state: Longs,
    entries: DeltaEntries,
    begin: int,
    end: int,
    grid: RowGrid,
    rows: StoredRows,
    scratch: PatchScratch,
) -> int:
    """Store a step's rows; returns how many arrive.

    Lists what `record_rows` does, but of arriving rows only those in active parts.
    """
    after = entries.after
    active_parts = grid.active_parts
    arriving_entries = scratch.batch_rows[0]
    row = scratch.batch_rows[1]
    state[N_LEAVING] = 0
    all_arriving = 0
    n_active = 0
    # Column by column, for as many rows at a time as fit the first-level cache.
    for first in range(begin, end, STORE_BATCH):
        last = min(first + STORE_BATCH, end)
        n = last - first
        start = int(np.int64(entries.row[first]))
        mark = rows.mark[start : start + n]
        kind = MIXED
        if is_contiguous(entries.row[first:last]):
            kind = classify_run(mark, entries.born_after[first:last])
        if kind == ALL_REMOVED:
            remove_run(state, first, mark, scratch.leaving)
            continue
        if kind == ALL_NEW:
            copy_streaming(rows.born[start : start + n], entries.born_after[first:last])
            for i in range(n):
                mark[i] = STORED
            for i in range(n):
                arriving_entries[i] = first + i
            state[N_ROWS] += n
        else:
            n = record_rows(state, entries, first, n, rows, scratch)
        all_arriving += n
        part = scratch.batch_rows[2, :n]
        column = scratch.score[:n]
        for i in range(n):
            part[i] = 0
        if kind == MIXED:
            for i in range(n):
                row[i] = entries.row[np.uint64(arriving_entries[i])]
        for c in range(rows.values.shape[0]):
            if kind == ALL_NEW:
                for i in range(n):
                    column[i] = after[np.uint64(first + i), np.uint64(c)]
                copy_streaming(rows.values[c, start : start + n], column)
            else:
                for i in range(n):
                    column[i] = after[np.uint64(arriving_entries[i]), c]
                for i in range(n):
                    rows.values[c, np.uint64(row[i])] = column[i]
            add_parts(
                column, grid.part_scale[c], grid.part_offset[c], grid.last_part[c], grid.part_stride[c], part
            )
        for i in range(n):
            whole = part[i]
            # Branch-free, because a branch would be mispredicted.
            scratch.arriving[n_active] = arriving_entries[i]
            n_active += (active_parts[np.uint64(whole >> 3)] >> (whole & 7)) & 1
    state[N_ARRIVING] = n_active
    return all_arriving


@lean_kernel
def initial_size(k: int) -> int:
    """Initial length of a list: its excess over k covers the usual fluctuation."""
    return k + int(2.5 * np.sqrt(k)) + 5


@inlined
def max_size(k: int) -> int:
    """How long a list may grow before it is cut to its initial size."""
    fresh = initial_size(k)
    return min(2 * k + 16, fresh + 2 * (fresh - k) + 8)


@lean_kernel
def is_before(key: float, tie: int, other_key: float, other_tie: int) -> bool:
    """Whether one place ranks before another."""
    return key > other_key or (key == other_key and tie > other_tie)


@lean_kernel
def sort_places(keys: Floats, ties: Longs, rows: Ints, size: int) -> None:
    """Sort places, best first. Shell sort, because lists are usually short."""
    gap = 1
    while gap < size // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, size):
            key = keys[i]
            tie = ties[i]
            row = rows[i]
            j = i
            while j >= gap and is_before(key, tie, keys[j - gap], ties[j - gap]):
                keys[j] = keys[j - gap]
                ties[j] = ties[j - gap]
                rows[j] = rows[j - gap]
                j -= gap
            keys[j] = key
            ties[j] = tie
            rows[j] = row
        gap //= 3


@lean_kernel
def sort_slots(slots: Ints, size: int) -> None:
    """Sort slots in ascending order."""
    gap = 1
    while gap < size // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, size):
            slot = slots[i]
            j = i
            while j >= gap and slots[j - gap] > slot:
                slots[j] = slots[j - gap]
                j -= gap
            slots[j] = slot
        gap //= 3


@lean_kernel
def sort_rest(rows: Ints, keys: Floats, begin: int, end: int, born: Longs, tie_sign: int) -> None:
    """Sort a part of a list, best first."""
    for i in range(begin + 1, end):
        key = keys[i]
        row = rows[i]
        j = i
        # Where keys differ, ties need not be loaded.
        while j > begin and (
            keys[j - 1] < key or (keys[j - 1] == key and tie_sign * born[rows[j - 1]] < tie_sign * born[row])
        ):
            keys[j] = keys[j - 1]
            rows[j] = rows[j - 1]
            j -= 1
        keys[j] = key
        rows[j] = row


@inlined
def insert_listed(
    rows: Ints,
    keys: Floats,
    start: int,
    size: int,
    k: int,
    row: int,
    key: float,
    tie: int,
    born: Longs,
    tie_sign: int,
) -> int:
    """Insert a row into a list with spare capacity; returns its place, k or more below the answer."""
    i = start + size
    if size >= k:
        last = start + k - 1
        if key < keys[last] or (key == keys[last] and tie < tie_sign * born[rows[last]]):
            rows[i] = row
            keys[i] = key
            return size
        # The answer's last row moves to the end.
        rows[i] = rows[last]
        keys[i] = keys[last]
        i = last
    while i > start and (keys[i - 1] < key or (keys[i - 1] == key and tie_sign * born[rows[i - 1]] < tie)):
        rows[i] = rows[i - 1]
        keys[i] = keys[i - 1]
        i -= 1
    rows[i] = row
    keys[i] = key
    return i - start


@inlined
def remove_listed(
    rows: Ints, keys: Floats, start: int, size: int, k: int, row: int, key: float, born: Longs, tie_sign: int
) -> int:
    """Remove a row from a list; returns its former place. The best row below the answer moves up into it."""
    answered = start + min(k, size)
    low = start
    high = answered
    while low < high:
        middle = (low + high) // 2
        if keys[middle] > key:
            low = middle + 1
        else:
            high = middle
    # Of equal keys, some may be below the answer, where a changed row may be again with another key.
    while rows[low] != row or keys[low] != key:
        low += 1
    place = low - start
    end = start + size - 1
    if low < answered:
        for i in range(low, answered - 1):
            rows[i] = rows[i + 1]
            keys[i] = keys[i + 1]
        if size <= k:
            return place
        low = answered
        for i in range(answered + 1, end + 1):
            if keys[i] > keys[low] or (
                keys[i] == keys[low] and tie_sign * born[rows[i]] > tie_sign * born[rows[low]]
            ):
                low = i
        rows[answered - 1] = rows[low]
        keys[answered - 1] = keys[low]
    rows[low] = rows[end]
    keys[low] = keys[end]
    return place
