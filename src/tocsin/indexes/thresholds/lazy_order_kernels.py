"""Packing subscriptions into tight groups.

A group is looked at as a whole, so its members should want to be looked at together: alike in
where they begin and end on each axis, and in how much they still need. Members are split in halves,
each time by the measure in which they differ most, until a part fits into one group.
"""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Ints
from tocsin.indexes.shared.jit import kernel
from tocsin.indexes.thresholds.lazy_columns import GROUP

#: Rows that are looked at to tell in which column a part differs most.
SAMPLE = 1024
#: Open parts on the stack of the halving; each halving at least halves, so 64 are plenty.
DEPTH = 64


@kernel
def swap_rows(keys: np.ndarray, order: Ints, one: int, other: int) -> None:
    """Exchange two rows."""
    for column in range(keys.shape[1]):
        keys[one, column], keys[other, column] = keys[other, column], keys[one, column]
    order[one], order[other] = order[other], order[one]


@kernel
def select_rows(
    keys: np.ndarray, order: Ints, column: int, begin: int, end: int, middle: int, picked: np.ndarray
) -> None:
    """Arrange rows from `begin` to `end` so that those before `middle` have the smaller keys."""
    low, high = begin, end - 1
    while low < high:
        # The middle one of nine divides more evenly than any one.
        eighth = (high - low) // 8
        for index in range(9):
            key, place = keys[low + index * eighth, column], index
            while place > 0 and picked[place - 1] > key:
                picked[place] = picked[place - 1]
                place -= 1
            picked[place] = key
        pivot = picked[4]
        left, right = low, high
        while left <= right:
            while keys[left, column] < pivot:
                left += 1
            while keys[right, column] > pivot:
                right -= 1
            if left <= right:
                swap_rows(keys, order, left, right)
                left += 1
                right -= 1
        if middle <= right:
            high = right
        elif middle >= left:
            low = left
        else:
            return


@kernel
def choose_column(keys: np.ndarray, begin: int, end: int) -> int:
    """The column in which these rows differ most: a bound against the extent of its axis, or the need.

    Of many rows a sample is enough.
    """
    n_columns = keys.shape[1]
    smallest, largest = keys[begin].copy(), keys[begin].copy()
    for row in range(begin, end, max((end - begin) // SAMPLE, 1)):
        for column in range(n_columns):
            key = keys[row, column]
            smallest[column] = min(smallest[column], key)
            largest[column] = max(largest[column], key)
    best, best_spread = n_columns - 1, 0.0
    for column in range(n_columns):
        extent = largest[column]
        if column < n_columns - 1:
            # Columns come in pairs, where an axis' ranges begin and where they end.
            axis = column - column % 2
            extent = largest[axis + 1] - smallest[axis]
        spread = (largest[column] - smallest[column]) / extent if extent > 0 else 0.0
        if spread > best_spread:
            best, best_spread = column, spread
    return int(best)


@kernel
def order_rows(keys: np.ndarray, order: Ints) -> None:
    """Arrange `order` so that each GROUP rows in a row are alike.

    `keys` is float32 (rows, 2 * axes + 1): low and high of each axis, and the need; finite. It is
    arranged along.
    """
    begins, ends = np.empty(DEPTH, np.int64), np.empty(DEPTH, np.int64)
    begins[0], ends[0] = 0, order.shape[0]
    n_open = 1
    picked = np.empty(9, np.float32)
    while n_open > 0:
        n_open -= 1
        begin, end = begins[n_open], ends[n_open]
        if end - begin <= GROUP:
            continue
        n_groups = (end - begin + GROUP - 1) // GROUP
        middle = begin + (n_groups + 1) // 2 * GROUP
        select_rows(keys, order, choose_column(keys, begin, end), begin, end, middle, picked)
        begins[n_open], ends[n_open] = begin, middle
        begins[n_open + 1], ends[n_open + 1] = middle, end
        n_open += 2
