"""The lowest row of a range above a given one: the paper's min_y.

Paint-Dense has no need of it, as it lists the rows passed once; Unicast searches so for each subscription. It
is made for that: very many searches between two changes of a row. They look through a *lens*, which has what
they compare as whole numbers, and where blocks and groups begin, each in one piece.

Where an `int32` link is passed on, `+ 0` makes it an `int64`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Longs
from tocsin.indexes.ranges.bits_kernels import NEVER, first_bit, order_key
from tocsin.indexes.ranges.objects_columns import BLOCK, GROUP, N_GROUPS, Objects
from tocsin.indexes.ranges.objects_kernels import (
    first_place,
    last_in_block,
    last_place,
    lower_of,
    place_after,
)
from tocsin.indexes.shared.jit import inlined, lean_kernel


class Lens(NamedTuple):
    """Columns of `Objects` as searches compare them; see `set_lens`."""

    #: int64: `y`, `node_least` and `top_least` as keys, see `order_key`
    row: Longs
    node: Longs
    top: Longs
    #: float64: x of the first row of the block at each node, and of each group of the list
    node_x: Floats
    top_x: Floats


class Best(NamedTuple):
    """The lowest row found so far."""

    #: its key, NEVER for none
    key: int
    #: the places that it is among: one, or those looked through
    begin: int
    end: int


@inlined
def key_of(y: float) -> int:
    """The key of a double."""
    return order_key(int(np.float64(y).view(np.int64)))


@inlined
def set_lens(objects: Objects, lens: Lens) -> None:
    """See all rows as they are. Linear."""
    for above in range(objects.heads[N_GROUPS]):
        group = int(objects.top_group[above])
        lens.top[above] = key_of(objects.top_least[above])
        lens.top_x[above] = objects.x[objects.node_block[group * GROUP] * BLOCK]
        for node in range(group * GROUP, group * GROUP + objects.group_count[group]):
            base = int(objects.node_block[node]) * BLOCK
            lens.node[node] = key_of(objects.node_least[node])
            lens.node_x[node] = objects.x[base]
            for place in range(base, base + BLOCK):
                lens.row[place] = key_of(objects.y[place])


@inlined
def set_lens_at(objects: Objects, lens: Lens, place: int) -> None:
    """See the row at `place` as it is, after a change of its y alone. Cost: constant."""
    block = place // BLOCK
    group = objects.block_group[block]
    node, above = group * GROUP + objects.block_rank[block], objects.group_rank[group]
    lens.row[place] = key_of(objects.y[place])
    lens.node[node] = key_of(objects.node_least[node])
    lens.top[above] = key_of(objects.top_least[above])


@inlined
def bits_between(begin: int, end: int) -> int:
    """Bits of the places from `begin` to before `end` in their block; there are some."""
    return ((2 << int((end - 1) % BLOCK)) - 1) & (-1 << int(begin % BLOCK))


@inlined
def find_key(objects: Objects, lens: Lens, begin: int, end: int, found: int, low: int, after: int) -> int:
    """Which row, in one block, has a key that one above (low, after) has; the one born first."""
    base = begin // BLOCK * BLOCK
    keys, born = lens.row[base : base + BLOCK], objects.born[base : base + BLOCK]
    equal = 0
    for i in range(BLOCK):
        equal |= 1 << i if keys[i] == found else 0
    equal &= bits_between(begin, end)
    at = first_bit(equal)
    if equal & (equal - 1) == 0:
        return base + at
    at = -1
    while equal != 0:
        i = first_bit(equal)
        equal &= equal - 1
        if (found > low or born[i] > after) and (at < 0 or born[i] < born[at]):
            at = i
    return base + at


@inlined
def least_key(keys: Longs, born: Longs, low: int, after: int, n_known: int) -> int:
    """The least key of a row above (low, after), NEVER if there is none.

    So many rows are known to have `low` and not to be above, none or one; if others have it too, who was born
    first tells.
    """
    least, n_equal = NEVER, 0
    if n_known == 0:
        for i in range(len(keys)):
            least = min(least, keys[i] if keys[i] >= low else NEVER)
        if least > low:
            return least
        least = NEVER
    for i in range(len(keys)):
        least = min(least, keys[i] if keys[i] > low else NEVER)
        n_equal += keys[i] == low
    if n_equal > n_known:
        n_above = 0
        for i in range(len(keys)):
            n_above += (keys[i] == low) & (born[i] > after)
        least = low if n_above > 0 else least
    return least


@inlined
def place_of(objects: Objects, lens: Lens, best: Best, low: int, after: int) -> int:
    """Where the lowest row is, -1 for none."""
    if best.key == NEVER:
        return -1
    if best.end == best.begin + 1:
        return best.begin
    return find_key(objects, lens, best.begin, best.end, best.key, low, after)


@lean_kernel
def settle_tie(objects: Objects, lens: Lens, best: Best, other: Best, low: int, after: int) -> Best:
    """The lower of two rows with the same key."""
    one, two = place_of(objects, lens, best, low, after), place_of(objects, lens, other, low, after)
    place = lower_of(objects.y, objects.born, one, two)
    return Best(best.key, place, place + 1)


@inlined
def better_of(objects: Objects, lens: Lens, best: Best, other: Best, low: int, after: int) -> Best:
    """The lower of two rows. Where they are is looked for only if their keys are equal."""
    if other.key < best.key:
        return other
    if other.key > best.key or other.key == NEVER:
        return best
    return settle_tie(objects, lens, best, other, low, after)


@inlined
def lower_row(
    objects: Objects, lens: Lens, begin: int, end: int, low: int, after: int, known: int, best: Best
) -> Best:
    """The lowest row above (low, after) of `best` and those from `begin` to before `end`, in one block.

    `known` is where the row (low, after) itself is, -1 if it is not there.
    """
    n_known = int(begin <= known < end)
    key = least_key(lens.row[begin:end], objects.born[begin:end], low, after, n_known)
    return better_of(objects, lens, best, Best(key, begin, end), low, after)


@inlined
def lower_node(
    objects: Objects, lens: Lens, begin: int, end: int, low: int, after: int, known: int, best: Best
) -> Best:
    """As `lower_row`, of the blocks at nodes from `begin` to before `end`, in one group.

    Of a block without a row at or below `low`, the lowest is known; others are looked through.
    """
    keys = lens.node[begin:end]
    least, mixed = NEVER, 0
    for i in range(len(keys)):
        least = min(least, keys[i] if keys[i] > low else NEVER)
        mixed |= 1 << i if keys[i] <= low else 0
    if least < NEVER and least <= best.key:
        found = 0
        for i in range(len(keys)):
            found |= 1 << i if keys[i] == least else 0
        while found != 0:
            place = int(objects.node_place[begin + first_bit(found)]) + 0
            best = better_of(objects, lens, best, Best(least, place, place + 1), low, after)
            found &= found - 1
    while mixed != 0:
        block = int(objects.node_block[begin + first_bit(mixed)])
        mixed &= mixed - 1
        stop = block * BLOCK + int(objects.block_count[block])
        best = lower_row(objects, lens, block * BLOCK, stop, low, after, known, best)
    return best


@inlined
def least_above(objects: Objects, lens: Lens, left: int, right: int, y: float, after: int, known: int) -> int:
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
    best = Best(NEVER, 0, 0)
    for is_last in range(1 if block == end_block else 2):
        # From the left end on, and up to the right end: all there is, if both are in one block.
        stop = end if is_last or block == end_block else block * BLOCK + int(objects.block_count[block])
        start = end_block * BLOCK if is_last else begin
        best = lower_row(objects, lens, start, stop, low, after, known, best)
    last = int(objects.block_group[end_block])
    group, rank = int(objects.block_group[block]), int(objects.block_rank[block]) + 1
    while block != end_block:
        above = int(objects.group_rank[group])
        count = int(objects.block_rank[end_block] if group == last else objects.group_count[group])
        node = group * GROUP
        if rank == 0 and group != last and lens.top[above] > low:
            place = int(objects.top_place[above]) + 0
            best = better_of(objects, lens, best, Best(int(lens.top[above]), place, place + 1), low, after)
        elif rank < count:
            best = lower_node(objects, lens, node + rank, node + count, low, after, known, best)
        if group == last:
            break
        group, rank = int(objects.top_group[above + 1]), 0
    return place_of(objects, lens, best, low, after)


@inlined
def count_before(part: Floats, x: float, is_strict: bool) -> int:
    """How many values are at most x, or less than it. Without a branch, which is faster than to halve."""
    n_less = n_equal = 0
    for i in range(len(part)):
        n_less += part[i] < x
        n_equal += part[i] == x
    return n_less + (0 if is_strict else n_equal)


@inlined
def find_through(objects: Objects, lens: Lens, x: float, is_strict: bool) -> int:
    """The last row at or left of `x`, or strictly left of it; -1 if there is none. See `find_last`."""
    n_groups = count_before(lens.top_x[: objects.heads[N_GROUPS]], x, is_strict)
    if n_groups == 0:
        return -1
    group = int(objects.top_group[n_groups - 1])
    begin, end = group * GROUP, group * GROUP + int(objects.group_count[group])
    node = begin + count_before(lens.node_x[begin:end], x, is_strict) - 1
    return last_in_block(objects, int(objects.node_block[node]), x, is_strict)


@inlined
def least_y_above(
    objects: Objects, lens: Lens, low: float, high: float, y: float, born: int, known: int
) -> int:
    """The lowest row above (y, born) with low <= x <= high, -1 if there is none: the paper's min_y.

    `known` is where the row (y, born) itself is, -1 if it is not there.
    """
    if not low <= high:
        return -1
    left = find_through(objects, lens, low, True)
    last = find_through(objects, lens, high, False)
    right = first_place(objects) if last < 0 else place_after(objects, last)
    return least_above(objects, lens, left, right, y, born, known)
