"""Kernels of the blocked list of rows: ordered by x, with the lowest row of every block and group known.

A row is *below* another one if its (y, born) is less; `born` is unique, so no two rows are equal. Rows of
equal x lie in any order, and everything here goes by that order, so that equal x needs no special case: a row
is left or right of another one. Messages and tiles share it.

Where an `int32` link is passed on, `+ 0` makes it an `int64`, so that each kernel is compiled once.
"""

from __future__ import annotations

import numpy as np

from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.ranges.structures.blocked_rows_layout import (
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
    BlockedColumns,
)


@inlined
def is_before(y: float, born: int, other_y: float, other_born: int) -> bool:
    """The one strict order of rows."""
    return (y < other_y) | ((y == other_y) & (born < other_born))


@inlined
def is_below(blocked: BlockedColumns, place: int, y: float, born: int) -> bool:
    """Whether the row at `place` is below (y, born)."""
    return is_before(blocked.y[place], blocked.born[place], y, born)


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
def first_place(blocked: BlockedColumns) -> int:
    """The leftmost row, -1 if there is none."""
    if blocked.heads[N_GROUPS] == 0:
        return -1
    return int(blocked.node_block[blocked.top_group[0] * GROUP]) * BLOCK


@inlined
def last_place(blocked: BlockedColumns) -> int:
    """The rightmost row, -1 if there is none."""
    n_groups = blocked.heads[N_GROUPS]
    if n_groups == 0:
        return -1
    group = blocked.top_group[n_groups - 1]
    block = int(blocked.node_block[group * GROUP + blocked.group_count[group] - 1])
    return block * BLOCK + int(blocked.block_count[block]) - 1


@inlined
def block_after(blocked: BlockedColumns, block: int) -> int:
    """The block to the right, -1 if there is none."""
    group, rank = int(blocked.block_group[block]), int(blocked.block_rank[block]) + 1
    if rank == blocked.group_count[group]:
        above = int(blocked.group_rank[group]) + 1
        if above == blocked.heads[N_GROUPS]:
            return -1
        group = int(blocked.top_group[above])
        rank = 0
    return int(blocked.node_block[group * GROUP + rank])


