"""Kernels of the object index: rows in order of x, with the lowest row of every stretch at hand.

A row is *below* another one if its (y, born) is less; `born` is unique, so no two rows are equal. Rows of
equal x lie in any order, and everything here goes by that order, so that equal x needs no care: a row is left
or right of another one. This is the shared leaf file of the room: other kernels call these.

Where an `int32` link is passed on, `+ 0` makes it an `int64`, so that each kernel is compiled once.
"""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.ranges.objects_columns import (
    BLOCK,
    BLOCKS_MADE,
    FREE_BLOCK,
    FREE_GROUP,
    GROUP,
    GROUPS_MADE,
    HALF,
    HALF_GROUP,
    N_BLOCKS,
    N_GROUPS,
    N_ROWS,
    STRIDE,
    Objects,
)
from tocsin.indexes.shared.jit import inlined, lean_kernel


@inlined
def is_before(y: float, born: int, other_y: float, other_born: int) -> bool:
    """The one strict order of rows."""
    return (y < other_y) | ((y == other_y) & (born < other_born))


@inlined
def is_below(objects: Objects, place: int, y: float, born: int) -> bool:
    """Whether the row at `place` is below (y, born)."""
    return is_before(objects.y[place], objects.born[place], y, born)


@inlined
def lower_of(y: Floats, born: Longs, place: int, other: int) -> int:
    """The lower of two rows, either of which may be -1 for none."""
    if other < 0:
        return place
    if place < 0 or is_before(y[other], born[other], y[place], born[place]):
        return other
    return place


# Neighbours


@inlined
def first_place(objects: Objects) -> int:
    """The leftmost row, -1 if there is none."""
    if objects.heads[N_GROUPS] == 0:
        return -1
    return int(objects.node_block[objects.top_group[0] * GROUP]) * BLOCK


@inlined
def last_place(objects: Objects) -> int:
    """The rightmost row, -1 if there is none."""
    n_groups = objects.heads[N_GROUPS]
    if n_groups == 0:
        return -1
    group = objects.top_group[n_groups - 1]
    block = int(objects.node_block[group * GROUP + objects.group_count[group] - 1])
    return block * BLOCK + int(objects.block_count[block]) - 1


@inlined
def block_after(objects: Objects, block: int) -> int:
    """The block to the right, -1 if there is none."""
    group, rank = int(objects.block_group[block]), int(objects.block_rank[block]) + 1
    if rank == objects.group_count[group]:
        above = int(objects.group_rank[group]) + 1
        if above == objects.heads[N_GROUPS]:
            return -1
        group = int(objects.top_group[above])
        rank = 0
    return int(objects.node_block[group * GROUP + rank])


