"""Columns of deferred thresholds: slots and log, box groups, histogram cells."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.arrays.layout import Column, Size
from tocsin.arrays.types import Bools, Bytes, Floats, Ints, Longs
from tocsin.indexes.thresholds.layout import LARGEST

#: Subscriptions per group.
GROUP = 256
#: Cells of the grid of box groups, along an axis.
GRID = 128
#: Events per chunk of the log, and per block of a chunk.
CHUNK = 4096
BLOCK = 64

#: `SlotColumns.place` of a slot that holds no subscription.
NO_PLACE = -1
#: … of one that has matured for good; its `tau` is the weight that it reached.
MATURED = -2
#: … of one with an empty box, which never matures.
EMPTY_BOX = -3
#: … of one in the ingest buffer.
BUFFERED = -4
#: Places from here on are in the cells, smaller ones in the box groups,
IN_CELLS = 0x40000000
#: and all of them are below this.
PLACE_LIMIT = 0x7FFFFFFF

#: Entries of `LogColumns.state`: events in the log,
LENGTH = 0
#: weight of all events since the clock was last reset,
CLOCK = 1
#: the clock at which some group may have matured,
DUE = 2
#: where the current batch begins in the log,
BATCH = 3
#: how many events of the batch have been read,
READ = 4
#: how many events of the log the grid of the box groups covers,
GRIDDED = 5
#: and how many have been sorted into chunks.
SORTED = 6
STATE = 7


class SlotColumns(NamedTuple):
    """One row a subscription slot."""

    #: a bit each, whether it holds a subscription. Bits, so that they stay in the cache.
    is_there: Annotated[Bytes, Column("bytes")]
    #: where it is counted: a place in the box groups or the cells, or a negative code. A
    #: terminated subscription releases its place later, which is cheaper: in the box groups when members are
    #: counted; in the cells when its slot is reused, or the cells are rebuilt or compacted.
    place: Annotated[Ints, Column("slots", fill=NO_PLACE)]
    #: scaled weight to reach.
    tau: Annotated[Longs, Column("slots")]
    #: a bit each, whether it starts again from 0 after maturing.
    is_repeating: Annotated[Bytes, Column("bytes")]


class LogColumns(NamedTuple):
    """Events that some subscription has not been compared with yet.

    In arrival order, except for the first SORTED: those are in chunks of CHUNK, which are in order. A chunk's
    events are sorted by the first axis into blocks of BLOCK, and a block's by the second.
    """

    #: coordinates, never NaN.
    values: Annotated[Floats, Column("axes", "events")]
    #: positive weights.
    weights: Annotated[Longs, Column("events")]
    #: position in the batch, of the current batch's events; of a sorted event, the number
    #: of events that were logged before it.
    steps: Annotated[Ints, Column("events")]
    #: of a sorted event, the weight of the preceding ones in its block.
    sums: Annotated[Longs, Column("events")]
    #: smallest and largest first coordinate of a sorted block.
    block_low: Annotated[Floats, Column("blocks")]
    block_high: Annotated[Floats, Column("blocks")]
    #: see LENGTH … SORTED.
    state: Annotated[Longs, Column(STATE)]


class BoxGroupColumns(NamedTuple):
    """Members group by group: the member at place p is in group p // GROUP.

    A box is stored as one bound a side: 2 * axis is the low side of an axis, and 2 * axis + 1 the high side,
    negated. A value is inside if it is not below the bound on any low side, and its negative not below the
    bound on any high side.
    """

    #: bound of the box; +inf at a free place.
    bound: Annotated[Floats, Column(Size("axes", times=2), Size("groups", times=GROUP), fill=np.inf)]
    #: scaled weight missing when the group was last evaluated; positive.
    need: Annotated[Longs, Column(Size("groups", times=GROUP), fill=LARGEST)]
    #: weight inside of the log's events up to `log_position`, if `covers_log`.
    counted: Annotated[Longs, Column(Size("groups", times=GROUP))]
    #: slot of the subscription; -1 at a free place.
    slot: Annotated[Ints, Column(Size("groups", times=GROUP), fill=NO_PLACE)]
    #: on each side the members' bounds, ascending, as last fitted,
    sorted_bounds: Annotated[Floats, Column("groups", Size("axes", times=2 * GROUP), fill=np.inf)]
    #: and the rank of each member's own bound.
    bound_ranks: Annotated[Bytes, Column("groups", Size("axes", times=2 * GROUP))]
    #: the cover, smallest of the bounds.
    cover: Annotated[Floats, Column(Size("axes", times=2), "groups", fill=np.inf)]
    #: the core, largest of the bounds; the core may be empty.
    core: Annotated[Floats, Column(Size("axes", times=2), "groups", fill=-np.inf)]
    #: lower bound of the members' needs.
    slack: Annotated[Longs, Column("groups", fill=LARGEST)]
    #: the clock before which no member can mature.
    due: Annotated[Longs, Column("groups", fill=LARGEST)]
    #: halfway there: from then on the group is checked along with others that are due.
    half_due: Annotated[Longs, Column("groups", fill=LARGEST)]
    #: events of the log that the members have been compared with.
    log_position: Annotated[Longs, Column("groups")]
    #: no member is newer than the log.
    covers_log: Annotated[Bools, Column("groups")]
    #: `grid_weight` of the cover when the group was last evaluated.
    base_weight: Annotated[Longs, Column("groups")]
    #: first and last grid cell of the cover, on the first and on the second axis.
    cover_cells: Annotated[Ints, Column(4, "groups")]
    #: where grid cells begin, ascending and inclusive.
    grid_edges: Annotated[Floats, Column(2, GRID - 1, fill=np.inf)]
    #: weight by cell of the first GRIDDED events of the log.
    grid_weights: Annotated[Longs, Column(GRID, GRID)]
    #: its two-dimensional prefix sums.
    grid_sums: Annotated[Longs, Column(GRID + 1, GRID + 1)]


class GroupScratch(NamedTuple):
    """Working memory to evaluate groups."""

    #: events in the cover; those outside of some members on one side only, and the side.
    events: Annotated[Ints, Column("events", fill=None)]
    singles: Annotated[Ints, Column("events", fill=None)]
    single_sides: Annotated[Ints, Column("events", fill=None)]
    #: coordinates of the batch's events in the cover, and their weights.
    near_values: Annotated[Floats, Column("axes", "new_events", fill=None)]
    near_weights: Annotated[Longs, Column("new_events", fill=None)]
    #: the core of a group, and the bound of a member.
    core: Annotated[Floats, Column(Size("axes", times=2), fill=None)]
    bound: Annotated[Floats, Column(Size("axes", times=2), fill=None)]
    #: which members hold an event.
    is_inside: Annotated[Bools, Column(GROUP, fill=None)]
    #: weight held by a prefix of members in the order of a bound; 0 between calls.
    gains: Annotated[Longs, Column(Size("axes", times=2), GROUP + 1)]
    #: weight that each member holds.
    sums: Annotated[Longs, Column(GROUP, fill=None)]


#: Bits of a cell's number that are its place in its block.
BLOCK_BITS = 4
#: Cells per block, and how many of them have an even number.
CELL_BLOCK = 1 << BLOCK_BITS
EVEN = CELL_BLOCK // 2
#: Segments of the line, at most; their counters fit the first-level cache.
MAX_SEGMENTS = 2048
#: Edges that are compared with a value without a branch.
AHEAD = 4


class HistogramColumns(NamedTuple):
    """The line, cut into cells. Cell c holds the values with c edges at or below them."""

    #: where cells begin, ascending and distinct; then NaN.
    edges: Annotated[Floats, Column(Size("edges", plus=AHEAD), fill=np.nan)]
    #: edges in the preceding buckets; buckets divide the line evenly.
    bucket_edges: Annotated[Ints, Column(Size("buckets", plus=1))]
    #: where buckets begin, and how many there are per unit of length.
    bucket_scale: Annotated[Floats, Column(2)]
    #: ticks per unit of length, or 0, and the number of the first. Bounds are often whole
    #: multiples of some unit. Edges then are -inf and, for each tick, the tick and the next double, so that a
    #: value's cell can be computed: values on ticks have even ones.
    tick_scale: Annotated[Floats, Column(2)]
    #: weight counted, by cell. The even cells of a block come first, so
    #: that values on ticks share cache lines.
    weights: Annotated[Longs, Column("blocks", 2, EVEN)]
    #: weight counted, by block.
    block_weights: Annotated[Longs, Column("blocks")]
    #: sum of the weights before the block, as of the last `sum_blocks`.
    block_sums: Annotated[Longs, Column(Size("blocks", plus=1))]
    #: weight by segment, a run of blocks, of all events, pending ones included.
    segment_weights: Annotated[Longs, Column("segments")]
    #: sum of the weights before the segment, as of the last `sum_segments`.
    segment_sums: Annotated[Longs, Column(Size("segments", plus=1))]
    #: bits of a cell's number that are its place in its segment.
    segment_bits: Annotated[Longs, Column(1)]


class CellRangeColumns(NamedTuple):
    """Members group by group: the member at place p is in group p // GROUP."""

    #: first cell inside, and first cell beyond.
    begin: Annotated[Ints, Column(Size("groups", times=GROUP))]
    end: Annotated[Ints, Column(Size("groups", times=GROUP))]
    #: the weight between `begin` and `end` at which the member matures.
    target: Annotated[NDArray[np.uint64], Column(Size("groups", times=GROUP))]
    #: slot of the subscription; -1 at a free place.
    slot: Annotated[Ints, Column(Size("groups", times=GROUP), fill=NO_PLACE)]
    #: first block that some member intersects, and first beyond.
    cover_begin: Annotated[Ints, Column("groups")]
    cover_end: Annotated[Ints, Column("groups")]
    #: first segment of the cover, and first beyond.
    segment_begin: Annotated[Ints, Column("groups")]
    segment_end: Annotated[Ints, Column("groups")]
    #: lower bound of the members' needs when the group was last checked.
    slack: Annotated[Longs, Column("groups")]
    #: the weight of the cover then, and of its segments.
    base_weight: Annotated[Longs, Column("groups")]
    segment_base_weight: Annotated[Longs, Column("groups")]
    #: the clock before which no member can mature.
    due: Annotated[Longs, Column("groups")]
    #: halfway there: from then on the group is checked along with others that are due.
    half_due: Annotated[Longs, Column("groups")]


class PendingColumns(NamedTuple):
    """Events that are counted by segment only, and the groups that may be due at the last of them."""

    #: their cells and weights.
    cells: Annotated[Ints, Column("events")]
    weights: Annotated[Longs, Column("events")]
    #: groups in which some member may have matured.
    groups: Annotated[Ints, Column("groups", fill=None)]
    #: the clock before which no member can mature.
    due: Annotated[Longs, Column(1, fill=LARGEST)]
