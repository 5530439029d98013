"""Columns of the cells: the line that they lie on, and the one-dimensional subscriptions over it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.shared.jit import lean_kernel
from tocsin.indexes.thresholds.lazy_columns import LARGEST

#: Bits of a cell's number that tell its place in its block.
BLOCK_BITS = 4
#: Cells of a block, and how many of them have an even number.
BLOCK = 1 << BLOCK_BITS
EVEN = BLOCK // 2
#: Stretches of the line, at most; their counters fit the smallest cache.
STRETCHES = 2048
#: Edges that are compared with a value without a branch.
AHEAD = 4


class CellColumns(NamedTuple):
    """The line. Cell c holds the values with c edges at or below them."""

    #: float64 (edges + AHEAD,): where cells begin, ascending and distinct; then NaN.
    edges: Floats
    #: int32 (buckets + 1,): edges in the buckets before; buckets are equally long pieces of the line.
    bucket_edges: Ints
    #: float64 (2,): where buckets begin, and how many there are to a unit of length.
    bucket_scale: Floats
    #: float64 (2,): ticks to a unit of length, or 0, and the number of the first. Bounds are often whole
    #: multiples of some unit. Edges then are -inf and, of each tick, itself and the double above it, so that
    #: a value's cell can be computed: values on ticks have even ones.
    tick_scale: Floats
    #: int64 (blocks, 2, BLOCK / 2): weight counted, by cell. Of each block the even cells come first: in a
    #: line of the cache, values on ticks meet nothing but such.
    weights: Longs
    #: int64 (blocks,): weight counted, by block.
    block_weights: Longs
    #: int64 (blocks + 1,): sum of the weights before the block, as of the last `sum_blocks`.
    block_sums: Longs
    #: int64 (stretches,): weight by stretch, a row of blocks, of all events, in the cells or not yet.
    stretch_weights: Longs
    #: int64 (stretches + 1,): sum of the weights before, as of the last `sum_stretches`.
    stretch_sums: Longs
    #: int64 (1,): bits of a cell's number that tell its place in its stretch.
    stretch_bits: Longs


class RangeColumns(NamedTuple):
    """The subscriptions. Members lie group by group; the member at place p is in group p // GROUP."""

    #: int32 (places,): first cell inside, and first cell beyond.
    begin: Ints
    end: Ints
    #: uint64 (places,): the weight between `begin` and `end` at which the member matures.
    mark: NDArray[np.uint64]
    #: int32 (places,): slot of the subscription; -1 at a free place.
    slot: Ints
    #: int32 (groups,): first block that some member meets, and first beyond.
    cover_begin: Ints
    cover_end: Ints
    #: int32 (groups,): first stretch of the cover, and first beyond.
    stretch_begin: Ints
    stretch_end: Ints
    #: int64 (groups,): what the nearest member needed when the group was last checked, or less.
    slack: Longs
    #: int64 (groups,): the weight of the cover then, and of its stretches.
    base: Longs
    stretch_base: Longs
    #: int64 (groups,): the clock before which no member can mature.
    due: Longs
    #: int64 (groups,): halfway there. From here on it is checked along with others that are due.
    ripe: Longs


class LateColumns(NamedTuple):
    """Events that are counted by stretch only, and who may have matured at the last of them."""

    #: int32, int64 (events,): their cells and weights.
    cells: Ints
    weights: Longs
    #: int32 (groups,): groups in which someone may have matured.
    groups: Ints
    #: int64 (1,): the clock before which no member can mature.
    due: Longs


@lean_kernel
def add_saturated(one: int, other: int) -> int:
    """The sum of two that are not negative, or the largest int64."""
    return one + other if one <= LARGEST - other else LARGEST


@lean_kernel
def set_due(ranges: RangeColumns, group: int, clock: int, missing: int) -> None:
    """The group is due when the clock has gone on by what is missing."""
    ranges.due[group] = add_saturated(clock, missing)
    ranges.ripe[group] = add_saturated(clock, missing >> 1)