@inlined
def place_before(blocked: BlockedColumns, place: int) -> int:
    """The row to the left of one, -1 if there is none. Cost: constant."""
    if place % BLOCK:
        return place - 1
    group, rank = int(blocked.block_group[place // BLOCK]), int(blocked.block_rank[place // BLOCK])
    if rank == 0:
        above = int(blocked.group_rank[group])
        if above == 0:
            return -1
        group = int(blocked.top_group[above - 1])
        rank = int(blocked.group_count[group])
    block = int(blocked.node_block[group * GROUP + rank - 1])
    return block * BLOCK + int(blocked.block_count[block]) - 1


@inlined
def place_after(blocked: BlockedColumns, place: int) -> int:
    """The row to the right of one, -1 if there is none. Cost: constant."""
    block = place // BLOCK
    if place + 1 < block * BLOCK + blocked.block_count[block]:
        return place + 1
    block = block_after(blocked, block)
    return block if block < 0 else block * BLOCK


@inlined
def last_in_block(blocked: BlockedColumns, block: int, x: float, is_strict: bool) -> int:
    """The last row of a block at or left of `x`, or strictly left of it; its first row is."""
    base = block * BLOCK
    # Counted without a branch, which is faster than halving a block.
    part = blocked.x[base : base + blocked.block_count[block]]
    n_left = n_equal = 0
    for i in range(len(part)):
        n_left += part[i] < x
        n_equal += part[i] == x
    return base + max(n_left + (0 if is_strict else n_equal), 1) - 1


@lean_kernel
def search_last(blocked: BlockedColumns, x: float, is_strict: bool) -> int:
    """The last row at or left of `x`, or strictly left of it; -1 if there is none. Cost: logarithmic."""
    # No search of `kernels.search`: what is compared is in no column of its own, but two lookups away.
    low, high = 0, int(blocked.heads[N_GROUPS])
    while low < high:
        middle = (low + high) // 2
        first = blocked.x[blocked.node_block[blocked.top_group[middle] * GROUP] * BLOCK]
        if first < x or (first == x and not is_strict):
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return -1
    group = int(blocked.top_group[low - 1])
    base = group * GROUP
    low, high = 1, int(blocked.group_count[group])
    while low < high:
        middle = (low + high) // 2
        first = blocked.x[blocked.node_block[base + middle] * BLOCK]
        if first < x or (first == x and not is_strict):
            low = middle + 1
        else:
            high = middle
    return last_in_block(blocked, int(blocked.node_block[base + low - 1]), x, is_strict)


@inlined
def find_last(blocked: BlockedColumns, x: float, is_strict: bool) -> int:
    """The last row at or left of `x`, or strictly left of it; -1 if there is none. Cost: logarithmic."""
    # Not passed as a literal, for which the search would be compiled again.
    return search_last(blocked, x, bool(is_strict))


@inlined
def find_first(blocked: BlockedColumns, x: float, is_strict: bool) -> int:
    """The first row at or right of `x`, or strictly right of it; -1 if there is none. Cost: logarithmic."""
    before = find_last(blocked, x, not is_strict)
    return first_place(blocked) if before < 0 else place_after(blocked, before)


# The nearest rows below a given one


@inlined
def drop_ties(blocked: BlockedColumns, out_place: Ints, first: int, n: int, y: float, born: int) -> int:
    """Of the rows listed from `first` on, none above y, keep those below (y, born): the new length."""
    kept = first
    for i in range(first, n):
        out_place[kept] = out_place[i]
        kept += is_below(blocked, out_place[i], y, born)
    return kept


@inlined
def walk_left(blocked: BlockedColumns, start: int, y: float, born: int, k: int, out_place: Ints) -> int:
    """From `start` on to the left, the first `k` rows below (y, born): how many there are.

    `start` is -1 for none. `out_place` has capacity k + STRIDE. Cost: the rows on the way, in blocks and
    groups that hold one below; others are skipped whole.
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
            part = blocked.y[begin:end]
            for i in range(len(part)):
                value = part[len(part) - 1 - i]
                out_place[n] = end - 1 - i
                n += value <= y
                ties += value == y
            if ties > 0:
                n = drop_ties(blocked, out_place, first, n, y, born)
            end = begin
        if n >= k:
            return k
        group, rank = int(blocked.block_group[block]), int(blocked.block_rank[block]) - 1
        node = group * GROUP
        while rank >= 0 and blocked.node_least[node + rank] > y:
            rank -= 1
        if rank < 0:
            above = int(blocked.group_rank[group]) - 1
            while above >= 0 and blocked.top_least[above] > y:
                above -= 1
            if above < 0:
                return n
            node = int(blocked.top_group[above]) * GROUP
            rank = int(blocked.group_count[blocked.top_group[above]]) - 1
            # One of its blocks is not above y, or the group would be.
            while blocked.node_least[node + rank] > y:
                rank -= 1
        block = int(blocked.node_block[node + rank])
        end = block * BLOCK + blocked.block_count[block]


@inlined
def walk_right(blocked: BlockedColumns, start: int, y: float, born: int, k: int, out_place: Ints) -> int:
    """From `start` on to the right, the first `k` rows below (y, born); see `walk_left`."""
    n = 0
    if start < 0:
        return 0
    block = int(start // BLOCK)
    begin = int(start)
    while True:
        stop = block * BLOCK + blocked.block_count[block]
        while begin < stop and n < k:
            end = min(stop, begin + STRIDE)
            first, ties = n, 0
            part = blocked.y[begin:end]
            for i in range(len(part)):
                out_place[n] = begin + i
                n += part[i] <= y
                ties += part[i] == y
            if ties > 0:
                n = drop_ties(blocked, out_place, first, n, y, born)
            begin = end
        if n >= k:
            return k
        group, rank = int(blocked.block_group[block]), int(blocked.block_rank[block]) + 1
        node = group * GROUP
        count = int(blocked.group_count[group])
        while rank < count and blocked.node_least[node + rank] > y:
            rank += 1
        if rank == count:
            above = int(blocked.group_rank[group]) + 1
            n_groups = blocked.heads[N_GROUPS]
            while above < n_groups and blocked.top_least[above] > y:
                above += 1
            if above == n_groups:
                return n
            node = int(blocked.top_group[above]) * GROUP
            rank = 0
            while blocked.node_least[node + rank] > y:
                rank += 1
        block = int(blocked.node_block[node + rank])
        begin = block * BLOCK


@lean_kernel
def first_left(blocked: BlockedColumns, start: int, y: float, born: int, k: int, out_place: Ints) -> int:
    """`walk_left` as a separate kernel: slower to call, faster to compile."""
    return walk_left(blocked, start, y, born, k, out_place)


@lean_kernel
def first_right(blocked: BlockedColumns, start: int, y: float, born: int, k: int, out_place: Ints) -> int:
    """`walk_right` as a separate kernel."""
    return walk_right(blocked, start, y, born, k, out_place)


# The lowest row of a stretch


@lean_kernel
def least_value(part: Floats) -> float:
    """The least value, inf for none. Four independent chains, as each minimum waits for the one before."""
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
def least_node(blocked: BlockedColumns, begin: int, end: int) -> int:
    """The lowest row of the blocks at nodes from `begin` to before `end`, in one group; -1 if none."""
    return least_listed(blocked.y, blocked.born, blocked.node_least, blocked.node_place, begin, end)


@lean_kernel
def least_between(blocked: BlockedColumns, left: int, right: int) -> int:
    """The lowest row strictly between two, -1 if there is none. An end may be -1, for none on that side.

    Cost: at most two blocks, two groups and the list of groups, each scanned without a branch.
    """
    y, born = blocked.y, blocked.born
    begin = first_place(blocked) if left < 0 else left + 1
    end = (last_place(blocked) if right < 0 else right - 1) + 1
    if begin < 0:
        return -1
    # `begin` may be one past its block, and `end` the start of its own: the block is that of the row given.
    block = begin // BLOCK if left < 0 else left // BLOCK
    end_block = (end - 1) // BLOCK if right < 0 else right // BLOCK
    if block == end_block:
        return least_row(y, born, begin, end)
    best = least_row(y, born, begin, block * BLOCK + int(blocked.block_count[block]))
    best = lower_of(y, born, best, least_row(y, born, end_block * BLOCK, end))
    group, end_group = int(blocked.block_group[block]), int(blocked.block_group[end_block])
    node = group * GROUP + int(blocked.block_rank[block]) + 1
    end_node = end_group * GROUP + int(blocked.block_rank[end_block])
    if group == end_group:
        return lower_of(y, born, best, least_node(blocked, node, end_node))
    last = group * GROUP + int(blocked.group_count[group])
    best = lower_of(y, born, best, least_node(blocked, node, last))
    best = lower_of(y, born, best, least_node(blocked, end_group * GROUP, end_node))
    rank, end_rank = blocked.group_rank[group] + 1, blocked.group_rank[end_group] + 0
    between = least_listed(y, born, blocked.top_least, blocked.top_place, rank, end_rank)
    return lower_of(y, born, best, between)


# Changes of rows


@inlined
def has_capacity(blocked: BlockedColumns) -> bool:
    """Whether a row can be inserted, wherever it falls: there is a free block and a free group."""
    heads = blocked.heads
    is_full = (
        heads[N_BLOCKS] == blocked.block_count.shape[0] or heads[N_GROUPS] == blocked.group_count.shape[0]
    )
    return not is_full


@inlined
def refresh_group(blocked: BlockedColumns, group: int) -> None:
    """Recompute the lowest row of a group."""
    lowest = least_node(blocked, group * GROUP, group * GROUP + blocked.group_count[group])
    rank = blocked.group_rank[group]
    blocked.top_place[rank] = lowest
    blocked.top_least[rank] = blocked.y[lowest]


@lean_kernel
def refresh_block(blocked: BlockedColumns, block: int) -> None:
    """Recompute the lowest row of a block and of its group."""
    base = block * BLOCK
    lowest = least_row(blocked.y, blocked.born, base, base + int(blocked.block_count[block]))
    group = int(blocked.block_group[block])
    node = group * GROUP + blocked.block_rank[block]
    blocked.node_place[node] = lowest
    blocked.node_least[node] = blocked.y[lowest]
    refresh_group(blocked, group)


@inlined
def change_y(blocked: BlockedColumns, place: int, y: float) -> None:
    """Give the row at `place` another y. Cost: constant; a scan of its block and group if it was lowest."""
    block = place // BLOCK
    group = int(blocked.block_group[block])
    node = group * GROUP + blocked.block_rank[block]
    rank = blocked.group_rank[group]
    blocked.y[place] = y
    lowest = int(blocked.node_place[node])
    if lowest == place:
        refresh_block(blocked, block)
        return
    if is_below(blocked, place, blocked.y[lowest], blocked.born[lowest]):
        blocked.node_place[node] = place
        blocked.node_least[node] = y
        lowest = int(blocked.top_place[rank])
        if is_below(blocked, place, blocked.y[lowest], blocked.born[lowest]):
            blocked.top_place[rank] = place
            blocked.top_least[rank] = y


@inlined
def insert_group(blocked: BlockedColumns, rank: int) -> int:
    """Insert an empty group at `rank` of the list."""
    heads = blocked.heads
    group = int(heads[FREE_GROUP])
    if group >= 0:
        heads[FREE_GROUP] = blocked.group_rank[group]
    else:
        group = int(heads[GROUPS_MADE])
        heads[GROUPS_MADE] += 1
    for at in range(heads[N_GROUPS], rank, -1):
        blocked.top_group[at] = blocked.top_group[at - 1]
        blocked.top_least[at] = blocked.top_least[at - 1]
        blocked.top_place[at] = blocked.top_place[at - 1]
        blocked.group_rank[blocked.top_group[at]] = at
    heads[N_GROUPS] += 1
    blocked.top_group[rank] = group
    blocked.group_rank[group] = rank
    blocked.group_count[group] = 0
    return group


@inlined
def move_node(blocked: BlockedColumns, node: int, to: int) -> None:
    """Copy a block's entry from one node to another."""
    block = blocked.node_block[node]
    blocked.node_block[to] = block
    blocked.node_least[to] = blocked.node_least[node]
    blocked.node_place[to] = blocked.node_place[node]
    blocked.block_group[block] = to // GROUP
    blocked.block_rank[block] = to % GROUP


@lean_kernel
def insert_block(blocked: BlockedColumns, group: int, rank: int) -> int:
    """Insert an empty block at `rank` of a group, which is split first if full."""
    if blocked.group_count[group] == GROUP:
        upper = insert_group(blocked, blocked.group_rank[group] + 1)
        for offset in range(HALF_GROUP):
            move_node(blocked, group * GROUP + HALF_GROUP + offset, upper * GROUP + offset)
        blocked.group_count[group] = HALF_GROUP
        blocked.group_count[upper] = GROUP - HALF_GROUP
        refresh_group(blocked, group)
        refresh_group(blocked, upper)
        if rank > HALF_GROUP:
            group, rank = upper, rank - HALF_GROUP
    heads = blocked.heads
    block = int(heads[FREE_BLOCK])
    if block >= 0:
        heads[FREE_BLOCK] = blocked.block_group[block]
    else:
        block = int(heads[BLOCKS_MADE])
        heads[BLOCKS_MADE] += 1
    heads[N_BLOCKS] += 1
    base = group * GROUP
    for node in range(base + blocked.group_count[group], base + rank, -1):
        move_node(blocked, node - 1, node)
    blocked.group_count[group] += 1
    blocked.node_block[base + rank] = block
    blocked.block_group[block] = group
    blocked.block_rank[block] = rank
    blocked.block_count[block] = 0
    return block


@inlined
def move_row(blocked: BlockedColumns, place: int, to: int) -> None:
    """Copy a row from one place to another."""
    blocked.x[to] = blocked.x[place]
    blocked.y[to] = blocked.y[place]
    blocked.born[to] = blocked.born[place]
    blocked.slot[to] = blocked.slot[place]
    blocked.slot_place[blocked.slot[place]] = to


@lean_kernel
def insert_row(blocked: BlockedColumns, slot: int, x: float, y: float, born: int) -> None:
    """Add a row; there must be capacity. Cost: a logarithmic search, and shifting less than a block."""
    after = find_last(blocked, x, False)
    if blocked.heads[N_GROUPS] == 0:
        group = insert_group(blocked, 0)
        block = insert_block(blocked, group, blocked.group_count[group] + 0)
        place = block * BLOCK
    else:
        place = first_place(blocked) if after < 0 else after + 1
        block = place // BLOCK if after < 0 else after // BLOCK
    base = block * BLOCK
    if blocked.block_count[block] == BLOCK:
        # The new block has no least row yet: none may be queried until both are refreshed.
        upper = insert_block(blocked, blocked.block_group[block] + 0, blocked.block_rank[block] + 1)
        for offset in range(BLOCK - HALF):
            move_row(blocked, base + HALF + offset, upper * BLOCK + offset)
        blocked.block_count[block] = HALF
        blocked.block_count[upper] = BLOCK - HALF
        copied = blocked.block_group[upper] * GROUP + blocked.block_rank[upper]
        blocked.node_place[copied] = upper * BLOCK
        blocked.node_least[copied] = blocked.y[upper * BLOCK]
        refresh_block(blocked, block)
        refresh_block(blocked, upper)
        if place > base + HALF:
            place = upper * BLOCK + place - base - HALF
            block = upper
    for at in range(block * BLOCK + blocked.block_count[block], place, -1):
        move_row(blocked, at - 1, at)
    blocked.x[place], blocked.y[place], blocked.born[place], blocked.slot[place] = x, y, born, slot
    blocked.slot_place[slot] = place
    blocked.block_count[block] += 1
    blocked.heads[N_ROWS] += 1
    refresh_block(blocked, block)


@lean_kernel
def delete_row(blocked: BlockedColumns, slot: int) -> None:
    """Remove an existing row. Cost: shifting less than a block."""
    heads = blocked.heads
    place = int(blocked.slot_place[slot])
    block = place // BLOCK
    blocked.slot_place[slot] = -1
    blocked.block_count[block] -= 1
    heads[N_ROWS] -= 1
    for at in range(place, block * BLOCK + blocked.block_count[block]):
        move_row(blocked, at + 1, at)
    if blocked.block_count[block] > 0:
        refresh_block(blocked, block)
        return
    group = int(blocked.block_group[block])
    blocked.group_count[group] -= 1
    base = group * GROUP
    for node in range(base + blocked.block_rank[block], base + blocked.group_count[group]):
        move_node(blocked, node + 1, node)
    blocked.block_group[block] = heads[FREE_BLOCK]
    heads[FREE_BLOCK] = block
    heads[N_BLOCKS] -= 1
    if blocked.group_count[group] > 0:
        refresh_group(blocked, group)
        return
    heads[N_GROUPS] -= 1
    for at in range(blocked.group_rank[group], heads[N_GROUPS]):
        blocked.top_group[at] = blocked.top_group[at + 1]
        blocked.top_least[at] = blocked.top_least[at + 1]
        blocked.top_place[at] = blocked.top_place[at + 1]
        blocked.group_rank[blocked.top_group[at]] = at
    blocked.group_rank[group] = heads[FREE_GROUP]
    heads[FREE_GROUP] = group


@inlined
def put_row(blocked: BlockedColumns, slot: int, x: float, y: float, born: int) -> None:
    """Insert, move or change the slot's row, or remove it where `born` is negative or x or y is NaN."""
    place = int(blocked.slot_place[slot])
    is_there = born >= 0 and x == x and y == y
    if place >= 0 and is_there and blocked.x[place] == x and blocked.born[place] == born:
        if blocked.y[place] != y:
            change_y(blocked, place, y)
        return
    if place >= 0:
        delete_row(blocked, slot)
    if is_there:
        insert_row(blocked, slot, x, y, born)


@lean_kernel
def put_rows(blocked: BlockedColumns, slots: Ints, x: Floats, y: Floats, born: Longs, begin: int) -> int:
    """Put rows from number `begin` on, in order. Returns where it stopped for lack of capacity."""
    for i in range(begin, len(slots)):
        if not has_capacity(blocked):
            return i
        put_row(blocked, slots[i], x[i], y[i], born[i])
    return len(slots)
