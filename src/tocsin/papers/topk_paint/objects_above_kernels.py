"""The lowest row of a range above a given one: the paper's min_y.

Paint-Dense has no need of it, as it lists the rows passed once; Unicast searches so for each subscription. It
is made for that: very many searches for one event, all of them above its row. They look through a *lens*,
which has the blocks in order of x and shows only rows above the event's. The lowest row of adjacent blocks is
in a table, for each power of two of them from each on; so only the blocks at both ends are looked through.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.ranges.bits_kernels import NEVER, first_bit, last_bit, order_key
from tocsin.indexes.ranges.objects_columns import BLOCK, GROUP, N_BLOCKS, N_GROUPS, Objects
from tocsin.indexes.shared.jit import inlined, lean_kernel


class Lens(NamedTuple):
    """Blocks in order of x, see `set_lens`, and the rows above one, see `look_above`."""

    #: int32 (blocks,): the blocks in order
    block: Ints
    #: float64 (blocks + 1,): x of the first row of each, inf after the last
    first_x: Floats
    #: int64 (blocks * BLOCK,): y as a key, see `order_key`; NEVER for a row that is not above, and for none
    row: Longs
    #: int32 (levels, blocks): where the lowest row above is, of 2**level blocks from each on
    lowest: Ints


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
def set_lens(objects: Objects, lens: Lens) -> None:
    """List the blocks as they are. Linear in them."""
    n_blocks = 0
    for above in range(objects.heads[N_GROUPS]):
        node = int(objects.top_group[above]) * GROUP
        for block in objects.node_block[node : node + objects.group_count[objects.top_group[above]]]:
            lens.block[n_blocks] = block
            lens.first_x[n_blocks] = objects.x[block * BLOCK]
            n_blocks += 1
    lens.first_x[n_blocks] = np.inf


@inlined
def is_above(objects: Objects, lens: Lens, place: int, low: int, after: int) -> bool:
    """Whether a row, or none, is above (low, after)."""
    return bool((lens.row[place] > low) | ((lens.row[place] == low) & (objects.born[place] > after)))


@inlined
def lower_seen(objects: Objects, lens: Lens, place: int, other: int) -> int:
    """The lower of two rows; either may be none."""
    key, other_key = lens.row[place], lens.row[other]
    if other_key < key or (other_key == key and objects.born[other] < objects.born[place]):
        return other
    return place


@inlined
def find_key(objects: Objects, lens: Lens, begin: int, end: int, key: int, low: int, after: int) -> int:
    """Which row, in one block, has a key that one above (low, after) has; the one born first."""
    base = begin // BLOCK * BLOCK
    keys, born = lens.row[base : base + BLOCK], objects.born[base : base + BLOCK]
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
def look_above(objects: Objects, lens: Lens, first: int, last: int, y: float, born: int) -> None:
    """See the rows above (y, born) of the blocks from `first` to `last`. Cost: those rows, in vector code."""
    low = key_of(y)
    for at in range(first, last + 1):
        base = int(lens.block[at]) * BLOCK
        count = int(objects.block_count[lens.block[at]])
        ys, borns = objects.y[base : base + BLOCK], objects.born[base : base + BLOCK]
        keys = lens.row[base : base + BLOCK]
        least = NEVER
        for i in range(BLOCK):
            key = key_of(ys[i])
            is_seen = ((key > low) | ((key == low) & (borns[i] > born))) & (i < count)
            keys[i] = key if is_seen else NEVER
            least = min(least, keys[i])
        lens.lowest[0, at] = base
        if least < NEVER:
            lens.lowest[0, at] = find_key(objects, lens, base, base + count, least, low, born)
    level = 1
    while 1 << level <= last + 1 - first:
        half = 1 << (level - 1)
        for at in range(first, last + 2 - 2 * half):
            one, two = lens.lowest[level - 1, at], lens.lowest[level - 1, at + half]
            lens.lowest[level, at] = lower_seen(objects, lens, one, two)
        level += 1


@inlined
def find_block(objects: Objects, lens: Lens, x: float, is_strict: bool, near: int) -> int:
    """The last block that begins left of `x`, or at it if not strict; the first if none does.

    First looks `near`.
    """
    before, after = lens.first_x[near], lens.first_x[near + 1]
    if (before < x <= after) if is_strict else (before <= x < after):
        return near
    # Halves without a branch, as which half it is cannot be foreseen.
    base, size = 0, int(objects.heads[N_BLOCKS])
    while size > 1:
        half = size >> 1
        value = lens.first_x[base + half]
        base += half if ((value < x) if is_strict else (value <= x)) else 0
        size -= half
    return base


@inlined
def place_in_block(objects: Objects, block: int, x: float, is_strict: bool) -> int:
    """The place after the rows of a block that are left of `x`, or at it if not strict."""
    part, count = objects.x[block * BLOCK : block * BLOCK + BLOCK], objects.block_count[block]
    n_left = 0
    for i in range(BLOCK):
        n_left += (i < count) & ((part[i] < x) if is_strict else (part[i] <= x))
    return block * BLOCK + n_left


@inlined
def find_stretch(objects: Objects, lens: Lens, lo: float, hi: float, near: Stretch) -> Stretch:
    """The rows with lo <= x <= hi, of which there may be none; there are blocks. First looks `near`."""
    first = find_block(objects, lens, lo, True, near.first)
    last = find_block(objects, lens, hi, False, near.last)
    return Stretch(
        first,
        place_in_block(objects, int(lens.block[first]), lo, True),
        last,
        place_in_block(objects, int(lens.block[last]), hi, False),
    )


@inlined
def least_key(objects: Objects, lens: Lens, block: int, begin: int, end: int, low: int, after: int) -> int:
    """The least key of a row above (low, after), from `begin` to before `end` of a block; NEVER for none."""
    base = block * BLOCK
    keys, born = lens.row[base : base + BLOCK], objects.born[base : base + BLOCK]
    # All of the block, as a loop of a fixed length has no end to foresee.
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
    objects: Objects, lens: Lens, block: int, begin: int, end: int, low: int, after: int, best: int
) -> int:
    """The lower of the row `best`, -1 for none, and the lowest above (low, after) of a part of a block."""
    key = least_key(objects, lens, block, begin, end, low, after)
    if key == NEVER or (best >= 0 and key > lens.row[best]):
        return best
    place = find_key(objects, lens, begin, end, key, low, after)
    return place if best < 0 else lower_seen(objects, lens, best, place)


@inlined
def lowest_of(objects: Objects, lens: Lens, begin: int, end: int, low: int, after: int) -> int:
    """The lowest row above (low, after) of the blocks from `begin` to before `end`, at least one."""
    level = last_bit(end - begin)
    one, two = lens.lowest[level, begin], lens.lowest[level, end - (1 << level)]
    best = int(lower_seen(objects, lens, one, two))
    if is_above(objects, lens, best, low, after):
        return best
    best = -1
    while begin < end:
        level = last_bit(end - begin)
        while level > 0 and not is_above(objects, lens, lens.lowest[level, begin], low, after):
            level -= 1
        place = int(lens.lowest[level, begin])
        if is_above(objects, lens, place, low, after):
            best = place if best < 0 else lower_seen(objects, lens, best, place)
        else:
            block = int(lens.block[begin])
            stop = block * BLOCK + int(objects.block_count[block])
            best = lower_part(objects, lens, block, block * BLOCK, stop, low, after, best)
        begin += 1 << level
    return best


@inlined
def least_above(objects: Objects, lens: Lens, stretch: Stretch, y: float, after: int) -> int:
    """The lowest row above (y, after) in a stretch, -1 if there is none: the paper's min_y.

    (y, after) is what the lens looks above, or above that. Cost: two blocks, in vector code, and two looks
    into the table; if rows that the lens shows are not above, some looks more, and each block that has one.
    """
    low = key_of(y)
    block, end_block = int(lens.block[stretch.first]), int(lens.block[stretch.last])
    begin, stop, best = stretch.begin, stretch.end, -1
    if block != end_block:
        if stretch.first + 1 < stretch.last:
            best = lowest_of(objects, lens, stretch.first + 1, stretch.last, low, after)
        best = lower_part(objects, lens, end_block, end_block * BLOCK, stop, low, after, best)
        stop = block * BLOCK + int(objects.block_count[block])
    best = lower_part(objects, lens, block, begin, stop, low, after, best)
    return best if best >= 0 and lens.row[best] < NEVER else -1
