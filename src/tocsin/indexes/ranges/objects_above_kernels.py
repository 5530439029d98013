"""The lowest row of a range above a given one: the paper's min_y.

Paint-Dense has no need of it, as it lists the rows passed once; Unicast searches so for each subscription. It
is made for that: many searches follow each other whose ranges begin and end near those of the one before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Longs
from tocsin.indexes.ranges.bits_kernels import NEVER, first_bit, order_key
from tocsin.indexes.ranges.objects_columns import BLOCK, GROUP, Objects
from tocsin.indexes.ranges.objects_kernels import (
    block_after,
    find_last,
    first_place,
    last_in_block,
    last_place,
    lower_of,
    place_after,
)
from tocsin.indexes.shared.jit import inlined


class Lens(NamedTuple):
    """Columns of `Objects` as bits, see `order_key`, and where the last search was."""

    #: int64: of `y`, `node_least` and `top_least`, the same memory
    row: Longs
    node: Longs
    top: Longs
    #: int64 (2,): blocks in which the last range began and ended, -1 for none
    fingers: Longs


@inlined
def key_of(y: float) -> int:
    """The key of a double."""
    return order_key(int(np.float64(y).view(np.int64)))


@inlined
def least_row_key(bits: Longs, born: Longs, low: int, after: int) -> int:
    """The least key of a row above (low, after), NEVER if there is none."""
    least = NEVER
    for i in range(len(bits)):
        key = order_key(bits[i])
        is_above = (key > low) | ((key == low) & (born[i] > after))
        least = min(least, key if is_above else NEVER)
    return least


@inlined
def find_row_key(bits: Longs, born: Longs, found: int, low: int, after: int) -> int:
    """Which row has a key that one above (low, after) has; the one born first."""
    at = n_equal = 0
    for i in range(len(bits)):
        is_equal = order_key(bits[i]) == found
        at += i if is_equal else 0
        n_equal += is_equal
    if n_equal == 1:
        return at
    at = -1
    for i in range(len(bits)):
        is_above = found > low or born[i] > after
        if order_key(bits[i]) == found and is_above and (at < 0 or born[i] < born[at]):
            at = i
    return at


@inlined
def lower_row(objects: Objects, lens: Lens, begin: int, end: int, low: int, after: int, best: int) -> int:
    """The lowest row above (low, after) of `best` and those from `begin` to before `end`, in one block."""
    bits, born = lens.row[begin:end], objects.born[begin:end]
    key = least_row_key(bits, born, low, after)
    if key == NEVER or (best >= 0 and key > order_key(lens.row[best])):
        return best
    return lower_of(objects.y, objects.born, best, begin + find_row_key(bits, born, key, low, after))


@inlined
def lower_node(objects: Objects, lens: Lens, begin: int, end: int, low: int, after: int, best: int) -> int:
    """As `lower_row`, of the blocks at nodes from `begin` to before `end`, in one group.

    Of a block without a row at or below `low`, the lowest is known; others are looked through.
    """
    bits = lens.node[begin:end]
    least, mixed = NEVER, 0
    for i in range(len(bits)):
        key = order_key(bits[i])
        least = min(least, key if key > low else NEVER)
        mixed |= 1 << i if key <= low else 0
    if least < NEVER and (best < 0 or least <= order_key(lens.row[best])):
        found = 0
        for i in range(len(bits)):
            found |= 1 << i if order_key(bits[i]) == least else 0
        while found != 0:
            place = int(objects.node_place[begin + first_bit(found)])
            best = lower_of(objects.y, objects.born, best, place)
            found &= found - 1
    while mixed != 0:
        block = int(objects.node_block[begin + first_bit(mixed)])
        mixed &= mixed - 1
        stop = block * BLOCK + objects.block_count[block]
        best = lower_row(objects, lens, block * BLOCK, stop, low, after, best)
    return best


@inlined
def least_above(objects: Objects, lens: Lens, left: int, right: int, y: float, after: int) -> int:
    """The lowest row above (y, after) strictly between two, -1 if there is none; ends as `least_between`.

    Cost: the rows of the blocks that hold one at or below (y, after), in vector code; any other block, and
    any other group, is one look.
    """
    low = key_of(y)
    begin = first_place(objects) if left < 0 else left + 1
    end = (last_place(objects) if right < 0 else right - 1) + 1
    if begin < 0:
        return -1
    block = int(begin // BLOCK if left < 0 else left // BLOCK)
    end_block = int((end - 1) // BLOCK if right < 0 else right // BLOCK)
    best = -1
    for is_last in range(1 if block == end_block else 2):
        # From the left end on, and up to the right end: all there is, if both are in one block.
        stop = end if is_last or block == end_block else block * BLOCK + int(objects.block_count[block])
        best = lower_row(objects, lens, end_block * BLOCK if is_last else begin, stop, low, after, best)
    if block == end_block:
        return best
    last = int(objects.block_group[end_block])
    group, rank = int(objects.block_group[block]), int(objects.block_rank[block]) + 1
    while True:
        above = int(objects.group_rank[group])
        count = int(objects.block_rank[end_block] if group == last else objects.group_count[group])
        if rank == 0 and group != last and order_key(lens.top[above]) > low:
            best = lower_of(objects.y, objects.born, best, int(objects.top_place[above]))
        elif rank < count:
            best = lower_node(objects, lens, group * GROUP + rank, group * GROUP + count, low, after, best)
        if group == last:
            return best
        group, rank = int(objects.top_group[above + 1]), 0


@inlined
def find_near(objects: Objects, lens: Lens, finger: int, x: float, is_strict: bool) -> int:
    """`find_last`, looking first where a finger was put the last time."""
    block = int(lens.fingers[finger])
    if block >= 0 and objects.x[block * BLOCK] < x:
        after = block_after(objects, block)
        if after < 0 or objects.x[after * BLOCK] > x:
            return last_in_block(objects, block, x, is_strict)
    place = find_last(objects, x, is_strict)
    lens.fingers[finger] = place // BLOCK if place >= 0 else -1
    return place


@inlined
def least_y_above(objects: Objects, lens: Lens, low: float, high: float, y: float, born: int) -> int:
    """The lowest row above (y, born) with low <= x <= high, -1 if there is none: the paper's min_y.

    The rows are those that were there when the fingers were last lifted.
    """
    if not low <= high:
        return -1
    left = find_near(objects, lens, 0, low, True)
    last = find_near(objects, lens, 1, high, False)
    right = first_place(objects) if last < 0 else place_after(objects, last)
    return least_above(objects, lens, left, right, y, born)
