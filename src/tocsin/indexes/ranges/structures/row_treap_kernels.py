"""Rows of equal code in the order of x: a treap for each code, in which neighbours are found quickly.

A treap is a search tree, here by (x, slot), in which every row ranks above those below it. Ranks are drawn
from slots by a hash, so that trees are balanced by chance, but always the same for the same rows.

Not `kernels.treap`: that one knows ranks, and so updates the size of every subtree on the way, in nodes of a
pool with copied keys. Here rows are the nodes, x is read where it is stored, and only links are written.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.layout import Column
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.contract import ABSENT
from tocsin.indexes.ranges.steps.step_kernels import RowColumns, RowImages, store_rows

#: 2**32 over the golden ratio: an odd factor, so that no two slots have the same rank.
SPREAD = 2654435769
RANKS = (1 << 32) - 1


class Orders(NamedTuple):
    """The trees. Of a row in none of them, `before` and `after` are undefined."""

    #: the root of the code, -1 if there is none
    top: Annotated[Ints, Column("codes", fill=-1)]
    #: the child on the side of the rows before it; -1 for none
    before: Annotated[Ints, Column("rows", fill=-1)]
    #: the same, of those after it
    after: Annotated[Ints, Column("rows", fill=-1)]


@inlined
def rank_of(row: int) -> int:
    """The priority of a row: no two rows have the same."""
    return (row * SPREAD) & RANKS


@inlined
def is_before(value: Floats, row: int, other: int) -> bool:
    """Whether one row comes before another one."""
    x, other_x = value[row, 0], value[other, 0]
    return bool(x < other_x or (x == other_x and row < other))


@inlined
def hang(orders: Orders, code: int, above: int, is_after: bool, row: int) -> None:
    """Make a row, -1 for none, a child of another one, on one of its sides; the root, if that is -1."""
    if above < 0:
        orders.top[code] = row
    elif is_after:
        orders.after[above] = row
    else:
        orders.before[above] = row


@lean_kernel
def put_row(orders: Orders, code: int, value: Floats, row: int) -> None:
    """Insert a row, whose x is in `value`, into the tree of its code. Cost: expected logarithmic."""
    above, is_after = -1, False
    at = int(np.int64(orders.top[code]))
    while at >= 0 and rank_of(at) > rank_of(row):
        above, is_after = at, is_before(value, at, row)
        at = int(np.int64(orders.after[at] if is_after else orders.before[at]))
    hang(orders, code, above, is_after, row)
    # The subtree is split below it: each row goes to the open end of its side.
    low, high = row, row
    while at >= 0:
        if is_before(value, at, row):
            hang(orders, code, low, low != row, at)
            low = at
            at = int(np.int64(orders.after[at]))
        else:
            hang(orders, code, high, high == row, at)
            high = at
            at = int(np.int64(orders.before[at]))
    hang(orders, code, low, low != row, -1)
    hang(orders, code, high, high == row, -1)


@lean_kernel
def take_row(orders: Orders, code: int, value: Floats, row: int) -> None:
    """Remove a row from the tree of its code. Cost: expected logarithmic."""
    above, is_after = -1, False
    at = int(np.int64(orders.top[code]))
    while at != row:
        above, is_after = at, is_before(value, at, row)
        at = int(np.int64(orders.after[at] if is_after else orders.before[at]))
    low, high = int(np.int64(orders.before[row])), int(np.int64(orders.after[row]))
    while low >= 0 and high >= 0:
        if rank_of(low) > rank_of(high):
            hang(orders, code, above, is_after, low)
            above, is_after = low, True
            low = int(np.int64(orders.after[low]))
        else:
            hang(orders, code, above, is_after, high)
            above, is_after = high, False
            high = int(np.int64(orders.before[high]))
    hang(orders, code, above, is_after, low if low >= 0 else high)


@lean_kernel
def last_row(orders: Orders, code: int, value: Floats, x: float) -> int:
    """The last row of the code that is not beyond `x`, -1 if there is none. Cost: logarithmic."""
    found, at = -1, int(np.int64(orders.top[code]))
    while at >= 0:
        if value[at, 0] <= x:
            found = at
            at = int(np.int64(orders.after[at]))
        else:
            at = int(np.int64(orders.before[at]))
    return found


@lean_kernel
def first_row(orders: Orders, code: int, value: Floats, x: float) -> int:
    """The first row of the code that is not below `x`, -1 if there is none. Cost: logarithmic."""
    found, at = -1, int(np.int64(orders.top[code]))
    while at >= 0:
        if value[at, 0] >= x:
            found = at
            at = int(np.int64(orders.before[at]))
        else:
            at = int(np.int64(orders.after[at]))
    return found


@lean_kernel
def put_rows(orders: Orders, code: Longs, value: Floats, row: Longs) -> None:
    """Insert rows that are in no tree yet."""
    for i in range(len(row)):
        put_row(orders, code[i], value, row[i])


@lean_kernel
def open_orders(orders: Orders, rows: RowColumns, images: RowImages, step: int) -> None:
    """Take the step's old images out of their trees and slots."""
    for image in range(images.start[step], images.middle[step]):
        row = int(np.int64(images.row[image]))
        take_row(orders, images.bucket[image], rows.value, row)
        rows.born[row] = ABSENT


@lean_kernel
def close_orders(orders: Orders, rows: RowColumns, images: RowImages, step: int) -> None:
    """Put the step's new images into their slots and trees."""
    store_rows(rows, images, step)
    for image in range(images.middle[step], images.start[step + 1]):
        put_row(orders, images.bucket[image], rows.value, int(np.int64(images.row[image])))
