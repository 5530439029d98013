"""The columns of the blocked list of rows.

Rows lie in *blocks* of at most BLOCK, ascending in x; blocks lie in *groups* of at most GROUP; groups lie in
one list. A row's *place* is `block * BLOCK + offset`.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from tocsin.arrays.layout import Column, Size
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

    #: ascending over the places in use
    x: Annotated[Floats, Column(Size("blocks", times=BLOCK))]
    y: Annotated[Floats, Column(Size("blocks", times=BLOCK))]
    #: insertion number, unique
    born: Annotated[Longs, Column(Size("blocks", times=BLOCK))]
    slot: Annotated[Ints, Column(Size("blocks", times=BLOCK))]
    #: place of the slot's row, -1 if absent
    slot_place: Annotated[Ints, Column("slots", fill=-1)]
    #: rows in use, the first ones
    block_count: Annotated[Ints, Column("blocks")]
    #: its group; of a free block, the next free one
    block_group: Annotated[Ints, Column("blocks")]
    #: position in its group
    block_rank: Annotated[Ints, Column("blocks")]
    #: block at `group * GROUP + rank`
    node_block: Annotated[Ints, Column(Size("groups", times=GROUP))]
    #: y of the block's least row
    node_least: Annotated[Floats, Column(Size("groups", times=GROUP))]
    #: place of the block's least row
    node_place: Annotated[Ints, Column(Size("groups", times=GROUP))]
    #: blocks in use, the first ones
    group_count: Annotated[Ints, Column("groups")]
    #: position in the list; of a free group, the next free one
    group_rank: Annotated[Ints, Column("groups")]
    #: the list of groups, in order of x
    top_group: Annotated[Ints, Column("groups")]
    #: y of the group's least row
    top_least: Annotated[Floats, Column("groups")]
    #: place of the group's least row
    top_place: Annotated[Ints, Column("groups")]
    #: counters and free lists
    heads: Annotated[Longs, Column(N_HEADS)]
