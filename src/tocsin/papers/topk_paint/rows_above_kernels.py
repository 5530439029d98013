"""The lowest row of a range above a given one: the paper's min_y.

Paint-Dense does not need it, as it lists the rows passed once; Unicast does this search for each
subscription. It is built for that: very many searches for one event, all of them above its row. They go
through a *lens*, which has the blocks in order of x and contains only rows above the event's. The lowest row
of adjacent blocks is in a table, for each power of two of them from each on; so only the blocks at both ends
are scanned.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.bits import NEVER, first_bit, last_bit, order_key
from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.layout import Column, Size
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.ranges.structures.blocked_rows_layout import (
    BLOCK,
    GROUP,
    N_BLOCKS,
    N_GROUPS,
    BlockedColumns,
)


class Lens(NamedTuple):
    """Blocks in order of x, see `set_lens`, and the rows above one, see `scan_above`."""

    #: the blocks in order
    block: Annotated[Ints, Column("blocks")]
    #: x of the first row of each, inf after the last
    first_x: Annotated[Floats, Column(Size("blocks", plus=1), fill=None)]
    #: y as a key, see `order_key`; NEVER for a row that is not above, and for none
    row: Annotated[Longs, Column(Size("blocks", times=BLOCK), fill=None)]
    #: where the lowest row above is, of 2**level blocks from each on
    lowest: Annotated[Ints, Column("levels", "blocks", fill=None)]


class Stretch(NamedTuple):
    """The rows of a range: from `begin` in one block to before `end` in another; blocks by their order."""

    first: int
    begin: int
    last: int
    end: int


@inlined
def key_of(y: float) -> int:
    """The key of a double."""
    return order_key(int(np.float64(y).view(np.int64)))


@lean_kernel
def set_lens(blocked: BlockedColumns, lens: Lens) -> None:
    """List the current blocks. Linear in them."""
    n_blocks = 0
    for above in range(blocked.heads[N_GROUPS]):
        node = int(blocked.top_group[above]) * GROUP
        for block in blocked.node_block[node : node + blocked.group_count[blocked.top_group[above]]]:
            lens.block[n_blocks] = block
            lens.first_x[n_blocks] = blocked.x[block * BLOCK]
            n_blocks += 1
    lens.first_x[n_blocks] = np.inf


@inlined
def is_above(blocked: BlockedColumns, lens: Lens, place: int, low: int, after: int) -> bool:
    """Whether a row, or none, is above (low, after)."""
    return bool((lens.row[place] > low) | ((lens.row[place] == low) & (blocked.born[place] > after)))


@inlined
def lower_seen(blocked: BlockedColumns, lens: Lens, place: int, other: int) -> int:
    """The lower of two rows; either may be none."""
    key, other_key = lens.row[place], lens.row[other]
    if other_key < key or (other_key == key and blocked.born[other] < blocked.born[place]):
        return other
    return place


@inlined
def find_key(
    blocked: BlockedColumns, lens: Lens, begin: int, end: int, key: int, low: int, after: int
) -> int:
    """The row of one block that has this key and is above (low, after); the first inserted."""
    base = begin // BLOCK * BLOCK
    keys, born = lens.row[base : base + BLOCK], blocked.born[base : base + BLOCK]
    equal = 0
    for i in range(BLOCK):
        equal |= 1 << i if (keys[i] == key) & (base + i >= begin) & (base + i < end) else 0
    at = first_bit(equal)
    if equal & (equal - 1) == 0:
        return base + at
    at = -1
    while equal != 0:
        i = first_bit(equal)
        equal &= equal - 1
        if (key > low or born[i] > after) and (at < 0 or born[i] < born[at]):
            at = i
    return base + at


@lean_kernel
def scan_above(blocked: BlockedColumns, lens: Lens, first: int, last: int, y: float, born: int) -> None:
    """Collect the rows above (y, born) of the blocks from `first` to `last`. Cost: these rows."""
    low = key_of(y)
    for at in range(first, last + 1):
        base = int(lens.block[at]) * BLOCK
        count = int(blocked.block_count[lens.block[at]])
        ys, borns = blocked.y[base : base + BLOCK], blocked.born[base : base + BLOCK]
        keys = lens.row[base : base + BLOCK]
        least = NEVER
        for i in range(BLOCK):
            key = key_of(ys[i])
            is_seen = ((key > low) | ((key == low) & (borns[i] > born))) & (i < count)
            keys[i] = key if is_seen else NEVER
            least = min(least, keys[i])
        lens.lowest[0, at] = base
        if least < NEVER:
            lens.lowest[0, at] = find_key(blocked, lens, base, base + count, least, low, born)
    level = 1
    while 1 << level <= last + 1 - first:
        half = 1 << (level - 1)
        for at in range(first, last + 2 - 2 * half):
            one, two = lens.lowest[level - 1, at], lens.lowest[level - 1, at + half]
            lens.lowest[level, at] = lower_seen(blocked, lens, one, two)
        level += 1


@inlined
def find_block(blocked: BlockedColumns, lens: Lens, x: float, is_strict: bool, near: int) -> int:
    """The last block that begins left of `x`, or at it if not strict; the first if none does.

    Tries `near` first.
    """
    before, after = lens.first_x[near], lens.first_x[near + 1]
    if (before < x <= after) if is_strict else (before <= x < after):
        return near
    # Branch-free halving, as the half cannot be predicted.
    base, size = 0, int(blocked.heads[N_BLOCKS])
    while size > 1:
        half = size >> 1
        value = lens.first_x[base + half]
        base += half if ((value < x) if is_strict else (value <= x)) else 0
        size -= half
    return base


@inlined
def place_in_block(blocked: BlockedColumns, block: int, x: float, is_strict: bool) -> int:
    """The place after the rows of a block that are left of `x`, or at it if not strict."""
    part, count = blocked.x[block * BLOCK : block * BLOCK + BLOCK], blocked.block_count[block]
    n_left = 0
    for i in range(BLOCK):
        n_left += (i < count) & ((part[i] < x) if is_strict else (part[i] <= x))
    return block * BLOCK + n_left


@inlined
def find_stretch(blocked: BlockedColumns, lens: Lens, lo: float, hi: float, near: Stretch) -> Stretch:
    """The rows with lo <= x <= hi, of which there may be none; there are blocks. Tries `near` first."""
    first = find_block(blocked, lens, lo, True, near.first)
    last = find_block(blocked, lens, hi, False, near.last)
    return Stretch(
        first,
        place_in_block(blocked, int(lens.block[first]), lo, True),
        last,
        place_in_block(blocked, int(lens.block[last]), hi, False),
    )


@inlined
def least_key(
    blocked: BlockedColumns, lens: Lens, block: int, begin: int, end: int, low: int, after: int
) -> int:
    """The least key of a row above (low, after), from `begin` to before `end` of a block; NEVER for none."""
    base = block * BLOCK
    keys, born = lens.row[base : base + BLOCK], blocked.born[base : base + BLOCK]
    # The whole block, as a loop of fixed length has no exit to mispredict.
    least = NEVER
    for i in range(BLOCK):
        is_inside = (base + i >= begin) & (base + i < end)
        least = min(least, keys[i] if (keys[i] >= low) & is_inside else NEVER)
    if least > low:
        return least
    least = NEVER
    for i in range(begin - base, end - base):
        if keys[i] > low or (keys[i] == low and born[i] > after):
            least = min(least, keys[i])
    return least


@inlined
def lower_part(
    blocked: BlockedColumns, lens: Lens, block: int, begin: int, end: int, low: int, after: int, best: int
) -> int:
    """The lower of the row `best`, -1 for none, and the lowest above (low, after) of a part of a block."""
    key = least_key(blocked, lens, block, begin, end, low, after)
    if key == NEVER or (best >= 0 and key > lens.row[best]):
        return best
    place = find_key(blocked, lens, begin, end, key, low, after)
    return place if best < 0 else lower_seen(blocked, lens, best, place)


@inlined
def lowest_of(blocked: BlockedColumns, lens: Lens, begin: int, end: int, low: int, after: int) -> int:
    """The lowest row above (low, after) of the blocks from `begin` to before `end`, at least one."""
    level = last_bit(end - begin)
    one, two = lens.lowest[level, begin], lens.lowest[level, end - (1 << level)]
    best = int(lower_seen(blocked, lens, one, two))
    if is_above(blocked, lens, best, low, after):
        return best
    best = -1
    while begin < end:
        level = last_bit(end - begin)
        while level > 0 and not is_above(blocked, lens, lens.lowest[level, begin], low, after):
            level -= 1
        place = int(lens.lowest[level, begin])
        if is_above(blocked, lens, place, low, after):
            best = place if best < 0 else lower_seen(blocked, lens, best, place)
        else:
            block = int(lens.block[begin])
            stop = block * BLOCK + int(blocked.block_count[block])
            best = lower_part(blocked, lens, block, block * BLOCK, stop, low, after, best)
        begin += 1 << level
    return best


@inlined
def least_above(blocked: BlockedColumns, lens: Lens, stretch: Stretch, y: float, after: int) -> int:
    """The lowest row above (y, after) in a stretch, -1 if there is none: the paper's min_y.

    (y, after) is the lens's bound, or above it. Cost: two blocks, in vector code, and two lookups in the
    table; if rows in the lens are not above, some more lookups, and each block that has one.
    """
    low = key_of(y)
    block, end_block = int(lens.block[stretch.first]), int(lens.block[stretch.last])
    begin, stop, best = stretch.begin, stretch.end, -1
    if block != end_block:
        if stretch.first + 1 < stretch.last:
            best = lowest_of(blocked, lens, stretch.first + 1, stretch.last, low, after)
        best = lower_part(blocked, lens, end_block, end_block * BLOCK, stop, low, after, best)
        stop = block * BLOCK + int(blocked.block_count[block])
    best = lower_part(blocked, lens, block, begin, stop, low, after, best)
    return best if best >= 0 and lens.row[best] < NEVER else -1
