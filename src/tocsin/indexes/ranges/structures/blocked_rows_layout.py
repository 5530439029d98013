"""The columns of the blocked list of rows.

Rows lie in *blocks* of at most BLOCK, ascending in x; blocks lie in *groups* of at most GROUP; groups lie in
one list. A row's *place* is `block * BLOCK + offset`.
"""

from __future__ import annotations

from typing import NamedTuple

from tocsin.arrays.types import Floats, Ints, Longs

#: Rows per block, and half of them, which a split leaves.
BLOCK = 64
HALF = 32
#: Blocks per group, and half of them.
GROUP = 64
HALF_GROUP = 32
#: Rows scanned together in a walk.
STRIDE = 16
#: More than any `born`: with y = inf, above every row.
NEVER = 2**63 - 1

#: Positions in `BlockedColumns.heads`.
N_ROWS = 0
N_BLOCKS = 1
FREE_BLOCK = 2
BLOCKS_MADE = 3
N_GROUPS = 4
FREE_GROUP = 5
GROUPS_MADE = 6
N_HEADS = 7


class BlockedColumns(NamedTuple):
    """Rows by place, and the place of each slot's row. No x or y is NaN."""

    #: float64 (blocks * BLOCK,): ascending over the places in use
    x: Floats
    #: float64 (blocks * BLOCK,)
    y: Floats
    #: int64 (blocks * BLOCK,): insertion number, unique
    born: Longs
    #: int32 (blocks * BLOCK,)
    slot: Ints
    #: int32 (slots,): place of the slot's row, -1 if absent
    slot_place: Ints
    #: int32 (blocks,): rows in use, the first ones
    block_count: Ints
    #: int32 (blocks,): its group; of a free block, the next free one
    block_group: Ints
    #: int32 (blocks,): position in its group
    block_rank: Ints
    #: int32 (groups * GROUP,): block at `group * GROUP + rank`
    node_block: Ints
    #: float64 (groups * GROUP,): y of the block's least row
    node_least: Floats
    #: int32 (groups * GROUP,): place of the block's least row
    node_place: Ints
    #: int32 (groups,): blocks in use, the first ones
    group_count: Ints
    #: int32 (groups,): position in the list; of a free group, the next free one
    group_rank: Ints
    #: int32 (groups,): the list of groups, in order of x
    top_group: Ints
    #: float64 (groups,): y of the group's least row
    top_least: Floats
    #: int32 (groups,): place of the group's least row
    top_place: Ints
    #: int64 (N_HEADS,): counters and free lists
    heads: Longs
