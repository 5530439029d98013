"""The lowest row of a range above a given one: the paper's min_y.

Paint-Dense has no need of it, as it keeps the lowest row of each gap; Unicast searches so.
"""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Floats, Longs
from tocsin.indexes.ranges.objects_columns import BLOCK, GROUP, Objects
from tocsin.indexes.ranges.objects_kernels import (
    find_first,
    find_last,
    first_place,
    is_before,
    last_place,
    lower_of,
)
from tocsin.indexes.shared.jit import inlined, lean_kernel


@inlined
def least_from(part: Floats, low: float) -> float:
    """The least value not below `low`, inf of none. Four at a time, as each waits for the one before."""
    quarters = part.shape[0] // 4
    a = b = c = d = np.inf
    for i in range(quarters):
        one, two, three, four = part[4 * i], part[4 * i + 1], part[4 * i + 2], part[4 * i + 3]
        a = one if (one >= low) & (one < a) else a
        b = two if (two >= low) & (two < b) else b
        c = three if (three >= low) & (three < c) else c
        d = four if (four >= low) & (four < d) else d
    for i in range(4 * quarters, part.shape[0]):
        a = part[i] if (part[i] >= low) & (part[i] < a) else a
    a = b if b < a else a
    c = d if d < c else c
    return c if c < a else a


@lean_kernel
def least_row_above(y: Floats, born: Longs, begin: int, end: int, low: float, after: int, best: int) -> int:
    """The lowest row above (low, after) of those from `begin` to before `end` and of `best`."""
    least = least_from(y[begin:end], low)
    if best >= 0 and least > y[best]:
        return best
    # A value of `low` itself is that of the row asked about, or of one born before or after it.
    is_tie = least == low
    for place in range(begin, end):
        if (y[place] == least or is_tie) and is_before(low, after, y[place], born[place]):
            best = lower_of(y, born, best, place)
    return best


@lean_kernel
def least_above(objects: Objects, left: int, right: int, low: float, after: int) -> int:
    """The lowest row above (low, after) strictly between two, -1 if there is none; ends as `least_between`.

    Cost: the rows of the blocks that hold one at or below (low, after); any other block is one look.
    """
    y, born = objects.y, objects.born
    begin = first_place(objects) if left < 0 else left + 1
    end = (last_place(objects) if right < 0 else right - 1) + 1
    if begin < 0:
        return -1
    block = int(begin // BLOCK if left < 0 else left // BLOCK)
    end_block = int((end - 1) // BLOCK if right < 0 else right // BLOCK)
    if block == end_block:
        return least_row_above(y, born, begin, end, low, after, -1)
    best = least_row_above(y, born, begin, block * BLOCK + objects.block_count[block], low, after, -1)
    best = least_row_above(y, born, end_block * BLOCK, end, low, after, best)
    last = int(objects.block_group[end_block])
    group, rank = int(objects.block_group[block]), int(objects.block_rank[block]) + 1
    while True:
        above = int(objects.group_rank[group])
        count = int(objects.block_rank[end_block] if group == last else objects.group_count[group])
        if rank == 0 and group != last and objects.top_least[above] > low:
            best = lower_of(y, born, best, int(objects.top_place[above]))
            count = 0
        for node in range(group * GROUP + rank, group * GROUP + count):
            value = objects.node_least[node]
            if value <= low:
                block = int(objects.node_block[node])
                stop = block * BLOCK + objects.block_count[block]
                best = least_row_above(y, born, block * BLOCK, stop, low, after, best)
            elif best < 0 or value <= y[best]:
                best = lower_of(y, born, best, int(objects.node_place[node]))
        if group == last:
            return best
        group, rank = int(objects.top_group[above + 1]), 0


@lean_kernel
def least_y_above(objects: Objects, low: float, high: float, y: float, born: int) -> int:
    """The lowest row above (y, born) with low <= x <= high, -1 if there is none: the paper's min_y."""
    if not low <= high:
        return -1
    return least_above(objects, find_last(objects, low, True), find_first(objects, high, True), y, born)