@inlined
def place_before(objects: Objects, place: int) -> int:
    """The row to the left of one, -1 if there is none. Cost: constant."""
    if place % BLOCK:
        return place - 1
    group, rank = int(objects.block_group[place // BLOCK]), int(objects.block_rank[place // BLOCK])
    if rank == 0:
        above = int(objects.group_rank[group])
        if above == 0:
            return -1
        group = int(objects.top_group[above - 1])
        rank = int(objects.group_count[group])
    block = int(objects.node_block[group * GROUP + rank - 1])
    return block * BLOCK + int(objects.block_count[block]) - 1


@inlined
def place_after(objects: Objects, place: int) -> int:
    """The row to the right of one, -1 if there is none. Cost: constant."""
    block = place // BLOCK
    if place + 1 < block * BLOCK + objects.block_count[block]:
        return place + 1
    block = block_after(objects, block)
    return block if block < 0 else block * BLOCK


@inlined
def last_in_block(objects: Objects, block: int, x: float, is_strict: bool) -> int:
    """The last row of a block at or left of `x`, or strictly left of it; its first row is."""
    base = block * BLOCK
    # Counted without a branch, which is faster than to halve a block.
    part = objects.x[base : base + objects.block_count[block]]
    n_left = n_equal = 0
    for i in range(len(part)):
        n_left += part[i] < x
        n_equal += part[i] == x
    return base + max(n_left + (0 if is_strict else n_equal), 1) - 1


@lean_kernel
def search_last(objects: Objects, x: float, is_strict: bool) -> int:
    """The last row at or left of `x`, or strictly left of it; -1 if there is none. Cost: logarithmic."""
    low, high = 0, int(objects.heads[N_GROUPS])
    while low < high:
        middle = (low + high) // 2
        first = objects.x[objects.node_block[objects.top_group[middle] * GROUP] * BLOCK]
        if first < x or (first == x and not is_strict):
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return -1
    group = int(objects.top_group[low - 1])
    base = group * GROUP
    low, high = 1, int(objects.group_count[group])
    while low < high:
        middle = (low + high) // 2
        first = objects.x[objects.node_block[base + middle] * BLOCK]
        if first < x or (first == x and not is_strict):
            low = middle + 1
        else:
            high = middle
    return last_in_block(objects, int(objects.node_block[base + low - 1]), x, is_strict)


@inlined
def find_last(objects: Objects, x: float, is_strict: bool) -> int:
    """The last row at or left of `x`, or strictly left of it; -1 if there is none. Cost: logarithmic."""
    # Not the constant itself, for which the search would be compiled once more.
    return search_last(objects, x, bool(is_strict))


@inlined
def find_first(objects: Objects, x: float, is_strict: bool) -> int:
    """The first row at or right of `x`, or strictly right of it; -1 if there is none. Cost: logarithmic."""
    before = find_last(objects, x, not is_strict)
    return first_place(objects) if before < 0 else place_after(objects, before)


# The nearest rows below a given one


@inlined
def drop_ties(objects: Objects, out_place: Ints, first: int, n: int, y: float, born: int) -> int:
    """Of the rows listed from `first` on, none above y, keep those below (y, born): the new length."""
    kept = first
    for i in range(first, n):
        out_place[kept] = out_place[i]
        kept += is_below(objects, out_place[i], y, born)
    return kept


@inlined
def walk_left(objects: Objects, start: int, y: float, born: int, k: int, out_place: Ints) -> int:
    """From `start` on to the left, the first `k` rows below (y, born): how many there are.

    `start` is -1 for none. `out_place` has room for k + STRIDE. Cost: the rows on the way, in blocks and
    groups that hold one below; others are skipped at once.
    """
    n = 0
    if start < 0:
        return 0
    block = int(start // BLOCK)
    end = int(start + 1)
    while True:
        base = block * BLOCK
        while end > base and n < k:
            begin = max(base, end - STRIDE)
            first, ties = n, 0
            part = objects.y[begin:end]
            for i in range(len(part)):
                value = part[len(part) - 1 - i]
                out_place[n] = end - 1 - i
                n += value <= y
                ties += value == y
            if ties > 0:
                n = drop_ties(objects, out_place, first, n, y, born)
            end = begin
        if n >= k:
            return k
        group, rank = int(objects.block_group[block]), int(objects.block_rank[block]) - 1
        node = group * GROUP
        while rank >= 0 and objects.node_least[node + rank] > y:
            rank -= 1
        if rank < 0:
            above = int(objects.group_rank[group]) - 1
            while above >= 0 and objects.top_least[above] > y:
                above -= 1
            if above < 0:
                return n
            node = int(objects.top_group[above]) * GROUP
            rank = int(objects.group_count[objects.top_group[above]]) - 1
            # One of its blocks is not above y, or the group would be.
            while objects.node_least[node + rank] > y:
                rank -= 1
        block = int(objects.node_block[node + rank])
        end = block * BLOCK + objects.block_count[block]


@inlined
def walk_right(objects: Objects, start: int, y: float, born: int, k: int, out_place: Ints) -> int:
    """From `start` on to the right, the first `k` rows below (y, born); see `walk_left`."""
    n = 0
    if start < 0:
        return 0
    block = int(start // BLOCK)
    begin = int(start)
    while True:
        stop = block * BLOCK + objects.block_count[block]
        while begin < stop and n < k:
            end = min(stop, begin + STRIDE)
            first, ties = n, 0
            part = objects.y[begin:end]
            for i in range(len(part)):
                out_place[n] = begin + i
                n += part[i] <= y
                ties += part[i] == y
            if ties > 0:
                n = drop_ties(objects, out_place, first, n, y, born)
            begin = end
        if n >= k:
            return k
        group, rank = int(objects.block_group[block]), int(objects.block_rank[block]) + 1
        node = group * GROUP
        count = int(objects.group_count[group])
        while rank < count and objects.node_least[node + rank] > y:
            rank += 1
        if rank == count:
            above = int(objects.group_rank[group]) + 1
            n_groups = objects.heads[N_GROUPS]
            while above < n_groups and objects.top_least[above] > y:
                above += 1
            if above == n_groups:
                return n
            node = int(objects.top_group[above]) * GROUP
            rank = 0
            while objects.node_least[node + rank] > y:
                rank += 1
        block = int(objects.node_block[node + rank])
        begin = block * BLOCK


@lean_kernel
def first_left(objects: Objects, start: int, y: float, born: int, k: int, out_place: Ints) -> int:
    """`walk_left` as a kernel of its own: slower to call, quicker to compile."""
    return walk_left(objects, start, y, born, k, out_place)


@lean_kernel
def first_right(objects: Objects, start: int, y: float, born: int, k: int, out_place: Ints) -> int:
    """`walk_right` as a kernel of its own."""
    return walk_right(objects, start, y, born, k, out_place)


# The lowest row of a stretch


@lean_kernel
def least_value(part: Floats) -> float:
    """The least value, inf of none. Four at a time, as each waits for the one before."""
    quarters = part.shape[0] // 4
    a = b = c = d = np.inf
    for i in range(quarters):
        a = part[4 * i] if part[4 * i] < a else a
        b = part[4 * i + 1] if part[4 * i + 1] < b else b
        c = part[4 * i + 2] if part[4 * i + 2] < c else c
        d = part[4 * i + 3] if part[4 * i + 3] < d else d
    for i in range(4 * quarters, part.shape[0]):
        a = part[i] if part[i] < a else a
    a = b if b < a else a
    c = d if d < c else c
    return c if c < a else a


@lean_kernel
def least_row(y: Floats, born: Longs, begin: int, end: int) -> int:
    """The lowest of the rows from `begin` to before `end`, in one block; -1 if there is none."""
    least = least_value(y[begin:end])
    best = -1
    for place in range(begin, end):
        if y[place] == least and (best < 0 or born[place] < born[best]):
            best = place
    return best


@lean_kernel
def least_listed(y: Floats, born: Longs, least: Floats, places: Ints, begin: int, end: int) -> int:
    """The lowest of the lowest rows of blocks or groups listed side by side; -1 if there is none."""
    value = least_value(least[begin:end])
    best = -1
    for at in range(begin, end):
        if least[at] == value:
            best = lower_of(y, born, best, int(places[at]))
    return best


@inlined
def least_node(objects: Objects, begin: int, end: int) -> int:
    """The lowest row of the blocks at nodes from `begin` to before `end`, in one group; -1 if none."""
    return least_listed(objects.y, objects.born, objects.node_least, objects.node_place, begin, end)


@lean_kernel
def least_between(objects: Objects, left: int, right: int) -> int:
    """The lowest row strictly between two, -1 if there is none. An end may be -1, for none on that side.

    Cost: at most two blocks, two groups and the list of groups, each scanned without a branch.
    """
    y, born = objects.y, objects.born
    begin = first_place(objects) if left < 0 else left + 1
    end = (last_place(objects) if right < 0 else right - 1) + 1
    if begin < 0:
        return -1
    # `begin` may be one past its block, and `end` the start of its own: the block is that of the row given.
    block = begin // BLOCK if left < 0 else left // BLOCK
    end_block = (end - 1) // BLOCK if right < 0 else right // BLOCK
    if block == end_block:
        return least_row(y, born, begin, end)
    best = least_row(y, born, begin, block * BLOCK + int(objects.block_count[block]))
    best = lower_of(y, born, best, least_row(y, born, end_block * BLOCK, end))
    group, end_group = int(objects.block_group[block]), int(objects.block_group[end_block])
    node = group * GROUP + int(objects.block_rank[block]) + 1
    end_node = end_group * GROUP + int(objects.block_rank[end_block])
    if group == end_group:
        return lower_of(y, born, best, least_node(objects, node, end_node))
    last = group * GROUP + int(objects.group_count[group])
    best = lower_of(y, born, best, least_node(objects, node, last))
    best = lower_of(y, born, best, least_node(objects, end_group * GROUP, end_node))
    rank, end_rank = objects.group_rank[group] + 1, objects.group_rank[end_group] + 0
    between = least_listed(y, born, objects.top_least, objects.top_place, rank, end_rank)
    return lower_of(y, born, best, between)


# Changes of rows


@inlined
def has_room(objects: Objects) -> bool:
    """Whether a row can be inserted, wherever it falls: there is a free block and a free group."""
    heads = objects.heads
    is_full = (
        heads[N_BLOCKS] == objects.block_count.shape[0] or heads[N_GROUPS] == objects.group_count.shape[0]
    )
    return not is_full


@inlined
def mend_group(objects: Objects, group: int) -> None:
    """Find the lowest row of a group anew."""
    lowest = least_node(objects, group * GROUP, group * GROUP + objects.group_count[group])
    rank = objects.group_rank[group]
    objects.top_place[rank] = lowest
    objects.top_least[rank] = objects.y[lowest]


@lean_kernel
def mend_block(objects: Objects, block: int) -> None:
    """Find the lowest row of a block anew, and of its group."""
    base = block * BLOCK
    lowest = least_row(objects.y, objects.born, base, base + int(objects.block_count[block]))
    group = int(objects.block_group[block])
    node = group * GROUP + objects.block_rank[block]
    objects.node_place[node] = lowest
    objects.node_least[node] = objects.y[lowest]
    mend_group(objects, group)


@inlined
def change_y(objects: Objects, place: int, y: float) -> None:
    """Give the row at `place` another y. Cost: constant; a scan of its block and group if it was lowest."""
    block = place // BLOCK
    group = int(objects.block_group[block])
    node = group * GROUP + objects.block_rank[block]
    rank = objects.group_rank[group]
    objects.y[place] = y
    lowest = int(objects.node_place[node])
    if lowest == place:
        mend_block(objects, block)
        return
    if is_below(objects, place, objects.y[lowest], objects.born[lowest]):
        objects.node_place[node] = place
        objects.node_least[node] = y
        lowest = int(objects.top_place[rank])
        if is_below(objects, place, objects.y[lowest], objects.born[lowest]):
            objects.top_place[rank] = place
            objects.top_least[rank] = y


@inlined
def insert_group(objects: Objects, rank: int) -> int:
    """A new group without blocks at `rank` of the list."""
    heads = objects.heads
    group = int(heads[FREE_GROUP])
    if group >= 0:
        heads[FREE_GROUP] = objects.group_rank[group]
    else:
        group = int(heads[GROUPS_MADE])
        heads[GROUPS_MADE] += 1
    for at in range(heads[N_GROUPS], rank, -1):
        objects.top_group[at] = objects.top_group[at - 1]
        objects.top_least[at] = objects.top_least[at - 1]
        objects.top_place[at] = objects.top_place[at - 1]
        objects.group_rank[objects.top_group[at]] = at
    heads[N_GROUPS] += 1
    objects.top_group[rank] = group
    objects.group_rank[group] = rank
    objects.group_count[group] = 0
    return group


@inlined
def move_node(objects: Objects, node: int, to: int) -> None:
    """Copy a block's entry from one node to another."""
    block = objects.node_block[node]
    objects.node_block[to] = block
    objects.node_least[to] = objects.node_least[node]
    objects.node_place[to] = objects.node_place[node]
    objects.block_group[block] = to // GROUP
    objects.block_rank[block] = to % GROUP


@lean_kernel
def insert_block(objects: Objects, group: int, rank: int) -> int:
    """A new block without rows at `rank` of a group, which is split before if it is full."""
    if objects.group_count[group] == GROUP:
        upper = insert_group(objects, objects.group_rank[group] + 1)
        for offset in range(HALF_GROUP):
            move_node(objects, group * GROUP + HALF_GROUP + offset, upper * GROUP + offset)
        objects.group_count[group] = HALF_GROUP
        objects.group_count[upper] = GROUP - HALF_GROUP
        mend_group(objects, group)
        mend_group(objects, upper)
        if rank > HALF_GROUP:
            group, rank = upper, rank - HALF_GROUP
    heads = objects.heads
    block = int(heads[FREE_BLOCK])
    if block >= 0:
        heads[FREE_BLOCK] = objects.block_group[block]
    else:
        block = int(heads[BLOCKS_MADE])
        heads[BLOCKS_MADE] += 1
    heads[N_BLOCKS] += 1
    base = group * GROUP
    for node in range(base + objects.group_count[group], base + rank, -1):
        move_node(objects, node - 1, node)
    objects.group_count[group] += 1
    objects.node_block[base + rank] = block
    objects.block_group[block] = group
    objects.block_rank[block] = rank
    objects.block_count[block] = 0
    return block


@inlined
def move_row(objects: Objects, place: int, to: int) -> None:
    """Copy a row from one place to another."""
    objects.x[to] = objects.x[place]
    objects.y[to] = objects.y[place]
    objects.born[to] = objects.born[place]
    objects.slot[to] = objects.slot[place]
    objects.slot_place[objects.slot[place]] = to


@lean_kernel
def insert_row(objects: Objects, slot: int, x: float, y: float, born: int) -> None:
    """Add a row; there must be room. Cost: logarithmic search, and shifting less than a block."""
    after = find_last(objects, x, False)
    if objects.heads[N_GROUPS] == 0:
        group = insert_group(objects, 0)
        block = insert_block(objects, group, objects.group_count[group] + 0)
        place = block * BLOCK
    else:
        place = first_place(objects) if after < 0 else after + 1
        block = place // BLOCK if after < 0 else after // BLOCK
    base = block * BLOCK
    if objects.block_count[block] == BLOCK:
        # The new block has no least row yet: nothing may look for one until both are mended.
        upper = insert_block(objects, objects.block_group[block] + 0, objects.block_rank[block] + 1)
        for offset in range(BLOCK - HALF):
            move_row(objects, base + HALF + offset, upper * BLOCK + offset)
        objects.block_count[block] = HALF
        objects.block_count[upper] = BLOCK - HALF
        copied = objects.block_group[upper] * GROUP + objects.block_rank[upper]
        objects.node_place[copied] = upper * BLOCK
        objects.node_least[copied] = objects.y[upper * BLOCK]
        mend_block(objects, block)
        mend_block(objects, upper)
        if place > base + HALF:
            place = upper * BLOCK + place - base - HALF
            block = upper
    for at in range(block * BLOCK + objects.block_count[block], place, -1):
        move_row(objects, at - 1, at)
    objects.x[place], objects.y[place], objects.born[place], objects.slot[place] = x, y, born, slot
    objects.slot_place[slot] = place
    objects.block_count[block] += 1
    objects.heads[N_ROWS] += 1
    mend_block(objects, block)


@lean_kernel
def delete_row(objects: Objects, slot: int) -> None:
    """Remove a row that is there. Cost: shifting less than a block."""
    heads = objects.heads
    place = int(objects.slot_place[slot])
    block = place // BLOCK
    objects.slot_place[slot] = -1
    objects.block_count[block] -= 1
    heads[N_ROWS] -= 1
    for at in range(place, block * BLOCK + objects.block_count[block]):
        move_row(objects, at + 1, at)
    if objects.block_count[block] > 0:
        mend_block(objects, block)
        return
    group = int(objects.block_group[block])
    objects.group_count[group] -= 1
    base = group * GROUP
    for node in range(base + objects.block_rank[block], base + objects.group_count[group]):
        move_node(objects, node + 1, node)
    objects.block_group[block] = heads[FREE_BLOCK]
    heads[FREE_BLOCK] = block
    heads[N_BLOCKS] -= 1
    if objects.group_count[group] > 0:
        mend_group(objects, group)
        return
    heads[N_GROUPS] -= 1
    for at in range(objects.group_rank[group], heads[N_GROUPS]):
        objects.top_group[at] = objects.top_group[at + 1]
        objects.top_least[at] = objects.top_least[at + 1]
        objects.top_place[at] = objects.top_place[at + 1]
        objects.group_rank[objects.top_group[at]] = at
    objects.group_rank[group] = heads[FREE_GROUP]
    heads[FREE_GROUP] = group


@inlined
def put_row(objects: Objects, slot: int, x: float, y: float, born: int) -> None:
    """Insert, move or change the slot's row, or remove it where `born` is negative or x or y is NaN."""
    place = int(objects.slot_place[slot])
    is_there = born >= 0 and x == x and y == y
    if place >= 0 and is_there and objects.x[place] == x and objects.born[place] == born:
        if objects.y[place] != y:
            change_y(objects, place, y)
        return
    if place >= 0:
        delete_row(objects, slot)
    if is_there:
        insert_row(objects, slot, x, y, born)
