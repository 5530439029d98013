"""Kernels that edit short lists, and how long these may be.

A list is its answer, best first, followed by other rows in any order.
"""

from __future__ import annotations

import numpy as np

from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.types import Floats, Ints, Longs


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
def list_capacity(k: int, size: int) -> int:
    """Capacity of a list of `size`: it can grow by half before it moves."""
    return min(size + size // 2 + 8, 2 * k + 16)


@lean_kernel
def refill_size(k: int) -> int:
    """How many rows are not below the refill floor."""
    return 2 * initial_size(k) - k


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
